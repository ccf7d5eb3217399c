"""Tree aggregation with Honaker's estimates."""

from __future__ import annotations

from corrnoise.solvers.families.binary_tree import TreeAggregation
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.tree import BinaryTree


class HonakerTree(TreeAggregation):
    """Sums over dyadic intervals, each estimated from its own subtree: log2 n + 1 buffers."""

    name = "Honaker tree"
    aliases = ("binary tree, online",)
    source = "Honaker 2015"
    look = "0.4"

    def make(self, run: Problem, size: int) -> Mechanism:
        return BinaryTree(run.steps, decoder="online")
