"""Errors of prefix sums after n steps of Toeplitz noise, with gradients, and covariances of Toeplitz noise.

A Toeplitz mechanism has the noising coefficients β and the strategy coefficients c = 1/β (as power series).  It
releases prefix sums A g with the noise A N z, where A and N are the n × n Toeplitz matrices of (1, 1, …) and β.  The
error of step t at unit noise is b_0² + … + b_t² with the partial sums b_t = β_0 + … + β_t.  Hence

* the mean over steps is E = Σ_t (n − t)/n b_t²,
* the largest is the error of the last step, E = Σ_t b_t²,

and both are Σ w_t b_t² with weights w.  Let S be the shift by one step.  Then db = −N Sʲ b dc_j, so with u = N b

    ∂E/∂c_j = −2 Σ_t w_t b_t u_{t−j},        ∂E/∂β_j = 2 Σ_{t >= j} w_t b_t.

Everything costs O(n log n), or O(n p) with p coefficients where this is faster.  Relative errors are below
1e-15 p max(1, κ) with κ = Σ|c| Σ|β| for short c and β; tests compare with 40 digits.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.power_series import correlated, divided

Aggregate = Literal["mean", "max"]
AGGREGATES: tuple[Aggregate, ...] = ("mean", "max")


def error_weights(steps: int, count: int, aggregate: Aggregate) -> Array:
    """Weights w of the errors b², shape (count,), for b_t constant from t = count − 1 on; the last adds up the rest."""
    rest = steps - count + 1
    weights = np.ones(count)
    weights[-1] = rest
    if aggregate == "mean":
        weights[:-1] = (steps - np.arange(count - 1)) / steps
        weights[-1] = rest * (rest + 1) / (2 * steps)
    return weights


def covariance(noising: Array, scales: Array) -> Array:
    """K = N Nᵀ of N = diag(scales) T(β), shape (n, n), by K_{i+1,j+1} = K_ij + β_{i+1} β_{j+1} at scales 1; O(n²)."""
    found = np.outer(noising, noising)
    for t in range(1, noising.size):
        found[t, 1:] += found[t - 1, :-1]
    return found * np.outer(scales, scales)


def strategy_error(strategy: Array, weights: Array) -> tuple[float, Array]:
    """E = Σ w_t b_t² of a strategy c, shape (p,), p <= n, zero afterwards, and its gradient in c; w has shape (n,)."""
    sums = divided(np.ones(weights.size), strategy)
    weighted = weights * sums
    return float(weighted @ sums), -2 * correlated(weighted, divided(sums, strategy), strategy.size)


def noising_error(noising: Array, weights: Array) -> tuple[float, Array]:
    """E = Σ w_t b_t² of noising coefficients β, shape (p,), zero afterwards, and its gradient in β.

    The last of the weights w, shape (p,), is the sum of all weights from there on (``error_weights``).
    """
    sums = np.cumsum(noising)
    weighted = weights * sums
    return float(weighted @ sums), 2 * np.cumsum(weighted[::-1])[::-1]
