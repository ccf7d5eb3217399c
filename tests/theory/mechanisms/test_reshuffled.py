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
from corrnoise.theory.participation import Participation


def brute_force(mechanism: Mechanism, examples: int, *, fixed: bool) -> float:
    """The largest |Σ_t s_t C e_t| over the steps of one example and signs, for gradients of norm 1."""
    strategy = mechanism.strategy(8)
    epochs = [range(first, first + examples) for first in range(0, 8, examples)]
    largest = 0.0
    for steps in itertools.product(*epochs):
        if fixed and len({t % examples for t in steps}) > 1:
            continue
        for signs in itertools.product((1, -1), repeat=len(steps) - 1):
            largest = max(largest, float(np.linalg.norm(strategy[:, steps] @ np.array([1, *signs]))))
    return largest


def mechanisms() -> st.SearchStrategy[Mechanism]:
    nus = st.floats(0.01, 1.9).map(NuFTRL)
    products = st.tuples(st.floats(0.05, 1.9), st.floats(0.05, 1.9)).map(lambda a: ProductNoise(list(a), [0.5, -0.5]))
    matrices = st.integers(0, 2**32 - 1).map(
        lambda seed: MatrixNoise(np.tril(np.random.default_rng(seed).standard_normal((8, 8))) + 3 * np.eye(8))
    )
    return nus | products | matrices


def in_epochs(mechanism: Mechanism, examples: int, steps: int = 8) -> tuple[float, float]:
    """Upper bounds of the sensitivity for one order and for any orders."""
    kinds = (Participation.fixed_epochs, Participation.reshuffled)
    fixed, reshuffled = (mechanism.sensitivity_upper_bound(kind(steps, period=examples)) for kind in kinds)
    return fixed, reshuffled


@given(mechanism=mechanisms(), examples=st.sampled_from([2, 4]))
def test_no_places_of_an_example_are_worse(mechanism, examples):
    fixed, any_order = in_epochs(mechanism, examples)
    assert brute_force(mechanism, examples, fixed=True) <= fixed * (1 + 1e-12)
    assert brute_force(mechanism, examples, fixed=False) <= any_order * (1 + 1e-12)


def test_independent_noise_has_the_root_of_the_number_of_epochs_for_any_order():
    assert in_epochs(NuFTRL(1.0), 4, 12) == pytest.approx((math.sqrt(3), math.sqrt(3)), rel=1e-8)


def test_the_fixed_order_would_not_cover_reshuffling():
    assert brute_force(NuFTRL(0.1), 4, fixed=False) > 1.05 * in_epochs(NuFTRL(0.1), 4)[0]


@pytest.mark.parametrize(("alpha", "epochs"), [(1 / 16, 4), (0.2, 5), (1 / 16, 12)])
def test_the_bound_is_nearly_attained_by_pairs_of_close_occurrences(alpha, epochs):
    """The last step of an epoch and the first one of the next, in turns; all at once as close is impossible."""
    steps = 16 * epochs
    strategy = NuFTRL(alpha).strategy(steps)
    places = [16 * e + (15 if e % 2 == 0 else 0) for e in range(epochs)]
    attained = float(np.linalg.norm(strategy[:, places].sum(axis=1)))
    bound = in_epochs(NuFTRL(alpha), 16, steps)[1]
    assert attained <= bound < 1.06 * attained


def test_one_epoch_has_no_order():
    fixed, any_order = in_epochs(NuFTRL(0.1), 7, 7)
    assert fixed == any_order == in_epochs(NuFTRL(0.1), 100, 7)[1]


def test_known_values():
    """The square root of a momentum with α = 1/64."""
    assert np.square(in_epochs(NuFTRL(1 / 64), 64, 256)) == pytest.approx((8.932015, 14.089837), rel=1e-6)
