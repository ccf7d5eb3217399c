"""Noise that is optimal for learning in a finite run, in forms that stream, beside the floor of all strategies.

What privacy costs in learning is a quadratic form of the noise, tr(W N Nᵀ) (``theory.problems.learning_objective``), so
that every search of this package applies with W in place of AᵀA/n.  Three forms are offered:

``"buffers"``
    Buffers with a scale for each step (``scaled_buffers``): a few arrays of memory.
``"bands"``
    The best strategy of few bands (``banded``): an array for each band after the first.
``"dense"``
    The best strategy of any form in fixed epochs (``fixed_epochs``): all earlier steps are kept.

The floor is the certified optimum over all strategies in fixed epochs, which are patterns of min-sep participation
too: it holds for both.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from corrnoise.solvers.matrix_factorisation.banded import optimal_banded
from corrnoise.solvers.matrix_factorisation.dense import REGULARISATION, workload_of_weights
from corrnoise.solvers.matrix_factorisation.fixed_epochs import optimal_fixed_epochs
from corrnoise.solvers.matrix_factorisation.scaled_buffers import optimal_scaled_buffers
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.participation import Participation
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.problems.learning_objective import LearningObjective

Form = Literal["buffers", "bands", "dense"]


@record
class LearningOptimum(Record):
    """Noise for learning in a finite run, and how much better any other can be.

    Attributes
    ----------
    objective
        The error that was minimised.
    participation
        Who takes part when.
    mechanism
        The noise, to be scaled by its noise multiplier and the clip norm.
    privacy_error
        What privacy costs at ρ = 1 and clip norm 1: sensitivities are rounded up.
    lower_bound
        No strategy of any form costs less under this participation.  The bound of ``optimal_fixed_epochs`` for the
        weights W as computed in float64.
    """

    objective: LearningObjective
    participation: Participation
    mechanism: Mechanism
    privacy_error: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """By how much, relatively, the error may exceed that of the best strategy."""
        return self.privacy_error / self.lower_bound - 1


def optimal_for_learning(
    objective: LearningObjective,
    participation: Participation,
    *,
    form: Form = "buffers",
    memory: int = 4,
    tolerance: float = 1e-4,
) -> LearningOptimum:
    """The noise of a given form with the smallest error of learning that privacy causes.

    Parameters
    ----------
    objective
        The error of a run of at most 4096 steps on a quadratic problem.
    participation
        Fixed epochs; or min-sep with as many participations as fit; or one participation.
    form
        ``"buffers"``, ``"bands"``, or ``"dense"``, which is for fixed epochs and one participation.  Buffers are tuned
        for fixed epochs; under min-sep participation they are charged for what their sensitivity is there at most.
    memory
        The number of arrays of the size of the gradient that a stream may keep, >= 1; ``"dense"`` keeps all steps.
    tolerance
        Relative gap at which the search for the lower bound ends, in [1e-10, 1].  The bound holds all the same.

    Returns
    -------
    LearningOptimum
        ``NoiseStream`` runs its mechanism.

    Raises
    ------
    ValueError
        The numbers of steps differ, there are too many, or the number of participations is limited by more than their
        separation.

    Examples
    --------
    >>> import corrnoise as cn
    >>> problem = cn.LinearRegression([1.0, 0.3, 0.1], learning_rate=0.1)
    >>> run = cn.Participation(64, min_sep=16, max_participations=4, pattern="fixed epochs")
    >>> found = optimal_for_learning(cn.LearningObjective(problem, 64, weights="second half"), run, memory=2)
    >>> found.mechanism.memory, round(found.gap, 2)
    (2, 0.2)
    """
    of = checks.instance("objective", objective, LearningObjective)
    who = checks.instance("participation", participation, Participation)
    checks.choice("form", form, get_args(Form))
    memory = checks.integer("memory", memory, 1)
    if who.steps != of.steps:
        raise ValueError(f"participation must have steps={of.steps} as the objective has, got {who!r}")
    if not (who.once or who.saturated):
        raise ValueError(
            f"participation must have max_participations=None or 1, for other numbers no floor is known, got {who!r}"
        )
    workload = workload_of_weights(of.weight_matrix())
    epochs = _in_fixed_epochs(who)
    floor = optimal_fixed_epochs(workload, epochs, tolerance=tolerance)
    mechanism: Mechanism
    if form == "buffers":
        mechanism = optimal_scaled_buffers(workload, epochs, buffers=min(memory, 16)).mechanism
    elif form == "bands":
        apart = Participation.min_sep(who.steps, epochs.period)
        bands = min(memory + 1, apart.min_sep)
        mechanism = optimal_banded(workload, apart, bands=bands, tolerance=tolerance).mechanism()
    elif who.once or who.kind == "fixed epochs":
        mechanism = floor.mechanism()
    else:
        raise ValueError(f"form must be 'buffers' or 'bands' for min-sep participation, got {form!r}")
    unit = of.problem.learning_rate**2 / (4 * of.batch_size**2)
    return LearningOptimum(
        objective=of,
        participation=who,
        mechanism=mechanism,
        privacy_error=of.privacy_error(mechanism, who),
        lower_bound=unit * max(0.0, floor.lower_bound - _of_regularisation(of, epochs)) ** 2,
    )


def _of_regularisation(of: LearningObjective, who: Participation) -> float:
    """By how much the root mean squared error of the floor may fall without ε = 1e-12 tr(W)/n on the diagonal of W.

    With A for W and R = L Lᵀ the floor is |A L|_* over the root of the budget and of n, and ε adds at most
    sqrt(ε n) |L|_* to this nuclear norm.  |L|_* <= sqrt(n tr R), and tr R is at most k times the budget.
    """
    return math.sqrt(REGULARISATION * who.count * float(np.trace(of.weight_matrix())))


def _in_fixed_epochs(who: Participation) -> Participation:
    """Fixed epochs whose patterns are patterns of this participation."""
    separation = who.steps if who.once else who.period
    return Participation.fixed_epochs(who.steps, period=separation)
