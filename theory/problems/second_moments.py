"""Second moments of the iterates of a quadratic problem, step by step, compiled.

Only positive terms are added, so float64 is enough; the rounding of a sum of two floats is carried.  Nothing here
checks its arguments.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.support.kernels import kernel


@kernel
def _two_sum(a, b):  # type: ignore[no-untyped-def]
    """The sum and its rounding error.  A copy: numba's cache does not notice a change of a callee in another file."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel
def second_moments(rates, kurtosis, coefficients, batch_size, step_noise, residual, initial, errors):  # type: ignore[no-untyped-def]
    """Fill ``errors`` with ½ Σ_j v_j(t), v_j = λ_j E(θ_t − θ*)_j², for t = 0, 1, … (formula E2).

    v_j ← v_j − x_j (2 − (1 + (k_j − 2)/m) x_j) v_j + x_j² (Σ_i v_i + s²)/m + η σ² x_j b_j(t), with b_j(t) the averaged
    variance of the first t + 1 coefficients and batches of m examples.  ``step_noise`` is η σ² with the σ of the mean
    over a batch, ``residual`` s², ``initial`` the v_j at t = 0.  Stops at the first overflow and leaves ``inf`` from
    there on.
    """
    d = rates.size
    m = batch_size
    v = initial.copy()
    v_low = np.zeros(d)
    y, squares, squares_low = np.zeros(d), np.zeros(d), np.zeros(d)
    for t in range(errors.size):
        total = 0.0
        for j in range(d):
            total += v[j]
        errors[t] = total / 2
        if not total < 1e300:
            errors[t:] = math.inf
            return
        if t == errors.size - 1:
            return
        beta = coefficients[t]
        for j in range(d):
            x = rates[j]
            before = y[j]
            y[j] = before + (beta - x * before)
            if x <= 2:
                squares[j], squares_low[j] = _two_sum(squares[j], squares_low[j] + y[j] * y[j])
                variance = x * (2 - x) * squares[j] + (1 - x) ** 2 * y[j] * y[j]
            else:
                squares[j] += beta * beta + 2 * beta * (1 - x) * before
                variance = squares[j]
            source = x * (x * residual / m + step_noise * variance)
            if x < 0.5:
                gain = x * (x * total / m - (2 - (1 + (kurtosis[j] - 2) / m) * x) * v[j]) + source
                v[j], v_low[j] = _two_sum(v[j], v_low[j] + gain)
            else:  # the same, but nothing is left over where (1 − x)² is small
                own = (1 - x) ** 2 + (kurtosis[j] - 1) * x * x / m
                v[j] = own * v[j] + x * x * (total - v[j]) / m + source
