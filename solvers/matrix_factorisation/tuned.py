"""The best Toeplitz noise within a family for any objective of a finite run: workloads with momentum, or learning.

``families``, ``toeplitz`` and ``buffers`` do the same for prefix sums, with closed forms that reach longer runs.  Here
the squared error of a member is its squared sensitivity times the ``power`` of a ``RunObjective``.

==================  =====================  ============================================================================
function            noise                  what is searched
==================  =====================  ============================================================================
``tuned_nu``        ``NuFTRL``             ν
``tuned_poles``     ``PoleNoise``          interlacing gaps of d zeros and d poles, by BFGS
``tuned_bands``     ``BandedStrategyNoise``  the p coefficients of the strategy, by L-BFGS
``tuned_inverse``   ``FiniteNoise``        the p coefficients of the noise, by BFGS
==================  =====================  ============================================================================

All searches are local.  Sensitivities are proved upper bounds, exact where a theorem of docs/finite-runs.md says so.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from corrnoise.solvers.grid_minimum import smallest_minimum
from corrnoise.solvers.matrix_factorisation.buffers import gaps_of, separate
from corrnoise.solvers.matrix_factorisation.run_objectives import RunObjective
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.toeplitz_losses import (
    divided,
    gradient_in_noising,
    squared_sensitivity,
    squared_sensitivity_bound,
)
from corrnoise.theory.numerics.checks import Array

_STARTS = 24  # of the search over ν
_WIDTH = 1e-6
_STATIONARY = 1e-6  # gradient of the logarithm of the squared error at which a search ends
_ITERATIONS = 200
_STEP = 1e-100  # of the complex-step derivative: its square vanishes
_FIRST = 0.4  # −log of the largest gap at the start
_DIVERGED = 1e5  # log error of noise that exceeds the range of floats; finite, so that a line search can go on


def tuned_nu(objective: RunObjective, participation: Participation) -> NuFTRL:
    """ν-DP-FTRL with the best ν in (0, 1]."""
    n = objective.steps

    def error(logarithm: float) -> float:
        noise = NuFTRL(math.exp(min(logarithm, 0.0)))
        square, _ = squared_sensitivity(noise.inverse_coefficients(n), participation)
        return square * objective.power(noise.coefficients(n))[0]

    places = np.linspace(math.log(1e-2 / n), 0.0, _STARTS)
    place, _ = smallest_minimum(error, places, np.array([error(place) for place in places.tolist()]), _WIDTH)
    return NuFTRL(math.exp(place))


def tuned_bands(
    objective: RunObjective, participation: Participation, *, bands: int, start: NuFTRL
) -> BandedStrategyNoise:
    """The best strategy with p <= ``min_sep`` bands, searched from the truncated strategy of ``start``.

    With several participations p <= min_sep makes the columns of a pattern orthogonal, whatever their signs.
    """
    n = objective.steps
    impulse = np.eye(1, n)[0]
    left = n - participation.largest
    followed = (left[:, np.newaxis] > np.arange(bands)).sum(axis=0).astype(np.float64)

    def loss(tail: Array) -> tuple[float, Array]:
        strategy = np.concatenate([[1.0], tail])
        with np.errstate(over="ignore", invalid="ignore"):
            noising = divided(impulse, strategy)
            if not np.isfinite(noising).all():
                return _DIVERGED, np.zeros(tail.size)
            power, slope = objective.power(noising)
            square = followed @ strategy**2
            gradient = gradient_in_noising(slope, strategy, noising) / power + 2 * followed * strategy / square
        if not (math.isfinite(power) and np.isfinite(gradient).all()):
            return _DIVERGED, np.zeros(tail.size)
        return math.log(power) + math.log(square), gradient[1:]

    tail = start.inverse_coefficients(bands)[1:]
    if tail.size:
        options = {"gtol": _STATIONARY, "ftol": 1e-13, "maxcor": 20, "maxiter": _ITERATIONS}
        tail = minimize(loss, tail, jac=True, method="L-BFGS-B", options=options).x
    return BandedStrategyNoise(np.concatenate([[1.0], tail]))


def tuned_inverse(
    objective: RunObjective, participation: Participation, *, coefficients: int, start: NuFTRL
) -> FiniteNoise:
    """The best noise with p coefficients, searched from the first p of ``start``."""
    n = objective.steps
    impulse = np.eye(1, n)[0]

    def loss(tail: Array) -> tuple[float, Array]:
        noising = np.concatenate([[1.0], tail])
        with np.errstate(over="ignore", invalid="ignore"):
            strategy = divided(impulse, noising)
            if not np.isfinite(strategy).all():
                return _DIVERGED, np.zeros(tail.size)
            square, of_square = squared_sensitivity_bound(strategy, participation)
            padded = np.zeros(n)
            padded[: noising.size] = noising
            power, slope = objective.power(padded)
        if not (math.isfinite(square) and math.isfinite(power)):
            return _DIVERGED, np.zeros(tail.size)
        gradient = slope[: noising.size] / power + gradient_in_noising(of_square / square, noising, strategy)
        return math.log(square) + math.log(power), gradient[1:]

    tail = start.coefficients(coefficients)[1:]
    if tail.size:
        options = {"gtol": _STATIONARY, "maxiter": _ITERATIONS}
        with np.errstate(over="ignore", invalid="ignore"):
            tail = minimize(loss, tail, jac=True, method="BFGS", options=options).x
    return FiniteNoise(np.concatenate([[1.0], tail]))


def tuned_poles(objective: RunObjective, participation: Participation, *, poles: int) -> PoleNoise:
    """The best noise with d interlacing zeros and poles; fewer where two of them merge."""
    for count in range(min(poles, objective.steps // 2), 0, -1):
        gaps = _searched_gaps(objective, participation, count)
        if separate(*gaps):
            return PoleNoise(*gaps)
    return PoleNoise(np.empty(0), np.empty(0))


def _searched_gaps(objective: RunObjective, participation: Participation, count: int) -> tuple[Array, Array]:
    steps = np.arange(objective.steps - 1)
    directions = 1j * _STEP * np.eye(2 * count)

    def coefficients(zeros: buffered.Numbers, poles: buffered.Numbers) -> buffered.Numbers:
        """β, shape (…, n): β_t = −Σ r_i h_i (1 − h_i)^{t−1} for t >= 1."""
        _, residues = buffered.residues(zeros, poles)
        base = np.log1p(-poles.real)
        powers = np.exp(base[..., np.newaxis] * steps)
        if np.iscomplexobj(poles):
            slopes = -poles.imag / (1 - poles.real)
            powers = powers * (1 + 1j * slopes[..., np.newaxis] * steps)
        tail = -((residues * poles)[..., np.newaxis] * powers).sum(axis=-2)
        return np.concatenate([np.ones((*tail.shape[:-1], 1)), tail], axis=-1)

    def loss(variables: Array) -> tuple[float, Array]:
        zeros, poles = gaps_of(variables + directions)
        square = buffered.squared_sensitivity(zeros, buffered.scales(zeros, poles), participation)
        noising = coefficients(zeros, poles)
        power, slope = objective.power(np.ascontiguousarray(noising[0].real))
        if not (np.isfinite(square).all() and math.isfinite(power) and power > 0 and square[0].real > 0):
            return math.inf, np.zeros(variables.size)
        value = math.log(square[0].real) + math.log(power)
        return value, np.asarray(square.imag / square.real / _STEP + noising.imag @ slope / power / _STEP)

    smallest = max(0.7 * math.log(objective.steps), 2 * _FIRST)
    start = np.log(np.diff(np.linspace(_FIRST, smallest, 2 * count), prepend=0.0))
    with np.errstate(all="ignore"):
        options = {"gtol": _STATIONARY, "maxiter": _ITERATIONS}
        return gaps_of(minimize(loss, start, jac=True, method="BFGS", options=options).x)
