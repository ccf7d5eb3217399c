"""BSR."""

from __future__ import annotations

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.base import FewBands
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism


class BSR(FewBands):
    """The first p coefficients of the strategy (1 − z)^{−1/2}, the banded square root: p − 1 buffers."""

    name = "BSR"
    aliases = ("banded square root",)
    source = "arXiv 2405.13763"
    look = "teal"

    def make(self, run: Problem, size: int) -> Mechanism:
        return toeplitz.square_root(size + 1)
