"""Sensitivity under participation, against the worst case over all patterns and gradients."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps
from scipy.linalg import toeplitz

from corrnoise.solvers.worst_case import worst_case
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.sensitivity import (
    block_sensitivity,
    gram_sensitivity,
    strategy_sensitivity,
    toeplitz_sensitivity,
)
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests import oracles
from tests.strategies import noises, participations, toeplitz_strategies


def lower(coefficients):
    """The lower-triangular Toeplitz matrix."""
    return toeplitz(coefficients, np.zeros(len(coefficients)))


def agrees(found, truth):
    """Whether a bracket holds the worst case, and is exact where it says so."""
    assert found.lower <= truth.upper
    assert truth.value <= found.upper
    assert not found.exact or found.value == pytest.approx(truth.value, rel=1e-9)
    return found.exact


ORDERED = ("min-sep", "fixed epochs")


@given(participations(kinds=ORDERED), st.integers(0, 2**32 - 1))
def test_dense_strategies_against_the_worst_case(who, seed):
    strategy = np.tril(np.random.default_rng(seed).normal(size=(who.steps, who.steps)))
    agrees(strategy_sensitivity(strategy, who), worst_case(strategy, who))


@given(participations(kinds=ORDERED), st.data())
def test_toeplitz_strategies_against_the_worst_case(who, data):
    kind, c = data.draw(toeplitz_strategies(who.steps, who.period))
    truth = worst_case(lower(c), who)
    exact = agrees(toeplitz_sensitivity(c, who), truth)
    agrees(strategy_sensitivity(lower(c), who), truth)
    assert exact or kind == "any"


@given(participations(most=9, kinds=("fixed epochs",)), st.data())
def test_fixed_epochs_are_exact_for_any_signs(who, data):
    """Up to three epochs; the same blocks come from the Gram matrix."""
    _, c = data.draw(toeplitz_strategies(who.steps, who.period))
    found = toeplitz_sensitivity(c, who)
    assert agrees(found, worst_case(lower(c), who)) or who.count > 3
    assert found.value == pytest.approx(strategy_sensitivity(lower(c), who).value, rel=1e-12)


def test_a_closed_bracket_is_taken_where_the_upper_ends_agree():
    """Opposite gradients in steps 0 and 6 are the worst, which neither equal nor alternating ones show."""
    found = toeplitz_sensitivity([1, 0, 0, 0, 0, 0, -1], Participation.fixed_epochs(7, period=6))
    assert found.exact
    assert found.value == pytest.approx(math.sqrt(5), rel=1e-14)


@pytest.mark.parametrize(
    ("c", "b", "k", "formula", "truth"),
    [
        ([1, 0, 1], 1, 2, 3, 5),
        ([1, 0, 0, 1], 2, 2, 3, 5),
        ([1, 0, 0, 0.5, 0, 0], 2, 2, 2.5, 3.25),
        ([1, -1], 1, 2, 1, 5),
        ([1, -0.5, 0.5, 0.5], 2, 2, 3.5, 3.75),
        ([1, -0.5, -0.35], 1, 3, None, 4.852747252747),
    ],
)
def test_where_the_formula_fails(c, b, k, formula, truth):
    """The mutant is ‖Σ S^{jb} c‖² outside its theorem: too small."""
    who = Participation.min_sep(len(c), b, k)
    if formula is not None:
        sums = sum(np.concatenate([np.zeros(j * b), c[: len(c) - j * b]]) for j in range(k))
        assert (sums**2).sum() == pytest.approx(formula)
        assert formula < truth
    found = strategy_sensitivity(lower(c), who)
    assert found.exact
    assert found.value**2 == pytest.approx(truth, rel=1e-12)
    assert toeplitz_sensitivity(c, who).upper ** 2 >= truth
    assert not toeplitz_sensitivity(c, who).exact or c == [1, -1]


def test_the_two_stage_bound_is_not_exact_for_positive_matrices():
    """Algorithm 4 of arXiv 2306.08153 gives 4.48 where the truth is 4.40."""
    who = Participation.min_sep(3, 1, 2)
    sizes = lower([1, 0.4, 0.8]).T @ lower([1, 0.4, 0.8])
    rows = [sizes[i].sum() - min(sizes[i]) if sizes[i].argmin() != i else sizes[i].sum() for i in range(3)]
    assert sum(sorted(rows)[1:]) == pytest.approx(4.48)
    assert strategy_sensitivity(lower([1, 0.4, 0.8]), who).value ** 2 == pytest.approx(4.4, rel=1e-14)


def test_gradients_that_are_not_collinear():
    """Three unit columns with inner products −a: 3 + 3a; signs give 3 + 2a, sums of sizes 3 + 6a."""
    a = 0.3
    block = np.full((3, 3), -a) + (1 + a) * np.eye(3)
    assert block_sensitivity(block) == pytest.approx((3 + 3 * a, 3 + 3 * a))
    who = Participation.min_sep(3, 1, 3)
    assert gram_sensitivity(block, who).value ** 2 == pytest.approx(3 + 3 * a, rel=1e-14)


@given(noises(), st.integers(2, 40), st.data())
def test_rounding_errs_on_the_safe_side(noise, steps, data):
    """The attained end of the bracket against 40 digits: the upper end is not below it."""
    b = data.draw(st.integers(1, steps))
    k = data.draw(st.integers(1, -(-steps // b)))
    with workdps(40):
        if isinstance(noise, FiniteNoise):
            exact = oracles.reciprocal(noise.values, steps)
        else:
            exact = oracles.product_coefficients(noise.gaps, -noise.exponents, steps)
        sums = [mp.fsum(exact[t - j * b] for j in range(k) if t >= j * b) for t in range(steps)]
        truth = mp.sqrt(mp.fsum(s * s for s in sums))
        who = Participation.min_sep(steps, b, k)
        assert truth <= mpf(noise.sensitivity_upper_bound(who))
        assert truth <= mpf(Budget(0.5).multiplier(noise.sensitivity_upper_bound(who)))


@pytest.mark.parametrize(
    ("steps", "b", "k"), [(1000, 7, 3), (1000, 7, 100), (1000, 1, 1000), (1000, 999, 2), (1000, 10, 64)]
)
def test_known_noise_is_exact(steps, b, k):
    """Non-negative decreasing coefficients, equal ones, and alternating ones."""
    for noise in (DPSGD(), NuFTRL(0.0), NuFTRL(1e-3), NuFTRL(1.9), AntiPGD(0.0), AntiPGD(0.2)):
        c = np.abs(noise.inverse_coefficients(steps))
        sums = np.zeros(steps)
        for j in range(min(k, -(-steps // b))):
            sums[j * b :] += c[: steps - j * b]
        who = Participation.min_sep(steps, b, k)
        assert noise.sensitivity(who) == pytest.approx(np.linalg.norm(sums), rel=1e-12)
        assert noise.sensitivity_upper_bound(who) == pytest.approx(np.linalg.norm(sums), rel=1e-8)


def test_four_epochs_of_a_training_run():
    noise = NuFTRL(1e-3)
    gamma = noise.sensitivity(Participation.min_sep(2000, 500, 4))
    assert gamma == pytest.approx(3.694, abs=5e-4)
    assert noise.sensitivity(Participation.single(2000)) == pytest.approx(1.691, abs=5e-4)
    assert noise.sensitivity(Participation.min_sep(2000, 500)) == gamma
    assert Budget(0.5).multiplier(noise.sensitivity_upper_bound(Participation.min_sep(2000, 500))) == pytest.approx(
        gamma
    )
    short = Participation.min_sep(200, 50, 4)
    dense = strategy_sensitivity(lower(noise.inverse_coefficients(200)), short)
    assert dense.exact
    assert dense.value == pytest.approx(noise.sensitivity(short), rel=1e-12)


def test_outside_the_theorem_only_the_bound_answers():
    noise = FiniteNoise([1, 0.9, 0.5])  # its inverse coefficients change sign
    with pytest.raises(ValueError, match=r"is only known to lie in \[.*sensitivity_upper_bound gives the upper end"):
        noise.sensitivity(Participation.min_sep(20, 2, 5))
    who = Participation.min_sep(20, 2, 5)
    truth = worst_case(lower(noise.inverse_coefficients(20)), who)
    assert noise.sensitivity_upper_bound(Participation.min_sep(20, 2, 5)) >= truth.value
    once = Participation.single(20)
    assert noise.sensitivity(once) == pytest.approx(worst_case(noise.strategy(20), once).value)
    assert FiniteNoise([1, -2]).sensitivity_upper_bound(Participation.min_sep(2000, 500, 4)) == math.inf


def test_a_long_run():
    """The value of jax-privacy for the square root at a million steps."""
    gamma = NuFTRL(0.0).sensitivity(Participation.min_sep(10**6, 10**5, 10))
    assert gamma**2 == pytest.approx(105.8046376, abs=6e-8)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scales(scale):
    who = Participation.min_sep(6, 2, 3)
    c = np.array([1, 0.7, 0.5, 0.4, 0.1, 0.0])
    for found in (toeplitz_sensitivity(scale * c, who), strategy_sensitivity(scale * lower(c), who)):
        assert found.exact
        assert found.value / scale == pytest.approx(toeplitz_sensitivity(c, who).value, rel=1e-14)
    assert strategy_sensitivity(np.zeros((6, 6)), who).upper == 0


def test_refusals():
    who = Participation.min_sep(3, 1, 2)
    with pytest.raises(ValueError, match=r"strategy must have shape \(rows, 3\), got \(2, 2\)"):
        strategy_sensitivity(np.eye(2), who)
    with pytest.raises(ValueError, match=r"coefficients must have shape \(3,\)"):
        toeplitz_sensitivity([1.0], who)
    for found in (toeplitz_sensitivity, lambda c, who: strategy_sensitivity(lower(c), who)):
        with pytest.raises(ValueError, match="must not be reshuffled here"):
            found([1.0, 0.5, 0.2, 0.1], Participation.reshuffled(4, epochs=2))
