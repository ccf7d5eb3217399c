"""Strategies of any form."""

from __future__ import annotations

from collections.abc import Sequence

from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds, fixed_epochs_strategy, in_fixed_epochs
from corrnoise.solvers.certified.single_participation import single_participation_bounds, single_participation_strategy
from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.learning import regularised_floor
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.objectives.base import LARGEST_MATRIX
from corrnoise.theory.participation import FixedEpochs


class Dense(Family):
    """The best strategy of any form, with certificate: a run keeps all earlier steps."""

    name = "dense"
    needs = f"a participation that is single or for fixed epochs, and at most {LARGEST_MATRIX} steps"
    look = "0.8"

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        known = run.who.once or (isinstance(run.who, FixedEpochs) and run.objective.aggregate == "mean")
        return [0] if known and run.steps <= LARGEST_MATRIX else []

    def make(self, run: Problem, size: int) -> Mechanism:
        """The strategy; the lower bound of the run becomes its certificate."""
        objective, epochs = run.objective, in_fixed_epochs(run.who)
        once = run.who.once and not objective.regularised
        if objective.regularised:
            squared, found = regularised_floor(objective, run.who)
        else:
            found = single_participation_bounds(objective) if once else fixed_epochs_bounds(objective, epochs)
            squared = found.lower_bound**2
        run.lower_bound = (squared, found.rigorous, found)
        if once:
            return single_participation_strategy(objective, found)
        return fixed_epochs_strategy(objective, epochs, found)
