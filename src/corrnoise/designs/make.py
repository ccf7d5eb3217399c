"""Making a design: the best noise for a problem and a budget, in all forms in which it can be run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corrnoise.designs.comparison import TUNED, compare, several
from corrnoise.designs.covered_noise import (
    PROBLEMS,
    Problem,
    Value,
    checked_metadata,
    checked_notes,
    checked_offset,
)
from corrnoise.designs.handover import fitted_buffers, reference
from corrnoise.designs.record import Design
from corrnoise.simulations.noise_stream import stream_sensitivity
from corrnoise.support.memory import memory
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.participation import Participation, checked_run
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.toeplitz import SCALES, ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import ArrayLike
from corrnoise.theory.privacy import Adjacency, gaussian_rho, zero_out_rho
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

LARGEST_DIMENSION = 1_000_000  #: largest dimension for which errors are computed, in about a minute each
_BYTES_A_STEP = 600  # memory of coefficients, their transforms and their text


def design(
    problem: Problem,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    steps: int | None = None,
    min_sep: int = 1,
    max_participations: int = 1,
    clip_norm: float = 1.0,
    adjacency: Adjacency = "zero-out",
    initial_offset: ArrayLike = 0.0,
    tune_learning_rate: bool = False,
    tolerance: float = 1e-6,
    notes: Sequence[str] = (),
    metadata: Mapping[str, Value] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Design:
    """The optimal noise of a problem for a privacy budget, in the forms in which it runs.

    Parameters
    ----------
    problem
        ``LinearRegression`` or ``MeanEstimation`` with a stable learning rate: the noise minimises the exact stationary
        error.  ``StronglyConvex``: it minimises an upper bound of it (criterion ``"objective"``).  A step has one
        example.
    epsilon, delta
        The run must be (ε, δ)-DP.  The noise is the least with which one Gaussian mechanism is.
    rho
        The run must be ρ-zCDP, with ρ in [1e-100, 1e100]; given instead of ``epsilon`` and ``delta``.
    steps
        Horizon T >= 1; None for any number of steps, which needs a little more noise.  The horizon determines how much
        noise is needed, but not its correlation, which is that of long runs.
    min_sep, max_participations
        One example takes part in at most ``max_participations`` steps, any two of them at least ``min_sep`` apart.
        More than one needs ``steps`` and a quadratic problem.  The noise is then the better of two, the optimal noise
        for single participation and ν-DP-FTRL with the best ν for this participation (``solvers.tuning.best_noise``).
    clip_norm
        G, in [1e-100, 1e100].
    adjacency
        ``"zero-out"`` or ``"replace-one"``.
    initial_offset
        θ_0 − θ* in the eigenbasis, a number or shape (d,): the start of the runs that are compared.
    tune_learning_rate
        Whether to take the learning rate with the smallest error after ``steps`` steps from ``initial_offset`` in place
        of the problem's own; for quadratic problems.
    tolerance
        Relative error of the variances of the stream (``rational_approximation``), in [1e-12, 1).
    notes
        Sentences that the report repeats.
    metadata
        Other data to keep: strings, finite numbers and booleans by name.
    progress
        Called with a line of text before every longer part.  With it the comparison is computed at once; without it,
        at its first use.

    Returns
    -------
    ``Design``, with ``epsilon``, ``delta`` and ``tolerance`` in its metadata.

    Raises
    ------
    ValueError
        The budget is not given in exactly one way, the learning rate is unstable, the run is too long for the memory of
        this machine, an example takes part more than once, or an argument is out of its range.

    Examples
    --------
    >>> import corrnoise as cn
    >>> problem = cn.LinearRegression([1.0, 0.3, 0.1], learning_rate=0.1)
    >>> design = cn.design(problem, epsilon=2.0, delta=1e-6, steps=1000, initial_offset=0.5)
    >>> print(f"{design.comparison['DP-SGD'].best_ratio:.2f}")  # DP-SGD at its own best learning rate
    5.77
    >>> print(f"{design.buffers_multiplier:.3f}")  # of the clip norm, for a library that runs the buffers
    2.842
    """
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of a line of text, or None, got {progress!r}")
    show = progress or (lambda _: None)
    rho, promised = _budget(epsilon, delta, rho)
    run = checked_run(steps, min_sep, max_participations)
    _check_size(problem, steps)
    if several(run) is not None and isinstance(problem, StronglyConvex):
        raise ValueError(f"max_participations must be 1 for strongly convex losses, got {max_participations}")
    tolerance = checks.real("tolerance", tolerance, "[1e-12, 1)")
    kept: dict[str, Any] = {"tolerance": tolerance, **promised, **checked_metadata(metadata or {})}
    budget = {"rho": zero_out_rho(checks.real("rho", rho, SCALES), adjacency), "clip_norm": clip_norm}
    found_notes = list(checked_notes(notes))
    checked_offset(initial_offset, problem)
    if checks.boolean("tune_learning_rate", tune_learning_rate):
        show("the best learning rate")
        problem, note = _tuned(problem, run, initial_offset, budget)
        kept[TUNED] = True
        found_notes.append(note)
    show("the optimal noise")
    noise = _optimum(problem, run, budget)
    show("a stream with few poles")
    stream = _stream(noise, tolerance, run)
    show("buffers for other libraries")
    made = Design(
        noise,
        stream,
        fitted_buffers(stream, reference(noise, run, problem.rates), tolerance),
        rho=rho,
        steps=steps,
        min_sep=min_sep,
        max_participations=max_participations,
        clip_norm=clip_norm,
        adjacency=adjacency,
        problem=problem,
        initial_offset=initial_offset,  # type: ignore[arg-type]
        notes=tuple(found_notes),
        metadata=kept,
    )
    if progress is not None:
        made._set(comparison=compare(made, progress))
    return made


def _budget(epsilon: float | None, delta: float | None, rho: float | None) -> tuple[float, dict[str, float]]:
    """ρ, and the guarantee as it was requested."""
    if rho is not None and epsilon is None and delta is None:
        return rho, {}
    if rho is None and epsilon is not None and delta is not None:
        return gaussian_rho(epsilon, delta), {"epsilon": float(epsilon), "delta": float(delta)}
    raise ValueError(
        "the budget must be given either by rho or by epsilon and delta, "
        f"got epsilon={epsilon!r}, delta={delta!r}, rho={rho!r}"
    )


def _check_size(problem: object, steps: int | None) -> None:
    """Refuse problems of another kind, and runs that this machine cannot hold."""
    if not isinstance(problem, tuple(PROBLEMS.values())):
        raise TypeError(f"problem must be one of {', '.join(PROBLEMS)}, got {problem!r}")
    if isinstance(problem, QuadraticProblem) and problem.eigenvalues.size > LARGEST_DIMENSION:
        raise ValueError(
            f"problem must have at most {LARGEST_DIMENSION} eigenvalues, got {problem.eigenvalues.size}: use fewer of "
            "them, such as quantiles of the spectrum"
        )
    if steps is None:
        return
    need = _BYTES_A_STEP * checks.integer("steps", steps, 1)
    there = memory()
    if need > there:
        raise ValueError(
            f"steps must be at most {there // _BYTES_A_STEP} on this machine, got {steps}: its coefficients take about "
            f"{need / 2**30:.3g} GiB of memory, of {there / 2**30:.3g} GiB.  Leave the number of steps out: the design "
            "then holds for any number of steps"
        )


def _optimum(problem: Problem, run: Participation | None, budget: dict[str, Any]) -> ToeplitzNoise:
    if isinstance(problem, StronglyConvex):
        from corrnoise.solvers.strongly_convex.alternating_minimisation import minimise_strongly_convex_bound

        return minimise_strongly_convex_bound(problem, **budget, criterion="objective").noise
    from corrnoise.solvers.tuning import best_noise

    return best_noise(problem, horizon=several(run), **budget)


def _stream(noise: ToeplitzNoise, tolerance: float, run: Participation | None) -> PoleNoise | FiniteNoise:
    """Rational noise in place of ``noise``, whose rounding errors are covered for the run."""
    from corrnoise.solvers.rational.approximation import rational_approximation

    stream = rational_approximation(noise, tolerance)
    if math.isinf(stream_sensitivity(stream, run, "recurrence")):
        raise ValueError(
            f"steps must be given for this problem, got {None if run is None else run.steps}: the memory of its "
            "optimal noise is so long that the rounding errors of float64 are not bounded in runs of any length"
        )
    return stream


def _tuned(
    problem: Problem, run: Participation | None, initial_offset: ArrayLike, budget: dict[str, Any]
) -> tuple[Problem, str]:
    """The problem at the best learning rate for the run, and a sentence about it."""
    from corrnoise.solvers.tuning import best_learning_rate, best_noise

    if isinstance(problem, StronglyConvex):
        raise ValueError(
            "tune_learning_rate must be False for StronglyConvex, whose bounds fall with the learning rate"
        )
    if run is None:
        raise ValueError("tune_learning_rate must come with steps: it minimises the error after so many steps")
    found = best_learning_rate(
        problem,
        run.steps,
        lambda tuned: best_noise(tuned, horizon=several(run), **budget),
        initial_offset=initial_offset,
        participation=run,
        **budget,
    )
    tuned: Problem = type(problem)(**{**problem.arguments(), "learning_rate": found.learning_rate})
    return tuned, (
        f"The learning rate {found.learning_rate!r} has the smallest expected error after {run.steps} steps from this\n"
        f"start, {found.error:.6g}, with the optimal noise for each learning rate."
    )
