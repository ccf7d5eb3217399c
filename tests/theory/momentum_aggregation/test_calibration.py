"""The noise of Algorithms 1 and 2: exact privacy of what is released, and the variance that reaches the momentum."""

import math
from collections import defaultdict
from itertools import product
from typing import Any

import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant

from corrnoise.theory.momentum_aggregation.calibration import (
    mean_variances,
    node_std,
    published_node_std,
    reduced_noise,
    window_variances,
)
from corrnoise.theory.momentum_aggregation.reconstruction import window_weights
from corrnoise.theory.momentum_aggregation.sensitivity import PREFIX_NODES, Nodes, squared_weights
from corrnoise.theory.momentum_aggregation.trees import compose
from corrnoise.theory.privacy import gaussian_epsilon, gaussian_rho

RUN: dict[str, Any] = {"steps": 320, "examples": 20, "alpha": 0.05, "lipschitz": 0.7}
REDUCED: dict[str, Any] = RUN | {
    "gamma": 0.3,
    "learning_rate": 0.01,
    "smoothness": 1.3,
    "rho": 0.4,
    "adjacency": "replace-one",
}


@pytest.mark.parametrize("order", ["fixed", "reshuffled"])
@pytest.mark.parametrize(("adjacency", "factor"), [("zero-out", 1), ("replace-one", 2)])
def test_algorithm_1_uses_up_its_budget(order, adjacency, factor):
    std = node_std(**RUN, rho=0.3, order=order, adjacency=adjacency)
    weights = squared_weights(320, 20, 0.05, order=order, nodes=PREFIX_NODES)
    rho = (factor * 0.7 * 0.05) ** 2 * weights / (2 * std**2)
    assert 0.3 * (1 - 1e-12) <= rho <= 0.3


def test_the_published_noise_is_private_and_more_than_enough():
    std = published_node_std(**RUN, epsilon=1.0, delta=1e-5)
    exact = node_std(**RUN, rho=gaussian_rho(1.0, 1e-5), order="reshuffled", adjacency="replace-one")
    assert 3 < std / exact < 7
    weights = squared_weights(320, 20, 0.05, order="reshuffled")
    assert gaussian_epsilon((1.4 * 0.05) ** 2 * weights / (2 * std**2), 1e-5) < 1


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
    std = node_std(
        steps=steps,
        examples=examples,
        alpha=alpha,
        lipschitz=0.7,
        rho=gaussian_rho(1.0, 1e-5),
        order=order,
        adjacency="replace-one",
    )
    accountant = PLDAccountant()
    for weight in changes:
        if weight:
            accountant.compose(GaussianDpEvent(std / (2 * 0.7 * alpha * weight)))
    assert 1.0 - 1e-9 <= accountant.get_epsilon(1e-5) < 1.001


@pytest.mark.parametrize("examples", [49, 98, 103, 569, 1797])
def test_the_smallest_admissible_alpha_is_admitted_though_it_is_rounded(examples):
    change = {"steps": 2 * examples, "examples": examples, "alpha": 1 / examples}
    assert published_node_std(**RUN | change, epsilon=1.0, delta=1e-5) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 321}, "steps must be a multiple of examples=20"),
        ({"alpha": 0.04}, r"alpha must lie in \[1/examples, 1\]"),
        ({"epsilon": 10.0, "delta": 0.5}, r"delta must lie in \(0, exp\(-epsilon\)\]"),
        ({"height": 8}, r"height must be at least floor\(log2\(steps\)\) \+ 1 = 9, got 8"),
        ({"lipschitz": 0.0}, "lipschitz must lie in"),
    ],
)
def test_the_published_noise_is_refused_where_it_is_not_sound(change, message):
    with pytest.raises(ValueError, match=message):
        published_node_std(**{"epsilon": 1.0, "delta": 1e-5} | RUN | change)


@pytest.mark.parametrize("order", ["fixed", "reshuffled"])
def test_algorithm_2_divides_its_budget(order):
    noise = reduced_noise(**REDUCED, order=order)
    drift = 0.01 * 1.3
    parts = (
        (0.7, Nodes(largest=16, last=40), noise.gradients),
        (0.7 * drift * 20 + 0.3 * 0.7, Nodes(largest=16, first=21), noise.combined),
        (drift * 19, PREFIX_NODES, noise.remainders),
    )
    spent = sum(
        (2 * change / std) ** 2 * squared_weights(320, 20, 0.05, order=order, nodes=nodes) / 2
        for change, nodes, std in parts
    )
    assert 0.4 * (1 - 1e-11) <= spent <= 0.4


def test_no_other_division_has_less_noise():
    noise = reduced_noise(**REDUCED, order="fixed")
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
    noise = reduced_noise(**REDUCED | {"steps": 30}, order="fixed")
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
