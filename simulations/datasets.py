"""The data sets of all experiments by name: three that scikit-learn carries, the others from OpenML on request.

Nothing here opens a connection unless it is allowed to (``download=True``).  How the records are split, scaled and
labelled differs between the papers and stays with their experiments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors


class Table(NamedTuple):
    """Features, shape (n, d), targets as the source has them, shape (n,), and the d names of columns.

    Parameters
    ----------
    features : array of float
        Shape (n, d).
    targets : array
        As in the source, shape (n,).
    columns : list of str
        Names of the d columns.
    """

    features: Array
    targets: NDArray[Any]
    columns: list[str]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table) or self.columns != other.columns:
            return False
        return np.array_equal(self.features, other.features) and np.array_equal(self.targets, other.targets)

    def __ne__(self, other: object) -> bool:
        return not self == other


@dataclass(frozen=True)
class DataSet:
    """A source of records."""

    source: str  #: the words that name it
    read: Callable[[str | None], Table]  #: the function that reads it; it takes the folder of fetched files
    downloaded: bool = False  #: whether the records are fetched
    #: the bundled data set that takes its place without a connection; empty if it is bundled, or if none does
    stand_in: str = ""


def scikit_learn() -> Any:
    """The module ``sklearn.datasets``."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError("data sets need scikit-learn: pip install 'corrnoise[data]'") from error
    return datasets


def _bundled(loader: str) -> DataSet:
    def read(_: str | None) -> Table:
        bunch = getattr(scikit_learn(), loader)()
        return Table(bunch.data, bunch.target, list(bunch.feature_names))

    return DataSet(f"scikit-learn, {loader}", read)


def _openml(identifier: int, stand_in: str = "", *, without: tuple[str, ...] = ()) -> DataSet:
    """A table of OpenML, ``without`` some columns (in lower case), and then without rows that miss a value."""

    def read(cache: str | None) -> Table:
        logging.getLogger(__name__).info("data set %d is fetched from OpenML, if it is not in the cache", identifier)
        bunch = scikit_learn().fetch_openml(data_id=identifier, data_home=cache, as_frame=False, parser="liac-arff")
        names = list(bunch.feature_names)
        kept = [k for k, column in enumerate(names) if column.lower() not in without]
        features = np.asarray(bunch.data)[:, kept].astype(float)
        complete = np.isfinite(features).all(axis=1)
        return Table(features[complete], np.asarray(bunch.target)[complete], [names[k] for k in kept])

    return DataSet(f"OpenML {identifier}", read, True, stand_in)


DATA_SETS = {
    "digits": _bundled("load_digits"),
    "breast cancer": _bundled("load_breast_cancer"),
    "diabetes": _bundled("load_diabetes"),
    "MNIST": _openml(554, "digits"),
    "CIFAR-10": _openml(40927),
    # names and codes of places predict nothing, and most of them are missing
    "Crime": _openml(42730, "diabetes", without=("county", "community", "communityname")),
    "COMPAS": _openml(42193, "breast cancer"),
    "CreditCard": _openml(42477, "breast cancer"),
    "electricity": _openml(151, "breast cancer"),
    "MAGIC telescope": _openml(1120, "breast cancer"),
}


@usual_float_errors
def load(name: str, *, download: bool = False, cache: str | None = None) -> Table:
    """The records of a data set.

    Parameters
    ----------
    name : str
        One of ``DATA_SETS``.
    download : bool, default False
        Whether records may be fetched from OpenML.
    cache : str, optional
        Folder of fetched files; None for the folder of scikit-learn.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If the name is unknown, or the data set needs a download that was not allowed.
    OSError
        If OpenML cannot be reached.
    ImportError
        If scikit-learn is not installed (extra ``data``).

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.datasets.load("breast cancer").features.shape
    (569, 30)
    """
    entry = DATA_SETS[checks.choice("name", name, tuple(DATA_SETS))]
    if not entry.downloaded:
        return entry.read(cache)
    instead = f"; its bundled stand-in is {entry.stand_in!r}" if entry.stand_in else ""
    if not checks.boolean("download", download):
        raise ValueError(f"download must be True for {name!r}, which is fetched from {entry.source}{instead}")
    try:
        return entry.read(cache)
    except ImportError:
        raise
    except Exception as error:  # scikit-learn raises errors of many kinds here
        raise OSError(f"{name} could not be fetched from OpenML ({error}){instead}") from error


@usual_float_errors
def standardised(columns: Array) -> Array:
    """``columns``, shape (n, d), with mean 0 and variance 1; constant ones become 0.

    Means and spreads come from the records, and no accountant covers them: for a release they must be public.

    Parameters
    ----------
    columns : array of float
        Shape (n, d).

    Returns
    -------
    array of float
    """
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
