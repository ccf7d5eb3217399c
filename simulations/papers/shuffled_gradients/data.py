"""The data sets of the shuffled-gradient experiments, and bundled stand-ins of the same shape.

A data set is split into private and public records that are unlike each other: another class, another group, a
rotation.  The data sets of the paper come from OpenML, and only on request (``download=True``).  Stand-ins are made
from data that scikit-learn carries, and say so in their names.

Source: Jiang, Sharma, Wu and Joshi, 2026: Section 6, Appendix H.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.datasets import DATA_SETS, Table, load, standardised
from corrnoise.theory.losses import LinearLink, LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.papers.shuffled_gradients.task import Regulariser, Task

_BALL_REGULARISER = Regulariser("ball", 10.0)
_RIDGE_REGULARISER = Regulariser("ridge", 0.1)
_LASSO_REGULARISER = Regulariser("lasso", 0.1)

Parts = tuple[Array, Array, Array, Array]  # private features and targets, public features and targets


@dataclass(frozen=True)
class Split:
    """A data set of an experiment: the records that it is made of, and how they are split."""

    data: str  #: its name in ``datasets.DATA_SETS``
    link: LinearLink
    regulariser: Regulariser
    parts: Callable[[Table], Parts]  #: splits the table
    #: A bound of the features of admissible private records, part of the problem, not of the data: longer ones are
    #: scaled down to it.
    feature_norm: float

    @property
    def downloaded(self) -> bool:
        """Whether the records come from OpenML."""
        return DATA_SETS[self.data].downloaded

    @property
    def stand_in_for(self) -> str:
        """The paper's data sets that it takes the place of; empty for a data set of the paper."""
        return ", ".join(name for name, split in SPLITS.items() if DATA_SETS[split.data].stand_in == self.data)

    def smoothness(self, task: Task) -> float:
        """A bound of the smoothness of all admissible private records, and of the public ones of its ``task``."""
        public = float(task.loss.smoothness_of(task.public_features).max(initial=0.0))
        return max(float(task.loss.smoothness_of(np.array([[self.feature_norm]]))[0]), public)


def _six_and_nine(white: int, most: int) -> Callable[[Table], Parts]:
    """Sixes, and nines turned by 180 degrees, at most so many of each; pixels reach ``white``."""

    def parts(table: Table) -> Parts:
        images = table.features / white
        labels = table.targets.astype(int)
        private = images[labels == 6][:most]
        public = images[labels == 9][:most, ::-1]
        return private, np.zeros(len(private)), public, np.zeros(len(public))

    return parts


def _cifar(table: Table) -> Parts:
    labels = table.targets.astype(int)
    private = np.concatenate([np.nonzero(labels == c)[0][:100] for c in range(10)])
    public = np.concatenate([np.nonzero(labels == c)[0][100:350] for c in range(4)])
    return _rows(table.features / 255, labels.astype(float), private, public)


def _rows(features: Array, targets: Array, private: NDArray[np.int64], public: NDArray[np.int64]) -> Parts:
    return features[private], targets[private], features[public], targets[public]


def _signs(table: Table) -> Array:
    """Labels 1 where the target is 1, and −1 elsewhere."""
    return np.where(table.targets.astype(int) == 1, 1.0, -1.0)


def _halves(features: Array, targets: Array, most: int, rotation: float) -> Parts:
    """Two random halves of at most ``most`` records, the features of the second turned by I + rotation N(0, 1)."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(features))
    half = min(len(features) // 2, most)
    a, b, c, d = _rows(features, targets, order[:half], order[half : 2 * half])
    turn = np.eye(features.shape[1]) + rotation * rng.standard_normal((features.shape[1],) * 2)
    return a, b, c @ turn, d


def _crime(table: Table) -> Parts:
    """With the rotation that is printed, I + N(0, 1), which is not a small one."""
    return _halves(table.features, table.targets.astype(float), len(table.features), 1.0)


def _diabetes(table: Table) -> tuple[Array, Array, Array]:
    """Standardised features without sex, standardised responses, and sex."""
    features = standardised(np.delete(table.features, 1, axis=1))
    return features, standardised(table.targets[:, np.newaxis])[:, 0], table.features[:, 1]


def _diabetes_rotated(table: Table) -> Parts:
    features, response, _ = _diabetes(table)
    return _halves(features, response, 200, 0.3)


def _diabetes_by_sex(table: Table) -> Parts:
    features, response, sex = _diabetes(table)
    private, public = (np.nonzero(group)[0][:200] for group in (sex > 0, sex <= 0))
    return _rows(features, response, private, public)


def _breast_cancer(table: Table) -> Parts:
    labels = _signs(table)
    benign = np.nonzero(labels > 0)[0]
    malignant = np.nonzero(labels < 0)[0]
    private = np.concatenate([malignant[:100], benign[:100]])
    public = np.concatenate([malignant[100:110], benign[100:290]])
    return _rows(standardised(table.features), labels, private, public)


def _compas(table: Table) -> Parts:
    race = [k for k, name in enumerate(table.columns) if name.startswith("race")]
    caucasian = table.features[:, next(k for k in race if "Caucasian" in table.columns[k])] == 1
    private = np.nonzero(caucasian)[0]
    public = np.nonzero(~caucasian)[0][: private.size]
    return _rows(standardised(np.delete(table.features, race, axis=1)), _signs(table), private, public)


def _credit(table: Table) -> Parts:
    column = table.columns.index("x3")
    education = table.features[:, column]
    labels = _signs(table)

    def chosen(group: NDArray[np.bool_], defaults: int, others: int) -> NDArray[np.int64]:
        return np.concatenate(
            [np.nonzero(group & (labels > 0))[0][:defaults], np.nonzero(group & (labels < 0))[0][:others]]
        )

    private, public = chosen(education >= 3, 100, 100), chosen(education == 2, 10, 190)
    return _rows(standardised(np.delete(table.features, column, axis=1)), labels, private, public)


SPLITS = {
    "digits-69 (stand-in)": Split("digits", "mean", _BALL_REGULARISER, _six_and_nine(16, 180), 8.0),
    "diabetes by sex (stand-in)": Split("diabetes", "squares", _RIDGE_REGULARISER, _diabetes_by_sex, 7.0),
    "diabetes rotated (stand-in)": Split("diabetes", "squares", _RIDGE_REGULARISER, _diabetes_rotated, 7.0),
    "breast cancer (stand-in)": Split("breast cancer", "logistic", _LASSO_REGULARISER, _breast_cancer, 20.0),
    "MNIST-69": Split("MNIST", "mean", _BALL_REGULARISER, _six_and_nine(255, 1000), 28.0),
    "CIFAR-10": Split("CIFAR-10", "squares", _RIDGE_REGULARISER, _cifar, 55.5),
    "Crime": Split("Crime", "squares", _RIDGE_REGULARISER, _crime, 60.0),
    "COMPAS": Split("COMPAS", "logistic", _LASSO_REGULARISER, _compas, 10.0),
    "CreditCard": Split("CreditCard", "logistic", _LASSO_REGULARISER, _credit, 20.0),
}
BUNDLED = tuple(name for name, split in SPLITS.items() if not split.downloaded)


@usual_float_errors
def task(name: str, *, download: bool = False) -> Task:
    """The task of a data set: its loss, regulariser, and private and public records.

    Parameters
    ----------
    name : str
        One of ``SPLITS``.
    download : bool, default False
        Whether the data set may be fetched from OpenML.

    Returns
    -------
    Task

    Raises
    ------
    ValueError
        No such data set, or it must be fetched and ``download`` is False.
    OSError
        The data set could not be fetched.
    ImportError
        scikit-learn is not installed.
    """
    entry = SPLITS[checks.choice("name", name, tuple(SPLITS))]
    table = load(entry.data, download=download)
    features, targets, public_features, public_targets = entry.parts(table)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    admissible = np.where(
        lengths > entry.feature_norm, features * (entry.feature_norm / np.maximum(lengths, 1e-300)), features
    )
    loss = LinearLoss(entry.link, features.shape[1], scale=2.0 if entry.link == "squares" else 1.0)
    return Task(loss, entry.regulariser, admissible, targets, public_features, public_targets)
