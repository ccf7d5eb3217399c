"""Small functions for compiled ones: a call counts references to views of arrays, which takes longer than the work.

They become part of what calls them.  numba's cache of a caller does not notice a change here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.support.kernels import kernel

inlined = kernel(inline="always")


def writable(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """The arrays, copied where they are read-only: numba compiles a function once more for such arrays."""
    return [np.require(each, requirements=("C", "W")) for each in arrays]


@inlined
def times(matrix, vector, result):  # type: ignore[no-untyped-def]
    """Fill ``result`` with the product."""
    for x in range(matrix.shape[0]):
        total = 0.0
        for y in range(matrix.shape[1]):
            total += matrix[x, y] * vector[y]
        result[x] = total


@inlined
def dot(one, other):  # type: ignore[no-untyped-def]
    """The inner product."""
    total = 0.0
    for x in range(one.size):
        total += one[x] * other[x]
    return total


@inlined
def copy(matrix, result):  # type: ignore[no-untyped-def]
    """Fill ``result`` with the entries of a matrix: an assignment to a slice takes seconds to compile."""
    for x in range(matrix.shape[0]):
        for y in range(matrix.shape[1]):
            result[x, y] = matrix[x, y]
