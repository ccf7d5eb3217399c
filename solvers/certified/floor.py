"""The floor of a run: a lower bound of the error of every strategy, for runs where it takes at most seconds."""

from __future__ import annotations

from corrnoise.solvers.certified.coarse_floor import coarse_lower_bound
from corrnoise.solvers.certified.fixed_epochs import LARGEST_CERTIFIED, fixed_epochs_bounds, in_fixed_epochs
from corrnoise.solvers.certified.long_floor import long_run_lower_bound
from corrnoise.solvers.certified.patterns import MERGED_STEPS, pattern_lower_bound
from corrnoise.solvers.certified.single_participation import single_participation_bounds
from corrnoise.solvers.optimum import Certificate
from corrnoise.theory.objectives.base import LARGEST_MATRIX, Objective
from corrnoise.theory.participation import FixedEpochs, Order

LONG = "the floor is a dual bound, found in linear time, computed in float64"
LARGEST = f"{LONG}, of the mean error, which is at most the largest"
PATTERNS = "the lower bound is a dual bound over patterns of the order, rounding errors included"
COARSE = "the floor is a dual bound, from the optimum of a shorter run, computed in float64"
_LONGEST_RIGOROUS = 1024  # steps; the decomposition of a rigorous floor then takes a second at most
_LONGEST_ONCE = 100_000  # steps; the optimum of prefix sums with one participation then takes seconds
_MAX_DENSE_STEPS = 10_000  # the same for several epochs, if they are few
_FEW_EPOCHS = 200_000  # steps times squared epochs
_MAX_PATTERN_STEPS = 32  # uses of an example, with a search over patterns
#: Most steps of a floor that takes about 0.2 s: prefix sums in one epoch, prefix sums, and everything else ...
_QUICK_ONCE, _QUICK_PREFIX, _QUICK_STEPS = 4096, 400, 128
_QUICK_PATTERNS = 24  # ... with a search over patterns
_QUICK_EPOCHS, _QUICK_MODES = 16, 100  # ... with at most so many participations, and groups of eigenvalues


def floor(objective: Objective, participation: Order) -> tuple[float | None, bool, Certificate | str]:
    """A lower bound of the squared error of all strategies, whether it is rigorous, and its certificate.

    Returns the dual optimum over all strategies up to 1024 steps and for prefix sums, otherwise a bound up to 2 percent
    below it; None, and the reason in words, for matrices of many steps.  Above 1024 steps and above 32 participations
    the bound of an order other than fixed epochs is the bound of fixed epochs, whose patterns it has.
    """
    n, who = objective.steps, participation
    epochs, system = in_fixed_epochs(who), objective.system
    if by_patterns(objective, who) and n <= _LONGEST_RIGOROUS:
        squared = pattern_lower_bound(objective, who)
        if n > MERGED_STEPS and system is not None and (other := long_run_lower_bound(system, epochs)) > squared:
            return other, False, LARGEST if objective.aggregate == "max" else LONG
        return squared, True, PATTERNS
    prefix = objective.precise
    exact = n <= _LONGEST_RIGOROUS
    if prefix and who.once:
        exact = n <= _LONGEST_ONCE
    elif prefix and n > LARGEST_CERTIFIED:
        exact = n <= _MAX_DENSE_STEPS and n * epochs.worst.count**2 <= _FEW_EPOCHS
    if prefix and who.once and exact:
        tolerance = 1e-3 if n <= _MAX_DENSE_STEPS else 1e-2
        found = single_participation_bounds(objective, tolerance=tolerance)
        return found.lower_bound**2, found.rigorous, found
    if prefix and exact and objective.aggregate == "mean":
        found = fixed_epochs_bounds(objective, epochs, tolerance=1e-3)
        return found.lower_bound**2, found.rigorous, found
    if system is not None:
        squared = long_run_lower_bound(system, epochs)
        return squared, False, LARGEST if objective.aggregate == "max" else LONG
    if objective.aggregate == "max" or n > LARGEST_MATRIX:
        return None, False, f"it takes the mean error and at most {LARGEST_MATRIX} steps if no recursion is known"
    return coarse_lower_bound(objective.form, epochs), False, COARSE


def by_patterns(objective: Objective, order: Order) -> bool:
    """Return whether the bound of a short run needs a search over the patterns of the order."""
    fixed = isinstance(order, FixedEpochs) and objective.aggregate == "mean"
    return not (order.once or fixed) and order.count <= _MAX_PATTERN_STEPS


def is_quick(objective: Objective, participation: Order) -> bool:
    """Return whether ``floor`` takes at most about 0.2 s, judged by the size of the run alone."""
    n = objective.steps
    prefix = objective.precise
    if by_patterns(objective, participation):
        return n <= _QUICK_PATTERNS
    if prefix and participation.once:
        return n <= _QUICK_ONCE
    most = _QUICK_PREFIX if prefix and objective.aggregate == "mean" else _QUICK_STEPS
    return n <= most and in_fixed_epochs(participation).count <= _QUICK_EPOCHS and objective.groups <= _QUICK_MODES
