"""The noise of momenta, against the definition: one draw for each node."""

from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.papers.momentum_aggregation.tree_noise import (
    TreeNoise,
    WeightedSums,
    WindowNoise,
    unit_noise,
)
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.objectives.workloads import MomentumAverage
from corrnoise.theory.papers.momentum_aggregation.trees import compose, decoder_variance
from tests.simulations.papers.momentum_aggregation.nodes import Draws, noise_of_sum, prefix_nodes, window_nodes


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 37, 64])
def test_noise_of_prefixes_is_that_of_their_nodes(alpha, steps):
    draws: Any = Draws(1)
    noise = WeightedSums(TreeNoise(BinaryTree(steps, decoder="binary", decay=alpha), (2,), draws), alpha)
    found = [next(noise) for _ in range(steps)]
    by_node = dict(zip(prefix_nodes(steps), draws.kept, strict=True))  # one draw a step
    for t, row in enumerate(found, 1):
        np.testing.assert_allclose(row, noise_of_sum(by_node, 1, t, alpha), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("decoder", ["binary", "online"])
@pytest.mark.parametrize("decay", [0.0, 0.07, 1.0])
def test_a_tree_step_by_step_is_the_mechanism(decoder, decay):
    tree = BinaryTree(37, decoder=decoder, decay=decay)
    found = np.stack(list(TreeNoise(tree, (2, 3), np.random.default_rng(0))))
    z = np.random.default_rng(0).standard_normal((37, 2, 3))
    np.testing.assert_allclose(found, tree.noising(z), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(found, np.stack(list(unit_noise(tree, 37, (2, 3), np.random.default_rng(0)))))


def test_the_covariance_of_prefixes_is_that_of_the_theory():
    """The noise is a linear map of the draws; its rows give the covariance, which the theory has on the diagonal."""
    steps, alpha = 100, 0.07
    noise = BinaryTree(steps, decoder="binary", decay=alpha).noising_matrix()
    decoder = np.stack(list(WeightedSums(iter(noise), alpha)))
    np.testing.assert_allclose(np.square(decoder).sum(axis=1), decoder_variance(steps, alpha), rtol=1e-12)
    weights = np.zeros((steps, steps))
    for t in range(1, steps + 1):
        for node in compose(1, t):
            weights[t - 1, node.last - 1] = (1 - alpha) ** (t - node.last)
    covariance = decoder @ decoder.T
    np.testing.assert_allclose(covariance, weights @ weights.T, rtol=1e-11, atol=1e-13)
    wrong = weights.copy()
    wrong[70, 63] *= 1 + 1e-6  # a false neighbour
    assert np.abs(covariance - wrong @ wrong.T).max() > 1e-9


@pytest.mark.parametrize("length", [1, 2, 5, 8, 13])
def test_noise_of_windows_is_that_of_their_nodes(length):
    alpha, steps = 0.1, 60
    draws: Any = Draws(2)
    noise = WindowNoise(length, alpha, (3,), draws)
    found = []
    for t in range(1, steps + 1):
        noise.advance()
        found.append({first: noise.window(first) for first in range(max(1, t - length + 1), t + 1)})
    by_node = dict(zip(window_nodes(steps, length), draws.kept, strict=True))
    for t, windows in enumerate(found, 1):
        for first, row in windows.items():
            np.testing.assert_allclose(row, noise_of_sum(by_node, first, t, alpha), rtol=1e-12, atol=1e-14)


def test_nodes_that_end_at_one_step_have_draws_of_their_own():
    noise = WindowNoise(8, 0.1, (1,), np.random.default_rng(0))
    for _ in range(8):
        noise.advance()
    assert len({float(nodes[(8 >> level) % len(nodes)][0]) for level, nodes in enumerate(noise.nodes)}) == 4


def test_weighted_sums_are_the_momentum_of_the_noise():
    alpha, steps = 0.2, 30
    gradients = NuFTRL(alpha).noising(np.random.default_rng(3).standard_normal((steps, 4)))
    found = np.stack(list(WeightedSums(unit_noise(NuFTRL(alpha), steps, (4,), np.random.default_rng(3)), alpha)))
    np.testing.assert_allclose(alpha * found, MomentumAverage(steps, alpha=alpha).apply(gradients), rtol=1e-11)


def test_noise_ends_and_windows_that_are_not_kept_are_refused():
    noise = TreeNoise(BinaryTree(3), (1,), np.random.default_rng(0))
    assert len(list(noise)) == 3
    windows = WindowNoise(4, 0.1, (1,), np.random.default_rng(0))
    windows.advance()
    for first in (2, -3):
        with pytest.raises(ValueError, match=r"first must lie in \(-3, 1\]"):
            windows.window(first)
    with pytest.raises(ValueError, match="steps must be smaller"):
        unit_noise(NuFTRL(0.1), 10**9, (10**6,), np.random.default_rng(0))
