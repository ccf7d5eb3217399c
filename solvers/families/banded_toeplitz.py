"""Banded Toeplitz strategies."""

from __future__ import annotations

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.base import FewBands
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.optimum import Certificate
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.base import Mechanism


class BandedToeplitz(FewBands):
    """The best p coefficients of the strategy: p − 1 buffers; for prefix sums with a certificate."""

    name = "banded Toeplitz"
    aliases = ("best Toeplitz",)
    source = "arXiv 2306.08153"
    look = "C4"

    def make(self, run: Problem, size: int) -> Mechanism:
        return toeplitz.best_toeplitz(run.coarse, run.start, size + 1, run.root)

    def certificate(self, run: Problem, mechanism: Mechanism) -> Certificate | str:
        if run.objective.precise and isinstance(mechanism, BandedStrategyNoise):
            return toeplitz.certificate(mechanism, run.start, run.objective.aggregate) or ""
        return ""
