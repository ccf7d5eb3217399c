"""Data sets for private momentum: two that scikit-learn carries, and larger ones from OpenML on request.

A data set becomes examples a = y x: its features standardised, a constant appended, rows scaled to length 1, times the
label ±1.  Means and spreads of the features are taken from the data, which no accountant covers: for a release they
must be public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.data_sources import from_openml, scikit_learn
from corrnoise.theory.losses import EmpiricalRisk, MarginLink, MarginLoss, TwoLayerNetwork
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

REGULARISATION = 0.02


@dataclass(frozen=True)
class DataSet:
    """A data set: where it comes from, what the label 1 means, and how features and labels are read."""

    source: str
    positive: str
    read: Callable[[str | None], tuple[Array, NDArray[np.bool_]]]

    @property
    def downloaded(self) -> bool:
        """Whether it comes from OpenML."""
        return self.source.startswith("OpenML")


def _breast_cancer(_: str | None) -> tuple[Array, NDArray[np.bool_]]:
    data = scikit_learn().load_breast_cancer()
    return data.data, data.target == 1


def _digits(_: str | None) -> tuple[Array, NDArray[np.bool_]]:
    data = scikit_learn().load_digits()
    return data.data, data.target >= 5


def _mnist(cache: str | None) -> tuple[Array, NDArray[np.bool_]]:
    features, targets, _ = from_openml(554, "mnist_784", cache)
    return features, targets.astype(int) >= 5


def _electricity(cache: str | None) -> tuple[Array, NDArray[np.bool_]]:
    features, targets, _ = from_openml(151, "electricity", cache)
    return features, targets == "UP"


def _magic(cache: str | None) -> tuple[Array, NDArray[np.bool_]]:
    features, targets, _ = from_openml(1120, "MagicTelescope", cache)
    return features, targets == "g"


DATA_SETS = {
    "breast cancer": DataSet("scikit-learn, load_breast_cancer", "benign", _breast_cancer),
    "digits": DataSet("scikit-learn, load_digits", "5 to 9", _digits),
    "MNIST": DataSet("OpenML 554", "5 to 9", _mnist),
    "electricity": DataSet("OpenML 151", "price goes up", _electricity),
    "MAGIC telescope": DataSet("OpenML 1120", "gamma", _magic),
}
BUNDLED = tuple(name for name, entry in DATA_SETS.items() if not entry.downloaded)


def examples(name: str, *, download: bool = False, cache: str | None = None) -> Array:
    """The examples a = y x of a data set, shape (N, features), each of norm 1.

    Parameters
    ----------
    name
        One of ``DATA_SETS``.
    download
        Whether records may be fetched from OpenML; nothing opens a connection otherwise.
    cache
        Folder for what is fetched; None for that of scikit-learn.

    Raises
    ------
    ValueError
        The name is unknown, or the data set needs a download that was not allowed.
    OSError
        OpenML cannot be reached.
    ImportError
        scikit-learn is not installed (extra ``data``).
    """
    entry = DATA_SETS[checks.choice("name", name, tuple(DATA_SETS))]
    if entry.downloaded and not download:
        raise ValueError(f"name {name!r} is fetched from {entry.source}: allow it with download=True, or use {BUNDLED}")
    features, positive = entry.read(cache)
    if positive.all() or not positive.any():
        raise ValueError(f"the labels of {name!r} must be of two kinds, got one: {entry.source} has changed")
    spread = features.std(axis=0)
    rows = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    rows = np.column_stack([rows, np.ones(len(rows))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.where(positive, 1.0, -1.0)[:, np.newaxis] * rows)


def momentum_risk(
    name: str,
    *,
    link: MarginLink = "sigmoid",
    hidden: int | None = None,
    regularisation: float = REGULARISATION,
    download: bool = False,
    cache: str | None = None,
) -> EmpiricalRisk:
    """The risk of a classifier on a data set.

    Parameters
    ----------
    name, download, cache
        As for ``examples``.
    link
        ``"sigmoid"``, ``"logistic"`` or ``"squares"``.
    hidden
        Number of hidden units of a network; None for a linear classifier.
    regularisation
        λ >= 0 of the pseudo-Huber regulariser, which keeps minima from running off to infinity.  A network has a
        stationary point at 0, which attracts runs if λ is as large as the default: take a tenth of it.

    Examples
    --------
    >>> risk = momentum_risk("breast cancer")
    >>> risk.examples.shape, round(float(np.linalg.norm(risk.gradients(np.zeros(31)))), 4)
    ((569, 31), 0.1364)
    """
    rows = examples(name, download=download, cache=cache)
    features = rows.shape[1]
    loss = (
        MarginLoss(link, features, 1.0)
        if hidden is None
        else TwoLayerNetwork(link, features, 1.0, checks.integer("hidden", hidden, 1))
    )
    return EmpiricalRisk(loss, rows, regularisation)
