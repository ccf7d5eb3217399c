"""The data sets of the shuffled-gradient experiments, and bundled stand-ins of the same shape.

A data set is split into private and public records that are unlike each other: another class, another group, a
rotation.  Those of the paper come from OpenML, and only on request (``download=True``): nothing here opens a connection
otherwise.  Stand-ins are made from data that scikit-learn carries, and say so in their names.

References
----------
Jiang, Sharma, Wu and Joshi, 2026: Section 6, Appendix H.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.data_sources import from_openml, scikit_learn
from corrnoise.theory.losses import LinearLink, LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.shuffled_gradients.task import Regulariser, Task

_BALL = Regulariser("ball", 10.0)
_RIDGE = Regulariser("ridge", 0.1)
_LASSO = Regulariser("lasso", 0.1)

_NOT_PREDICTIVE = ("county", "community", "communityname")  # of Crime: names and codes of places, most of them missing

Split = tuple[Array, Array, Array, Array]  # private features and targets, public features and targets


@dataclass(frozen=True)
class DataSet:
    """A data set: its source, what it stands in for (empty if it is the paper's own), and how it is split.

    ``feature_norm`` bounds the features of admissible private records, and is part of the problem, not of the data:
    longer ones are scaled down to it.  ``rotation`` is the scale s of public features turned by I + s N(0, 1), or None
    where nothing is turned.
    """

    name: str
    source: str
    stand_in_for: str
    link: LinearLink
    regulariser: Regulariser
    split: Callable[..., Split]
    feature_norm: float
    rotation: float | None = None

    @property
    def downloaded(self) -> bool:
        """Whether the records come from OpenML."""
        return self.source.startswith("OpenML")

    def smoothness(self, task: Task) -> float:
        """A bound of the smoothness of all admissible private records, and of the public ones of its ``task``."""
        public = float(task.loss.smoothness_of(task.public_features).max(initial=0.0))
        return max(float(task.loss.smoothness_of(np.array([[self.feature_norm]]))[0]), public)


def _standardised(features: Array) -> Array:
    """Columns with mean 0 and variance 1; constant ones become 0."""
    spread = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1))


def _no_targets(private: Array, public: Array) -> Split:
    return private, np.zeros(len(private)), public, np.zeros(len(public))


# -- bundled -----------------------------------------------------------------------------------------------------------


def _digits() -> Split:
    digits = scikit_learn().load_digits()
    images = digits.images / 16
    labels = digits.target
    private = images[labels == 6][:180].reshape(180, -1)
    public = images[labels == 9][:180, ::-1, ::-1].reshape(180, -1)
    return _no_targets(private, public)


def _diabetes() -> tuple[Array, Array, Array]:
    """Standardised features without sex, standardised responses, and sex."""
    data = scikit_learn().load_diabetes()
    features = np.delete(data.data, 1, axis=1)
    sex = data.data[:, 1]
    return _standardised(features), _standardised(data.target[:, np.newaxis])[:, 0], sex


def _diabetes_by_sex() -> Split:
    features, response, sex = _diabetes()
    private, public = (np.nonzero(group)[0][:200] for group in (sex > 0, sex <= 0))
    return features[private], response[private], features[public], response[public]


def _halves(features: Array, targets: Array, most: int, rotation: float) -> Split:
    """Two random halves of at most ``most`` records, the features of the second turned by I + rotation N(0, 1)."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(features))
    half = min(len(features) // 2, most)
    private, public = order[:half], order[half : 2 * half]
    turn = np.eye(features.shape[1]) + rotation * rng.standard_normal((features.shape[1],) * 2)
    return features[private], targets[private], features[public] @ turn, targets[public]


def _diabetes_rotated(rotation: float) -> Split:
    features, response, _ = _diabetes()
    return _halves(features, response, 200, rotation)


def _breast_cancer() -> Split:
    data = scikit_learn().load_breast_cancer()
    features = _standardised(data.data)
    labels = np.where(data.target == 1, 1.0, -1.0)
    benign = np.nonzero(labels > 0)[0]
    malignant = np.nonzero(labels < 0)[0]
    private = np.concatenate([malignant[:100], benign[:100]])
    public = np.concatenate([malignant[100:110], benign[100:290]])
    return features[private], labels[private], features[public], labels[public]


# -- from OpenML -------------------------------------------------------------------------------------------------------


def _mnist(cache: str | None) -> Split:
    features, targets, _ = from_openml(554, "mnist_784", cache)
    images = features.reshape(-1, 28, 28) / 255
    labels = targets.astype(int)
    private = images[labels == 6][:1000]
    public = images[labels == 9][:1000, ::-1, ::-1]
    return _no_targets(private.reshape(len(private), -1), public.reshape(len(public), -1))


def _cifar(cache: str | None) -> Split:
    features, targets, _ = from_openml(40927, "CIFAR_10", cache)
    labels = targets.astype(int)
    private = np.concatenate([np.nonzero(labels == c)[0][:100] for c in range(10)])
    public = np.concatenate([np.nonzero(labels == c)[0][100:350] for c in range(4)])
    scaled = features / 255
    return scaled[private], labels[private].astype(float), scaled[public], labels[public].astype(float)


def _crime(cache: str | None, rotation: float) -> Split:
    """With the rotation that is printed, I + N(0, 1), which is not a small one."""
    features, targets, _ = from_openml(42730, "us_crime", cache, _NOT_PREDICTIVE)
    return _halves(features, targets.astype(float), len(features), rotation)


def _compas(cache: str | None) -> Split:
    features, targets, names = from_openml(42193, "compas-two-years", cache)
    race = [k for k, name in enumerate(names) if name.startswith("race")]
    caucasian = features[:, next(k for k in race if "Caucasian" in names[k])] == 1
    rows = _standardised(np.delete(features, race, axis=1))
    labels = np.where(targets.astype(int) == 1, 1.0, -1.0)
    private = np.nonzero(caucasian)[0]
    public = np.nonzero(~caucasian)[0][: private.size]
    return rows[private], labels[private], rows[public], labels[public]


def _credit(cache: str | None) -> Split:
    features, targets, names = from_openml(42477, "default-of-credit-card-clients", cache)
    column = names.index("x3")
    education = features[:, column]
    rows = _standardised(np.delete(features, column, axis=1))
    labels = np.where(targets.astype(int) == 1, 1.0, -1.0)

    def chosen(group: NDArray[np.bool_], defaults: int, others: int) -> NDArray[np.int64]:
        return np.concatenate(
            [np.nonzero(group & (labels > 0))[0][:defaults], np.nonzero(group & (labels < 0))[0][:others]]
        )

    private, public = chosen(education >= 3, 100, 100), chosen(education == 2, 10, 190)
    return rows[private], labels[private], rows[public], labels[public]


DATA_SETS = {
    entry.name: entry
    for entry in (
        DataSet("digits-69 (stand-in)", "scikit-learn, load_digits", "MNIST-69", "mean", _BALL, _digits, 8.0),
        DataSet(
            "diabetes by sex (stand-in)",
            "scikit-learn, load_diabetes",
            "Crime",
            "squares",
            _RIDGE,
            _diabetes_by_sex,
            7.0,
        ),
        DataSet(
            "diabetes rotated (stand-in)",
            "scikit-learn, load_diabetes",
            "Crime",
            "squares",
            _RIDGE,
            _diabetes_rotated,
            7.0,
            0.3,
        ),
        DataSet(
            "breast cancer (stand-in)",
            "scikit-learn, load_breast_cancer",
            "COMPAS, CreditCard",
            "logistic",
            _LASSO,
            _breast_cancer,
            20.0,
        ),
        DataSet("MNIST-69", "OpenML 554", "", "mean", _BALL, _mnist, 28.0),
        DataSet("CIFAR-10", "OpenML 40927", "", "squares", _RIDGE, _cifar, 55.5),
        DataSet("Crime", "OpenML 42730", "", "squares", _RIDGE, _crime, 60.0, 1.0),
        DataSet("COMPAS", "OpenML 42193", "", "logistic", _LASSO, _compas, 10.0),
        DataSet("CreditCard", "OpenML 42477", "", "logistic", _LASSO, _credit, 20.0),
    )
}
BUNDLED = tuple(name for name, entry in DATA_SETS.items() if not entry.downloaded)


def task(name: str, *, download: bool = False, cache: str | None = None, rotation: float | None = None) -> Task:
    """The task of a data set, one of ``DATA_SETS``.

    Parameters
    ----------
    name
        Its name; stand-ins are called so.
    download
        Whether records may be fetched from OpenML.
    cache
        Folder for what is fetched; None for that of scikit-learn.
    rotation
        Scale of the rotation of public features, for the data sets that have one; None for that of the data set.

    Raises
    ------
    ValueError
        The name is unknown, the data set needs a download that was not allowed, or nothing of it is rotated.
    OSError
        OpenML cannot be reached.
    ImportError
        scikit-learn is not installed (extra ``data``).
    """
    entry = DATA_SETS[checks.choice("name", name, tuple(DATA_SETS))]
    if entry.downloaded and not download:
        raise ValueError(f"name {name!r} is fetched from {entry.source}: allow it with download=True, or use {BUNDLED}")
    arguments: list[Any] = [cache] if entry.downloaded else []
    if entry.rotation is not None:
        arguments.append(entry.rotation if rotation is None else checks.real("rotation", rotation, "[0, inf)"))
    elif rotation is not None:
        raise ValueError(f"rotation must be None for {name!r}, of which nothing is rotated, got {rotation!r}")
    features, targets, public_features, public_targets = entry.split(*arguments)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    admissible = np.where(
        lengths > entry.feature_norm, features * (entry.feature_norm / np.maximum(lengths, 1e-300)), features
    )
    loss = LinearLoss(entry.link, features.shape[1], scale=2.0 if entry.link == "squares" else 1.0)
    return Task(loss, entry.regulariser, admissible, targets, public_features, public_targets)
