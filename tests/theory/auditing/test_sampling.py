"""Tests of sampled batches: their p-values are too large or exact, and each fault has a small one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from corrnoise.theory.auditing.sampling import TestedSampler, batches, dispersion, logs_of_means
from corrnoise.theory.participation import BallsInBins, CyclicPoisson, Participation, Poisson

TINY = 1e-9


def everywhere(who: TestedSampler, examples: int, rng: np.random.Generator, runs: int = 4) -> np.ndarray:
    """Batches that are as claimed, drawn by NumPy."""
    shape = (runs, who.length, examples)
    if isinstance(who, Poisson | CyclicPoisson):
        period = who.worst.period
        turns = np.equal.outer(np.arange(who.length) % period, np.arange(examples) % period)
        return np.asarray((rng.random(shape) < who.rate) & turns)
    epochs = 1 if isinstance(who, BallsInBins) else -(-who.length // who.period)
    bins = rng.integers(who.period, size=(runs, epochs, examples))
    taken = np.zeros(shape, dtype=bool)
    for step in range(who.length):
        epoch, place = divmod(step, who.period)
        taken[:, step] = bins[:, epoch % epochs] == place
    return taken


KINDS = [
    Participation.poisson(12, 0.2),
    Participation.cyclic_poisson(13, period=4, rate=0.4),
    Participation.balls_in_bins(13, period=4),
    Participation.redrawn_bins(13, period=4),
]


@pytest.mark.parametrize("trials", [1, 2, 5])
@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8])
def test_p_values_of_the_dispersion_are_not_too_small(trials: int, chance: float) -> None:
    """By enumeration of all values of four binomial numbers."""
    chances: dict[float, float] = {}
    for values in itertools.product(range(trials + 1), repeat=4):
        p = dispersion(np.array(values), np.full(4, trials), np.full(4, chance)).p
        chances[p] = chances.get(p, 0.0) + float(np.prod(binom.pmf(values, trials, chance)))
    below = np.cumsum([chances[p] for p in sorted(chances)])
    assert all(total <= p * (1 + 1e-9) for p, total in zip(sorted(chances), below, strict=True))


@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_the_means_of_exponentials(number: int, chance: float) -> None:
    """The mean of z² is 1; the exponentials are at least that by Jensen, and those of negative λ at most 1."""
    logs = logs_of_means(number, chance)
    assert (logs[:4] <= 1e-12).all()
    assert (logs[:4] >= np.array([-16.0, -4.0, -1.0, -0.25]) - 1e-9).all()
    assert (logs[4:] >= np.array([0.05, 0.15, 0.3, 0.45]) - 1e-9).all()


@pytest.mark.parametrize("who", KINDS, ids=lambda who: who.label)
def test_batches_as_claimed_pass(who: TestedSampler) -> None:
    """60 sets of batches: the smallest of all p-values is below 1e-9 with probability 4e-7 at most."""
    rng = np.random.default_rng(0)
    for number in range(60):
        taken = everywhere(who, 20 + number, rng)
        steps = np.sort(rng.choice(who.length, who.length - number % 3, replace=False))
        found = batches(who, taken[:, steps], steps)
        assert len(found) == (6 if isinstance(who, Poisson | CyclicPoisson) else 3)
        assert min(each.p for each in found.values()) > TINY


def p_of(who: TestedSampler, taken: np.ndarray) -> dict[str, float]:
    return {name: each.p for name, each in batches(who, taken, np.arange(who.length)).items()}


def cut(examples: int, who: TestedSampler, rng: np.random.Generator, *, anew: bool) -> np.ndarray:
    """Permutations that are cut into equal batches."""
    period = who.worst.period if who.worst.period > 1 else 4
    taken = np.zeros((4, who.length, examples), dtype=bool)
    for run in range(4):
        order = rng.permutation(examples)
        for step in range(who.length):
            if anew and step % period == 0:
                order = rng.permutation(examples)
            taken[run, step, order.reshape(period, -1)[step % period]] = True
    return taken


def test_faults() -> None:
    rng = np.random.default_rng(1)
    poisson, cyclic, fixed, redrawn = (
        Participation.poisson(40, 0.25),
        Participation.cyclic_poisson(40, period=4, rate=0.25),
        Participation.balls_in_bins(40, period=10),
        Participation.redrawn_bins(40, period=10),
    )
    equal = p_of(poisson, cut(400, poisson, rng, anew=True))
    assert equal["batches, sizes"] < TINY
    assert equal["batches, numbers of participations"] < TINY
    assert p_of(fixed, cut(400, fixed, rng, anew=False))["batches, sizes"] < TINY
    assert p_of(redrawn, cut(400, redrawn, rng, anew=True))["batches, sizes"] < TINY
    twice = p_of(poisson, everywhere(Participation.poisson(40, 0.5), 400, rng))
    assert twice["batches, rate above"] < TINY < twice["batches, rate below"]
    half = p_of(poisson, everywhere(Participation.poisson(40, 0.125), 400, rng))
    assert half["batches, rate below"] < TINY < half["batches, rate above"]
    assert p_of(fixed, everywhere(redrawn, 400, rng))["batches, steps of an example"] == 0
    assert p_of(redrawn, everywhere(fixed, 400, rng))["batches, drawn again"] < TINY
    assert p_of(cyclic, everywhere(poisson, 400, rng))["batches, steps of an example"] == 0
    missing = everywhere(redrawn, 400, rng)
    missing[2, 10:20, 7] = False
    assert p_of(redrawn, missing)["batches, steps of an example"] == 0
    for who in (poisson, cyclic, fixed, redrawn):
        again = everywhere(who, 400, rng)
        again[1] = again[0]
        assert p_of(who, again)["batches, drawn again"] < TINY
        clumped = np.repeat(everywhere(who, 40, rng), 10, axis=2)
        if who is not cyclic:
            assert p_of(who, clumped)["batches, sizes"] < TINY
    blocks = np.repeat(everywhere(poisson, 400, rng)[:, ::4], 4, axis=1)
    assert p_of(poisson, blocks)["batches, numbers of participations"] < TINY


def test_nothing_to_test() -> None:
    one = Participation.redrawn_bins(3, period=1)
    assert p_of(one, np.ones((2, 3, 5), dtype=bool)) == dict.fromkeys(
        ("batches, steps of an example", "batches, sizes", "batches, drawn again"), 1.0
    )
    assert math.isclose(dispersion(np.zeros(0), np.zeros(0), np.zeros(0)).p, 1.0)
