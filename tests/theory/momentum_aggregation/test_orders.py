"""Sensitivity in fixed and reshuffled orders, against all places of one example."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import NuFTRL, ProductNoise
from corrnoise.theory.momentum_aggregation.orders import order_sensitivity


def brute_force(mechanism: Mechanism, examples: int, *, fixed: bool) -> float:
    """The largest |Σ_t s_t C e_t| over the steps of one example and signs, for gradients of norm 1."""
    strategy = mechanism.strategy()
    epochs = [range(first, min(first + examples, mechanism.steps)) for first in range(0, mechanism.steps, examples)]
    largest = 0.0
    for steps in itertools.product(*epochs):
        if fixed and len({t % examples for t in steps}) > 1:
            continue
        for signs in itertools.product((1, -1), repeat=len(steps) - 1):
            largest = max(largest, float(np.linalg.norm(strategy[:, steps] @ np.array([1, *signs]))))
    return largest


def mechanisms() -> st.SearchStrategy[Mechanism]:
    nus = st.floats(0.01, 1.9).map(lambda nu: NuFTRL(nu))
    products = st.tuples(st.floats(0.05, 1.9), st.floats(0.05, 1.9)).map(
        lambda a: ProductNoise(list(a), [0.5, -0.5])
    )
    matrices = st.integers(0, 2**32 - 1).map(
        lambda seed: MatrixNoise(np.tril(np.random.default_rng(seed).standard_normal((8, 8))) + 3 * np.eye(8))
    )
    return nus | products | matrices


@given(mechanism=mechanisms(), examples=st.sampled_from([2, 4]))
def test_no_places_of_an_example_are_worse(mechanism, examples):
    fixed = order_sensitivity(mechanism, examples, "fixed")
    any_order = order_sensitivity(mechanism, examples, "reshuffled")
    assert brute_force(mechanism, examples, fixed=True) <= fixed * (1 + 1e-12)
    assert brute_force(mechanism, examples, fixed=False) <= any_order * (1 + 1e-12)


def test_independent_noise_has_the_root_of_the_number_of_epochs_for_any_order():
    independent = NuFTRL(1.0)
    for order in ("fixed", "reshuffled"):
        assert order_sensitivity(independent, 4, order) == pytest.approx(math.sqrt(3), rel=1e-8)


def test_the_fixed_order_would_not_cover_reshuffling():
    mechanism = NuFTRL(0.1)
    assert brute_force(mechanism, 4, fixed=False) > 1.05 * order_sensitivity(mechanism, 4, "fixed")


@pytest.mark.parametrize(("alpha", "epochs"), [(1 / 16, 4), (0.2, 5), (1 / 16, 12)])
def test_the_bound_is_nearly_attained_by_pairs_of_close_occurrences(alpha, epochs):
    """The last step of an epoch and the first one of the next, in turns; all at once as close is impossible."""
    steps = 16 * epochs
    mechanism = NuFTRL(alpha)
    strategy = mechanism.strategy()
    places = [16 * e + (15 if e % 2 == 0 else 0) for e in range(epochs)]
    attained = float(np.linalg.norm(strategy[:, places].sum(axis=1)))
    bound = order_sensitivity(mechanism, 16, "reshuffled")
    assert attained <= bound < 1.06 * attained


def test_one_epoch_has_no_order():
    mechanism = NuFTRL(0.1)
    found = [order_sensitivity(mechanism, 7, order) for order in ("fixed", "reshuffled")]
    assert found[0] == found[1] == order_sensitivity(mechanism, 100, "reshuffled")


def test_bad_arguments():
    with pytest.raises(ValueError, match="order must be one of 'fixed', 'reshuffled', got 'random'"):
        order_sensitivity(NuFTRL(0.1), 3, "random")
    with pytest.raises(TypeError, match="mechanism must be a Mechanism"):
        order_sensitivity(NuFTRL(0.1), 3, "fixed")
