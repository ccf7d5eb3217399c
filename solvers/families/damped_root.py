"""The damped fractional root."""

from __future__ import annotations

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.base import FewCoefficients
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism


class DampedRoot(FewCoefficients):
    """The first p coefficients of the noise (1 − (1 − ν) z)^γ with the best ν and γ: p − 1 buffers."""

    name = "damped root"
    look = "hotpink"

    def make(self, run: Problem, size: int) -> Mechanism:
        count = min(size + 1, run.steps - 1)  # n coefficients do not count as few
        return toeplitz.damped_root(run.coarse, run.start, max(count, 1))
