"""Losses of learning problems: a link φ(u, y) of a prediction u and a target y, and the constants that follow from it.

============  ================================  ====================  =============  ====================  ========
link          φ(u, y)                           targets               sup |φ'|     sup |φ''|            convex
============  ================================  ====================  =============  ====================  ========
``squares``   (u − y)²/2                        real                  none           1                     yes
``logistic``  log(1 + e^{−y u})                 ±1                    1              1/4                   yes
``binary``    log(1 + e^u) − y u                0 or 1                1              1/4                   yes
``softmax``   log Σ_k e^{u_k} − Σ_k y_k u_k     probabilities y_k     sqrt 2         1/2                   yes
``sigmoid``   1/(1 + e^{y u})                   ±1                    1/4            1/(6 sqrt 3)          no
============  ================================  ====================  =============  ====================  ========

The bounds cannot be lowered.  A linear loss has u = ⟨x, a⟩ with features a, so that features of norm b make it
b sup |φ'|-Lipschitz and b² sup |φ''|-smooth.  Slopes of squares are bounded on balls only.

``LinearLoss``       c φ(⟨x, a⟩, y), or the loss c ‖x − a‖²/2 of a mean.
``MarginLoss``       φ(⟨w, a⟩, 1): the label ±1 is a factor of the example a.
``TwoLayerNetwork``  φ(u, 1) of the output u of a network of tanh units.
``EmpiricalRisk``    the mean of one of the last two over examples, with a pseudo-Huber regulariser.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logsumexp, softmax

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

MarginLink = Literal["sigmoid", "logistic", "squares"]
LinearLink = Literal["mean", "squares", "logistic", "binary", "softmax"]
MARGIN_LINKS: tuple[MarginLink, ...] = ("sigmoid", "logistic", "squares")
LINEAR_LINKS: tuple[LinearLink, ...] = ("mean", "squares", "logistic", "binary", "softmax")


@dataclass(frozen=True)
class Link:
    """φ(u, y), its slope in u, sup |φ'| (``steepest``) and sup |φ''| (``curvature``).

    Predictions u and targets y are broadcast.  The softmax has a last axis for the classes.
    """

    value: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any], Any]
    steepest: float
    curvature: float


LINKS = {
    "squares": Link(lambda u, y: np.square(u - y) / 2, lambda u, y: u - y, math.inf, 1.0),
    "logistic": Link(lambda u, y: np.logaddexp(0.0, -y * u), lambda u, y: -y * expit(-y * u), 1.0, 0.25),
    "binary": Link(lambda u, y: np.logaddexp(0.0, u) - y * u, lambda u, y: expit(u) - y, 1.0, 0.25),
    "softmax": Link(
        lambda u, y: logsumexp(u, axis=-1) - (y * u).sum(axis=-1), lambda u, y: softmax(u, axis=-1) - y, 2**0.5, 0.5
    ),
    "sigmoid": Link(
        lambda u, y: expit(-y * u), lambda u, y: -y * expit(y * u) * expit(-y * u), 0.25, 1 / (6 * math.sqrt(3))
    ),
}


def _require_norms(name: str, rows: Array, most: float) -> None:
    longest = float(np.linalg.norm(rows, axis=1).max(initial=0.0))
    if longest > most * (1 + 1e-12):
        raise ValueError(f"{name} must have norms in [0, {most!r}], got {longest!r}")


def _check_bound(loss: Any, unbounded: bool = False) -> None:
    loss._set(features=checks.integer("features", loss.features, 1))
    if not (unbounded and loss.feature_norm == math.inf):
        loss._set(feature_norm=checks.real("feature_norm", loss.feature_norm, "(0, 1e50]"))


@record
class LinearLoss(Record):
    """c φ(⟨x, a⟩, y), or c ‖x − a‖²/2, for features a and targets y within their bounds.

    Points x have shape (d,).  Except for the softmax, clipping a gradient to a norm keeps it the gradient of a convex
    function of the same smoothness.

    Parameters
    ----------
    link : str
        One of ``LINEAR_LINKS``.  A mean ignores its targets; the softmax has classes 0, 1, … as targets.
    features : int
        Entries of a, >= 1.
    feature_norm : float, default inf
        The largest ‖a‖, in (0, 1e50] or ``inf``; examples beyond it are refused.
    target_bound : float, default inf
        The largest |y| of squares, in [0, 1e50] or ``inf``.
    classes : int, default 1
        Of the softmax, >= 2; 1 for the others.  A point has ``dimension`` = ``classes`` × ``features`` entries.
    scale : float, default 1.0
        c, in (0, 1e50]; 2 makes (⟨x, a⟩ − y)² of squares.
    """

    link: LinearLink
    features: int
    feature_norm: float = math.inf
    target_bound: float = math.inf
    classes: int = 1
    scale: float = 1.0

    def __post_init__(self) -> None:
        self._check(link=LINEAR_LINKS)
        _check_bound(self, unbounded=True)
        classes = checks.integer("classes", self.classes, 2 if self.link == "softmax" else 1)
        self._check(scale="(0, 1e50]")
        self._set(classes=classes)
        if self.target_bound != math.inf:
            self._set(target_bound=checks.real("target_bound", self.target_bound, "[0, 1e50]"))
        if self.link != "softmax" and self.classes != 1:
            raise ValueError(f"classes must be 1 for {self.link!r}, got {self.classes}")

    @property
    def dimension(self) -> int:
        """Entries of a point."""
        return self.classes * self.features

    @property
    def curvature(self) -> float:
        """The largest second derivative in ⟨x, a⟩, which times ‖a‖² is the smoothness; in x itself of the mean."""
        return self.scale * (1.0 if self.link == "mean" else LINKS[self.link].curvature)

    @property
    def strong_convexity(self) -> float:
        """The strong convexity that all examples share."""
        return self.scale if self.link == "mean" else 0.0

    @property
    def smoothness(self) -> float:
        """L of all examples within the bounds."""
        return self.curvature * (1.0 if self.link == "mean" else self.feature_norm**2)

    def smoothness_of(self, features: Array) -> Array:
        """The smoothness of each example with features of shape (n, ``features``), shape (n,).

        Parameters
        ----------
        features : array of float
            Shape (n, ``features``).

        Returns
        -------
        array of float
        """
        squares = np.ones(len(features)) if self.link == "mean" else np.square(features).sum(axis=1)
        return np.asarray(self.curvature * squares)

    def lipschitz(self, radius: float) -> float:
        """G of all examples within the bounds, at points of norm at most ``radius``.

        Parameters
        ----------
        radius : float
            The largest norm of a point.

        Returns
        -------
        float
        """
        b = self.feature_norm
        if self.link == "mean":
            return self.scale * (radius + b)
        return (
            self.scale * b * (b * radius + self.target_bound if self.link == "squares" else LINKS[self.link].steepest)
        )

    def checked_examples(
        self, features: object, targets: object, names: tuple[str, str] = ("features", "targets")
    ) -> tuple[Array, Array]:
        """Return examples of this loss: features (n, ``features``) and targets (n,), within their bounds.

        Parameters
        ----------
        features : object
            Shape (n, ``features``), rows within ``feature_norm``.
        targets : object
            Shape (n,), in the domain of the link.
        names : pair of str, optional
            The names of both in messages.

        Returns
        -------
        two arrays of float
        """
        a, y = checks.reals(names[0], features), checks.reals(names[1], targets)
        if a.ndim != 2 or a.shape[1] != self.features or y.shape != a.shape[:1]:
            shapes = f"(n, {self.features}) and (n,), got {a.shape} and {y.shape}"
            raise ValueError(f"{' and '.join(names)} must have shapes {shapes}")
        _require_norms(names[0], a, self.feature_norm)
        admissible, words = {
            "mean": (np.isfinite(y), "be finite"),
            "squares": (np.abs(y) <= self.target_bound, f"lie in [-{self.target_bound!r}, {self.target_bound!r}]"),
            "logistic": (np.abs(y) == 1, "be -1 or 1 for logistic losses"),
            "binary": ((y == 0) | (y == 1), "be 0 or 1"),
            "softmax": (np.isin(y, np.arange(self.classes)), f"be whole numbers in [0, {self.classes})"),
        }[self.link]
        if not admissible.all():
            raise ValueError(f"{names[1]} must {words}, got {float(y[~admissible][0])!r}")
        return a, y

    def _predictions(self, x: Array, features: Array, targets: Any) -> tuple[Array, Any]:
        """⟨x, a⟩ and y; the softmax has one of both for each class, on the last axis."""
        if self.link != "softmax":
            return features @ x, targets
        return features @ x.reshape(self.classes, -1).T, np.eye(self.classes)[np.asarray(targets, dtype=int)]

    def values(self, x: Array, features: Array, targets: ArrayLike) -> Array:
        """Losses at x, of the shape of the targets.

        Parameters
        ----------
        x : array of float
            Point, shape (d,).
        features : array of float
            Shape (…, ``features``).
        targets : array_like
            Shape (…).

        Returns
        -------
        array of float
        """
        if self.link == "mean":
            return np.asarray(self.scale * (np.square(x - features).sum(axis=-1) / 2))
        return np.asarray(self.scale * LINKS[self.link].value(*self._predictions(x, features, targets)))

    def gradients(self, x: Array, features: Array, targets: ArrayLike) -> Array:
        """Gradients at x, shape (…, d), for features of shape (…, ``features``) and targets of shape (…).

        Parameters
        ----------
        x : array of float
            Point, shape (d,).
        features : array of float
            Shape (…, ``features``).
        targets : array_like
            Shape (…).

        Returns
        -------
        array of float
        """
        if self.link == "mean":
            return np.asarray(self.scale * (x - features))
        u, y = self._predictions(x, features, targets)
        # The logistic slope differs from the link in the last bits; recorded runs depend on them.
        slopes = -y * np.exp(-np.logaddexp(0.0, y * u)) if self.link == "logistic" else LINKS[self.link].slope(u, y)
        each = np.asarray(self.scale * slopes)[..., np.newaxis]
        if self.link == "softmax":
            return np.asarray((each * features[..., np.newaxis, :]).reshape(*features.shape[:-1], x.size))
        return np.asarray(each * features)

    def accuracy(self, x: Array, features: Array, targets: Array) -> float:
        """The share of examples whose class is the likeliest one at x, for the links ``"binary"`` and ``"softmax"``.

        Parameters
        ----------
        x : array of float
            Point, shape (d,).
        features : array of float
            Shape (n, ``features``).
        targets : array of float
            Classes, shape (n,).

        Returns
        -------
        float
        """
        checks.choice("link", self.link, ("binary", "softmax"))
        u, _ = self._predictions(x, features, targets)
        return float(((u.argmax(axis=1) if self.link == "softmax" else u > 0) == targets).mean())


class SmoothLoss(Record, ABC):
    """A loss f(w; a) of points w with ``dimension`` entries and examples a with ``features`` entries.

    Subclasses say what their constants and gradients are; ``feature_norm`` is the largest ‖a‖ that they hold for.
    """

    features: int
    feature_norm: float

    @property
    @abstractmethod
    def dimension(self) -> int:
        """d, the number of entries of a point."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """G: no gradient is longer; ``inf`` without a bound."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """L: gradients at w and w' differ by at most L ‖w − w'‖; ``inf`` without a bound."""

    @abstractmethod
    def gradients(self, points: Array, examples: Array) -> Array:
        """Gradients, shape (…, d), at points, shape (…, d), of examples, shape (…, features); both are broadcast.

        Parameters
        ----------
        points : array of float
            Points w, shape (…, d).
        examples : array of float
            Examples a, shape (…, ``features``), broadcast with the points.

        Returns
        -------
        array of float
        """

    @abstractmethod
    def mean_gradients(self, points: Array, examples: Array) -> Array:
        """Mean gradients of all examples, shape (n, features), at each point, shape (…, d).

        Parameters
        ----------
        points : array of float
            Points w, shape (…, d).
        examples : array of float
            Examples a, shape (n, ``features``).

        Returns
        -------
        array of float
        """

    @abstractmethod
    def mean_values(self, points: Array, examples: Array) -> Array:
        """Mean losses, shape (…), of all examples, shape (n, features), at each point, shape (…, d).

        Parameters
        ----------
        points : array of float
            Points w, shape (…, d).
        examples : array of float
            Examples a, shape (n, ``features``).

        Returns
        -------
        array of float
        """

    def checked_examples(self, examples: object) -> Array:
        """Return examples of this loss, shape (n, features), of norms at most ``feature_norm``, or refuse them.

        Parameters
        ----------
        examples : object
            Shape (n, ``features``), rows within ``feature_norm``.

        Returns
        -------
        array of float
        """
        rows = checks.reals("examples", examples)
        if rows.ndim != 2 or rows.shape[1] != self.features or not len(rows):
            raise ValueError(f"examples must have shape (n, {self.features}) with n >= 1, got {rows.shape}")
        _require_norms("examples", rows, self.feature_norm)
        return rows


@record
class MarginLoss(SmoothLoss):
    """φ(⟨w, a⟩) with one of ``MARGIN_LINKS``: G = b max |φ'| and L = b² max |φ''|.

    Parameters
    ----------
    link : {"sigmoid", "logistic", "squares"}
        φ; ``"squares"`` has no bound on its gradients.
    features : int
        Entries of an example, >= 1.
    feature_norm : float
        b, the largest ‖a‖, in (0, 1e50].  It is part of the problem and must not be taken from private examples.

    Examples
    --------
    >>> import corrnoise as cn
    >>> loss = cn.losses.MarginLoss("sigmoid", 31, 1.0)
    >>> loss.lipschitz, round(loss.smoothness, 6)
    (0.25, 0.096225)
    """

    link: MarginLink
    features: int
    feature_norm: float

    def __post_init__(self) -> None:
        self._check(link=MARGIN_LINKS)
        _check_bound(self)

    @property
    def dimension(self) -> int:
        return self.features

    @property
    def lipschitz(self) -> float:
        return LINKS[self.link].steepest * self.feature_norm

    @property
    def smoothness(self) -> float:
        return LINKS[self.link].curvature * self.feature_norm**2

    def gradients(self, points: Array, examples: Array) -> Array:
        margins = np.einsum("...d,...d->...", points, examples)
        return np.asarray(LINKS[self.link].slope(margins, 1.0)[..., np.newaxis] * examples)

    def mean_gradients(self, points: Array, examples: Array) -> Array:
        return np.asarray(LINKS[self.link].slope(points @ examples.T, 1.0) @ examples / len(examples))

    def mean_values(self, points: Array, examples: Array) -> Array:
        return np.asarray(LINKS[self.link].value(points @ examples.T, 1.0).mean(axis=-1))


@record
class TwoLayerNetwork(SmoothLoss):
    """φ of the output u = h^{−½} Σ_j tanh(v_j) tanh(⟨W_j, a⟩) of h hidden units, both layers trained.

    The output weights tanh(v_j) are bounded, and so is every derivative.  With B = max(1, b):

    * ‖∇u‖² = (1/h) Σ_j [(1 − p)² q + (1 − q)² p ‖a‖²] with p = tanh²(v_j) and q = tanh²(⟨W_j, a⟩).  The bracket is
      convex in p, at p = 0 it is q <= 1 and at p = 1 it is (1 − q)² ‖a‖².  So ‖∇u‖ <= B.
    * ∇²u has a block for each unit, h^{−½} times [[−2 s t (1 − s²), (1 − s²)(1 − t²) aᵀ], [·, −2 s t (1 − t²) a aᵀ]]
      with s = tanh(v_j), t = tanh(⟨W_j, a⟩).  On v_j and the direction of a its rows have absolute sums of at most
      B² (1 − s²)(1 − t² + 2 |s t|) <= B² (1 − s²)(1 + s²) <= B², and the same with s and t exchanged.

    Hence G = max |φ'| B and L = max |φ''| B² + max |φ'| B² h^{−½}.  At w = 0 the gradient is 0: start elsewhere.

    Parameters
    ----------
    link : {"sigmoid", "logistic"}
        φ.
    features : int
        Entries of an example, >= 1.
    feature_norm : float
        b, the largest ‖a‖, in (0, 1e50], as for ``MarginLoss``.
    hidden : int
        h >= 1.  A point holds v_1, W_1, v_2, W_2, …: h × (features + 1) entries.

    Examples
    --------
    >>> import corrnoise as cn
    >>> network = cn.losses.TwoLayerNetwork("sigmoid", 65, 1.0, hidden=16)
    >>> network.dimension, network.lipschitz, round(network.smoothness, 6)
    (1056, 0.25, 0.158725)
    """

    link: MarginLink
    features: int
    feature_norm: float
    hidden: int

    def __post_init__(self) -> None:
        self._check(link=MARGIN_LINKS[:2])
        _check_bound(self)
        self._check(hidden=1)

    @property
    def dimension(self) -> int:
        return self.hidden * (self.features + 1)

    @property
    def lipschitz(self) -> float:
        return LINKS[self.link].steepest * max(1.0, self.feature_norm)

    @property
    def smoothness(self) -> float:
        largest = max(1.0, self.feature_norm) ** 2
        return (LINKS[self.link].curvature + LINKS[self.link].steepest / math.sqrt(self.hidden)) * largest

    def _layers(self, points: Array) -> tuple[Array, Array]:
        """tanh(v), shape (…, h), and W, shape (…, h, features)."""
        units = points.reshape(*points.shape[:-1], self.hidden, self.features + 1)
        return np.tanh(units[..., 0]), units[..., 1:]

    def _forward(self, points: Array, examples: Array) -> tuple[Array, Array, Array]:
        """tanh(v), shape (c, h), the hidden units, shape (c, h, n), and u, shape (c, n), at c points and n examples."""
        outer, inner = self._layers(points)
        hidden = np.tanh(inner @ examples.T)
        return outer, hidden, np.einsum("ch,chn->cn", outer, hidden) / math.sqrt(self.hidden)

    def gradients(self, points: Array, examples: Array) -> Array:
        outer, inner = self._layers(points)
        hidden = np.tanh(np.einsum("...hd,...d->...h", inner, examples))
        margins = (outer * hidden).sum(axis=-1) / math.sqrt(self.hidden)
        weights = LINKS[self.link].slope(margins, 1.0)[..., np.newaxis] / math.sqrt(self.hidden)
        first = weights * (1 - outer**2) * hidden
        second = (weights * outer * (1 - hidden**2))[..., np.newaxis] * examples[..., np.newaxis, :]
        units = np.concatenate([first[..., np.newaxis], second], axis=-1)
        return np.asarray(units.reshape(*units.shape[:-2], self.dimension))

    def mean_gradients(self, points: Array, examples: Array) -> Array:
        flat = points.reshape(-1, self.dimension)
        found = np.empty_like(flat)
        for part in _parts(len(flat), len(examples) * self.hidden):
            outer, hidden, margins = self._forward(flat[part], examples)
            weights = LINKS[self.link].slope(margins, 1.0)[:, np.newaxis, :] / (math.sqrt(self.hidden) * len(examples))
            first = (1 - outer**2) * (weights * hidden).sum(axis=-1)
            second = outer[..., np.newaxis] * ((weights * (1 - hidden**2)) @ examples)
            found[part] = np.concatenate([first[..., np.newaxis], second], axis=-1).reshape(-1, self.dimension)
        return found.reshape(points.shape)

    def mean_values(self, points: Array, examples: Array) -> Array:
        flat = points.reshape(-1, self.dimension)
        found = np.empty(len(flat))
        for part in _parts(len(flat), len(examples) * self.hidden):
            found[part] = LINKS[self.link].value(self._forward(flat[part], examples)[2], 1.0).mean(axis=-1)
        return found.reshape(points.shape[:-1])


def _parts(count: int, entries: int) -> list[slice]:
    """Cut ``count`` points into slices whose intermediate arrays, of ``entries`` a point, stay small."""
    size = max(2**21 // entries, 1)
    return [slice(first, first + size) for first in range(0, count, size)]


@record
class EmpiricalRisk(Record):
    """F(w) = (1/N) Σ f(w; a_i) + λ (sqrt(1 + ‖w‖²) − 1).

    The regulariser is λ-Lipschitz and λ-smooth: its Hessian has the eigenvalues λ (1 + ‖w‖²)^{−½} and
    λ (1 + ‖w‖²)^{−3/2}.  It does not depend on the examples, so that private algorithms add its gradient exactly.

    Parameters
    ----------
    loss : SmoothLoss
        f, with its constants.
    examples : array of float
        a_1, …, a_N, shape (N, features), of norms at most ``loss.feature_norm``.
    regularisation : float, default 0.0
        λ >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> import corrnoise as cn
    >>> loss = cn.losses.MarginLoss("sigmoid", 2, 1.0)
    >>> risk = cn.losses.EmpiricalRisk(loss, np.array([[1.0, 0.0], [0.0, -1.0]]), 0.02)
    >>> risk.gradients(np.zeros(2))
    array([-0.125,  0.125])
    """

    loss: SmoothLoss
    examples: Array
    regularisation: float = 0.0

    def __post_init__(self) -> None:
        self._check(loss=SmoothLoss, regularisation="[0, inf)")
        self._set(examples=self.loss.checked_examples(self.examples))

    @property
    def lipschitz(self) -> float:
        """G of f with the regulariser."""
        return self.loss.lipschitz + self.regularisation

    @property
    def smoothness(self) -> float:
        """L of f with the regulariser."""
        return self.loss.smoothness + self.regularisation

    def regulariser_gradients(self, points: Array) -> Array:
        """Gradients of the regulariser at points of shape (…, d), same shape.

        Parameters
        ----------
        points : array of float
            Points w, shape (…, d).

        Returns
        -------
        array of float
        """
        squares = np.einsum("...d,...d->...", points, points)[..., np.newaxis]
        return np.asarray(self.regularisation * points / np.sqrt(1 + squares))

    def gradients(self, points: Array) -> Array:
        """∇F at points of shape (…, d), same shape.

        Parameters
        ----------
        points : array of float
            Points w, shape (…, d).

        Returns
        -------
        array of float
        """
        return self.loss.mean_gradients(points, self.examples) + self.regulariser_gradients(points)

    def values(self, points: Array) -> Array:
        """F at points of shape (…, d), shape (…).

        Parameters
        ----------
        points : array of float
            Points w, shape (…, d).

        Returns
        -------
        array of float
        """
        squares = np.einsum("...d,...d->...", points, points)
        penalty = self.regularisation * squares / (1 + np.sqrt(1 + squares))
        return np.asarray(self.loss.mean_values(points, self.examples) + penalty)
