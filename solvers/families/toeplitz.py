"""The best Toeplitz noise within each family of the literature, for any objective of a finite run.

===================  =======================  ==========================================================================
function             noise                    family
===================  =======================  ==========================================================================
``nu_ftrl``          ``NuFTRL``               ν-DP-FTRL, B = (1 − (1 − ν) z)^{1/2}
``anti_pgd``         ``AntiPGD``              B = 1 − λz (λ-CGD), damping 1 − λ
``square_root``      ``BandedStrategyNoise``  C = the first p coefficients of (1 − z)^{−1/2} (BSR)
``inverse_root``     ``FiniteNoise``          B = the first p coefficients of (1 − z)^{1/2} (BISR)
``fractional_root``  ``FiniteNoise``          B = the first p coefficients of (1 − z)^γ (γ-BIFR)
``damped_root``      ``FiniteNoise``          B = the first p coefficients of (1 − (1 − ν) z)^γ
``banded_inverse``   ``FiniteNoise``          B = any p coefficients (BandInvMF)
``best_toeplitz``    ``BandedStrategyNoise``  C = any p coefficients
===================  =======================  ==========================================================================

The squared error of a member is its squared sensitivity times the ``power`` of an ``Objective``.  All searches are
local.  The squared sensitivity is the one of the participations 0, b, 2b, …, which are the worst where a theorem of
docs/finite-runs-proofs.md says so, or a proved upper bound, or with p <= b bands, whose columns do not meet, exact:
Σ_s v_s c_s², where v_s is the number of participations that are followed by at least s steps.  For k b <= n it is
k Σ c_s².

*Certificate for prefix sums.*  Let E(c) = tr(W X_c⁻¹), X_c = CᵀC, be the error of the strategy that was found, Γ the
matrix with xᵀ Γ x = tr(X_c⁻¹ W X_c⁻¹ X_x), and λ the largest eigenvalue of V^{−1/2} Γ V^{−1/2}, V = diag(v).  No
Toeplitz strategy with p bands has a smaller error than E²/λ, and the best one attains it if all v_s are equal (T1 and
T2 of docs/toeplitz-mechanisms.md).

Sources: Choquette-Choo et al., arXiv 2310.06771 (ν-DP-FTRL); Kalinin and Lampert, arXiv 2405.13763 (BSR); Kalinin,
McKenna, Upadhyay, Lampert, arXiv 2505.12128 (BISR, BandInvMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigvalsh
from scipy.optimize import minimize, minimize_scalar

from corrnoise.solvers.optimum import Certificate
from corrnoise.solvers.quasi_newton import bfgs
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.sensitivity import toeplitz_sensitivity
from corrnoise.theory.mechanisms.toeplitz_losses import (
    gradient_in_noising,
    squared_sensitivity,
    squared_sensitivity_bound,
)
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.power_series import divided
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.objectives.toeplitz_errors import Aggregate, error_weights, strategy_error
from corrnoise.theory.participation import Participation

_SEARCH_STARTS = 24  # of searches over one variable
_MAX_RESTARTS = 10
_MIN_DECREASE = 1e-9  # decrease of the logarithm of the squared error at which no search starts again
_DIVERGED_LOG_ERROR = 1e5  # of noise beyond the range of floats; finite, so that a line search continues
BLOCK_ROWS = 256  # rows of a matrix that are handled at once
_CERTIFIED_OPERATIONS = 4e9  # n² p, up to which a certificate takes seconds
#: Ends of searches, by whether the objective has closed forms.
_OF_NOISE = {True: {"gtol": _MIN_DECREASE}, False: {"gtol": 1e-6, "maxiter": 200}}
_OF_STRATEGY = {
    True: {"gtol": 3e-8, "ftol": 0.0, "maxcor": 20, "maxiter": 1000},
    False: {"gtol": 1e-6, "ftol": 1e-13, "maxcor": 20, "maxiter": 200},
}


def nu_ftrl(objective: Objective, participation: Participation) -> NuFTRL:
    """ν-DP-FTRL with the damping ν in [0, 1] that has the smallest error."""
    n = objective.steps

    def loss(logarithm: float) -> float:
        noise = NuFTRL(math.exp(min(logarithm, 0.0)))
        square, _ = squared_sensitivity(noise.inverse_coefficients(n), participation)
        return math.log(square * objective.power(noise.coefficients(n))[0])

    best = _least(loss, math.log(1e-3 / n), 0.0)
    return NuFTRL(math.exp(best) if loss(best) < loss(-math.inf) else 0.0)


def anti_pgd(objective: Objective, participation: Participation) -> AntiPGD:
    """Noise 1 − λz with the damping 1 − λ in [1e-3/n, 1] that has the smallest error.

    The strategy is a single buffer with decay and scale λ, so that for prefix sums each error takes O(k) operations.
    """
    n = objective.steps

    def loss(logarithm: float) -> float:
        gap = np.array([math.exp(min(logarithm, 0.0))])
        square = buffered.squared_sensitivity(gap, 1 - gap, participation).item()
        return math.log(square * objective.power(np.array([1.0, gap[0] - 1])[: min(2, n)])[0])

    return AntiPGD(math.exp(_least(loss, math.log(1e-3 / n), 0.0)))


def square_root(count: int) -> BandedStrategyNoise:
    """The strategy with the first p coefficients of (1 − z)^{−1/2}; nothing is optimised."""
    return BandedStrategyNoise(NuFTRL(0.0).inverse_coefficients(count))


def inverse_root(count: int) -> FiniteNoise:
    """The noise with the first p coefficients of (1 − z)^{1/2}; nothing is optimised."""
    return FiniteNoise(NuFTRL(0.0).coefficients(count))


def fractional_root(objective: Objective, participation: Participation, count: int) -> FiniteNoise:
    """The noise with the first p coefficients of (1 − z)^γ, 0 <= γ <= 1, with the smallest error."""
    gamma = _best_exponent(_loss_of_roots(objective, participation, count))
    return FiniteNoise(ProductNoise([0.0], [gamma]).coefficients(count))


def damped_root(objective: Objective, participation: Participation, count: int) -> FiniteNoise | ProductNoise:
    """The noise with the first p coefficients of (1 − (1 − ν) z)^γ, 0 <= ν < 1 and 0 < γ <= 1, with the smallest error.

    The noise is ``FiniteNoise``, and ``ProductNoise`` for p = n.  The upper bound of the sensitivity times the root of
    the error is minimised, first over γ with ν = 0, and from there over both.
    """
    loss = _loss_of_roots(objective, participation, count)
    gamma = _best_exponent(loss)
    nu = 0.0
    inside = min(max(gamma, 1e-9), 1 - 1e-9)
    start = np.array([math.log(inside / (1 - inside)), -math.log(objective.steps)])
    found = minimize(
        lambda variables: loss(*_root_of(variables)),
        start,
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-14, "maxiter": 400},
    )
    if found.fun < loss(gamma, nu):
        gamma, nu = _root_of(found.x)
    root = ProductNoise([nu], [gamma])
    return root if count == objective.steps else FiniteNoise(root.coefficients(count))


def _loss_of_roots(objective: Objective, who: Participation, count: int) -> Callable[[float, float], float]:
    """The logarithm of the squared error of ``count`` coefficients of (1 − (1 − ν) z)^γ, as a function of γ and ν."""
    n = objective.steps

    def loss(gamma: float, nu: float) -> float:
        root = ProductNoise([nu], [gamma])
        noising = root.coefficients(count)
        strategy = root.inverse_coefficients(n) if count == n else divided(np.eye(1, n)[0], noising)
        bound = toeplitz_sensitivity(strategy, who.worst).upper
        return 2 * math.log(bound) + math.log(objective.power(noising)[0])

    return loss


def _best_exponent(loss: Callable[[float, float], float]) -> float:
    """The best γ for ν = 0."""
    return _least(lambda gamma: loss(gamma, 0.0), 0.0, 1.0)


@usual_float_errors
def banded_inverse(
    objective: Objective, participation: Participation, count: int, start: NuFTRL | None = None
) -> FiniteNoise:
    """The noise with p coefficients that has the smallest error.

    β_0 = 1.  A proved upper bound of the sensitivity, times the root of the error, is minimised. The bound is the
    sensitivity where the strategy is non-negative and does not increase from index ``period`` on.  The search begins at
    the first p coefficients of ``start``; None for the best root with ν = 0.
    """
    impulse = np.eye(1, objective.steps)[0]

    def loss(tail: Array) -> tuple[float, Array]:
        noising = np.concatenate([[1.0], tail])
        strategy = divided(impulse, noising)
        if not np.isfinite(strategy).all():
            return _DIVERGED_LOG_ERROR, np.zeros(tail.size)
        square, of_square = squared_sensitivity_bound(strategy, participation)
        power, slope = objective.power(noising)
        if not (math.isfinite(square) and math.isfinite(power)):
            return _DIVERGED_LOG_ERROR, np.zeros(tail.size)
        gradient = slope / power + gradient_in_noising(of_square / square, noising, strategy)
        return math.log(square) + math.log(power), gradient[1:]

    if start is None:
        gamma = _best_exponent(_loss_of_roots(objective, participation, count))
        tail = ProductNoise([0.0], [gamma]).coefficients(count)[1:]
    else:
        tail = start.coefficients(count)[1:]
    restarts = _MAX_RESTARTS if objective.precise else 1
    for _ in range(restarts if count > 1 else 0):  # the bound has kinks, where the search may stop early
        with np.errstate(over="ignore", invalid="ignore"):
            before, _ = loss(tail)
            tail = bfgs(loss, tail, _OF_NOISE[objective.precise])
            if before - loss(tail)[0] < _MIN_DECREASE:
                break
    return FiniteNoise(np.concatenate([[1.0], tail]))


@usual_float_errors
def best_toeplitz(
    objective: Objective, participation: Participation, bands: int, start: NuFTRL | None = None
) -> BandedStrategyNoise:
    """The Toeplitz strategy with at most ``bands`` bands that has the smallest error.

    c_0 = 1, and the sensitivity is exact whatever the signs of the coefficients.
    ``best_buffers`` finds strategies with more bands that a theorem covers.  The search begins at the first p strategy
    coefficients of ``start``; None for the square root.

    Raises
    ------
    ValueError
        If there are more bands than steps of an epoch, with several participations: then no formula gives the
        sensitivity of all strategies.
    """
    n = objective.steps
    count = checks.integer("bands", bands, 1, largest=most_bands(participation))
    followed = _participations_followed(participation, count)
    impulse = np.eye(1, n)[0]

    def loss(tail: Array) -> tuple[float, Array]:
        strategy = np.concatenate([[1.0], tail])
        with np.errstate(over="ignore", invalid="ignore"):
            noising = divided(impulse, strategy)
            if not np.isfinite(noising).all():
                return _DIVERGED_LOG_ERROR, np.zeros(tail.size)
            power, slope = objective.power(noising)
            square = followed @ strategy**2
            gradient = gradient_in_noising(slope, strategy, noising) / power + 2 * followed * strategy / square
        if not (math.isfinite(power) and np.isfinite(gradient).all()):
            return _DIVERGED_LOG_ERROR, np.zeros(tail.size)
        return math.log(power) + math.log(square), gradient[1:]

    tail = (NuFTRL(0.0) if start is None else start).inverse_coefficients(count)[1:]
    if tail.size:
        tail = minimize(loss, tail, jac=True, method="L-BFGS-B", options=_OF_STRATEGY[objective.precise]).x
    return BandedStrategyNoise(np.concatenate([[1.0], tail]))


def most_bands(participation: Participation) -> int:
    """The number of bands that keeps the columns of one example apart."""
    n = participation.length
    return n if participation.once else min(participation.worst.period, n)


# -- searches ----------------------------------------------------------------------------------------------------------


def _least(loss: Callable[[float], float], low: float, high: float) -> float:
    """A minimum of ``loss`` in [low, high]: the best of a grid, refined between its neighbours."""
    grid = np.linspace(low, high, _SEARCH_STARTS)
    values = [loss(point) for point in grid.tolist()]
    best = int(np.argmin(values))
    ends = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _SEARCH_STARTS - 1)])
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return float(found.x) if found.fun < values[best] else float(grid[best])


def _root_of(variables: Array) -> tuple[float, float]:
    """γ and ν, from logit γ and log ν."""
    gamma = 1 / (1 + math.exp(-float(np.clip(variables[0], -30, 30))))
    return gamma, math.exp(float(np.clip(variables[1], -600, -1e-6)))


def _participations_followed(participation: Participation, count: int) -> Array:
    """v_s, the number of participations 0, b, 2b, … that are followed by at least s steps, shape (count,)."""
    left = participation.length - participation.worst.largest
    return (left[:, np.newaxis] > np.arange(count)).sum(axis=0).astype(np.float64)


# -- certificate -------------------------------------------------------------------------------------------------------


def certificate(
    noise: BandedStrategyNoise, participation: Participation, aggregate: Aggregate = "mean"
) -> Certificate | None:
    """Two bounds of the error of prefix sums with as many bands; None where n² p > 4e9 for the mean.

    ``noise`` is as ``best_toeplitz`` finds it.  The gap is zero to rounding, below 1e-8, where every participation of
    the pattern 0, b, 2b, … is followed by p − 1 steps or more.  Otherwise the bound holds and is not sharp.
    """
    n = participation.length
    if aggregate == "mean" and n**2 * noise.values.size > _CERTIFIED_OPERATIONS:
        return None
    error = noise.mean_error(participation) if aggregate == "mean" else noise.max_error(participation)
    return Certificate(
        value=error,
        lower_bound=math.sqrt(lower_bound(noise.values, participation, aggregate)),
        rigorous=False,
        iterations=1,
        strategies=f"Toeplitz strategies with at most {noise.values.size} bands",
    )


def lower_bound(strategy: Array, participation: Participation, aggregate: Aggregate) -> float:
    """E²/λ: no strategy with as many bands has a smaller squared error (the certificate above).

    The closer the strategy, shape (p,), to the optimum the better the bound; with several participations p <= b.
    """
    n = participation.length
    p = strategy.size
    gamma = _gamma_of_largest(strategy, n) if aggregate == "max" else _gamma_of_mean(strategy, n)
    scale = np.sqrt(_participations_followed(participation, p))
    largest = float(eigvalsh(gamma / np.outer(scale, scale), subset_by_index=[p - 1, p - 1])[0])
    error, _ = strategy_error(strategy, error_weights(n, n, aggregate))
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
    for first in range(0, steps, BLOCK_ROWS):
        block = np.empty((min(BLOCK_ROWS, steps - first), steps))
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
