"""Sensitivity where every epoch uses each example at most once, at any step: reshuffled orders.

With the strategy C and X = CᵀC the squared sensitivity is at most

    Σ_{e, f} max { |X_ts| : t in epoch e, s in epoch f },

summed over the epochs that use the example.  Toeplitz noise has |X_ts| <= r(|t − s|), where r is the
autocorrelation of the absolute values of the inverse coefficients, made to not increase.  Steps t_e and t_{e+k} differ
by more than (k − 1) b and less than (k + 1) b.  Not all can be close: in a chain e, e + k, e + 2k, … the
differences add up, to at least k b each less b − 1 for the chain.  Where r lies below its chord over that range, as it
does for convex r, the mean of r(t_{e+k} − t_e) over e is therefore at most the chord at the least mean difference;
elsewhere it is at most the largest r.

Fixed orders attain the lower ends, and so do orders that have an example last in one epoch and first in the next.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft

from corrnoise.theory.mechanisms.sensitivity import (
    Sensitivity,
    attained_by,
    bracket_of,
    closer_by_patterns,
    largest_block,
    norm,
    toeplitz_pattern_norm,
    toeplitz_sensitivity,
)
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Indices, Order, Reshuffled

_RELATIVE_ROUNDING = 1e-9  #: relative, of sums of products, with room to spare


def reshuffled_sensitivity(strategy: Array, participation: Order, *, error: float = 0.0) -> Sensitivity:
    """The sensitivity of any strategy, shape (n, n), for reshuffled orders.

    Returns a bracket; O(n³).  It is closed where the patterns are few enough to be listed, for non-negative X.  The
    ``error`` bounds the relative error of each column, in the 2-norm.
    """
    gram = strategy.T @ strategy
    fixed = [
        ends
        for steps in participation.residue_classes()
        for ends in (steps[: participation.count], steps[-participation.count :])
    ]
    value, _ = largest_block(gram, [*fixed, *_close(participation)])
    bound = _block_maxima(gram, participation)
    if value < bound:
        value, bound = closer_by_patterns(gram, participation, value, bound)
    return bracket_of(math.sqrt(value), math.sqrt(bound), participation.count * error + _RELATIVE_ROUNDING)


def _block_maxima(gram: Array, participation: Order) -> float:
    """Σ_{e, f} max |X_ts| over the k epochs with the largest sum, or a bound of it."""
    starts = np.arange(0, participation.length, participation.period)
    highest = np.maximum.reduceat(np.maximum.reduceat(np.abs(gram), starts, axis=0), starts, axis=1)
    if participation.count == starts.size:
        return math.fsum(highest.ravel())
    rows = np.sort(highest, axis=1)[:, -participation.count :].sum(axis=1)
    return math.fsum(np.sort(rows)[-participation.count :])


def _close(participation: Order) -> list[Indices]:
    """Patterns with close participations: last in one epoch and first in the next, in turns."""
    blocks = participation.blocks()[: participation.count]
    return [
        np.array([block[-1] if (number + parity) % 2 else block[0] for number, block in enumerate(blocks)])
        for parity in (0, 1)
    ]


def any_toeplitz_sensitivity(coefficients: Array, participation: Order, *, error: float = 0.0) -> Sensitivity:
    """``toeplitz_sensitivity``, and in O(n log n) the same for reshuffled orders."""
    if not isinstance(participation, Reshuffled) or participation.once:
        return toeplitz_sensitivity(coefficients, participation, error=error)
    length = fft.next_fast_len(2 * coefficients.size, real=True)
    lags = np.zeros((participation.count + 1) * participation.period)
    correlation = fft.irfft(np.abs(fft.rfft(np.abs(coefficients), length)) ** 2, length)[: coefficients.size]
    shown = min(coefficients.size, lags.size)
    lags[:shown] = correlation[:shown]
    lags += _RELATIVE_ROUNDING / 10 * lags[0]  # the error of the transforms
    lags = np.maximum.accumulate(lags[::-1])[::-1]
    k = participation.count
    pairs = [(k - apart) * _mean_of_pairs(lags, participation, apart) for apart in range(1, k)]
    total = k * float(lags[0]) + 2 * math.fsum(pairs)
    value = max(toeplitz_pattern_norm(coefficients, each) for each in (participation.largest, *_close(participation)))
    # The error counts most in the last column of the strategy, which has the first coefficient alone.
    spread = error * norm(coefficients) / abs(float(coefficients[0])) if error else 0.0
    return attained_by(value, math.sqrt(total), k * spread + _RELATIVE_ROUNDING)


def _mean_of_pairs(lags: Array, participation: Order, apart: int) -> float:
    """A bound of the mean of r(t_{e+k} − t_e) over e, for r that does not increase; k = ``apart``."""
    b = participation.period
    first = (apart - 1) * b + 1
    values = lags[first : (apart + 1) * b]
    chord = np.linspace(values[0], values[-1], values.size)
    if not participation.saturated or values.size == 1 or np.any(values > chord * (1 + 1e-12)):
        return float(values[0])
    chains = min(apart, participation.count - apart)
    nearest = apart * b - chains * (b - 1) / (participation.count - apart)  # the least mean of t_{e+k} − t_e
    return float(np.interp(max(nearest - first, 0.0), np.arange(values.size), chord))
