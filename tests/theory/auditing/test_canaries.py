"""Tests of canaries: sizes of the tests for every covariance of the noise, powers, and what each finds."""

import math

import numpy as np
import pytest
from scipy.stats import binom, kstest, nct, norm

from corrnoise.theory.auditing import canaries
from corrnoise.theory.auditing.canaries import Spread

MU = 1.121242


def separated(rng, mu, *, deviation=1.0, number=40, idle=50, filter_of=None):
    """The p-value of a mechanism whose scores have the standard deviation given and means μ times as far apart."""
    inside = mu * deviation + deviation * rng.standard_normal(number)
    outside = deviation * rng.standard_normal(number)
    noise = canaries.spread(0.7 + deviation * rng.standard_normal((2, idle)))  # a public offset
    return canaries.separation(inside, outside, noise, MU).p


def test_separation_is_exact_for_noise_of_any_size():
    """The mutant divides by the claimed standard deviation: louder noise is called less private."""
    rng = np.random.default_rng(1)
    for deviation in (0.2, 1.0, 5.0):
        values = [separated(rng, MU, deviation=deviation) for _ in range(400)]
        assert kstest(values, "uniform").pvalue > 1e-4
    inside = 5 * MU + 5 * rng.standard_normal(40)
    outside = 5 * rng.standard_normal(40)
    assert canaries.separation(inside, outside, Spread(1.0, 98), MU).p < 1e-9


def test_the_lower_bound_is_what_separation_refutes():
    rng = np.random.default_rng(2)
    inside, outside = 2 + rng.standard_normal(300), rng.standard_normal(300)
    noise = canaries.spread(rng.standard_normal((1, 500)))
    found = canaries.separation_lower_bound(inside, outside, noise, 0.01)
    assert 1.6 < found < 2.0
    assert canaries.separation(inside, outside, noise, found).p == pytest.approx(0.01, rel=1e-6)
    assert canaries.separation_lower_bound(outside, inside, noise, 0.01) == 0


def test_the_largest_score_forgives_a_public_offset():
    """The mutant of the first print, the score without the mean of the absent, refutes an offset on all canaries."""
    rng = np.random.default_rng(3)
    noise = canaries.spread(rng.standard_normal((2, 500)))
    values = []
    for _ in range(300):
        inside, outside = 9 + MU + rng.standard_normal(50), 9 + rng.standard_normal(50)
        values.append(canaries.largest_score(inside, outside, noise, MU).p)
        assert nct.sf(inside.max() / noise.size, noise.freedom, MU) * 50 < 1e-6
    assert kstest(values, "uniform", alternative="greater").pvalue > 1e-4
    inside[7] += 15
    assert canaries.largest_score(inside, outside, noise, MU).p < 1e-9


@pytest.mark.parametrize(("score", "freedom"), [(41.61404137780444, 5344), (68.3483, 100000), (200.0, 100)])
def test_far_scores_have_no_warning(score: float, freedom: int) -> None:
    """The series of SciPy does not converge in the first case, and without the guard the warning is an error here."""
    found = canaries.influence(np.array([math.sqrt(2) * score]), Spread(1.0, freedom), 0.01)
    assert found.p < 1e-60
    assert canaries.score_power(1.0, 60.0, 1.0, freedom, 1e-3) == pytest.approx(1.0)


def test_shifts_of_a_pattern():
    pattern = np.array([0.0, 2.0, 0, 0, 2.0, 0])
    found = canaries.shifts(pattern)
    assert found.shape == (6, 6)
    assert found[:, 1].tolist() == pattern.tolist()
    assert found[:, 0].tolist() == [2.0, 0, 0, 2.0, 0, 0]
    assert found[:, 4].tolist() == [0, 0, 0, 0, 2.0, 0]
    assert canaries.shifts(np.ones(100)).shape == (100, 32)


def test_the_learned_filter_must_be_tested_on_other_canaries():
    """Tested on its own canaries it refutes correct loops: the mutant."""
    rng = np.random.default_rng(4)
    signal = np.full(24, MU / math.sqrt(24))
    other, own = [], []
    for _ in range(200):
        white = rng.standard_normal((24, 80))
        white[:, ::2] += signal[:, np.newaxis]
        idle = rng.standard_normal((24, 100))
        difference = white[:, :40:2].mean(axis=1) - white[:, 1:40:2].mean(axis=1)
        unit = canaries.learned_filter(difference, np.eye(24))
        assert np.linalg.norm(unit) == pytest.approx(1.0)
        scores, noise = unit @ white, canaries.spread((unit @ idle)[np.newaxis])
        other.append(canaries.separation(scores[40::2], scores[41::2], noise, MU).p)
        own.append(canaries.separation(scores[:40:2], scores[1:40:2], noise, MU).p)
    assert kstest(other, "uniform", alternative="greater").pvalue > 1e-4
    assert np.mean(np.array(own) < 0.01) > 0.2


def test_piles_are_exact_for_noise_of_any_size():
    """Ten piles of 16 examples.  A bound of √16 μ for nμ, or of μ for one example, refutes correct loops."""
    rng = np.random.default_rng(5)
    for deviation in (0.2, 5.0):
        values, mutants = [], []
        for _ in range(300):
            differences = 16 * MU * deviation + math.sqrt(2) * deviation * rng.standard_normal(10)
            noise = canaries.spread(deviation * rng.standard_normal((2, 200)))
            shown = differences / (math.sqrt(2) * noise.size)
            values.append(canaries.group_of_piles(shown, 16, noise.freedom, MU).p)
            mutants.append(canaries.group_of_piles(shown, 4, noise.freedom, MU).p)
        assert kstest(values, "uniform").pvalue > 1e-4
        assert max(mutants) < 1e-9
    assert canaries.group_of_piles(shown, 16, noise.freedom, MU).statistic == pytest.approx(MU, rel=0.15)
    assert canaries.group_of_piles(np.array([1e20]), 16, 100, MU).p == 0
    assert canaries.group_of_piles(shown[:0], 16, 100, MU).p == 1


def test_the_influence_of_an_example_is_at_most_mu():
    rng = np.random.default_rng(6)
    values = []
    for _ in range(300):
        noise = canaries.spread(3 * rng.standard_normal((2, 100)))
        changes = -MU * 3 + math.sqrt(2) * 3 * rng.standard_normal(20)
        values.append(canaries.influence(changes, noise, MU).p)
    assert kstest(values, "uniform", alternative="greater").pvalue > 1e-4
    assert np.mean(np.array(values) < 0.2) > 0.02
    assert canaries.influence(changes - 12, noise, MU).p < 1e-9
    assert canaries.influence(changes[:0], noise, MU).p == 1


def test_sums_have_a_margin_and_may_be_one_sided():
    """Exact without a margin; clipping to a thousandth less passes; a pile that is missing does not."""
    rng = np.random.default_rng(7)
    claimed = np.full(20, 12.0)
    exact = [canaries.sums_as_claimed(rng.standard_normal(20), 0 * claimed, "").p for _ in range(300)]
    assert kstest(exact, "uniform").pvalue > 1e-4
    less = [canaries.sums_as_claimed(rng.standard_normal(20) - 1e-3 * claimed, claimed, "").p for _ in range(300)]
    assert kstest(less, "uniform", alternative="greater").pvalue > 1e-4
    assert canaries.sums_as_claimed(-claimed, claimed, "here")[1:] == (0.0, "here")
    assert canaries.sums_as_claimed(-claimed, claimed, "", above_alone=True).p >= 0.5
    assert canaries.sums_as_claimed(claimed, claimed, "", above_alone=True).p == 0


@pytest.mark.parametrize("freedom", [30, 2000])
def test_piles_needed(freedom):
    """The smallest number with power 0.99; a spread with few degrees of freedom never finds a factor of 1.1."""
    options = {"members": 16, "freedom": freedom, "level": 2e-5, "most": 400}
    needed = canaries.piles_needed(MU, 1.5 * MU, **options)
    powers = [canaries.score_power(MU, 1.5 * MU, 128 * n, freedom, 2e-5) for n in (needed - 1, needed)]
    assert (powers[0] < 0.99 <= powers[1]) == (freedom == 2000)
    assert (needed == 400) == (freedom == 30)
    assert canaries.piles_needed(MU, 1.1 * MU, **options) == 400


def test_traces_of_the_absent():
    rng = np.random.default_rng(6)
    nothing = np.zeros((24, 0))
    values = [canaries.trace_of_absent(rng.standard_normal(24) / 20, 400, nothing).p for _ in range(300)]
    assert kstest(values, "uniform").pvalue > 1e-4
    trace = 0.5 + rng.standard_normal(24) / 20
    assert canaries.trace_of_absent(trace, 400, nothing).p < 1e-9
    assert canaries.trace_of_absent(trace, 400, 0.5 * np.eye(24)).p == 1


# -- power -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("runs", "number", "factor"), [(2, 30, 2.0), (1, 41, 2.5), (3, 20, 1.0)])
def test_power_is_the_probability_of_rejection(runs, number, factor):
    """By simulation, coins included; at factor 1 it is the level."""
    rng = np.random.default_rng(7)
    level = 0.03
    found = canaries.separation_power(MU, factor * MU, canaries=number, runs=runs, idle=30, level=level)
    rejected = 0
    for _ in range(800):
        coins = rng.integers(2, size=(runs, number)).astype(bool)
        coins[1::2] = ~coins[0 : 2 * (runs // 2) : 2]
        scores = factor * MU * coins + rng.standard_normal(coins.shape)
        noise = canaries.spread(rng.standard_normal((runs, 30)))
        rejected += canaries.separation(scores[coins], scores[~coins], noise, MU).p <= level
    assert binom.cdf(rejected, 800, found) > 1e-4
    assert binom.sf(rejected - 1, 800, found) > 1e-4
    if factor == 1:
        assert found == pytest.approx(level, rel=1e-6)


@pytest.mark.parametrize(("mu", "factor", "rule"), [(MU, 2.0, 132), (MU, 1.2, 3293), (0.3, 2.0, 1840), (2.0, 1.5, 166)])
def test_the_number_of_canaries(mu, factor, rule):
    """The usual rule, m = 4((z_{1−α} + z_β)/((f − 1)μ))², is close and not enough."""
    assert math.ceil(4 * ((norm.isf(2e-5) + norm.isf(0.01)) / ((factor - 1) * mu)) ** 2) == rule

    def power(number):
        return canaries.separation_power(mu, factor * mu, canaries=number, runs=2, idle=1000, level=2e-5)

    found = canaries.canaries_needed(mu, factor * mu, runs=2, idle=1000, level=2e-5)
    assert power(found) >= 0.99 > power(found - 1)
    assert power(rule // 2) < 0.99
    assert rule / 2 < found < 0.75 * rule


def test_more_canaries_for_coins_that_are_not_balanced():
    one = canaries.canaries_needed(2.0, 3.0, runs=1, idle=2000, level=2e-5)
    two = canaries.canaries_needed(2.0, 3.0, runs=2, idle=1000, level=2e-5)
    assert 2 * two <= one <= 2 * two + 4
    assert canaries.canaries_needed(0.01, 0.02, runs=2, idle=100, level=1e-5, most=500) == 501
