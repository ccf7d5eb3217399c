"""One front of the solvers: the best noise for a run within a memory, beside what no noise can beat.

A mechanism is judged by its squared error, the squared sensitivity under the promise of the run times the quadratic
form of the run (``objectives``): the mean squared error of a workload, or what privacy costs in learning.  Its memory
is the number of arrays of the size of the gradient that a run keeps.

``optimise`` tunes each family for this form at several memories, and lists all of them.  Where the form is a linear
system, as that of workloads and of learning is, buffers whose numbers depend on the step (``families.time_varying``)
hold all others of few arrays: buffers with unit columns, epoch weights and any other factors of steps.  These factors
are tried under promises for which the search does not know the worst pattern, and for other forms.  Epoch weights p_e
are shares of the budget: with at most ``period`` bands and columns of the squared norm p_e in epoch e the sensitivity
is at most 1.  With Q_ef the parts of the form by pairs of epochs at unit columns, the best weights minimise
(uᵀ Q u) Σ u_e⁻² over u_e = p_e^{−1/2}.

The floor is a lower bound for *every* strategy: a dual bound of the form for fixed epochs (``certified.fixed_epochs``
for prefix sums, ``certified.coarse_floor`` for the rest).  Its patterns are patterns of any participation with the same
count k and a separation of at most ceil(n/k), so that it bounds these too.

Where batches are sampled an accountant takes the place of the sensitivity, and no floor is known (``sampled``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds, fixed_epochs_strategy, in_fixed_epochs
from corrnoise.solvers.certified.floor import floor
from corrnoise.solvers.certified.single_participation import single_participation_bounds, single_participation_strategy
from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.banded import best_bands
from corrnoise.solvers.families.buffers import MOST as MOST_BUFFERS
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.time_varying import MOST as MOST_TIME_VARYING
from corrnoise.solvers.families.time_varying import best_time_varying, time_varying_buffers
from corrnoise.solvers.learning import (
    STATIONARY,
    STRONGLY_CONVEX,
    TOLERANCE,
    learning_floor,
    stationary_optimum,
    strongly_convex_optimum,
)
from corrnoise.solvers.objectives import RunObjective, dense_size, run_objective
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.optimum import Certificate, Optimum, unit_square
from corrnoise.solvers.rational.approximation import rational
from corrnoise.solvers.sampled import BUFFERS, INDEPENDENT, NO_FLOOR, NU, ROOT, TOEPLITZ, sampled_family, sampled_noises
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX, Mechanism
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from corrnoise.theory.workloads import SGD, PrefixSums, Workload

Progress = Callable[[str], None]
Objective = SGD | Workload | LearningObjective | RunObjective | QuadraticProblem | StronglyConvex

INVERSE = "banded inverse"
UNIT, WEIGHTED = "unit columns", "epoch weights"
TIME_VARYING, BANDS, DENSE = "time-varying buffers", "any bands", "dense"
USUAL_MEMORY = 16  #: arrays that a run may keep if no limit is given
USUAL_SLACK = 0.01  #: by which its error may then exceed the least, for less memory
_FEW_BUFFERS = 6
_MOST_COEFFICIENTS = 64  # of noise with few coefficients, whose search takes O(p²) memory
_MOST_BANDS = 64  # in runs of more than LARGEST_MATRIX steps, beside those that are asked for
_LONG = 100_000  # steps, beyond which only a _FEW of both are tried, unless more are asked for
_FEW = 8
_MOST_EPOCHS = 64  # for which weights are sought
_LARGEST_TREE = 1024  # steps, at O(n³)
_FEW_TIME_VARYING = (1, 2, 3, 4)  # buffers; in long runs
_LONG_TIME_VARYING = (2, 4)
_LARGEST_SYSTEM = 20_000_000  # steps times groups of a linear system, at about 10 bytes and 10 microseconds for each


class _Run:
    """A run to be optimised, and what its searches share."""

    def __init__(self, objective: Objective, participation: Participation) -> None:
        self.promised = checks.instance("participation", participation, Participation)
        self.who = participation.worst
        self.steps = n = self.who.length
        self.unit = 1.0
        what = objective
        if isinstance(what, SGD):
            self.unit = 1 / what.batch_size
            what = what.workload(n)
        elif isinstance(what, QuadraticProblem):
            what = LearningObjective(what, n, weights="second half")
        self.objective = what if isinstance(what, RunObjective) else run_objective(what)  # type: ignore[arg-type]
        if self.objective.steps != n:
            raise ValueError(
                f"participation must have steps={self.objective.steps} as the objective has, got {participation!r}"
            )
        self.what = self.objective.what
        self.kind = self.objective.kind
        self.prefix = isinstance(self.what, PrefixSums)
        #: Searches know patterns of min-sep and of fixed epochs; whatever they find is judged under the promise.
        self.start = Participation.min_sep(n, self.who.period) if self.who.kind == "reshuffled" else self.who

    @cached_property
    def nu(self) -> NuFTRL:
        return toeplitz.nu_ftrl(self.objective, self.start)

    @property
    def root(self) -> NuFTRL | None:
        """Where searches for coefficients start."""
        return None if self.prefix else self.nu

    @cached_property
    def floor(self) -> tuple[float | None, bool, Certificate | str]:
        """A lower bound of the squared error, whether it is rigorous, and its certificate or its reason."""
        return floor(self.objective, self.who)

    def judged(self, family: str, mechanism: Mechanism) -> Optimum:
        known = mechanism.bracket(self.who)
        square = unit_square(self.objective.measure, self.promised, known.upper)
        error = self.unit * self.objective.error(square * self.objective.power_of(mechanism))
        return Optimum(mechanism, self.promised, family, known, error, measure=self.objective.measure)

    def with_floor(self, found: Optimum) -> Optimum:
        squared, rigorous, certificate = self.floor
        floor = None if squared is None else self.unit * self.objective.error(squared)
        return replace(found, floor=floor, rigorous=rigorous, certificate=found.certificate or certificate)


# -- families ----------------------------------------------------------------------------------------------------------


class _Family(NamedTuple):
    """How the members of a family are made, by their memory."""

    make: Callable[[_Run, int], Mechanism]
    #: The memories that are tried; None if there is one member.
    sizes: Callable[[_Run, float | None], list[int]] | None = None
    #: The largest memory.
    most: Callable[[_Run], int] = lambda run: run.steps - 1


def _upto(most: int, memory: float | None) -> list[int]:
    """1, 2, 4, … and the memory asked for, all at most ``most``."""
    sizes = {2**i for i in range(most.bit_length()) if 2**i <= most}
    asked = () if memory is None or math.isinf(memory) else (int(memory),)
    return sorted(sizes | {size for size in asked if 1 <= size <= most})


def _few_buffers(run: _Run, memory: float | None) -> list[int]:
    finite = memory is not None and math.isfinite(memory)
    most = min(max(int(memory or 0), _FEW_BUFFERS), 8) if finite else _FEW_BUFFERS
    return list(range(1, min(most, run.steps // 2) + 1))


def _coefficients(run: _Run, memory: float | None) -> list[int]:
    return _upto(min(_MOST_COEFFICIENTS if run.steps <= _LONG else _FEW, run.steps - 1), memory)


def _bands(run: _Run, memory: float | None) -> list[int]:
    most = toeplitz.most_bands(run.start) - 1
    if run.steps > LARGEST_MATRIX:
        asked = int(memory) if memory is not None and math.isfinite(memory) else 0
        most = min(most, max(_MOST_BANDS if run.steps <= _LONG else _FEW, asked))
    return sorted({*_upto(most, memory), most} - {0})


def _rational_nu(run: _Run, _: int) -> ToeplitzNoise:
    """Rational noise in place of nu-DP-FTRL; at ν = 0, which has none, that of the smallest ν a run can see."""
    return rational(NuFTRL(max(run.nu.nu, 1e-3 / run.steps)), TOLERANCE)


def _damped_root(run: _Run, memory: int) -> ToeplitzNoise:
    count = min(memory + 1, run.steps - 1)  # with n coefficients it is no noise of few coefficients
    return toeplitz.damped_root(run.objective, run.start, max(count, 1))


def _any_bands(run: _Run, memory: int) -> Mechanism:
    apart = Participation.min_sep(run.steps, in_fixed_epochs(run.who).period)
    return best_bands(run.objective.workload(), apart, bands=min(memory + 1, apart.period), tolerance=1e-4)[0]


def _dense(run: _Run) -> Optimum:
    """The best strategy of any form, which keeps all earlier steps, with its certificate."""
    if not run.who.once and run.who.kind != "fixed epochs":
        raise ValueError(f"participation must be single or for fixed epochs for {DENSE!r}, got {run.promised!r}")
    what, epochs = run.what, in_fixed_epochs(run.who)
    workload = what if isinstance(what, Workload) else run.objective.workload()
    dense_size(workload)
    if isinstance(what, LearningObjective):
        squared, found = learning_floor(what, run.who)
        mechanism = fixed_epochs_strategy(workload, epochs, found)
    elif run.who.once:
        found = single_participation_bounds(workload, objective=run.kind)
        squared, mechanism = found.lower_bound**2, single_participation_strategy(workload, found)
    elif run.kind == "max":
        raise ValueError("participation must be single for the largest error of any strategy")
    else:
        found = fixed_epochs_bounds(workload, epochs)
        squared, mechanism = found.lower_bound**2, fixed_epochs_strategy(workload, epochs, found)
    run.floor = (squared, found.rigorous, found)
    return run.judged(DENSE, mechanism)


#: All families but ``DENSE``; those that are Toeplitz have members with factors for each step as well.
FAMILIES: dict[str, _Family] = {
    INDEPENDENT: _Family(lambda run, _: DPSGD()),
    STATIONARY: _Family(lambda run, _: _stationary(run)),
    NU: _Family(_rational_nu),
    "anti-PGD": _Family(lambda run, _: toeplitz.anti_pgd(run.objective, run.start)),
    BUFFERS: _Family(
        lambda run, memory: best_buffers(run.objective, run.start, memory),
        _few_buffers,
        lambda run: min(MOST_BUFFERS, run.steps // 2),
    ),
    INVERSE: _Family(
        lambda run, memory: toeplitz.banded_inverse(run.objective, run.start, memory + 1, run.root), _coefficients
    ),
    "damped root": _Family(_damped_root, _coefficients),
    "banded inverse square root": _Family(lambda run, memory: toeplitz.inverse_root(memory + 1), _coefficients),
    TOEPLITZ: _Family(
        lambda run, memory: toeplitz.best_toeplitz(run.objective, run.start, memory + 1, run.root),
        _bands,
        lambda run: toeplitz.most_bands(run.start) - 1,
    ),
    ROOT: _Family(lambda run, memory: toeplitz.square_root(memory + 1), _bands),
    TIME_VARYING: _Family(
        lambda run, memory: best_time_varying(run.objective, run.who, memory),
        lambda run, memory: _few_time_varying(run, memory),
        lambda run: MOST_TIME_VARYING,
    ),
    BANDS: _Family(
        _any_bands,
        lambda run, memory: [min(USUAL_MEMORY, in_fixed_epochs(run.who).period - 1)],
        lambda run: in_fixed_epochs(run.who).period - 1,
    ),
    "binary tree": _Family(lambda run, _: BinaryTree(run.steps, decoder="binary")),
    "binary tree, online": _Family(lambda run, _: BinaryTree(run.steps, decoder="online")),
}


def _stationary(run: _Run) -> ToeplitzNoise:
    if not isinstance(run.what, LearningObjective):
        raise ValueError(f"objective must be a problem or that of learning for {STATIONARY!r}, got {run.what!r:.80}")
    return rational(optimal_noise(run.what.problem), TOLERANCE)


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
    progress : called with a line of text before every longer part

    Examples
    --------
    >>> epochs = Participation.fixed_epochs(400, epochs=4)
    >>> best = optimise(PrefixSums(400), epochs, memory=4)
    >>> best.family, best.memory, round(best.ratio, 3)
    ('time-varying buffers', 4, 1.046)
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
    run = _Run(what, visits)
    if visits.sampled:
        return _sampled(run, budget, memory, family, show)
    if family is None:
        found = list(_compared(run, memory, show))
        best = best_within(((one.error, one) for one in found), memory)
    else:
        found = list(_members(run, checks.instance("family", family, str), memory, show))
        best = best_within(((one.error, one) for one in found), math.inf if isinstance(memory, int) else memory)
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


def _sampled(run: _Run, budget: Budget | None, memory: float | None, family: str | None, show: Progress) -> Optimum:
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
        raise ValueError(f"family must be made for {who.kind} within memory={memory}, got {family!r}")
    return replace(best_within(judged, memory), certificate=NO_FLOOR)


def _compared(run: _Run, memory: float | None, show: Progress) -> Iterator[Optimum]:
    """All mechanisms that are compared, in the order in which they are found."""
    n = run.steps
    few = _few_time_varying(run, memory)
    yield run.judged(INDEPENDENT, DPSGD())
    if run.objective.toeplitz:
        with_scales = 1 < n <= LARGEST_MATRIX and not (few and (run.who.once or run.who.kind == "fixed epochs"))
        yield from _toeplitz(run, memory, with_scales, show)
    if few:
        show(f"mechanisms: {TIME_VARYING} with up to {few[-1]}")
        for noise in time_varying_buffers(run.objective, run.who, few):
            yield run.judged(TIME_VARYING, noise)
    if n <= _LARGEST_TREE:
        for name in ("binary tree", "binary tree, online"):
            show(f"mechanisms: {name}")
            yield run.judged(name, FAMILIES[name].make(run, 0))


def _toeplitz(run: _Run, memory: float | None, with_scales: bool, show: Progress) -> Iterator[Optimum]:
    """The Toeplitz mechanisms that are compared, also with a factor for each step."""
    if isinstance(run.what, LearningObjective) and run.what.problem.instability() < 1:
        yield run.judged(STATIONARY, _stationary(run))
    show(f"mechanisms: {NU}")
    yield run.judged(NU, _rational_nu(run, 0))
    for name in (BUFFERS, INVERSE, TOEPLITZ):
        family = FAMILIES[name]
        for size in family.sizes(run, memory) if family.sizes else []:
            show(f"mechanisms: {name} with {size}")
            noise = family.make(run, size)
            if name == BUFFERS and noise.memory(run.steps) < size:
                break  # more do not help
            yield run.judged(name, noise)
            if with_scales and name != INVERSE:
                assert isinstance(noise, ToeplitzNoise)
                yield from (run.judged(f"{name}, {kind}", one) for kind, one in _with_scales(run, noise).items())


def _few_time_varying(run: _Run, memory: float | None) -> list[int]:
    """The numbers of buffers that are tried; none where the form is no linear system, or one of too many numbers."""
    n = run.steps
    most = min(_FEW_TIME_VARYING[-1] if memory is None or math.isinf(memory) else memory, MOST_TIME_VARYING, n - 1)
    usual = _FEW_TIME_VARYING if n <= LARGEST_MATRIX else _LONG_TIME_VARYING
    system = run.what.recursion() if n * _groups(run.what) <= _LARGEST_SYSTEM else None
    return [] if system is None else sorted({one for one in usual if one <= most} | {int(most)} - {0})


def _groups(what: Workload | LearningObjective) -> int:
    return what.problem.eigenvalues.size if isinstance(what, LearningObjective) else 1


def _members(run: _Run, name: str, memory: float | None, show: Progress) -> Iterator[Optimum]:
    """The members of one family: that of the memory, or the usual ones."""
    show(f"mechanisms: {name}")
    if name == DENSE:
        yield _dense(run)
        return
    base, _, kind = (name, "", "") if name in FAMILIES else name.rpartition(", ")
    if base not in FAMILIES or kind not in ("", UNIT, WEIGHTED):
        names = (*FAMILIES, DENSE, STRONGLY_CONVEX)
        raise ValueError(f"family must be one of {', '.join(names)}, or with {UNIT!r} or {WEIGHTED!r}, got {name!r}")
    family = FAMILIES[base]
    if name in (TIME_VARYING, BANDS) and isinstance(run.what, LearningObjective):
        squared, certificate = learning_floor(run.what, run.who)
        run.floor = (squared, certificate.rigorous, certificate)
    for size in _sizes(run, name, family, memory):
        found = run.judged(name, _with_kind(run, family.make(run, size), kind))
        if isinstance(memory, int) and found.memory > memory:
            raise ValueError(f"memory must be at least {found.memory} for {name!r}, got {memory}")
        yield found


def _sizes(run: _Run, name: str, family: _Family, memory: float | None) -> list[int]:
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


def _with_kind(run: _Run, noise: Mechanism, kind: str) -> Mechanism:
    """The noise with unit columns or epoch weights, if ``kind`` says so."""
    if not kind:
        return noise
    if not isinstance(noise, ToeplitzNoise):
        raise ValueError(f"family must be Toeplitz to have {kind}, got {type(noise).__name__}")
    scaled = _with_scales(run, noise)
    if kind not in scaled:
        raise ValueError(f"family must not have {kind} under {run.promised!r}")
    return scaled[kind]


def _certificate(run: _Run, found: Optimum) -> Certificate | str:
    """The certificate of the family itself, where there is one."""
    noise = found.mechanism
    if found.family == TOEPLITZ and run.prefix and isinstance(noise, BandedStrategyNoise):
        return toeplitz.certificate(noise, run.start, run.kind) or ""
    return ""


# -- factors for each step ---------------------------------------------------------------------------------------------


def _with_scales(run: _Run, noise: ToeplitzNoise) -> dict[str, ScaledNoise]:
    """The noise with unit columns, and with epoch weights where an example takes part in several epochs."""
    who = run.who
    found = {UNIT: ScaledNoise.normalised(noise, who)}
    if 1 < who.count <= _MOST_EPOCHS and who.period > 1:
        norms = noise.column_norms(run.steps)
        weights = epoch_weights(run.objective.epoch_powers(noise.coefficients(run.steps), norms, who.period))
        found[WEIGHTED] = ScaledNoise.normalised(noise, who, weights)
    return found


def epoch_weights(powers: Array) -> Array:
    """The weights p, Σ p = 1, that minimise Σ Q_ef/sqrt(p_e p_f), for Q = ``powers``, shape (epochs, epochs)."""

    def loss(logarithms: Array) -> tuple[float, Array]:
        u = np.exp(logarithms)
        seen = powers @ u
        total, budget = float(u @ seen), float((u**-2.0).sum())
        return math.log(total) + math.log(budget), 2 * u * seen / total - 2 * u**-2.0 / budget

    start = np.zeros(powers.shape[0])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-6.0, 6.0)] * start.size).x
    weights = np.exp(-2 * found)
    return np.asarray(weights / weights.sum())
