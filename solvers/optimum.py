"""The result of ``optimise``: noise that runs, its error, and the evidence that little is left to gain."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.sensitivity import Sensitivity
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.objectives.base import Measure
from corrnoise.theory.participation import CyclicPoisson, Participation, Poisson, RedrawnBins
from corrnoise.theory.privacy import UNIT_BUDGET, Budget

INDEPENDENT = "independent noise"


@record
class Certificate(Record):
    """Two bounds of the least error of a set of strategies, at sensitivity 1 and unit noise."""

    value: float  #: the error of the strategy that was found, an upper bound of the optimum
    lower_bound: float  #: no strategy of the set has a smaller error
    #: whether ``lower_bound`` includes the rounding errors of its computation.  If not, it is a float64 value of the
    #: proved formula.
    rigorous: bool
    iterations: int  #: evaluations of the dual problem
    strategies: str = "strategies of any form"  #: the set in words
    arrays: tuple[Array, ...] = ()  #: the point that was found, in the words of the module that made the certificate

    @property
    def gap(self) -> float:
        """value/lower_bound − 1: how much better another strategy can be, at most."""
        return self.value / self.lower_bound - 1


def unit_square(measure: Measure, participation: Participation, sensitivity: float) -> float:
    """The factor of tr(W N Nᵀ) in a squared error: γ²; where batches are sampled, one for the noise multiplier 1.

    Parameters
    ----------
    measure : str
        Of the optimum.
    participation : Participation
        Of the optimum.
    sensitivity : float
        Of the optimum.
    """
    if not participation.sampled:
        return sensitivity**2
    return 1.0 if measure == "root mean squared error" else 1 / UNIT_BUDGET.unit_variance


def label(family: str, variant: str = "", sampler: str = "") -> str:
    """The words for noise in tables and figures; independent noise with sampled batches is DP-SGD.

    Parameters
    ----------
    family, variant, sampler : str
        The names in an optimum.

    Returns
    -------
    str
    """
    return ", ".join(filter(None, ("DP-SGD" if sampler and family == INDEPENDENT else family, variant, sampler)))


@record
class Optimum(Record):
    """The best noise that was found, its error, and a lower bound for all noise.

    Parameters
    ----------
    mechanism : Mechanism
        The noise; ``mechanism.program(participation)`` runs it.
    participation : Participation
        The steps of each example.
    family : str
        The name of the family, one of ``cn.families.names()`` or that of your own family.
    sensitivity : Sensitivity
        A bracket of the zero-out sensitivity under the participation.  Its upper end enters the error.
    error : float
        For a workload the root mean squared error for noise of the standard deviation γ (ρ = ½, clipping norm 1).  For
        learning the excess loss that privacy adds at ρ = 1 and clipping norm 1, and for the stationary optimum the
        whole excess loss.  Where batches are sampled, either of them for independent noise of standard deviation 1.
    measure : str
        The meaning of ``error``: ``"root mean squared error"``, ``"excess loss"`` or ``"stationary excess loss"``.
    lower_bound : float, optional
        A lower bound of the error of all correlated noise under the participation; None where it is not computed, and
        where batches are sampled.
    rigorous : bool
        Whether the lower bound includes the rounding errors of its computation.
    certificate : Certificate or str
        Two bounds of the optimum of a set of strategies, where the search has such a proof, otherwise the reason why
        there is none.
    alternatives : tuple of Optimum
        The other mechanisms that were compared, with the same lower bound.
    variant : str
        ``"unit columns"``, ``"epoch weights"`` or ``"step scales"`` for noise with a factor for each step, otherwise
        empty.

    Examples
    --------
    >>> from corrnoise import Participation, optimise
    >>> best = optimise(participation=Participation.fixed_epochs(64, epochs=4), memory=2)
    >>> best.family, best.memory, best.optimality_gap < 0.2
    ('time-varying buffers', 2, True)
    """

    mechanism: Mechanism
    participation: Participation
    family: str
    sensitivity: Sensitivity
    error: float
    _: KW_ONLY
    measure: Measure = "root mean squared error"
    lower_bound: float | None = None
    rigorous: bool = False
    certificate: Certificate | str = ""
    alternatives: tuple[Optimum, ...] = ()
    variant: str = ""

    @property
    def sampler(self) -> str:
        """The label of the sampler of the batches; empty where batches are not sampled."""
        return self.participation.label if self.participation.sampled else ""

    @property
    def label(self) -> str:
        """Family, variant or replays, and sampler, as they stand in tables and figures."""
        again = f"{self.replays} replay{'s' * (self.replays > 1)}" if self.replays else self.variant
        return label(self.family, again, self.sampler)

    @property
    def memory(self) -> int:
        """How many arrays of the size of the gradient a run keeps from one step to the next."""
        return self.mechanism.memory(self.participation.steps or 10**9)

    @property
    def replays(self) -> int:
        """How many earlier draws a step makes again."""
        return len(getattr(self.mechanism, "replays", ()))

    @property
    def optimality_gap(self) -> float | None:
        """error/lower_bound − 1: how far, relatively, the error is from the best possible; None without a bound."""
        return None if self.lower_bound is None else self.error / self.lower_bound - 1

    @property
    def exact(self) -> bool:
        """Whether the sensitivity, or the multiplier where batches are sampled, is known up to rounding."""
        who = self.participation
        return isinstance(who, Poisson | CyclicPoisson | RedrawnBins) if who.sampled else self.sensitivity.exact

    def error_at(self, budget: Budget) -> float:
        """The error in a run with this budget, for one example (``members`` do not enter).

        Parameters
        ----------
        budget : Budget
            The privacy budget, with the clipping norm.

        Returns
        -------
        float
        """
        if not self.participation.sampled:
            return self._at(budget, self.error)
        return self.error_with(self.mechanism.program(self.participation).scale(budget))

    def error_with(self, scale: float) -> float:
        """The error where batches are sampled, for independent noise of this standard deviation.

        Parameters
        ----------
        scale : float
            The noise multiplier times the clip norm.

        Returns
        -------
        float
        """
        return self.error * (scale if self.measure == "root mean squared error" else scale**2)

    def lower_bound_at(self, budget: Budget) -> float | None:
        """The lower bound in a run with this budget; None where it is not computed.

        Parameters
        ----------
        budget : Budget
            The privacy budget, with the clipping norm.

        Returns
        -------
        float or None
        """
        return None if self.lower_bound is None else self._at(budget, self.lower_bound)

    def _at(self, budget: Budget, error: float) -> float:
        if self.measure == "root mean squared error":
            return error * math.sqrt(budget.unit_variance)
        if self.measure == "excess loss":
            return error * (budget.unit_variance / UNIT_BUDGET.unit_variance)
        raise ValueError("budget must be given to the problem, whose stationary error holds more than that of privacy")

    def lower_bound_summary(self, bound: float | None = None) -> str:
        """The lower bound with its condition, or why there is none.

        Parameters
        ----------
        bound : float, optional
            Its value at a budget; None for ``lower_bound``.

        Returns
        -------
        str
        """
        value = self.lower_bound if bound is None else bound
        if value is None:
            known = self.certificate if isinstance(self.certificate, str) else ""
            return f"none is computed: {known or 'it would take long for this objective and length of run'}"
        how = "rounding included" if self.rigorous else "computed in float64"
        promised = self.participation.worst.summary()
        return f"{value:.6g}, which no mechanism is below while batches are not sampled, {promised} ({how})"
