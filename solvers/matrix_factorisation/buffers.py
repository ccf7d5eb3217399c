"""The best buffered linear Toeplitz mechanism with d buffers.

The gaps of zeros and poles interlace, g_1 < h_1 < … < h_d < 1, if the numbers 0 < −log h_d < −log g_d < … < −log g_1
increase.  The variables are the logarithms of these 2d increments, and any real values of them are admissible.  The
logarithm of the squared error, (sensitivity)² × (mean or largest squared error), is minimised by BFGS; value and
derivatives are closed forms (``corrnoise.theory.mechanisms.buffered``), so that a run of 10⁷ steps takes no longer than
a short one.

More buffers than the run can use make a zero and a pole merge, which leaves noise with fewer buffers.  Then the search
starts again with one buffer less.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from corrnoise.solvers.matrix_factorisation.result import OptimisedNoise
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.toeplitz_losses import OBJECTIVES, Objective
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_STEP = 1e-100  # of the complex-step derivative: its square vanishes
_STATIONARY = 1e-7  # gradient of the logarithm of the squared error at which the search ends
_MERGED = 1e-3  # distance of the logarithms of two gaps that count as one
_FIRST = 0.4  # −log of the largest gap at the start
_REACH = 0.7  # −log of the smallest gap at the start, in units of log n


def optimal_buffers(participation: Participation, *, buffers: int = 4, objective: Objective = "mean") -> OptimisedNoise:
    """The buffered linear Toeplitz mechanism with the smallest error of prefix sums.

    Parameters
    ----------
    participation
        Length of the run, and how often and how far apart an example takes part.
    buffers
        The largest number d of buffers, 1 to 16; fewer where more do not help.
    objective
        ``"mean"`` for the root mean squared error, ``"max"`` for that of the worst step.

    Returns
    -------
    A record whose ``noise`` is a ``PoleNoise`` with interlacing zeros and poles.  Its sensitivity is exact for both
    patterns of participation, rounded up.  The search is local: nothing certifies that no other set of d buffers is
    better.

    Examples
    --------
    >>> from corrnoise import Participation
    >>> found = optimal_buffers(Participation(1000), buffers=3, objective="max")
    >>> round(found.max_error, 9), found.memory
    (3.269917806, 3)
    """
    who = checks.instance("participation", participation, Participation)
    checks.choice("objective", objective, OBJECTIVES)
    count = checks.integer("buffers", buffers, 1)
    if count > 16:
        raise ValueError(f"buffers must be at most 16, got {count}")
    most = min(count, who.steps // 2)  # so many have the n − 1 parameters of any strategy
    for used in range(most, 0, -1):
        zeros, poles = _searched(who, used, objective)
        if separate(zeros, poles):
            return _evaluated(zeros, poles, who, objective)
    return _evaluated(np.empty(0), np.empty(0), who, objective)


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
    return bool(np.isfinite(logarithms).all() and (np.diff(logarithms) > _MERGED).all())


def thinned(zeros: Array, poles: Array) -> tuple[Array, Array]:
    """The gaps without the zero and the pole that are nearest to each other, or without those that are not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.abs(np.diff(np.log(np.column_stack([zeros, poles]).ravel())))
    place = int(np.argmin(np.where(np.isfinite(distances), distances, -1.0)))
    return np.delete(zeros, (place + 1) // 2), np.delete(poles, place // 2)


def _searched(participation: Participation, count: int, objective: Objective) -> tuple[Array, Array]:
    """Gaps of zeros and poles at a local minimum of the error, or where two of them merge."""
    directions = 1j * _STEP * np.eye(2 * count)

    def loss(variables: Array) -> tuple[float, Array]:
        zeros, poles = gaps_of(variables + directions)
        square = buffered.squared_sensitivity(zeros, buffered.scales(zeros, poles), participation)
        value = square * buffered.squared_error(zeros, poles, steps=participation.steps, objective=objective)
        if not (np.isfinite(value).all() and value[0].real > 0):
            return math.inf, np.zeros(variables.size)
        return math.log(value[0].real), np.asarray(value.imag / _STEP / value.real)

    def stop_if_merged(variables: Array) -> None:
        if not separate(*gaps_of(variables)):
            raise StopIteration

    smallest = max(_REACH * math.log(participation.steps), 2 * _FIRST)
    start = np.log(np.diff(np.linspace(_FIRST, smallest, 2 * count), prepend=0.0))
    with np.errstate(all="ignore"):
        found = minimize(loss, start, jac=True, method="BFGS", callback=stop_if_merged, options={"gtol": _STATIONARY})
        return gaps_of(found.x)


def _evaluated(zeros: Array, poles: Array, participation: Participation, objective: Objective) -> OptimisedNoise:
    noise = PoleNoise(zeros, poles)
    sensitivity = buffered.noise_sensitivity_upper_bound(noise, participation)
    roots = {
        kind: math.sqrt(buffered.squared_error(zeros, poles, steps=participation.steps, objective=kind))
        for kind in OBJECTIVES
    }
    return OptimisedNoise(
        noise=noise,
        participation=participation,
        objective=objective,
        sensitivity=sensitivity,
        mean_error=sensitivity * roots["mean"],
        max_error=sensitivity * roots["max"],
    )
