"""Tables from OpenML through scikit-learn, which is an extra; errors say what is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics.checks import Array


def sklearn_module(module: str) -> Any:
    """A module of scikit-learn, which the extra ``data`` brings.

    Raises
    ------
    ImportError
        scikit-learn is not installed.
    """
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise ImportError("data sets need scikit-learn: pip install 'corrnoise[data]'") from error


def openml_table(
    identifier: int, name: str, cache: str | None, without: tuple[str, ...] = ()
) -> tuple[Array, NDArray[Any], list[str]]:
    """Features, targets and names of columns of a table, ``without`` some columns, then without rows that miss a value.

    Raises
    ------
    OSError
        OpenML cannot be reached.
    """
    datasets = sklearn_module("datasets")
    try:
        bunch = datasets.fetch_openml(data_id=identifier, data_home=cache, as_frame=False, parser="liac-arff")
    except Exception as error:  # scikit-learn raises errors of many kinds here
        raise OSError(
            f"{name} could not be fetched from OpenML ({error}); without a connection use a bundled data set"
        ) from error
    names = list(bunch.feature_names)
    kept = [k for k, column in enumerate(names) if column.lower() not in without]
    features = np.asarray(bunch.data)[:, kept].astype(float)
    targets = np.asarray(bunch.target)
    complete = np.isfinite(features).all(axis=1)
    return features[complete], targets[complete], [names[k] for k in kept]
