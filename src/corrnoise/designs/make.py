"""Making a design: the best noise for a budget, a participation and an objective."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from corrnoise.designs.design import Design
from corrnoise.designs.judging import light
from corrnoise.solvers.families.banded_toeplitz import BandedToeplitz
from corrnoise.solvers.families.registry import USUAL_MEMORY, resolved
from corrnoise.solvers.learning import STATIONARY, STRONGLY_CONVEX, endless_optimum
from corrnoise.solvers.optimal_noise import check_stable
from corrnoise.solvers.optimise import Families, choose, optimise
from corrnoise.solvers.optimum import INDEPENDENT
from corrnoise.solvers.sampled import best_groups, samplers
from corrnoise.support.memory import memory as memory_of_this_machine
from corrnoise.support.progress import Progress
from corrnoise.support.serialise import digest, plain
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.objectives.base import Minimisable, checked_minimisable
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import CyclicPoisson, Participation, Poisson
from corrnoise.theory.participation.legacy import stable_fields
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import QuadraticProblem, problem_of
from corrnoise.theory.problems.strongly_convex import StronglyConvex

BEST: Literal["best"] = "best"  #: noise and sampler are chosen together
LARGEST_DIMENSION = 1_000_000  #: largest dimension, whose errors take about a minute each
LARGEST_LEARNING = 4_000_000  #: largest product of steps and dimension for objectives of learning, in seconds
_BYTES_A_STEP = 600  # memory of coefficients, their transforms and their text


@usual_float_errors
def design(
    budget: Budget,
    participation: Participation | Sequence[Participation] | Literal["best"],
    objective: Minimisable | None = None,
    *,
    examples: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    memory: float | None = None,
    replays: int | Literal["auto"] = 0,
    family: Families | None = None,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Design:
    """The best noise for a budget and a way of visiting the data, with every way to run it.

    DP-SGD with Poisson batches is among its alternatives wherever the budget is given by ε and δ;
    ``design.dpsgd_is_better`` says whether that is better.

    Parameters
    ----------
    budget : Budget
        The privacy budget of the whole run, with the clipping norm.
    participation : Participation, sequence of Participation or {"best"}
        The steps of each example.  The loop that loads the data keeps to them; where batches are sampled the run draws
        them.  Of several ones the best is chosen.  ``"best"``: noise and sampler are chosen together, among the fixed
        order, Poisson, cyclic Poisson and balls in bins.
    objective : Minimisable, optional
        The error to minimise.  ``SGD``, or None for SGD with a constant learning rate: the mean squared error of the
        iterates due to noise, for a model without a known spectrum.  A workload: its mean squared error.
        ``LinearRegression`` or ``MeanEstimation``: F − F* due to privacy in the mean over the second half of the
        run, or, for a run of any length, F − F* in the limit; ``LearningObjective`` has other weights of the steps.
        ``StronglyConvex``, for a run of any length: an upper bound of F − F* in the limit.
    examples, batch_size, epochs : int, optional
        With ``"best"`` only: the size of the data, the mean size of a batch, and the number of epochs.  An epoch has
        examples // batch_size steps.
    memory : float, optional
        The largest number of arrays of the size of the gradient that a run may keep; 0 for independent noise and
        ``math.inf`` for any.  None for at most 16, and the fewest with an error within 1 % of the best of these.
    replays : int or {"auto"}, default 0
        The largest number of earlier draws that a step may make again, as for ``optimise``; ``"auto"`` chooses it.
    family : str, Family or sequence of str or Family, optional
        The families of noise to be tried, as for ``optimise``; None for all that can be best.
    notes : sequence of str, optional
        Sentences that the report repeats.
    progress : callable, optional
        Called with a line of text before every longer part.

    Returns
    -------
    Design

    Raises
    ------
    ValueError
        If an argument is out of its range or of another kind, the learning rate is unstable, the run is too long for
        the memory of this machine, or no accountant covers the participation.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> import corrnoise as cn
    >>> budget = cn.Budget(epsilon=2.0, delta=1e-6)
    >>> once = cn.Participation.single(64)
    >>> cn.design(budget, once, memory=0).family
    'independent noise'
    >>> problem = cn.LinearRegression([1.0, 0.3, 0.1], learning_rate=0.1)
    >>> print(f"{cn.design(budget, once, problem, memory=2).excess_loss:.4f}")
    0.0932
    """
    checks.instance("budget", budget, Budget)
    arguments = (
        budget,
        participation,
        objective,
        examples,
        batch_size,
        epochs,
        memory,
        family,
        *([replays] if replays else []),
    )
    wanted = checked_minimisable(SGD() if objective is None else objective)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of a line of text, or None, got {progress!r}")
    if participation == BEST:
        tried, wanted = _ways(budget, wanted, examples, batch_size, epochs, memory)
        if family is not None:
            raise ValueError(
                f"family must be None with participation={BEST!r}, got {family!r}: give a Participation with it"
            )
    elif (examples, batch_size, epochs) != (None, None, None):
        raise ValueError(
            f"examples, batch_size and epochs must come with participation={BEST!r}, got {participation!r:.80}"
        )
    else:
        several = participation if isinstance(participation, list | tuple) else [participation]
        tried = [checks.instance("participation", one, Participation) for one in several]
    if len(kept := {(one.unit, one.members) for one in tried}) > 1:
        raise ValueError(f"participation must have one unit and one number of members to compare, got {sorted(kept)}")
    steps = tried[0].steps
    if steps is not None and (need := _BYTES_A_STEP * steps) > (there := memory_of_this_machine()):
        raise ValueError(
            f"steps must be at most {there // _BYTES_A_STEP} on this machine, got {steps}: their "
            f"coefficients take about {need / 2**30:.3g} GiB of memory, of {there / 2**30:.3g} GiB"
        )
    _check_problem(wanted, steps, family)
    of_run = wanted.for_run(tried[0])
    if isinstance(of_run, StronglyConvex):
        _check_long(tried[0], memory, family)
        optimum = endless_optimum(of_run, tried[0], budget=budget)
    else:
        options: dict[str, Any] = {"memory": memory, "replays": replays, "budget": budget, "progress": progress}
        found = [optimise(wanted, one, family=family, **options) for one in _shortlist(tried, wanted, options, family)]
        best = found[0]
        if len(found) > 1:
            (progress or (lambda _: None))("accountants: the noise that each sampler needs")
            best = choose(((one.error_at(budget), one) for one in found), memory)
            found = best_groups(found, budget)
        if not any(isinstance(one, Poisson) for one in tried) and (poisson := _poisson(budget, tried[0])) is not None:
            found.append(optimise(wanted, poisson, family=INDEPENDENT, **options))
        others = [each for one in found for each in (one, *one.alternatives) if each is not best]
        optimum = replace(best, alternatives=tuple(replace(one, certificate="", alternatives=()) for one in others))
    return Design(budget, optimum.participation, light(optimum), wanted, tuple(notes), digest_of_search(arguments))


def _shortlist(
    tried: list[Participation], objective: Minimisable, options: dict[str, Any], family: Families | None
) -> list[Participation]:
    """The participations without the cyclic ones that lose without step scales, whose search takes seconds each."""
    cyclic = [one for one in tried if isinstance(one, CyclicPoisson)]
    if len(cyclic) < 2 or family is not None:
        return tried
    found = [optimise(objective, one, family=(INDEPENDENT, BandedToeplitz.name), **options) for one in cyclic]
    best = choose(((one.error_at(options["budget"]), one) for one in found), options["memory"])
    kept = [one.participation for one in (best, *best_groups(found, options["budget"]))]
    return [one for one in tried if one in kept or not isinstance(one, CyclicPoisson)]


def _stable(argument: object) -> object:
    """An argument with its participations as all versions describe them."""
    if isinstance(argument, list | tuple):
        return [_stable(one) for one in argument]
    return stable_fields(argument) if isinstance(argument, Participation) else argument


def digest_of_search(arguments: tuple[object, ...]) -> str | None:
    """A digest of the arguments of a search; None where an objective of the user cannot be written."""
    with suppress(TypeError):
        return digest(plain([_stable(one) for one in arguments]))[:32]
    return None


def _ways(
    budget: Budget,
    objective: Minimisable,
    examples: int | None,
    batch_size: int | None,
    epochs: int | None,
    memory: float | None,
) -> tuple[list[Participation], Minimisable]:
    """The ways of visiting the data that are compared, and the objective for batches of this size."""
    if examples is None or batch_size is None or epochs is None:
        raise ValueError(f"examples, batch_size and epochs must be given with participation={BEST!r}")
    size = checks.integer("batch_size", batch_size, 1)
    period = checks.integer("examples", examples, size) // size
    steps = period * checks.integer("epochs", epochs, 1)
    fixed = Participation.fixed_epochs(steps, period=period) if steps > period else Participation.single(steps)
    held = problem_of(objective) or objective
    known = getattr(held, "batch_size", size)
    if known == 1 and objective is held and isinstance(objective, SGD | QuadraticProblem):
        objective = type(objective)(**{**objective.arguments(), "batch_size": size})
    elif known != size:
        raise ValueError(f"batch_size must be {known}, that of the objective, got {size}")
    if _poisson(budget, fixed) is None:
        raise ValueError(
            f"budget must be given by epsilon and delta for zero-out adjacency with participation={BEST!r}, whose "
            f"accountants cover nothing else, got {budget!r}: use Participation.fixed_epochs, or give both"
        )
    most = USUAL_MEMORY if memory is None else memory
    return [fixed, *samplers(steps, period, size / examples, most)], objective


def _poisson(budget: Budget, participation: Participation) -> Participation | None:
    """Poisson sampling with batches of the same mean size; None where no accountant covers it."""
    covered = budget.epsilon is not None and budget.adjacency == "zero-out" and participation.members == 1
    if not covered or participation.steps is None:
        return None
    return Poisson(participation.steps, min(participation.sampling_rate, 1.0), unit=participation.unit)


def _check_problem(objective: Minimisable, steps: int | None, family: Families | None) -> None:
    """Refuse unstable problems, and those of so many eigenvalues that their errors would take minutes."""
    problem = problem_of(objective)
    if problem is None:
        return
    size = problem.eigenvalues.size
    stationary = [one.name for one in resolved(family)] == [STATIONARY]
    if size > LARGEST_DIMENSION or (steps is not None and not stationary and steps * size > LARGEST_LEARNING):
        run = "a run of any length" if steps is None else f"{steps} steps"
        most = LARGEST_DIMENSION if steps is None else min(LARGEST_DIMENSION, LARGEST_LEARNING // steps)
        raise ValueError(
            f"objective must have at most {most} eigenvalues for {run}, got {size}: use fewer of them, such as "
            f"quantiles of the spectrum, or family={STATIONARY!r}"
        )
    check_stable(problem)


def _check_long(participation: Participation, memory: float | None, family: Families | None) -> None:
    """Refuse arguments outside the bound for strongly convex losses, which is one of long runs."""
    if not participation.once:
        raise ValueError(f"participation must be single for strongly convex losses, got {participation!r}")
    if memory is not None or family not in (None, STRONGLY_CONVEX):
        raise ValueError(f"memory and family must be None for strongly convex losses, got {memory!r} and {family!r}")
