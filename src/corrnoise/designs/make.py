"""Making a design: the best noise for a problem or a workload and a budget, in all forms in which it can be run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corrnoise.designs.comparison import TUNED, compare, several
from corrnoise.designs.covered_noise import (
    PROBLEMS,
    Problem,
    Stream,
    Value,
    checked_metadata,
    checked_notes,
    checked_offset,
)
from corrnoise.designs.handover import fitted_buffers, reference
from corrnoise.designs.record import Design
from corrnoise.designs.run import Run, run_of, workload_of
from corrnoise.designs.selected import Limit, Selected, checked_limit, selected_for_learning, selected_for_workload
from corrnoise.simulations.noise_stream import stream_sensitivity
from corrnoise.support.memory import memory
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.toeplitz import SCALES, ToeplitzNoise
from corrnoise.theory.workloads import Workload
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import ArrayLike
from corrnoise.theory.privacy import Adjacency, gaussian_rho, zero_out_rho
from corrnoise.theory.problems.learning_objective import When
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

LARGEST_DIMENSION = 1_000_000  #: largest dimension for which errors are computed, in about a minute each
LARGEST_LEARNING = 4_000_000  #: largest product of steps and dimension for which learning is judged, in seconds
_ANY_LENGTH = "  Leave the number of steps out: the design then holds for any number of steps"
LARGEST_DIMENSION = 1_000_000  #: largest dimension for which errors are computed, in about a minute each
LARGEST_LEARNING = 4_000_000  #: largest product of steps and dimension for which learning is judged, in seconds
_BYTES_A_STEP = 600  # memory of coefficients, their transforms and their text


def design(
    problem: Problem | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    steps: int | None = None,
    min_sep: int = 1,
    max_participations: int = 1,
    clip_norm: float = 1.0,
    adjacency: Adjacency = "zero-out",
    epochs: int | None = None,
    steps_per_epoch: int | None = None,
    examples: int | None = None,
    batch_size: int | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    learning_rates: ArrayLike | None = None,
    cool_down: float | None = None,
    memory: float | None = None,
    poles: int | None = None,
    bands: int | None = None,
    scales: bool = True,
    judged: When = "second half",
    initial_offset: ArrayLike = 0.0,
    tune_learning_rate: bool = False,
    tolerance: float = 1e-6,
    notes: Sequence[str] = (),
    metadata: Mapping[str, Value] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Design:
    """The best noise of a run for a privacy budget, in the forms in which it runs.

    With single participation in a quadratic problem this is the noise with the smallest stationary error of all.  With
    several participations, with a memory limit, or without a problem it is the best of all mechanisms that stream,
    within the limit; ``design.choice`` holds the alternatives, a certified floor, and what more memory would buy.

    Parameters
    ----------
    problem
        ``LinearRegression`` or ``MeanEstimation`` with a stable learning rate: the noise minimises the exact stationary
        error, or, where a mechanism is chosen, what privacy adds to the error of the run.  ``StronglyConvex``: it
        minimises an upper bound (criterion ``"objective"``).  None where no spectrum is known: the noise then minimises
        the mean squared error of the iterates of the optimiser, which needs ``steps``.
    epsilon, delta
        The run must be (ε, δ)-DP.  The noise is the least with which one Gaussian mechanism is.
    rho
        The run must be ρ-zCDP, with ρ in [1e-100, 1e100]; given instead of ``epsilon`` and ``delta``.
    steps
        Horizon T >= 1; None for any number of steps, which needs a little more noise.  The horizon determines how much
        noise is needed, but not its correlation, which is that of long runs.
    min_sep, max_participations
        One example takes part in at most ``max_participations`` steps, any two of them at least ``min_sep`` apart.
        More than one needs ``steps``, and a quadratic problem or none.
    clip_norm
        G, in [1e-100, 1e100].
    adjacency
        ``"zero-out"`` or ``"replace-one"``.
    epochs
        k, in place of ``min_sep`` and ``max_participations``: the data are visited k times, in the *same order* in
        every epoch.  Data that are shuffled anew need ``max_participations=k`` with ``min_sep=1``.
    steps_per_epoch, examples
        Length of an epoch in steps, or in examples, a multiple of ``batch_size``; one of them or ``steps`` comes with
        ``epochs``.
    batch_size
        Examples a step; None for that of the problem, or 1.  It changes errors and no multiplier, which belongs to the
        sum over the batch.
    momentum, weight_decay
        0 <= μ < 1 and ω >= 0 of the optimiser (``MomentumSGD``), without a problem.
    learning_rates
        Learning rates of all steps up to a common factor, shape (steps,), without a problem; None for a constant one.
    cool_down
        Share of the run, in (0, 1], in which the learning rate falls linearly to 0; in place of ``learning_rates``.
    memory
        The largest number of arrays of the size of the gradient that a stream may keep; ``math.inf`` for any.  None for
        16, or, with single participation in a problem, for what the optimal noise takes.
    poles, bands
        In place of ``memory``: only noise with at most so many poles, or with at most so many bands; with both, either.
    scales
        Whether the noise may have a factor for each step.  Such noise is better; a program that runs another form than
        the stream multiplies the noise of each step by its factor.
    judged
        Where a mechanism is chosen for a problem: ``"second half"``, the mean error of the second half of the run, or
        ``"last"``, that after the last step.
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
        The budget or the participation is not given in exactly one way, the learning rate is unstable, the run is too
        long for the memory of this machine, arguments contradict each other, or one is out of its range.

    Examples
    --------
    >>> import corrnoise as cn
    >>> problem = cn.LinearRegression([1.0, 0.3, 0.1], learning_rate=0.1)
    >>> design = cn.design(problem, epsilon=2.0, delta=1e-6, steps=1000, initial_offset=0.5)
    >>> print(f"{design.comparison['DP-SGD'].best_ratio:.2f}")  # DP-SGD at its own best learning rate
    5.77
    >>> print(f"{design.buffers_multiplier:.3f}")  # of the clip norm, for a library that runs the buffers
    2.842

    Four epochs of 100 steps, where no spectrum is known:

    >>> design = cn.design(epsilon=2.0, delta=1e-6, steps=400, epochs=4, memory=4)
    >>> design.choice.chosen.family, design.choice.chosen.memory
    ('buffers, epoch weights', 2)
    >>> print(f"{design.choice.chosen.error / design.choice.floor:.3f}")  # no mechanism of any form is below 1
    1.084
    """
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of a line of text, or None, got {progress!r}")
    show = progress or (lambda _: None)
    rho, promised = _budget(epsilon, delta, rho)
    problem, batch = _with_batch(problem, batch_size)
    given = run_of(
        steps,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        examples=examples,
        batch_size=batch,
        min_sep=min_sep,
        max_participations=max_participations,
    )
    steps = given.steps
    run = given.participation
    _check_size(problem, steps)
    limit = checked_limit(memory, poles, bands)
    checks.boolean("scales", scales)
    checks.choice("judged", judged, ("last", "second half"))
    _check_combination(problem, given, limit)
    optimiser: dict[str, Any] = {
        "momentum": momentum,
        "weight_decay": weight_decay,
        "learning_rates": learning_rates,
        "cool_down": cool_down,
    }
    workload = _workload(problem, steps, optimiser)
    tolerance = checks.real("tolerance", tolerance, "[1e-12, 1)")
    kept: dict[str, Any] = {"tolerance": tolerance, **promised, **checked_metadata(metadata or {})}
    budget = {"rho": zero_out_rho(checks.real("rho", rho, SCALES), adjacency), "clip_norm": clip_norm}
    found_notes = list(checked_notes(notes))
    checked_offset(initial_offset, problem)
    if checks.boolean("tune_learning_rate", tune_learning_rate):
        if problem is None:
            raise ValueError("tune_learning_rate must be False without a problem")
        show("the best learning rate")
        problem, note = _tuned(problem, run, initial_offset, budget)
        kept[TUNED] = True
        found_notes.append(note)
    found: Selected | None = None
    if workload is not None:
        assert run is not None
        kept |= {name: optimiser[name] for name in ("momentum", "weight_decay") if optimiser[name]}
        kept |= {"batch_size": batch} if batch > 1 else {}
        found = selected_for_workload(workload, run, limit, budget=budget, batch_size=batch, scales=scales, show=show)
    elif isinstance(problem, QuadraticProblem) and _chooses(problem, run, limit):
        assert run is not None
        found = selected_for_learning(
            problem, run, limit, budget=budget, when=judged, scales=scales, tolerance=tolerance, show=show
        )
    elif isinstance(problem, QuadraticProblem) and several(run) is not None:
        found_notes.append(
            "The run is too long, or the dimension too large, to compare all mechanisms: the noise is the better of\n"
            "the optimal noise for single participation and nu-DP-FTRL with the best nu for this participation."
        )
    stream: Stream
    if found is not None:
        noise, factors, stream, choice = found
    else:
        assert problem is not None
        factors = None
        choice = None
        show("the optimal noise")
        noise = _optimum(problem, run, budget)
        show("a stream with few poles")
        stream = _stream(noise, tolerance, run)
    show("buffers for other libraries")
    buffers = None
    plain = stream.noise if isinstance(stream, ScaledNoise) else stream
    if isinstance(plain, PoleNoise | FiniteNoise):
        rates = None if problem is None else problem.rates
        buffers = fitted_buffers(plain, reference(noise, run, rates, factors), tolerance)
    made = Design(
        noise,
        stream,
        buffers,
        rho=rho,
        steps=steps,
        min_sep=given.min_sep,
        max_participations=given.max_participations,
        clip_norm=clip_norm,
        adjacency=adjacency,
        problem=problem,
        initial_offset=initial_offset,  # type: ignore[arg-type]
        notes=tuple(found_notes),
        metadata=kept,
        scales=factors,
        choice=choice,
    )
    if progress is not None and problem is not None and factors is None:
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


def _with_batch(problem: Problem | None, batch_size: int | None) -> tuple[Problem | None, int]:
    """The problem with batches of this size, and the size."""
    if batch_size is not None:
        checks.integer("batch_size", batch_size, 1)
    if isinstance(problem, QuadraticProblem):
        if batch_size is None or batch_size == problem.batch_size:
            return problem, problem.batch_size
        if problem.batch_size != 1:
            raise ValueError(f"batch_size must be that of the problem, {problem.batch_size}, or None, got {batch_size}")
        batched: Problem = type(problem)(**{**problem.arguments(), "batch_size": batch_size})
        return batched, batch_size
    if problem is not None and batch_size not in (None, 1):
        raise ValueError(f"batch_size must be 1 for {type(problem).__name__}, got {batch_size}")
    return problem, batch_size or 1


def _check_combination(problem: Problem | None, run: Run, limit: Limit) -> None:
    """Refuse limits and participations for which no mechanism can be chosen."""
    if run.steps is None and (problem is None or limit != Limit()):
        reason = "without a problem" if problem is None else "with memory, poles or bands"
        raise ValueError(f"steps must be given {reason}, got None")
    if isinstance(problem, StronglyConvex):
        if run.max_participations > 1:
            raise ValueError(f"max_participations must be 1 for strongly convex losses, got {run.max_participations}")
        if limit != Limit():
            raise ValueError("memory, poles and bands must be None for strongly convex losses")


def _workload(problem: Problem | None, steps: int | None, optimiser: dict[str, Any]) -> Workload | None:
    """The workload of a run without a problem; with one, an optimiser other than plain SGD is refused."""
    if problem is None:
        assert steps is not None
        return workload_of(steps, **optimiser)
    for name, value in optimiser.items():
        if value is not None and not (isinstance(value, int | float) and value == 0):
            raise ValueError(
                f"{name} must not come with a problem, whose errors are those of SGD with a constant learning rate: "
                "leave the problem out, and the noise is the best for the iterates of this optimiser"
            )
    return None


def _chooses(problem: QuadraticProblem, run: Participation | None, limit: Limit) -> bool:
    """Whether a mechanism is chosen for the run, in place of the optimum for long runs."""
    if run is None or (run.once and limit == Limit()):
        return False
    if run.steps * problem.eigenvalues.size <= LARGEST_LEARNING:
        return True
    if limit == Limit():
        return False
    raise ValueError(
        f"steps times the number of eigenvalues must be at most {LARGEST_LEARNING} to choose a mechanism for a "
        f"problem, got {run.steps} times {problem.eigenvalues.size}: use fewer eigenvalues, such as quantiles"
    )


def _check_size(problem: object, steps: int | None) -> None:
    """Refuse problems of another kind, and runs that this machine cannot hold."""
    if problem is not None and not isinstance(problem, tuple(PROBLEMS.values())):
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
            f"{need / 2**30:.3g} GiB of memory, of {there / 2**30:.3g} GiB.{'' if problem is None else _ANY_LENGTH}"
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
