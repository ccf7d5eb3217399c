"""Independent noise, without correlation between steps."""

from __future__ import annotations

from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.optimum import INDEPENDENT
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD


class IndependentNoise(Family):
    """The noise of DP-SGD, which needs no buffer."""

    name = INDEPENDENT
    aliases = ("DP-SGD",)
    look = "black"

    def make(self, run: Problem, size: int) -> Mechanism:
        return DPSGD()
