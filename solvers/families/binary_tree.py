"""Tree aggregation."""

from __future__ import annotations

from collections.abc import Sequence

from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.objectives.base import LARGEST_MATRIX


class TreeAggregation(Family):
    """Sums over dyadic intervals: log2 n + 1 buffers."""

    name = "binary tree"
    source = "arXiv 1001.4415"
    needs = f"at most {LARGEST_MATRIX} steps"
    look = "0.6"

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        return [0] if run.steps <= LARGEST_MATRIX else []

    def make(self, run: Problem, size: int) -> Mechanism:
        return BinaryTree(run.steps, decoder="binary")
