"""Tuning by exact formulas: the best noise of a family, and the best learning rate of a run.

The stationary error (formula E1 of ``theory.problems.quadratic``) depends on the noise through γ_∞² Σ_j g_j b(x_j)
only.  ``stationary_nu`` minimises this over ν-DP-FTRL, ``stationary_damping`` over anti-PGD, and
``corrnoise.solvers.optimal_noise`` over all noise.  (For strongly convex losses ``stationary_nu`` minimises the bound.)
``best_learning_rate`` minimises the exact expected error after a given number of steps (formula E2).  The noise may be
tuned at each learning rate, with ``optimal_noise`` or with ``lambda p: NuFTRL(stationary_nu(p))``.  The result
depends on the problem only, not on any data, so tuning in this way uses no privacy budget.

For long runs in many dimensions the search uses shorter sums: eigenvalues between two powers of 2 are replaced by a
Gauss rule of 12 nodes with weights, and noise with many factors by noise with few poles.  The error that is returned is
exact.

Source: Choquette-Choo et al., arXiv 2310.06771: Theorem 2.2 (ν-DP-FTRL), Proposition C.24 (anti-PGD), Theorem D.13
(finite time).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import special

from corrnoise.solvers.grid_minimum import smallest_minimum
from corrnoise.solvers.optimal_noise import check_stable, optimal_noise
from corrnoise.solvers.rational.stand_in import rational
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.support.kernels import kernel
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.sensitivity import toeplitz_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.discrete_measures import condensed
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.participation import ANY_LENGTH, Participation, Reshuffled
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.quadratic import QuadraticProblem, checked_quadratic
from corrnoise.theory.problems.strongly_convex import Criterion, StronglyConvex

_GRID_SPACING = 0.5  # of the first grid, on a logarithmic scale
_FINAL_WIDTH = 1e-9  # of the interval that is left around a minimum at the end
_BOUND_SPACING = 2.0  # as _GRID_SPACING, for bounds
_BOUND_WIDTH = 1e-2  # as _FINAL_WIDTH, for bounds
_MAX_LOGIT = 6.0  # logit of the largest share of the stability limit that is tried
_MIN_DECREASE = 1e-12  # smallest relative decrease of the error that is not rounding
LONG_WORK = 1e6  # steps × dimension above which the search uses shorter sums
_FEW_FACTORS = 40  # noise with more factors is replaced by noise with poles
_SUM_TOLERANCE = 1e-12  # of that replacement
_SENSITIVITY_BUDGET = Budget(0.5)  # a draw has the variance γ²


def _at(problem: QuadraticProblem, learning_rate: float) -> QuadraticProblem:
    """The same problem at another learning rate."""
    return type(problem)(**{**problem.arguments(), "learning_rate": learning_rate})


# -- noise -------------------------------------------------------------------------------------------------------------


@usual_float_errors
def stationary_nu(
    problem: QuadraticProblem | StronglyConvex,
    *,
    budget: Budget = UNIT_BUDGET,
    participation: Participation = ANY_LENGTH,
    criterion: Criterion = "distance",
) -> float:
    """The ν in (0, 2) that gives ν-DP-FTRL the smallest stationary error, or the smallest bound of it.

    It lies between the smallest and the largest rate x = η λ.  A logarithmic grid is searched first, so the function
    may have several minima.  Relative accuracy (error, ν): quadratic problems 1e-12 and 1e-6; bounds about 1e-4 and
    1e-2. Usually ν is larger than the ν <= η μ that Theorem 2.2 assumes: 4.2 times for 128 eigenvalues 1/k and η =
    0.02.

    Parameters
    ----------
    problem : QuadraticProblem or StronglyConvex
        ``MeanEstimation`` or ``LinearRegression``; or ``StronglyConvex``, for ``strongly_convex_certificate``.  The
        learning rate must be stable.
    budget : Budget, optional
        ρ, clip norm G and adjacency.  The optimum of a quadratic problem does not depend on them or on the residual
        variance.  The optimum of a bound depends on them if there is gradient noise.
    participation : Participation, optional
        The run whose γ sets the variance of the noise; by default any length, γ_∞, which is the only one for bounds.
    criterion : {"distance", "objective"}, default "distance"
        Criterion of the bound, ``"distance"`` or ``"objective"``.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the learning rate is unstable: every noise has an infinite error.
    """
    if isinstance(problem, StronglyConvex):
        if participation != ANY_LENGTH:
            raise ValueError(f"participation must be for any length for strongly convex losses, got {participation!r}")
        if not problem.stable:
            raise ValueError(
                f"learning_rate must lie in (0, {2 / problem.smoothness!r}), got {problem.learning_rate!r}"
            )

        def bound(noise: NuFTRL) -> float:
            return strongly_convex_certificate(problem, noise, budget=budget, criterion=criterion).value

        return _best_nu(bound, problem.rates, _BOUND_SPACING, _BOUND_WIDTH)
    check_stable(checked_quadratic(problem))
    rates = problem.rates
    gains = problem.gains

    def scatter(noise: NuFTRL) -> float:
        return noise.variance(_SENSITIVITY_BUDGET, participation) * float(
            (noise.averaged_variance(rates) * gains).sum()
        )

    return _best_nu(scatter, (float(rates.min()), float(rates.max())), _GRID_SPACING, _FINAL_WIDTH)


def _best_nu(error: Callable[[NuFTRL], float], rates: tuple[float, float], spacing: float, width: float) -> float:
    """The best ν between two rates: for a single rate x, γ_∞² b(x) decreases up to ν = x and then increases."""
    low, high = rates
    if low == high:
        return low

    def at(place: float) -> float:
        return error(NuFTRL(2 * float(special.expit(place))))

    first, last = (math.log(rate) - math.log(2 - rate) for rate in (low, high))
    places = np.linspace(first, last, 2 + math.ceil((last - first) / spacing))
    place, _ = smallest_minimum(at, places, np.array([at(place) for place in places]), width)
    return min(max(2 * float(special.expit(place)), low), high)


@usual_float_errors
def stationary_noise(problem: QuadraticProblem, *, participation: Participation = ANY_LENGTH) -> ToeplitzNoise:
    """Noise with a small stationary error for a participation, whatever the budget.

    For any length this is ``optimal_noise``, which nothing beats.  For a number of steps it is the better of
    ``optimal_noise`` and ν-DP-FTRL at its ``stationary_nu`` for them.

    Parameters
    ----------
    problem : QuadraticProblem
        ``MeanEstimation`` or ``LinearRegression`` with a stable learning rate.
    participation : Participation, optional
        The run whose γ sets the variance of the noise; by default any length, γ_∞.

    Returns
    -------
    ToeplitzNoise
    """
    optimal = optimal_noise(problem)
    if participation == ANY_LENGTH:
        return optimal
    candidates = (optimal, NuFTRL(stationary_nu(problem, participation=participation)))
    return min(candidates, key=lambda noise: problem.stationary_error(noise, participation=participation))


@usual_float_errors
def stationary_damping(problem: QuadraticProblem) -> float:
    """The damping in (0, 2) that gives anti-PGD the smallest stationary error.

    It is 2/(1 + sqrt(2 D/S − 1)) with D = Σ g_j and S = Σ g_j x_j, which is about sqrt(2 S/D) if that is small.  The
    formula is exact: at damping a, γ_∞² Σ g_j b_j = (D a² + 2 (1 − a) S)/(a (2 − a)).

    Proposition C.24 of arXiv 2310.06771 takes 1/sqrt(d) for η of about 1/Tr H.

    Parameters
    ----------
    problem : QuadraticProblem
        The problem, with its learning rate.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the learning rate is unstable: every noise has an infinite error.
    """
    check_stable(checked_quadratic(problem))
    gains = problem.gains
    return 2 / (1 + math.sqrt(2 * float(gains.sum()) / float((gains * problem.rates).sum()) - 1))


# -- learning rates ----------------------------------------------------------------------------------------------------


def stability_limit(problem: QuadraticProblem) -> float:
    """The largest learning rate, a float, such that the second moments of the iterates converge.

    It is at least 2/R² with R² = ``problem.moment_bound``, with equality if all eigenvalues are equal.  The learning
    rate of ``problem`` is only the start of the search.
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


@usual_float_errors
def best_learning_rate(
    problem: QuadraticProblem,
    participation: Participation,
    noise: ToeplitzNoise | Callable[[QuadraticProblem], ToeplitzNoise],
    *,
    initial_offset: ArrayLike,
    budget: Budget = UNIT_BUDGET,
) -> TunedRun:
    """The learning rate with the smallest expected error at the end of a run.

    Parameters
    ----------
    problem : QuadraticProblem
        ``MeanEstimation`` or ``LinearRegression``; its own learning rate is not used.
    participation : Participation
        The run of T steps, and the participations of one example; its γ sets the variance of the noise.
    noise : ToeplitzNoise or callable
        Correlated noise, or a function that returns it for the problem at a stable learning rate.
    initial_offset : array_like
        θ_0 − θ* in the eigenbasis, a scalar or shape (d,), not all 0.  For a run that starts at the minimum the best
        learning rate would be 0.
    budget : Budget, optional
        ρ, clip norm G and adjacency.

    Returns
    -------
    TunedRun
        ``TunedRun``.  Its error is exact for its learning rate, and exceeds the minimum by a relative 1e-9 at most.
        The relative accuracy of the learning rate is about 1e-5.

        Learning rates are searched on a logarithmic grid first, about sixty of them, from 0.9975 of the stability limit
        downwards.  The mean of the iterates implies E F(θ_T) − F* >= (1 − 2 T η λ_max) (F(θ_0) − F*).  The grid ends
        where this excludes all smaller learning rates.

    Raises
    ------
    ValueError
        If ``initial_offset`` is 0, or so small that no learning rate decreases the error by more than rounding.
    """
    checked_quadratic(problem)
    steps = checks.instance("participation", participation, Participation).length
    if not isinstance(noise, ToeplitzNoise) and not callable(noise):
        raise TypeError(f"noise must be correlated noise or a function from problems to it, got {noise!r}")
    offset = checks.reals("initial_offset", initial_offset)
    if not offset.any():
        raise ValueError(f"initial_offset must not be 0 (learning rate 0 would be optimal), got {initial_offset!r}")

    def noise_at(tuned: QuadraticProblem) -> ToeplitzNoise:
        return noise if isinstance(noise, ToeplitzNoise) else noise(tuned)

    def exact(tuned: QuadraticProblem, made: ToeplitzNoise) -> float:
        curve = tuned.learning_curve(made, steps, budget=budget, participation=participation, initial_offset=offset)
        return float(curve[-1])

    shortens = ShortenedProblem.applies(problem, steps, offset)
    shortened = ShortenedProblem(problem, participation, offset, budget) if shortens else None
    limit = stability_limit(problem)

    def learning_rate(place: float) -> float:
        return limit * float(special.expit(place))

    def error(place: float) -> float:
        tuned = _at(problem, learning_rate(place))
        return shortened.error(tuned, noise_at(tuned)) if shortened else exact(tuned, noise_at(tuned))

    start = float(problem.learning_curve(DPSGD(), 0, initial_offset=offset)[0])
    slope = 2 * steps * float(problem.eigenvalues.max())
    places = [_MAX_LOGIT]
    values = [error(_MAX_LOGIT)]
    while learning_rate(places[-1]) * slope > max(1 - min(values) / start, _MIN_DECREASE):
        places.append(places[-1] - _GRID_SPACING)
        values.append(error(places[-1]))
    if min(values) > (1 - _MIN_DECREASE) * start:
        raise ValueError(
            f"initial_offset must be larger: against this noise no learning rate improves on F(θ_0) − F* = {start!r}"
        )
    place, least = smallest_minimum(error, np.array(places[::-1]), np.array(values[::-1]), _FINAL_WIDTH)
    best = _at(problem, learning_rate(place))
    found = noise_at(best)
    return TunedRun(learning_rate=best.learning_rate, error=exact(best, found) if shortened else least, noise=found)


# -- long runs in many dimensions --------------------------------------------------------------------------------------


@kernel
def _final_error(rates, weights, kurtosis, coefficients, batch_size, step_noise, residual, initial):  # type: ignore[no-untyped-def]
    """½ Σ_j w_j v_j after all steps of formula E2, where the rate x_j has the multiplicity w_j."""
    d = rates.size
    v = initial.copy()
    average = np.zeros(d)
    squares = np.zeros(d)
    for beta in coefficients:
        total = 0.0
        for j in range(d):
            total += weights[j] * v[j]
        if not total < 1e300:
            return np.inf
        for j in range(d):
            x = rates[j]
            average[j] += beta - x * average[j]
            squares[j] += average[j] * average[j]
            variance = x * (2 - x) * squares[j] + (1 - x) ** 2 * average[j] * average[j]
            spread = x * (total + residual) / batch_size
            v[j] += x * (spread - (2 - (1 + (kurtosis - 2) / batch_size) * x) * v[j] + step_noise * variance)
    total = 0.0
    for j in range(d):
        total += weights[j] * v[j]
    return total / 2


@kernel
def _cascade_series(zeros, poles, series):  # type: ignore[no-untyped-def]
    """Fill ``series`` with the coefficients of Π (1 − (1 − a_i) z)/(1 − (1 − q_i) z), in float64."""
    states = np.zeros(poles.size)
    for t in range(series.size):
        value = 1.0 if t == 0 else 0.0
        for i in range(poles.size):
            before = value
            value += (zeros[i] - poles[i]) * states[i]
            states[i] += before - poles[i] * states[i]
        series[t] = value


class ShortenedProblem:
    """The error after T steps by shorter sums, for a search over learning rates."""

    def __init__(self, problem: QuadraticProblem, participation: Participation, offset: Array, budget: Budget) -> None:
        eigenvalues, counts = np.unique(problem.eigenvalues, return_counts=True)
        self.eigenvalues, self.weights = condensed(eigenvalues, counts.astype(np.float64))
        self.participation = participation
        self.initial = self.eigenvalues * float(offset) ** 2
        self.unit = budget.unit_variance

    @staticmethod
    def applies(problem: QuadraticProblem, steps: int, offset: Array) -> bool:
        """Whether the sums are long, and the eigendirections differ in their eigenvalues only."""
        return steps * problem.eigenvalues.size > LONG_WORK and offset.ndim == 0 and np.ndim(problem.kurtosis) == 0

    def error(self, tuned: QuadraticProblem, noise: ToeplitzNoise) -> float:
        """½ Σ v_j after T steps on ``tuned`` with ``noise``, with a relative error of about 1e-10."""
        coefficients, sensitivity = self.series_of(noise)
        if not math.isfinite(sensitivity):
            return math.inf
        return float(
            _final_error(
                tuned.learning_rate * self.eigenvalues,
                self.weights,
                float(tuned.kurtosis),
                coefficients,
                float(tuned.batch_size),
                tuned.learning_rate * self.unit * sensitivity**2 / tuned.batch_size**2,
                tuned.residual_std**2,
                self.initial,
            )
        )

    def series_of(self, noise: ToeplitzNoise) -> tuple[Array, float]:
        """β_0, …, β_{T−1} and the sensitivity, with relative errors of about 1e-10."""
        steps = self.participation.length
        if isinstance(noise, ProductNoise) and noise.gaps.size > _FEW_FACTORS:
            with suppress(ValueError):  # noise without an approximation is used unchanged
                poles = rational(noise, _SUM_TOLERANCE)
                if isinstance(poles, ProductNoise):
                    series = np.empty((2, steps))
                    sections = poles.sections()
                    _cascade_series(*sections, series[0])
                    _cascade_series(*sections[::-1], series[1])
                    worst = self.participation.worst
                    if isinstance(worst, Reshuffled):
                        return series[0], poles.sensitivity_upper_bound(worst)
                    return series[0], toeplitz_sensitivity(series[1], worst).upper
        return noise.coefficients(steps), math.sqrt(noise.variance(_SENSITIVITY_BUDGET, self.participation))
