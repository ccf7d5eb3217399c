"""Monte Carlo of balls in bins: unbiased weights below their bound, coverage, and draws that certify nothing."""

import math

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.amplification import (
    addition_weights,
    amplified,
    interval,
    mixture_weights,
    ordered_weights,
    removal_weights,
    sampled_bound,
    sampled_delta,
)
from corrnoise.theory.amplification.bins import BinsCurve, bins_curve
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from tests.theory.amplification.bins_oracle import MANY, PAIR, PAIR_REFERENCES, REFERENCES

DIRECTIONS = ("remove", "add")
CASES = (
    [(v * np.eye(2), epsilon, *values) for v, epsilon, *values in REFERENCES]
    + [(PAIR, *values) for values in PAIR_REFERENCES]
    + [(v * np.eye(b), epsilon, *values) for v, b, epsilon, *values in MANY]
)


def samplers(gram, epsilon, direction):
    pilot = np.random.default_rng(1)
    if direction == "add":
        return [addition_weights(gram, epsilon, pilot)]
    return [mixture_weights(gram, epsilon, pilot), *(ordered_weights(gram, epsilon, order) for order in (2, 5))]


@pytest.mark.parametrize(("gram", "epsilon", "remove", "add"), CASES)
def test_weights_have_the_mean_and_stay_below_their_bound(gram, epsilon, remove, add):
    """Each of about 80 comparisons has a false alarm with probability 6e-7, at five standard errors."""
    for direction, truth in (("remove", remove), ("add", add)):
        for sample, bound in samplers(gram, epsilon, direction):
            weights = sample(np.random.default_rng(2), 20_000)
            assert 0 <= weights.min() <= weights.max() <= bound
            assert abs(weights.mean() - truth) <= 5 * weights.std() / math.sqrt(weights.size) + 1e-4 * bound


def test_wrong_weights_have_another_mean():
    """A Gram matrix that is a tenth too large is noticed."""
    gram, epsilon, truth, other = PAIR, 1.0, 0.0381722418306279, 0.0378182498178309
    sample, _ = ordered_weights(gram, epsilon, 3)
    weights = sample(np.random.default_rng(3), 20_000)
    error = 5 * weights.std() / math.sqrt(weights.size)
    assert abs(weights.mean() - truth) <= error
    assert abs(ordered_weights(gram * 1.1, epsilon, 3)[0](np.random.default_rng(3), 20_000).mean() - truth) > error
    sample, _ = addition_weights(gram, epsilon, np.random.default_rng(4))
    weights = sample(np.random.default_rng(5), 20_000)
    assert abs(weights.mean() - other) <= 5 * weights.std() / math.sqrt(weights.size)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_coverage(direction):
    """400 intervals at β = .05 miss the truth of two bins 40 times at most: false alarm below 1e-4."""
    truth = dict(zip(DIRECTIONS, (0.0592065010858927, 0.0501976623694882), strict=True))[direction]
    make = removal_weights if direction == "remove" else addition_weights
    sample, bound = make(np.eye(2), 1.0, np.random.default_rng(0))
    deviation = float(sample(np.random.default_rng(6), 2000).std())
    found = [interval(sample(np.random.default_rng((7, seed)), 500), bound, 0.05, deviation) for seed in range(400)]
    assert sum(not low <= truth <= high for low, high in found) <= 40
    assert np.mean([high - low for low, high in found]) < truth  # and they say something


def test_an_interval_is_the_edge_of_a_fixed_bet():
    """Each end solves Σ ln(1 ± λ (m − w)) = ln(2/β), with λ by the guess of the deviation and at most 0.9/B."""
    weights, bound, beta = np.random.default_rng(6).random(1000), 1.5, 0.01
    log = math.log(2 / beta)
    for deviation, bet in ((0.3, math.sqrt(2 * log / 1000) / 0.3), (1e-9, 0.9 / 1.5)):
        low, high = interval(weights, bound, beta, deviation)
        assert math.isclose(np.log1p(bet * (high - weights)).sum(), log, rel_tol=1e-6)
        assert math.isclose(np.log1p(bet * (weights - low)).sum(), log, rel_tol=1e-6)
    constant = interval(np.full(1000, 0.2), 1.0, beta, 0.0)
    assert constant[1] - 0.2 < 1.1 * log / 900  # the least that any bound can be: B ln(2/β)/n
    with pytest.raises(RuntimeError, match="weights must lie"):
        interval(np.full(10, 2.0), 1.5, beta, 0.3)


def test_the_draws_of_the_search_do_not_certify():
    with pytest.raises(ValueError, match="pilot must be another seed"):
        sampled_delta(np.eye(2), 1.0, "remove", samples=1000, pilot=3, rng=3, beta=0.01)
    low, high = sampled_delta(np.eye(2), 1.0, "remove", samples=4000, pilot=3, rng=4, beta=0.01)
    assert low <= 0.0592065010858927 <= high


def test_each_attempt_takes_fresh_draws_and_a_smaller_share(monkeypatch):
    from corrnoise.simulations import amplification

    calls = []

    def spy(gram, epsilon, direction, *, samples, pilot, rng, beta):
        calls.append((pilot, rng, beta))
        return (0.0, 1.0) if epsilon < 1.5 else (0.0, 1e-4 if len(calls) % 3 == 0 else 2e-3)

    monkeypatch.setattr(amplification, "sampled_delta", spy)
    amplification.sampled_bound(
        BinsCurve(np.eye(2), np.eye(2), True), 1.0, "remove", delta=1e-3, samples=1000, rng=1, beta=0.1
    )
    seeds = [seed for call in calls for seed in call[:2]]
    assert len(set(seeds)) == len(seeds)
    assert min(beta for *_, beta in calls) < 0.1 / 2
    assert max(beta for *_, beta in calls) <= 0.1 / 2


@pytest.mark.parametrize("seed", [1, 2])
def test_the_face(seed):
    participation = cn.Participation.balls_in_bins(2, period=2)
    found = cn.privacy.amplified(
        DPSGD(), participation, noise_multiplier=1.0, epsilon=1.0, samples=4000, rng=seed, beta=1e-3
    )
    assert found.quantity == "delta"
    assert found.kind == "confidence 1 - 0.001"
    assert found.remove.lower <= 0.0592065010858927 <= found.remove.upper
    assert found.add.lower <= 0.0501976623694882 <= found.add.upper
    again = amplified(DPSGD(), participation, noise_multiplier=1.0, epsilon=1.0, samples=4000, rng=seed, beta=1e-3)
    assert again == found
    certified = cn.privacy.amplified(DPSGD(), participation, noise_multiplier=1.0, epsilon=1.0)
    assert certified.kind == "certified"
    assert certified.upper <= found.upper


@pytest.mark.slow
def test_an_interval_of_epsilon():
    curve = bins_curve(DPSGD(), 16, 16)
    found = sampled_bound(curve, 1.0, "remove", delta=1e-3, samples=4000, rng=1, beta=1e-3)
    assert curve.delta(found.upper, 1.0, "remove").upper <= 1.01e-3
    assert curve.delta(found.lower, 1.0, "remove").lower >= 0.99e-3
    assert found.upper < 1.2 * found.lower


def test_bad_arguments_are_named():
    bins = cn.Participation.balls_in_bins(4, period=2)
    arguments = {"noise_multiplier": 1.0, "epsilon": 1.0, "samples": 2000}
    with pytest.raises(ValueError, match="samples must be None except for balls in bins"):
        amplified(DPSGD(), cn.Participation.poisson(4, 0.5), **arguments)
    with pytest.raises(ValueError, match="beta must lie in"):
        amplified(DPSGD(), bins, **arguments, beta=0.0)
    with pytest.raises(ValueError, match="samples must be an integer >= 1000"):
        amplified(DPSGD(), bins, **{**arguments, "samples": 10})
    with pytest.raises(ValueError, match="delta or epsilon must be given"):
        amplified(DPSGD(), bins, **arguments, delta=1e-5)


@pytest.mark.slow
def test_correlated_noise_within_the_certified_bracket():
    curve = bins_curve(NuFTRL(1 / 16), 64, 16)
    for direction in DIRECTIONS:
        certified = curve.delta(1.0, 2.5, direction)
        found = sampled_bound(curve, 2.5, direction, epsilon=1.0, samples=24_000, rng=3, beta=1e-6)
        assert found.lower <= certified.upper
        assert certified.lower <= found.upper < certified.upper
