"""Buffers with a scale for each step: the noise of few arrays that is best for any objective tr(W N Nᵀ).

The noise is N = diag(d) T(β), where β are the coefficients of a buffered linear Toeplitz mechanism and d_t > 0 is free.
The scales decide when the privacy budget is used: a small d_t gives step t little noise and a large share of the
sensitivity.  They cost a stream one multiplication a step.

The squared error is dᵀ (W ∘ K) d with K = T(β) T(β)ᵀ, and the squared sensitivity in fixed epochs is the largest g_r(d)
= Σ_{i,j in class r} X_ij/(d_i d_j) over the classes r, with X = T(c)ᵀ T(c) >= 0.  For given β the best d solves a
convex program (S5 and S6 of docs/finite-runs.md).

*Search.*  The variables are the logarithms e of positive numbers, one for each step, and those of ``buffers`` for the
gaps of zeros and poles.  With d_i = exp(e_i) sqrt(g_r(exp e)), r the class of i, all classes have the sensitivity 1.
The logarithm of the squared error is minimised by L-BFGS.  The search is local in the gaps; the certified optimum over
all strategies (``fixed_epochs``) says what is left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import toeplitz
from scipy.optimize import minimize

from corrnoise.solvers.families.buffers import best_buffers, gaps_of, separate, thinned, variables_of
from corrnoise.solvers.objectives import RunObjective, run_objective
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz_losses import toeplitz_covariance
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation
from corrnoise.theory.workloads import PrefixSums

_STEP = 1e-100  # of the complex-step derivative: its square vanishes
_MEMORY = 20  # of L-BFGS
_DIVERGED = 1e5  # in place of a logarithm that is not finite, so that a line search can go on


class _Series(NamedTuple):
    """β and c of buffers, with their derivatives in the variables: shapes (n,), (n,), (2d, n), (2d, n)."""

    noising: Array
    strategy: Array
    noising_slope: Array
    strategy_slope: Array

    @classmethod
    def of(cls, variables: Array, steps: int) -> _Series:
        directions = np.concatenate([np.zeros((1, variables.size)), np.eye(variables.size)])
        zeros, poles = gaps_of(variables + 1j * _STEP * directions)
        times = np.arange(steps - 1)
        _, residues = buffered.residues(zeros, poles)

        def column(scales: buffered.Numbers, gaps: buffered.Numbers) -> tuple[Array, Array]:
            powers = 1 - buffered.power_gap(gaps[..., np.newaxis], times)
            tail = (scales[..., np.newaxis] * powers).sum(axis=-2)
            full = np.concatenate([np.ones((tail.shape[0], 1)), tail], axis=1)
            return full[0].real, full[1:].imag / _STEP

        noising, noising_slope = column(-residues * poles, poles)
        strategy, strategy_slope = column(buffered.scales(zeros, poles), zeros)
        return cls(noising, strategy, noising_slope, strategy_slope)


def _diagonal_sums(matrix: Array) -> Array:
    """Σ_s H_{s+k,s} for k = 0, …, n − 1."""
    n = matrix.shape[0]
    padded = np.zeros((n, 2 * n))
    padded[:, :n] = matrix[:, ::-1]  # rows of 2n − 1 entries move entry (i, s) to column n − 1 + i − s
    return np.asarray(padded.ravel()[: n * (2 * n - 1)].reshape(n, 2 * n - 1).sum(axis=0)[n - 1 :])


class _Classes(NamedTuple):
    """g_r = Σ X_ij s_i s_j over the classes of fixed epochs, with s = 1/d, and its derivatives; O(n k)."""

    steps: int
    period: int
    participations: int

    def per_step(self, strategy: Array, shares: Array) -> Array:
        """Σ_j X_ij s_i s_j over the class of i, shape (n,)."""
        rows = np.zeros(self.steps)
        for lag in range(0, self.participations * self.period, self.period):
            size = self.steps - lag
            entries = np.cumsum(strategy[:size] * strategy[lag:])[::-1]  # X_{i, i + lag}
            terms = entries * shares[:size] * shares[lag:]
            rows[:size] += terms
            if lag:
                rows[lag:] += terms
        return rows

    def over(self, values: Array) -> Array:
        """Sums of ``values``, one for each step, over the classes, for each step of the class, shape (n,)."""
        of_step = np.arange(self.steps) % self.period
        return np.asarray(np.bincount(of_step, values)[of_step])

    def slope(self, strategy: Array, shares: Array, weights: Array) -> Array:
        """Σ_r w_r ∂g_r/∂c, shape (n,); ``weights`` holds w_r for each step of the class."""
        slope = np.zeros(self.steps)
        for lag in range(0, self.participations * self.period, self.period):
            size = self.steps - lag
            outer = (2.0 if lag else 1.0) * weights[:size] * shares[:size] * shares[lag:]
            later = np.cumsum(outer)[::-1]  # of the product c_s c_{s + lag}
            slope[:size] += later * strategy[lag:]
            slope[lag:] += later * strategy[:size]
        return slope


class _Point(NamedTuple):
    """The meaning of the variables: β and c, s = 1/e, the sums of ``_Classes.per_step`` and d."""

    series: _Series
    shares: Array
    per_step: Array
    scales: Array


class _Search(NamedTuple):
    """The squared error at sensitivity 1 as a function of the variables: log e of each step, then those of the gaps."""

    gram: Array
    classes: _Classes

    def at(self, state: Array) -> _Point:
        n = self.classes.steps
        series = _Series.of(state[n:], n)
        shares = np.exp(-state[:n])
        per_step = self.classes.per_step(series.strategy, shares)
        return _Point(series, shares, per_step, np.sqrt(self.classes.over(per_step)) / shares)

    def logarithm(self, state: Array) -> tuple[float, Array]:
        """The logarithm of the squared error, and its gradient."""
        series, shares, per_step, scales = self.at(state)
        weighted = self.gram * np.outer(scales, scales)
        rows = (weighted * toeplitz_covariance(series.noising)).sum(axis=1)
        error = float(rows.sum())
        if not (math.isfinite(error) and error > 0):
            return _DIVERGED, np.zeros(state.size)
        of_scales = 2 * rows / error  # the slope of log error in log d
        of_classes = self.classes.over(of_scales) / (2 * self.classes.over(per_step))  # in g_r
        of_steps = of_scales - 2 * of_classes * per_step
        of_noising = 2 * _diagonal_sums(weighted @ toeplitz(series.noising, 0 * series.noising)) / error
        of_strategy = self.classes.slope(series.strategy, shares, of_classes)
        of_shape = series.noising_slope @ of_noising + series.strategy_slope @ of_strategy
        return math.log(error), np.concatenate([of_steps, of_shape])

    def minimum(self, shape: Array, max_iterations: int) -> Array:
        """The variables at a local minimum, from unit columns and these gaps."""
        norms = np.sqrt(np.cumsum(np.square(_Series.of(shape, self.classes.steps).strategy)))[::-1]
        options = {"maxiter": max_iterations, "maxfun": 2 * max_iterations, "maxcor": _MEMORY, "ftol": 1e-12}
        start = np.concatenate([np.log(norms), shape])
        return np.asarray(minimize(self.logarithm, start, jac=True, method="L-BFGS-B", options=options).x)


def scaled_buffers(
    objective: RunObjective, participation: Participation, buffers: int, *, max_iterations: int = 500
) -> ScaledNoise:
    """Buffers with a scale for each step, with the smallest error in fixed epochs that a search finds.

    Its sensitivity in fixed epochs is 1 up to rounding.  Every promise is taken for fixed epochs of as many steps, or
    for one participation.  There are ``max_iterations`` of L-BFGS, of O(n³) each.
    Raises ``ValueError`` where there are more than 4096 steps.
    """
    checks.integer("max_iterations", max_iterations, 1)
    n = checks.integer("steps", objective.steps, 1, largest=LARGEST_MATRIX)
    who = participation
    start = best_buffers(run_objective(PrefixSums(n)), Participation.single(n), buffers)
    shape = variables_of(*buffered.interlacing(start))
    search = _Search(objective.workload().gram(), _Classes(n, n if who.once else who.period, who.count))
    while True:
        with np.errstate(all="ignore"):
            state = search.minimum(shape, max_iterations)
        zeros, poles = gaps_of(state[n:])
        if separate(zeros, poles):
            break
        shape = variables_of(*thinned(zeros, poles))
    return ScaledNoise(PoleNoise(zeros, poles), search.at(state).scales)
