"""Gradients of errors and class sums, against differences along random directions."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms import time_varying_sums as sums
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.participation import Participation
from corrnoise.theory.patterns import patterns
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.workloads import MomentumSGD, PrefixSums

STEPS = 2 * sums.SEGMENT + 7  #: the last segment is short
SYSTEMS = {
    "prefix sums": PrefixSums(STEPS),
    "momentum": MomentumSGD(STEPS, momentum=0.9, weight_decay=0.01, learning_rates=np.linspace(1.0, 0.1, STEPS)),
    "learning": LearningObjective(LinearRegression([1.0, 0.5, 0.1], learning_rate=0.2), STEPS, weights="second half"),
}


def start(buffers):
    rng = np.random.default_rng(buffers)
    decays = 1 - 0.5 ** np.arange(1, buffers + 1)
    return (decays, *rng.uniform(0.1, 0.8, (2, STEPS, buffers)) / buffers, rng.uniform(0.5, 2.0, STEPS))


def derivatives(function, gradient, at):
    """The derivative by the gradient over that by differences, less 1, in a random direction of each argument."""
    rng = np.random.default_rng(0)
    for k, value in enumerate(at):
        direction = rng.uniform(0.5, 1.0, value.shape) * value
        ends = [function(tuple(x + h * direction if j == k else x for j, x in enumerate(at))) for h in (1e-5, -1e-5)]
        yield float((gradient[k] * direction).sum()) / ((ends[0] - ends[1]) / 2e-5) - 1


@pytest.mark.parametrize("buffers", [1, 3])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_gradient_of_errors(name, buffers):
    system = SYSTEMS[name].recursion()
    parts = (system.transition, system.input, system.weights)
    slopes = np.linspace(0.5, 1.0, STEPS)
    segments, (groups, states) = -(-STEPS // sums.SEGMENT), system.input.shape[1:]
    kept = np.empty((segments, buffers, buffers)), np.empty((segments, groups, buffers, states))

    def error(mine):
        errors = np.empty(STEPS)
        sums.covariances(*parts, *mine, errors, *kept)
        return float(slopes @ errors)

    at = start(buffers)
    error(at)
    gradient = tuple(np.empty_like(x) for x in at)
    sums.error_gradient(parts, at, slopes, kept, gradient)
    assert max(map(abs, derivatives(error, gradient, at))) < 1e-6
    sums.error_gradient(parts, at, np.ones(STEPS), kept, gradient)  # the mutant forgets the slopes
    assert max(map(abs, derivatives(error, gradient, at))) > 0.1


@pytest.mark.parametrize("buffers", [1, 3])
@pytest.mark.parametrize("period", [1, 2, 50, STEPS])
def test_the_gradient_of_class_sums(period, buffers):
    weights = np.linspace(0.5, 1.0, period)

    def total(mine):
        decays, outputs, inputs, columns = mine
        bases, slopes = np.empty(STEPS), np.empty((STEPS, buffers))
        states, found = np.empty((STEPS, buffers)), np.empty(period)
        sums.gains(decays, outputs, inputs, bases, slopes)
        sums.class_sums(decays, inputs, columns, bases, slopes, period, states, found)
        return (bases, slopes, states), float(weights @ found)

    at = start(buffers)
    gradient = tuple(np.empty_like(x) for x in at)
    found, _ = total(at)
    sums.class_gradient(at, found, period, weights, gradient)
    assert max(map(abs, derivatives(lambda mine: total(mine)[1], gradient, at))) < 1e-6
    if period <= 2:
        without = (*found[:2], 0 * found[2])  # the mutant forgets earlier epochs
        sums.class_gradient(at, without, period, weights, gradient)
        assert max(map(abs, derivatives(lambda mine: total(mine)[1], gradient, at))) > 0.1


# -- levels ------------------------------------------------------------------------------------------------------------


def levelled(decays, outputs, inputs, gains, period, reshuffled, layers):
    """The columns with these gains, and what their gradient is made from."""
    n, d = outputs.shape
    bases, slopes, columns = np.empty(n), np.empty((n, d)), np.empty(n)
    states, sources = np.empty((layers, n, d)), np.empty((layers, n, d), dtype=np.int64)
    sums.gains(decays, outputs, inputs, bases, slopes)
    sums.level(decays, inputs, bases, slopes, gains, period, reshuffled, columns, states, sources)
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
    gradient, of_gains = tuple(np.empty_like(x) for x in at[:3]), np.empty(STEPS)
    sums.level_gradient((*at[:3], columns), found, weights, of_gains, gradient)
    assert max(map(abs, derivatives(total, (*gradient, of_gains), at))) < 1e-6
    if period > 1:
        return
    without = (*found[:3], np.full_like(found[3], -1))  # the mutant holds the states fixed
    sums.level_gradient((*at[:3], columns), without, weights, of_gains, gradient)
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
    for pattern in patterns(who):
        for chosen in chain.from_iterable(combinations(pattern, size + 1) for size in range(min(count, len(pattern)))):
            at = np.array(chosen)
            total = gram[np.ix_(at, at)].sum()
            assert total <= levels[at].sum() * (1 + 1e-12)
            largest = max(largest, total / levels[at].sum())
    assert largest == pytest.approx(1)  # the first step alone has its level
