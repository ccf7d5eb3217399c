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


def test_gradients_and_their_margin():
    """Exact without a margin; clipping to a thousandth less passes; a participation that is missing does not."""
    rng = np.random.default_rng(5)
    single = np.linalg.qr(rng.standard_normal((24, 4)))[0]
    expected = single.sum(axis=1)
    values, each = [], []
    for _ in range(300):
        difference = (1 - 1e-3) * expected + rng.standard_normal(24) / 100
        values.append(canaries.profile(difference, expected, 1e4).p)
        each.append(canaries.participations(difference, expected, single, 1e4).p)
    assert kstest(values, "uniform", alternative="greater").pvalue > 1e-4
    assert kstest(each, "uniform", alternative="greater").pvalue > 1e-4
    assert min(values) > 1e-4
    difference = single[:, :3].sum(axis=1) + rng.standard_normal(24) / 20
    assert canaries.participations(difference, expected, single, 400).where == "participation 4"
    assert canaries.participations(difference, expected, single, 400).p < 1e-9
    assert canaries.profile(difference, expected, 400).p < 1e-9


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
