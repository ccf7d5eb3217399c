"""Approximations of noise given by its cepstrum that a stream can run: real zeros and poles, or few coefficients.

In v = tan²(ω/2) the factor |1 − (1 − q) e^{iω}|² is proportional to (v + (q/(2 − q))²)/(v + 1).  So rational noise with
as many zeros as poles, all of them real, has

    |B|² = constant · Π_i (v + ζ_i)/(v + π_i),    ζ_i, π_i > 0.

Any ζ_i, π_i > 0 give stable, minimum-phase, causal noise with the gaps q = 2 √ζ/(1 + √ζ) and likewise for π.  The
logarithms of ζ and π are fitted to log |B|² on a grid in log v by least squares (Levenberg–Marquardt).  The relative
error of |B|² bounds the errors of b(x) and γ_∞², which are averages of |B|² and |B|⁻² with positive weights.  The
start is a staircase: log v is divided into cells, and if log |B|² rises by s in a cell, a zero is put s/2 before its
middle and a pole s/2 behind it.

Spectra that are smooth functions of log ω, as for training, are approximated to about 1e-7.  Narrow peaks and
dips between 0 and π would need complex zeros and poles.  Noise with these is cut off after finitely many coefficients.

Sources: D. Marquardt, An algorithm for least-squares estimation of nonlinear parameters, 1963; K. Levenberg, A method
for the solution of certain non-linear problems in least squares, 1944.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import optimize, special

from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_MOST_POLES = 48
_FEW_COEFFICIENTS = 32
_MOST_COEFFICIENTS = 2**14
_GRID_NODES = 400
_MAX_EVALUATIONS = 400  # most evaluations of a fit
_GRID_MARGIN = 30.0  # distance from the grid, in log v, beyond which the place of a zero or pole does not matter
_GRID_EXTENSION = 200.0  # the grid extends beyond the narrowest features by this factor, for b(x) at very small rates x
_CEPSTRUM_DECAY = 18.0  # half the decay exp(−width n) to rounding, at n = 36/width: the safe side


def _narrowest(noise: CepstralNoise) -> tuple[float, float]:
    """Widths of the narrowest features at ω = 0 and at ω = π, from the decay of the cepstrum; at most 1."""
    width = _CEPSTRUM_DECAY / max(noise.cepstrum.size, 1)
    stretch = (1 - noise.warp) / (1 + noise.warp)
    return min(width * stretch, 1.0), min(width / stretch, 1.0)


def _staircase(nodes: Array, logarithm: Array, poles: int) -> Array:
    """Logarithms of ζ, then of π, from cells that are shorter where log |B|² is steeper."""
    density = np.sqrt(np.abs(np.gradient(logarithm, nodes))) + 1e-3
    share = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    edges = np.interp(np.linspace(0, share[-1], poles + 1), share, nodes)
    rise = np.diff(np.interp(edges, nodes, logarithm))
    middle = (edges[1:] + edges[:-1]) / 2
    return np.concatenate([middle - rise / 2, middle + rise / 2])


def _fit(nodes: Array, logarithm: Array, poles: int) -> tuple[PoleNoise, float]:
    """The best fit with ``poles`` zeros and as many poles, and the largest error of its log |B|²."""
    sign = np.repeat([1.0, -1.0], poles)
    column = nodes[:, np.newaxis]

    def residual(places: Array) -> Array:
        difference = np.logaddexp(column, places) @ sign - logarithm
        return np.asarray(difference - difference.mean())

    def jacobian(places: Array) -> Array:
        slopes = sign * special.expit(places - column)
        return np.asarray(slopes - slopes.mean(axis=0))

    start = _staircase(nodes, logarithm, poles)
    end = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": _MAX_EVALUATIONS}
    found = optimize.least_squares(residual, start, jacobian, method="trf", **end)  # "lm" differs from call to call
    places = np.clip(found.x, nodes[0] - _GRID_MARGIN, nodes[-1] + _GRID_MARGIN)
    gaps = np.minimum(2 * special.expit(places / 2), math.nextafter(2.0, 0.0))
    return PoleNoise(gaps[:poles], gaps[poles:]), float(np.abs(found.fun).max())


def _fewest_poles(noise: CepstralNoise, tolerance: float, right: Callable[[ToeplitzNoise], bool]) -> PoleNoise | None:
    """The approximation with the fewest real zeros and poles that is ``right``, or None if more of them do not help."""
    near_zero, near_pi = _narrowest(noise)
    nodes = np.linspace(2 * math.log(near_zero / _GRID_EXTENSION), 2 * math.log(_GRID_EXTENSION / near_pi), _GRID_NODES)
    logarithm = np.log(noise._power(np.sqrt(special.expit(-nodes)), np.sqrt(special.expit(nodes))))

    @cache
    def fitted(poles: int) -> tuple[PoleNoise, float]:
        return _fit(nodes, logarithm, poles)

    failed = 0
    poles = 1
    distance = math.inf
    while not right(fitted(poles)[0]):
        before = distance
        distance = fitted(poles)[1]
        if poles == _MOST_POLES or (poles > 10 and distance > max(before / 2, 100 * tolerance)):
            return None
        failed = poles
        poles = min(poles + 1 + poles // 3, _MOST_POLES)
    return fitted(bisect_left(range(poles), True, lo=failed + 1, key=lambda n: right(fitted(n)[0])))[0]


def _fewest_coefficients(noise: CepstralNoise, most: int, right: Callable[[ToeplitzNoise], bool]) -> FiniteNoise | None:
    """The noise cut off after the fewest coefficients that are ``right``, in steps of a quarter of an octave."""
    coefficients = noise.coefficients(most)
    sizes = sorted({round(2 ** (quarter / 4)) for quarter in range(4 * math.ceil(math.log2(most)) + 1)})
    failed = -1
    place = 0
    while not right(FiniteNoise(coefficients[: sizes[place]])):
        if place == len(sizes) - 1:
            return None
        failed = place
        place = min(place + 4, len(sizes) - 1)
    place = bisect_left(range(place), True, lo=failed + 1, key=lambda i: right(FiniteNoise(coefficients[: sizes[i]])))
    return FiniteNoise(coefficients[: sizes[place]])


def reduced_noise(noise: CepstralNoise, tolerance: float) -> PoleNoise | FiniteNoise:
    """Approximate noise of a factorised spectrum by noise that takes little memory and time a step.

    The result has up to 32 coefficients if they suffice, otherwise up to 48 real zeros and poles, otherwise up to 16384
    coefficients. The result is other noise than ``noise``: its privacy follows from *its own* sensitivity, never from
    that of ``noise``.  The spectrum of ``NuFTRL`` takes 8 poles for ν = 0.01, 14 for 1e-4 and 19 for 1e-6, at a
    tolerance of 1e-6.

    The tolerance in [1e-12, 1) bounds the relative error of the limiting sensitivity and of the averaged variances b(x)
    at all rates x from the narrowest feature of |B|² at ω = 0 or π, estimated from the decay of the cepstrum, up to 1.

    Raises
    ------
    ValueError
        If no form reaches the tolerance.
    """
    if not isinstance(noise, CepstralNoise):
        raise TypeError(f"noise must be CepstralNoise, got {noise!r}")
    tolerance = checks.real("tolerance", tolerance, "[1e-12, 1)")
    rates = np.geomspace(min(*_narrowest(noise), 0.5), 1.0, 48)
    variances = noise.averaged_variance(rates)
    sensitivity = noise.limiting_sensitivity()

    def right(candidate: ToeplitzNoise) -> bool:
        try:
            close = (np.abs(candidate.averaged_variance(rates) / variances - 1) <= tolerance).all()
            return bool(close) and abs(candidate.limiting_sensitivity() / sensitivity - 1) <= tolerance
        except ArithmeticError:
            return False

    found = (
        _fewest_coefficients(noise, _FEW_COEFFICIENTS, right)
        or _fewest_poles(noise, tolerance, right)
        or _fewest_coefficients(noise, _MOST_COEFFICIENTS, right)
    )
    if found is None:
        raise ValueError(
            f"tolerance must be larger for {noise!r}: neither {_MOST_POLES} real zeros and poles nor "
            f"{_MOST_COEFFICIENTS} coefficients reach {tolerance!r}"
        )
    return found
