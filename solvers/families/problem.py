"""A run to be optimised: its quadratic form, its participation, and the results that searches share.

A mechanism is judged by its squared error, the squared sensitivity under the participation times the quadratic form of
the run (``objectives``): the mean squared error of a workload, or the excess loss that privacy causes in learning.  Its
memory is the number of buffers of the size of the gradient that a run keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from corrnoise.solvers.certified.floor import floor
from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.objectives import coarse
from corrnoise.solvers.optimum import Certificate, Optimum, unit_square
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.numerics import checks
from corrnoise.theory.objectives.base import Minimisable, Objective
from corrnoise.theory.participation import Participation, Reshuffled


class Problem:
    """A run to be optimised.

    Parameters
    ----------
    objective : Minimisable
        The error of the run.
    participation : Participation
        The steps of each example, in a run with a number of steps.
    replays : int, default 0
        Earlier draws that a step may make again.
    """

    def __init__(self, objective: Minimisable, participation: Participation, replays: int = 0) -> None:
        self.replays = checks.integer("replays", replays, 0)
        self.promised = checks.instance("participation", participation, Participation)
        self.who = participation.worst
        self.steps = n = self.who.length
        self.objective: Objective = objective.for_run(participation)
        #: Searches know patterns of min-sep and of fixed epochs; results are judged under the true participation.
        self.start = Participation.min_sep(n, self.who.period) if isinstance(self.who, Reshuffled) else self.who
        self._kept: dict[object, Mechanism] = {}

    @cached_property
    def coarse(self) -> Objective:
        """The objective of searches for Toeplitz noise."""
        return coarse(self.objective)

    @cached_property
    def nu(self) -> NuFTRL:
        """The best ν-DP-FTRL."""
        return toeplitz.nu_ftrl(self.coarse, self.start)

    @property
    def root(self) -> NuFTRL | None:
        """Where searches for coefficients start."""
        return None if self.objective.precise else self.nu

    @cached_property
    def lower_bound(self) -> tuple[float | None, bool, Certificate | str]:
        """A lower bound of the squared error, whether it is rigorous, and its certificate or the reason for none."""
        return floor(self.objective, self.who)

    def kept(self, key: object, make: Callable[[], Mechanism]) -> Mechanism:
        """The mechanism of this key, made once in this run.

        Parameters
        ----------
        key : object
            Any hashable value that stands for the mechanism.
        make : Callable[[], Mechanism]
            Makes the mechanism.

        Returns
        -------
        Mechanism
        """
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def evaluate(self, mechanism: Mechanism, family: str, variant: str = "") -> Optimum:
        """The sensitivity and the error of a mechanism, without a lower bound.

        Parameters
        ----------
        mechanism : Mechanism
            Any noise for this run.
        family, variant : str
            The names of the family and of the variant.

        Returns
        -------
        Optimum
        """
        known = mechanism.bracket(self.who)
        square = unit_square(self.objective.measure, self.promised, known.upper)
        error = self.objective.error(square * mechanism.squared_error(self.objective))
        measure = self.objective.measure
        return Optimum(mechanism, self.promised, family, known, error, measure=measure, variant=variant)

    def with_floor(self, found: Optimum) -> Optimum:
        """The optimum with the lower bound of the run.

        Parameters
        ----------
        found : Optimum
            From ``evaluate``.

        Returns
        -------
        Optimum
        """
        squared, rigorous, certificate = self.lower_bound
        bound = None if squared is None else self.objective.error(squared)
        return replace(found, lower_bound=bound, rigorous=rigorous, certificate=found.certificate or certificate)
