"""Sensitivity in reshuffled orders, against all patterns, all signs and all gradients."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.worst_case import worst_case
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.reshuffled import any_toeplitz_sensitivity, reshuffled_sensitivity
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from tests.strategies import mechanisms, noises, participations


def brute_force(strategy: np.ndarray, epochs: list[range], count: int) -> float:
    """The largest |Σ_t s_t C e_t| over one step in each of ``count`` epochs, and signs."""
    largest = 0.0
    for chosen in itertools.combinations(epochs, count):
        for steps in itertools.product(*chosen):
            for signs in itertools.product((1, -1), repeat=count - 1):
                largest = max(largest, float(np.linalg.norm(strategy[:, steps] @ np.array([1, *signs]))))
    return largest


def in_epochs(mechanism: Mechanism, period: int, steps: int = 8) -> tuple[float, float]:
    """Upper bounds of the sensitivity for one order and for any orders."""
    kinds = (Participation.fixed_epochs, Participation.reshuffled)
    fixed, reshuffled = (mechanism.sensitivity_upper_bound(kind(steps, period=period)) for kind in kinds)
    return fixed, reshuffled


def test_a_tree_is_not_exact_where_an_example_skips_epochs():
    """Two of three epochs: 7, where all three give 8."""
    found = BinaryTree(5, decoder="binary").bracket(Participation.reshuffled(5, period=2, count=2))
    assert found.lower <= math.sqrt(7) <= found.upper
    every = BinaryTree(5, decoder="binary").bracket(Participation.reshuffled(5, period=2))
    assert every.exact
    assert every.value == pytest.approx(math.sqrt(8), rel=1e-10)


@given(participations(kinds=("reshuffled",)), st.data())
def test_no_places_of_an_example_are_worse(who, data):
    """With signs by brute force, and with gradients of any directions; exact only where the two ends are one."""
    n, b = who.length, who.period
    run = data.draw(mechanisms(n) | noises())
    strategy = run.strategy(n)
    found = run.bracket(who)
    signs = brute_force(strategy, [range(first, min(first + b, n)) for first in range(0, n, b)], who.count)
    truth = worst_case(strategy, who)
    assert signs <= truth.upper * (1 + 1e-12)
    assert found.lower <= truth.upper * (1 + 1e-12)
    assert truth.value <= found.upper * (1 + 1e-12)
    assert not found.exact or found.value == pytest.approx(truth.value, rel=2e-9)
    dense = reshuffled_sensitivity(strategy, who)
    assert dense.lower <= truth.upper
    assert truth.value <= dense.upper


def test_gradients_that_are_not_collinear_count():
    """Three unit columns with inner products −a: signs alone would give 3 + 2a in place of 3 + 3a."""
    a = 0.3
    strategy = np.linalg.cholesky(np.full((3, 3), -a) + (1 + a) * np.eye(3)).T
    who = Participation.reshuffled(3, epochs=3)
    found = reshuffled_sensitivity(strategy, who)
    assert found.exact
    assert found.value**2 == pytest.approx(3 + 3 * a, rel=1e-12)
    assert brute_force(strategy, [range(t, t + 1) for t in range(3)], 3) ** 2 == pytest.approx(3 + 2 * a, rel=1e-12)


def test_fewer_participations_than_epochs():
    """The pattern of a residue class has a step in each epoch, of which only ``count`` are taken."""
    strategy = np.tril(np.ones((6, 6)))
    values = [reshuffled_sensitivity(strategy, Participation.reshuffled(6, period=2, count=k)) for k in (1, 2, 3)]
    for k, found in zip((1, 2, 3), values, strict=True):
        truth = brute_force(strategy, [range(0, 2), range(2, 4), range(4, 6)], k)
        assert found.exact
        assert found.value == pytest.approx(truth, rel=1e-12)
    assert values[0].value < values[1].value < values[2].value


@pytest.mark.parametrize("noise", [NuFTRL(0.1), FiniteNoise([1, -0.5]), PoleNoise([0.3], [0.9])], ids=repr)
def test_the_fixed_order_would_not_cover_reshuffling(noise):
    """The mutant: the sensitivity of fixed epochs, also for the forms that other programs run."""
    truth = brute_force(noise.strategy(8), [range(4), range(4, 8)], 2)
    fixed, any_order = in_epochs(noise, 4)
    assert 1.05 * fixed < truth <= any_order
    who = Participation.reshuffled(8, period=4)
    for form in (*noise.forms(), *(["buffers"] if isinstance(noise, PoleNoise) else []), "strategy column"):
        for dtype in ("float64", "float32"):
            assert truth <= noise.program(who, dtype, form).sensitivity <= any_order * 1.001
    assert truth <= noise.program(who, "float64", "noising column").sensitivity <= any_order * 1.001


@pytest.mark.parametrize(("alpha", "epochs"), [(1 / 16, 4), (0.2, 5), (1 / 16, 12)])
def test_the_bound_is_nearly_attained_by_pairs_of_close_occurrences(alpha, epochs):
    """The last step of an epoch and the first one of the next, in turns; all at once as close is impossible."""
    steps = 16 * epochs
    strategy = NuFTRL(alpha).strategy(steps)
    places = [16 * e + (15 if e % 2 == 0 else 0) for e in range(epochs)]
    attained = float(np.linalg.norm(strategy[:, places].sum(axis=1)))
    bound = in_epochs(NuFTRL(alpha), 16, steps)[1]
    assert attained <= bound < 1.06 * attained


def test_errors_of_the_coefficients_count():
    """An error of the coefficients moves k columns."""
    who = Participation.reshuffled(8, epochs=4)
    c = np.array([1, 0.5, 0.4, 0.3, 0.2, 0.2, 0.1, 0.1])
    plain, uncertain = (any_toeplitz_sensitivity(c, who, error=error) for error in (0.0, 1e-6))
    assert uncertain.upper >= plain.upper * (1 + 4e-6)
    moved = c + 1e-6 * np.linalg.norm(c) * np.eye(8)[0]
    assert any_toeplitz_sensitivity(moved, who).value <= uncertain.upper


def test_known_values_and_one_epoch():
    assert in_epochs(DPSGD(), 4, 12) == pytest.approx((math.sqrt(3), math.sqrt(3)), rel=1e-8)
    fixed, any_order = in_epochs(NuFTRL(0.1), 7, 7)
    assert fixed == any_order == in_epochs(NuFTRL(0.1), 100, 7)[1]
    # The square root of a momentum with α = 1/64.
    assert np.square(in_epochs(NuFTRL(1 / 64), 64, 256)) == pytest.approx((8.932015, 14.089837), rel=1e-6)
