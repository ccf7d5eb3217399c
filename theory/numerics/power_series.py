"""Products and quotients of power series.

The inverse of a lower-triangular Toeplitz matrix is again one, and its first column is the reciprocal power series.
Short series are inverted term by term in double-double arithmetic.  Long series are inverted by Newton's iteration with
fast Fourier transforms in O(T log T).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

DIRECT_OPERATIONS = 2e7
_DOUBLE_DOUBLE_UNIT = 2.0**-100
DIRECT_COEFFICIENTS = 128  #: up to which sums of products are faster than Fourier transforms


def newton_reciprocal(coefficients: Array, terms: int) -> Array:
    """Coefficients of 1/f by Newton's iteration g ← g + g (1 − f g), which doubles the number of correct terms.

    There are fewer than ``terms`` where the coefficients overflow.

    If the result grows exponentially, each doubling runs on β_t r^{-t}, where r is the growth of the terms found so
    far.  Without this scaling the rounding errors of the largest terms would exceed the small ones.
    """
    series = np.array([1 / coefficients[0]])
    while series.size < terms:
        n = series.size
        size = min(2 * n, terms)
        tail = np.abs(series[n // 2 :])
        largest = int(np.argmax(tail)) + n // 2
        growth = max(1.0, (tail.max() / abs(series[0])) ** (1 / max(largest, 1)))
        scale = growth ** -np.arange(size, dtype=float)
        length = fft.next_fast_len(2 * n, real=True)
        known = fft.rfft(series * scale[:n], length)
        factor = fft.rfft(coefficients[:size] * scale[: coefficients.size], length)
        missing = fft.irfft(factor * known, length)[n:size]  # the wrap-around only reaches the first n terms
        update = fft.irfft(fft.rfft(missing, length) * known, length)[: size - n]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            series = np.concatenate([series, -update / scale[n:]])
        if not np.isfinite(series).all():
            break
    return series


def reciprocal(coefficients: Array, terms: int) -> tuple[Array, float]:
    """Coefficients of 1/B(z), for B given by finitely many coefficients with β_0 != 0.

    Let B s = 1 + r for the computed series s.  The exact reciprocal is s/(1 + r), hence
    error <= ‖s‖₁ ‖r‖₂/((1 − ‖r‖₁) ‖s‖₂).  For short series the residual r is bounded by the rounding errors of the
    algorithm.  For long series r is computed, and a bound of its own rounding errors is added.

    Returns the series of shape (terms,), where terms that exceed the range of floats, and all later ones, are
    ``inf``, and an upper bound of ‖error‖₂/‖series‖₂; ``inf`` if no bound is known.
    """
    from corrnoise.theory.numerics import double_double_series

    coefficients = np.trim_zeros(coefficients[:terms], "b")
    direct = coefficients.size * terms <= DIRECT_OPERATIONS
    if direct:
        series = np.empty(terms)
        double_double_series.reciprocal_series(coefficients, series)
    else:
        series = newton_reciprocal(coefficients, terms)
    finite = np.isfinite(series)
    if series.size < terms or not finite.all():
        first = int(np.argmin(finite)) if not finite.all() else series.size
        overflowed = np.full(terms, math.inf)
        overflowed[:first] = series[:first]
        return overflowed, math.inf

    with np.errstate(over="ignore", invalid="ignore"):
        sum_f = np.abs(coefficients).sum()
        norm_f = np.linalg.norm(coefficients)
        sum_s = np.abs(series).sum()
        norm_s = np.linalg.norm(series)
        if direct:
            unit = _DOUBLE_DOUBLE_UNIT * (coefficients.size + 4) * sum_f
            residual_1, residual_2 = unit * sum_s, unit * norm_s
        else:
            length = fft.next_fast_len(2 * terms, real=True)
            residual = fft.irfft(fft.rfft(coefficients, length) * fft.rfft(series, length), length)[:terms]
            residual[0] -= 1
            rounding = 16 * UNIT_ROUNDOFF * math.log2(terms) * norm_f * norm_s  # of one entry of a convolution by FFT
            residual_1 = float(np.abs(residual).sum() + terms * rounding)
            residual_2 = float(np.linalg.norm(residual) + math.sqrt(terms) * rounding)
    if not residual_1 < 0.5:
        return series, math.inf
    return series, float(sum_s * residual_2 / ((1 - residual_1) * norm_s) + 2 * UNIT_ROUNDOFF)


def divided(values: Array, coefficients: Array) -> Array:
    """The power series ``values`` divided by the series with ``coefficients``, to as many terms as ``values``."""
    coefficients = coefficients[: values.size]
    if coefficients.size <= DIRECT_COEFFICIENTS:
        from scipy import signal  # takes a second to import

        return np.asarray(signal.lfilter([1.0], coefficients, values))
    return multiplied(values, newton_reciprocal(coefficients, values.size))


def multiplied(one: Array, other: Array) -> Array:
    """The product of two power series, to as many terms as ``one``."""
    other = other[: one.size]
    if min(one.size, other.size) <= DIRECT_COEFFICIENTS:
        return np.convolve(one, other)[: one.size]
    from scipy import signal  # takes a second to import

    return np.asarray(signal.oaconvolve(one, other)[: one.size])


def correlated(one: Array, other: Array, lags: int) -> Array:
    """Σ_t one_t other_{t−j} for j = 0, …, lags − 1; both have the same length."""
    if lags <= DIRECT_COEFFICIENTS:
        return np.array([one[j:] @ other[: other.size - j] for j in range(lags)])
    from scipy import signal  # takes a second to import

    return np.asarray(signal.fftconvolve(one, other[::-1])[one.size - 1 :][:lags])
