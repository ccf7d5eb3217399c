"""The plan of an audit: the claim, the steps of the canaries, and the filter that makes the claimed noise white."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from corrnoise.theory.auditing.canaries import shifts
from corrnoise.theory.auditing.sampling import TestedSampler
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.objectives.base import LARGEST_MATRIX
from corrnoise.theory.participation import Order
from corrnoise.theory.privacy import Budget

Steps = Sequence[int] | NDArray[np.intp]

_MAX_OVERFLOW_SHARE = 1e-6  # of δ: the overflow that ``make_private`` leaves, which no audit can see
_MAX_GRID = 1 / 64  # of the noise: the largest step of a grid where the distributions hold


@record
class AuditPlan(Record):
    """The claims about a loop, in the units of the audit."""

    budget: Budget
    program: Program
    pattern: NDArray[np.intp]
    idle: int
    grid: float

    @property
    def who(self) -> Order:
        return self.program.participation.worst

    @property
    def sampled(self) -> bool:
        """Whether the loop draws its own batches."""
        return self.program.participation.sampled

    @property
    def mu(self) -> float:
        """The value of the claim; of a sampled loop, for the worst example and an adversary who knows the batches."""
        if self.sampled:
            return self.program.sensitivity * self.distance
        return math.sqrt(2 * self.budget.gaussian_rho)

    @property
    def scale(self) -> float:
        """σ, the claimed standard deviation of the independent noise."""
        return self.program.scale(self.budget)

    @property
    def distance(self) -> float:
        """How far a canary moves the sum of a step between its two states, in units of σ."""
        both = 2 if self.budget.adjacency == "replace-one" else 1
        return both * self.who.members * self.budget.clip_norm / self.scale


def planned(claim: Any, pattern: Steps | None, idle: int, grid: float) -> AuditPlan:
    """The plan for the arguments of ``audit``, checked."""
    budget, program = claimed(claim)
    promised = program.participation
    who = promised.worst
    rare = budget.delta is not None and 0 <= getattr(promised, "overflow", 0) <= _MAX_OVERFLOW_SHARE * budget.delta
    tested = isinstance(promised, TestedSampler) and promised.members == 1 and (promised.examples is None or rare)
    if promised.sampled and not (tested and budget.adjacency == "zero-out" and pattern is None):
        raise ValueError(
            "claim must be of a tested sampler with one example a user and zero-out adjacency, without a capacity that "
            "batches exceed; "
            f"pattern must be None for a sampled loop, got {promised!r}, {budget.adjacency!r}, {pattern!r}"
        )
    if who.length > LARGEST_MATRIX:
        raise ValueError(f"claim must have at most {LARGEST_MATRIX} steps, got {who.length}; audit a shorter run")
    steps = who.largest if pattern is None else _checked_pattern(pattern, who)
    grid = checks.real("grid", grid, "[0, inf)")
    if grid > (coarsest := _MAX_GRID * program.scale(budget)):
        raise ValueError(f"grid must be at most {coarsest:.4g}, 1/64 of the noise, got {grid}")
    return AuditPlan(budget, program, steps, idle, grid)


def claimed(claim: Any) -> tuple[Budget, Program]:
    """Budget and program of a design, of a run, or of a pair."""
    if isinstance(claim, tuple) and len(claim) == 2:
        budget, program = claim
    else:
        budget, program = getattr(claim, "budget", None), getattr(claim, "program", None)
        if budget is None or program is None:
            raise TypeError(f"claim must be a design, a private run, or a pair (budget, program), got {claim!r:.80}")
        program = program() if callable(program) else program
    return checks.instance("the budget of claim", budget, Budget), checks.instance(
        "the program of claim", program, Program
    )


def _checked_pattern(pattern: Steps, who: Order) -> NDArray[np.intp]:
    steps = sorted({checks.integer("pattern", step, 0, largest=who.length - 1) for step in pattern})
    apart = all(who.together(i, j) for index, i in enumerate(steps) for j in steps[:index])
    if not (0 < len(steps) <= who.count and apart):
        raise ValueError(f"pattern must be steps of one example, {who.summary()}, got {list(pattern)}")
    return np.array(steps, dtype=np.intp)


class Whitening:
    """L⁻¹ with L Lᵀ = K, the claimed covariance of the noise of the steps that were released."""

    def __init__(self, plan: AuditPlan, present: NDArray[np.intp]) -> None:
        noising = plan.program.mechanism.noising_matrix(plan.who.length)[present]
        whole = noising.shape[0] == noising.shape[1] and not np.triu(noising, 1).any()
        factor = noising if whole else np.linalg.qr(noising.T)[1].T
        self.matrix = solve_triangular(factor, np.eye(present.size), lower=True)
        self.covariance = noising @ noising.T
        self.present = present
        self._distance = plan.distance
        steps = np.zeros(plan.who.length)
        steps[plan.pattern] = plan.distance
        self.signal = self(steps[present])
        self.basis = self(shifts(steps)[present])
        taking_part = np.flatnonzero(steps[present])
        self.single = self(plan.distance * np.eye(present.size)[:, taking_part])
        self.drift = self(np.eye(present.size) * plan.grid / plan.scale)

    def __call__(self, releases: Array) -> Array:
        """White releases of raw ones, shape (steps, …)."""
        return np.asarray(self.matrix @ releases)

    def of_runs(self, raw: Array) -> Array:
        """White releases of raw ones of several runs, shape (runs, steps, …)."""
        return np.tensordot(self.matrix, raw, axes=(1, 1)).swapaxes(0, 1)

    def of(self, pattern: NDArray[np.intp]) -> Array:
        """The white gradients of a canary with another pattern."""
        steps = np.zeros(len(self.present))
        steps[pattern] = self._distance
        return self(steps)


def disjoint_patterns(who: Order) -> list[NDArray[np.intp]]:
    """Patterns of one example each, without common steps."""
    if who.once:
        return [np.array([step]) for step in range(who.length)]
    moved = [who.largest + first for first in range(who.period)]
    return [steps[steps < who.length] for steps in moved if steps[0] < who.length]
