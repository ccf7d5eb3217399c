"""The worst case of a run by brute force: the data that move the released values most, with a certificate.

For each pattern π of participation the gradients that maximise Σ_π X_ij <g_i, g_j> over |g_i| = 1 are found by
coordinate ascent g_i ← h_i/|h_i|, h_i = Σ_{j≠i} X_ij g_j.  At a maximum X_ii g_i + h_i = y_i g_i with
y_i = X_ii + |h_i|, and for any y

    max { <X, R> : R >= 0, R_ii = 1 } <= Σ y_i + k max(0, −λ_min(diag y − X)),

so each maximum carries its own proof.  Patterns whose Σ |X_ij| is below the largest value so far are skipped.  This
takes no theorem for granted, and tests the formulas of ``theory.mechanisms.sensitivity``.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.participation import Indices, Participation

_MAX_STARTS = 4
_MOST_SWEEPS = 2000
_RELATIVE_AGREEMENT = 1e-10  # of both ends, relative, which ends the starts
_MOST_PATTERNS = 100_000


@record
class WorstCase(Record):
    """The data that move a run most."""

    value: float  #: the sensitivity that ``pattern`` and ``gradients`` attain
    upper: float  #: an upper bound of the sensitivity, rounding included
    pattern: Indices  #: steps of the example, shape (m,)
    gradients: Array  #: its gradients, unit vectors, shape (m, dimension)


@kernel
def _ascend(block, gradients, sweeps):  # type: ignore[no-untyped-def]
    """Coordinate ascent from ``gradients``, in place, until nothing moves; the sizes |h_i|."""
    size, dimension = gradients.shape
    sizes = np.zeros(size)
    direction = np.zeros(dimension)
    for _ in range(sweeps):
        moved = 0.0
        for i in range(size):
            direction[:] = 0.0
            for j in range(size):
                if j != i:
                    direction += block[i, j] * gradients[j]
            largest = np.abs(direction).max()
            sizes[i] = largest
            if largest > 0:
                direction /= largest  # whose squares do not underflow
                length = math.sqrt((direction * direction).sum())
                sizes[i] *= length
                for m in range(dimension):
                    new = direction[m] / length
                    moved = max(moved, abs(new - gradients[i, m]))
                    gradients[i, m] = new
        if moved < 1e-13:
            break
    return sizes


def _start(size: int, dimension: int, number: int) -> Array:
    """Unit rows that differ from start to start."""
    phases = np.outer(np.arange(1, size + 1) * math.sqrt(2), np.arange(1, dimension + 1) * math.sqrt(3))
    rows = np.cos(phases * (number + 1) + number)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def worst_gradients(block: ArrayLike) -> tuple[float, float, Array]:
    """The maximum of <X, R> over correlation matrices R: a value, an upper bound, and unit rows G with R = G Gᵀ.

    The symmetric X has the shape (k, k).
    """
    given = checks.reals("block", block)
    matrix = checks.symmetric("block", given, given.shape[0] if given.ndim else 0)
    size = matrix.shape[0]
    dimension = math.isqrt(2 * size) + 2  # (sqrt(8k + 1) − 1)/2 attain the maximum, and one more helps the ascent
    value = -math.inf
    total = float(np.abs(matrix).sum())
    upper = total * (1 + 16 * size * UNIT_ROUNDOFF)
    best = _start(size, dimension, 0)
    for number in range(_MAX_STARTS):
        gradients = _start(size, dimension, number)
        sizes = _ascend(matrix, gradients, _MOST_SWEEPS)
        multipliers = np.diag(matrix) + sizes
        attained = float((matrix * (gradients @ gradients.T)).sum())
        if attained > value:
            value, best = attained, gradients
        least = float(np.linalg.eigvalsh(np.diag(multipliers) - matrix)[0])
        slack = 16 * size * UNIT_ROUNDOFF * (total + float(multipliers.sum()))
        upper = min(upper, float(multipliers.sum()) + slack + size * max(0.0, slack - least))
        if value >= upper * (1 - _RELATIVE_AGREEMENT):
            break
    return value, upper, best


def worst_case(strategy: ArrayLike, participation: Participation) -> WorstCase:
    """The largest change that one example can make to C g, shape (rows, steps), by looking at every pattern.

    Raises
    ------
    ValueError
        If there are more than 100 000 maximal patterns.
    """
    matrix = checks.reals("strategy", strategy)
    if matrix.ndim != 2 or matrix.shape[1] != participation.steps or matrix.shape[0] == 0:
        raise ValueError(f"strategy must have shape (rows, {participation.steps}), got {matrix.shape}")
    if (count := participation.worst.number_of_patterns(_MOST_PATTERNS)) > _MOST_PATTERNS:
        raise ValueError(f"participation must have at most {_MOST_PATTERNS} maximal patterns, got at least {count}")
    gram = matrix.T @ matrix
    every = list(participation.worst.patterns())
    totals = np.array([np.abs(gram[np.ix_(pattern, pattern)]).sum() for pattern in every])
    value = -math.inf
    upper = 0.0
    worst = every[0]
    gradients = np.ones((every[0].size, 1))
    for index in np.argsort(-totals, kind="stable"):
        if totals[index] <= value:
            upper = max(upper, float(totals[index]))
            break
        attained, bound, rows = worst_gradients(gram[np.ix_(every[index], every[index])])
        upper = max(upper, bound)
        if attained > value:
            value = attained
            worst = every[index]
            gradients = rows
    rounding = participation.worst.count * (matrix.shape[0] + 2 * participation.worst.count + 64) * UNIT_ROUNDOFF
    return WorstCase(
        value=math.sqrt(max(value, 0.0)),
        upper=math.sqrt(max(upper, 0.0)) * (1 + rounding),
        pattern=worst,
        gradients=gradients,
    )
