"""γ-BIFR."""

from __future__ import annotations

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.base import FewCoefficients
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism


class GammaBIFR(FewCoefficients):
    """The first p coefficients of the noise (1 − z)^γ with the best γ, a banded inverse fractional root."""

    name = "gamma-BIFR"
    aliases = ("γ-BIFR",)
    source = "arXiv 2605.18379"
    look = "orchid"

    def make(self, run: Problem, size: int) -> Mechanism:
        return toeplitz.fractional_root(run.coarse, run.start, min(size + 1, run.steps))
