"""The best mechanism for a finite run within a memory, among all that stream, beside what no strategy can beat.

A mechanism is judged by its squared error, the squared sensitivity times the quadratic form of the run
(``run_objectives``): the mean squared error of a workload, or what privacy costs in learning.  Its memory is the number
of arrays of the size of the gradient that a stream keeps.

``select`` tunes each family for this form at several memories, adds to each the forms with a factor for each step (unit
columns, and with several participations epoch weights), and lists all of them.  For learning, where the early steps of
a run matter little, it also searches for the gaps and the factors of buffers together (``scaled_buffers``); for prefix
sums that gains less than one percent.  Epoch weights p_e are shares of the budget: with at most ``min_sep`` bands and
columns of the squared norm p_e in epoch e the sensitivity is at most 1.  With Q_ef the parts of the form by pairs of
epochs at unit columns, the best weights minimise (uᵀ Q u) Σ u_e⁻² over u_e = p_e^{−1/2}.

The floor is a lower bound for *every* strategy: a dual bound of the form for fixed epochs (``fixed_epochs`` for prefix
sums, ``coarse_floor`` for the rest).  Its patterns are
patterns of any participation with the same count k and a separation of at most ceil(n/k), so that it bounds these too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy.optimize import minimize

from corrnoise.solvers.matrix_factorisation.buffers import optimal_buffers
from corrnoise.solvers.matrix_factorisation.coarse_floor import coarse_lower_bound
from corrnoise.solvers.matrix_factorisation.dense import optimal_single_participation, workload_of_weights
from corrnoise.solvers.matrix_factorisation.families import optimal_banded_inverse, optimal_nu
from corrnoise.solvers.matrix_factorisation.fixed_epochs import LARGEST_CERTIFIED, optimal_fixed_epochs
from corrnoise.solvers.matrix_factorisation.run_objectives import LARGEST_MATRIX, RunObjective, run_objective
from corrnoise.solvers.matrix_factorisation.scaled_buffers import optimal_scaled_buffers
from corrnoise.solvers.matrix_factorisation.toeplitz import optimal_toeplitz
from corrnoise.solvers.matrix_factorisation.tuned import tuned_bands, tuned_inverse, tuned_nu, tuned_poles
from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.sensitivity import Sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.workloads import PrefixSums, Workload
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.problems.learning_objective import LearningObjective

Progress = Callable[[str], None]

INDEPENDENT = "independent noise"
FAMILIES = ("buffers", "banded inverse", "best Toeplitz", "nu-DP-FTRL")
UNIT, WEIGHTED, OWN = "unit columns", "epoch weights", "step scales"
MOST_POLES = 6
_MOST_COEFFICIENTS = 64  # of noise with few coefficients, whose search takes O(p²) memory
_MOST_BANDS = 64  # in runs of more than LARGEST_MATRIX steps, beside those that are asked for
_LONG = 100_000  # steps, beyond which only a _FEW of both are tried, unless more are asked for
_FEW = 8
_MOST_EPOCHS = 64  # for which weights are sought
_LONGEST_RIGOROUS = 1024  # steps up to which the decomposition of a rigorous floor takes a second
_LONGEST_FLOOR = {True: 100_000, False: 20_000}  # steps for which the floor of prefix sums takes seconds, by ``single``
_LARGEST_TREE = 1024  # steps, at O(n³)
_LARGEST_OWN = 512  # steps up to which a search for step scales takes seconds
_MOST_OWN = 3  # poles of it
_ITERATIONS = 200  # of it
_TOLERANCE = 1e-6  # of rational noise in place of nu-DP-FTRL


@record
class Option(Record):
    """One mechanism, and what it is worth.

    Parameters
    ----------
    family
        Its name in tables.
    mechanism
        Noise of the run, in the form in which a stream runs it.
    sensitivity
        What is known of its sensitivity under the participation.
    power
        The quadratic form of the run at unit noise.
    offered
        Whether it may be chosen; others are listed for comparison.
    """

    family: str
    mechanism: Mechanism
    sensitivity: Sensitivity
    power: float
    offered: bool = True

    @property
    def squared_error(self) -> float:
        """γ² tr(W N Nᵀ), with the upper bound of γ where it is not known exactly."""
        return self.sensitivity.upper**2 * self.power

    @property
    def memory(self) -> int:
        """Arrays of the size of the gradient that a stream keeps."""
        return self.mechanism.memory

    @property
    def noise(self) -> ToeplitzNoise | None:
        """The Toeplitz noise, without factors for each step; None for other mechanisms."""
        return self.mechanism.noise if isinstance(self.mechanism, ToeplitzMechanism | ScaledNoise) else None

    @property
    def kind(self) -> str:
        """``"poles"`` or ``"bands"``, after what a stream keeps; empty if it keeps nothing."""
        if self.memory == 0:
            return ""
        return "poles" if isinstance(self.noise, PoleNoise) else "bands"


@record
class Floor(Record):
    """A lower bound of the squared error.

    Parameters
    ----------
    squared_error
        No strategy has less.
    rigorous
        Whether the rounding errors of its computation are included.
    """

    squared_error: float
    rigorous: bool


@record
class Selection(Record):
    """All mechanisms that were compared, and the floor.

    Parameters
    ----------
    participation
        Of the run.
    options
        In the order in which they were found.
    floor
        None where none is computed, because it would take too long.
    """

    participation: Participation
    options: tuple[Option, ...]
    floor: Floor | None

    def best(self, allowed: Callable[[Option], bool] = lambda _: True, *, slack: float = 1.0) -> Option:
        """The best offered option.

        Parameters
        ----------
        allowed
            Which options are.
        slack
            The option is that with the least memory whose squared error is at most ``slack`` times the smallest.
        """
        offered = [option for option in self.options if option.offered and allowed(option)]
        least = min(option.squared_error for option in offered)
        near = [option for option in offered if option.squared_error <= slack * least]
        return min(near, key=lambda option: (option.memory, option.squared_error))


def select(
    what: Workload | LearningObjective,
    participation: Participation,
    *,
    memory: int | None = None,
    others: Mapping[str, ToeplitzNoise] | None = None,
    scales: bool = True,
    with_floor: bool = True,
    progress: Progress | None = None,
) -> Selection:
    """Every mechanism that streams, tuned for a run.

    Parameters
    ----------
    what
        A workload, whose mean squared error is judged, or the objective of learning.  One that is neither learning nor
        Toeplitz has at most 4096 steps.
    participation
        Who takes part when.
    memory
        A memory that is to be used fully, beside the usual ones; None for these alone.
    others
        More Toeplitz noise to be judged, by name.
    scales
        Whether to try factors for each step, in runs of at most 4096 steps.
    with_floor
        Whether to compute the floor.
    progress
        Called with a line of text before every longer part.

    Examples
    --------
    >>> found = select(PrefixSums(256), Participation(256, min_sep=64, max_participations=4))
    >>> best = found.best(lambda option: option.memory <= 4)
    >>> best.family, best.memory
    ('buffers, epoch weights', 2)
    >>> round((best.squared_error / found.floor.squared_error) ** 0.5, 3)
    1.085
    """
    show = progress or (lambda _: None)
    objective = run_objective(what)
    found = list(_options(what, objective, participation, memory, dict(others or {}), scales, show))
    floor = None
    if with_floor:
        show("the floor: what no strategy can beat")
        floor = lower_bound(what, objective, participation)
    return Selection(participation, tuple(found), floor)


def _options(
    what: Workload | LearningObjective,
    objective: RunObjective,
    who: Participation,
    memory: int | None,
    others: dict[str, ToeplitzNoise],
    scales: bool,
    show: Progress,
) -> Iterator[Option]:
    n = who.steps
    with_scales = scales and n <= LARGEST_MATRIX and n > 1
    yield _judged(INDEPENDENT, DPSGD(), objective, who)
    for name, noise in others.items():
        yield _judged(name, noise, objective, who)
    tuned = _Tuned(what, objective, who)
    show("mechanisms: nu-DP-FTRL")
    yield _judged("nu-DP-FTRL", tuned.stream_of_nu(), objective, who)
    plans: list[tuple[str, list[int], Callable[[int], ToeplitzNoise]]] = [
        ("buffers", _poles(n, memory), tuned.poles),
        ("banded inverse", _coefficients(n, memory), tuned.inverse),
        ("best Toeplitz", _bands(who, memory), tuned.bands),
    ]
    for family, sizes, make in plans:
        for size in sizes:
            show(f"mechanisms: {family} with {size}")
            noise = make(size)
            if family == "buffers" and noise.memory(n) < size:
                break  # more poles do not help
            yield _judged(family, noise, objective, who)
            if with_scales and family != "banded inverse":
                yield from _with_scales(family, noise, objective, who)
    if with_scales and n <= _LARGEST_OWN and isinstance(what, LearningObjective):
        for size in _poles(n, memory)[:_MOST_OWN]:
            show(f"mechanisms: buffers with {size} and {OWN}")
            own = _with_own_scales(size, objective, who)
            if own is None or own.memory < size:
                break
            yield own
    if n <= _LARGEST_TREE:
        show("mechanisms: binary tree")
        tree = BinaryTree(n, decoder="online")
        power = float((objective._weights * _covariance_of(tree)).sum())
        yield Option("binary tree, online", tree, tree.bracket(who), power, offered=False)


def _covariance_of(mechanism: Mechanism) -> Array:
    noising = mechanism.noising_matrix()
    return np.asarray(noising @ noising.T)


def _judged(family: str, noise: ToeplitzNoise, objective: RunObjective, who: Participation) -> Option:
    run = noise
    power, _ = objective.power(noise.coefficients(who.steps))
    return Option(family, run, run.bracket(who), power)


# -- sizes that are tried ----------------------------------------------------------------------------------------------


def _upto(most: int, memory: int | None) -> list[int]:
    """1, 2, 4, … and the memory asked for, all at most ``most``."""
    sizes = {2**i for i in range(most.bit_length()) if 2**i <= most}
    return sorted(sizes | {size for size in (memory,) if size is not None and 1 <= size <= most})


def _poles(n: int, memory: int | None) -> list[int]:
    most = MOST_POLES if memory is None else min(max(memory, MOST_POLES), 8)
    return list(range(1, min(most, n // 2) + 1))


def _coefficients(n: int, memory: int | None) -> list[int]:
    return _upto(min(_MOST_COEFFICIENTS if n <= _LONG else _FEW, n - 1), memory)


def _bands(who: Participation, memory: int | None) -> list[int]:
    most = (who.steps if who.once else min(who.period, who.steps)) - 1
    if who.steps > LARGEST_MATRIX:
        most = min(most, max(_MOST_BANDS if who.steps <= _LONG else _FEW, memory or 0))
    return sorted({*_upto(most, memory), most} - {0})


# -- families ----------------------------------------------------------------------------------------------------------


class _Tuned:
    """The members of each family by their memory, from the solvers for prefix sums or for any objective."""

    def __init__(self, what: Workload | LearningObjective, objective: RunObjective, who: Participation) -> None:
        self.objective, self.who = objective, who
        self.prefix = isinstance(what, PrefixSums)
        nu = optimal_nu(who).noise if self.prefix else tuned_nu(objective, who)
        assert isinstance(nu, NuFTRL)
        self.nu = nu

    def stream_of_nu(self) -> ToeplitzNoise:
        """Rational noise in place of nu-DP-FTRL; at ν = 0, which has none, that of the smallest ν a run can see."""
        nu = max(self.nu.nu, 1e-3 / self.who.steps)
        return rational_approximation(NuFTRL(nu), _TOLERANCE)

    def poles(self, memory: int) -> ToeplitzNoise:
        if self.prefix:
            return optimal_buffers(self.who, buffers=memory).noise
        return tuned_poles(self.objective, self.who, poles=memory)

    def inverse(self, memory: int) -> ToeplitzNoise:
        if self.prefix:
            return optimal_banded_inverse(self.who, bands=memory + 1).noise
        return tuned_inverse(self.objective, self.who, coefficients=memory + 1, start=self.nu)

    def bands(self, memory: int) -> ToeplitzNoise:
        if self.prefix:
            return optimal_toeplitz(self.who, bands=memory + 1, certify=False).noise
        return tuned_bands(self.objective, self.who, bands=memory + 1, start=self.nu)


# -- factors for each step ---------------------------------------------------------------------------------------------


def _with_scales(family: str, noise: ToeplitzNoise, objective: RunObjective, who: Participation) -> Iterator[Option]:
    norms = column_norms(noise, who.steps)
    beta = noise.coefficients(who.steps)
    yield _scaled(f"{family}, {UNIT}", noise, norms, objective, who)
    if 1 < who.count <= _MOST_EPOCHS and who.period > 1:
        weights = epoch_weights(objective.epoch_powers(beta, norms, who.period))
        epoch = np.arange(who.steps) // who.period
        yield _scaled(f"{family}, {WEIGHTED}", noise, norms / np.sqrt(weights[epoch]), objective, who)


def _with_own_scales(buffers: int, objective: RunObjective, who: Participation) -> Option | None:
    """Buffers whose scales are searched for; None for participations that such a search does not cover."""
    if who.kind != "fixed epochs" and not who.once:
        return None
    found = optimal_scaled_buffers(
        workload_of_weights(objective.weights()), who, buffers=buffers, max_iterations=_ITERATIONS
    )
    noise = found.mechanism.noise
    assert isinstance(noise, ToeplitzNoise)
    return _scaled(f"buffers, {OWN}", noise, found.mechanism.scales, objective, who)


def _scaled(family: str, noise: ToeplitzNoise, scales: Array, objective: RunObjective, who: Participation) -> Option:
    run = ScaledNoise(noise, scales)
    power = objective.scaled_power(noise.coefficients(who.steps), scales)
    return Option(family, run, run.bracket(who), power)


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


# -- the floor ---------------------------------------------------------------------------------------------------------


def lower_bound(what: Workload | LearningObjective, objective: RunObjective, who: Participation) -> Floor | None:
    """The dual optimum over all strategies; None where it would take too long."""
    n = who.steps
    separation = n if who.once else max(who.period, -(-n // who.count))
    epochs = Participation.fixed_epochs(n, period=separation)
    slow = _LONGEST_RIGOROUS < n <= LARGEST_CERTIFIED and not who.once
    if not isinstance(what, PrefixSums) or slow:
        if n > LARGEST_MATRIX:
            return None
        return Floor(coarse_lower_bound(objective.weights(), epochs), rigorous=False)
    if n > _LONGEST_FLOOR[who.once] or n * who.count**2 > 10**7:
        return None
    tolerance = 1e-3 if n <= 10_000 else 1e-2
    if who.once:
        single = optimal_single_participation(what, tolerance=tolerance)
        return Floor(single.lower_bound**2, single.rigorous)
    several = optimal_fixed_epochs(what, epochs, tolerance=tolerance)
    return Floor(several.lower_bound**2, several.rigorous)
