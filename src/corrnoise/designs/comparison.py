"""The comparison of a design with other noise at the same budget, at one learning rate and each at its own best.

No batches are sampled: independent noise is that of DP-SGD with the batches of the design, whose privacy is not
amplified.  Errors are F − F*, with the factor ½ of F, for the budget of the design, without clipping.  Up to three
errors are compared for each noise:

``stationary_error``
    The limit at the learning rate of the design, with the σ of γ_∞.  For quadratic problems it is exact and divided by
    the smallest that any noise can have (formula E3).  For strongly convex losses it is an upper bound, divided by that
    of the design.  It falls with the learning rate, so no learning rate is best for it.
``final_error``
    After T steps at the learning rate of the design, with the σ of γ_T; exact, for quadratic problems with a horizon.
``tuned``
    After T steps, each noise at *its own best learning rate*, and with its parameter tuned at every learning rate.
    This is the comparison with independent noise that has been tuned.  It needs a start away from the minimum, because
    from the minimum the best learning rate is 0.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Theorems 2.2, 3.1 and C.18; Section C.5 (anti-PGD).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from corrnoise.solvers.learning import STATIONARY
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.tuning import (
    TunedRun,
    best_learning_rate,
    stationary_damping,
    stationary_noise,
    stationary_nu,
)
from corrnoise.support.progress import Progress
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

INDEPENDENT = "independent noise, without sampling"
ANTI = "anti-PGD, best damping"
FTRL = "nu-DP-FTRL, nu = eta mu"
BEST_FTRL = "nu-DP-FTRL, best nu"
DESIGN = "design"
BOUND = "closed-form lower bound"
WORST = "design, worst quadratic"


@record
class Row(Record):
    """The errors of one noise.

    Parameters
    ----------
    method : str
        Its name.
    kind : str
        Kind of ``stationary_error``: ``"exact"``, ``"upper bound"`` or ``"lower bound"``.
    stationary_error : float, optional
        At the learning rate of the design; None for noise with a factor for each step, which is never stationary.
    ratio : float, optional
        ``stationary_error`` over the smallest of all noise (quadratic problems), or over the bound of the design.
    noise : Mechanism, optional
        The noise; None for lower bounds.
    final_error : float, optional
        After T steps at the learning rate of the design; None without a horizon.
    best_learning_rate : float, optional
        The learning rate with the smallest error after T steps; None without a number of steps, an initial offset, or
        Toeplitz noise.
    best_noise : ToeplitzNoise, optional
        The noise at that learning rate.
    best_error : float, optional
        The error at that learning rate.
    best_ratio : float, optional
        ``best_error`` over the error of the design; None without ``best_error``.
    """

    method: str
    kind: str
    stationary_error: float | None = None
    ratio: float | None = None
    noise: Mechanism | None = None
    final_error: float | None = None
    best_learning_rate: float | None = None
    best_noise: ToeplitzNoise | None = None
    best_error: float | None = None
    best_ratio: float | None = None


@record
class Comparison(Record):
    """The errors of a design and of other noise.

    Parameters
    ----------
    rows : tuple of Row
        One for each noise and each bound.
    learning_rate : float
        The learning rate of the design.
    steps : int or None
        Horizon T; None without one.
    initial_offset : float or array of float
        θ_0 − θ* in the eigenbasis.
    """

    rows: tuple[Row, ...]
    learning_rate: float
    steps: int | None
    initial_offset: float | Array

    def __getitem__(self, method: str) -> Row:
        for row in self.rows:
            if row.method == method:
                return row
        raise KeyError(f"method must be one of {', '.join(repr(row.method) for row in self.rows)}, got {method!r}")

    @property
    def exact(self) -> bool:
        """Whether errors are compared, and not bounds."""
        return any(row.kind == "exact" for row in self.rows)

    @property
    def tuned(self) -> bool:
        """Whether each noise is also compared at its own best learning rate."""
        return any(row.best_error is not None for row in self.rows)


def compare(
    problem: QuadraticProblem | StronglyConvex,
    noise: Mechanism,
    participation: Participation,
    budget: Budget,
    *,
    family: str = "",
    initial_offset: ArrayLike = 0.0,
    progress: Progress | None = None,
) -> Comparison:
    """The comparison of the noise of a design with independent noise, anti-PGD and ν-DP-FTRL.

    Parameters
    ----------
    problem : QuadraticProblem or StronglyConvex
        The problem of the design.
    noise : Mechanism
        Its noise.
    participation : Participation
        Its participation.
    budget : Budget
        Its privacy budget.
    family : str, default ""
        The name of the family of its noise.
    initial_offset : array_like, default 0.0
        As for ``Design.comparison``.
    progress : callable, optional
        As for ``Design.comparison``.
    """
    show = progress or (lambda _: None)
    offset = _checked_offset(initial_offset, problem)
    if isinstance(problem, QuadraticProblem):
        rows = _Quadratic(problem, noise, participation, budget, family == STATIONARY, offset, show).rows()
    else:
        rows = _bounds(problem, noise, budget, show)
    return Comparison(tuple(rows), problem.learning_rate, participation.steps, offset)


def _checked_offset(offset: ArrayLike, problem: QuadraticProblem | StronglyConvex) -> float | Array:
    array = checks.reals("initial_offset", offset, "[-1e100, 1e100]")
    if array.ndim == 0:
        return float(array)
    if isinstance(problem, StronglyConvex):
        raise ValueError(f"initial_offset must be a number for strongly convex losses, got shape {array.shape}")
    return checks.scalar_or_vector("initial_offset", array, "[-1e100, 1e100]", problem.eigenvalues.size)


# -- quadratic problems ------------------------------------------------------------------------------------------------


def several(participation: Participation) -> Participation:
    """The run if it uses examples several times, else any length: γ_∞ then sets the noise of stationary errors.

    Parameters
    ----------
    participation : Participation
        Of the design.
    """
    return ANY_LENGTH if participation.once else participation


class _Quadratic:
    """The rows of a quadratic problem."""

    def __init__(
        self,
        problem: QuadraticProblem,
        chosen: Mechanism,
        participation: Participation,
        budget: Budget,
        own: bool,
        offset: float | Array,
        show: Progress,
    ) -> None:
        self.problem = problem
        self.chosen = chosen
        self.participation = participation
        self.budget = budget
        self.own = own  # whether the chosen noise is the optimum for long runs, which is another at other rates
        self.offset = offset
        self.show = show
        self.long = several(participation)

    def alternatives(self) -> dict[str, Callable[[QuadraticProblem], Mechanism]]:
        """The noises that are compared, by name, as functions of the problem."""
        chosen = self.chosen
        return {
            INDEPENDENT: lambda problem: DPSGD(),
            ANTI: lambda problem: AntiPGD(stationary_damping(problem)),
            FTRL: lambda problem: NuFTRL(float(problem.rates.min())),
            BEST_FTRL: lambda problem: NuFTRL(stationary_nu(problem, participation=self.long)),
            DESIGN: lambda problem: stationary_noise(problem, participation=self.long) if self.own else chosen,
        }

    def rows(self) -> list[Row]:
        """One for each noise, and the closed-form bound."""
        self.show("errors: the smallest of all noise")
        chosen = self.chosen
        smallest = self.problem.optimal_error(budget=self.budget)
        if self.long != ANY_LENGTH and isinstance(chosen, ToeplitzNoise):
            smallest = self.stationary_error(chosen)
        rows = []
        for method, noise_for in self.alternatives().items():
            self.show(f"errors: {method}")
            noise = chosen if method == DESIGN else noise_for(self.problem)
            row: dict[str, Any] = {"noise": noise, "final_error": self.final_error(noise)}
            if isinstance(noise, ToeplitzNoise):
                row["stationary_error"] = error = self.stationary_error(noise)
                row["ratio"] = error / smallest
                if (tuned := self.tuned(method, noise_for)) is not None:
                    row["best_learning_rate"] = tuned.learning_rate
                    row |= {"best_noise": tuned.noise, "best_error": tuned.error}
            rows.append(Row(method, "exact", **row))
        if self.long == ANY_LENGTH:
            least = self.problem.lower_bound(budget=self.budget)
            rows.append(Row(BOUND, "lower bound", least, least / smallest))
        return _with_ratios(rows)

    def stationary_error(self, noise: ToeplitzNoise) -> float:
        """The error in the limit."""
        return self.problem.stationary_error(noise, budget=self.budget, participation=self.long)

    def final_error(self, noise: Mechanism) -> float | None:
        """The error after the last step."""
        who = self.participation
        if who.steps is None:
            return None
        if isinstance(noise, ToeplitzNoise):
            options: dict[str, Any] = {"budget": self.budget, "participation": who}
            curve = self.problem.learning_curve(noise, who.steps, initial_offset=self.offset, **options)
            return float(curve[-1])
        objective = LearningObjective(self.problem, who.steps, weights="last")
        without = objective.sampling_error() + objective.initial_error(self.offset)
        return without + objective.privacy_error(noise, who, self.budget)

    def tuned(self, method: str, noise_for: Callable[[QuadraticProblem], Any]) -> TunedRun | None:
        """The best learning rate of one noise for the run; None if none is found."""
        who = self.participation
        if who.steps is None or not np.any(self.offset):
            return None
        self.show(f"errors: {method} at its own best learning rate")
        try:
            return best_learning_rate(self.problem, who, noise_for, initial_offset=self.offset, budget=self.budget)
        except ValueError:  # the start is better than anything that can be reached at this budget
            return None


def _with_ratios(rows: list[Row]) -> list[Row]:
    unit = next(row.best_error for row in rows if row.method == DESIGN)
    return [
        row
        if row.best_error is None or unit is None
        else Row(**{**row.arguments(), "best_ratio": row.best_error / unit})
        for row in rows
    ]


# -- strongly convex losses --------------------------------------------------------------------------------------------


def _bounds(problem: StronglyConvex, chosen: Mechanism, budget: Budget, show: Progress) -> list[Row]:
    noise = checks.instance("noise", chosen, ToeplitzNoise)
    options: dict[str, Any] = {"budget": budget, "criterion": "objective"}
    show("bounds: the best nu")
    noises: dict[str, ToeplitzNoise] = {
        INDEPENDENT: DPSGD(),
        FTRL: NuFTRL(float(min(problem.rates))),
        BEST_FTRL: NuFTRL(stationary_nu(problem, **options)),
        DESIGN: noise,
    }
    bounds = {}
    for method, each in noises.items():
        show(f"bounds: {method}")
        bounds[method] = strongly_convex_certificate(problem, each, **options).value
    bounds[INDEPENDENT] = min(bounds[INDEPENDENT], problem.independent_noise_upper_bound(budget=budget))
    unit = bounds[DESIGN]
    rows = [Row(method, "upper bound", bound, bound / unit, noise=noises[method]) for method, bound in bounds.items()]
    show(f"bounds: {WORST}")
    worst = problem.worst_quadratic_error(noise, budget=budget)
    return [*rows, Row(WORST, "lower bound", worst, worst / unit)]
