"""BandInvMF."""

from __future__ import annotations

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.base import FewCoefficients
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism


class BandInvMF(FewCoefficients):
    """The best p coefficients of the noise, the banded inverse of a strategy: p − 1 buffers."""

    name = "BandInvMF"
    aliases = ("banded inverse",)
    source = "arXiv 2505.12128"
    look = "C2"

    def make(self, run: Problem, size: int) -> Mechanism:
        return toeplitz.banded_inverse(run.coarse, run.start, size + 1, run.root)
