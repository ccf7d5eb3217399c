"""The loops of Algorithms 1 and 2' against their definitions."""

import math
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.papers.momentum_aggregation.descent import (
    ReducedMomentumSteps,
    clipped_gradients,
    direction,
    draw_orders,
    momentum_step,
    recorded_steps,
    run_steps,
)
from corrnoise.simulations.papers.momentum_aggregation.tree_noise import (
    PublishedTrees,
    ReducedTrees,
    TreeNoise,
    WeightedSums,
)
from corrnoise.theory.losses import EmpiricalRisk, MarginLoss
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.papers.momentum_aggregation.reconstruction import weighted_sum, window_weights
from corrnoise.theory.papers.momentum_aggregation.trees import decoder_variance
from corrnoise.theory.participation import Participation
from tests.simulations.papers.momentum_aggregation.nodes import Draws, noise_of_sum, prefix_nodes, window_nodes

N, D = 5, 3
ALPHA = 0.23


def risk(rows: np.ndarray | None = None) -> EmpiricalRisk:
    if rows is None:
        rows = np.random.default_rng(5).standard_normal((N, D))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return EmpiricalRisk(MarginLoss("sigmoid", D, 1.0), rows, 0.02)


def column(*values: float) -> np.ndarray:
    return np.array(values).reshape(-1, 1, 1)


def iterates(step: Any, steps: int, settings: int, repetitions: int) -> np.ndarray:
    return run_steps(step, np.zeros((settings, repetitions, D)), steps, steps, name="test").points


def test_algorithm_1_by_its_definition():
    steps, f = 23, risk()
    orders = draw_orders(Participation.reshuffled(steps, period=N), 2, np.random.default_rng(0))
    draws: Any = Draws(3)
    noise = WeightedSums(TreeNoise(BinaryTree(steps, decoder="binary", decay=ALPHA), (2, D), draws), ALPHA)
    lengths, scales = column(0.1, 0.3), column(0.05, 0.2)
    step = momentum_step(f, orders, alpha=ALPHA, lengths=lengths, noise=noise, scales=scales, clip_norm=0.2)
    found = iterates(step, steps, 2, 2)
    by_node = dict(zip(prefix_nodes(steps), draws.kept, strict=True))
    w = np.zeros((2, 2, D))
    leaves: list[np.ndarray] = []
    for t in range(1, steps + 1):
        np.testing.assert_allclose(found[t - 1], w, atol=1e-12)
        leaves.append(
            clipped_gradients(f.loss, w, f.examples[orders[t - 1]], 0.2)
            + 0.02 * w / np.sqrt(1 + (w**2).sum(-1))[..., None]
        )
        momentum = ALPHA * weighted_sum(np.stack(leaves), 1, t, ALPHA) + scales * noise_of_sum(by_node, 1, t, ALPHA)
        w = w - lengths * momentum / np.linalg.norm(momentum, axis=-1, keepdims=True)
    np.testing.assert_allclose(found[-1], w, atol=1e-12)


def test_without_gradients_the_momentum_is_the_noise_of_the_theory():
    """Examples that are 0 leave the noise alone: its sample variances are s² F(t), false alarms 1e-6 in all."""
    steps, repetitions, std = 13, 4000, 0.7
    f = EmpiricalRisk(MarginLoss("sigmoid", 1, 1.0), np.zeros((N, 1)))
    orders = draw_orders(Participation.fixed_epochs(steps, period=N), repetitions, np.random.default_rng(0))
    seen: list[np.ndarray] = []

    class Spy(WeightedSums):
        def __next__(self) -> np.ndarray:
            seen.append(super().__next__())
            return seen[-1]

    tree = BinaryTree(steps, decoder="binary", decay=ALPHA)
    noise = Spy(TreeNoise(tree, (repetitions, 1), np.random.default_rng(1)), ALPHA)
    step = momentum_step(f, orders, alpha=ALPHA, lengths=column(1.0), noise=noise, scales=column(std))
    moves = np.diff(run_steps(step, np.zeros((1, repetitions, 1)), steps, steps, name="test").points, axis=0)[
        :, 0, :, 0
    ]
    np.testing.assert_array_equal(moves, -np.sign(np.stack(seen)[..., 0]))  # nothing but the noise decides
    variances = np.square(std * np.stack(seen)[..., 0]).mean(axis=1)
    exact = std**2 * decoder_variance(steps, ALPHA)
    z = (variances / exact - 1) / math.sqrt(2 / repetitions)
    assert np.abs(z).max() < 5.6  # 13 normal variables beyond it with probability 3e-7


def brute_reduced(f, orders, gammas, lengths, scales, draws, steps):
    """Algorithm 2' by its definition: leaves, nodes of three trees, and the sum over windows of Algorithm 4."""
    repetitions = orders.shape[1]
    settings = len(gammas)
    w = np.zeros((settings, repetitions, D))
    starts = [w]
    leaves: dict[str, list[np.ndarray]] = {"G": [], "H": [], "r": []}
    found = [w]
    a = (1 - ALPHA) ** N

    def gradient(at, t):
        return f.loss.gradients(at, f.examples[orders[t - 1]]) + f.regulariser_gradients(at)

    def noisy(kind, first, last):
        scale = dict(zip("GHr", scales, strict=True))[kind]
        return weighted_sum(np.stack(leaves[kind]), first, last, ALPHA) + scale * noise_of_sum(
            draws[kind], first, last, ALPHA
        )

    for t in range(1, steps + 1):
        q = (t - 1) // N
        if len(starts) <= q:
            starts.append(w)
        leaf = gradient(starts[q], t)
        change = leaf - gradient(starts[q - 1], t) if q else 0 * leaf
        leaves["G"].append(leaf)
        leaves["H"].append((1 - gammas) * change + gammas * leaf)
        leaves["r"].append(gradient(w, t) - leaf)
        q, r = divmod(t, N)
        total = (1 - ALPHA) ** (q * N) * noisy("G", 1, r) if r else 0.0
        if q:
            for s, gamma in enumerate(gammas[:, 0, 0]):
                weights = window_weights(q, epoch_decay=a, gamma=gamma)
                part = weights[q] * noisy("G", r + 1, r + N)[s]
                for i in range(1, q):
                    part = part + weights[i] * noisy("H", t - i * N + 1, t - (i - 1) * N)[s]
                total = total + part * (np.arange(settings) == s)[:, None, None]
        momentum = ALPHA * (total + noisy("r", 1, t))
        w = w - lengths * direction(momentum)
        found.append(w)
    return np.stack(found)


@pytest.mark.parametrize("order", [Participation.fixed_epochs, Participation.reshuffled])
def test_algorithm_2_by_its_definition(order):
    steps, f = 33, risk()
    orders = draw_orders(order(steps, period=N), 2, np.random.default_rng(0))
    kept = [Draws(4), Draws(5), Draws(6)]

    class Parent:
        def spawn(self, count: int) -> list[Draws]:
            return kept[:count]

    parent: Any = Parent()
    gammas, lengths = column(0.3, 0.0, 0.8), column(0.1, 0.2, 0.3)
    scales = (column(0.1, 0.2, 0.3), column(0.4, 0.5, 0.1), column(0.2, 0.1, 0.05))
    noise = ReducedTrees(steps, N, ALPHA, (2, D), scales, parent)
    step = ReducedMomentumSteps(f, orders, alpha=ALPHA, gammas=gammas, lengths=lengths, noise=noise)
    found = iterates(step, steps, 3, 2)
    windows = window_nodes(steps, N)
    draws = {
        "G": dict(zip(windows, kept[0].kept, strict=True)),
        "H": dict(zip(windows, kept[1].kept, strict=True)),
        "r": dict(zip(prefix_nodes(steps), kept[2].kept, strict=True)),
    }
    expected = brute_reduced(f, orders, gammas, lengths, scales, draws, steps)
    recorded = recorded_steps(steps, steps)
    np.testing.assert_allclose(found, expected[recorded - 1], atol=1e-11)


def test_the_published_noise_of_windows():
    """Nodes of G have one standard deviation up to step 2N and another one later; D has its own tree."""
    kept = [Draws(7), Draws(8), Draws(9)]

    class Parent:
        def spawn(self, count: int) -> list[Draws]:
            return kept[:count]

    parent: Any = Parent()
    steps, gamma = 23, 0.3
    scales = (column(2.0), column(0.5), column(1.0))
    noise = PublishedTrees(steps, N, ALPHA, (1, D), scales, parent, gammas=column(gamma), late=column(7.0))
    found = {}
    for t in range(1, steps + 1):
        noise.advance()
        if t >= 2 * N:
            found[t] = noise.combined(t - N + 1)
    nodes = window_nodes(steps, N)
    gradients = {
        node: (2.0 if node.last <= 2 * N else 7.0) * draw for node, draw in zip(nodes, kept[0].kept, strict=True)
    }
    differences = {node: 0.5 * draw for node, draw in zip(nodes, kept[1].kept, strict=True)}
    for t, row in found.items():
        expected = gamma * noise_of_sum(gradients, t - N + 1, t, ALPHA)
        expected = expected + (1 - gamma) * noise_of_sum(differences, t - N + 1, t, ALPHA)
        np.testing.assert_allclose(row[0], expected, rtol=1e-12, atol=1e-13)


def test_without_noise_and_in_a_fixed_order_both_algorithms_are_the_same():
    steps, f = 41, risk()
    orders = draw_orders(Participation.fixed_epochs(steps, period=N), 3, np.random.default_rng(0))
    one = momentum_step(f, orders, alpha=ALPHA, lengths=column(0.1), noise=None, scales=column(0.0))
    two = ReducedMomentumSteps(f, orders, alpha=ALPHA, gammas=column(0.4), lengths=column(0.1))
    np.testing.assert_allclose(iterates(one, steps, 1, 3), iterates(two, steps, 1, 3), atol=1e-12)


def test_orders_visit_every_example_once_an_epoch():
    rng = np.random.default_rng(0)
    fixed = draw_orders(Participation.fixed_epochs(30, period=7), 3, rng)
    reshuffled = draw_orders(Participation.reshuffled(30, period=7), 3, rng)
    for orders in (fixed, reshuffled):
        assert orders.shape == (30, 3)
        for epoch in range(4):
            assert (np.sort(orders[7 * epoch : 7 * epoch + 7], axis=0) == np.arange(7)[:, None]).all()
    assert (fixed[:23] == fixed[7:]).all()
    assert not (reshuffled[:7] == reshuffled[7:14]).all()


def test_clipping_shortens_long_gradients_only():
    loss = MarginLoss("squares", 2, 1.0)
    rows = np.array([[1.0, 0.0], [0.0, 0.5]])
    points = np.zeros((2, 2))
    found = clipped_gradients(loss, points, rows, 0.6)
    np.testing.assert_allclose(found, [[-0.6, 0.0], [0.0, -0.5]])


def test_what_is_recorded():
    assert recorded_steps(8, 4).tolist() == [1, 3, 5, 7, 9]
    assert recorded_steps(3, 100).tolist() == [1, 2, 3, 4]
    with pytest.raises(FloatingPointError, match="test: an iterate is not finite"):
        run_steps(lambda t, w: w * np.inf, np.ones((1, 1, 1)), 2, 1, name="test")
    np.testing.assert_array_equal(direction(np.zeros((1, 2))), np.zeros((1, 2)))
