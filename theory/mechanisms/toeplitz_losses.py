"""Errors of prefix sums and sensitivities of Toeplitz mechanisms after n steps, with gradients.

A Toeplitz mechanism has the noising coefficients β and the strategy coefficients c = 1/β (as power series).  It
releases prefix sums A g with the noise A N z, where A and N are the n × n Toeplitz matrices of (1, 1, …) and β.  The
error of step t at unit noise is b_0² + … + b_t² with the partial sums b_t = β_0 + … + β_t.  Hence

* the mean over steps is E = Σ_t (n − t)/n b_t²,
* the largest belongs to the last step, E = Σ_t b_t²,

and both are Σ w_t b_t² with weights w.  Let S be the shift by one step.  Then db = −N Sʲ b dc_j, so with u = N b

    ∂E/∂c_j = −2 Σ_t w_t b_t u_{t−j},        ∂E/∂β_j = 2 Σ_{t >= j} w_t b_t.

An example is used in steps that are at least b apart, at most k times.  ``squared_sensitivity`` is
‖Σ_{j<k} S^{jb} c‖², cut off after n steps, and does not check the theorem that makes the pattern 0, b, 2b, … the worst;
``squared_sensitivity_bound`` is an upper bound for every c.

The root mean squared error of a mechanism is its sensitivity times sqrt(E).

Everything costs O(n log n), or O(n p) with p coefficients where that is faster.  Relative errors are below
1e-15 p max(1, κ) with κ = Σ|c| Σ|β| for short c and β; tests compare with 40 digits.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from corrnoise.theory.mechanisms.sensitivity import window_sums
from corrnoise.theory.numerics import checks, power_series
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation

Objective = Literal["mean", "max"]
OBJECTIVES: tuple[Objective, ...] = ("mean", "max")

_DIRECT_COEFFICIENTS = 128  # the most coefficients with sums of products, which are faster than Fourier transforms


def error_weights(steps: int, count: int, objective: Objective) -> Array:
    """Weights w of the errors b², shape (count,), for b_t constant from t = count − 1 on; the last adds up the rest."""
    checks.choice("objective", objective, OBJECTIVES)
    rest = steps - count + 1
    weights = np.ones(count)
    weights[-1] = rest
    if objective == "mean":
        weights[:-1] = (steps - np.arange(count - 1)) / steps
        weights[-1] = rest * (rest + 1) / (2 * steps)
    return weights


def toeplitz_covariance(noising: Array) -> Array:
    """T(β) T(β)ᵀ, shape (n, n), by K_{i+1,j+1} = K_ij + β_{i+1} β_{j+1}; O(n²)."""
    covariance = np.outer(noising, noising)
    for t in range(1, noising.size):
        covariance[t, 1:] += covariance[t - 1, :-1]
    return covariance


def divided(values: Array, coefficients: Array) -> Array:
    """The power series ``values`` divided by the series with ``coefficients``, to as many terms as ``values``."""
    coefficients = coefficients[: values.size]
    if coefficients.size <= _DIRECT_COEFFICIENTS:
        from scipy import signal  # a second of imports

        return np.asarray(signal.lfilter([1.0], coefficients, values))
    return multiplied(values, power_series.newton_reciprocal(coefficients, values.size))


def multiplied(one: Array, other: Array) -> Array:
    """The product of two power series, to as many terms as ``one``."""
    other = other[: one.size]
    if min(one.size, other.size) <= _DIRECT_COEFFICIENTS:
        return np.convolve(one, other)[: one.size]
    from scipy import signal  # a second of imports

    return np.asarray(signal.oaconvolve(one, other)[: one.size])


def correlated(one: Array, other: Array, lags: int) -> Array:
    """Σ_t one_t other_{t−j} for j = 0, …, lags − 1; both have the same length."""
    if lags <= _DIRECT_COEFFICIENTS:
        return np.array([one[j:] @ other[: other.size - j] for j in range(lags)])
    from scipy import signal  # a second of imports

    return np.asarray(signal.fftconvolve(one, other[::-1])[one.size - 1 :][:lags])


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


def squared_sensitivity(strategy: Array, participation: Participation) -> tuple[float, Array]:
    """‖v‖² for the pattern 0, b, 2b, …, and its gradient in c; both over all n steps, shape (n,)."""
    total = window_sums(strategy, participation.period, participation.count)
    # The transpose of a shift is a shift in reversed time.
    return float(total @ total), 2 * window_sums(total[::-1], participation.period, participation.count)[::-1]


def squared_sensitivity_bound(strategy: Array, participation: Participation) -> tuple[float, Array]:
    """An upper bound of the squared sensitivity of any strategy c, shape (n,), and its gradient in c, if any.

    It is ‖v‖² for the majorant ĉ_t = |c_t| for t < b, ĉ_t = max_{s>=t} |c_s| for t >= b (P1 of
    docs/finite-runs-proofs.md).  Where c >= 0 and c does not increase from index b on, it equals
    ``squared_sensitivity``.
    """
    b = strategy.size if participation.once else participation.period
    sizes = np.abs(strategy)
    tail = sizes[b:]
    highest = np.maximum.accumulate(tail[::-1])[::-1]
    # The place of the source of each ĉ_t: the next s >= t at which |c_s| is its own majorant.
    peaks = np.flatnonzero(tail == highest)
    places = np.concatenate([np.arange(b), b + peaks[np.searchsorted(peaks, np.arange(tail.size))]])
    value, gradient = squared_sensitivity(sizes[places], participation)
    carried = np.zeros(sizes.size)
    np.add.at(carried, places, gradient)
    return value, carried * np.sign(strategy)


def gradient_in_noising(gradient: Array, noising: Array, strategy: Array) -> Array:
    """The gradient in β, shape (p,), from that in c = 1/β, shape (n,), by dc = −c ∗ c ∗ dβ."""
    return -correlated(gradient, divided(strategy, noising), noising.size)
