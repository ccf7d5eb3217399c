"""What ``optimise`` returns: noise that runs, what it costs, and the evidence that little is left to gain."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Literal

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.sensitivity import Sensitivity
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import UNIT_BUDGET, Budget

Measure = Literal["root mean squared error", "excess loss", "stationary excess loss"]


@record
class Certificate(Record):
    """Two bounds of the least error of a set of strategies, at sensitivity 1 and unit noise.

    Parameters
    ----------
    value : the error of the strategy that was found, an upper bound of the optimum
    lower_bound : no strategy of the set has a smaller error
    rigorous : whether ``lower_bound`` includes the rounding errors of its computation
        If not, it is a float64 value of the proved formula.
    iterations : evaluations of the dual problem
    strategies : the set in words
    arrays : the point that was found, in the words of the module that made the certificate
    """

    value: float
    lower_bound: float
    rigorous: bool
    iterations: int
    strategies: str = "strategies of any form"
    arrays: tuple[Array, ...] = ()

    @property
    def gap(self) -> float:
        """value/lower_bound − 1: how much better another strategy can be, at most."""
        return self.value / self.lower_bound - 1


@record
class Optimum(Record):
    """The best noise that was found, what it costs, and what no noise can beat.

    Parameters
    ----------
    mechanism : the noise; ``mechanism.program(participation)`` runs it
    participation : who takes part when, as it was promised
    family : the name of the family, one of those of ``optimise``
    sensitivity
        What is known of the zero-out sensitivity under the participation: a bracket, whose upper end enters the error.
    error : for a workload the root mean squared error for noise of the standard deviation γ (ρ = ½, clip norm 1)
        For learning what privacy adds to F − F* at ρ = 1 and clip norm 1, and for the stationary optimum all of F − F*.
    measure
        The meaning of ``error`` in words: ``"root mean squared error"``, ``"excess loss"`` or ``"stationary excess
        loss"``.
    floor
        No correlated noise without sampling is below this error under the participation; None where it is not computed.
    rigorous : whether the floor includes the rounding errors of its computation
    certificate
        Two bounds of the optimum of a set of strategies, where the search has such a proof, otherwise the reason why
        there is none, in words.
    alternatives : the other mechanisms that were compared, with the same floor

    Examples
    --------
    >>> from corrnoise import Participation, optimise
    >>> best = optimise(participation=Participation.fixed_epochs(64, epochs=4), memory=2)
    >>> best.family, best.memory, best.ratio < 1.2
    ('buffers, epoch weights', 1, True)
    """

    mechanism: Mechanism
    participation: Participation
    family: str
    sensitivity: Sensitivity
    error: float
    _: KW_ONLY
    measure: Measure = "root mean squared error"
    floor: float | None = None
    rigorous: bool = False
    certificate: Certificate | str = ""
    alternatives: tuple[Optimum, ...] = ()

    @property
    def memory(self) -> int:
        """How many arrays of the size of the gradient a run keeps from one step to the next."""
        return self.mechanism.memory(self.participation.steps or 10**9)

    @property
    def ratio(self) -> float | None:
        """error/floor, at least 1; None without a floor."""
        return None if self.floor is None else self.error / self.floor

    @property
    def gap(self) -> float | None:
        """Ratio − 1: by how much, relatively, any noise can be better; None without a floor."""
        return None if self.floor is None else self.error / self.floor - 1

    def error_at(self, budget: Budget) -> float:
        """The error in a run with this budget, for one example (``members`` do not enter).

        Parameters
        ----------
        budget : what the run may spend, on what gradients
        """
        return self._at(budget, self.error)

    def floor_at(self, budget: Budget) -> float | None:
        """The floor in a run with this budget; None where it is not computed.

        Parameters
        ----------
        budget : what the run may spend, on what gradients
        """
        return None if self.floor is None else self._at(budget, self.floor)

    def _at(self, budget: Budget, error: float) -> float:
        if self.measure == "root mean squared error":
            return error * math.sqrt(budget.unit_variance)
        if self.measure == "excess loss":
            return error * (budget.unit_variance / UNIT_BUDGET.unit_variance)
        raise ValueError("budget must be given to the problem, whose stationary error holds more than that of privacy")

    def floor_in_words(self) -> str:
        """The floor with its condition."""
        if self.floor is None:
            return f"no floor is computed: {self.certificate}"
        promise = "" if self.participation.once else f" if {self.participation.worst.in_words()}"
        how = "rounding included" if self.rigorous else "computed in float64"
        return f"no correlated noise without sampling is below {self.floor:.6g}{promise} ({how})"
