"""Noise as momenta see it, made step by step.

``TreeNoise`` is the noise of a binary tree, and ``unit_noise`` that of any mechanism, as they are added to gradients;
``WeightedSums`` are their sums in a momentum.  ``WindowNoise`` keeps the nodes of the last N steps and gives the
noise of sums over any window in them, with O(N) arrays.  All have unit scale, and shape (repetitions, d) or any other.

``ReducedTrees`` and ``PublishedTrees`` hold the trees of Algorithm 2, with their scales.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from corrnoise.support.memory import fits_into_memory
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.mechanisms.tree_orders import power
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.momentum_aggregation.trees import compose, levels

Shape = tuple[int, ...]


class TreeNoise(Iterator[Array]):
    """The noise (N z)_1, (N z)_2, … of a binary tree, step by step, with one array for each binary digit of the steps.

    For runs whose noise would not fit into memory at once.
    """

    def __init__(self, tree: BinaryTree, shape: Shape, rng: np.random.Generator) -> None:
        self.tree = tree
        self.rng = rng
        self.step = 0
        self.nodes = np.zeros((tree.memory(), *shape))

    def __next__(self) -> Array:
        if self.step == self.tree.steps:
            raise StopIteration(f"the noise is made for {self.step} steps")
        self.step += 1
        height = (self.step & -self.step).bit_length() - 1
        node = np.empty(self.nodes.shape[1:])
        self.rng.standard_normal(out=node)
        node *= self.tree.draws[height]
        node += np.tensordot(self.tree.estimates[height, :height], self.nodes[:height], axes=1)
        noise = node - np.tensordot(self.tree.left[:height], self.nodes[:height], axes=1)
        self.nodes[height] = node
        return np.asarray(noise)


class WindowNoise:
    """Noise of sums over windows of at most ``length`` steps, with unit noise in each node.

    Nodes are at most as large as a window, and every one has a draw of its own, also where two end at the same step.
    """

    def __init__(self, length: int, alpha: float, shape: Shape, rng: np.random.Generator) -> None:
        self.length = length
        self.alpha = alpha
        self.rng = rng
        self.step = 0
        self.nodes = [np.zeros(((length >> level) + 1, *shape)) for level in range(levels(length))]

    def advance(self) -> None:
        """Go on to the next step and draw the nodes that it completes."""
        self.step += 1
        for level, nodes in enumerate(self.nodes):
            if self.step % (1 << level):
                break
            self.rng.standard_normal(out=nodes[(self.step >> level) % len(nodes)])

    def window(self, first: int, after: int = 0) -> Array:
        """Noise of the sum over [first, t], t the present step; only of nodes that end after step ``after``."""
        if not self.step - self.length < first <= self.step:
            raise ValueError(f"first must lie in ({self.step - self.length}, {self.step}], got {first}")
        total = np.zeros(self.nodes[0].shape[1:])
        for node in compose(first, self.step):
            if node.last <= after:
                continue
            level = (node.last - node.first + 1).bit_length() - 1
            nodes = self.nodes[level]
            total += power(self.alpha, self.step - node.last) * nodes[(node.last >> level) % len(nodes)]
        return total


class WeightedSums(Iterator[Array]):
    """The sums Σ (1 − α)^{t−τ} y_τ of noise y_t that is added to gradients: the noise of a momentum is α times them."""

    def __init__(self, noise: Iterator[Array], alpha: float) -> None:
        self.noise = noise
        self.alpha = alpha
        self.sum: Array | float = 0.0

    def __next__(self) -> Array:
        self.sum = (1 - self.alpha) * self.sum + next(self.noise)
        return np.asarray(self.sum)


def unit_noise(mechanism: Mechanism, steps: int, shape: Shape, rng: np.random.Generator) -> Iterator[Array]:
    """The unit noise of a mechanism in a run of ``steps`` steps: a tree step by step, other noise all at once."""
    if isinstance(mechanism, BinaryTree):
        return TreeNoise(mechanism, shape, rng)
    fits_into_memory("steps", steps, 24 * steps * math.prod(shape))
    return iter(mechanism.noising(rng.standard_normal((steps, *shape))))


class ReducedTrees:
    """The noise of Algorithm 2': windows of the trees of gradients and of combined leaves, prefixes of the third.

    ``scales`` are the standard deviations in the nodes of the three trees, shape (settings, 1, 1) each.
    """

    def __init__(
        self,
        steps: int,
        examples: int,
        alpha: float,
        shape: tuple[int, ...],
        scales: tuple[Array, Array, Array],
        rng: np.random.Generator,
    ) -> None:
        streams = rng.spawn(3)
        self.trees = [WindowNoise(examples, alpha, shape, stream) for stream in streams[:2]]
        tree = BinaryTree(steps, decoder="binary", decay=alpha)
        self.prefixes = WeightedSums(TreeNoise(tree, shape, streams[2]), alpha)
        self.prefix = np.zeros(shape)
        self.scales = scales

    def advance(self) -> None:
        """Go on to the next step."""
        for tree in self.trees:
            tree.advance()
        self.prefix = next(self.prefixes)

    def gradients(self, first: int) -> Array:
        """Noise of G over [first, t]."""
        return self.scales[0] * self.trees[0].window(first)

    def combined(self, first: int) -> Array:
        """Noise of (1 − γ) D + γ G over [first, t]."""
        return self.scales[1] * self.trees[1].window(first)

    def remainders(self) -> Array:
        """Noise of r over [1, t]."""
        return self.scales[2] * self.prefix


class PublishedTrees(ReducedTrees):
    """The noise of Algorithm 2 as published: trees of G, of D and of r.

    Nodes of G have another standard deviation, ``late``, if they end after step 2N.  ``scales`` are those of earlier
    nodes of G, of D and of r; γ has the shape of the scales.
    """

    def __init__(self, *arguments: Any, gammas: Array, late: Array, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.gammas = gammas
        self.late = late

    def combined(self, first: int) -> Array:
        tree = self.trees[0]
        after = tree.window(first, after=2 * tree.length)
        gradients = self.scales[0] * (tree.window(first) - after) + self.late * after
        return (1 - self.gammas) * super().combined(first) + self.gammas * gradients
