"""Columns with which the sensitivity of time-varying buffers is at most 1, as functions of variables, with gradients.

In fixed epochs no class of steps {r, r + b, …} needs to have a smaller sensitivity than another.  With the squares g_r
of classes for columns ς, the columns ς_t/sqrt(g_r) give every class the sensitivity 1.  The derivative of the error in
log ς is that at fixed classes, and −Σ_r λ_r ∂g_r with λ_r = Σ_t D_t/(2 g_r) over the steps t of the class, where D_t is
the derivative of the error in the logarithm of column t.

In other orders a pattern may take steps of several classes, so that all steps of an epoch get the same *level*: the
gain (``theory.mechanisms.time_varying_gains``) at the largest state that they can meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from corrnoise.solvers.families.knots import Knots
from corrnoise.theory.mechanisms import replays, time_varying_gains
from corrnoise.theory.mechanisms.time_varying import class_grams
from corrnoise.theory.numerics.checks import Array

LARGEST = 50.0  #: logarithm of a number
_WEAK_WEIGHT = 1e-3  # weight of other windows at the start
_MIN_LEVEL = 1e-12  # level
_MAX_PARTICIPATIONS = 32  # participations up to which states are those of so many
_MAX_STATES = 4_000_000  # steps times participations up to which they are, for memory

Numbers = tuple[Array, ...]  # θ, o and i; with replays also a
#: From the gradient in the logarithms of columns that in the variables; what adds to those in θ, o and i is added.
Gradient = Callable[[Array, Numbers], Array]


def _in_classes(numbers: Numbers, columns: Array, period: int) -> tuple[Array, Array, Array, Array]:
    """Bases, slopes, the states that earlier steps of the class leave, and the squares of the classes."""
    theta, outputs, inputs = numbers
    n = len(outputs)
    bases, (slopes, states), squares = np.empty(n), np.empty((2, *outputs.shape)), np.empty(min(period, n))
    time_varying_gains.gains(*numbers, bases, slopes)
    time_varying_gains.class_sums(theta, inputs, columns, bases, slopes, period, states, squares)
    return bases, slopes, states, squares


class Classes:
    """Columns ς_t/sqrt(g_r), with which each class of steps {r, r + b, …} has the sensitivity 1; log ς on knots."""

    scale = 0.15  #: of the variables in a descent, where those of outputs and inputs have 1
    smoothings: tuple[float, ...] = (0.0,)  #: that a descent takes in turn
    smoothing = 0.0

    def __init__(self, knots: Knots) -> None:
        self.free = knots
        self.classes = np.arange(knots.steps) % knots.period

    def start(self) -> Array:
        return np.zeros(self.free.size)

    def close_to(self, numbers: Numbers, columns: Array) -> Array:
        """Variables whose columns are these on knots, if these give every class the sensitivity 1."""
        return np.log(columns[self.free.at])

    def columns(self, numbers: Numbers, variables: Array) -> tuple[Array, Gradient]:
        """The columns, and what turns the gradient in their logarithms into that in the numbers and variables."""
        period = self.free.period
        free = np.exp(np.clip(self.free.spread(variables), -LARGEST, LARGEST))
        bases, slopes, states, squares = _in_classes(numbers, free, period)

        def gradient(of_columns: Array, of_numbers: Numbers) -> Array:
            shares = -np.bincount(self.classes, of_columns, squares.size) / (2 * squares)
            of_free = np.zeros_like(free)
            given = (*numbers, free), (bases, slopes, states)
            time_varying_gains.class_gradient(*given, period, shares, (*of_numbers, of_free))
            return self.free.gathered(of_free * free + of_columns)

        return free / np.sqrt(squares[self.classes]), gradient


class ReplayedClasses(Classes):
    """The same with replays, where the square of a class is Σ |X_ij| ς_i ς_j.

    The kinks of moduli lie where an optimum does.  So a search smooths them: (X_ij² + ε² X_ii X_jj)^{1/2}.
    """

    smoothings = (1e-2, 1e-3, 1e-4, 1e-5)

    def columns(self, numbers: Numbers, variables: Array) -> tuple[Array, Gradient]:
        n, period = self.free.steps, self.free.period
        count = -(-n // period)
        free = np.exp(np.clip(self.free.spread(variables), -LARGEST, LARGEST))
        theta, outputs, inputs, again = numbers
        *found, products = class_grams(theta, outputs, inputs, again, period)
        epochs = np.arange(n) // period
        own = products[np.arange(n), epochs]

        def of_class(values: Array) -> Array:  # of the steps of the class of a step, 0 for steps beyond the run
            return np.pad(values, (0, count * period - n)).reshape(count, period).T[self.classes]

        others, factors = of_class(own), free[:, np.newaxis] * of_class(free)
        sizes = np.sqrt(products**2 + self.smoothing**2 * own[:, np.newaxis] * others)
        rows = (factors * sizes).sum(axis=1)
        squares = np.bincount(self.classes, rows, min(period, n))

        def gradient(of_columns: Array, of_numbers: Numbers) -> Array:
            shares = (-np.bincount(self.classes, of_columns, squares.size) / (2 * squares))[self.classes]
            weights = shares[:, np.newaxis] * factors / np.where(sizes > 0, sizes, 1.0)
            of_products = weights * products * np.sign(np.arange(count) - epochs[:, np.newaxis] + 0.5).clip(0) * 2
            of_own = (weights * others).sum(axis=1) * self.smoothing**2
            of_products[np.arange(n), epochs] = weights[np.arange(n), epochs] * own + of_own
            replays.class_grams_gradient(numbers, period, tuple(found), of_products, of_numbers)
            return self.free.gathered(2 * shares * rows + of_columns)

        return free / np.sqrt(squares[self.classes]), gradient


def _sums_of(values: Array, count: int) -> Array:
    """The sums of so many consecutive values."""
    total = np.append(0.0, np.cumsum(values))
    return np.asarray(total[count:] - total[:-count])


class Levels:
    """Columns that give every step its level; the variables are logarithms of the weights of windows.

    A level is the sum of the weights of the windows around the step.  A pattern has at most one step of a window of b
    steps, and at most k of the run, whose weight is divided by k.  So the squared sensitivity is at most the sum of all
    weights, which is 1.  Where epochs are reshuffled they are the windows.  Otherwise a window ends at each step; those
    that follow each other from the first step, and from the last one, weigh as much as b others.
    """

    scale = 1.0
    smoothings, smoothing = Classes.smoothings, 0.0

    def __init__(self, knots: Knots, reshuffled: bool, count: int) -> None:
        n, period = knots.steps, knots.period
        epochs = -(-n // period)
        self.period, self.reshuffled = period, reshuffled
        self.free = Knots(n + period, period, knots.places, np.append(knots.epochs, epochs))
        places = np.arange(n + period) % period
        following = (places == period - 1) | (not reshuffled) & (places == (n - 1) % period)
        self.offsets = np.where(following, 0.0, -np.inf if reshuffled else -math.log(period))
        self.count = count if count < epochs else 0  # of participations, 0 where the order limits it
        self.layers = count if 0 < self.count <= _MAX_PARTICIPATIONS and count * n <= _MAX_STATES else 1

    def start(self) -> Array:
        others = np.where(self.offsets[self.free.at] < 0, math.log(_WEAK_WEIGHT), 0.0)
        return np.append(others, 0.0) if self.count else others

    def close_to(self, numbers: Numbers, columns: Array) -> Array:
        """Variables whose levels are about the gains of the steps in fixed epochs.

        With weights w_e let V_e be the sum of w_0, …, w_{e−1}: then level_t = V_{t+b} − V_t.
        """
        bases, slopes, states, _ = _in_classes(numbers, columns, self.period)
        levels = columns * (columns * bases + (slopes * states).sum(axis=1))
        before = np.zeros(self.period)
        weights = np.zeros(self.offsets.size)
        for t in range(0, levels.size, self.period):
            here = levels[t : t + self.period]
            following = np.maximum.accumulate(np.append(before[-1], before[: here.size] + here))
            weights[t + self.period - 1 :][: here.size] = np.diff(following)
            before = following[1:]
        alone = self.offsets == 0
        room = np.maximum(self.free.gathered(np.exp(self.offsets)), _MIN_LEVEL)
        around = self.free.gathered(np.where(alone, 0.0, weights)) / room
        at = np.where(alone[self.free.at], weights[self.free.at], around)
        found = np.log(np.maximum(at / at.max(), _WEAK_WEIGHT))
        return np.append(found, math.log(_WEAK_WEIGHT)) if self.count else found

    def _weights(self, variables: Array) -> Array:
        """The weights of windows that end at the steps 0, …, n + b − 1, and of the run if it limits the number."""
        logarithms = self.free.spread(variables[: self.free.size]) + self.offsets
        if self.count:
            logarithms = np.append(logarithms, variables[-1])
        weights = np.exp(logarithms - logarithms.max())
        return np.asarray(weights / weights.sum())

    def _levels(self, weights: Array) -> Array:
        around = _sums_of(weights[: self.offsets.size], self.period)[:-1]
        return np.maximum(around + weights[-1] / self.count if self.count else around, _MIN_LEVEL)

    def _of_weights(self, of_levels: Array) -> Array:
        """The gradient in the weights."""
        of_windows = _sums_of(np.pad(of_levels, self.period), self.period)[1:]
        return np.append(of_windows, of_levels.sum() / self.count) if self.count else of_windows

    def columns(self, numbers: Numbers, variables: Array) -> tuple[Array, Gradient]:
        """The columns, and what turns the gradient in their logarithms into that in the numbers and variables."""
        theta, outputs, inputs = numbers
        n, d = outputs.shape
        weights = self._weights(variables)
        bases, slopes, columns = np.empty(n), np.empty((n, d)), np.empty(n)
        states, sources = np.empty((self.layers, n, d)), np.empty((self.layers, n, d), dtype=np.int64)
        time_varying_gains.gains(*numbers, bases, slopes)
        found = (bases, slopes, self._levels(weights), self.period, self.reshuffled, columns, states, sources)
        time_varying_gains.level(theta, inputs, *found)

        def gradient(of_columns: Array, of_numbers: Numbers) -> Array:
            of_levels = np.empty(n)
            given = (*numbers, columns), (bases, slopes, states, sources)
            time_varying_gains.level_gradient(*given, of_columns / columns, of_levels, of_numbers)
            of_weights = self._of_weights(of_levels)
            of_logarithms = weights * (of_weights - weights @ of_weights)
            of_free = self.free.gathered(of_logarithms[: self.offsets.size])
            return np.append(of_free, of_logarithms[self.offsets.size :])

        return columns, gradient
