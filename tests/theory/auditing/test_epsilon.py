"""Lower bounds of ε from error rates: valid by enumeration, and strong enough."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from corrnoise.privacy import gaussian_epsilon
from corrnoise.theory.auditing.epsilon import (
    clopper_pearson_upper_bound,
    epsilon_lower_bound,
    error_rate_bound,
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


@pytest.mark.slow
def test_the_bound_of_a_threshold_is_valid_and_finds_something():
    """Scores that tell nothing, 400 times at level 0.2: 10 failures, and 58 with the chosen canaries judged again."""

    def bounds(shift, times):
        for seed in range(times):
            rng = np.random.default_rng(seed)
            taken = rng.random(1000) < 0.5
            yield error_rate_bound(rng.standard_normal(1000) + shift * taken, taken, delta=0.0, level=0.2)

    assert sum(bound > 0 for bound in bounds(0.0, 400)) <= 20
    assert np.median(list(bounds(2.0, 50))) > 2.5


def test_a_threshold_needs_canaries_of_both_kinds():
    assert error_rate_bound(np.arange(4.0), np.array([True, False, True, False]), delta=0.0, level=0.1) == 0
    assert error_rate_bound(np.arange(99.0), np.ones(99, dtype=bool), delta=0.0, level=0.1) == 0


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"false_positives must be an integer in \[0, 5\]"):
        epsilon_lower_bound(6, 5, 0, 5, delta=0.0, level=0.1)
    with pytest.raises(ValueError, match="level must lie"):
        epsilon_lower_bound(0, 5, 0, 5, delta=0.0, level=0.0)
