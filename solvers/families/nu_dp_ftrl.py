"""ν-DP-FTRL."""

from __future__ import annotations

from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.learning import TOLERANCE
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.rational import rational


class NuDPFTRL(Family):
    """(1 − (1 − ν) z)^{1/2} with the best ν, by few poles: about log2 n buffers."""

    name = "nu-DP-FTRL"
    aliases = ("ν-DP-FTRL",)
    source = "arXiv 2310.06771"
    look = "C5"

    def make(self, run: Problem, size: int) -> Mechanism:
        """Make rational noise in place of nu-DP-FTRL; ν is at least 1e-3/n, because ν = 0 has no rational noise."""
        return rational(NuFTRL(max(run.nu.nu, 1e-3 / run.steps)), TOLERANCE)
