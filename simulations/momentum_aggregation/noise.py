"""Noise as momenta see it, made step by step.

``PrefixNoise`` is the noise of tree-aggregated sums over [1, t]: Σ (1 − α)^{t−z} Z over the nodes of the sum, z their
last steps, with one array for each binary digit of t.  ``WindowNoise`` keeps the nodes of the last N steps and gives
the noise of sums over any window in them, with O(N) arrays.  ``FilteredNoise`` is the momentum of any noise that is
added to gradients, such as a ``NoiseStream``.  All have unit scale, and shape (repetitions, d) or any other.

``ReducedTrees`` and ``PublishedTrees`` hold the trees of Algorithm 2, with their scales.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from corrnoise.theory.mechanisms.tree_orders import power
from corrnoise.theory.momentum_aggregation.trees import compose, levels
from corrnoise.theory.numerics.checks import Array

Shape = tuple[int, ...]


class PrefixNoise(Iterator[Array]):
    """Noise of the sums over [1, 1], [1, 2], … with unit noise in each node, for ``steps`` steps at most.

    Step t completes the node of the last binary digit 1 of t, which replaces the nodes that it joins.
    """

    def __init__(self, steps: int, alpha: float, shape: Shape, rng: np.random.Generator) -> None:
        self.alpha = alpha
        self.rng = rng
        self.step = 0
        self.nodes = np.zeros((levels(steps), *shape))

    def __next__(self) -> Array:
        self.step += 1
        if self.step >= 2 ** len(self.nodes):
            raise StopIteration(f"the noise is made for less than {2 ** len(self.nodes)} steps")
        level = (self.step & -self.step).bit_length() - 1
        self.nodes *= 1 - self.alpha
        self.nodes[:level] = 0.0
        self.rng.standard_normal(out=self.nodes[level])
        return np.asarray(self.nodes.sum(axis=0))


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


class FilteredNoise(Iterator[Array]):
    """The momentum n_t = (1 − α) n_{t−1} + α y_t of noise y_t that is added to gradients."""

    def __init__(self, noise: Iterator[Array], alpha: float) -> None:
        self.noise = noise
        self.alpha = alpha
        self.momentum: Array | float = 0.0

    def __next__(self) -> Array:
        self.momentum = (1 - self.alpha) * self.momentum + self.alpha * next(self.noise)
        return np.asarray(self.momentum)


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
        self.prefixes = PrefixNoise(steps, alpha, shape, streams[2])
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
