"""Gradients of class sums and levels, against differences along random directions; levels against all patterns."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms import time_varying_gains
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.participation import Participation
from tests.theory.mechanisms.differences import STEPS, derivatives, start


@pytest.mark.parametrize("buffers", [1, 3])
@pytest.mark.parametrize("period", [1, 2, 50, STEPS])
def test_the_gradient_of_class_sums(period, buffers):
    weights = np.linspace(0.5, 1.0, period)

    def total(mine):
        decays, outputs, inputs, columns = mine
        bases, slopes = np.empty(STEPS), np.empty((STEPS, buffers))
        states, found = np.empty((STEPS, buffers)), np.empty(period)
        time_varying_gains.gains(decays, outputs, inputs, bases, slopes)
        time_varying_gains.class_sums(decays, inputs, columns, bases, slopes, period, states, found)
        return (bases, slopes, states), float(weights @ found)

    at = start(buffers)
    for share in (1, 0):
        *found, states = total(at)[0]
        gradient = tuple(np.zeros_like(x) for x in at)
        time_varying_gains.class_gradient(at, (*found, share * states), period, weights, gradient)
        difference = max(map(abs, derivatives(lambda mine: total(mine)[1], gradient, at)))
        if share:
            assert difference < 1e-6
        elif period <= 2:
            assert difference > 0.1  # the mutant forgets earlier epochs


# -- levels ------------------------------------------------------------------------------------------------------------


def levelled(decays, outputs, inputs, gains, period, reshuffled, layers):
    """The columns with these gains, and what their gradient is made from."""
    n, d = outputs.shape
    bases, slopes, columns = np.empty(n), np.empty((n, d)), np.empty(n)
    states, sources = np.empty((layers, n, d)), np.empty((layers, n, d), dtype=np.int64)
    time_varying_gains.gains(decays, outputs, inputs, bases, slopes)
    time_varying_gains.level(decays, inputs, bases, slopes, gains, period, reshuffled, columns, states, sources)
    return columns, (bases, slopes, states, sources)


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("reshuffled", [False, True])
@pytest.mark.parametrize("period", [1, 50])
def test_the_gradient_of_levels(period, reshuffled, layers):
    decays, outputs, inputs, gains = start(2)
    weights = np.random.default_rng(1).uniform(0.5, 1.0, STEPS)

    def total(mine):
        return float(weights @ levelled(*mine, period, reshuffled, layers)[0])

    at = (decays, outputs, inputs, gains)
    columns, found = levelled(*at, period, reshuffled, layers)
    gradient, of_gains = tuple(np.zeros_like(x) for x in at[:3]), np.empty(STEPS)
    time_varying_gains.level_gradient((*at[:3], columns), found, weights, of_gains, gradient)
    assert max(map(abs, derivatives(total, (*gradient, of_gains), at))) < 1e-6
    if period > 1:
        return
    without = (*found[:3], np.full_like(found[3], -1))  # the mutant holds the states fixed
    gradient = tuple(np.zeros_like(x) for x in at[:3])
    time_varying_gains.level_gradient((*at[:3], columns), without, weights, of_gains, gradient)
    assert max(map(abs, derivatives(total, (*gradient, of_gains), at))) > 0.01


@given(st.integers(1, 3), st.integers(2, 9), st.integers(1, 5), st.booleans(), st.data())
def test_levels_bound_the_sensitivity(buffers, n, period, reshuffled, data):
    """No pattern has more than the sum of its largest levels; with levels that are too small by 1 % some have."""
    make = Participation.reshuffled if reshuffled else Participation.min_sep
    who = make(n, period=period) if reshuffled else make(n, period)
    count = data.draw(st.integers(1, who.count))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    decays = rng.uniform(0, 1, buffers)
    outputs, inputs = rng.uniform(0, 1, (2, n, buffers))
    levels = rng.uniform(0.1, 1.0, n)
    layers = count if count < who.count else 1
    columns, _ = levelled(decays, outputs, inputs, levels, period, reshuffled, layers)
    strategy = TimeVaryingBuffers(decays, outputs, inputs, 1 / columns).strategy()
    gram = strategy.T @ strategy
    largest = 0.0
    for pattern in who.worst.patterns():
        for chosen in chain.from_iterable(combinations(pattern, size + 1) for size in range(min(count, len(pattern)))):
            at = np.array(chosen)
            total = gram[np.ix_(at, at)].sum()
            assert total <= levels[at].sum() * (1 + 1e-12)
            largest = max(largest, total / levels[at].sum())
    assert largest == pytest.approx(1)  # the first step alone has its level
