"""The best buffered linear Toeplitz mechanism with d buffers.

The gaps of zeros and poles interlace, g_1 < h_1 < … < h_d < 1, if the numbers 0 < −log h_d < −log g_d < … < −log g_1
increase.  The variables are the logarithms of these 2d increments, and any real values of them are admissible.  The
logarithm of the squared error, (sensitivity)² × ``power_of_buffers``, is minimised by BFGS.  For
prefix sums value and derivatives are closed forms (``corrnoise.theory.mechanisms.buffered``), so that a run of 10⁷
steps takes no longer than a short one.

More buffers than the run can use make a zero and a pole merge, which leaves noise with fewer buffers.  Then the search
starts again with one buffer less.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.solvers.quasi_newton import bfgs
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.participation import Participation

MAX_BUFFERS = 16  #: buffers
_COMPLEX_STEP = 1e-100  # of the complex-step derivative: its square vanishes
#: By whether the objective has closed forms: the gradient of the log squared error at the end of a search, iterations.
_SEARCH_ENDS = {True: {"gtol": 1e-7}, False: {"gtol": 1e-6, "maxiter": 200}}
_MERGE_DISTANCE = 1e-3  # distance of the logarithms of two gaps that count as one
_FIRST_LOG_GAP = 0.4  # −log of the largest gap at the start
_LAST_LOG_GAP = 0.7  # −log of the smallest gap at the start, in units of log n


@usual_float_errors
def best_buffers(objective: Objective, participation: Participation, buffers: int) -> PoleNoise:
    """The buffered linear Toeplitz mechanism with the smallest error.

    Its zeros and poles interlace.  The search is local: nothing certifies that no other set of d buffers is better.
    Fewer than the 1 to 16 ``buffers`` are kept where more do not help.
    """
    count = checks.integer("buffers", buffers, 1, largest=MAX_BUFFERS)
    for used in range(min(count, objective.steps // 2), 0, -1):  # so many have the n − 1 parameters of any strategy
        zeros, poles = _searched(objective, participation, used)
        if separate(zeros, poles):
            return PoleNoise(zeros, poles)
    return PoleNoise(np.empty(0), np.empty(0))


def power_of_buffers(objective: Objective, zeros: buffered.Numbers, poles: buffered.Numbers) -> buffered.Numbers:
    """The form of noise with interlacing gaps, shape (k, d), whose rows differ by complex steps; shape (k,).

    The imaginary parts of the result give its derivatives.
    """
    if objective.precise:
        return buffered.squared_error(zeros, poles, steps=objective.steps, aggregate=objective.aggregate)
    _, residues = buffered.residues(zeros, poles)
    weights, gaps, steps = residues * poles, poles.real[0], np.arange(objective.steps - 1)
    powers = np.exp(np.log1p(-gaps)[:, np.newaxis] * steps)
    # β_t = −Σ r_i h_i (1 − h_i)^{t−1} for t >= 1
    value, slope = objective.power(np.concatenate([[1.0], -(weights.real[0] @ powers)]))
    in_weights = powers @ slope[1:]
    in_gaps = powers @ (steps * slope[1:]) / (1 - gaps)
    return np.asarray(value + 1j * ((weights.real * poles.imag) @ in_gaps - weights.imag @ in_weights))


def gaps_of(variables: buffered.Numbers) -> tuple[buffered.Numbers, buffered.Numbers]:
    """Gaps of zeros and poles, ascending, of the logarithms of the increments; shapes (…, 2d) and (…, d)."""
    ordered = np.exp(-np.cumsum(np.exp(variables), axis=-1))[..., ::-1]
    return ordered[..., ::2], ordered[..., 1::2]


def variables_of(zeros: Array, poles: Array) -> Array:
    """The variables with these gaps, shape (2d,)."""
    ordered = np.column_stack([zeros, poles]).ravel()
    return np.asarray(np.log(np.diff(-np.log(ordered[::-1]), prepend=0.0)))


def separate(zeros: Array, poles: Array) -> bool:
    """Whether no two neighbouring gaps have merged; the largest pole may have reached 1, where it has no effect."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(np.column_stack([zeros, poles]).ravel())
    return bool(np.isfinite(logarithms).all() and (np.diff(logarithms) > _MERGE_DISTANCE).all())


def _searched(objective: Objective, participation: Participation, count: int) -> tuple[Array, Array]:
    """Gaps of zeros and poles at a local minimum of the error, or where two of them merge."""
    directions = 1j * _COMPLEX_STEP * np.eye(2 * count)

    def loss(variables: Array) -> tuple[float, Array]:
        zeros, poles = gaps_of(variables + directions)
        square = buffered.squared_sensitivity(zeros, buffered.scales(zeros, poles), participation)
        power = power_of_buffers(objective, zeros, poles)
        if not (np.isfinite(square * power).all() and square[0].real > 0 and power[0].real > 0):
            return math.inf, np.zeros(variables.size)
        if objective.precise:  # with one rounding less
            both = square * power
            return math.log(both[0].real), np.asarray(both.imag / _COMPLEX_STEP / both.real)
        value = math.log(square[0].real) + math.log(power[0].real)
        return value, np.asarray(square.imag / square.real / _COMPLEX_STEP + power.imag / power.real / _COMPLEX_STEP)

    smallest = max(_LAST_LOG_GAP * math.log(objective.steps), 2 * _FIRST_LOG_GAP)
    start = np.log(np.diff(np.linspace(_FIRST_LOG_GAP, smallest, 2 * count), prepend=0.0))
    with np.errstate(all="ignore"):
        return gaps_of(bfgs(loss, start, _SEARCH_ENDS[objective.precise], lambda point: not separate(*gaps_of(point))))
