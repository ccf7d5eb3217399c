"""The noise that is exactly optimal for a quadratic problem.

The noise with the smallest stationary error has |B|² = h̃^{−1/2} up to a factor (E3 of docs/exact-errors.md), with

    h̃(ω) = Σ_j λ_j (2 − x_j) g_j/|1 − x_j − e^{iω}|².

It does not depend on residual variance, budget and clip norm.  In terms of t = tan²(ω/2) the spectrum h̃/(1 + t) is a
sum of poles with positive weights at t = −(x_j/(2 − x_j))².  So h̃ has a zero between any two neighbouring poles.  With
the gaps a_k of these zeros and the distinct rates x_1 < a_1 < x_2 < … < x_d,

    B(z) = Π_j (1 − (1 − x_j) z)^{1/2} Π_k (1 − (1 − a_k) z)^{−1/2}.

If no rate exceeds 1, then 1/B is a mixture of poles in [0, 1) with positive weights.  Its coefficients are log-convex,
so β_t < 0 for all t >= 1: the noise of one step is subtracted in parts in all later steps.  For a single rate x this is
ν-DP-FTRL with ν = x.

Sources: Choquette-Choo et al., arXiv 2310.06771: Theorem 2.1 (mean estimation); Theorem C.18 minimises a lower bound in
the same way, with 1 in place of (2 − x_j) g_j; T. Kaluza, Über die Koeffizienten reziproker Potenzreihen, 1928 (signs
of the reciprocal of a log-convex series).
"""

from __future__ import annotations

import numpy as np

from corrnoise.theory.mechanisms.pole_sums import interlacing_zeros
from corrnoise.theory.mechanisms.product import NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.discrete_measures import condensed
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.quadratic import QuadraticProblem

MAX_RATES = 500


@usual_float_errors
def optimal_noise(problem: object, *, budget: Budget = UNIT_BUDGET) -> ToeplitzNoise:
    """The noise with the smallest stationary error.

    For a quadratic problem with d distinct rates x = η λ, it is ``NuFTRL`` if d = 1 and otherwise ``ProductNoise`` with
    2d − 1 factors.  The gaps have relative errors of about 1e-15, and the stationary error is ``problem.optimal_error``
    to rounding.  If there are more than 500 distinct rates, the rates between two powers of 2 are replaced by 12 rates
    with weights that give the same h̃ to rounding.

    Parameters
    ----------
    problem : object
        ``MeanEstimation`` or ``LinearRegression`` with a stable learning rate; or ``StronglyConvex``.  The error of
        the latter is only bounded, so the result is the noise of ``minimise_strongly_convex_bound``.
    budget : Budget, optional
        ρ, clip norm G and adjacency.  The optimum of a quadratic problem does not depend on them.

    Returns
    -------
    ToeplitzNoise

    Raises
    ------
    ValueError
        If the learning rate is unstable: every noise has an infinite error.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.papers.correlated_noise.optimal_noise(cn.MeanEstimation(0.1))
    NuFTRL(nu=0.1)
    >>> problem = cn.LinearRegression([1.0, 0.1], learning_rate=0.1)
    >>> round(problem.stationary_error(cn.papers.correlated_noise.optimal_noise(problem)) / problem.optimal_error(), 9)
    1.0
    """
    if isinstance(problem, QuadraticProblem):
        return _quadratic_optimum(problem)

    from corrnoise.theory.problems.strongly_convex import StronglyConvex

    if isinstance(problem, StronglyConvex):
        from corrnoise.solvers.strongly_convex.alternating_minimisation import minimise_strongly_convex_bound

        return minimise_strongly_convex_bound(problem, budget=budget).noise
    raise TypeError(f"problem must be MeanEstimation, LinearRegression or StronglyConvex, got {problem!r}")


def check_stable(problem: QuadraticProblem) -> None:
    """Raise ``ValueError`` for a problem where every noise has an infinite error."""
    if not problem.instability() < 1:
        raise ValueError(
            f"learning_rate must be stable, problem.instability() < 1, got {problem.learning_rate!r} with instability "
            f"{problem.instability()!r}: every noise has an infinite error"
        )


def _quadratic_optimum(problem: QuadraticProblem) -> ProductNoise:
    check_stable(problem)
    rates, weights = _merged(problem.rates, problem.rates * (2 - problem.rates) * problem.gains)
    if rates.size == 1:
        return NuFTRL(float(rates[0]))
    if rates.size > MAX_RATES:
        # h̃ = Σ weights/|1 − x − e^{iω}|² is Σ weights/(2 − x)²/(s² cos²(ω/2) + sin²(ω/2)) with s = x/(2 − x).
        s, weights = _merged(*condensed(rates / (2 - rates), weights / (2 - rates) ** 2))
        rates = 2 * s / (1 + s)
        weights = weights * (2 / (1 + s)) ** 2
    zeros = interlacing_zeros(rates, weights, symmetric=True)
    exponents = np.concatenate([np.full(rates.size, 0.5), np.full(zeros.size, -0.5)])
    return ProductNoise(np.concatenate([rates, zeros]), exponents)


def _merged(rates: Array, weights: Array) -> tuple[Array, Array]:
    """The distinct rates, ascending, with the sums of their weights."""
    distinct, place = np.unique(rates, return_inverse=True)
    return distinct, np.bincount(place, weights=weights).astype(np.float64)
