"""The best strategy of any form under single participation, between two bounds.

With G = AᵀUA, U = diag u, the squared error of a strategy of sensitivity 1 is tr(G X⁻¹), X_ii <= 1, and for every
v >= 0, S = (V^½ G V^½)^½,

    (tr S)²/Σv  <=  optimum  <=  tr S · max_i X_ii,    X = V^{−½} S V^{−½}.

The plain step v_i ← v_i X_ii² never lowers the lower bound.  For the mean error u_t = 1/rows.  For the maximal error u
is found as v is, u_t ← u_t (error_t)², and the optimum is γ_2(A).  Proofs: docs/certified-optimum.md.

For prefix sums only the diagonal of S is needed, and it costs O(n m): S is a sum of m resolvents of a bidiagonal L Lᵀ.
The mean error of workloads with a banded inverse, such as momentum, costs O(n m) in the same way, by elimination, which
is used above 1024 steps.  All else takes singular value decompositions, O(n³) a step.

Sources: Li, Miklau, Hay, McGregor, Rastogi, The matrix mechanism, VLDB J. 24, 2015 (the primal problem); Denisov et
al., arXiv 2202.08312 (fixed points for the dual problem).
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from corrnoise.solvers.certified.certificates import gamma, nuclear_norm_below, sum_of_squares_above
from corrnoise.solvers.certified.fixed_point import Evaluation, bracket_optimum
from corrnoise.solvers.certified.selected_inverses import banded_root, bidiagonal_root, bidiagonal_root_matrix
from corrnoise.solvers.objectives import dense_size, full_rank_matrix
from corrnoise.solvers.optimum import Certificate
from corrnoise.theory.mechanisms.matrix import MatrixNoise, causal_strategy
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.inverse_square_root import PoleSum, inverse_square_root
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.objectives.base import Objective

LARGEST_DECOMPOSED = 1024  #: the most steps of recursive workloads with singular values in each iteration
LARGEST_CERTIFIED = 2048  #: the most steps of recursive workloads with a lower bound that includes rounding errors
_MIN_TOLERANCE = 1e-15
_LEAST_LOGARITHM = -46.0  # of a weight, relative to the largest: where a weight tends to 0, errors stay below 1e-19


class _Bidiagonal(NamedTuple):
    """L Lᵀ = V^{−½} (AᵀUA)⁻¹ V^{−½} of prefix sums, by the squares of the entries of L, with a sum of poles for it."""

    d: Array
    e: Array
    poles: PoleSum

    @classmethod
    def of(cls, v: Array, u: Array) -> _Bidiagonal:
        d, e = 1 / (u * v), 1 / (u[:-1] * v[1:])
        margin = 1 + gamma(v.size + 8)
        trace = float(v @ np.cumsum(u[::-1])[::-1]) * margin  # of V^½AᵀUAV^½, hence at least its largest eigenvalue
        beside = np.sqrt(d[:-1] * e)
        rows = d.copy()  # sums of absolute values in the rows of L Lᵀ
        rows[1:] += e + beside
        rows[:-1] += beside
        return cls(d, e, inverse_square_root(1 / trace, float(rows.max()) * margin))

    def diagonal(self) -> Array:
        return np.asarray(bidiagonal_root(self.d, self.e, self.poles.poles, self.poles.weights))

    def matrix(self) -> Array:
        return np.asarray(bidiagonal_root_matrix(self.d, self.e, self.poles.poles, self.poles.weights))

    def relative_error(self) -> float:
        """A bound of the relative error of an entry of ``diagonal`` and of its sum by ``math.fsum``."""
        return (self.poles.error + gamma(8 * self.d.size + self.poles.poles.size + 24)) * (1 + 1e-6)


def _decomposed(matrix: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
    """The singular value decomposition of U^½ A V^½."""
    left, values, right = np.linalg.svd(np.sqrt(u)[:, np.newaxis] * matrix * np.sqrt(v), full_matrices=False)
    return left, values, right


class _RootDiagonals(NamedTuple):
    """The diagonals of S = (V^½AᵀUAV^½)^½ and of T = (U^½AVAᵀU^½)^½, and a bound of their relative errors."""

    steps: Array
    rows: Array
    slack: float


def _roots_of_prefix_sums(v: Array, u: Array) -> _RootDiagonals:
    """For u constant (its T is not needed) or v reversed."""
    linear = _Bidiagonal.of(v, u)
    diagonal = linear.diagonal()
    return _RootDiagonals(diagonal, diagonal[::-1], linear.relative_error())


class BandedInverse(NamedTuple):
    """F = A⁻¹ in bands, shape (p, n), for workloads that a recursion undoes, and the diagonal of AᵀA."""

    inverse: Array
    squares: Array

    @classmethod
    def of(cls, inverse: Array) -> BandedInverse:
        one = np.ones(1)
        return cls(inverse, banded_root(_squared(inverse), 0 * one, one))

    def roots(self, v: Array) -> _RootDiagonals:
        """For the mean error: with L = V^{−½} F sqrt(n), S is (L Lᵀ)^{−½}."""
        count, n = self.inverse.shape
        scaled = np.zeros((count, n))
        for i, band in enumerate(self.inverse):
            scaled[i, : n - i] = band[: n - i] * np.sqrt(n / v[i:])
        bands = _squared(scaled)
        sums = bands[0].copy()  # of absolute values in the rows of L Lᵀ
        for i in range(1, count):
            sums[i:] += np.abs(bands[i, : n - i])
            sums[: n - i] += np.abs(bands[i, : n - i])
        poles = inverse_square_root(n / (2 * float(v @ self.squares)), 1.001 * float(sums.max()))
        steps = np.asarray(banded_root(bands, poles.poles, poles.weights))
        return _RootDiagonals(steps, steps, poles.error)


def _squared(bands: Array) -> Array:
    """L Lᵀ in bands, for a lower-triangular band matrix L."""
    count, n = bands.shape
    product = np.zeros((count, n))
    for i in range(count):
        for m in range(count - i):
            product[i, m:] += bands[m + i, : n - m] * bands[m, : n - m]
    return product


def roots_of_matrix(matrix: Array, v: Array, u: Array) -> _RootDiagonals:
    """The diagonals of the roots of a whole matrix."""
    left, values, right = _decomposed(matrix, v, u)
    return _RootDiagonals(np.square(right.T) @ values, np.square(left) @ values, 0.0)


def _lower_bound_of_matrix(matrix: Array, v: Array, u: Array) -> float:
    """(tr S)²/(Σv Σu), rounding errors included: v and u are the squares of the floats that are used."""
    steps, rows = np.sqrt(v), np.sqrt(u)
    scaled = rows[:, np.newaxis] * matrix * steps
    left, _, right = np.linalg.svd(scaled, full_matrices=False)
    trace = nuclear_norm_below(scaled, gamma(4) * np.abs(scaled), left @ right)
    return trace**2 / (sum_of_squares_above(steps) * sum_of_squares_above(rows)) * (1 - 8 * UNIT_ROUNDOFF)


def single_participation_bounds(
    objective: Objective, *, tolerance: float = 1e-9, max_iterations: int = 1000
) -> Certificate:
    """The least error of any strategy if each example is used once, and a strategy that attains it.

    The arrays of the certificate are v, shape (steps,), and u, shape (rows,).  The lower bound is rigorous, but for
    recursive workloads of more than 2048 steps.  For prefix sums ``value`` is a rigorous upper bound of the optimum,
    too; otherwise it is a float64 value.

    ``PrefixSums``, and the mean error of more than 1024 steps of a workload with a banded inverse (``MomentumSGD``),
    take O(n) time and memory an iteration.  All else takes O(n³) time and has at most 4096 steps.  The optimum of
    ``LargestError`` is γ_2(A).  The iteration ends when
    ``gap`` is at most the tolerance, or after ``max_iterations``; the bounds hold all the same.

    Raises
    ------
    ValueError
        If the columns of A are dependent, or A is too large.
    """
    checks.instance("objective", objective, Objective)
    largest = objective.aggregate == "max"
    tolerance = checks.real("tolerance", tolerance, f"[{_MIN_TOLERANCE!r}, 1]")
    max_iterations = checks.integer("max_iterations", max_iterations, 1)
    fast = objective.precise
    long = not largest and objective.steps > LARGEST_DECOMPOSED
    inverse = objective.inverse_bands() if long and not fast else None
    banded = None if inverse is None else BandedInverse.of(inverse)
    matrix = np.empty((0, 0)) if fast or banded else full_rank_matrix(objective)
    n = objective.steps
    rows = n if fast or banded else matrix.shape[0]

    roots_of = _roots_of_prefix_sums if fast else partial(roots_of_matrix, matrix)

    def weights(logarithms: Array) -> tuple[Array, Array]:
        v = _normalised(logarithms[:n])
        if not largest:
            return v, np.full(rows, 1 / rows)
        return v, v[::-1].copy() if fast else _normalised(logarithms[n:])

    def evaluate(logarithms: Array) -> Evaluation[tuple[Array, Array]]:
        v, u = weights(logarithms)
        roots = banded.roots(v) if banded else roots_of(v, u)
        trace = math.fsum(roots.steps)
        both = math.fsum(v) * math.fsum(u)
        sensitivity = roots.steps / v
        errors = roots.rows / u if largest else np.array([trace / math.fsum(u)])
        lower = trace**2 / both * (1 - roots.slack) ** 2 * (1 - 16 * UNIT_ROUNDOFF)
        upper = float(sensitivity.max() * errors.max()) / (1 - roots.slack) ** 2 * (1 + 16 * UNIT_ROUNDOFF)
        plain = np.log(v) + 2 * np.log(sensitivity / trace)
        if largest and not fast:
            plain = np.concatenate([plain, np.log(u) + 2 * np.log(errors / trace)])
        return Evaluation(lower, upper, plain, (v, u))

    start = np.zeros(n if fast or not largest else n + rows)
    found = bracket_optimum(evaluate, start, tolerance=2 * tolerance, max_iterations=max_iterations)
    lower = found.low.lower
    rigorous = fast
    if not fast and (banded is None or n <= LARGEST_CERTIFIED):
        lower, rigorous = _lower_bound_of_matrix(objective.matrix(), *found.low.point), True
    return Certificate(
        value=math.nextafter(math.sqrt(found.high.upper), math.inf),
        lower_bound=math.nextafter(math.sqrt(lower), 0.0),
        rigorous=rigorous,
        iterations=found.iterations,
        arrays=found.high.point,
    )


def single_participation_strategy(objective: Objective, certificate: Certificate) -> MatrixNoise:
    """The noise of the strategy C with CᵀC = V^{−½} (V^½ AᵀUA V^½)^½ V^{−½}, scaled to sensitivity 1 up to rounding."""
    v, u = (np.asarray(array) for array in certificate.arrays)
    n = dense_size(objective)
    if objective.precise:
        root = _Bidiagonal.of(v, u).matrix()
    else:
        _, values, right = _decomposed(objective.matrix(), v, u)
        root = (right.T * values) @ right
    gram = root / np.sqrt(np.outer(v, v))
    assert gram.shape == (n, n)
    return MatrixNoise(causal_strategy(gram / np.diagonal(gram).max()))


def _normalised(logarithms: Array) -> Array:
    values = np.exp(np.maximum(logarithms - logarithms.max(), _LEAST_LOGARITHM))
    return np.asarray(values / values.sum())
