"""One front of the solvers: the best noise for a run within a memory, and a lower bound for all noise.

``optimise`` tunes families of noise (``families``) for the quadratic form of the run at several memories, and lists all
of them.  Where the form is a linear system, as for workloads and for learning, buffers whose numbers depend on the step
contain all other families with few buffers: no other family is compared.

The lower bound (``certified.floor``) holds for *every* strategy: a dual bound over patterns of the participation.

Where batches are sampled an accountant takes the place of the sensitivity, and no lower bound is known (``sampled``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from corrnoise.solvers.families.band_mf import BandMF
from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.families.registry import TIME_VARYING, USUAL_MEMORY, compared, resolved
from corrnoise.solvers.families.time_varying_family import TimeVarying
from corrnoise.solvers.learning import endless_optimum, regularised_floor
from corrnoise.solvers.optimum import Optimum, label
from corrnoise.solvers.sampled import NO_FLOOR, sampled_noises
from corrnoise.support.progress import Progress
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.memory import return_free_memory
from corrnoise.theory.objectives.base import Minimisable, Objective, checked_minimisable
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import ANY_LENGTH, FixedEpochs, Participation
from corrnoise.theory.privacy import Budget

Families = str | Family | Sequence[str | Family]  #: an argument ``family`` that is not None
USUAL_SLACK = 0.01  #: relative excess over the least error that is accepted for less memory, where none is asked for
AUTO: Literal["auto"] = "auto"  #: replays are chosen with the memory
USUAL_REPLAYS = 3  #: earlier draws that a step may make again where their number is chosen
_REPLAY_SLACK = 0.005  # relative excess over the least error that is accepted for fewer replays


@usual_float_errors
def optimise(
    objective: Minimisable | None = None,
    participation: Participation | None = None,
    *,
    memory: float | None = None,
    replays: int | Literal["auto"] = 0,
    family: Families | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Optimum:
    """The best correlated noise for a run, with a lower bound for all other noise.

    Without ``family`` it compares independent noise and time-varying buffers: no other family of the literature has a
    smaller error with at most 16 buffers.  Where the objective is not a linear system, or more than 16 buffers are
    allowed, it also compares BLT, BandInvMF and banded Toeplitz strategies.  All other families are baselines, which
    are compared if they are named.

    Where batches are sampled the optimum depends on the budget, and no lower bound is known.  Poisson sampling and
    redrawn bins have independent noise; cyclic Poisson sampling has banded Toeplitz strategies with a band for each
    group; balls in bins have BLT, nu-DP-FTRL and BSR.  Without ``family``, Poisson and cyclic Poisson sampling of at
    most 4096 steps also have step scales: noise that grows during the run.

    Parameters
    ----------
    objective : Minimisable, optional
        The error to minimise.  ``SGD`` (None: with its defaults, prefix sums) or a workload: the root mean squared
        error.  A problem or ``LearningObjective``: the excess loss that privacy adds, for a problem in the mean over
        the second half of the run, or without a finite run its stationary error.  ``StronglyConvex``: an upper bound of
        the stationary error.  ``LargestError(workload)``: the largest error of a step.  A workload that is
        neither Toeplitz nor a linear system has at most 4096 steps.
    participation : Participation, optional
        The steps of each example.  A random order that is not sampled is judged by its worst case.  None, or a run of
        any length, for problems only.
    memory : float, optional
        The number of model-sized buffers that a run may keep, >= 0; ``math.inf`` for any number, 0 for independent
        noise.  None for at most 16, and the fewest with an error within 1 % of the best of these.  The search ends
        after two buffers in turn that gain less than 0.1 % each.  With one ``family`` it is the memory of the member.
    replays : int or {"auto"}, default 0
        The largest number of earlier draws that a step may make again, for time-varying buffers in fixed epochs of at
        most a million steps times epochs.  A replay takes the time of a draw and no memory.  ``"auto"`` chooses the
        memory for at most 3 replays, then the fewest with an error within 0.5 % of that.  Federated participants, other
        libraries and noise on accelerators make no earlier draws: for them leave 0.
    family : str or Family or sequence of these, optional
        The families to compare, by name, alias or object (``cn.families``); None for the families that can be best.
    budget : Budget, optional
        The privacy budget by ε and δ; for sampled batches only.
    progress : Callable, optional
        Called with a line of text before every longer part, and in the longest part with the seconds that are left.

    Returns
    -------
    Optimum
        ``mechanism.program(participation)`` runs it; ``alternatives`` are all other mechanisms that were compared.

    Raises
    ------
    ValueError
        The participation does not fit the objective, the run is too long for the objective, no member of the families
        keeps as few buffers, no family has the name, ``replays`` is negative or another word, or the budget is missing
        where batches are sampled.
    TypeError
        An argument has another type.

    Examples
    --------
    >>> import corrnoise as cn
    >>> epochs = cn.Participation.fixed_epochs(400, epochs=4)
    >>> best = cn.optimise(cn.SGD(), epochs, memory=4)
    >>> best.family, best.memory, round(best.optimality_gap, 3)
    ('time-varying buffers', 4, 0.038)
    >>> some = cn.optimise(cn.SGD(), epochs, memory=4, family=["BLT", "BandInvMF"])
    >>> some.family, round(some.optimality_gap, 3)
    ('BLT', 0.108)
    """
    show = progress or (lambda _: None)
    what = SGD() if objective is None else objective
    if memory is not None and not (isinstance(memory, float) and memory == math.inf):
        memory = checks.integer("memory", memory, 0)
    who = ANY_LENGTH if participation is None else participation
    what = checked_minimisable(what).for_run(who)
    if not isinstance(what, Objective):
        only = None if family is None else family if isinstance(family, str) else [one.name for one in resolved(family)]
        return endless_optimum(what, who, family=only)
    auto = isinstance(replays, str)
    if auto and replays != AUTO:
        raise ValueError(f"replays must be an integer >= 0 or {AUTO!r}, got {replays!r}")
    most = USUAL_REPLAYS if auto else checks.integer("replays", replays, 0)
    run, asked = Problem(what, who, most), resolved(family)
    if who.sampled:
        return _sampled(run, budget, memory, asked, show)
    if len(asked) == 1:
        found = list(_members_of(run, asked[0], memory, show))
        best = choose(((one.error, one) for one in found), math.inf if isinstance(memory, int) else memory)
    else:
        found = list(_members(run, asked or compared(run, memory), memory, show))
        if not any(memory is None or one.memory <= memory for one in found):
            raise ValueError(f"memory must be larger for {', '.join(one.name for one in asked)}, got {memory}")
        best = choose(((one.error, one) for one in found), memory)
    if auto and best.replays:
        found += _with_fewer_replays(run, best, show)
        enough = [one for one in found if one.memory <= best.memory and one.error <= (1 + _REPLAY_SLACK) * best.error]
        best = min(enough, key=lambda one: (one.replays, one.error))
    return_free_memory()
    show("the lower bound for all noise")
    others = tuple(run.with_floor(one) for one in found if one is not best)
    own = next((one for one in asked if (one.name, one.variant) == (best.family, best.variant)), None)
    if own is not None:
        best = replace(best, certificate=own.certificate(run, best.mechanism))
    return replace(run.with_floor(best), alternatives=others)


def choose(candidates: Iterable[tuple[float, Optimum]], memory: float | None) -> Optimum:
    """The best optimum within the memory; if it is None, the one with the least memory within the usual slack.

    Parameters
    ----------
    candidates : Iterable of (float, Optimum)
        Optima with their errors.
    memory : float, optional
        The largest number of buffers.

    Returns
    -------
    Optimum
    """
    most = USUAL_MEMORY if memory is None else memory
    rows = [(one.memory, error, one) for error, one in candidates]
    allowed = [row for row in rows if row[0] <= most] or [min(rows, key=lambda row: row[0])]
    limit = (1 + USUAL_SLACK if memory is None else 1.0) * min(error for _, error, _ in allowed)
    return min((row for row in allowed if row[1] <= limit), key=lambda row: row[:2])[2]


def _with_fewer_replays(run: Problem, best: Optimum, show: Progress) -> Iterator[Optimum]:
    """Buffers of the same memory with fewer and fewer replays, down to the first that lose too much, and with none."""
    replays, enough = best.replays, True
    while replays > 0:
        replays = replays - 1 if enough else 0
        fewer = Problem(run.objective, run.promised, replays)
        (mechanism,) = TIME_VARYING.members(fewer, [best.memory], show)
        found = run.evaluate(mechanism, TIME_VARYING.name)
        enough = found.error <= (1 + _REPLAY_SLACK) * best.error
        yield found


def _sampled(
    run: Problem, budget: Budget | None, memory: float | None, asked: tuple[Family, ...], show: Progress
) -> Optimum:
    """The best noise for a sampler at a budget."""
    who = run.promised
    if budget is None or budget.epsilon is None:
        raise ValueError(
            f"budget must be given by epsilon and delta where batches are sampled, got {budget!r}: give both, or "
            "use participation.worst, which needs no accountant"
        )
    most = USUAL_MEMORY if memory is None else memory
    candidates = []
    for one in sampled_noises(run.objective, who, budget, most, {label(one.name, one.variant) for one in asked}, show):
        found = run.evaluate(one.mechanism, one.family, one.variant)
        candidates.append((found.error_with(one.estimate), found))
    if not candidates:
        names = ", ".join(repr(one.name) for one in asked)
        raise ValueError(f"family must be made for {who.label} within memory={memory}, got {names}")
    best = choose(candidates, memory)
    plain = (one for _, one in candidates if best.variant and (one.family, one.variant) == (best.family, ""))
    return replace(best, certificate=NO_FLOOR, alternatives=tuple(plain))


def _members(run: Problem, families: Iterable[Family], memory: float | None, show: Progress) -> Iterator[Optimum]:
    """The members of several families, at the sizes that a comparison tries."""
    made = [
        (one, mechanism)
        for one in families
        if (sizes := one.sizes(run, memory))
        for mechanism in one.members(run, sizes, show)
    ]
    return_free_memory()  # because judging long runs of learning takes much, and so does the lower bound
    return (run.evaluate(mechanism, one.name, one.variant) for one, mechanism in made)


def _members_of(run: Problem, family: Family, memory: float | None, show: Progress) -> Iterator[Optimum]:
    """The members of one family: with this memory, or with the usual ones."""
    largest, name = family.most(run), family.name
    sizes = family.sizes(run, memory)
    if isinstance(memory, int) and (largest or sizes):
        if largest > memory == 0:
            raise ValueError(f"memory must be at least 1 for {name!r}, got 0")
        sizes = [min(memory, largest)]
    elif memory is None:
        sizes = [size for size in sizes if size <= USUAL_MEMORY] or sizes
    if not sizes:
        raise ValueError(f"family {name!r} needs {family.needs}, got {run.objective!r:.80} under {run.promised!r}")
    epochs = run.who.once or isinstance(run.who, FixedEpochs)
    if epochs and isinstance(family, TimeVarying | BandMF) and run.objective.regularised:
        squared, certificate = regularised_floor(run.objective, run.who)
        run.lower_bound = (squared, certificate.rigorous, certificate)
    for mechanism in family.members(run, sizes, show):
        found = run.evaluate(mechanism, name, family.variant)
        if isinstance(memory, int) and found.memory > memory:
            raise ValueError(f"memory must be at least {found.memory} for {name!r}, got {memory}")
        yield found
