"""Recursions backwards and forwards in time, compiled: those of ``theory.recursion`` and of learning.

Nothing checks its arguments.
"""

from __future__ import annotations

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.inlined import times


@kernel
def respond(transition, entry, noise, responses):  # type: ignore[no-untyped-def]
    """Fill the first states of all groups after each step."""
    groups, m = entry.shape[1:]
    states, moved = np.zeros((groups, m)), np.empty(m)
    for t in range(noise.size):
        f, e = transition[t % len(transition)], entry[t % len(entry)]
        for g in range(groups):
            times(f[g], states[g], moved)
            for x in range(m):
                states[g, x] = moved[x] + e[g, x] * noise[t]
            responses[t, g] = states[g, 0]


@kernel
def filtered_power(rates, coefficients, gains):  # type: ignore[no-untyped-def]
    """Σ_j Σ_t w_{t,j} Σ_{s<=t} y_{s,j}², y_s = (1 − x_j) y_{s−1} + β_s, with ``gains[t, j]`` = w_{t,j}."""
    steps, d = gains.shape
    y, squares = np.zeros(d), np.zeros(d)
    total = 0.0
    for t in range(steps):
        for j in range(d):
            y[j] += coefficients[t] - rates[j] * y[j]
            squares[j] += y[j] * y[j]
            total += gains[t, j] * squares[j]
    return total


@kernel
def filtered_gradient(rates, coefficients, gains, gradient):  # type: ignore[no-untyped-def]
    """Fill ``gradient`` with the derivatives of ``filtered_power`` in the coefficients, shape (steps,)."""
    steps, d = gains.shape
    gradient[:] = 0.0
    y = np.empty(steps)
    for j in range(d):
        last = 0.0
        for s in range(steps):
            last += coefficients[s] - rates[j] * last
            y[s] = last
        carried, later = 0.0, 0.0
        for s in range(steps - 1, -1, -1):
            later += gains[s, j]
            carried += 2 * later * y[s] - rates[j] * carried
            gradient[s] += carried


@kernel
def adjoint_moments(modes, learning_rate, batch_size, weights, adjoints, gains):  # type: ignore[no-untyped-def]
    """Fill ``adjoints`` with a^{(t)}, t = 0, …, T, and ``gains`` with n w^{(t)}, t < T; both (·, d).

    Returns M a^{(0)}.

    ``modes`` are rates x, eigenvalues λ, how many directions n have them, and kurtoses k.  a^{(T)} = 0 and
    a^{(t)} = ϖ_{t+1} λ + M a^{(t+1)}, with ``weights[t]`` = ϖ_{t+1} and
    M = diag((1 − x)² + (k − 2) x²/m) + (η²/m) λ (n λ)ᵀ.  What M feeds back beside (1 − x)² is, with ϖ λ, the gain w.
    What is empty is not filled.
    """
    rates, eigenvalues, counts, kurtosis = modes
    steps, d = weights.size, rates.size
    now, first = np.zeros(d), np.empty(d)
    if adjoints.shape[0] > 0:
        adjoints[steps] = 0.0
    for t in range(steps - 1, -2, -1):
        total = 0.0
        for j in range(d):
            total += counts[j] * eigenvalues[j] * now[j]
        for j in range(d):
            x = rates[j]
            feedback = x * ((kurtosis[j] - 2) * x * now[j] + learning_rate * total) / batch_size
            if t < 0:
                first[j] = now[j] + (feedback - x * (2 - x) * now[j])
                continue
            gain = weights[t] * eigenvalues[j] + feedback
            now[j] += gain - x * (2 - x) * now[j]
            if gains.shape[0] > 0:
                gains[t, j] = max(counts[j] * gain, 0.0)  # below 0 by rounding
            if adjoints.shape[0] > 0:
                adjoints[t, j] = now[j]
    return first
