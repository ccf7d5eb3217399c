"""λ-CGD."""

from __future__ import annotations

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism


class LambdaCGD(Family):
    """1 − λz with the best λ: one buffer, anti-PGD for λ = 1."""

    name = "lambda-CGD"
    aliases = ("λ-CGD", "anti-PGD")
    source = "arXiv 2601.22334"
    look = "tan"

    def make(self, run: Problem, size: int) -> Mechanism:
        return toeplitz.anti_pgd(run.coarse, run.start)
