"""Where data sets come from: those that scikit-learn carries, and those of OpenML, which are fetched through it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics.checks import Array


def scikit_learn() -> Any:
    """The module ``sklearn.datasets``.

    Raises
    ------
    ImportError
        scikit-learn is not installed (extra ``data``).
    """
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError("data sets need scikit-learn: pip install 'corrnoise[data]'") from error
    return datasets


def from_openml(
    identifier: int, name: str, cache: str | None, without: tuple[str, ...] = ()
) -> tuple[Array, NDArray[Any], list[str]]:
    """Features, targets and names of columns, ``without`` some columns, and then without rows that miss a value.

    Parameters
    ----------
    identifier, name
        Of the data set.
    cache
        Folder for what is fetched; None for that of scikit-learn.
    without
        Names of columns in lower case.

    Raises
    ------
    OSError
        OpenML cannot be reached.
    """
    datasets = scikit_learn()
    try:
        bunch = datasets.fetch_openml(data_id=identifier, data_home=cache, as_frame=False, parser="liac-arff")
    except Exception as error:  # scikit-learn raises errors of many kinds here
        raise OSError(
            f"{name} could not be fetched from OpenML ({error}); without a connection use its bundled stand-in"
        ) from error
    names = list(bunch.feature_names)
    kept = [k for k, column in enumerate(names) if column.lower() not in without]
    features = np.asarray(bunch.data)[:, kept].astype(float)
    targets = np.asarray(bunch.target)
    complete = np.isfinite(features).all(axis=1)
    return features[complete], targets[complete], [names[k] for k in kept]
