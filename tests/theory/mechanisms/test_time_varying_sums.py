"""Gradients of errors and class sums, against differences along random directions."""

import numpy as np
import pytest

from corrnoise.theory.mechanisms import time_varying_sums as sums
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
        decays, _, inputs, columns = mine
        bases, slopes = np.empty(STEPS), np.empty((STEPS, buffers))
        states, found = np.empty((STEPS, buffers)), np.empty(period)
        sums.gains(*mine, bases, slopes)
        sums.class_sums(decays, inputs, columns, bases, slopes, period, states, found)
        return states, float(weights @ found)

    at = start(buffers)
    gradient = tuple(np.empty_like(x) for x in at)
    sums.class_gradient(at, total(at)[0], period, weights, gradient)
    assert max(map(abs, derivatives(lambda mine: total(mine)[1], gradient, at))) < 1e-6
    if period <= 2:
        sums.class_gradient(at, 0 * at[1], period, weights, gradient)  # the mutant forgets earlier epochs
        assert max(map(abs, derivatives(lambda mine: total(mine)[1], gradient, at))) > 0.1
