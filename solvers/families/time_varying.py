"""Time-varying buffers with the smallest error that a search finds, in O(n d²) a step of the search.

The variables are the decays, and on few ``knots`` the logarithms of outputs and inputs; those of the columns are given
by the ``saturation``, with which the sensitivity is 1.  So the error alone is minimised.

Long runs start from the result for a shorter one: blocks of steps of the linear system are merged, and knots and decays
are carried over in logarithms of distances.  They also start from the best buffers of constant numbers, where these are
known.  A search for d buffers starts from equally spaced decays, and from the result for d − 1 with a decay between; in
fixed epochs also from the result for every order of steps that are as far apart, and the other way round.
The largest error of a step is approached by p-norms of the squared errors.
The search is local: a floor certifies it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from corrnoise.solvers.certified.fixed_epochs import in_fixed_epochs
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.knots import Knots
from corrnoise.solvers.families.saturation import LARGEST, Classes, Levels, Numbers
from corrnoise.solvers.objectives import RunObjective, grouped
from corrnoise.theory.mechanisms import time_varying_sums as sums
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Kind, Participation
from corrnoise.theory.recursion import Recursion

MOST = 16  #: buffers
_SHORT = 512  # steps of the shortest run that others start from
_SHORT_EPOCH = 4  # steps of an epoch of it
_LONGER = 16  # how many times longer the next is
_COARSE = 4.0  # the ratio of knots
_FINER = (2.0, 1.25)  # ratios of further knots
_FINE = 4096  # steps up to which there are further knots
_ITERATIONS = (12, 300)  # of a search
_WORK = 2_400_000  # steps of all its iterations
_BESIDE = 200_000  # steps up to which searches run beside each other, each with its own memory
_SEARCHES = 12  # about as many are made for the shortest run
_POWERS = (8.0, 32.0, 128.0, 512.0)  # of the norms for the largest error
_PAIRS = 20  # of steps and changes of the gradient
_HALVINGS = 20
_DECREASE = 1e-10  # of the logarithm of the squared error, at which a search ends
_FASTEST = 6.0  # logarithm of −log θ
_LEAST_GAP = 1e-15  # 1 − θ at the start
_LARGE = 1e6  # the logarithm of an error that overflows


# -- shorter and simpler linear systems --------------------------------------------------------------------------------


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


# -- the error and its gradient ----------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """The variables."""

    rates: Array  # log(−log θ), shape (d,)
    values: Array  # the logarithms of o and i on knots, shape (knots, 2d)
    columns: Array  # those that give the columns of the strategy, by the kind of saturation


class _Search:
    """The logarithm of the squared error of saturated buffers as a function of the variables."""

    def __init__(
        self, system: Recursion, knots: Knots, saturation: Classes | Levels, power: float | None = None
    ) -> None:
        weights = system.weights if power is None else np.sign(system.weights)
        transition, entry, weights = sums.writable(system.transition, system.input, weights)
        self.system = (transition, entry, weights)
        self.knots, self.saturation, self.power = knots, saturation, power

    def mechanism(self, point: _Point) -> TimeVaryingBuffers:
        numbers, columns = self.strategy(point)
        return TimeVaryingBuffers(*numbers, 1 / columns)

    def strategy(self, point: _Point) -> tuple[Numbers, Array]:
        """The numbers and the columns."""
        numbers = self._numbers(point)
        return numbers, self.saturation.columns(numbers, point.columns)[0]

    def _numbers(self, point: _Point) -> Numbers:
        d = point.rates.size
        values = self.knots.matrix @ point.values
        np.exp(np.clip(values, -LARGEST, LARGEST, out=values), out=values)
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
        return value, _Point(of_rates, self.knots.transposed @ of_steps, of_columns)

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


class _Run(NamedTuple):
    """A run of the ladder from short to long."""

    system: Recursion
    period: int
    kind: Kind
    limit: int  # of participations

    def search(self, ratio: float, power: float | None = None) -> _Search:
        knots = Knots.of(self.system.steps, self.period, ratio)
        classes = self.kind in ("single", "fixed epochs")
        saturation = Classes(knots) if classes else Levels(knots, self.kind == "reshuffled", self.limit)
        return _Search(self.system, knots, saturation, power)


def _ladder(whole: _Run) -> list[_Run]:
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
    values = np.full((search.knots.size, 2 * buffers), 0.5 * math.log(0.3 / buffers))
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
    free, others = np.split(point.columns, [old.saturation.free.size])
    columns = np.append(old.saturation.free.carried(free, new.saturation.free), others)
    return _Point(point.rates * (1 + stretch), values, columns)


def _constant(noise: PoleNoise, buffers: int, search: _Search) -> _Point:
    """The point of buffers of constant numbers, with weak ones for those that are missing."""
    strategy = noise.buffers()
    known = np.flatnonzero(strategy.buf_decay > 0)
    gaps = np.maximum(noise.zeros[known], _LEAST_GAP)
    weights = np.tile(0.5 * np.log(strategy.output_scale[known]), 2)
    values = np.tile(weights, (search.knots.size, 1))
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


def _shortest(run: _Run, most: int, others: Iterable[_Point] = ()) -> Iterator[_Point]:
    """The points of a short run with 1, 2, …, ``most`` buffers; each search starts from one of ``others``, too."""
    search, others = run.search(_COARSE), iter(others)
    last: _Point | None = None
    for buffers in range(1, most + 1):
        starts = [_equally_spaced(buffers, search), *islice(others, 1)]
        if last is not None:
            starts.append(_with_another(last, search.knots.steps))
        found = (search.minimum(start, _iterations(search, _SEARCHES)) for start in starts)
        _, last = min(found, key=lambda one: one[0])
        yield last


def _of_another_order(run: _Run, most: int) -> Iterator[_Point]:
    """Points for these runs from the best buffers for another order of steps."""
    if run.kind in ("fixed epochs", "min-sep"):
        another = run._replace(kind="min-sep" if run.kind == "fixed epochs" else "fixed epochs")
        search, here = another.search(_COARSE), run.search(_COARSE).saturation
        for point in _shortest(another, most):
            yield point._replace(columns=here.close_to(*search.strategy(point)))


def time_varying_buffers(
    objective: RunObjective,
    participation: Participation,
    memories: Sequence[int],
    constant: Callable[[int], PoleNoise] | None = None,
) -> Iterator[TimeVaryingBuffers]:
    """The best time-varying buffers of these numbers that a search finds.

    They are optimised for the promise of the participation, or its worst case, in which their sensitivity is at most 1.
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
    linear = objective.what.recursion()
    if linear is None:
        raise ValueError(f"objective must be a linear system for time-varying buffers, got {objective.what!r:.80}")
    system = grouped(linear)
    who = participation.worst
    kind: Kind = "single" if who.once else who.kind
    shortest, *longer = _ladder(_Run(system, who.length if who.once else who.period, kind, who.count))
    whole = longer[-1] if longer else shortest
    searches = [run.search(_COARSE) for run in longer]
    with_constant = searches[-1] if searches and objective.toeplitz else None
    if system.steps <= _FINE:
        searches += [whole.search(ratio) for ratio in _FINER]
    if objective.kind == "max":
        ratio = _COARSE if system.steps > _FINE else _FINER[0]
        searches += [whole.search(ratio, power) for power in _POWERS]
    start = shortest.search(_COARSE)

    def searched(point: _Point) -> TimeVaryingBuffers:
        buffers = point.rates.size
        search = start
        for following in searches:
            starts = [_carried(point, search, following)]
            search = following
            if search is with_constant:
                starts.append(_constant(known(buffers), buffers, search))
            point = _better(search, starts, _iterations(search))
        return search.mechanism(point)

    most = max(memories, default=0)
    found = _shortest(shortest, most, _of_another_order(shortest, most))
    points = [point for point in found if point.rates.size in memories]
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
