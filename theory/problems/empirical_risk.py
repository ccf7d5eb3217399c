"""The losses and regularisers of the shuffled-gradient experiments, with their constants and proximal maps.

A record is a row of features a and a target y (mean estimation ignores it).

``mean``      ½ ‖x − a‖², gradient x − a, smoothness 1.
``ridge``     (⟨x, a⟩ − y)², gradient 2 (⟨x, a⟩ − y) a, smoothness 2 ‖a‖².
``logistic``  log(1 + exp(−y ⟨x, a⟩)) with y = ±1, gradient −y a/(1 + exp(y ⟨x, a⟩)), smoothness ‖a‖²/4.

(The logistic loss is printed as −y log h − (1 − y) log h, which is −log h for every y.)  Clipping a gradient to a norm
keeps it the gradient of a convex function of the same smoothness, in all three.

References
----------
Jiang, Sharma, Wu and Joshi, 2026: Section 6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.shuffled_gradients.schedules import Schedule

LOSSES = ("mean", "ridge", "logistic")
_CURVATURES = dict(zip(LOSSES, (1.0, 2.0, 0.25), strict=True))


@record
class Loss(Record):
    """One of ``LOSSES``.  Points x have shape (d,), features shape (n, d) and targets shape (n,)."""

    name: str

    def __post_init__(self) -> None:
        checks.choice("name", self.name, LOSSES)

    @property
    def curvature(self) -> float:
        """The largest second derivative in ⟨x, a⟩, by which ‖a‖² makes the smoothness; in x itself of the mean."""
        return _CURVATURES[self.name]

    def values(self, x: Array, features: Array, targets: Array) -> Array:
        """Losses of the records at x, shape (n,)."""
        if self.name == "mean":
            return np.asarray(np.square(x - features).sum(axis=1) / 2)
        products = features @ x
        if self.name == "ridge":
            return np.asarray(np.square(products - targets))
        return np.asarray(np.logaddexp(0.0, -targets * products))

    def gradients(self, x: Array, features: Array, targets: Array) -> Array:
        """Gradients of the records at x, shape (n, d)."""
        if self.name == "mean":
            return np.asarray(x - features)
        products = features @ x
        if self.name == "ridge":
            return np.asarray(2 * (products - targets)[:, np.newaxis] * features)
        weights = -targets * np.exp(-np.logaddexp(0.0, targets * products))
        return np.asarray(weights[:, np.newaxis] * features)

    def smoothness(self, features: Array) -> Array:
        """Smoothness constants of the records, shape (n,)."""
        squares = np.ones(len(features)) if self.name == "mean" else np.square(features).sum(axis=1)
        return np.asarray(self.curvature * squares)


@record
class Regulariser(Record):
    """ψ: ``"none"``, ``"ridge"`` (λ/2) ‖x‖², ``"lasso"`` λ ‖x‖₁, or ``"ball"``, the indicator of ‖x‖ <= λ.

    Parameters
    ----------
    name
        Which.
    strength
        λ > 0 (ignored by ``"none"``).
    """

    name: str
    strength: float = 1.0

    def __post_init__(self) -> None:
        checks.choice("name", self.name, ("none", "ridge", "lasso", "ball"))
        self._set(strength=checks.real("strength", self.strength, "(0, inf)"))

    def value(self, x: Array) -> float:
        """ψ(x), for x of shape (d,)."""
        if self.name == "ridge":
            return self.strength / 2 * float(x @ x)
        if self.name == "lasso":
            return self.strength * float(np.abs(x).sum())
        if self.name == "ball":  # points on the boundary may lie outside by rounding
            return math.inf if np.linalg.norm(x) > self.strength * (1 + 1e-12) else 0.0
        return 0.0

    def prox(self, x: ArrayLike, step: float) -> Array:
        """argmin_y step × ψ(y) + ½ ‖y − x‖², for x of shape (d,) and a step > 0; the same shape."""
        v = np.asarray(x, dtype=float)
        if self.name == "ridge":
            return v / (1 + step * self.strength)
        if self.name == "lasso":
            return np.asarray(np.sign(v) * np.maximum(np.abs(v) - step * self.strength, 0))
        if self.name == "ball":
            return v * min(1.0, self.strength / max(float(np.linalg.norm(v)), 1e-300))
        return v

    @property
    def strong_convexity(self) -> float:
        """μ_ψ."""
        return self.strength if self.name == "ridge" else 0.0


@record
class Task(Record):
    """Empirical risk minimisation on private records with public ones at hand.

    Parameters
    ----------
    loss, regulariser
        f and ψ; the objective is G(x) = (1/n) Σ f(x; private record) + ψ(x).
    features, targets
        Private records, shapes (n, d) and (n,) with n, d >= 1.  Targets of logistic losses are −1 and 1.
    public_features, public_targets
        Public records, shapes (m, d) and (m,); m may be 0.
    """

    loss: Loss
    regulariser: Regulariser
    features: Array
    targets: Array
    public_features: Array
    public_targets: Array

    def __post_init__(self) -> None:
        checks.instance("loss", self.loss, Loss)
        checks.instance("regulariser", self.regulariser, Regulariser)
        for rows, column in (("features", "targets"), ("public_features", "public_targets")):
            a, y = checks.reals(rows, getattr(self, rows)), checks.reals(column, getattr(self, column))
            if a.ndim != 2 or y.shape != a.shape[:1]:
                raise ValueError(f"{rows} and {column} must have shapes (n, d) and (n,), got {a.shape} and {y.shape}")
            if self.loss.name == "logistic" and (other := y[np.abs(y) != 1]).size:
                raise ValueError(f"{column} must be -1 or 1 for logistic losses, got {float(other[0])!r}")
            a = np.ascontiguousarray(a)
            a.setflags(write=False)
            self._set(**{rows: a, column: y})
        if self.features.size == 0:
            raise ValueError(f"features must have at least one row and one column, got shape {self.features.shape}")
        if self.features.shape[1] != self.public_features.shape[1]:
            raise ValueError(
                f"features and public_features must have the same dimension, got {self.features.shape[1]} "
                f"and {self.public_features.shape[1]}"
            )

    def objective(self, x: Array) -> float:
        """G(x), for x of shape (d,)."""
        return float(self.loss.values(x, self.features, self.targets).mean()) + self.regulariser.value(x)

    def require_records(self, schedule: Schedule) -> None:
        """Refuse a schedule that takes more records, or other numbers of private ones, than there are."""
        n, m = len(self.features), len(self.public_features)
        if checks.instance("schedule", schedule, Schedule).samples != n:
            raise ValueError(
                f"schedule must have as many samples as there are private records, {n}, got {schedule.samples}"
            )
        if (needed := n - int(schedule.private.min())) > m:
            raise ValueError(f"public_features must have at least {needed} rows, got {m}")

    def largest_smoothness(self) -> float:
        """The largest smoothness constant of a record, private or public."""
        both = [self.loss.smoothness(a).max(initial=0.0) for a in (self.features, self.public_features)]
        return float(max(both))
