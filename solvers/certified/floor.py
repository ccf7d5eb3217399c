"""The floor of a run: what no strategy is below, where it takes seconds to know it."""

from __future__ import annotations

from corrnoise.solvers.certified.coarse_floor import coarse_lower_bound
from corrnoise.solvers.certified.fixed_epochs import LARGEST_CERTIFIED, fixed_epochs_bounds, in_fixed_epochs
from corrnoise.solvers.certified.long_floor import long_run_lower_bound
from corrnoise.solvers.certified.single_participation import single_participation_bounds
from corrnoise.solvers.objectives import RunObjective
from corrnoise.solvers.optimum import Certificate
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX
from corrnoise.theory.participation import Participation
from corrnoise.theory.workloads import PrefixSums

LONG = "the floor is a dual bound, found in linear time, computed in float64"
LARGEST = f"{LONG}, of the mean error, which is at most the largest"
COARSE = "the floor is a dual bound, from the optimum of a shorter run, computed in float64"
_LONGEST_RIGOROUS = 1024  # steps up to which the decomposition of a rigorous floor takes a second
_LONGEST_ONCE = 100_000  # steps for which the optimum of prefix sums takes seconds, for one participation
_LONGEST = 10_000  # the same for several epochs, if they are few
_FEW_EPOCHS = 200_000  # steps times squared epochs, up to which they are few


def floor(objective: RunObjective, participation: Participation) -> tuple[float | None, bool, Certificate | str]:
    """A lower bound of the squared error of all strategies, whether it is rigorous, and its certificate.

    Returns the dual optimum over all strategies up to 1024 steps and for prefix sums, otherwise a bound up to 2 percent
    below it; None, and the reason in words, for matrices of many steps.
    """
    n, who, what = objective.steps, participation, objective.what
    epochs, system = in_fixed_epochs(who), objective.system
    prefix = isinstance(what, PrefixSums)
    exact = n <= _LONGEST_RIGOROUS
    if prefix and who.once:
        exact = n <= _LONGEST_ONCE
    elif prefix and n > LARGEST_CERTIFIED:
        exact = n <= _LONGEST and n * epochs.count**2 <= _FEW_EPOCHS
    if prefix and who.once and exact:
        tolerance = 1e-3 if n <= _LONGEST else 1e-2
        found = single_participation_bounds(PrefixSums(n), objective=objective.kind, tolerance=tolerance)
        return found.lower_bound**2, found.rigorous, found
    if prefix and exact and objective.kind == "mean":
        found = fixed_epochs_bounds(PrefixSums(n), epochs, tolerance=1e-3)
        return found.lower_bound**2, found.rigorous, found
    if system is not None:
        squared = long_run_lower_bound(system, epochs)
        return squared, False, LARGEST if objective.kind == "max" else LONG
    if objective.kind == "max" or n > LARGEST_MATRIX:
        return None, False, f"it takes the mean error and at most {LARGEST_MATRIX} steps if no recursion is known"
    return coarse_lower_bound(objective.weights(), epochs), False, COARSE
