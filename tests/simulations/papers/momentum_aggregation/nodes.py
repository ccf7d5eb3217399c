"""The noise of nodes by the definition, one draw for each node, in the order of programs."""

import numpy as np

from corrnoise.theory.papers.momentum_aggregation.trees import Node, compose


class Draws:
    """A generator that keeps what it draws."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.kept: list[np.ndarray] = []

    def standard_normal(self, out: np.ndarray) -> None:
        self.rng.standard_normal(out=out)
        self.kept.append(out.copy())


def prefix_nodes(steps: int) -> list[Node]:
    """The node that each step completes and prefixes use."""
    return [Node(t - (t & -t) + 1, t) for t in range(1, steps + 1)]


def window_nodes(steps: int, length: int) -> list[Node]:
    """All nodes of at most ``length`` steps, by their last step, small ones first."""
    return [
        Node(t - 2**level + 1, t)
        for t in range(1, steps + 1)
        for level in range(length.bit_length())
        if t % 2**level == 0
    ]


def noise_of_sum(draws: dict[Node, np.ndarray], first: int, last: int, alpha: float) -> np.ndarray:
    """Σ (1 − α)^{last − z} Z over the nodes of [first, last]."""
    nodes = compose(first, last)
    zero = np.zeros_like(next(iter(draws.values())))
    return sum(((1 - alpha) ** (last - node.last) * draws[node] for node in nodes), zero)
