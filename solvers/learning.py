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
from corrnoise.solvers.objectives import REGULARISATION, workload_of_weights
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.optimum import Certificate, Optimum
from corrnoise.solvers.rational.stand_in import rational
from corrnoise.solvers.strongly_convex.alternating_minimisation import minimise_strongly_convex_bound
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

STATIONARY, STRONGLY_CONVEX = "stationary optimum", "strongly convex bound"
TOLERANCE = 1e-6  #: of rational noise in place of noise with a long memory
_FLOOR_TOLERANCE = 1e-4  # relative gap at which the search for a floor ends


def learning_floor(of: LearningObjective, participation: Participation) -> tuple[float, Certificate]:
    """A lower bound of γ² tr(W N Nᵀ) for strategies of any form and at most 4096 steps, and its certificate."""
    epochs = in_fixed_epochs(participation)
    found = fixed_epochs_bounds(workload_of_weights(of.weight_matrix()), epochs, tolerance=_FLOOR_TOLERANCE)
    return max(0.0, found.lower_bound - _of_regularisation(of, epochs)) ** 2, found


def _of_regularisation(of: LearningObjective, who: Participation) -> float:
    """By how much the root mean squared error of the floor may fall without ε = 1e-12 tr(W)/n on the diagonal of W.

    With A for W and R = L Lᵀ the floor is |A L|_* over the root of the budget and of n, and ε adds at most
    sqrt(ε n) |L|_* to this nuclear norm.  |L|_* <= sqrt(n tr R), and tr R is at most k times the budget.
    """
    return math.sqrt(REGULARISATION * who.count * float(np.trace(of.weight_matrix())))


def stationary_optimum(problem: QuadraticProblem) -> Optimum:
    """The noise with the smallest stationary error, by few poles, for a run of any length with single participation."""
    return judged_stationary(problem, rational(optimal_noise(problem), TOLERANCE), STATIONARY)


def judged_stationary(problem: QuadraticProblem, noise: ToeplitzNoise, family: str) -> Optimum:
    """The stationary error of any noise for a run of any length, with the floor of the problem."""
    return Optimum(
        noise,
        ANY_LENGTH,
        family,
        noise.bracket(ANY_LENGTH),
        problem.stationary_error(noise),
        measure="stationary excess loss",
        floor=problem.optimal_error(),
        certificate="the floor is a closed form, the inequality of Cauchy and Schwarz, computed in float64",
    )


def strongly_convex_optimum(
    problem: StronglyConvex, participation: Participation | None, *, budget: Budget = UNIT_BUDGET
) -> Optimum:
    """The noise with the least bound of the stationary error for strongly convex losses, by few poles.

    The bound is for an endless run, whatever the participation; None stands for any length.  The noise depends on the
    budget where the gradients have noise of their own.
    """
    who = ANY_LENGTH if participation is None else checks.instance("participation", participation, Participation)
    found = minimise_strongly_convex_bound(problem, budget=budget, criterion="objective")
    return judged_by_bound(problem, rational(found.noise, TOLERANCE), STRONGLY_CONVEX, who, budget)


def judged_by_bound(
    problem: StronglyConvex, noise: ToeplitzNoise, family: str, participation: Participation, budget: Budget
) -> Optimum:
    """The bound of the stationary error of any noise for strongly convex losses."""
    return Optimum(
        noise,
        participation,
        family,
        noise.bracket(participation),
        strongly_convex_certificate(problem, noise, budget=budget, criterion="objective").value,
        measure="stationary excess loss",
        certificate="the error is a proved upper bound, for which no floor is known",
    )
