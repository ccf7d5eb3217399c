"""Moments of inputs, and the fourth moments of the iterates of linear regression.

The simulated error ½ ‖φ_t‖² has a finite variance only where the fourth moments of φ converge, at learning rates
slightly below those where the second moments do.  For inputs of independent, symmetric, standardised coordinates z_j
the moments M_ij = E φ_i² φ_j² obey a closed linear recursion, obtained by expanding

    E (φ_i − x_i z_i s)² (φ_j − x_j z_j s)²,    s = Σ z_k φ_k,

with the moments m_4, m_6, m_8 of a coordinate.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from corrnoise.theory.numerics.checks import Array

LARGEST_DIMENSION = 500


@dataclass(frozen=True)
class InputMoments:
    """Fourth, sixth and eighth moments of a standardised coordinate.

    ``code`` and ``freedom`` tell the simulation which distribution to draw from: 0 normal, 1 uniform, 2 signs, and
    3 Student's t with ``freedom`` degrees of freedom.
    """

    fourth: float
    sixth: float
    eighth: float
    code: int
    freedom: float = math.inf

    @classmethod
    def gaussian(cls) -> InputMoments:
        """Standard normal."""
        return cls(3.0, 15.0, 105.0, 0)

    @classmethod
    def uniform(cls) -> InputMoments:
        """Uniform on [−√3, √3]."""
        return cls(9 / 5, 27 / 7, 9.0, 1)

    @classmethod
    def signs(cls) -> InputMoments:
        """±1 with equal probability (Rademacher)."""
        return cls(1.0, 1.0, 1.0, 2)

    @classmethod
    def student_t(cls, freedom: float) -> InputMoments:
        """Student's t, standardised; the moment of order n is infinite unless ``freedom`` > n."""
        r = freedom - 2
        fourth = 3 * r / (freedom - 4) if freedom > 4 else math.inf
        sixth = 5 * fourth * r / (freedom - 6) if freedom > 6 else math.inf
        eighth = 7 * sixth * r / (freedom - 8) if freedom > 8 else math.inf
        return cls(fourth, sixth, eighth, 3, freedom)


class _Change(NamedTuple):
    """The change of M in a step φ ← φ − x z ⟨z, φ⟩.

    Entry (i, j) of M changes by

        −decay_ij M_ij + own_ij M_ii + own_ji M_jj + rows_ij R_i + rows_ji R_j + total_ij Σ R_k + quartic_ij Σ M_kk

    with R_i = Σ_k M_ik.  All fields have shape (d, d), and the formula holds for i = j too.
    """

    decay: Array
    own: Array
    rows: Array
    total: Array
    quartic: Array


def change_of(rates: Array, inputs: InputMoments) -> _Change:
    """The change of the fourth moments of the iterates in one step."""
    k = inputs.fourth
    m6 = inputs.sixth
    m8 = inputs.eighth

    # Off the diagonal; x belongs to the row and y to the column.
    x = rates[:, np.newaxis]
    y = rates[np.newaxis, :]
    xy = x * y
    change = _Change(
        decay=2 * (x + y) - 8 * xy - (k - 1) * (x**2 + y**2 - 6 * xy * (x + y) + 6 * (k - 1) * xy**2),
        own=(m6 - 7 * k + 6) * xy**2 - 2 * (k - 3) * xy * y,
        rows=y**2 * (1 - 6 * x + 6 * (k - 1) * x**2),
        total=3 * xy**2,
        quartic=(k - 3) * xy**2,
    )

    # On the diagonal; z is the only rate.
    z = rates
    fourth = m8 - 6 * m6 + (6 - k) * k
    np.fill_diagonal(change.decay, z * (4 - 6 * (k - 1) * z + 4 * (m6 - 3 * k) * z**2 - fourth * z**3))
    np.fill_diagonal(change.own, 0.0)
    np.fill_diagonal(change.rows, 3 * z**2 * (1 - 2 * k * z + (m6 - k) * z**2))
    np.fill_diagonal(change.total, 3 * k * z**4)
    np.fill_diagonal(change.quartic, (k - 3) * k * z**4)
    return change


def inflow_of(change: _Change, diagonal: Array, sums: Array) -> Array:
    """The terms of ``change`` but the decay, shape (d, d), from the diagonal M_ii and the row sums R_i."""
    half = change.own * diagonal[:, np.newaxis] + change.rows * sums[:, np.newaxis]
    return np.asarray(half + half.T + change.total * sums.sum() + change.quartic * diagonal.sum())


def _fixed_point(change: _Change) -> Array:
    """The solution M of decay × M = 1 + inflow(M), shape (d, d).

    The inflow depends on M through its diagonal m and its row sums R alone, so the matrix equation becomes

        ( m )   ( A  B ) ( m )   ( diagonal of 1/decay )
        ( R ) = ( C  D ) ( R ) + ( row sums of 1/decay ).
    """
    source = 1 / change.decay
    scaled = _Change(change.decay, *(source * part for part in change[1:]))
    size = len(source)
    ones = np.ones(size)
    a = np.outer(np.diag(scaled.quartic), ones)
    b = np.outer(np.diag(scaled.total), ones) + np.diag(2 * np.diag(scaled.rows))
    c = np.outer(scaled.quartic.sum(axis=1), ones) + scaled.own.T + np.diag(scaled.own.sum(axis=1))
    d = np.outer(scaled.total.sum(axis=1), ones) + scaled.rows.T + np.diag(scaled.rows.sum(axis=1))
    right = np.concatenate([np.diag(source), source.sum(axis=1)])
    diagonal, sums = np.split(np.linalg.solve(np.eye(2 * size) - np.block([[a, b], [c, d]]), right), 2)
    return source + inflow_of(scaled, diagonal, sums)


def fourth_moments_are_finite(rates: Array, inputs: InputMoments) -> bool:
    """Whether the fourth moments of the iterates converge, for stable second moments and Gaussian noise.

    For m_4 >= 3/2 the recursion of M is a matrix without negative entries, so it contracts if and only if
    M = step(M) + 1 has a positive solution.  For signs, η ‖x‖² is always Σ x_j < 2, and no step increases ‖θ − θ*‖.
    Beyond 500 dimensions the two smallest rates are added up, repeatedly, until 500 are left.  This errs on the side of
    divergence.
    """
    if inputs.fourth == 1:
        return True
    if not math.isfinite(inputs.eighth):
        return False
    lumped = np.maximum(rates, 1e-60).tolist()  # the squares of smaller rates would underflow
    heapq.heapify(lumped)
    while len(lumped) > LARGEST_DIMENSION:
        heapq.heappush(lumped, heapq.heappop(lumped) + heapq.heappop(lumped))
    return bool((_fixed_point(change_of(np.array(lumped), inputs)) > 0).all())
