"""Time-varying buffers with the smallest error that a search finds, in O(n d²) a step of the search.

The variables are the decays, and on few *knots* the logarithms of outputs, inputs and columns ς of the strategy.  Knots
are graded: in each epoch the steps at the distances 0, 1, 2, 4, 8, … from either end, and epochs likewise where there
are many; between knots logarithms are linear.  So there are about k log₂ b (2d + 1) variables, or log₂ k log₂ b.

In fixed epochs no class of steps {r, r + b, …} needs to have a smaller sensitivity than another: with the squares g_r
of classes for the columns ς the scales d_t = sqrt(g_r)/ς_t give every class the sensitivity 1.  So the error alone is
minimised, and its gradient in ς, o, i and θ is that at fixed scales plus Σ_r λ_r ∇g_r, λ_r = Σ_t D_t/(2 g_r) over the
steps t of the class, with the derivatives D_t of the logarithm of the error in log d_t.

Long runs start from the result for a shorter one: blocks of steps of the linear system are merged, and knots and decays
are carried over in logarithms of distances.  They also start from the best buffers of constant numbers, where these are
known.  A search for d buffers starts from equally spaced decays, and from the result for d − 1 with a decay between.
The largest error of a step is approached by p-norms of the squared errors.
The search is local: a floor certifies it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from scipy import sparse

from corrnoise.solvers.certified.fixed_epochs import in_fixed_epochs
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.objectives import RunObjective
from corrnoise.theory.mechanisms import time_varying_sums as sums
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Kind, Participation
from corrnoise.theory.recursion import Recursion

MOST = 16  #: buffers
_EPOCHS = 32  # up to which each has knots of its own
_SHORT = 512  # steps of the shortest run that others start from
_SHORT_EPOCH = 4  # steps of an epoch of it
_LONGER = 16  # how many times longer the next is
_COARSE = 4.0  # the ratio of knots
_FINER = (2.0, 1.25)  # ratios of further knots
_FINE = 4096  # steps up to which there are further knots
_ITERATIONS = (8, 300)  # of a search
_WORK = 800_000  # steps of all its iterations
_BESIDE = 200_000  # steps up to which searches run beside each other, each with its own memory
_SEARCHES = 4  # about as many are made for the shortest run
_POWERS = (8.0, 32.0, 128.0, 512.0)  # of the norms for the largest error
_PAIRS = 20  # of steps and changes of the gradient
_HALVINGS = 20
_DECREASE = 1e-10  # of the logarithm of the squared error, at which a search ends
_GROUPS = 16  # of a linear system in a search
_COUNTED = 32  # participations up to which states are counted
_LARGEST = 50.0  # logarithm of a number
_FASTEST = 6.0  # logarithm of −log θ
_LEAST_GAP = 1e-15  # 1 − θ at the start
_LARGE = 1e6  # the logarithm of an error that overflows


# -- knots -------------------------------------------------------------------------------------------------------------


def graded(length: int, ratio: float) -> Array:
    """Places of 0, …, length − 1 whose distances from the nearer end grow by ``ratio``, with the ends and middle."""
    distances = {0, (length - 1) // 2}
    distance = 1.0
    while distance < length / 2:
        distances.add(round(distance))
        distance = max(distance * ratio, distance + 1)
    return np.array(sorted(distances | {length - 1 - each for each in distances}), dtype=float)


def _interpolation(at: Array, knots: Array) -> sparse.csr_array:
    """The matrix of linear interpolation at real places, shape (places, knots)."""
    left = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, max(knots.size - 2, 0))
    right = np.minimum(left + 1, knots.size - 1)
    shares = np.clip((at - knots[left]) / np.maximum(knots[right] - knots[left], 1.0), 0.0, 1.0) * (right > left)
    rows = np.tile(np.arange(at.size), 2)
    entries = np.concatenate([1 - shares, shares]), (rows, np.concatenate([left, right]))
    return sparse.csr_array(entries, shape=(at.size, knots.size))


def _matched(places: Array, length: int, other: int) -> Array:
    """Places of a run of another length whose distances from the nearer end are as far in logarithms."""
    far = np.minimum(places, length - 1 - places)
    near = np.expm1(np.log1p(far) * (math.log1p((other - 1) / 2) / math.log1p(max(length - 1, 1) / 2)))
    return np.asarray(np.where(places <= (length - 1) / 2, near, other - 1 - near)) if length != other else places


class Knots(NamedTuple):
    """Where values are free: the product of knots of an epoch and of the run."""

    steps: int
    period: int
    places: Array  # in an epoch
    epochs: Array

    @classmethod
    def of(cls, steps: int, period: int, ratio: float) -> Knots:
        """Graded knots; a last epoch that is shorter adds those of its end."""
        count = -(-steps // period)
        places = graded(period, ratio)
        rest = steps - (count - 1) * period
        if rest < period:
            places = np.array(sorted({*places, *graded(rest, ratio)}))
        return cls(steps, period, places, np.arange(float(count)) if count <= _EPOCHS else graded(count, ratio))

    def matrix(self) -> sparse.csr_array:
        """Values of all steps from those of the knots, shape (steps, knots)."""
        count = -(-self.steps // self.period)
        epochs = _interpolation(np.arange(float(count)), self.epochs)
        places = _interpolation(np.arange(float(self.period)), self.places)
        return sparse.csr_array(sparse.kron(epochs, places, format="csr")[: self.steps])

    def carried(self, values: Array, to: Knots) -> Array:
        """Values on other knots, of as many epochs."""
        places = _interpolation(_matched(to.places, to.period, self.period), self.places)
        return np.asarray(sparse.kron(_interpolation(to.epochs, self.epochs), places) @ values)


def merged(system: Recursion, period: int, shorter: int) -> Recursion:
    """The linear system of a run whose epochs have ``shorter`` steps, each for a block of steps."""
    n, groups = system.weights.shape
    count, states = -(-n // period), system.input.shape[-1]
    block = period / shorter
    first = np.add.outer(np.arange(count) * period, (np.arange(shorter) * block).astype(int)).ravel()
    first = first[first < n]
    chosen = np.minimum(first + int(block / 2), n - 1)
    moved = np.zeros((1 if len(system.transition) == len(system.input) == 1 else first.size, groups, *[states + 1] * 2))
    moved[..., :states, :states] = system.transition[chosen if len(system.transition) > 1 else [0]]
    moved[..., :states, states] = system.input[chosen if len(system.input) > 1 else [0]]
    moved[..., states, states] = 1.0
    power = np.linalg.matrix_power(moved, round(block))
    weights = np.add.reduceat(system.weights, first, axis=0)
    return Recursion(power[..., :states, :states], power[..., :states, states] / round(block), weights)


def condensed(system: Recursion) -> Recursion:
    """The linear system of a search: groups of one state whose transitions are close are one group.

    Rates 1 − Φ are cut into intervals of equal logarithms.  A group has the sum of their weights, and the mean of the
    logarithms of their rates by these weights.
    """
    groups = system.weights.shape[1]
    rates = 1 - system.transition[0, :, 0, 0]
    simple = system.transition.shape == (1, groups, 1, 1) and (system.input == 1).all() and (rates > 0).all()
    if groups <= _GROUPS or not simple:
        return system
    logarithms = np.log(rates)
    edges = np.linspace(logarithms.min(), logarithms.max(), _GROUPS + 1)
    places = np.unique(np.digitize(logarithms, edges[1:-1]), return_inverse=True)[1]
    members = (places == np.arange(places.max() + 1)[:, np.newaxis]).astype(float)
    shares = members * np.maximum(system.weights.sum(axis=0), 1e-300)
    means = shares @ logarithms / shares.sum(axis=1)
    kept = (-np.expm1(means))[np.newaxis, :, np.newaxis, np.newaxis]
    return Recursion(kept, np.ones((1, means.size, 1)), system.weights @ members.T)


# -- the error and its gradient ----------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """The variables."""

    rates: Array  # log(−log θ), shape (d,)
    values: Array  # the logarithms of o and i on knots, shape (knots, 2d)
    columns: Array  # those that give the columns of the strategy, by the kind of saturation


_Numbers = tuple[Array, Array, Array]  # θ, o and i
_Gradient = Callable[[Array], tuple[Array, Array, Array, Array]]  # in θ, o, i and the variables of the columns


class _Classes:
    """Columns ς_t/sqrt(g_r), with which each class of steps {r, r + b, …} has the sensitivity 1; log ς on knots."""

    def __init__(self, knots: Knots) -> None:
        self.knots = knots
        self.matrix = knots.matrix()
        self.classes = np.arange(knots.steps) % knots.period

    def start(self) -> Array:
        return np.zeros(self.matrix.shape[1])

    def carried(self, columns: Array, old: Knots) -> Array:
        return old.carried(columns, self.knots)

    def of_levels(self, search: _Search, point: _Point) -> _Point:
        """The point whose columns on knots are those of a search with levels."""
        columns = 1 / search.mechanism(point).scales
        at = np.add.outer(self.knots.epochs * self.knots.period, self.knots.places).ravel().astype(int)
        return point._replace(columns=np.log(columns[np.minimum(at, self.knots.steps - 1)]))

    def columns(self, numbers: _Numbers, variables: Array) -> tuple[Array, _Gradient]:
        """The columns, and what turns the gradient in their logarithms into that in the numbers and variables."""
        theta, outputs, inputs = numbers
        n, period = len(outputs), self.knots.period
        free = np.exp(np.clip(self.matrix @ variables, -_LARGEST, _LARGEST))
        bases, slopes, states = np.empty(n), np.empty(outputs.shape), np.empty(outputs.shape)
        squares = np.empty(min(period, n))
        sums.gains(*numbers, bases, slopes)
        sums.class_sums(theta, inputs, free, bases, slopes, period, states, squares)

        def gradient(of_columns: Array) -> tuple[Array, Array, Array, Array]:
            shares = -np.bincount(self.classes, of_columns, squares.size) / (2 * squares)
            found = np.empty_like(theta), np.empty_like(outputs), np.empty_like(inputs), np.empty_like(free)
            sums.class_gradient((*numbers, free), (bases, slopes, states), period, shares, found)
            return *found[:3], self.matrix.T @ (found[3] * free + of_columns)

        return free / np.sqrt(squares[self.classes]), gradient


class _Levels:
    """Columns that give every step its level: the gain at the largest state that it can meet.

    A level is the sum of the weights of the windows around the step.  A pattern has at most one step of a window of b
    steps, and at most k of the run, whose weight is divided by k.  So the squared sensitivity is at most the sum of all
    weights, which is 1.  The windows of b steps are those that follow each other from the first step, and from the last
    one.  The variables are logarithms of weights.
    """

    def __init__(self, knots: Knots, reshuffled: bool, count: int) -> None:
        self.knots, self.reshuffled = knots, reshuffled
        n = knots.steps
        ordered = np.arange(n) // knots.period
        epochs = int(ordered[-1]) + 1
        windows = [ordered] if reshuffled or n % knots.period == 0 else [ordered, ordered[::-1]]
        parts = [sparse.csr_array((np.ones(n), (np.arange(n), one)), shape=(n, epochs)) for one in windows]
        known = [_interpolation(np.arange(float(epochs)), knots.epochs)] * len(windows)
        if count < epochs:
            parts.append(sparse.csr_array(np.full((n, 1), 1 / count)))
            known.append(sparse.csr_array([[1.0]]))
        self.sets = len(windows)
        self.layers = count if count < epochs and count <= _COUNTED else 1
        self.windows = sparse.hstack(parts, format="csr")
        self.matrix = sparse.csr_array(sparse.block_diag(known))

    def start(self) -> Array:
        return np.zeros(self.matrix.shape[1])

    def carried(self, columns: Array, old: Knots) -> Array:
        size = old.epochs.size
        sets = columns[: columns.size // size * size].reshape(-1, size)
        moved = _interpolation(self.knots.epochs, old.epochs) @ sets[np.minimum(np.arange(self.sets), len(sets) - 1)].T
        return np.concatenate([moved.T.ravel(), columns[sets.size :]])

    def columns(self, numbers: _Numbers, variables: Array) -> tuple[Array, _Gradient]:
        """The columns, and what turns the gradient in their logarithms into that in the numbers and variables."""
        theta, outputs, inputs = numbers
        n, d = outputs.shape
        logarithms = self.matrix @ variables
        weights = np.exp(logarithms - logarithms.max())
        weights /= weights.sum()
        bases, slopes, columns = np.empty(n), np.empty((n, d)), np.empty(n)
        states, sources = np.empty((self.layers, n, d)), np.empty((self.layers, n, d), dtype=np.int64)
        sums.gains(*numbers, bases, slopes)
        found = (bases, slopes, self.windows @ weights, self.knots.period, self.reshuffled, columns, states, sources)
        sums.level(theta, inputs, *found)

        def gradient(of_columns: Array) -> tuple[Array, Array, Array, Array]:
            found = np.empty_like(theta), np.empty_like(outputs), np.empty_like(inputs)
            of_levels = np.empty(n)
            given = (*numbers, columns), (bases, slopes, states, sources)
            sums.level_gradient(*given, of_columns / columns, of_levels, found)
            of_weights = self.windows.T @ of_levels
            return *found, self.matrix.T @ (weights * (of_weights - weights @ of_weights))

        return columns, gradient


class _Search:
    """The logarithm of the squared error of saturated buffers as a function of the variables."""

    def __init__(
        self, system: Recursion, knots: Knots, saturation: _Classes | _Levels, power: float | None = None
    ) -> None:
        weights = system.weights if power is None else np.sign(system.weights)
        transition, entry, weights = sums.writable(system.transition, system.input, weights)
        self.system = (transition, entry, weights)
        self.knots, self.saturation, self.power = knots, saturation, power

    @cached_property
    def matrix(self) -> sparse.csr_array:
        return self.knots.matrix()

    @cached_property
    def transposed(self) -> sparse.csr_array:
        return self.matrix.T.tocsr()

    def mechanism(self, point: _Point) -> TimeVaryingBuffers:
        numbers = self._numbers(point)
        return TimeVaryingBuffers(*numbers, 1 / self.saturation.columns(numbers, point.columns)[0])

    def _numbers(self, point: _Point) -> _Numbers:
        d = point.rates.size
        values = self.matrix @ point.values
        np.exp(np.clip(values, -_LARGEST, _LARGEST, out=values), out=values)
        theta = np.exp(-np.exp(np.minimum(point.rates, _FASTEST)))
        return theta, np.ascontiguousarray(values[:, :d]), np.ascontiguousarray(values[:, d:])

    def __call__(self, point: _Point) -> tuple[float, _Point]:
        """The value, and the gradient in the variables."""
        numbers = self._numbers(point)
        columns, gradient = self.saturation.columns(numbers, point.columns)
        mine = (*numbers, 1 / columns)
        n, d = numbers[1].shape
        groups, m = self.system[1].shape[1:]
        segments = -(-n // sums.SEGMENT)
        kept = np.empty((segments, d, d)), np.empty((segments, groups, d, m))
        errors = np.empty(n)
        sums.covariances(*self.system, *mine, errors, *kept)
        if not (np.isfinite(errors).all() and errors.min() >= 0 and errors.max() > 0):
            return _LARGE, _Point(*(np.zeros_like(one) for one in point))
        value, slopes = _logarithm(errors, self.power)
        of_error = tuple(np.empty_like(one) for one in mine)
        sums.error_gradient(self.system, mine, slopes, kept, of_error)
        *of_numbers, of_columns = gradient(-of_error[3] * mine[3])
        of_steps = np.empty((n, 2 * d))
        for k, place in ((1, slice(0, d)), (2, slice(d, 2 * d))):
            np.add(of_error[k], of_numbers[k], out=of_error[k])
            np.multiply(of_error[k], numbers[k], out=of_steps[:, place])
        of_rates = -(of_error[0] + of_numbers[0]) * numbers[0] * np.exp(point.rates)
        return value, _Point(of_rates, self.transposed @ of_steps, of_columns)

    def minimum(self, point: _Point, iterations: int) -> tuple[float, _Point]:
        """A local minimum."""
        ends = np.cumsum([one.size for one in point])[:-1]

        def unpacked(flat: Array) -> _Point:
            parts = np.split(flat, ends)
            return _Point(*(part.reshape(one.shape) for part, one in zip(parts, point, strict=True)))

        def function(flat: Array) -> tuple[float, Array]:
            value, gradient = self(unpacked(flat))
            return value, _flat(gradient)

        with np.errstate(all="ignore"):
            value, flat = descended(function, _flat(point), iterations)
        return value, unpacked(flat)


def _flat(point: _Point) -> Array:
    return np.concatenate([one.ravel() for one in point])


def descended(function: Callable[[Array], tuple[float, Array]], start: Array, iterations: int) -> tuple[float, Array]:
    """The least value of L-BFGS with backtracking, and where it is.

    The Fortran code of SciPy calls threads of BLAS for its tiny matrices, which takes ten times as long on a busy
    machine.
    """
    value, gradient = function(start)
    x = start
    pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_PAIRS)
    for _ in range(iterations):
        direction = _direction(gradient, pairs)
        slope = float(gradient @ direction)
        length = 1.0 if pairs else 1 / max(1.0, float(np.abs(gradient).max()))
        for _ in range(_HALVINGS):
            following, slopes = function(x + length * direction)
            if following <= value + 1e-4 * length * slope:
                break
            length *= 0.3
        else:
            break
        step, change = length * direction, slopes - gradient
        if (curved := float(step @ change)) > 0:
            pairs.append((step, change, curved))
        gained = value - following
        x, value, gradient = x + step, following, slopes
        if gained < _DECREASE:
            break
    return value, x


def _direction(gradient: Array, pairs: Collection[tuple[Array, Array, float]]) -> Array:
    """Minus the gradient times the inverse Hessian that the pairs of steps and changes of the gradient imply."""
    direction = -gradient
    shares = []
    for step, change, curved in reversed(list(pairs)):
        shares.append(float(step @ direction) / curved)
        direction = direction - shares[-1] * change
    if pairs:
        _, change, curved = list(pairs)[-1]
        direction = direction * (curved / float(change @ change))
    for (step, change, curved), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - float(change @ direction) / curved) * step
    return direction


def _logarithm(errors: Array, power: float | None) -> tuple[float, Array]:
    """Log Σ e, or (1/p) log Σ eᵖ, and its derivatives in e."""
    if power is None:
        total = float(errors.sum())
        return math.log(total), np.full(errors.size, 1 / total)
    largest = float(errors.max())
    shares = (errors / largest) ** power
    total = float(shares.sum())
    return math.log(largest) + math.log(total) / power, shares / np.maximum(errors, 1e-300) / total


# -- the search --------------------------------------------------------------------------------------------------------


class _Level(NamedTuple):
    """A run of the ladder from short to long."""

    system: Recursion
    period: int
    kind: Kind
    limit: int  # of participations

    def search(self, ratio: float, power: float | None = None) -> _Search:
        knots = Knots.of(self.system.steps, self.period, ratio)
        classes = self.kind in ("single", "fixed epochs")
        saturation = _Classes(knots) if classes else _Levels(knots, self.kind == "reshuffled", self.limit)
        return _Search(self.system, knots, saturation, power)


def _levels(whole: _Level) -> list[_Level]:
    """Runs of increasing length, the last of which is the one that is meant."""
    found = [whole]
    shortest = math.ceil(max(_SHORT * whole.period / whole.system.steps, _SHORT_EPOCH))
    while found[0].period > shortest:
        shorter = max(shortest, math.ceil(found[0].period / _LONGER))
        found.insert(0, whole._replace(system=merged(whole.system, whole.period, shorter), period=shorter))
    return found


def _equally_spaced(buffers: int, search: _Search) -> _Point:
    steps = search.knots.steps
    slowest = -0.5 * math.log(steps) if buffers == 1 else -0.75 * math.log(steps)
    rates = np.linspace(slowest if buffers == 1 else min(slowest, -2.0), -1.0 if buffers > 1 else slowest, buffers)
    values = np.full((search.matrix.shape[1], 2 * buffers), 0.5 * math.log(0.3 / buffers))
    return _Point(rates, values, search.saturation.start())


def _with_another(point: _Point, steps: int) -> _Point:
    """A weak buffer more, whose decay lies in the widest space between those that there are."""
    d = point.rates.size
    ends = np.concatenate([[-math.log(steps) - 0.5], np.sort(point.rates), [0.0]])
    widest = int(np.argmax(np.diff(ends)))
    weak = np.full((len(point.values), 1), math.log(0.05))
    values = np.hstack([point.values[:, :d], weak, point.values[:, d:], weak])
    return point._replace(rates=np.append(point.rates, ends[widest : widest + 2].mean()), values=values)


def _carried(point: _Point, old: _Search, new: _Search) -> _Point:
    """The point of a longer run, or of other knots.

    The slowest decay has the gap of as many steps less, others in proportion, and weights o i are those of a root.
    """
    stretch = math.log(old.knots.steps / new.knots.steps) / min(point.rates.min(initial=0.0), -1.0)
    values = old.knots.carried(point.values, new.knots) + np.tile(stretch * point.rates, 2) / 4
    return _Point(point.rates * (1 + stretch), values, new.saturation.carried(point.columns, old.knots))


def _constant(noise: PoleNoise, buffers: int, search: _Search) -> _Point:
    """The point of buffers of constant numbers, with weak ones for those that are missing."""
    strategy = noise.buffers()
    known = np.flatnonzero(strategy.buf_decay > 0)
    gaps = np.maximum(noise.zeros[known], _LEAST_GAP)
    weights = np.tile(0.5 * np.log(strategy.output_scale[known]), 2)
    values = np.tile(weights, (search.matrix.shape[1], 1))
    point = _Point(np.log(-np.log1p(-gaps)), values, search.saturation.start())
    while point.rates.size < buffers:
        point = _with_another(point, search.knots.steps)
    return point


def _better(search: _Search, starts: Sequence[_Point], iterations: int) -> _Point:
    """The least value of a search that tries each start and goes on from the best."""
    if len(starts) == 1:
        return search.minimum(starts[0], iterations)[1]
    some = iterations // 2
    _, best = min((search.minimum(start, some) for start in starts), key=lambda found: found[0])
    return search.minimum(best, iterations - some)[1]


def _iterations(search: _Search, searches: int = 1) -> int:
    """How many iterations a search has where so many are made."""
    steps, groups = search.system[2].shape
    return min(max(round(_WORK / (searches * steps * (groups + 3) / 4)), _ITERATIONS[0]), _ITERATIONS[1])


def _shortest(level: _Level, most: int) -> Iterator[_Point]:
    """The points of a short run with 1, 2, …, ``most`` buffers."""
    search = level.search(_COARSE)
    classes = search.saturation
    others: Iterator[_Point] = iter(())
    if isinstance(classes, _Classes) and level.period < level.system.steps:
        levels = level._replace(kind="min-sep")
        others = (classes.of_levels(levels.search(_COARSE), point) for point in _shortest(levels, most))
    last: _Point | None = None
    for buffers in range(1, most + 1):
        starts = [_equally_spaced(buffers, search), *islice(others, 1)]
        if last is not None:
            starts.append(_with_another(last, search.knots.steps))
        found = (search.minimum(start, _iterations(search, _SEARCHES)) for start in starts)
        _, last = min(found, key=lambda one: one[0])
        yield last


def time_varying_buffers(
    objective: RunObjective,
    participation: Participation,
    memories: Sequence[int],
    constant: Callable[[int], PoleNoise] | None = None,
) -> Iterator[TimeVaryingBuffers]:
    """The best time-varying buffers of these numbers that a search finds.

    They are optimised for fixed epochs of as many steps as the participation has, in which their sensitivity is 1 up to
    rounding, or for one participation.
    Raises ``ValueError`` where the objective is no linear system.

    Parameters
    ----------
    objective : the quadratic form of the run
    participation : who takes part when
    memories : numbers of arrays from 1 to 16, in ascending order
    constant : the best buffers of constant numbers, by the number of arrays, if they are known; None to search them
    """
    known = constant or partial(best_buffers, objective, in_fixed_epochs(participation))
    for memory in memories:
        checks.integer("memories", memory, 1, largest=MOST)
    whole = objective.what.recursion()
    if whole is None:
        raise ValueError(f"objective must be a linear system for time-varying buffers, got {objective.what!r:.80}")
    system = condensed(whole)
    who = participation.worst
    kind: Kind = "single" if who.once else who.kind
    first, *levels = _levels(_Level(system, who.length if who.once else who.period, kind, who.count))
    longer = [level.search(_COARSE) for level in levels]
    last = longer[-1] if longer else None
    finer = [(levels or [first])[-1].search(ratio) for ratio in _FINER] if system.steps <= _FINE else []
    if objective.kind == "max":
        ratio = _COARSE if system.steps > _FINE else _FINER[0]
        finer += [(levels or [first])[-1].search(ratio, power) for power in _POWERS]
    shortest = first.search(_COARSE)

    def searched(point: _Point) -> TimeVaryingBuffers:
        buffers = point.rates.size
        search = shortest
        for following in (*longer, *finer):
            starts = [_carried(point, search, following)]
            search = following
            if search is last and objective.toeplitz:
                starts.append(_constant(known(buffers), buffers, search))
            point = _better(search, starts, _iterations(search))
        return search.mechanism(point)

    points = [point for point in _shortest(first, max(memories, default=0)) if point.rates.size in memories]
    with ThreadPoolExecutor(None if system.steps <= _BESIDE else 1) as pool:
        yield from pool.map(searched, points)


def best_time_varying(objective: RunObjective, participation: Participation, memory: int) -> TimeVaryingBuffers:
    """The best time-varying buffers with ``memory`` arrays that a search finds.

    Parameters
    ----------
    objective, participation : as for ``time_varying_buffers``
    memory : number of arrays, at most 16
    """
    return next(time_varying_buffers(objective, participation, [memory]))
