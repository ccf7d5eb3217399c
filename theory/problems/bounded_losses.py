"""Smooth losses with bounded gradients, most of them not convex, with their constants G and L.

An example is the vector a = y x of its features times its label y = ±1, of norm at most b.  A loss is φ of a margin u
that is positive where the example is classified rightly:

``sigmoid``   1/(1 + e^u): |φ'| = s (1 − s) <= 1/4, |φ''| = s (1 − s) |1 − 2 s| <= 1/(6 sqrt 3) at s = (3 ± sqrt 3)/6.
``logistic``  log(1 + e^{−u}): |φ'| <= 1, not attained, |φ''| <= 1/4.
``squares``   (1 − u)²/2: φ' has no bound, φ'' = 1.

``MarginLoss`` has the margin u = ⟨w, a⟩, ``TwoLayerNetwork`` that of a network of tanh units.  The bounds hold on the
whole space, and those of margin losses cannot be lowered.  ``EmpiricalRisk`` is the mean loss of examples with a
pseudo-Huber regulariser, which does not depend on the data.

References
----------
H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022 (the assumptions on losses).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from scipy.special import expit

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

Link = Literal["sigmoid", "logistic", "squares"]
LINKS: tuple[Link, ...] = ("sigmoid", "logistic", "squares")
_SLOPES = {"sigmoid": 0.25, "logistic": 1.0, "squares": math.inf}
_CURVATURES = {"sigmoid": 1 / (6 * math.sqrt(3)), "logistic": 0.25, "squares": 1.0}

_BATCH = 2**21  # entries of the largest intermediate array


def _link_values(link: Link, u: Array) -> Array:
    if link == "sigmoid":
        return np.asarray(expit(-u))
    return np.asarray(np.logaddexp(0.0, -u) if link == "logistic" else np.square(1 - u) / 2)


def _link_slopes(link: Link, u: Array) -> Array:
    if link == "sigmoid":
        return np.asarray(-expit(u) * expit(-u))
    return np.asarray(-expit(-u) if link == "logistic" else u - 1)


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
        """G: no gradient is longer; ``inf`` where there is no bound."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """L: gradients at w and w' differ by at most L ‖w − w'‖; ``inf`` where there is no bound."""

    @abstractmethod
    def gradients(self, points: Array, examples: Array) -> Array:
        """Gradients, shape (…, d).

        Parameters
        ----------
        points
            w, shape (…, d).
        examples
            a, shape (…, features); broadcast with the points.
        """

    @abstractmethod
    def mean_gradients(self, points: Array, examples: Array) -> Array:
        """Mean gradients of all examples at each point, shape (…, d).

        Parameters
        ----------
        points
            w, shape (…, d).
        examples
            a_1, …, a_n, shape (n, features).
        """

    @abstractmethod
    def mean_values(self, points: Array, examples: Array) -> Array:
        """Mean losses of all examples at each point, shape (…).

        Parameters
        ----------
        points
            w, shape (…, d).
        examples
            a_1, …, a_n, shape (n, features).
        """

    def checked_examples(self, examples: object) -> Array:
        """Return examples of this loss, or refuse them.

        Parameters
        ----------
        examples
            Shape (n, features), of norms at most ``feature_norm``.
        """
        rows = checks.reals("examples", examples)
        if rows.ndim != 2 or rows.shape[1] != self.features or not len(rows):
            raise ValueError(f"examples must have shape (n, {self.features}) with n >= 1, got {rows.shape}")
        longest = float(np.linalg.norm(rows, axis=1).max())
        if longest > self.feature_norm * (1 + 1e-12):
            raise ValueError(f"examples must have norms in [0, {self.feature_norm!r}], got {longest!r}")
        return rows


@record
class MarginLoss(SmoothLoss):
    """φ(⟨w, a⟩) with one of ``LINKS``: G = b max |φ'| and L = b² max |φ''|.

    Parameters
    ----------
    link
        ``"sigmoid"``, ``"logistic"`` or ``"squares"``.
    features
        Entries of an example, >= 1.
    feature_norm
        b, the largest ‖a‖, in (0, 1e50].  It is part of the problem and must not be taken from private examples.

    Examples
    --------
    >>> loss = MarginLoss("sigmoid", 31, 1.0)
    >>> loss.lipschitz, round(loss.smoothness, 6)
    (0.25, 0.096225)
    """

    link: Link
    features: int
    feature_norm: float

    def __post_init__(self) -> None:
        self._set(
            link=checks.choice("link", self.link, LINKS),
            features=checks.integer("features", self.features, 1),
            feature_norm=checks.real("feature_norm", self.feature_norm, "(0, 1e50]"),
        )

    @property
    def dimension(self) -> int:
        return self.features

    @property
    def lipschitz(self) -> float:
        return _SLOPES[self.link] * self.feature_norm

    @property
    def smoothness(self) -> float:
        return _CURVATURES[self.link] * self.feature_norm**2

    def gradients(self, points: Array, examples: Array) -> Array:
        margins = np.einsum("...d,...d->...", points, examples)
        return np.asarray(_link_slopes(self.link, margins)[..., np.newaxis] * examples)

    def mean_gradients(self, points: Array, examples: Array) -> Array:
        return np.asarray(_link_slopes(self.link, points @ examples.T) @ examples / len(examples))

    def mean_values(self, points: Array, examples: Array) -> Array:
        return np.asarray(_link_values(self.link, points @ examples.T).mean(axis=-1))


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
    link
        ``"sigmoid"`` or ``"logistic"``.
    features
        Entries of an example, >= 1.
    feature_norm
        b, the largest ‖a‖, in (0, 1e50].
    hidden
        h >= 1.  A point holds v_1, W_1, v_2, W_2, …: h × (features + 1) entries.

    Examples
    --------
    >>> network = TwoLayerNetwork("sigmoid", 65, 1.0, hidden=16)
    >>> network.dimension, network.lipschitz, round(network.smoothness, 6)
    (1056, 0.25, 0.158725)
    """

    link: Link
    features: int
    feature_norm: float
    hidden: int

    def __post_init__(self) -> None:
        self._set(
            link=checks.choice("link", self.link, ("sigmoid", "logistic")),
            features=checks.integer("features", self.features, 1),
            feature_norm=checks.real("feature_norm", self.feature_norm, "(0, 1e50]"),
            hidden=checks.integer("hidden", self.hidden, 1),
        )

    @property
    def dimension(self) -> int:
        return self.hidden * (self.features + 1)

    @property
    def lipschitz(self) -> float:
        return _SLOPES[self.link] * max(1.0, self.feature_norm)

    @property
    def smoothness(self) -> float:
        largest = max(1.0, self.feature_norm) ** 2
        return (_CURVATURES[self.link] + _SLOPES[self.link] / math.sqrt(self.hidden)) * largest

    def _layers(self, points: Array) -> tuple[Array, Array]:
        """tanh(v), shape (…, h), and W, shape (…, h, features)."""
        units = points.reshape(*points.shape[:-1], self.hidden, self.features + 1)
        return np.tanh(units[..., 0]), units[..., 1:]

    def gradients(self, points: Array, examples: Array) -> Array:
        outer, inner = self._layers(points)
        hidden = np.tanh(np.einsum("...hd,...d->...h", inner, examples))
        margins = (outer * hidden).sum(axis=-1) / math.sqrt(self.hidden)
        weights = _link_slopes(self.link, margins)[..., np.newaxis] / math.sqrt(self.hidden)
        first = weights * (1 - outer**2) * hidden
        second = (weights * outer * (1 - hidden**2))[..., np.newaxis] * examples[..., np.newaxis, :]
        units = np.concatenate([first[..., np.newaxis], second], axis=-1)
        return np.asarray(units.reshape(*units.shape[:-2], self.dimension))

    def mean_gradients(self, points: Array, examples: Array) -> Array:
        flat = points.reshape(-1, self.dimension)
        found = np.empty_like(flat)
        for part in _parts(len(flat), len(examples) * self.hidden):
            outer, inner = self._layers(flat[part])
            hidden = np.tanh(inner @ examples.T)  # (points, hidden, n)
            margins = np.einsum("ch,chn->cn", outer, hidden) / math.sqrt(self.hidden)
            weights = _link_slopes(self.link, margins)[:, np.newaxis, :] / (math.sqrt(self.hidden) * len(examples))
            first = (1 - outer**2) * (weights * hidden).sum(axis=-1)
            second = outer[..., np.newaxis] * ((weights * (1 - hidden**2)) @ examples)
            found[part] = np.concatenate([first[..., np.newaxis], second], axis=-1).reshape(-1, self.dimension)
        return found.reshape(points.shape)

    def mean_values(self, points: Array, examples: Array) -> Array:
        flat = points.reshape(-1, self.dimension)
        found = np.empty(len(flat))
        for part in _parts(len(flat), len(examples) * self.hidden):
            outer, inner = self._layers(flat[part])
            margins = np.einsum("ch,chn->cn", outer, np.tanh(inner @ examples.T)) / math.sqrt(self.hidden)
            found[part] = _link_values(self.link, margins).mean(axis=-1)
        return found.reshape(points.shape[:-1])


def _parts(count: int, entries: int) -> list[slice]:
    """Cut ``count`` points into slices whose intermediate arrays, of ``entries`` a point, stay small."""
    size = max(_BATCH // entries, 1)
    return [slice(first, first + size) for first in range(0, count, size)]


@record
class EmpiricalRisk(Record):
    """F(w) = (1/N) Σ f(w; a_i) + λ (sqrt(1 + ‖w‖²) − 1).

    The regulariser is λ-Lipschitz and λ-smooth: its Hessian has the eigenvalues λ (1 + ‖w‖²)^{−½} and
    λ (1 + ‖w‖²)^{−3/2}.  It does not depend on the examples, so that private algorithms add its gradient exactly.

    Parameters
    ----------
    loss
        f, with its constants.
    examples
        a_1, …, a_N, shape (N, features), of norms at most ``loss.feature_norm``.
    regularisation
        λ >= 0.

    Examples
    --------
    >>> risk = EmpiricalRisk(MarginLoss("sigmoid", 2, 1.0), np.array([[1.0, 0.0], [0.0, -1.0]]), 0.02)
    >>> risk.gradients(np.zeros(2))
    array([-0.125,  0.125])
    """

    loss: SmoothLoss
    examples: Array
    regularisation: float = 0.0

    def __post_init__(self) -> None:
        checks.instance("loss", self.loss, SmoothLoss)  # type: ignore[type-abstract]
        self._set(
            examples=self.loss.checked_examples(self.examples),
            regularisation=checks.real("regularisation", self.regularisation, "[0, inf)"),
        )

    @property
    def lipschitz(self) -> float:
        """G of f with the regulariser."""
        return self.loss.lipschitz + self.regularisation

    @property
    def smoothness(self) -> float:
        """L of f with the regulariser."""
        return self.loss.smoothness + self.regularisation

    def regulariser_gradients(self, points: Array) -> Array:
        """Gradients of the regulariser, the shape of the points.

        Parameters
        ----------
        points
            w, shape (…, d).
        """
        squares = np.einsum("...d,...d->...", points, points)[..., np.newaxis]
        return np.asarray(self.regularisation * points / np.sqrt(1 + squares))

    def gradients(self, points: Array) -> Array:
        """∇F, the shape of the points.

        Parameters
        ----------
        points
            w, shape (…, d).
        """
        return self.loss.mean_gradients(points, self.examples) + self.regulariser_gradients(points)

    def values(self, points: Array) -> Array:
        """F, shape (…).

        Parameters
        ----------
        points
            w, shape (…, d).
        """
        squares = np.einsum("...d,...d->...", points, points)
        penalty = self.regularisation * squares / (1 + np.sqrt(1 + squares))
        return np.asarray(self.loss.mean_values(points, self.examples) + penalty)
