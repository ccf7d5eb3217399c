"""What the claims compare with: two bins, clients and their rounds, noise with buffers."""

import math

import numpy as np
from scipy.special import ndtr

from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.numerics.checks import Array

_Z = np.linspace(-10, 12, 4401)
_MASS = np.exp(-_Z * _Z / 2) * (_Z[1] - _Z[0]) / math.sqrt(2 * math.pi)


def gram_of_two(diagonal: Array, correlation: float) -> Array:
    """The matrix of two bins."""
    between = correlation * math.sqrt(diagonal.prod())
    return np.array([[diagonal[0], between], [between, diagonal[1]]])


def delta_of_two(gram: Array, epsilon: float, direction: str) -> float:
    """The exact δ(ε) of two bins: X_1 is integrated, and X_2 given X_1 has the variance r²; nan below 1e-12, where rounding
    matters.
    """
    (small, between), (_, large) = gram if gram[0, 0] <= gram[1, 1] else gram[::-1, ::-1]
    slope = between / math.sqrt(small)
    r = math.sqrt(max(large - slope**2, 1e-12))
    first = np.exp(math.sqrt(small) * _Z - small / 2) / 2
    second = np.exp(slope * _Z - slope**2 / 2) / 2
    rest = math.exp(epsilon if direction == "remove" else -epsilon) - first
    d = np.log(second / np.maximum(rest, 1e-300)) / r + r / 2
    if direction == "remove":
        found = float(_MASS @ np.where(rest > 0, second * ndtr(d) - rest * ndtr(d - r), second - rest))
    else:
        found = float(_MASS @ np.where(rest > 0, rest * ndtr(r - d) - second * ndtr(-d), 0.0)) * math.exp(epsilon)
    return found if found > 1e-12 else math.nan


def arrivals_of(members: Array, rounds: int) -> list[Array]:
    """The rounds of clients: client i takes part in round t where ``members[i, t]`` is above 1/2."""
    rounds_of = (np.flatnonzero(row > 0.5).astype(float) + 1 for row in members.reshape(-1, rounds))
    return [when for when in rounds_of if when.size]


def buffered(decays: Array, outputs: Array, inputs: Array, columns: Array) -> TimeVaryingBuffers:
    """Noise with buffers, by flat arrays of its numbers, and the lengths of its columns."""
    shape = (columns.size, decays.size)
    return TimeVaryingBuffers(decays, outputs.reshape(shape), inputs.reshape(shape), 1 / columns)
