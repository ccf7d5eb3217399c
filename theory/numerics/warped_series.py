"""Power series in the all-pass variable ζ = (z − a)/(1 − a z), turned into power series in z, compiled.

The coefficients of ζᵐ in z come from a cascade of m equal all-pass filters, x_m(t) = a (x_m(t−1) − x_{m−1}(t)) +
x_{m−1}(t−1), each of norm 1.  The rounding error of each entry is known exactly to first order.  These errors pass
through the same cascade and are subtracted at the end, so the error that remains is of second order for cascades of any
length.  The entries on an antidiagonal m + t = d do not depend on each other, so the loops vectorise: 3 ns an entry.

The functions do not check their arguments.
"""

from __future__ import annotations

import numpy as np

from corrnoise.support.kernels import kernel

_TINY_NUMBER = 1e-250  # smaller values become 0: they do not matter, and subnormal errors are slow
SPLITTER = 2.0**27 + 1  #: factor of Veltkamp's splitting of a float64 into two halves of its digits


@kernel
def _advance(last, last_low, left, left_low, before, before_low, new, new_low, warp):  # type: ignore[no-untyped-def]
    """Compute one antidiagonal and its errors from the two before it: ``new`` = warp (last − left) + before."""
    split = SPLITTER * warp
    a_high = split - (split - warp)
    a_low = warp - a_high
    for i in range(new.size):
        u = last[i] - left[i]
        v = u - last[i]
        low = (last[i] - (u - v)) - (left[i] + v) + (last_low[i] - left_low[i])
        w = warp * u
        v = SPLITTER * u
        u_high = v - (v - u)
        u_low = u - u_high
        low = warp * low + (((a_high * u_high - w) + a_high * u_low + a_low * u_high) + a_low * u_low)
        x = w + before[i]
        v = x - w
        tiny = abs(x) < _TINY_NUMBER
        new[i] = 0.0 if tiny else x
        new_low[i] = 0.0 if tiny else low + (w - (x - v)) + (before[i] - v) + before_low[i]


@kernel
def _gather(weights, values, values_low, sums, sums_low):  # type: ignore[no-untyped-def]
    """Add weights × values to ``sums``, and the errors of these additions to ``sums_low``."""
    for i in range(weights.size):
        p = sums[i]
        q = weights[i] * values[i]
        u = p + q
        v = u - p
        sums[i] = u
        sums_low[i] += (p - (u - v)) + (q - v) + weights[i] * values_low[i]


@kernel
def unwarped(series, warp, coefficients):  # type: ignore[no-untyped-def]
    """Fill ``coefficients`` with those of Σ_m series[m] ζᵐ in powers of z, O(len(series) × len(coefficients))."""
    count = series.size
    steps = coefficients.size
    x, low = np.zeros((3, count)), np.zeros((3, count))  # three antidiagonals, d − 2, d − 1 and d, indexed by m
    sums, sums_low = np.zeros(steps), np.zeros(steps)  # in reverse order of time
    x[0, 0] = 1.0
    sums[-1] = series[0]
    for d in range(1, count + steps - 1):
        i = (d - 2) % 3
        j = (d - 1) % 3
        k = d % 3
        x[k, 0] = low[k, 0] = 0.0
        m = max(1, d - steps + 1)
        n = min(d + 1, count)
        new = x[k, m:n]
        new_low = low[k, m:n]
        left = x[j, m - 1 : n - 1]
        left_low = low[j, m - 1 : n - 1]
        before = x[i, m - 1 : n - 1]
        before_low = low[i, m - 1 : n - 1]
        _advance(x[j, m:n], low[j, m:n], left, left_low, before, before_low, new, new_low, warp)
        first = m + steps - 1 - d
        _gather(series[m:n], new, new_low, sums[first : first + n - m], sums_low[first : first + n - m])
    for t in range(steps):
        coefficients[t] = sums[steps - 1 - t] + sums_low[steps - 1 - t]
