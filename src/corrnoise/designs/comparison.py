"""The comparison of a design with other noise at the same budget, at one learning rate and each at its own best.

Errors are F − F*, with the factor ½ of F, for the budget, clip norm and adjacency of the design, with one example a
step and without clipping.  Up to three errors are compared for each noise:

``stationary_error``
    The limit at the learning rate of the design, with the σ of γ_∞.  For quadratic problems it is exact and divided by
    the smallest that any noise can have (formula E3).  For strongly convex losses it is an upper bound, divided by that
    of the design.  It falls with the learning rate, so no learning rate is best for it.
``final_error``
    After T steps at the learning rate of the design, with the σ of γ_T; exact, for quadratic problems with a horizon.
``tuned``
    After T steps, each noise at *its own best learning rate*, and with its parameter tuned anew at every learning rate.
    This is the comparison with a DP-SGD that has been tuned.  It needs a start away from the minimum, because from the
    minimum the best learning rate is 0.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Theorems 2.2, 3.1 and C.18; Section C.5 (anti-PGD).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from corrnoise.designs.covered_noise import CoveredNoise
from corrnoise.support.serialise import plain
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

if TYPE_CHECKING:
    from corrnoise.solvers.tuning import TunedRun

Progress = Callable[[str], None]

SGD = "DP-SGD"
ANTI = "anti-PGD, best damping"
FTRL = "nu-DP-FTRL, nu = eta mu"
BEST_FTRL = "nu-DP-FTRL, best nu"
DESIGN = "design"
STREAM = "design, streamed"
BOUND = "closed-form lower bound"
WORST = "design, worst quadratic"
TUNED = "tuned_learning_rate"  #: entry in the metadata of a design whose learning rate is the best for its run


@record
class Row(Record):
    """The errors of one noise.

    Parameters
    ----------
    method
        Its name.
    kind
        Kind of ``stationary_error``: ``"exact"``, ``"upper bound"`` or ``"lower bound"``.
    stationary_error
        At the learning rate of the design.
    ratio
        ``stationary_error`` over the smallest of all noise (quadratic problems), or over the bound of the design.
    noise
        The noise; None for lower bounds.
    final_error
        After T steps at the learning rate of the design; None without a horizon.
    best_learning_rate, best_noise, best_error
        The learning rate with the smallest error after T steps, the noise there, and that error; None without a
        horizon or without an initial offset.
    best_ratio
        ``best_error`` over that of the design.
    """

    method: str
    kind: str
    stationary_error: float
    ratio: float
    noise: ToeplitzNoise | None = None
    final_error: float | None = None
    best_learning_rate: float | None = None
    best_noise: ToeplitzNoise | None = None
    best_error: float | None = None
    best_ratio: float | None = None


@record
class Comparison(Record):
    """The errors of a design beside those of other noise.

    Parameters
    ----------
    rows
        One for each noise and each bound.
    learning_rate
        That of the design.
    steps
        Horizon T; None without one.
    initial_offset
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

    def description(self) -> dict[str, Any]:
        """The errors in plain lists, strings and numbers."""
        shown = [name for name in Row("", "", 0.0, 0.0).arguments() if name not in ("noise", "best_noise")]
        offset = self.initial_offset
        return {
            "learning_rate": self.learning_rate,
            "steps": self.steps,
            "initial_offset": offset.tolist() if isinstance(offset, np.ndarray) else offset,
            "rows": [{name: plain(getattr(row, name)) for name in shown} for row in self.rows],
        }


def compare(design: CoveredNoise, progress: Progress | None = None) -> Comparison:
    """The comparison of a design with DP-SGD, anti-PGD and ν-DP-FTRL.

    Parameters
    ----------
    design
        A design that knows its problem.
    progress
        Called with a line of text before every longer part.

    Raises
    ------
    ValueError
        The design has no problem, or its noise has a factor for each step.
    """
    show = progress or (lambda _: None)
    problem = design.problem
    if problem is None:
        raise ValueError(f"design must have a problem to be compared, got {design!r}")
    if design.scales is not None:
        raise ValueError(
            "design must have no scales to be compared: noise with a factor for each step is never stationary"
        )
    rows = (
        _quadratic_rows(design, problem, show)
        if isinstance(problem, QuadraticProblem)
        else _bounds(design, problem, show)
    )
    return Comparison(tuple(rows), problem.learning_rate, design.steps, design.initial_offset)


# -- quadratic problems ------------------------------------------------------------------------------------------------


def several(run: Participation | None) -> Participation | None:
    """The run if examples take part several times in it, else None: γ_∞ then sets the noise of stationary errors."""
    return None if run is None or run.once else run


def alternatives(
    budget: dict[str, Any], horizon: Participation | None
) -> dict[str, Callable[[QuadraticProblem], ToeplitzNoise]]:
    """The noises that are compared, by name, as functions of the problem; ``horizon`` as from ``several``."""
    from corrnoise.solvers.tuning import best_damping, best_noise, best_nu

    return {
        SGD: lambda problem: DPSGD(),
        ANTI: lambda problem: AntiPGD(best_damping(problem)),
        FTRL: lambda problem: NuFTRL(float(problem.rates.min())),
        BEST_FTRL: lambda problem: NuFTRL(best_nu(problem, horizon=horizon, **budget)),
        DESIGN: lambda problem: best_noise(problem, horizon=horizon, **budget),
    }


def _quadratic_rows(design: CoveredNoise, problem: QuadraticProblem, show: Progress) -> list[Row]:
    budget = design.budget
    show("errors: the smallest of all noise")
    smallest = problem.optimal_error(**budget)
    rows = []
    horizon = several(design.run)
    if horizon is not None:
        smallest = problem.stationary_error(design.noise, horizon=horizon, **budget)
    for method, noise_for in alternatives(budget, horizon).items():
        show(f"errors: {method}")
        if method == DESIGN and design.choice is not None:
            noise_for = _constant(design.noise)
        noise = design.noise if method == DESIGN else noise_for(problem)
        error = problem.stationary_error(noise, horizon=horizon, **budget)
        row: dict[str, Any] = {"noise": noise, "final_error": _final_error(design, problem, noise)}
        tuned = _tuned(design, problem, method, noise_for, show)
        if tuned is not None:
            row |= {"best_learning_rate": tuned.learning_rate, "best_noise": tuned.noise, "best_error": tuned.error}
        rows.append(Row(method, "exact", error, error / smallest, **row))
    if isinstance(design.stream, ToeplitzNoise):
        show(f"errors: {STREAM}")
        error = problem.stationary_error(design.stream, horizon=horizon, **budget)
        final = _final_error(design, problem, design.stream)
        rows.append(Row(STREAM, "exact", error, error / smallest, noise=design.stream, final_error=final))
    if horizon is None:
        least = problem.lower_bound(**budget)
        rows.append(Row(BOUND, "lower bound", least, least / smallest))
    return _with_ratios(rows)


def _constant(noise: ToeplitzNoise) -> Callable[[QuadraticProblem], ToeplitzNoise]:
    return lambda problem: noise


def _final_error(design: CoveredNoise, problem: QuadraticProblem, noise: ToeplitzNoise) -> float | None:
    if design.steps is None:
        return None
    run: dict[str, Any] = {"horizon": design.run, "initial_offset": design.initial_offset}
    return float(problem.learning_curve(noise, design.steps, **run, **design.budget)[-1])


def _tuned(
    design: CoveredNoise,
    problem: QuadraticProblem,
    method: str,
    noise_for: Callable[[QuadraticProblem], ToeplitzNoise],
    show: Progress,
) -> TunedRun | None:
    """The best learning rate of one noise for the run; None where there is none to be found."""
    from corrnoise.solvers.tuning import TunedRun, best_learning_rate

    if design.steps is None or not np.any(design.initial_offset):
        return None
    if method == DESIGN and design.metadata.get(TUNED):
        final = _final_error(design, problem, design.noise)
        return None if final is None else TunedRun(problem.learning_rate, final, design.noise)
    show(f"errors: {method} at its own best learning rate")
    try:
        return best_learning_rate(
            problem,
            design.steps,
            noise_for,
            initial_offset=design.initial_offset,
            participation=design.run,
            **design.budget,
        )
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


def _bounds(design: CoveredNoise, problem: StronglyConvex, show: Progress) -> list[Row]:
    from corrnoise.solvers.strongly_convex.bound import strongly_convex_bound
    from corrnoise.solvers.tuning import best_nu

    options: dict[str, Any] = {**design.budget, "criterion": "objective"}
    show("bounds: the best nu")
    noises: dict[str, ToeplitzNoise] = {
        SGD: DPSGD(),
        FTRL: NuFTRL(float(min(problem.rates))),
        BEST_FTRL: NuFTRL(best_nu(problem, **options)),
        DESIGN: design.noise,
    }
    if isinstance(design.stream, ToeplitzNoise):
        noises[STREAM] = design.stream
    bounds = {}
    for method, noise in noises.items():
        show(f"bounds: {method}")
        bounds[method] = strongly_convex_bound(problem, noise, **options)
    bounds[SGD] = min(bounds[SGD], problem.independent_noise_upper_bound(**design.budget))
    unit = bounds[DESIGN]
    rows = [Row(method, "upper bound", bound, bound / unit, noise=noises[method]) for method, bound in bounds.items()]
    show(f"bounds: {WORST}")
    worst = problem.worst_quadratic_error(design.noise, **design.budget)
    return [*rows, Row(WORST, "lower bound", worst, worst / unit)]
