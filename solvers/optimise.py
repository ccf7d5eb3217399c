"""One front of the solvers: the best noise for a run within a memory, beside what no noise can beat.

``optimise`` tunes each family of the ``catalogue`` for the quadratic form of the run at several memories, and lists all
of them.  Where the form is a linear system, as that of workloads and of learning is, buffers whose numbers depend on
the step (``families.time_varying``) hold all others of few arrays: buffers with unit columns, epoch weights and any
other factors of steps.  These factors are tried under promises for which the search does not know the worst pattern,
and for other forms.

The floor (``certified.floor``) is a lower bound for *every* strategy: a dual bound of the form for fixed epochs.  Its
patterns are patterns of any participation with the same count k and a separation of at most ceil(n/k), so that it
bounds these too.

Where batches are sampled an accountant takes the place of the sensitivity, and no floor is known (``sampled``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from corrnoise.solvers.catalogue import (
    BANDS,
    DENSE,
    FAMILIES,
    INVERSE,
    TIME_VARYING,
    UNIT,
    USUAL_MEMORY,
    WEIGHTED,
    Family,
    Objective,
    Search,
    dense_optimum,
    few_time_varying,
    rational_nu,
    rational_optimum,
    scaled_members,
)
from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.time_varying import time_varying_buffers
from corrnoise.solvers.learning import (
    STATIONARY,
    STRONGLY_CONVEX,
    learning_floor,
    stationary_optimum,
    strongly_convex_optimum,
)
from corrnoise.solvers.optimum import Certificate, Optimum
from corrnoise.solvers.sampled import BUFFERS, INDEPENDENT, NO_FLOOR, NU, TOEPLITZ, sampled_family, sampled_noises
from corrnoise.support.suggestions import did_you_mean
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX, Mechanism
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.memory import return_free_memory
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

Progress = Callable[[str], None]
USUAL_SLACK = 0.01  #: by which its error may then exceed the least, for less memory
_LARGEST_TREE = 1024  # steps, at O(n³)


@usual_float_errors
def optimise(
    objective: Objective | None = None,
    visits: Participation | None = None,
    *,
    memory: float | None = None,
    family: str | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Optimum:
    """The best correlated noise for a run, and how much better any other can be.

    The optimum's ``mechanism.program(participation)`` runs.  Its alternatives are all other mechanisms that were
    compared.
    Raises ``ValueError`` where the visits do not fit to the objective, the run is too long for the objective,
    no member of the family keeps as little memory, or the budget is missing where batches are sampled.

    ================================  =====================================================  ==================  ======
    family                            noise                                                  memory              asked
    ================================  =====================================================  ==================  ======
    ``"independent noise"``           DP-SGD                                                 0
    ``"nu-DP-FTRL"``                  the best ν, by few poles                               about log2 n
    ``"buffers"``                     interlacing zeros and poles                            1 to 16
    ``"banded inverse"``              few coefficients of the noise                          any
    ``"best Toeplitz"``               few coefficients of the strategy                       up to an epoch
    ``"time-varying buffers"``        buffers whose numbers depend on the step               1 to 16
    ``"binary tree"``                 sums over dyadic intervals                             log2 n + 1
    ``"binary tree, online"``         the same with Honaker's estimate from below            log2 n + 1
    ``"stationary optimum"``          of a problem, by few poles                             log2 of 1/rate
    ``"anti-PGD"``                    1 − λz with the best λ (λ-CGD)                         1                   only
    ``"damped root"``                 few coefficients of (1 − (1 − ν) z)^γ                  any                 only
    ``"banded square root"``          few coefficients of the strategy (1 − z)^{−1/2}        up to an epoch      only
    ``"banded inverse square root"``  few coefficients of (1 − z)^{1/2}                      any                 only
    ``"any bands"``                   a strategy of few bands, with certificate              up to an epoch      only
    ``"dense"``                       a strategy of any form, with certificate               all steps           only
    ``"strongly convex bound"``       the least bound, for ``StronglyConvex``                few poles           only
    ================================  =====================================================  ==================  ======

    Families that are asked for "only" are not compared.  The Toeplitz ones have the members ``"…, unit columns"`` and
    ``"…, epoch weights"``, with a factor for each step; those of buffers and best Toeplitz are compared where
    time-varying buffers do not hold them.

    Where batches are sampled the optimum depends on the budget, and no floor is known.  Poisson sampling and redrawn
    bins have ``"independent noise"``; cyclic Poisson sampling has ``"best Toeplitz"`` with a band for each group; balls
    in bins have ``"buffers"``, ``"nu-DP-FTRL"`` and ``"banded square root"``.

    Parameters
    ----------
    objective : ``SGD`` (None: with its defaults, prefix sums) or any workload, whose root mean squared error is judged;
        the objective of learning; or a problem.  A problem with a finite run stands for what privacy adds to F − F* in
        the mean over the second half of the run; without one, for the stationary optimum.  ``StronglyConvex`` has the
        noise with the least bound.  A workload that is neither learning nor Toeplitz has above 4096 steps independent
        noise and time-varying buffers if it is a linear system, as schedules are, and is otherwise refused.
        ``run_objective(workload, "max")`` stands for the largest error of a step.
    visits : who takes part when
        The mechanisms are chosen and judged under this promise; for a random order that is not sampled under the worst
        one.  None, or a run of any length, for problems only.
    memory : how many arrays of the size of the gradient a run may keep, >= 0; ``inf`` for any number, 0 for independent
        noise.  None for at most 16, and the fewest within 1 percent of the best of these.  With a ``family`` it is the
        memory of the member that is made, if there is one.
    family : one of the table below; None to compare them
    budget : what the run may spend, by ε and δ; for sampled batches only
    progress : called with a line of text before every longer part, and in the longest with the seconds that are left

    Examples
    --------
    >>> epochs = Participation.fixed_epochs(400, epochs=4)
    >>> best = optimise(SGD(), epochs, memory=4)
    >>> best.family, best.memory, round(best.ratio, 3)
    ('time-varying buffers', 4, 1.038)
    """
    show = progress or (lambda _: None)
    what = SGD() if objective is None else objective
    if memory is not None and not (isinstance(memory, float) and memory == math.inf):
        memory = checks.integer("memory", memory, 0)
    if isinstance(what, StronglyConvex):
        _only(family, STRONGLY_CONVEX, what)
        return strongly_convex_optimum(what, visits)
    if isinstance(what, QuadraticProblem) and (visits is None or visits.steps is None):
        _only(family, STATIONARY, what)
        return stationary_optimum(what)
    if visits is None:
        raise ValueError(f"visits must be given for {what!r:.80}, got None")
    run = Search(what, visits)
    if visits.sampled:
        return _sampled(run, budget, memory, family, show)
    if family is None:
        made = list(_compared(run, memory, show))
        return_free_memory()  # because to judge long runs of learning takes much, and so does the floor
        found = [run.judged(*one) for one in made]
        best = best_within(((one.error, one) for one in found), memory)
    else:
        found = list(_members(run, checks.instance("family", family, str), memory, show))
        best = best_within(((one.error, one) for one in found), math.inf if isinstance(memory, int) else memory)
    return_free_memory()
    show("the floor: what no noise can beat")
    others = tuple(run.with_floor(one) for one in found if one is not best)
    if family is not None:
        best = replace(best, certificate=_certificate(run, best))
    return replace(run.with_floor(best), alternatives=others)


def _only(family: str | None, name: str, what: object) -> None:
    if family not in (None, name):
        raise ValueError(f"family must be None or {name!r} for {what!r:.80} in a run without end, got {family!r}")


def best_within(judged: Iterable[tuple[float, Optimum]], memory: float | None) -> Optimum:
    """The best of optima with their errors within the memory; the least memory within the usual slack if it is None."""
    most = USUAL_MEMORY if memory is None else memory
    rows = [(one.memory, error, one) for error, one in judged]
    allowed = [row for row in rows if row[0] <= most] or [min(rows, key=lambda row: row[0])]
    limit = (1 + USUAL_SLACK if memory is None else 1.0) * min(error for _, error, _ in allowed)
    return min((row for row in allowed if row[1] <= limit), key=lambda row: row[:2])[2]


def _sampled(run: Search, budget: Budget | None, memory: float | None, family: str | None, show: Progress) -> Optimum:
    """The best noise for a sampler at a budget."""
    who = run.promised
    if budget is None or budget.epsilon is None:
        raise ValueError(
            f"budget must be given by epsilon and delta where batches are sampled, got {budget!r}: give both, or "
            "promise participation.worst, which needs no accountant"
        )
    most = USUAL_MEMORY if memory is None else memory
    judged = []
    for one in sampled_noises(run.objective, who, budget, most, family, show):
        found = run.judged(sampled_family(one.family, who), one.mechanism)
        judged.append((found.error_with(one.estimate), found))
    if not judged:
        near = "" if family in FAMILIES else did_you_mean(str(family), FAMILIES)
        raise ValueError(f"family must be made for {who.kind} within memory={memory}, got {family!r}{near}")
    return replace(best_within(judged, memory), certificate=NO_FLOOR)


def _compared(run: Search, memory: float | None, show: Progress) -> Iterator[tuple[str, Mechanism]]:
    """All families that are compared and their mechanisms, in the order in which they are found."""
    n = run.steps
    few = few_time_varying(run, memory)
    yield INDEPENDENT, DPSGD()
    if run.objective.toeplitz:
        yield from _toeplitz(run, memory, 1 < n <= LARGEST_MATRIX and not few, show)
    if few:
        what = f"mechanisms: {TIME_VARYING} with up to {few[-1]}"
        show(what)
        for noise in time_varying_buffers(run.objective, run.who, few, lambda far: show(f"{what}: {far}")):
            yield TIME_VARYING, noise
    if n <= _LARGEST_TREE:
        for name in ("binary tree", "binary tree, online"):
            show(f"mechanisms: {name}")
            yield name, FAMILIES[name].make(run, 0)


def _toeplitz(run: Search, memory: float | None, with_scales: bool, show: Progress) -> Iterator[tuple[str, Mechanism]]:
    """The Toeplitz mechanisms that are compared, also with a factor for each step."""
    if isinstance(run.what, LearningObjective) and run.what.problem.instability() < 1:
        yield STATIONARY, rational_optimum(run)
    show(f"mechanisms: {NU}")
    yield NU, rational_nu(run, 0)
    for name in (BUFFERS, INVERSE, TOEPLITZ):
        family = FAMILIES[name]
        for size in family.sizes(run, memory) if family.sizes else []:
            show(f"mechanisms: {name} with {size}")
            noise = family.make(run, size)
            if name == BUFFERS and noise.memory(run.steps) < size:
                break  # more do not help
            yield name, noise
            if with_scales and name != INVERSE:
                assert isinstance(noise, ToeplitzNoise)
                yield from ((f"{name}, {kind}", one) for kind, one in scaled_members(run, noise).items())


def _members(run: Search, name: str, memory: float | None, show: Progress) -> Iterator[Optimum]:
    """The members of one family: that of the memory, or the usual ones."""
    show(f"mechanisms: {name}")
    if name == DENSE:
        yield dense_optimum(run)
        return
    base, _, kind = (name, "", "") if name in FAMILIES else name.rpartition(", ")
    if base not in FAMILIES or kind not in ("", UNIT, WEIGHTED):
        names = (*FAMILIES, DENSE, STRONGLY_CONVEX)
        known = f"{', '.join(names)}, or with {UNIT!r} or {WEIGHTED!r}"
        raise ValueError(f"family must be one of {known}, got {name!r}{did_you_mean(name, names)}")
    family = FAMILIES[base]
    if name in (TIME_VARYING, BANDS) and isinstance(run.what, LearningObjective):
        squared, certificate = learning_floor(run.what, run.who)
        run.floor = (squared, certificate.rigorous, certificate)
    for size in _sizes(run, name, family, memory):
        found = run.judged(name, _with_kind(run, family.make(run, size), kind))
        if isinstance(memory, int) and found.memory > memory:
            raise ValueError(f"memory must be at least {found.memory} for {name!r}, got {memory}")
        yield found


def _sizes(run: Search, name: str, family: Family, memory: float | None) -> list[int]:
    """The memories of the members that are made; the number does not matter where there is one member."""
    if family.sizes is None:
        return [0]
    if memory is not None and memory < 1:
        raise ValueError(f"memory must be at least 1 for {name!r}, got {memory}")
    if family.most(run) < 1:
        raise ValueError(f"participation must have a longer run or epoch for {name!r}, got {run.promised!r}")
    if isinstance(memory, int):
        return [min(memory, family.most(run))]
    sizes = family.sizes(run, memory)
    return sizes if memory is not None else [size for size in sizes if size <= USUAL_MEMORY] or sizes


def _with_kind(run: Search, noise: Mechanism, kind: str) -> Mechanism:
    """The noise with unit columns or epoch weights, if ``kind`` says so."""
    if not kind:
        return noise
    if not isinstance(noise, ToeplitzNoise):
        raise ValueError(f"family must be Toeplitz to have {kind}, got {type(noise).__name__}")
    scaled = scaled_members(run, noise)
    if kind not in scaled:
        raise ValueError(f"family must not have {kind} under {run.promised!r}")
    return scaled[kind]


def _certificate(run: Search, found: Optimum) -> Certificate | str:
    """The certificate of the family itself, where there is one."""
    noise = found.mechanism
    if found.family == TOEPLITZ and run.prefix and isinstance(noise, BandedStrategyNoise):
        return toeplitz.certificate(noise, run.start, run.kind) or ""
    return ""
