"""The families of noise for a run: how their members are made, and how all are judged.

A mechanism is judged by its squared error, the squared sensitivity under the promise of the run times the quadratic
form of the run (``objectives``): the mean squared error of a workload, or what privacy costs in learning.  Its memory
is the number of arrays of the size of the gradient that a run keeps.

Toeplitz members have a factor for each step as well: *unit columns*, or *epoch weights* p_e, shares of the budget.
With at most ``period`` bands and columns of the squared norm p_e in epoch e the sensitivity is at most 1.  With Q_ef
the parts of the form by pairs of epochs at unit columns, the best weights minimise (uᵀ Q u) Σ u_e⁻² over
u_e = p_e^{−1/2}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
from corrnoise.solvers.families.time_varying import best_time_varying
from corrnoise.solvers.learning import (
    STATIONARY,
    TOLERANCE,
    learning_floor,
)
from corrnoise.solvers.objectives import RunObjective, dense_size, run_objective
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.optimum import Certificate, Optimum, unit_square
from corrnoise.solvers.sampled import BUFFERS, INDEPENDENT, NU, ROOT, TOEPLITZ
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX, Mechanism
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.rational import rational
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.workloads import SGD, PrefixSums, Workload
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

Objective = SGD | Workload | LearningObjective | RunObjective | QuadraticProblem | StronglyConvex

INVERSE = "banded inverse"
UNIT, WEIGHTED = "unit columns", "epoch weights"
TIME_VARYING, BANDS, DENSE = "time-varying buffers", "any bands", "dense"
USUAL_MEMORY = 16  #: arrays that a run may keep if no limit is given
_FEW_BUFFERS = 6
_FEWER_BUFFERS = 4  # in long runs without closed forms
_MOST_COEFFICIENTS = 64  # of noise with few coefficients, whose search takes O(p²) memory
_MOST_BANDS = 64  # in runs of more than LARGEST_MATRIX steps, beside those that are asked for
_LONG = 20_000  # steps, beyond which only a _FEW of both are tried, unless more are asked for
_FEW = 2
_LONGEST = 200_000  # steps, beyond which noise with few coefficients is made only if it is asked for
_MOST_EPOCHS = 64  # for which weights are sought
_BUFFERS = (
    4  # time-varying ones, where no number is asked for; fewer are tried beside them up to ``LARGEST_MATRIX`` steps
)
_LARGEST_SYSTEM = 60_000_000  # steps times groups of a linear system, at about 20 bytes and a microsecond for each


class Search:
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
        self._buffers: dict[int, PoleNoise] = {}

    @cached_property
    def nu(self) -> NuFTRL:
        return toeplitz.nu_ftrl(self.objective.coarse, self.start)

    @property
    def root(self) -> NuFTRL | None:
        """Where searches for coefficients start."""
        return None if self.prefix else self.nu

    def buffers(self, count: int) -> PoleNoise:
        """The best buffers of constant numbers, which are searched once."""
        if count not in self._buffers:
            self._buffers[count] = best_buffers(self.objective.coarse, self.start, count)
        return self._buffers[count]

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


class Family(NamedTuple):
    """How the members of a family are made, by their memory."""

    make: Callable[[Search, int], Mechanism]
    #: The memories that are tried; None if there is one member.
    sizes: Callable[[Search, float | None], list[int]] | None = None
    #: The largest memory.
    most: Callable[[Search], int] = lambda run: run.steps - 1


def _upto(most: int, memory: float | None) -> list[int]:
    """1, 2, 4, … and the memory asked for, all at most ``most``."""
    sizes = {2**i for i in range(most.bit_length()) if 2**i <= most}
    asked = () if memory is None or math.isinf(memory) else (int(memory),)
    return sorted(sizes | {size for size in asked if 1 <= size <= most})


def _few_buffers(run: Search, memory: float | None) -> list[int]:
    finite = memory is not None and math.isfinite(memory)
    usual = _FEW_BUFFERS if run.objective.precise or run.steps <= LARGEST_MATRIX else _FEWER_BUFFERS
    most = min(max(int(memory or 0), usual), 8) if finite else usual
    most = min(most, run.steps // 2)
    slow = run.steps > _LONGEST and not run.objective.precise
    return sorted({1, most}) if slow else list(range(1, most + 1))


def _coefficients(run: Search, memory: float | None) -> list[int]:
    most = _MOST_COEFFICIENTS if run.steps <= _LONG else _FEW if run.steps <= _LONGEST else 0
    return _upto(min(most, run.steps - 1), memory)


def _bands(run: Search, memory: float | None) -> list[int]:
    most = toeplitz.most_bands(run.start) - 1
    if run.steps > LARGEST_MATRIX:
        asked = int(memory) if memory is not None and math.isfinite(memory) else 0
        most = min(most, max(_MOST_BANDS if run.steps <= _LONG else _FEW, asked))
    return sorted({*_upto(most, memory), most} - {0})


def rational_nu(run: Search, _: int) -> ToeplitzNoise:
    """Rational noise in place of nu-DP-FTRL; at ν = 0, which has none, that of the smallest ν a run can see."""
    return rational(NuFTRL(max(run.nu.nu, 1e-3 / run.steps)), TOLERANCE)


def _damped_root(run: Search, memory: int) -> ToeplitzNoise:
    count = min(memory + 1, run.steps - 1)  # with n coefficients it is no noise of few coefficients
    return toeplitz.damped_root(run.objective.coarse, run.start, max(count, 1))


def _any_bands(run: Search, memory: int) -> Mechanism:
    apart = Participation.min_sep(run.steps, in_fixed_epochs(run.who).period)
    return best_bands(run.objective.workload(), apart, bands=min(memory + 1, apart.period), tolerance=1e-4)[0]


def few_time_varying(run: Search, memory: float | None) -> list[int]:
    """The numbers of buffers that are tried; none where the form is no linear system, or one of too many numbers."""
    n = run.steps
    usual = range(1, _BUFFERS + 1) if n <= LARGEST_MATRIX else (_BUFFERS,)
    most = min(_BUFFERS if memory is None or math.isinf(memory) else memory, MOST_TIME_VARYING, n - 1)
    system = run.objective.coarse.system if n * _groups(run.what) <= _LARGEST_SYSTEM else None
    return [] if system is None else sorted({one for one in usual if one <= most} | {int(most)} - {0})


def _groups(what: Workload | LearningObjective) -> int:
    return what.modes().counts.size if isinstance(what, LearningObjective) else 1


def dense_optimum(run: Search) -> Optimum:
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


def rational_optimum(run: Search) -> ToeplitzNoise:
    """Rational noise in place of the stationary optimum of the problem of a run; ``ValueError`` without a problem."""
    if not isinstance(run.what, LearningObjective):
        raise ValueError(f"objective must be a problem or that of learning for {STATIONARY!r}, got {run.what!r:.80}")
    return rational(optimal_noise(run.what.problem), TOLERANCE)


# -- the table ---------------------------------------------------------------------------------------------------------

#: All families but ``DENSE``; those that are Toeplitz have members with factors for each step as well.
FAMILIES: dict[str, Family] = {
    INDEPENDENT: Family(lambda run, _: DPSGD()),
    STATIONARY: Family(lambda run, _: rational_optimum(run)),
    NU: Family(rational_nu),
    "anti-PGD": Family(lambda run, _: toeplitz.anti_pgd(run.objective.coarse, run.start)),
    BUFFERS: Family(
        lambda run, memory: run.buffers(memory),
        _few_buffers,
        lambda run: min(MOST_BUFFERS, run.steps // 2),
    ),
    INVERSE: Family(
        lambda run, memory: toeplitz.banded_inverse(run.objective.coarse, run.start, memory + 1, run.root),
        _coefficients,
    ),
    "damped root": Family(_damped_root, _coefficients),
    "banded inverse square root": Family(lambda run, memory: toeplitz.inverse_root(memory + 1), _coefficients),
    TOEPLITZ: Family(
        lambda run, memory: toeplitz.best_toeplitz(run.objective.coarse, run.start, memory + 1, run.root),
        _bands,
        lambda run: toeplitz.most_bands(run.start) - 1,
    ),
    ROOT: Family(lambda run, memory: toeplitz.square_root(memory + 1), _bands),
    TIME_VARYING: Family(
        lambda run, memory: best_time_varying(run.objective, run.who, memory),
        lambda run, memory: few_time_varying(run, memory),
        lambda run: MOST_TIME_VARYING,
    ),
    BANDS: Family(
        _any_bands,
        lambda run, memory: [min(USUAL_MEMORY, in_fixed_epochs(run.who).period - 1)],
        lambda run: in_fixed_epochs(run.who).period - 1,
    ),
    "binary tree": Family(lambda run, _: BinaryTree(run.steps, decoder="binary")),
    "binary tree, online": Family(lambda run, _: BinaryTree(run.steps, decoder="online")),
}


# -- factors for each step ---------------------------------------------------------------------------------------------


def scaled_members(run: Search, noise: ToeplitzNoise) -> dict[str, ScaledNoise]:
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
