"""Bounds for any parameters: their closed forms against the exact accounting, and against runs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.papers.momentum_aggregation.bounds import descent_upper_bound, momentum_error_upper_bound
from corrnoise.theory.papers.momentum_aggregation.calibration import mean_variances, node_std, reduced_noise
from corrnoise.theory.papers.momentum_aggregation.reconstruction import defect_bound
from corrnoise.theory.papers.momentum_aggregation.run_bounds import DyadicTask
from corrnoise.theory.papers.momentum_aggregation.trees import decoder_variance
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.strategies import log_uniform


@given(k=st.integers(1, 5), j=st.integers(0, 5), alpha=log_uniform(1e-4, 1.0))
def test_the_bound_of_the_weights_of_prefixes(k, j, alpha):
    task = DyadicTask(2**k, 3, Budget(0.1))
    steps = 2 ** (j + k)
    tree = BinaryTree(steps, decoder="binary", decay=alpha)
    exact = tree.sensitivity(Participation.reshuffled(steps, period=2**k)) ** 2
    assert exact * (1 - 1e-10) <= task.prefix_weights(j, alpha) <= 2 * exact


@pytest.mark.parametrize(("k", "j", "alpha"), [(4, 0, 0.1), (5, 3, 0.03125), (6, 5, 0.004), (3, 4, 1.0)])
def test_bounds_are_those_of_the_lemmas_with_the_exact_noise(k, j, alpha):
    """Algorithm 1 with its largest variance; Algorithm 2 with at least its exact noise, and not much more."""
    n, steps = 2**k, 2 ** (k + j)
    constants = {"lipschitz": 0.7, "smoothness": 1.3}
    budget = Budget(0.4, clip_norm=0.7, adjacency="replace-one")
    who = Participation.reshuffled(steps, period=n)
    task = DyadicTask(2**k, 5, budget, smoothness=1.3, initial_error=0.9)
    length = 0.3 / n
    drift = sum(
        momentum_error_upper_bound(t, examples=n, alpha=alpha, learning_rate=length, **constants)
        for t in range(1, steps + 1)
    )
    std = node_std(budget, who, alpha=alpha)
    lemma = {"decrease": 0.9, "smoothness": 1.3, "learning_rate": length, "steps": steps}
    mean_noise = std * np.sqrt(5 * decoder_variance(steps, alpha)).mean()
    exact = descent_upper_bound(mean_error=drift / steps + mean_noise, **lemma)
    assert exact <= task.algorithm_1(log2_epochs=j, alpha=alpha, learning_rate=length) * (1 + 1e-9)
    largest = std * math.sqrt(5 * float(decoder_variance(steps, alpha).max()))
    loose = descent_upper_bound(mean_error=drift / steps + math.sqrt(2) * largest, **lemma)
    start = 2 * 0.7 / (alpha * steps)  # (1 − α)^T is left out
    assert task.algorithm_1(log2_epochs=j, alpha=alpha, learning_rate=length) <= loose * (1 + 1e-9) + start
    gamma = 0.2
    stds = reduced_noise(budget, who, alpha=alpha, gamma=gamma, learning_rate=length, smoothness=1.3)
    variances = mean_variances(steps, n, alpha, gamma)
    pairs = zip((stds.gradients, stds.combined, stds.remainders), variances, strict=True)
    noise = alpha * math.sqrt(5 * sum(s**2 * v for s, v in pairs if v))
    defect = defect_bound(examples=n, alpha=alpha, gamma=gamma, learning_rate=length, **constants)
    below = descent_upper_bound(mean_error=drift / steps + noise + math.sqrt(alpha) * defect, **lemma)
    bound = task.algorithm_2(log2_epochs=j, alpha=alpha, learning_rate=length, gamma=gamma)
    assert below <= bound * (1 + 1e-9)
    assert bound <= 5 * below


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"examples": 1}, "examples must be an integer >= 2, got 1"),
        ({"examples": 2**41}, r"examples must be a power of two of at most 2\^40"),
        ({"examples": 48}, "examples must be a power of two"),
        ({"budget": 1.0}, "budget must be a Budget"),
        ({"initial_error": 0.0}, r"initial_error must lie in \(0, inf\)"),
    ],
)
def test_bad_tasks(change, message):
    good: dict[str, Any] = {"examples": 32, "dimension": 2, "budget": Budget(1.0)}
    with pytest.raises((TypeError, ValueError), match=message):
        DyadicTask(**good | change)


def test_bad_parameters():
    task = DyadicTask(32, 2, Budget(1.0))
    good: dict[str, Any] = {"log2_epochs": 3, "alpha": 0.1, "learning_rate": 0.1}
    for change, message in (
        ({"alpha": 0.0}, "alpha must lie in"),
        ({"log2_epochs": 996}, r"log2_epochs must be an integer in \[0, 995\]"),
        ({"learning_rate": 0.0}, r"learning_rate must lie in \(0, inf\)"),
    ):
        with pytest.raises(ValueError, match=message):
            task.algorithm_1(**good | change)
    with pytest.raises(ValueError, match=r"gamma must lie in \(0, 1\)"):
        task.algorithm_2(**good, gamma=1.0)
