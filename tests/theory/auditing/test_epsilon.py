"""Lower bounds of ε from counts: valid by enumeration, and strong enough."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from corrnoise.privacy import gaussian_epsilon
from corrnoise.theory.auditing.epsilon import (
    clopper_pearson_upper_bound,
    epsilon_lower_bound,
    one_run_epsilon_lower_bound,
)

LEVEL = 0.05


@pytest.mark.parametrize("p", [1e-3, 0.1, 0.5, 0.93])
def test_clopper_and_pearson_fail_with_probability_level_at_most(p):
    bounds = np.array([clopper_pearson_upper_bound(k, 30, LEVEL) for k in range(31)])
    chances = binom.pmf(np.arange(31), 30, p)
    assert chances[bounds < p].sum() <= LEVEL
    assert bounds[30] == 1
    assert binom.cdf(7, 30, bounds[7]) == pytest.approx(LEVEL, rel=1e-10)


def test_the_observed_rate_is_no_bound():
    """The mutant of the test above: without the interval the truth is exceeded about half the time."""
    assert binom.cdf(14, 30, 0.5) > LEVEL


def rejections(bound, truth, errors, trials=15):
    """The probability that ``bound`` exceeds ``truth`` where both error rates are ``errors``."""
    chances = binom.pmf(np.arange(trials + 1), trials, errors)
    return sum(
        chances[a] * chances[b]
        for a in range(trials + 1)
        for b in range(trials + 1)
        if bound(a, trials, b, trials) > truth
    )


@pytest.mark.parametrize("mu", [0.2, 1.0, 2.5])
def test_bounds_by_error_rates_are_valid(mu):
    """By enumeration over all counts, for the best threshold; a claim of 0.1 is exceeded too often."""

    def approximate(*counts):
        return epsilon_lower_bound(*counts, delta=1e-5, level=LEVEL)

    errors = norm.cdf(-mu / 2)
    assert rejections(approximate, gaussian_epsilon(mu**2 / 2, 1e-5), errors) <= LEVEL
    if mu >= 1:
        assert rejections(approximate, 0.1, errors, trials=60) > LEVEL


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("guesses", "factor"), [(40, 0.75), (200, 0.9)])
def test_one_run_of_randomised_response(epsilon, guesses, factor):
    """The number of right guesses is binomial: the truth is exceeded rarely, a smaller ε not so rarely."""
    right = 1 / (1 + math.exp(-epsilon))
    counts = np.arange(guesses + 1)
    chances = binom.pmf(counts, guesses, right)
    bounds = np.array([one_run_epsilon_lower_bound(guesses, guesses, k, delta=0.0, level=LEVEL) for k in counts])
    assert chances[bounds > epsilon].sum() <= LEVEL
    assert chances[bounds > factor * epsilon - 0.25].sum() > 0.5 * LEVEL
    assert (np.diff(bounds) >= 0).all()


def naive_p_value(canaries, guesses, correct, epsilon, delta):
    """As in the appendix of arXiv 2305.08846, one term after another."""
    right = 1 / (1 + math.exp(-epsilon))
    best = total = 0.0
    for i in range(1, correct + 1):
        total += binom.pmf(correct - i, guesses, right)
        best = max(best, total / i)
    return binom.sf(correct - 1, guesses, right) + 2 * canaries * delta * best


@given(st.integers(1, 60), st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.0, 1e-5, 1e-2]))
def test_one_run_against_the_naive_p_value(canaries, share, accuracy, delta):
    guesses = max(1, round(share * canaries))
    correct = round(accuracy * guesses)
    bound = one_run_epsilon_lower_bound(canaries, guesses, correct, delta=delta, level=LEVEL)
    assert naive_p_value(canaries, guesses, correct, bound + 1e-9, delta) >= LEVEL * (1 - 1e-6) or bound > 1999
    assert bound == 0 or naive_p_value(canaries, guesses, correct, bound - 1e-9, delta) <= LEVEL * (1 + 1e-6)


def test_bad_arguments():
    with pytest.raises(ValueError, match="false_positives must be at most 5, got 6"):
        epsilon_lower_bound(6, 5, 0, 5, delta=0.0, level=0.1)
    with pytest.raises(ValueError, match="correct must be at most 3, got 4"):
        one_run_epsilon_lower_bound(10, 3, 4, delta=0.0, level=0.1)
    with pytest.raises(ValueError, match="level must lie"):
        epsilon_lower_bound(0, 5, 0, 5, delta=0.0, level=0.0)
    with pytest.raises(ValueError, match="delta must lie"):
        one_run_epsilon_lower_bound(10, 3, 2, delta=1.0, level=0.1)
    assert one_run_epsilon_lower_bound(10, 0, 0, delta=0.0, level=0.1) == 0
