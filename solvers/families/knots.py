"""Knots: the steps of a run with free values, with linear values between them.

Knots are *graded*: in each epoch the steps at the distances 0, 1, 2, 4, 8, … from either end, and epochs likewise where
there are many.  There are about k log₂ b of them, or log₂ k log₂ b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.checks import Array

_MAX_EPOCHS = 32  # most epochs with knots of their own


def graded(length: int, ratio: float) -> Array:
    """Places of 0, …, length − 1 whose distances from the nearer end grow by ``ratio``, with the ends and middle."""
    distances = {0, (length - 1) // 2}
    distance = 1.0
    while distance < length / 2:
        distances.add(round(distance))
        distance = max(distance * ratio, distance + 1)
    return np.array(sorted(distances | {length - 1 - each for each in distances}), dtype=float)


def interpolation(at: Array, knots: Array) -> sparse.csr_array:
    """The matrix of linear interpolation at real places, shape (places, knots)."""
    left = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, max(knots.size - 2, 0))
    right = np.minimum(left + 1, knots.size - 1)
    shares = np.clip((at - knots[left]) / np.maximum(knots[right] - knots[left], 1.0), 0.0, 1.0) * (right > left)
    rows = np.tile(np.arange(at.size), 2)
    entries = np.concatenate([1 - shares, shares]), (rows, np.concatenate([left, right]))
    found = sparse.csr_array(entries, shape=(at.size, knots.size))
    found.eliminate_zeros()
    return found


def _matched(places: Array, length: int, other: int) -> Array:
    """Places of a run of another length whose distances from the nearer end are as far in logarithms."""
    far = np.minimum(places, length - 1 - places)
    near = np.expm1(np.log1p(far) * (math.log1p((other - 1) / 2) / math.log1p(max(length - 1, 1) / 2)))
    return np.asarray(np.where(places <= (length - 1) / 2, near, other - 1 - near)) if length != other else places


@kernel
def sparse_product(starts, columns, entries, given, adjoint, found):  # type: ignore[no-untyped-def]
    """Add the product of a sparse matrix by rows, or of its transpose, to ``found``; SciPy's call takes longer."""
    for row in range(starts.size - 1):
        for at in range(starts[row], starts[row + 1]):
            source, target = (row, columns[at]) if adjoint else (columns[at], row)
            for j in range(found.shape[1]):
                found[target, j] += entries[at] * given[source, j]


@dataclass(frozen=True, eq=False)
class Knots:
    """Where values are free: the product of knots of an epoch and of the run."""

    steps: int
    period: int
    places: Array  # in an epoch
    epochs: Array

    @classmethod
    def of(cls, steps: int, period: int, ratio: float) -> Knots:
        """Graded knots; a last epoch that is shorter adds the knots of its end."""
        count = -(-steps // period)
        places = graded(period, ratio)
        rest = steps - (count - 1) * period
        if rest < period:
            places = np.array(sorted({*places, *graded(rest, ratio)}))
        return cls(steps, period, places, np.arange(float(count)) if count <= _MAX_EPOCHS else graded(count, ratio))

    @property
    def size(self) -> int:
        return self.epochs.size * self.places.size

    @property
    def at(self) -> NDArray[np.int64]:
        """The steps of the knots; the last step for knots that a short last epoch lacks."""
        steps = np.add.outer(self.epochs * self.period, self.places).ravel().astype(np.int64)
        return np.minimum(steps, self.steps - 1)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """Values of all steps from the values at the knots, shape (steps, knots)."""
        count = -(-self.steps // self.period)
        epochs = interpolation(np.arange(float(count)), self.epochs)
        places = interpolation(np.arange(float(self.period)), self.places)
        return sparse.csr_array(sparse.kron(epochs, places, format="csr")[: self.steps])

    def spread(self, values: Array) -> Array:
        """Values of all steps, shape (steps, ...), from the values at the knots."""
        return self._product(values, self.steps, False)

    def gathered(self, values: Array) -> Array:
        """The adjoint of ``spread``: values at the knots."""
        return self._product(values, self.size, True)

    def _product(self, values: Array, rows: int, adjoint: bool) -> Array:
        found = np.zeros((rows, values.size // len(values)))
        given = np.ascontiguousarray(values).reshape(len(values), -1)
        sparse_product(self.matrix.indptr, self.matrix.indices, self.matrix.data, given, adjoint, found)
        return found.reshape(rows, *values.shape[1:])

    def carried(self, values: Array, to: Knots) -> Array:
        """Values on other knots, of as many epochs."""
        places = interpolation(_matched(to.places, to.period, self.period), self.places)
        return np.asarray(sparse.kron(interpolation(to.epochs, self.epochs), places) @ values)
