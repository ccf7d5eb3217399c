"""The bound of ε for independent canaries: attained by the worst loop, and not valid for dependent canaries."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from corrnoise.privacy import one_run_bound
from corrnoise.theory.auditing.epsilon import independent_bound


def worst_chance(canaries, guesses, correct, epsilon, delta):
    """P[c >= v] of the worst loop, exactly, from all outcomes of all canaries; a guesser names revealed coins first."""
    right = Fraction(math.exp(epsilon)) / (1 + Fraction(math.exp(epsilon)))
    delta = Fraction(delta)
    outcomes = {"revealed": delta, "right": (1 - delta) * right, "wrong": (1 - delta) * (1 - right)}
    total = Fraction(0)
    for symbols in product(outcomes, repeat=canaries):
        named = sorted(symbols, key=lambda symbol: symbol != "revealed")[:guesses]
        if guesses - named.count("wrong") >= correct:
            total += math.prod(outcomes[symbol] for symbol in symbols)
    return total


@pytest.mark.parametrize("counts", [(1, 1, 1), (4, 4, 3), (5, 2, 2), (5, 3, 3), (6, 4, 4), (6, 5, 4)])
@pytest.mark.parametrize("delta", [0.0, 0.01, 0.1])
def test_the_worst_loop_attains_the_bound(counts, delta):
    """With δ left out, m replaced by r, or guesses that name revealed coins at random, the chance is another one."""
    level = float(worst_chance(*counts, 0.7, delta))
    found = independent_bound(*counts, level=level, delta=delta)
    assert 0.7 - 1e-6 < found < 0.7
    assert worst_chance(*counts, found, delta) <= Fraction(level)


@pytest.mark.parametrize(
    ("counts", "level", "delta"),
    [((18048, 4512, 3300), 1e-3, 1e-5), ((1000, 1000, 1000), 0.004, 1e-5), ((300, 100, 95), 1e-6, 0.03)],
)
def test_the_chance_at_the_bound_is_the_level(counts, level, delta):
    """By recursions of 40 digits over all numbers of revealed coins and of correct guesses."""
    canaries, guesses, correct = counts
    found = independent_bound(*counts, level=level, delta=delta)
    with mpmath.workdps(40):
        right = mpmath.mpf(1) / (1 + mpmath.exp(-mpmath.mpf(found)))

        def tail(trials, least):
            """P[Bin(trials, q) >= least]."""
            term = total = right**trials
            for k in range(trials, least, -1):
                term *= mpmath.mpf(k) / (trials - k + 1) * (1 - right) / right
                total += term
            return total

        chance, weight, rest = mpmath.mpf(0), (1 - mpmath.mpf(delta)) ** canaries, mpmath.mpf(1)
        for revealed in range(min(correct, 50)):
            chance += weight * tail(guesses - revealed, correct - revealed)
            rest -= weight
            weight *= mpmath.mpf(canaries - revealed) / (revealed + 1) * mpmath.mpf(delta) / (1 - mpmath.mpf(delta))
        assert rest < 1e-9 * level
        assert level * (1 - 1e-7) < chance
        assert chance + rest <= level


def test_a_loop_that_reveals_all_coins_together_breaks_the_bound():
    """It is (0, δ)-private, and all guesses are correct with probability δ, above the level; the other bound holds."""
    counts, options = (30, 30, 30), {"level": 1e-3, "delta": 1e-2}
    assert independent_bound(*counts, **options) > 1
    assert one_run_bound(*counts, **options) == 0


def test_the_bound_is_monotone():
    bounds = [independent_bound(60, 40, v, level=0.05, delta=1e-3) for v in range(41)]
    assert bounds[:20] == [0] * 20
    assert (np.diff(bounds) >= 0).all()
    assert 2 < bounds[40] < independent_bound(60, 40, 40, level=0.05, delta=0.0)
    assert independent_bound(9, 0, 0, level=0.1, delta=0.0) == independent_bound(9, 9, 9, level=0.1, delta=0.99) == 0


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ((10, 3, 4), {}, r"correct must be an integer in \[0, 3\]"),
        ((10, 11, 4), {}, r"guesses must be an integer in \[0, 10\]"),
        ((10, 3, 2), {"delta": 1.0}, "delta must lie"),
        ((10, 3, 2), {"level": 0.0}, "level must lie"),
    ],
)
def test_bad_arguments(counts, options, message):
    with pytest.raises(ValueError, match=message):
        independent_bound(*counts, **{"level": 0.1, "delta": 0.0, **options})
