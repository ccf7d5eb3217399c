"""Lower bounds of what any strategy can reach, with the rounding errors of float64 included.

For every participation here the optimum is the maximum of |A L|_*²/budget(R) over matrices R = L Lᵀ
(docs/certified-optimum.md), where the budget is the largest ⟨R, X⟩ of a strategy of sensitivity 1.  The duality of
norms bounds the nuclear norm from below by any matrix Y near an isometry:

    |M|_* >= ⟨M, Y⟩ / ‖Y‖_2.

Here Y is the isometric factor of a computed singular value decomposition, taken as the floats that it is: nothing
is assumed of the decomposition.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

_ROUNDING_FACTOR = 1 + 2.0**-30  # for the rounding errors of bounds of rounding errors


def gamma(operations: float) -> float:
    """An upper bound of (1 − u)^{−m} − 1, the relative error of m = ``operations`` roundings."""
    return operations * UNIT_ROUNDOFF / (1 - operations * UNIT_ROUNDOFF) * _ROUNDING_FACTOR


def sum_of_squares_above(values: Array) -> float:
    """An upper bound of Σ x²."""
    return math.fsum(np.square(values).ravel().tolist()) * (1 + 4 * UNIT_ROUNDOFF)


def nuclear_norm_below(matrix: Array, uncertainty: Array | float, isometry: Array) -> float:
    """A lower bound of |M|_*, for every M with |M − ``matrix``| <= ``uncertainty`` entry by entry.

    ``isometry`` is any matrix Y of the same shape, with at least as many rows as columns; the bound is good where Y is
    near U Vᵀ of the singular value decomposition U Σ Vᵀ.
    """
    products = matrix * isometry
    size = np.abs(isometry)
    inner = math.fsum(products.ravel().tolist())
    lost = 2 * UNIT_ROUNDOFF * float(np.abs(products).sum()) + float((uncertainty * size).sum())
    count = matrix.shape[0]
    gram = isometry.T @ isometry
    gram[np.diag_indices_from(gram)] -= 1.0
    rounding = gamma(count + 2) * float(size.sum(axis=0).max()) * float(size.sum(axis=1).max())
    excess = float(np.linalg.norm(gram)) + rounding
    return max(
        0.0, (inner - lost * _ROUNDING_FACTOR) / math.sqrt(1 + excess * _ROUNDING_FACTOR) * (1 - 8 * UNIT_ROUNDOFF)
    )


def product_with_uncertainty(left: Array, right: Array) -> tuple[Array, Array]:
    """A L as computed, and a bound of its rounding errors, entry by entry."""
    return left @ right, gamma(2 * left.shape[1] + 4) * (np.abs(left) @ np.abs(right))
