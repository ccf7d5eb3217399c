"""BISR."""

from __future__ import annotations

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.base import FewCoefficients
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism


class BISR(FewCoefficients):
    """The first p coefficients of the noise (1 − z)^{1/2}, the banded inverse square root: p − 1 buffers."""

    name = "BISR"
    aliases = ("banded inverse square root",)
    source = "arXiv 2505.12128"
    look = "olive"

    def make(self, run: Problem, size: int) -> Mechanism:
        return toeplitz.inverse_root(size + 1)
