"""The published noise of Algorithm 2: exact privacy of all nodes, and refusals."""

from typing import Any

import numpy as np
import pytest

from corrnoise.theory.papers.momentum_aggregation.published_reduced_noise import published_reduced_noise
from corrnoise.theory.papers.momentum_aggregation.trees import Node
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_epsilon

BUDGET = Budget(epsilon=1.0, delta=1e-5, clip_norm=0.7, adjacency="replace-one")
EPOCHS = Participation.fixed_epochs(12, period=4)
RUN: dict[str, Any] = {"alpha": 0.3, "learning_rate": 0.05, "smoothness": 1.3}


def brute_force(noise, positions: list[int]) -> float:
    """ρ of one example at these steps, from every node of the three trees."""
    steps, n, alpha = 12, 4, 0.3
    nodes = [
        Node(t - 2**level + 1, t)
        for t in range(1, steps + 1)
        for level in range(steps.bit_length())
        if t % 2**level == 0
    ]
    drift = 2 * RUN["learning_rate"] * n * RUN["smoothness"]
    total = 0.0
    for node in nodes:
        weight = sum((1 - alpha) ** (node.last - t) for t in positions if node.first <= t <= node.last)
        total += (2 * 0.7 * weight / (noise.early if node.last <= 2 * n else noise.late)) ** 2
        total += (drift * weight / noise.remainders) ** 2
        if node.first > n:
            total += (drift * weight / noise.differences) ** 2
    return total / 2


@pytest.mark.parametrize("who", [EPOCHS, Participation.reshuffled(12, period=4)])
def test_all_nodes_together_are_covered(who):
    noise = published_reduced_noise(BUDGET, who, **RUN)
    orders = np.stack(np.meshgrid(*[np.arange(1, 5) + first for first in (0, 4, 8)]), axis=-1).reshape(-1, 3)
    if who == EPOCHS:
        orders = orders[(orders[:, 1] == orders[:, 0] + 4) & (orders[:, 2] == orders[:, 0] + 8)]
    worst = max(brute_force(noise, row.tolist()) for row in orders)
    assert worst <= noise.rho <= 2 * worst
    assert gaussian_epsilon(noise.rho, 1e-5) <= 1.0
    half = published_reduced_noise(Budget(**{**BUDGET.arguments(), "adjacency": "zero-out"}), who, **RUN)
    assert (half.early, half.late, half.remainders) == (noise.early / 2, noise.late / 2, noise.remainders / 2)
    assert half.rho == noise.rho


def test_without_the_smoothness_the_noise_would_be_too_small():
    """As printed, 2 η N: with L = 10 the trees of D and r would take a hundred times their share."""
    right = published_reduced_noise(BUDGET, EPOCHS, **RUN | {"smoothness": 10.0})
    printed = published_reduced_noise(BUDGET, EPOCHS, **RUN | {"smoothness": 1.0})
    assert right.remainders == pytest.approx(10 * printed.remainders, rel=1e-12)
    assert right.rho == printed.rho


@pytest.mark.parametrize(
    ("budget", "who", "change", "message"),
    [
        (BUDGET, Participation.fixed_epochs(13, period=4), {}, "participation must be in whole epochs"),
        (BUDGET, Participation.fixed_epochs(4, period=4), {}, "steps must be an integer >= 8, got 4"),
        (BUDGET, Participation.fixed_epochs(4, period=1), {}, "period must be an integer >= 2, got 1"),
        (BUDGET, EPOCHS, {"alpha": 0.2}, r"alpha must lie in \[0.25, 1\], got 0.2"),
        (BUDGET, EPOCHS, {"smoothness": 0.0}, "smoothness must lie in"),
        (Budget(epsilon=40.0, delta=0.9), EPOCHS, {}, "the published noise is private for this run"),
        (Budget(1.0), EPOCHS, {}, "budget must be given by epsilon and delta"),
    ],
)
def test_what_is_refused(budget, who, change, message):
    with pytest.raises(ValueError, match=message):
        published_reduced_noise(budget, who, **RUN | change)
