"""Noise for learning: the floor of a finite run, and the optima of a problem whose run has no end.

What privacy costs in learning is a quadratic form of the noise, tr(W N Nᵀ) (``theory.problems.learning_objective``), so
that every search for a finite run applies with W in place of AᵀA/n.  The floor is the certified optimum over all
strategies in fixed epochs, which are patterns of min-sep participation too: it holds for both.

Without an end the optimum is known: of a quadratic problem in closed form (``optimal_noise``), and of strongly convex
losses it is the noise with the least bound (``strongly_convex``).
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds, in_fixed_epochs
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.optimum import Certificate, Optimum
from corrnoise.solvers.rational.stand_in import rational
from corrnoise.solvers.strongly_convex.alternating_minimisation import minimise_strongly_convex_bound
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.objectives.base import REGULARISATION, Measure, Objective
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

STATIONARY, STRONGLY_CONVEX = "stationary optimum", "strongly convex bound"
TOLERANCE = 1e-6  #: of rational noise in place of noise with a long memory
_FLOOR_TOLERANCE = 1e-4  # relative gap at the end of the search for a lower bound


def regularised_floor(of: Objective, participation: Participation) -> tuple[float, Certificate]:
    """A lower bound of γ² tr(W N Nᵀ) for strategies of any form and at most 4096 steps, and its certificate.

    ε = 1e-12 tr(W)/n on the diagonal of W must not count.  With A for W and R = L Lᵀ the root mean squared error of the
    floor is |A L|_* over the root of the budget and of n, and ε adds at most sqrt(ε n) |L|_* to this nuclear norm.
    |L|_* <= sqrt(n tr R), and tr R is at most k times the budget.
    """
    epochs = in_fixed_epochs(participation)
    found = fixed_epochs_bounds(of, epochs, tolerance=_FLOOR_TOLERANCE)
    added = math.sqrt(REGULARISATION * epochs.worst.count * float(np.trace(of.form)))
    return max(0.0, found.lower_bound - added) ** 2, found


def endless_optimum(
    problem: QuadraticProblem | StronglyConvex,
    participation: Participation,
    *,
    budget: Budget = UNIT_BUDGET,
    family: str | list[str] | None = None,
) -> Optimum:
    """The best noise of few poles for a problem in a run of any length.

    It depends on the budget where strongly convex losses have gradients with noise of their own.
    """
    name = STRONGLY_CONVEX if isinstance(problem, StronglyConvex) else STATIONARY
    if family not in (None, name, [name]):
        raise ValueError(f"family must be None or {name!r} for {problem!r:.80} in a run without end, got {family!r}")
    if isinstance(problem, StronglyConvex):
        noise: ToeplitzNoise = minimise_strongly_convex_bound(problem, budget=budget, criterion="objective").noise
    else:
        noise = optimal_noise(problem)
    return judged_endless(problem, rational(noise, TOLERANCE), name, participation, budget)


def judged_endless(
    problem: QuadraticProblem | StronglyConvex,
    noise: ToeplitzNoise,
    family: str,
    participation: Participation,
    budget: Budget,
) -> Optimum:
    """The stationary error of any noise, with the floor of a quadratic problem; a bound for strongly convex losses."""
    if isinstance(problem, StronglyConvex):
        who, floor = participation, None
        error = strongly_convex_certificate(problem, noise, budget=budget, criterion="objective").value
        known = "the error is a proved upper bound, for which no floor is known"
    else:
        who, floor, error = ANY_LENGTH, problem.optimal_error(), problem.stationary_error(noise)
        known = "the floor is a closed form, the inequality of Cauchy and Schwarz, computed in float64"
    measure: Measure = "stationary excess loss"
    return Optimum(noise, who, family, noise.bracket(who), error, measure=measure, lower_bound=floor, certificate=known)
