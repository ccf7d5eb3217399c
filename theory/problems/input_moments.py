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

_LARGEST_DIMENSION = 500


@dataclass(frozen=True)
class InputMoments:
    """Fourth, sixth and eighth moments of a standardised coordinate; ``code`` and ``freedom`` name its distribution."""

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
    """What a step φ ← φ − x z ⟨z, φ⟩ adds to M, all shape (d, d) and i = j like the rest:

    −decay_ij M_ij + own_ij M_ii + own_ji M_jj + rows_ij R_i + rows_ji R_j + total_ij Σ R_k + quartic_ij Σ M_kk

    with R_i = Σ_k M_ik.
    """

    decay: Array
    own: Array
    rows: Array
    total: Array
    quartic: Array


def _change(rates: Array, inputs: InputMoments) -> _Change:
    k, m6, m8 = inputs.fourth, inputs.sixth, inputs.eighth
    x, y = rates[:, np.newaxis], rates[np.newaxis, :]
    xy = x * y
    decay = 2 * (x + y) - 8 * xy - (k - 1) * (x**2 + y**2 - 6 * xy * (x + y) + 6 * (k - 1) * xy**2)
    own = (m6 - 7 * k + 6) * xy**2 - 2 * (k - 3) * xy * y
    rows = y**2 * (1 - 6 * x + 6 * (k - 1) * x**2)
    total, quartic = 3 * xy**2, (k - 3) * xy**2
    x = rates
    fourth = m8 - 6 * m6 + (6 - k) * k
    np.fill_diagonal(decay, x * (4 - 6 * (k - 1) * x + 4 * (m6 - 3 * k) * x**2 - fourth * x**3))
    np.fill_diagonal(own, 0.0)
    np.fill_diagonal(rows, 3 * x**2 * (1 - 2 * k * x + (m6 - k) * x**2))
    np.fill_diagonal(total, 3 * k * x**4)
    np.fill_diagonal(quartic, (k - 3) * k * x**4)
    return _Change(decay, own, rows, total, quartic)


def fourth_moment_step(moments: Array, rates: Array, inputs: InputMoments) -> Array:
    """One step of M_ij = E φ_i² φ_j² without any source, shape (d, d), for φ ← φ − x z ⟨z, φ⟩ with finite moments."""
    change = _change(rates, inputs)
    own, rows = np.diag(moments), moments.sum(axis=1)
    half = change.own * own[:, np.newaxis] + change.rows * rows[:, np.newaxis]
    after = (1 - change.decay) * moments + half + half.T + change.total * rows.sum() + change.quartic * own.sum()
    return np.asarray(after)


def fourth_moments_are_finite(rates: Array, inputs: InputMoments) -> bool:
    """Whether the fourth moments of the iterates converge, for stable second moments and Gaussian noise.

    The recursion of M is a matrix without negative entries where m_4 >= 3/2, so it contracts if and only if
    M = step(M) + 1 has a positive solution: 2 d equations for its diagonal and its row sums.  For signs η ‖x‖² is
    always Σ x_j < 2, and no step lengthens θ − θ*.  Beyond 500 dimensions the two smallest rates are lumped into one,
    again and again, which errs on the side of divergence.
    """
    if inputs.fourth == 1:
        return True
    if not math.isfinite(inputs.eighth):
        return False
    lumped = np.maximum(rates, 1e-60).tolist()  # the smallest matter little, and their squares shall not vanish
    heapq.heapify(lumped)
    while len(lumped) > _LARGEST_DIMENSION:
        heapq.heappush(lumped, heapq.heappop(lumped) + heapq.heappop(lumped))
    x = np.array(lumped)
    change = _change(x, inputs)

    # M = (1 + …)/decay, so its diagonal and its row sums follow from themselves
    weights = 1 / change.decay
    own, rows, total, quartic = (weights * part for part in change[1:])
    ones = np.ones(x.size)
    feedback = [
        [np.outer(np.diag(quartic), ones), np.outer(np.diag(total), ones) + np.diag(2 * np.diag(rows))],
        [
            np.outer(quartic.sum(axis=1), ones) + own.T + np.diag(own.sum(axis=1)),
            np.outer(total.sum(axis=1), ones) + rows.T + np.diag(rows.sum(axis=1)),
        ],
    ]
    source = np.concatenate([np.diag(weights), weights.sum(axis=1)])
    diagonal, sums = np.split(np.linalg.solve(np.eye(2 * x.size) - np.block(feedback), source), 2)
    half = own * diagonal[:, np.newaxis] + rows * sums[:, np.newaxis]
    return bool((weights + half + half.T + total * sums.sum() + quartic * diagonal.sum() > 0).all())
