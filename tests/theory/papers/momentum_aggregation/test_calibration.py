"""The noise of Algorithms 1 and 2: exact privacy of the releases, and the variance that reaches the momentum."""

import math
from collections import defaultdict
from itertools import product
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant

from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.papers.momentum_aggregation.calibration import (
    mean_variances,
    node_std,
    published_node_std,
    reduced_noise,
    window_variances,
)
from corrnoise.theory.papers.momentum_aggregation.reconstruction import window_weights
from corrnoise.theory.papers.momentum_aggregation.sensitivity import ReleasedNodes, squared_weights
from corrnoise.theory.papers.momentum_aggregation.trees import compose
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_epsilon

EPOCHS = Participation.fixed_epochs(320, period=20)
ANY_ORDER = Participation.reshuffled(320, period=20)
ORDERS = pytest.mark.parametrize("who", [EPOCHS, ANY_ORDER])
REDUCED: dict[str, Any] = {"alpha": 0.05, "gamma": 0.3, "learning_rate": 0.01, "smoothness": 1.3}
REDUCED_BUDGET = Budget(0.4, clip_norm=0.7, adjacency="replace-one")
PREFIXES = BinaryTree(320, decoder="binary", decay=0.05)


def published(**change: Any) -> Budget:
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "clip_norm": 0.7, "adjacency": "replace-one"}
    return Budget(**given | change)


@ORDERS
@pytest.mark.parametrize(("adjacency", "factor"), [("zero-out", 1), ("replace-one", 2)])
def test_algorithm_1_uses_up_its_budget(who, adjacency, factor):
    std = node_std(Budget(0.3, clip_norm=0.7, adjacency=adjacency), who, alpha=0.05)
    rho = (factor * 0.7 * 0.05 * PREFIXES.sensitivity(who)) ** 2 / (2 * std**2)
    assert 0.3 * (1 - 5e-11) <= rho <= 0.3


def test_the_value_of_the_paper():
    budget = Budget(0.5, adjacency="replace-one")
    std = node_std(budget, Participation.fixed_epochs(256, period=64), alpha=1 / 64)
    assert std == pytest.approx(0.138294789029, rel=1e-11)


def test_the_published_noise_is_private_and_more_than_enough():
    std = published_node_std(published(), EPOCHS, alpha=0.05)
    exact = node_std(published(), ANY_ORDER, alpha=0.05)
    assert 3 < std / exact < 7
    weights = squared_weights(ANY_ORDER, 0.05)
    assert gaussian_epsilon((1.4 * 0.05) ** 2 * weights / (2 * std**2), 1e-5) < 1
    assert published_node_std(published(adjacency="zero-out"), EPOCHS, alpha=0.05) == std / 2


@pytest.mark.parametrize("order", ["fixed", "reshuffled"])
def test_the_curve_is_that_of_all_nodes_composed_by_dp_accounting(order):
    """Every node that the worst example changes is one Gaussian mechanism; the privacy loss is composed numerically."""
    steps, examples, alpha = 20, 5, 0.2
    nodes = [(s * 2**b + 1, (s + 1) * 2**b) for b in range(5) for s in range(0, steps // 2**b, 2)]
    patterns = product(range(5), repeat=4) if order == "reshuffled" else ((p,) * 4 for p in range(5))
    changes: list[float] = []
    for pattern in patterns:
        times = [5 * e + p + 1 for e, p in enumerate(pattern)]
        found = [sum((1 - alpha) ** (z - t) for t in times if y <= t <= z) for y, z in nodes]
        changes = max(changes, found, key=lambda weights: sum(weight**2 for weight in weights))
    kind = {"fixed": Participation.fixed_epochs, "reshuffled": Participation.reshuffled}[order]
    std = node_std(published(), kind(steps, period=examples), alpha=alpha)
    accountant = PLDAccountant()
    for weight in changes:
        if weight:
            accountant.compose(GaussianDpEvent(std / (2 * 0.7 * alpha * weight)))
    assert 1.0 - 1e-9 <= accountant.get_epsilon(1e-5) < 1.001


@pytest.mark.parametrize("examples", [49, 98, 103, 569, 1797])
def test_the_smallest_admissible_alpha_is_admitted_though_it_is_rounded(examples):
    who = Participation.reshuffled(2 * examples, period=examples)
    assert published_node_std(published(), who, alpha=1 / examples) > 0


@pytest.mark.parametrize(
    ("budget", "who", "change", "message"),
    [
        (published(), Participation.fixed_epochs(321, period=20), {}, "participation must be in whole epochs"),
        (published(), Participation.single(320), {}, "participation must be in whole epochs"),
        (published(), EPOCHS, {"alpha": 0.04}, r"alpha must lie in \[1/N, 1\]"),
        (published(epsilon=10.0, delta=0.5), EPOCHS, {}, r"delta must lie in \(0, exp\(-epsilon\)\]"),
        (published(), EPOCHS, {"height": 8}, r"height must be at least floor\(log2\(T\)\) \+ 1 = 9, got 8"),
        (Budget(1.0), EPOCHS, {}, "budget must be given by epsilon and delta"),
    ],
)
def test_the_published_noise_is_refused_where_it_is_not_sound(budget, who, change, message):
    with pytest.raises(ValueError, match=message):
        published_node_std(budget, who, **{"alpha": 0.05} | change)


@ORDERS
def test_algorithm_2_divides_its_budget(who):
    noise = reduced_noise(REDUCED_BUDGET, who, **REDUCED)
    drift = 0.01 * 1.3
    parts = (
        (0.7, squared_weights(who, 0.05, ReleasedNodes(largest=16, last=40)), noise.gradients),
        (0.7 * drift * 20 + 0.3 * 0.7, squared_weights(who, 0.05, ReleasedNodes(largest=16, first=21)), noise.combined),
        (drift * 19, PREFIXES.sensitivity(who) ** 2, noise.remainders),
    )
    spent = sum((2 * change / std) ** 2 * weights / 2 for change, weights, std in parts)
    assert 0.4 * (1 - 5e-11) <= spent <= 0.4


def test_no_other_division_has_less_noise():
    noise = reduced_noise(REDUCED_BUDGET, EPOCHS, **REDUCED)
    stds = (noise.gradients, noise.combined, noise.remainders)
    variances = mean_variances(320, 20, 0.05, 0.3)
    total = sum(v * s**2 for v, s in zip(variances, stds, strict=True))
    for first in range(3):
        for second in range(3):
            shares = [1.0] * 3  # of the budget of each tree
            parts = [v * s**2 for v, s in zip(variances, stds, strict=True)]
            used = [part / sum(parts) for part in parts]
            move = 0.05 * min(used)
            shares[first] += move / used[first]
            shares[second] -= move / used[second]
            assert sum(p / s for p, s in zip(parts, shares, strict=True)) >= total * (1 - 1e-12)


def test_a_tree_that_is_not_read_is_not_released():
    noise = reduced_noise(REDUCED_BUDGET, Participation.fixed_epochs(30, period=20), **REDUCED)
    assert noise.combined == math.inf
    assert math.isfinite(noise.gradients + noise.remainders)


@pytest.mark.parametrize(
    ("examples", "steps", "alpha", "gamma"), [(5, 37, 0.3, 0.4), (4, 16, 1.0, 0.0), (3, 2, 0.1, 0.9)]
)
def test_variances_against_the_coefficients_of_all_nodes(examples, steps, alpha, gamma):
    weights = window_weights(steps // examples, epoch_decay=(1 - alpha) ** examples, gamma=gamma)
    means = [0.0] * 3
    for t in range(1, steps + 1):
        q, r = divmod(t, examples)
        trees = [defaultdict(float) for _ in range(3)]
        for node in compose(1, r):
            trees[0][node] += (1 - alpha) ** (q * examples + r - node.last)
        for node in compose(r + 1, r + examples) if q else ():
            trees[0][node] += weights[q] * (1 - alpha) ** (r + examples - node.last)
        for i in range(1, q):
            end = t - (i - 1) * examples
            for node in compose(end - examples + 1, end):
                trees[1][node] += weights[i] * (1 - alpha) ** (end - node.last)
        for node in compose(1, t):
            trees[2][node] += (1 - alpha) ** (t - node.last)
        for k, tree in enumerate(trees):
            means[k] += sum(c**2 for c in tree.values()) / steps
    assert mean_variances(steps, examples, alpha, gamma) == pytest.approx(means, rel=1e-12)


def test_windows_of_one_epoch():
    found = window_variances(40, 7, 0.1)
    expected = [sum(0.9 ** (2 * (t - node.last)) for node in compose(t - 6, t)) for t in range(7, 41)]
    assert found == pytest.approx(expected, rel=1e-13)
