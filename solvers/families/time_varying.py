"""Time-varying buffers with the smallest error that a search finds, in O(n d²) a step of the search.

The variables are the decays, and on few ``knots`` the logarithms of outputs and inputs; those of the columns are given
by the ``saturation``, which makes the sensitivity 1.  So the error alone is minimised.

Runs of increasing length lead to the one that is meant: steps of the linear system are merged, and knots and decays are
carried over in logarithms of distances.  Which decays are best depends on the length: in short runs several are the
slowest, in long ones they are further apart.  So each search keeps three sets of different decays, and starts also from
the slowest of the best set with others that are equally spaced.  For d buffers there is also the result for d − 1 with
a decay between; in fixed epochs the result for every order of steps that are as far apart, and the other way round.
The largest error of a step is approached by p-norms of the squared errors.
The search is local: a floor certifies it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice, pairwise, repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from corrnoise.solvers.families.descent import Descent
from corrnoise.solvers.families.knots import Knots
from corrnoise.solvers.families.saturation import LARGEST, Classes, Levels, Numbers, ReplayedClasses
from corrnoise.solvers.objectives import grouped
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers, buffer_errors
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.participation import FixedEpochs, MinSep, Order, Participation, Reshuffled, Single
from corrnoise.theory.recursion import Recursion

MAX_BUFFERS = 16  #: buffers
SHORT_STEPS = 512  # steps of the shortest run that others start from
SHORT_EPOCH = 4  # steps of an epoch of it
LENGTH_RATIO = 4  # how many times longer the next is
_COARSE_RATIO = 4.0  # the ratio of knots
_FINER_RATIOS = (2.0, 1.25)  # ratios of further knots
_MAX_FINE_STEPS = 4096  # steps up to which there are further knots
_SEARCH_ITERATIONS = (12, 300)  # of a search
_USUAL_ITERATIONS = 20  # iterations for ``_USUAL_WORK`` steps of one group, in proportion to the root of its inverse
_USUAL_WORK = 100_000
_QUICK_ITERATIONS = 70  # at most, in runs that lead to one of more work than ``_LONG_WORK``
_LONG_WORK = 10_000
_SHORT_SHARE = 0.8  # of these iterations in searches for the shortest run
_MAX_START_STEPS = 30_000  # steps above which searches begin at the best starts alone
_THREADED_WORK = (1000, 200_000)  # work between which searches run beside each other: threads share Python and memory
_NORM_POWERS = (8.0, 32.0, 128.0, 512.0)  # of the norms for the largest error
_MAX_LOG_RATE = 6.0  # logarithm of −log θ
KEPT_POINTS = 3  # points of each run with which the next one begins
_DIFFERENT_RATES = (0.1, 0.5)  # rates of minima that are not one, in the shortest run and in longer ones
SLOW_BUFFERS = 3  # buffers that may be the slowest where others are equally spaced
_RATE_SPACING = 0.25  # rates of these
_START_WEIGHT = 0.5  # of a buffer, times the root of its gap
_MAX_START_RATE = 1.0  # rate at the start, at most
_MAX_REPLAYED_WORK = 1_000_000  # steps times epochs up to which there are replays
_START_REPLAY = 0.05  # factor of an earlier draw at the start
# of the logarithm of the squared error by another array, below which twice in turn there are no more arrays
_LEAST_GAIN = 0.002
_LARGE_LOG_ERROR = 1e6  # the logarithm of an error that overflows


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


class BufferPoint(NamedTuple):
    """The variables."""

    rates: Array  # log(−log θ), shape (d,)
    values: Array  # the logarithms of o and i on knots, shape (knots, 2d)
    replays: Array  # a on knots, shape (knots, r)
    columns: Array  # those that give the columns of the strategy, by the kind of saturation


class _BufferSearch:
    """The logarithm of the squared error of saturated buffers as a function of the variables."""

    def __init__(
        self, system: Recursion, knots: Knots, saturation: Classes | Levels, power: float | None = None
    ) -> None:
        if power is not None:
            system = system.with_equal_weights()
        self.system = system
        self.knots, self.saturation, self.power = knots, saturation, power
        self.iterations = _SEARCH_ITERATIONS[1]
        self.work = _work(system)

    def mechanism(self, point: BufferPoint) -> TimeVaryingBuffers:
        self.saturation.smoothing = 0.0
        (theta, outputs, inputs, *again), columns = self.strategy(point)
        replays, period = again[0] if again else np.empty((0, self.knots.steps)), self.knots.period
        for e, row in enumerate(replays, 1):
            row[: e * period] = 0.0  # no draw is so much earlier
        return TimeVaryingBuffers(theta, outputs, inputs, 1 / columns, replays=replays, period=period)

    def strategy(self, point: BufferPoint) -> tuple[Numbers, Array]:
        """The numbers and the columns."""
        numbers = self._numbers(point)
        return numbers, self.saturation.columns(numbers, point.columns)[0]

    def _numbers(self, point: BufferPoint) -> Numbers:
        d = point.rates.size
        halves = np.empty((2, self.knots.steps, d))
        for k, half in enumerate((point.values[:, :d], point.values[:, d:])):
            halves[k] = self.knots.spread(half)
        np.exp(np.clip(halves, -LARGEST, LARGEST, out=halves), out=halves)
        theta = np.exp(-np.exp(np.minimum(point.rates, _MAX_LOG_RATE)))
        again = [np.ascontiguousarray(self.knots.spread(point.replays).T)] if point.replays.size else []
        return theta, halves[0], halves[1], *again

    def __call__(self, point: BufferPoint) -> tuple[float, BufferPoint]:
        """The value, and the gradient in the variables."""
        numbers = self._numbers(point)
        columns, gradient = self.saturation.columns(numbers, point.columns)
        scales = 1 / columns
        errors, of_errors = buffer_errors((*numbers, scales), self.knots.period, self.system, keeps=True)
        value, slopes = self._of_errors(errors)
        if slopes is None:
            return value, BufferPoint(*(np.zeros_like(one) for one in point))
        *of_numbers, of_scales = of_errors(slopes)
        of_columns = gradient(-of_scales * scales, tuple(of_numbers))
        of_values = [self.knots.gathered(of_numbers[k] * numbers[k]) for k in (1, 2)]
        of_rates = -of_numbers[0] * numbers[0] * np.exp(point.rates)
        of_replays = self.knots.gathered(of_numbers[3].T) if point.replays.size else point.replays
        return value, BufferPoint(of_rates, np.hstack(of_values), of_replays, of_columns)

    def value(self, point: BufferPoint) -> float:
        """The value, in less than half of the time of both."""
        numbers, columns = self.strategy(point)
        return self._of_errors(buffer_errors((*numbers, 1 / columns), self.knots.period, self.system)[0])[0]

    def _of_errors(self, errors: Array) -> tuple[float, Array | None]:
        """The value and its derivatives in the errors, None where these overflow."""
        if not (np.isfinite(errors).all() and errors.min() >= 0 and errors.max() > 0):
            return _LARGE_LOG_ERROR, None
        return _logarithm(errors, self.power)

    def descent(self, start: BufferPoint) -> Descent:
        """The descent from a point."""

        def function(flat: Array) -> tuple[float, Array]:
            with np.errstate(all="ignore"):
                value, gradient = self(_like(start, flat))
            return value, _flat(gradient)

        scales = np.ones(start.rates.size + start.values.size)
        others = np.full(start.replays.size + start.columns.size, self.saturation.scale)
        return Descent(function, _flat(start), np.append(scales, others))


def _work(system: Recursion) -> float:
    """The work of an iteration, in steps of one group."""
    steps, groups = system.weights.shape
    return steps * (groups + 3) / 4


def _flat(point: BufferPoint) -> Array:
    return np.concatenate([one.ravel() for one in point])


def _like(point: BufferPoint, flat: Array) -> BufferPoint:
    """The variables of ``flat``, in the shapes of a point."""
    ends = np.cumsum([one.size for one in point]).tolist()
    return BufferPoint(*(flat[end - one.size : end].reshape(one.shape) for end, one in zip(ends, point, strict=True)))


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


class LadderStage(NamedTuple):
    """A run of the ladder from short to long."""

    system: Recursion
    period: int
    order: type[Order]
    limit: int  # of participations
    replays: int = 0
    share: float = 1.0  # of the usual iterations of a search
    most: int = _SEARCH_ITERATIONS[1]  # iterations of a search

    def search(self, ratio: float, power: float | None = None) -> _BufferSearch:
        knots = Knots.of(self.system.steps, self.period, ratio)
        classes = self.order in (Single, FixedEpochs)
        kind = ReplayedClasses if self.replays else Classes
        saturation = kind(knots) if classes else Levels(knots, self.order is Reshuffled, self.limit)
        found = _BufferSearch(self.system, knots, saturation, power)
        usual = round(self.share * _USUAL_ITERATIONS * math.sqrt(_USUAL_WORK / found.work))
        found.iterations = min(max(usual, _SEARCH_ITERATIONS[0]), self.most)
        return found


def stages_of(whole: LadderStage) -> list[LadderStage]:
    """Runs of increasing length, which end with the given one."""
    found = [whole]
    shortest = math.ceil(max(SHORT_STEPS * whole.period / whole.system.steps, SHORT_EPOCH))
    while found[0].period > shortest:
        shorter = max(shortest, math.ceil(found[0].period / LENGTH_RATIO))
        found.insert(0, whole._replace(system=merged(whole.system, whole.period, shorter), period=shorter))
    return found


def _middles(period: int, parts: int) -> Array:
    """The middles of equal parts of [−log b, 0]."""
    return -(np.arange(parts) + 0.5) / parts * math.log(period)


def _of_gaps(rates: Array) -> Array:
    """The logarithms of o and i for weights o i in proportion to the roots of gaps."""
    return 0.5 * math.log(_START_WEIGHT) + rates / 4


def _with_more(point: BufferPoint, rates: Array) -> BufferPoint:
    """Further buffers of these rates, whose weights are in proportion to the roots of their gaps."""
    d = point.rates.size
    values = np.tile(_of_gaps(rates), (len(point.values), 1))
    values = np.hstack([point.values[:, :d], values, point.values[:, d:], values])
    return point._replace(rates=np.append(point.rates, rates), values=values)


def _equally_spaced(buffers: int, search: _BufferSearch, replays: int) -> list[BufferPoint]:
    """Points whose rates are equally spaced but for up to two more that are the slowest, and one of equal weights."""
    steps, period, start = search.knots.steps, search.knots.period, search.saturation.start()
    slowest = -0.5 * math.log(steps) if buffers == 1 else min(-0.75 * math.log(steps), -2.0)
    equal = np.tile(np.full(buffers, 0.5 * math.log(_START_WEIGHT / buffers)), (search.knots.size, 2))
    again = np.full((search.knots.size, replays), _START_REPLAY)
    found = [BufferPoint(np.linspace(slowest, -1.0, buffers), equal, again, start)]
    for slow in range(min(buffers, SLOW_BUFFERS)):
        rates = _middles(period, buffers - slow)
        rates = np.append(rates, rates[-1] + _RATE_SPACING * np.arange(1, slow + 1))
        found.append(_with_more(BufferPoint(np.empty(0), np.empty((search.knots.size, 0)), again, start), rates))
    return found


def _spread(point: BufferPoint, period: int) -> list[BufferPoint]:
    """Points with one, two or three of its slowest buffers, which take one of equal parts, and one in each other."""
    d, order = point.rates.size, np.argsort(point.rates)
    found = []
    for slow in range(1, min(d, SLOW_BUFFERS + 1)):
        kept = order[:slow]
        slowest = point._replace(rates=point.rates[kept], values=point.values[:, np.append(kept, kept + d)])
        found.append(_with_more(slowest, _middles(period, d - slow + 1)[:-1]))
    return found


def _with_another(point: BufferPoint, steps: int) -> BufferPoint:
    """A weak buffer more, whose decay lies in the widest gap between the others."""
    d = point.rates.size
    ends = np.concatenate([[-math.log(steps) - 0.5], np.sort(point.rates), [0.0]])
    widest = int(np.argmax(np.diff(ends)))
    weak = np.full((len(point.values), 1), math.log(0.05))
    values = np.hstack([point.values[:, :d], weak, point.values[:, d:], weak])
    return point._replace(rates=np.append(point.rates, ends[widest : widest + 2].mean()), values=values)


def _carried(point: BufferPoint, old: _BufferSearch, new: _BufferSearch) -> BufferPoint:
    """The point of a longer run, or of other knots.

    The slowest decay has the gap of as many steps less, others in proportion, and weights o i are those of a root.
    """
    rates = np.minimum(point.rates, _MAX_START_RATE)
    stretch = math.log(old.knots.steps / new.knots.steps) / min(rates.min(initial=0.0), -1.0)
    values = old.knots.carried(point.values, new.knots) + np.tile(stretch * rates, 2) / 4
    free, others = np.split(point.columns, [old.saturation.free.size])
    columns = np.append(old.saturation.free.carried(free, new.saturation.free), others)
    return BufferPoint(rates * (1 + stretch), values, old.knots.carried(point.replays, new.knots), columns)


def _apart(descents: Sequence[Descent], rates: Callable[[Descent], Array], least: float) -> list[Descent]:
    """The points whose rates are so far from the rates of all earlier ones."""
    found: list[Descent] = []
    for one in descents:
        if all(np.abs(rates(one) - rates(other)).max() > least for other in found):
            found.append(one)
    return found


def lowest_points(search: _BufferSearch, starts: Sequence[BufferPoint], pool: Executor, kept: int) -> list[BufferPoint]:
    """The local minima of different decays with the least values, at most so many, the least one first."""
    each = pool.map if _THREADED_WORK[0] <= search.work <= _THREADED_WORK[1] else map
    buffers = starts[0].rates.size
    if search.knots.steps > _MAX_START_STEPS:
        with np.errstate(all="ignore"):
            starts = sorted(starts, key=search.value)[:kept]
    third = search.iterations // 3
    rates = _DIFFERENT_RATES[search.knots.steps > 2 * SHORT_STEPS]
    for smoothing in search.saturation.smoothings:
        search.saturation.smoothing = smoothing
        found = sorted(each(search.descent, starts), key=attrgetter("value"))
        for some in (third, search.iterations - third)[: 1 + (smoothing == search.saturation.smoothings[-1])]:
            found = sorted(each(Descent.go_on, found, repeat(some)), key=attrgetter("value"))
            found = _apart(found, lambda one: np.sort(one.at[:buffers]), rates)[:kept]
        starts = [_like(starts[0], one.at) for one in found]
    return list(starts)


def shortest_stage(
    run: LadderStage, most: int, pool: Executor, others: Iterable[BufferPoint] = ()
) -> Iterator[list[BufferPoint]]:
    """The best points of a short run with 1, 2, …, ``most`` buffers; each search starts from one of ``others``, too."""
    search, others = run.search(_COARSE_RATIO), iter(others)
    found: list[BufferPoint] = []
    for buffers in range(1, most + 1):
        starts = [*_equally_spaced(buffers, search, run.replays), *islice(others, 1)]
        starts += [_with_another(point, search.knots.steps) for point in found]
        found = lowest_points(search, starts, pool, KEPT_POINTS + 1)
        yield found


def _of_another_order(run: LadderStage, most: int, pool: Executor) -> Iterator[BufferPoint]:
    """Points for these runs from the best buffers for another order of steps."""
    if run.order in (FixedEpochs, MinSep) and not run.replays:
        another = run._replace(order=MinSep if run.order is FixedEpochs else FixedEpochs)
        search, here = another.search(_COARSE_RATIO), run.search(_COARSE_RATIO).saturation
        for point, *_ in shortest_stage(another, most, pool):
            yield point._replace(columns=here.close_to(*search.strategy(point)))


def _in_longer_runs(
    points: list[BufferPoint], searches: Sequence[_BufferSearch], pool: Executor, progress: Callable[[str], None]
) -> list[BufferPoint]:
    """The best points of the last search, from the points of the first one, each search for a longer run."""
    kept = [KEPT_POINTS] * (len(searches) - 2) + [1]
    work = [one.knots.steps * one.iterations * k for one, k in zip(searches[1:], kept, strict=False)]
    for k, (search, following) in enumerate(pairwise(searches)):
        starts = [_carried(one, search, following) for one in points]
        starts += _spread(starts[0], following.knots.period)
        began = time.monotonic()
        points = lowest_points(following, starts, pool, kept[k])
        left = (time.monotonic() - began) * sum(work[k + 1 :]) / work[k]
        if left >= 1:
            progress(f"{following.knots.steps} steps of {searches[-1].knots.steps}, about {left:.0f} s left")
    return points


def time_varying_buffers(
    objective: Objective,
    participation: Participation,
    memories: Sequence[int],
    progress: Callable[[str], None] = lambda _: None,
    replays: int = 0,
) -> Iterator[TimeVaryingBuffers]:
    """The best time-varying buffers of these numbers that a search finds.

    They are optimised for the participation, or its worst case, where their sensitivity is at most 1.

    Parameters
    ----------
    objective : Objective
        The quadratic form of the run.
    participation : Participation
        The data order or sampling of the run.
    memories : sequence of int
        Numbers of arrays from 1 to 16, in ascending order.  Of several numbers the search leaves out those after two
        arrays in turn that gain less than 0.1 % each in the shortest run.
    progress : callable, optional
        Called with how far the search is, and in a long run with how long it takes from there on.
    replays : int, default 0
        Earlier draws that a step makes again, at most: in k fixed epochs at most k − 1; 0 in other orders, and where
        steps times epochs exceed a million.

    Raises
    ------
    ValueError
        If the objective is not a linear system.
    """
    for memory in memories:
        checks.integer("memories", memory, 1, largest=MAX_BUFFERS)
    linear = objective.recursion()  # which the search does not keep
    if linear is None:
        raise ValueError(f"objective must be a linear system for time-varying buffers, got {objective!r:.80}")
    system = grouped(linear)
    who = participation.worst
    most = _QUICK_ITERATIONS if _work(system) > _LONG_WORK else _SEARCH_ITERATIONS[1]
    period, order = (who.length, Single) if who.once else (who.period, type(who))
    replayed = order is FixedEpochs and system.steps * who.count <= _MAX_REPLAYED_WORK
    again = min(replays, who.count - 1) if replayed else 0
    runs = stages_of(LadderStage(system, period, order, who.count, again, most=most))
    shortest = runs[0]._replace(share=_SHORT_SHARE)
    searches = [run.search(_COARSE_RATIO) for run in runs]
    finer = [runs[-1].search(ratio) for ratio in _FINER_RATIOS if system.steps <= _MAX_FINE_STEPS]
    if objective.aggregate == "max":
        ratio = _COARSE_RATIO if system.steps > _MAX_FINE_STEPS else _FINER_RATIOS[0]
        finer += [runs[-1].search(ratio, power) for power in _NORM_POWERS]
    buffers, judge, values = max(memories, default=0), shortest.search(_COARSE_RATIO), [math.inf] * 2
    with ThreadPoolExecutor() as pool:
        for points in shortest_stage(shortest, buffers, pool, _of_another_order(shortest, buffers, pool)):
            found = points[0].rates.size
            values.append(judge.value(points[0]))
            progress(f"{found} of {buffers} arrays in {judge.knots.steps} steps")
            ended = len(memories) > 1 and values[-2] - values[-1] < _LEAST_GAIN > values[-3] - values[-2]
            if found in memories or ended:
                search = searches[-1]
                point, *_ = _in_longer_runs(points, searches, pool, progress)
                for following in finer:
                    progress(f"{found} of {buffers} arrays, with more free steps")
                    (point,) = lowest_points(following, [_carried(point, search, following)], pool, 1)
                    search = following
                yield search.mechanism(point)
            if ended:
                break


def best_time_varying(
    objective: Objective, participation: Participation, memory: int, replays: int = 0
) -> TimeVaryingBuffers:
    """The best time-varying buffers with ``memory`` arrays that a search finds.

    Parameters
    ----------
    objective : Objective
        As for ``time_varying_buffers``.
    participation : Participation
        As for ``time_varying_buffers``.
    memory : int
        Number of arrays, at most 16.
    replays : int, default 0
        As for ``time_varying_buffers``.
    """
    return next(time_varying_buffers(objective, participation, [memory], replays=replays))
