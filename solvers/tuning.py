"""Tuning by exact formulas: the best noise of a family, and the best learning rate of a run.

What of the stationary error (formula E1 of ``corrnoise.theory.problems``) depends on the noise is γ_∞² Σ_j g_j b(x_j).
``best_nu`` minimises it over ν-DP-FTRL, ``best_damping`` over anti-PGD; ``corrnoise.solvers.optimal_noise`` over all
noise.  (For strongly convex losses ``best_nu`` minimises the bound.)  ``best_learning_rate`` minimises the exact
expected error after a given number of steps (formula E2), with noise that may be tuned anew at each learning rate:

    best_learning_rate(problem, 1000, optimal_noise, initial_offset=1.0)
    best_learning_rate(problem, 1000, lambda p: NuFTRL(best_nu(p)), initial_offset=1.0)

The result depends on the problem only, not on any data: tuning in this way costs no privacy.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Theorem 2.2 (ν-DP-FTRL), Proposition C.24 (anti-PGD), Theorem D.13 (finite
time).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from scipy.optimize import minimize_scalar

from corrnoise.solvers.optimal_noise import check_stable
from corrnoise.solvers.strongly_convex_bound import strongly_convex_bound
from corrnoise.theory import checks
from corrnoise.theory.checks import Array, ArrayLike
from corrnoise.theory.problems import QuadraticProblem, checked_quadratic
from corrnoise.theory.product_noise import NuFTRL
from corrnoise.theory.strongly_convex import StronglyConvex
from corrnoise.theory.toeplitz_noise import ToeplitzNoise, unit_variance

_SPACING, _BOUND_SPACING = 0.5, 2.0  # of a first grid, on a logarithmic scale
_WIDTH, _BOUND_WIDTH = 1e-9, 1e-2  # of what is left around a minimum in the end
_PROMISING = 3.0  # a grid point is no further above the minimum beside it
_CLOSE = 6.0  # logit of the largest share of the stability limit that is tried
_GAIN = 1e-12  # relative, of the error: what is more than rounding


def _at(problem: QuadraticProblem, learning_rate: float) -> QuadraticProblem:
    """The same problem at another learning rate."""
    return type(problem)(**{**problem.arguments(), "learning_rate": learning_rate})


def _refined(
    function: Callable[[float], float], points: Array, values: Array, width: float = _WIDTH
) -> tuple[float, float]:
    """The smallest minimum of ``function``, whose ``values`` at ascending ``points`` are known, and where it is.

    Each promising local minimum of the values is followed to the bottom.
    """
    best = int(np.argmin(values))
    where, least = float(points[best]), float(values[best])
    padded = np.concatenate([[math.inf], values, [math.inf]])
    promising = (values <= padded[:-2]) & (values <= padded[2:]) & (values <= _PROMISING * least)
    for k in np.flatnonzero(promising).tolist():
        bounds = points[max(k - 1, 0)], points[min(k + 1, points.size - 1)]
        found = minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": width})
        if found.fun < least:
            where, least = float(found.x), float(found.fun)
    return where, least


# -- noise -------------------------------------------------------------------------------------------------------------


def best_nu(
    problem: QuadraticProblem | StronglyConvex,
    *,
    rho: float = 1.0,
    clip_norm: float = 1.0,
    criterion: str = "distance",
) -> float:
    """The ν in (0, 2) with which ν-DP-FTRL has the smallest stationary error, or the smallest bound of it.

    Parameters
    ----------
    problem
        ``MeanEstimation`` or ``LinearRegression``; or ``StronglyConvex``, for ``strongly_convex_bound``.  With a stable
        learning rate.
    rho, clip_norm
        Budget and clip norm.  They do not move the optimum of a quadratic problem, and neither does the residual
        variance; that of a bound they do beside gradient noise.
    criterion
        Of the bound.

    Returns
    -------
    ν between the smallest and the largest rate x = η λ.  It is searched on a logarithmic grid first, so several minima
    do no harm.  Of quadratic problems the error at it is within 1e-12 of the smallest, relatively, and ν itself within
    about 1e-6; of bounds within about 1e-4 and 1e-2.  Usually ν is larger than the ν <= η μ that Theorem 2.2 assumes:
    4.2 times for 128 eigenvalues 1/k and η = 0.02.

    Raises
    ------
    ValueError
        The learning rate is unstable: every noise has an infinite error.
    """
    if isinstance(problem, StronglyConvex):
        if not problem.stable:
            raise ValueError(
                f"learning_rate must lie in (0, {2 / problem.smoothness!r}), got {problem.learning_rate!r}"
            )
        budget: dict[str, Any] = {"rho": rho, "clip_norm": clip_norm, "criterion": criterion}
        return _best_nu(
            lambda noise: strongly_convex_bound(problem, noise, **budget), problem.rates, _BOUND_SPACING, _BOUND_WIDTH
        )
    check_stable(checked_quadratic(problem))
    unit_variance(rho, clip_norm)  # checks them
    rates, gains = problem.rates, problem.gains

    def scatter(noise: NuFTRL) -> float:
        return noise.limiting_sensitivity() ** 2 * float((noise.averaged_variance(rates) * gains).sum())

    return _best_nu(scatter, (float(rates.min()), float(rates.max())), _SPACING, _WIDTH)


def _best_nu(error: Callable[[NuFTRL], float], rates: tuple[float, float], spacing: float, width: float) -> float:
    """The best ν between two rates.

    For one rate x alone γ_∞² b(x) falls up to ν = x and then rises: nothing is to be found outside the rates.
    """
    low, high = rates
    if low == high:
        return low

    def at(place: float) -> float:
        return error(NuFTRL(2 * float(special.expit(place))))

    first, last = (math.log(rate) - math.log(2 - rate) for rate in (low, high))
    places = np.linspace(first, last, 2 + math.ceil((last - first) / spacing))
    place, _ = _refined(at, places, np.array([at(place) for place in places]), width)
    return min(max(2 * float(special.expit(place)), low), high)


def best_damping(problem: QuadraticProblem) -> float:
    """The damping in (0, 2) with which anti-PGD has the smallest stationary error.

    2/(1 + sqrt(2 D/S − 1)) with D = Σ g_j and S = Σ g_j x_j, about sqrt(2 S/D) where that is small.  It is exact: at
    damping a one has γ_∞² Σ g_j b_j = (D a² + 2 (1 − a) S)/(a (2 − a)).

    Raises
    ------
    ValueError
        The learning rate is unstable: every noise has an infinite error.

    Notes
    -----
    Proposition C.24 of arXiv 2310.06771 takes 1/sqrt(d) for η of about 1/Tr H.
    """
    check_stable(checked_quadratic(problem))
    gains = problem.gains
    return 2 / (1 + math.sqrt(2 * float(gains.sum()) / float((gains * problem.rates).sum()) - 1))


# -- learning rates ----------------------------------------------------------------------------------------------------


def stability_limit(problem: QuadraticProblem) -> float:
    """The largest learning rate, a float, with which the second moments of the iterates converge.

    At least 2/R² with R² = ``problem.moment_bound``, and equal to it if all eigenvalues are equal.  The problem's own
    learning rate is only where the search starts.
    """
    checked_quadratic(problem)

    def stable(learning_rate: float) -> bool:
        return _at(problem, learning_rate).instability() < 1

    low = problem.learning_rate
    while not stable(low):
        low /= 2
    while stable(2 * low):
        low *= 2
    high = 2 * low
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class TunedRun:
    """The best learning rate of a run, the noise for it, and the expected error E F(θ_T) − F* at its end."""

    learning_rate: float
    error: float
    noise: ToeplitzNoise


def best_learning_rate(
    problem: QuadraticProblem,
    steps: int,
    noise: ToeplitzNoise | Callable[[QuadraticProblem], ToeplitzNoise],
    *,
    initial_offset: ArrayLike,
    rho: float = 1.0,
    clip_norm: float = 1.0,
) -> TunedRun:
    """The learning rate with the smallest expected error after a given number of steps.

    Parameters
    ----------
    problem
        ``MeanEstimation`` or ``LinearRegression``; its own learning rate plays no role.
    steps
        T >= 1, the length of the run, whose γ_T sets the variance of the noise.
    noise
        Correlated noise, or a function that returns it for the problem at a stable learning rate.
    initial_offset
        θ_0 − θ* in the eigenbasis, a scalar or shape (d,), not all 0: a run that starts at the minimum had better not
        move.
    rho, clip_norm
        Budget and clip norm.

    Returns
    -------
    ``TunedRun``.  Learning rates are searched on a logarithmic grid first, from 0.9975 of the stability limit down to
    where E F(θ_T) − F* >= (1 − 2 T η λ_max) (F(θ_0) − F*), which the mean of the iterates alone implies, excludes the
    rest.  The error is within 1e-9 of the minimum, relatively, and the learning rate within about 1e-5.  Some hundred
    learning curves are computed.

    Raises
    ------
    ValueError
        ``initial_offset`` is 0, or so small that no step is better than rounding.
    """
    checked_quadratic(problem)
    steps = checks.integer("steps", steps, 1)
    if not isinstance(noise, ToeplitzNoise) and not callable(noise):
        raise TypeError(f"noise must be correlated noise or a function from problems to it, got {noise!r}")
    offset = checks.reals("initial_offset", initial_offset)
    if not offset.any():
        raise ValueError(f"initial_offset must not be 0 (learning rate 0 would be optimal), got {initial_offset!r}")

    def noise_at(tuned: QuadraticProblem) -> ToeplitzNoise:
        return noise if isinstance(noise, ToeplitzNoise) else noise(tuned)

    def curve(tuned: QuadraticProblem, length: int) -> Array:
        return tuned.learning_curve(
            noise_at(tuned), length, horizon=steps, rho=rho, clip_norm=clip_norm, initial_offset=offset
        )

    limit = stability_limit(problem)

    def learning_rate(place: float) -> float:
        return limit * float(special.expit(place))

    def error(place: float) -> float:
        return float(curve(_at(problem, learning_rate(place)), steps)[-1])

    start = float(curve(_at(problem, limit / 2), 0)[0])
    slope = 2 * steps * float(problem.eigenvalues.max())
    places, values = [_CLOSE], [error(_CLOSE)]
    while learning_rate(places[-1]) * slope > max(1 - min(values) / start, _GAIN):
        places.append(places[-1] - _SPACING)
        values.append(error(places[-1]))
    if min(values) > (1 - _GAIN) * start:
        raise ValueError(
            f"initial_offset must be larger: against this noise no learning rate improves on F(θ_0) − F* = {start!r}"
        )
    place, least = _refined(error, np.array(places[::-1]), np.array(values[::-1]))
    rate = learning_rate(place)
    return TunedRun(learning_rate=rate, error=least, noise=noise_at(_at(problem, rate)))
