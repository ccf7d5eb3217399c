"""The best Toeplitz strategy with p bands, and a lower bound, computed in float64, that shows how good it is.

With c = (c_0, …, c_{p−1}) the error is E(c) = tr(W X_c⁻¹), where X_c = CᵀC and W = AᵀA/n for the mean over steps (W =
aaᵀ with the last row a of A for the largest error).  The squared sensitivity is Σ_s v_s c_s², where v_s is the number
of participations 0, b, 2b, … that are followed by at least s steps: with p <= b bands the participations of an example
do not meet.  For k b <= n it is k Σ c_s².

*Search.*  log E + log Σ v_s c_s² is minimised by L-BFGS from the square root, c = coefficients of (1 − z)^{−1/2}.  Each
evaluation takes O(n min(p, log n)).

*Certificate.*  Let D >= 0 be p × p with Σ v_s D_ss = 1, and X_D the sum of X_c over a decomposition D = Σ c cᵀ, which
is linear in D.  At the strategy that was found let X = X_c, K = X⁻¹ W X⁻¹, and Γ be the p × p matrix with
tr(K X_D) = tr(Γ D).  By Cauchy and Schwarz

    tr(W X_D⁻¹) tr(K X_D) >= (tr W X⁻¹)² = E²,    hence    tr(W X_D⁻¹) >= E²/λ,

where λ is the largest eigenvalue of V^{−1/2} Γ V^{−1/2}, V = diag(v), because tr(Γ D) <= λ.  Every Toeplitz strategy
with p bands is a D of rank one, so none has a smaller error.  If all v_s are equal the bound is attained: among all D
with the same autocorrelation the minimum-phase c is best (Fejér–Riesz), and the problem is convex in D.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigvalsh
from scipy.optimize import minimize

from corrnoise.solvers.matrix_factorisation.result import OptimisedNoise, evaluated
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.toeplitz_losses import (
    OBJECTIVES,
    Objective,
    divided,
    error_weights,
    strategy_error,
)
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_STATIONARY = 3e-8  # gradient of the logarithm of the squared error at which the search ends
_DIVERGED = 1e5  # log error of noise that exceeds the range of floats; finite, so that a line search can go on
_CERTIFIED_OPERATIONS = 4e9  # n² p, up to which a certificate takes seconds
_BLOCK = 256  # rows of a matrix that are handled at once


def optimal_toeplitz(
    participation: Participation, *, bands: int | None = None, objective: Objective = "mean", certify: bool = True
) -> OptimisedNoise:
    """The Toeplitz strategy with at most ``bands`` bands that has the smallest error of prefix sums.

    Parameters
    ----------
    participation
        Length n of the run, and how often and how far apart an example takes part.
    bands
        1 <= p <= min(n, min_sep), or p <= n if an example takes part once; None for the largest p.
    objective
        ``"mean"`` for the root mean squared error, ``"max"`` for that of the worst step.
    certify
        Whether to compute the lower bound, in O(n² p) for the mean and O(n p) for the largest error.  It is left out
        where n² p > 4e9 for the mean.

    Returns
    -------
    A record whose ``noise`` is a ``BandedStrategyNoise`` with c_0 = 1.  Its ``gap`` is zero to rounding, below 1e-8,
    where every participation of the pattern 0, b, 2b, … is followed by p − 1 steps or more.  Otherwise the bound holds
    and is not sharp, and the search is only local.  The sensitivity is exact for both patterns of participation,
    whatever the signs of the coefficients.

    Raises
    ------
    ValueError
        More bands than ``min_sep`` with several participations: then no formula gives the sensitivity of all
        strategies.  ``optimal_buffers`` finds strategies with more bands that a theorem covers.

    Examples
    --------
    >>> found = optimal_toeplitz(Participation(1024), bands=32)
    >>> round(found.error, 9), found.memory
    (4.955631406, 31)
    >>> abs(found.gap) < 1e-9
    True
    """
    who = checks.instance("participation", participation, Participation)
    checks.choice("objective", objective, OBJECTIVES)
    checks.boolean("certify", certify)
    most = who.steps if who.once else who.period
    count = most if bands is None else checks.integer("bands", bands, 1)
    if count > most:
        raise ValueError(
            f"bands must be at most {most} ({'steps' if who.once else 'min_sep, with several participations'}), "
            f"got {count}"
        )
    strategy = _searched(who, count, objective)
    bound = None
    if certify and (objective == "max" or who.steps**2 * count <= _CERTIFIED_OPERATIONS):
        bound = math.sqrt(lower_bound(strategy, who, objective))
    return evaluated(BandedStrategyNoise(strategy), who, objective, bound)


def _participations_followed(participation: Participation, count: int) -> Array:
    """v_s, the number of participations 0, b, 2b, … that are followed by at least s steps, shape (count,)."""
    left = participation.steps - participation.largest
    return (left[:, np.newaxis] > np.arange(count)).sum(axis=0).astype(np.float64)


def _searched(participation: Participation, count: int, objective: Objective) -> Array:
    """The strategy, c_0 = 1, with the smallest error."""
    weights = error_weights(participation.steps, participation.steps, objective)
    multiplicity = _participations_followed(participation, count)

    def loss(tail: Array) -> tuple[float, Array]:
        strategy = np.concatenate([[1.0], tail])
        with np.errstate(over="ignore", invalid="ignore"):
            error, gradient = strategy_error(strategy, weights)
        square = multiplicity @ strategy**2
        if not (math.isfinite(error) and np.isfinite(gradient).all()):
            return _DIVERGED, np.zeros(tail.size)
        value = math.log(error) + math.log(square)
        return value, (gradient / error + 2 * multiplicity * strategy / square)[1:]

    start = NuFTRL(0.0).inverse_coefficients(count)[1:]
    if count == 1:
        return np.ones(1)
    options = {"gtol": _STATIONARY, "ftol": 0.0, "maxcor": 20, "maxiter": 1000}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return np.concatenate([[1.0], found.x])


def lower_bound(strategy: Array, participation: Participation, objective: Objective) -> float:
    """E²/λ: no strategy with as many bands has a smaller squared error (the certificate above).

    Parameters
    ----------
    strategy
        c, shape (p,), the closer to the optimum the better the bound.
    participation, objective
        As in ``optimal_toeplitz``; with several participations p <= min_sep.
    """
    n = participation.steps
    p = strategy.size
    gamma = _gamma_of_largest(strategy, n) if objective == "max" else _gamma_of_mean(strategy, n)
    scale = np.sqrt(_participations_followed(participation, p))
    largest = float(eigvalsh(gamma / np.outer(scale, scale), subset_by_index=[p - 1, p - 1])[0])
    error, _ = strategy_error(strategy, error_weights(n, n, objective))
    return error**2 / largest


def _gamma(diagonals: Array, steps: int) -> Array:
    """Γ_jl = Σ_{q < n − max(j, l)} K_{q, q+|j−l|}, from the diagonals of K, shape (p, n)."""
    count = diagonals.shape[0]
    sums = np.cumsum(diagonals, axis=1)
    j, l = np.indices((count, count))
    return np.asarray(sums[np.abs(j - l), steps - 1 - np.maximum(j, l)])


def _gamma_of_largest(strategy: Array, steps: int) -> Array:
    """Γ for W = aaᵀ with a = (1, …, 1): K = y yᵀ, y = X⁻¹ a."""
    sums = divided(np.ones(steps), strategy)
    y = divided(sums[::-1], strategy)
    diagonals = np.zeros((strategy.size, steps))
    for lag in range(strategy.size):
        diagonals[lag, : steps - lag] = y[: steps - lag] * y[lag:]
    return _gamma(diagonals, steps)


def _gamma_of_mean(strategy: Array, steps: int) -> Array:
    """Γ for W = AᵀA/n: K = Y Yᵀ/n with Y = X⁻¹ Aᵀ.

    With β = 1/c and its partial sums b, Y = T(β) T(b)ᵀ, so that Y_{i+1,t+1} = Y_{it} + β_{i+1} b_{t+1}.
    """
    count = strategy.size
    noising = divided(np.eye(1, steps)[0], strategy)
    sums = np.cumsum(noising)
    diagonals = np.zeros((count, steps))
    row = noising[0] * sums
    rows = np.zeros((0, steps))  # of Y, the last p − 1 ones and then a block
    for first in range(0, steps, _BLOCK):
        block = np.empty((min(_BLOCK, steps - first), steps))
        for i in range(block.shape[0]):
            if first + i > 0:
                row = noising[first + i] * sums + np.concatenate([[0.0], row[:-1]])
            block[i] = row
        rows = np.concatenate([rows[max(0, rows.shape[0] - count + 1) :], block])
        products = rows @ block.T / steps
        before = rows.shape[0] - block.shape[0]
        for i in range(block.shape[0]):
            lags = np.arange(min(count, before + i + 1))
            diagonals[lags, first + i - lags] = products[before + i - lags, i]
    return _gamma(diagonals, steps)
