"""Tasks of shuffled gradient runs: private and public records, a linear loss, and a regulariser with its proximal map.

The losses of the paper are ``"mean"``, ``"squares"`` of scale 2 (ridge regression) and ``"logistic"``, which is printed
as −y log h − (1 − y) log h: that is −log h for every y.

Source: Jiang, Sharma, Wu and Joshi, 2026: Section 6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory.losses import LinearLink, LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.shuffled_gradients.schedules import Schedule

TASK_LINKS: tuple[LinearLink, ...] = ("mean", "squares", "logistic")  #: of the losses of a task


@record
class Regulariser(Record):
    """ψ: ``"none"``, ``"ridge"`` (λ/2) ‖x‖², ``"lasso"`` λ ‖x‖₁, or ``"ball"``, the indicator of ‖x‖ <= λ."""

    name: str  #: which
    strength: float = 1.0  #: λ > 0 (ignored by ``"none"``)

    def __post_init__(self) -> None:
        self._check(name=("none", "ridge", "lasso", "ball"), strength="(0, inf)")

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
    """Empirical risk minimisation on private records with public ones at hand."""

    #: f and ψ; the objective is G(x) = (1/n) Σ f(x; private record) + ψ(x)
    loss: LinearLoss
    regulariser: Regulariser
    #: private records, shapes (n, d) and (n,) with n, d >= 1.  Targets of logistic losses are −1 and 1.
    features: Array
    targets: Array
    #: public records, shapes (m, d) and (m,); m may be 0
    public_features: Array
    public_targets: Array

    def __post_init__(self) -> None:
        checks.choice("link of the loss", checks.instance("loss", self.loss, LinearLoss).link, TASK_LINKS)
        self._check(regulariser=Regulariser)
        for names in (("features", "targets"), ("public_features", "public_targets")):
            a, y = self.loss.checked_examples(getattr(self, names[0]), getattr(self, names[1]), names)
            a = np.ascontiguousarray(a)
            a.setflags(write=False)
            self._set(**{names[0]: a, names[1]: y})
        if len(self.features) == 0:
            raise ValueError(f"features must have at least one row, got shape {self.features.shape}")

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
        both = [self.loss.smoothness_of(a).max(initial=0.0) for a in (self.features, self.public_features)]
        return float(max(both))
