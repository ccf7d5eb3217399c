"""The best Toeplitz noise for prefix sums within each family of the literature.

=============================  ==========================  ===========================================================
function                       noise                       family
=============================  ==========================  ===========================================================
``optimal_nu``                 ``NuFTRL``                  ν-DP-FTRL, B = (1 − (1 − ν) z)^{1/2}
``optimal_damping``            ``AntiPGD``                 B = 1 − λz (λ-CGD), damping 1 − λ
``banded_square_root``         ``BandedStrategyNoise``     C = the first p coefficients of (1 − z)^{−1/2} (BSR)
``banded_inverse_square_root`` ``FiniteNoise``             B = the first p coefficients of (1 − z)^{1/2} (BISR)
``optimal_damped_root``        ``FiniteNoise``             B = the first p coefficients of (1 − (1 − ν) z)^γ
``optimal_banded_inverse``     ``FiniteNoise``             B = any p coefficients (BandInvMF)
=============================  ==========================  ===========================================================

Each returns an ``OptimisedNoise``.  Sensitivities are rounded up, and valid for both patterns of participation.

References
----------
Choquette-Choo et al., arXiv 2310.06771 (ν-DP-FTRL).
Kalinin and Lampert, arXiv 2405.13763 (BSR).
Kalinin, McKenna, Upadhyay, Lampert, arXiv 2505.12128 (BISR, BandInvMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from corrnoise.solvers.matrix_factorisation.result import OptimisedNoise, evaluated
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.sensitivity import toeplitz_sensitivity
from corrnoise.theory.mechanisms.toeplitz_losses import (
    Objective,
    divided,
    error_weights,
    gradient_in_noising,
    noising_error,
    squared_sensitivity,
    squared_sensitivity_bound,
)
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_STARTS = 24  # of searches over one variable
_RESTARTS = 10
_STATIONARY = 1e-9  # gradient of the logarithm of the squared error
_DIVERGED = 1e5  # log error of noise that exceeds the range of floats; finite, so that a line search can go on


def optimal_nu(participation: Participation, *, objective: Objective = "mean") -> OptimisedNoise:
    """ν-DP-FTRL with the damping ν in [0, 1] that has the smallest error of prefix sums after n steps.

    Examples
    --------
    >>> found = optimal_nu(Participation(1024))
    >>> round(found.error, 9), round(found.noise.nu, 7)
    (3.066350782, 0.0007324)
    """
    who, weights = _checked(participation, objective)

    def loss(logarithm: float) -> float:
        noise = NuFTRL(math.exp(min(logarithm, 0.0)))
        square, _ = squared_sensitivity(noise.inverse_coefficients(who.steps), who)
        return math.log(square * noising_error(noise.coefficients(who.steps), weights)[0])

    best = _least(loss, math.log(1e-3 / who.steps), 0.0)
    return evaluated(NuFTRL(math.exp(best) if loss(best) < loss(-math.inf) else 0.0), who, objective)


def optimal_damping(participation: Participation, *, objective: Objective = "mean") -> OptimisedNoise:
    """Noise 1 − λz with the damping 1 − λ in [1e-3/n, 1] that has the smallest error of prefix sums after n steps.

    The strategy is a single buffer with decay and scale λ, so that each error takes O(k) operations.

    Examples
    --------
    >>> found = optimal_damping(Participation(1024))
    >>> round(found.error, 9), round(1 - found.noise.damping, 6)
    (4.808522855, 0.956751)
    """
    who, _ = _checked(participation, objective)
    count = min(2, who.steps)
    weights = error_weights(who.steps, count, objective)

    def loss(logarithm: float) -> float:
        gap = np.array([math.exp(min(logarithm, 0.0))])
        square = buffered.squared_sensitivity(gap, 1 - gap, who).item()
        return math.log(square * noising_error(np.array([1.0, gap[0] - 1])[:count], weights)[0])

    return evaluated(AntiPGD(math.exp(_least(loss, math.log(1e-3 / who.steps), 0.0))), who, objective)


def banded_square_root(participation: Participation, *, bands: int, objective: Objective = "mean") -> OptimisedNoise:
    """The strategy with the first p coefficients of (1 − z)^{−1/2}; nothing is optimised.

    Examples
    --------
    >>> round(banded_square_root(Participation(1024), bands=32).error, 9)
    5.538868422
    """
    who, _ = _checked(participation, objective)
    return evaluated(BandedStrategyNoise(NuFTRL(0.0).inverse_coefficients(_bands(bands, who))), who, objective)


def banded_inverse_square_root(
    participation: Participation, *, bands: int, objective: Objective = "mean"
) -> OptimisedNoise:
    """The noise with the first p coefficients of (1 − z)^{1/2}; nothing is optimised.

    Examples
    --------
    >>> round(banded_inverse_square_root(Participation(1024), bands=16).error, 9)
    5.097234839
    """
    who, _ = _checked(participation, objective)
    return evaluated(FiniteNoise(NuFTRL(0.0).coefficients(_bands(bands, who))), who, objective)


def optimal_damped_root(
    participation: Participation, *, bands: int | None = None, objective: Objective = "mean"
) -> OptimisedNoise:
    """The noise with the first p coefficients of (1 − (1 − ν) z)^γ, 0 <= ν < 1 and 0 < γ <= 1, with the smallest error.

    Parameters
    ----------
    participation
        Length n of the run, and how often and how far apart an example takes part.
    bands
        p <= n; None for n.
    objective
        ``"mean"`` or ``"max"`` over the steps.

    Returns
    -------
    A record whose ``noise`` is ``FiniteNoise``, and ``ProductNoise`` for p = n.  The upper bound of the sensitivity
    times the root of the error is minimised, first over γ with ν = 0, and from there over both.

    Examples
    --------
    >>> round(optimal_damped_root(Participation(64), bands=4).error, 9)
    2.343636303
    """
    who, _ = _checked(participation, objective)
    count = who.steps if bands is None else _bands(bands, who)
    loss = _loss_of_roots(who, count, objective)
    gamma = _best_exponent(loss)
    nu = 0.0
    inside = min(max(gamma, 1e-9), 1 - 1e-9)
    start = np.array([math.log(inside / (1 - inside)), -math.log(who.steps)])
    found = minimize(
        lambda variables: loss(*_root_of(variables)),
        start,
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-14, "maxiter": 400},
    )
    if found.fun < loss(gamma, nu):
        gamma, nu = _root_of(found.x)
    root = ProductNoise([nu], [gamma])
    return evaluated(root if count == who.steps else FiniteNoise(root.coefficients(count)), who, objective)


def _loss_of_roots(who: Participation, count: int, objective: Objective) -> Callable[[float, float], float]:
    """The logarithm of the squared error of ``count`` coefficients of (1 − (1 − ν) z)^γ, as a function of γ and ν."""
    n = who.steps
    weights = error_weights(n, count, objective)

    def loss(gamma: float, nu: float) -> float:
        root = ProductNoise([nu], [gamma])
        noising = root.coefficients(count)
        strategy = root.inverse_coefficients(n) if count == n else divided(np.eye(1, n)[0], noising)
        bound = toeplitz_sensitivity(strategy, who).upper
        return 2 * math.log(bound) + math.log(noising_error(noising, weights)[0])

    return loss


def _best_exponent(loss: Callable[[float, float], float]) -> float:
    """The best γ for ν = 0."""
    return _least(lambda gamma: loss(gamma, 0.0), 0.0, 1.0)


def optimal_banded_inverse(
    participation: Participation, *, bands: int, objective: Objective = "mean"
) -> OptimisedNoise:
    """The noise with p coefficients that has the smallest error.

    Parameters
    ----------
    participation
        Length n of the run, and how often and how far apart an example takes part.
    bands
        p <= n.
    objective
        ``"mean"`` or ``"max"`` over the steps.

    Returns
    -------
    A record whose ``noise`` is ``FiniteNoise`` with β_0 = 1.  What is minimised is a proved upper bound of the
    sensitivity, times the root of the error.  The bound is the sensitivity where the strategy is non-negative and does
    not increase from index ``min_sep`` on; elsewhere the error that is stated is an upper bound too.  The search is
    local, from the best root with ν = 0.

    Examples
    --------
    >>> from corrnoise import Participation
    >>> round(optimal_banded_inverse(Participation(64), bands=4).error, 9)
    2.260023992
    """
    who, _ = _checked(participation, objective)
    count = _bands(bands, who)
    weights = error_weights(who.steps, count, objective)
    impulse = np.eye(1, who.steps)[0]

    def loss(tail: Array) -> tuple[float, Array]:
        noising = np.concatenate([[1.0], tail])
        strategy = divided(impulse, noising)
        if not np.isfinite(strategy).all():
            return _DIVERGED, np.zeros(tail.size)
        square, square_gradient = squared_sensitivity_bound(strategy, who)
        error, error_gradient = noising_error(noising, weights)
        if not math.isfinite(square):
            return _DIVERGED, np.zeros(tail.size)
        gradient = error_gradient / error + gradient_in_noising(square_gradient / square, noising, strategy)
        return math.log(square) + math.log(error), gradient[1:]

    gamma = _best_exponent(_loss_of_roots(who, count, objective))
    tail = ProductNoise([0.0], [gamma]).coefficients(count)[1:]
    for _ in range(_RESTARTS if count > 1 else 0):  # the bound has kinks, at which the search may stop early
        before, _ = loss(tail)
        with np.errstate(over="ignore", invalid="ignore"):
            tail = minimize(loss, tail, jac=True, method="BFGS", options={"gtol": _STATIONARY}).x
        if before - loss(tail)[0] < _STATIONARY:
            break
    return evaluated(FiniteNoise(np.concatenate([[1.0], tail])), who, objective)


# -- searches ----------------------------------------------------------------------------------------------------------


def _checked(participation: Participation, objective: Objective) -> tuple[Participation, Array]:
    """The participation, and the weights of all steps."""
    who = checks.instance("participation", participation, Participation)
    return who, error_weights(who.steps, who.steps, objective)


def _bands(bands: int, participation: Participation) -> int:
    count = checks.integer("bands", bands, 1)
    if count > participation.steps:
        raise ValueError(f"bands must be at most steps = {participation.steps}, got {count}")
    return count


def _least(loss: Callable[[float], float], low: float, high: float) -> float:
    """A minimum of ``loss`` in [low, high]: the best of a grid, refined between its neighbours."""
    grid = np.linspace(low, high, _STARTS)
    values = [loss(point) for point in grid.tolist()]
    best = int(np.argmin(values))
    ends = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _STARTS - 1)])
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return float(found.x) if found.fun < values[best] else float(grid[best])


def _root_of(variables: Array) -> tuple[float, float]:
    """γ and ν, from logit γ and log ν."""
    return 1 / (1 + math.exp(-float(np.clip(variables[0], -30, 30)))), math.exp(
        float(np.clip(variables[1], -600, -1e-6))
    )
