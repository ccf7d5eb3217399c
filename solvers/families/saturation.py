"""Columns with which the sensitivity of time-varying buffers is at most 1, as functions of variables, with gradients.

In fixed epochs no class of steps {r, r + b, …} needs to have a smaller sensitivity than another.  With the squares g_r
of classes for columns ς, the columns ς_t/sqrt(g_r) give every class the sensitivity 1.  The derivative of the error in
log ς is that at fixed classes, and −Σ_r λ_r ∂g_r with λ_r = Σ_t D_t/(2 g_r) over the steps t of the class, where D_t is
the derivative of the error in the logarithm of column t.

In other orders a pattern may take steps of several classes, so that all steps of an epoch get the same *level*: the
gain (``theory.mechanisms.time_varying_sums``) at the largest state that they can meet.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from corrnoise.solvers.families.knots import Knots, interpolation
from corrnoise.theory.mechanisms import time_varying_sums as sums
from corrnoise.theory.numerics.checks import Array

LARGEST = 50.0  #: logarithm of a number
_COUNTED = 32  # participations up to which states are those of so many
_STATES = 4_000_000  # steps times participations up to which they are, for memory

Numbers = tuple[Array, Array, Array]  # θ, o and i
Gradient = Callable[[Array], tuple[Array, Array, Array, Array]]  # in θ, o, i and the variables of the columns


class Classes:
    """Columns ς_t/sqrt(g_r), with which each class of steps {r, r + b, …} has the sensitivity 1; log ς on knots."""

    def __init__(self, knots: Knots) -> None:
        self.knots = knots
        self.classes = np.arange(knots.steps) % knots.period

    def start(self) -> Array:
        return np.zeros(self.knots.matrix.shape[1])

    def carried(self, columns: Array, old: Knots) -> Array:
        return old.carried(columns, self.knots)

    def close_to(self, columns: Array) -> Array:
        """Variables whose columns are these on knots, if these give every class the sensitivity 1."""
        at = np.add.outer(self.knots.epochs * self.knots.period, self.knots.places).ravel().astype(int)
        return np.log(columns[np.minimum(at, self.knots.steps - 1)])

    def columns(self, numbers: Numbers, variables: Array) -> tuple[Array, Gradient]:
        """The columns, and what turns the gradient in their logarithms into that in the numbers and variables."""
        theta, outputs, inputs = numbers
        n, period = len(outputs), self.knots.period
        free = np.exp(np.clip(self.knots.matrix @ variables, -LARGEST, LARGEST))
        bases, slopes, states = np.empty(n), np.empty(outputs.shape), np.empty(outputs.shape)
        squares = np.empty(min(period, n))
        sums.gains(*numbers, bases, slopes)
        sums.class_sums(theta, inputs, free, bases, slopes, period, states, squares)

        def gradient(of_columns: Array) -> tuple[Array, Array, Array, Array]:
            shares = -np.bincount(self.classes, of_columns, squares.size) / (2 * squares)
            found = np.empty_like(theta), np.empty_like(outputs), np.empty_like(inputs), np.empty_like(free)
            sums.class_gradient((*numbers, free), (bases, slopes, states), period, shares, found)
            return *found[:3], self.knots.transposed @ (found[3] * free + of_columns)

        return free / np.sqrt(squares[self.classes]), gradient


class Levels:
    """Columns that give every step its level; the variables are logarithms of the weights of windows.

    A level is the sum of the weights of the windows around the step.  A pattern has at most one step of a window of b
    steps, and at most k of the run, whose weight is divided by k.  So the squared sensitivity is at most the sum of all
    weights, which is 1.  The windows of b steps are those that follow each other from the first step, and from the last
    one; where epochs are reshuffled they are the epochs.
    """

    def __init__(self, knots: Knots, reshuffled: bool, count: int) -> None:
        self.knots, self.reshuffled = knots, reshuffled
        n = knots.steps
        ordered = np.arange(n) // knots.period
        epochs = int(ordered[-1]) + 1
        windows = [ordered] if reshuffled or n % knots.period == 0 else [ordered, ordered[::-1]]
        parts = [sparse.csr_array((np.ones(n), (np.arange(n), one)), shape=(n, epochs)) for one in windows]
        known = [interpolation(np.arange(float(epochs)), knots.epochs)] * len(windows)
        if count < epochs:
            parts.append(sparse.csr_array(np.full((n, 1), 1 / count)))
            known.append(sparse.csr_array([[1.0]]))
        self.sets = len(windows)
        self.layers = count if count < epochs and count <= _COUNTED and count * n <= _STATES else 1
        self.windows = sparse.hstack(parts, format="csr")
        self.matrix = sparse.csr_array(sparse.block_diag(known))

    def start(self) -> Array:
        return np.zeros(self.matrix.shape[1])

    def carried(self, columns: Array, old: Knots) -> Array:
        size = old.epochs.size
        sets = columns[: columns.size // size * size].reshape(-1, size)
        moved = interpolation(self.knots.epochs, old.epochs) @ sets[np.minimum(np.arange(self.sets), len(sets) - 1)].T
        return np.concatenate([moved.T.ravel(), columns[sets.size :]])

    def columns(self, numbers: Numbers, variables: Array) -> tuple[Array, Gradient]:
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
