"""Buffers of a run, and derivatives by differences along random directions."""

import numpy as np

STEPS = 2 * 256 + 7  #: the last segment between two states that are kept is short


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
