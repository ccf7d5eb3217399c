"""All numbers of an optimum, computed again from its mechanisms, participations, objective and budget."""

from __future__ import annotations

from dataclasses import replace

from corrnoise.solvers.certified.floor import is_quick
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.learning import judged_endless
from corrnoise.solvers.optimum import Certificate, Optimum
from corrnoise.solvers.sampled import NO_FLOOR
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.objectives.base import Minimisable, Objective
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

SLOW_FLOOR = "it takes long for this run, and files do not hold it; design.with_floor() computes it"


def judged(optimum: Optimum, objective: Minimisable, budget: Budget, *, with_every_floor: bool = False) -> Optimum:
    """Return the optimum with sensitivities, errors and floors computed again, the alternatives included.

    Parameters
    ----------
    optimum : Optimum
        Only mechanisms, participations and families are read.
    objective : Minimisable
        The objective of the design.
    budget : Budget
        The budget, for the bound of strongly convex losses, which depends on it.
    with_every_floor : bool
        Whether to compute the floors that take longer than about 0.2 s; they are None otherwise.

    Returns
    -------
    Optimum

    Raises
    ------
    ValueError
        If a mechanism cannot be judged for the objective.
    TypeError
        If an argument has another type.
    """
    problems: list[Problem] = []

    def again(one: Optimum) -> Optimum:
        problem = objective.for_run(one.participation)
        if not isinstance(problem, Objective):
            return judged_endless(problem, _toeplitz(one), one.family, one.participation, budget)
        run = next((known for known in problems if known.promised == one.participation), None)
        if run is None:
            run = _problem(objective, one.participation, with_every_floor)
            problems.append(run)
        return run.with_floor(run.evaluate(one.mechanism, one.family, one.variant))

    alternatives = tuple(replace(again(one), certificate="") for one in optimum.alternatives)
    return replace(light(again(optimum)), alternatives=alternatives)


def light(optimum: Optimum) -> Optimum:
    """Return the optimum without the arrays of its certificate, which are as large as matrices of all steps."""
    kept = optimum.certificate
    return replace(optimum, certificate=replace(kept, arrays=())) if isinstance(kept, Certificate) else optimum


def _toeplitz(one: Optimum) -> ToeplitzNoise:
    return checks.instance("mechanism", one.mechanism, ToeplitzNoise)


def _problem(objective: Minimisable, participation: Participation, with_every_floor: bool) -> Problem:
    """Make the problem that judges mechanisms under a participation."""
    run = Problem(objective, participation)
    if participation.sampled:
        run.lower_bound = (None, False, NO_FLOOR)
    elif not (with_every_floor or is_quick(run.objective, run.who)):
        run.lower_bound = (None, False, SLOW_FLOOR)
    return run
