"""The stationary optimum of a problem."""

from __future__ import annotations

from collections.abc import Sequence

from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.learning import STATIONARY, TOLERANCE
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.rational import rational
from corrnoise.theory.problems.quadratic import problem_of


class StationaryOptimum(Family):
    """The optimum of a problem for a run of any length, by few poles: about log2 of 1/rate buffers."""

    name = STATIONARY
    needs = "an objective that is a problem with a stable learning rate"
    look = "C3"

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        problem = problem_of(run.objective)
        return [0] if problem is not None and problem.instability() < 1 else []

    def make(self, run: Problem, size: int) -> Mechanism:
        problem = problem_of(run.objective)
        assert problem is not None
        return rational(optimal_noise(problem), TOLERANCE)
