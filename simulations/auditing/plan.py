"""The plan of an audit: the claim, the phases of a run, and the filter that makes the claimed noise white."""

from __future__ import annotations

import math
from functools import cached_property
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

_MAX_OVERFLOW_SHARE = 1e-6  # of δ: the overflow that ``make_private`` leaves, which no audit can see
_MAX_GRID = 1 / 64  # of the noise: the largest step of a grid where the distributions hold


@record
class AuditPlan(Record):
    """The claims about a loop, in the units of the audit."""

    budget: Budget
    program: Program
    idle: int
    grid: float

    @property
    def who(self) -> Order:
        return self.program.participation.worst

    @cached_property
    def phases(self) -> list[NDArray[np.intp]]:
        """Patterns of one example each, without common steps."""
        if self.who.once:
            return [np.array([step]) for step in range(self.who.length)]
        moved = [self.who.largest + first for first in range(self.who.period)]
        return [steps[steps < self.who.length] for steps in moved if steps[0] < self.who.length]

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


def planned(claim: Any, idle: int, grid: float) -> AuditPlan:
    """The plan for the arguments of ``audit``, checked."""
    budget, program = claimed(claim)
    promised = program.participation
    who = promised.worst
    rare = budget.delta is not None and 0 <= getattr(promised, "overflow", 0) <= _MAX_OVERFLOW_SHARE * budget.delta
    tested = isinstance(promised, TestedSampler) and promised.members == 1 and (promised.examples is None or rare)
    if promised.sampled and not (tested and budget.adjacency == "zero-out"):
        raise ValueError(
            "claim must be of a tested sampler with one example a user and zero-out adjacency, without a capacity that "
            f"batches exceed, got {promised!r}, {budget.adjacency!r}"
        )
    if who.length > LARGEST_MATRIX:
        raise ValueError(f"claim must have at most {LARGEST_MATRIX} steps, got {who.length}; audit a shorter run")
    grid = checks.real("grid", grid, "[0, inf)")
    if grid > (coarsest := _MAX_GRID * program.scale(budget)):
        raise ValueError(f"grid must be at most {coarsest:.4g}, 1/64 of the noise, got {grid}")
    return AuditPlan(budget, program, idle, grid)


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


class Whitening:
    """L⁻¹ with L Lᵀ = K, the claimed covariance of the noise of the steps that were released."""

    def __init__(self, plan: AuditPlan, present: NDArray[np.intp]) -> None:
        noising = plan.program.mechanism.noising_matrix(plan.who.length)[present]
        whole = noising.shape[0] == noising.shape[1] and not np.triu(noising, 1).any()
        factor = noising if whole else np.linalg.qr(noising.T)[1].T
        self.matrix = solve_triangular(factor, np.eye(present.size), lower=True)
        self.covariance = noising @ noising.T
        self._present = present
        self._length = plan.who.length
        self._distance = plan.distance
        self.drift = self(np.eye(present.size) * plan.grid / plan.scale)

    def __call__(self, releases: Array) -> Array:
        """White releases of raw ones, shape (steps, …)."""
        return np.asarray(self.matrix @ releases)

    def of_runs(self, raw: Array) -> Array:
        """White releases of raw ones of several runs, shape (runs, steps, …)."""
        return np.tensordot(self.matrix, raw, axes=(1, 1)).swapaxes(0, 1)

    def of(self, pattern: NDArray[np.intp]) -> Array:
        """The white gradients of an example with a pattern, shape (steps,)."""
        return self(self._steps(pattern)[self._present])

    def single(self, step: int) -> Array:
        """The white gradient of one step, shape (steps,); 0 for a step that was skipped."""
        return np.asarray(self._distance * self.matrix[:, self._present == step].sum(axis=1))

    def moved(self, pattern: NDArray[np.intp]) -> Array:
        """The white gradients of a pattern that is moved to other steps, shape (steps, moves)."""
        return self(shifts(self._steps(pattern))[self._present])

    def _steps(self, pattern: NDArray[np.intp]) -> Array:
        steps = np.zeros(self._length)
        steps[pattern] = self._distance
        return steps
