"""Two bins, clients and their rounds, noise with buffers and random instances, for comparison with the claims."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from corrnoise.paper_checks.machinery.domains import Axis
from corrnoise.simulations.amplification import Weights, addition_weights, mixture_weights, ordered_weights
from corrnoise.simulations.random_numbers import generator
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression

_NORMAL_GRID = np.linspace(-10, 12, 4401)
_GRID_MASS = np.exp(-_NORMAL_GRID * _NORMAL_GRID / 2) * (_NORMAL_GRID[1] - _NORMAL_GRID[0]) / math.sqrt(2 * math.pi)


def gram_of_two(diagonal: Array, correlation: float) -> Array:
    """The matrix of two bins."""
    between = correlation * math.sqrt(diagonal.prod())
    return np.array([[diagonal[0], between], [between, diagonal[1]]])


def above_on_the_orthant(v: Array, more: Array, vector: Array, share: float) -> Array:
    """V with a semidefinite and a non-negative matrix added, so that its correlation moves up by the ``share`` of its room."""
    h = v + np.outer(vector, vector) + np.diag(more)
    h[0, 1] += share * (math.sqrt(h[0, 0] * h[1, 1]) - h[0, 1])
    h[1, 0] = h[0, 1]
    return h


def delta_of_two(gram: Array, epsilon: float, direction: str) -> float:
    """The exact δ(ε) of two bins: X_1 is integrated, and X_2 given X_1 has the variance r²; nan below 1e-12, where rounding
    matters.
    """
    (small, between), (_, large) = gram if gram[0, 0] <= gram[1, 1] else gram[::-1, ::-1]
    slope = between / math.sqrt(small)
    r = math.sqrt(max(large - slope**2, 1e-12))
    first = np.exp(math.sqrt(small) * _NORMAL_GRID - small / 2) / 2
    second = np.exp(slope * _NORMAL_GRID - slope**2 / 2) / 2
    rest = math.exp(epsilon if direction == "remove" else -epsilon) - first
    d = np.log(second / np.maximum(rest, 1e-300)) / r + r / 2
    if direction == "remove":
        found = float(_GRID_MASS @ np.where(rest > 0, second * ndtr(d) - rest * ndtr(d - r), second - rest))
    else:
        found = float(_GRID_MASS @ np.where(rest > 0, rest * ndtr(r - d) - second * ndtr(-d), 0.0)) * math.exp(epsilon)
    return found if found > 1e-12 else math.nan


def arrivals_of(members: Array, rounds: int) -> list[Array]:
    """The rounds of clients: client i is asked in round t where ``members[i, t]`` is above 1/2."""
    rounds_of = (np.flatnonzero(row > 0.5).astype(float) + 1 for row in members.reshape(-1, rounds))
    return [when for when in rounds_of if when.size]


def buffered(decays: Array, outputs: Array, inputs: Array, columns: Array) -> TimeVaryingBuffers:
    """Noise with buffers, by flat arrays of its numbers, and the lengths of its columns."""
    shape = (columns.size, decays.size)
    return TimeVaryingBuffers(decays, outputs.reshape(shape), inputs.reshape(shape), 1 / columns)


def sampler(gram: Array, epsilon: float, kind: str, seed: int) -> tuple[Weights, float]:
    """A sampler of Monte Carlo of this kind, and the bound of its weights."""
    if kind == "ordered":
        return ordered_weights(gram, epsilon, 4)
    return (mixture_weights if kind == "mixture" else addition_weights)(gram, epsilon, generator(seed))


def grams(diagonal: Axis, correlation: Axis) -> Axis:
    """Matrices of two bins, by the ranges of the diagonal and of the correlation."""

    def value(u: Sequence[float], earlier: Mapping[str, Any]) -> Array:
        entries = np.array([diagonal.value([v], earlier) for v in u[:2]])
        return gram_of_two(entries, float(correlation.value(u[2:], earlier)))

    return Axis(3, value, f"matrices of two bins, diagonal in {diagonal.range}, correlation in {correlation.range}")


def _around_identity(entries: Array) -> Array:
    """Entries from −1 to 1, and 1.5 added on the diagonal."""
    return 2 * entries - 1 + 1.5 * np.eye(len(entries))


def square(size: int) -> Axis:
    """Matrices with entries in [−1, 1], on the diagonal in [1/2, 5/2]."""
    text = f"matrices of size {size}, entries in [−1, 1], diagonal in [0.5, 2.5]"
    return Axis(size**2, lambda u, _: _around_identity(np.reshape(u, (size, size))), text)


def lower_triangular(size: int) -> Axis:
    """Strategies: lower-triangular matrices with entries as of ``square``."""

    def value(u: Sequence[float], _: Mapping[str, Any]) -> Array:
        entries = np.full((size, size), 0.5)
        entries[np.tril_indices(size)] = u
        return _around_identity(entries)

    return Axis(size * (size + 1) // 2, value, f"lower-triangular {square(size).range}")


def at_share(problem: LinearRegression, share: float) -> LinearRegression:
    """The problem at the learning rate ``share``/R²."""
    eta = share / problem.moment_bound
    return LinearRegression(problem.eigenvalues, eta, problem.residual_std, kurtosis=problem.kurtosis)
