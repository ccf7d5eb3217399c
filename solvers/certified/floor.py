"""The floor of a run: what no strategy is below, where it takes seconds to know it."""

from __future__ import annotations

from corrnoise.solvers.certified.coarse_floor import coarse_lower_bound
from corrnoise.solvers.certified.fixed_epochs import LARGEST_CERTIFIED, fixed_epochs_bounds, in_fixed_epochs
from corrnoise.solvers.certified.single_participation import single_participation_bounds
from corrnoise.solvers.objectives import RunObjective
from corrnoise.solvers.optimum import Certificate
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX
from corrnoise.theory.participation import Participation
from corrnoise.theory.workloads import PrefixSums, Workload

_LONGEST_RIGOROUS = 1024  # steps up to which the decomposition of a rigorous floor takes a second
_LONGEST_FLOOR = {True: 100_000, False: 20_000}  # steps for which the floor of prefix sums takes seconds, by ``once``


def floor(objective: RunObjective, participation: Participation) -> tuple[float | None, bool, Certificate | str]:
    """A lower bound of the squared error of all strategies, whether it is rigorous, and its certificate.

    Returns the dual optimum over all strategies; None, and the reason in words, where it would take too long.
    """
    n, who, what = objective.steps, participation, objective.what
    prefix = isinstance(what, PrefixSums)
    epochs = in_fixed_epochs(who)
    slow = _LONGEST_RIGOROUS < n <= LARGEST_CERTIFIED and not who.once
    if objective.kind == "max" and not (prefix and who.once):
        return None, False, "the largest error of any strategy is bounded for prefix sums and one participation only"
    if objective.kind == "mean" and (not prefix or slow):
        if n > LARGEST_MATRIX:
            return None, False, f"it takes matrices of all steps, which are made up to {LARGEST_MATRIX} steps"
        bound = coarse_lower_bound(objective.weights(), epochs)
        return bound, False, "the floor is a dual bound, from the optimum of a shorter run, computed in float64"
    if n > _LONGEST_FLOOR[who.once] or n * who.count**2 > 10**7:
        return None, False, f"it would take long in a run of {n} steps with {who.count} participations"
    tolerance = 1e-3 if n <= 10_000 else 1e-2
    assert isinstance(what, Workload)
    if who.once:
        found = single_participation_bounds(what, objective=objective.kind, tolerance=tolerance)
    else:
        found = fixed_epochs_bounds(what, epochs, tolerance=tolerance)
    return found.lower_bound**2, found.rigorous, found
