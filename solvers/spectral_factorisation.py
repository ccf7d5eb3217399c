"""Spectral factorisation: the causal, minimum-phase noise with a given power spectrum.

The Fourier coefficients of log |B|² are twice the cepstrum of B (Kolmogorov, Szegő).  They decrease geometrically, at a
rate given by the distance of the nearest singularity of log |B|² from the unit circle.  A feature of width δ at
frequency 0 needs 36/δ coefficients.  In the all-pass variable of ``mechanisms.cepstral`` with 1 − a = sqrt(δ) all
features of widths from δ to 1 become at least sqrt(δ) wide, and 36/sqrt(δ) coefficients suffice.  Several warps
1 − |a| = 2^{−j} are tried on growing grids, until the cepstrum falls below rounding.  Small grids try all warps, large
grids the warps that make log |B|² smoothest.

Sources: N. Wiener, Extrapolation, Interpolation and Smoothing of Stationary Time Series, 1949; A. Oppenheim and R.
Schafer, Discrete-Time Signal Processing (cepstrum, minimum phase); Choquette-Choo et al., arXiv 2310.06771: Section 3
(noise from its power spectrum).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import fft

from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array

PowerSpectrum = Callable[[Array], Array]

_GRID_SIZES = [2**10, 2**12, 2**14, 2**16, 2**18]
_ALL_WARPS = 2**12  # the largest grid that tries all warps
_WARP_VALUES = [0.0, *(sign * (1 - 2.0**-j) for j in range(1, 21) for sign in (1, -1))]
_KEPT_WARPS = 4  # warps that are tried on larger grids
_MAX_TAIL_NORM = 1e-12  # largest norm of the upper half of a cepstrum that is accepted
MAX_RELATIVE_ERROR = 8e-11  # largest relative error of |B|² at the frequencies of the check
_NEAR_FREQUENCIES = np.geomspace(1e-9, 0.5, 400)
CHECKED_FREQUENCIES = np.concatenate(
    [_NEAR_FREQUENCIES, np.linspace(0.5, np.pi - 0.5, 1001)[1:-1], np.pi - _NEAR_FREQUENCIES[::-1]]
)


def _logarithm(power: PowerSpectrum, frequencies: Array) -> Array:
    """Log |B|² at ``frequencies``; raise ``ValueError`` for values that are not positive and finite."""
    values = np.asarray(power(frequencies.copy()))  # a copy, because the callable may work in place
    if values.shape != frequencies.shape or values.dtype.kind not in "iuf":
        raise ValueError(
            f"power must return real numbers in the shape of its argument, {frequencies.shape}, "
            f"got {values.dtype} of shape {values.shape}"
        )
    bad = ~((values > 0) & np.isfinite(values))
    if bad.any():
        raise ValueError(
            f"power must be positive and finite at every frequency, got {float(values[bad][0])!r} at "
            f"{float(frequencies[bad][0])!r}"
        )
    return np.log(values.astype(np.float64))


@dataclass(frozen=True)
class _Attempt:
    """The cepstrum for one warp from one grid, the norm of its upper half, and how rough log |B|² is on the grid."""

    warp: float
    cepstrum: Array
    tail: float
    roughness: float

    @classmethod
    def at(cls, power: PowerSpectrum, checked: Array, warp: float, grid: int) -> _Attempt:
        """Sample at φ = π (k + ½)/grid, never at the ends, where some formulas are 0/0.

        ``checked`` is log |B|² at the frequencies of the check.  Features that the grid misses count as roughness.
        """
        angles = (np.arange(grid) + 0.5) * (np.pi / grid)
        sine = np.sin(angles / 2)
        logarithm = _logarithm(power, 2 * np.arctan2((1 - warp) * sine, (1 + warp) * sine[::-1]))
        cepstrum = fft.dct(logarithm, type=2)[1:] / (2 * grid)
        bends = np.diff(logarithm, 2)
        warped = 2 * np.arctan2(
            (1 + warp) * np.sin(CHECKED_FREQUENCIES / 2), (1 - warp) * np.cos(CHECKED_FREQUENCIES / 2)
        )
        unseen = np.interp(warped, angles, logarithm) - checked
        roughness = max(np.abs(bends).max(), np.abs(unseen).max())
        return cls(warp, cepstrum, float(np.linalg.norm(cepstrum[grid // 2 :])), float(roughness))

    def noise(self) -> CepstralNoise:
        """Noise with the cepstrum cut off where the rest is no larger than rounding, the norm of its upper half."""
        left = np.sqrt(np.cumsum(np.square(self.cepstrum[::-1])))[::-1]
        return CepstralNoise(self.cepstrum[left > max(2 * self.tail, 1e-16)], self.warp)


def deviation_of(noise: CepstralNoise, checked: Array) -> float:
    """The largest relative difference of |B|² from a constant times the power spectrum, between the grid points."""
    return float(np.expm1(np.ptp(np.log(noise.power_spectrum(CHECKED_FREQUENCIES)) - checked)))


def noise_from_power_spectrum(power: PowerSpectrum) -> ToeplitzNoise:
    """Return the causal, minimum-phase noise with β_0 = 1 whose |B(ω)|² is proportional to ``power``.

    Returns ``CepstralNoise``.  Its |B|² is ``power`` divided by exp of the mean of log ``power``, because β_0 = 1 fixes
    the scale.  The relative error is 1e-10 at all frequencies, for features that are at least 1e-6 wide at ω = 0, 1e-5
    at ω = π, and 3e-4 between.  (Frequencies in float64 do not resolve narrower features at π.).
      The reason may be
    narrower features, narrow features at both ends, a zero or pole on the unit circle (as for ν-DP-FTRL with ν = 0),
    jumps, or rounding errors.

    The spectrum is known only at the frequencies of the calls of ``power``.  A line much narrower than 3e-4 between
    these frequencies goes unnoticed and is missing in the result.

    Parameters
    ----------
    power : callable
        |B|² on any scale, as a function of an array of frequencies in (0, π), in radians a step, that returns positive
        numbers in the same shape.  It must be accurate near 0 to a relative error of about 1e-14, so it should be
        written in terms of sin²(ω/2), never of 1 − cos ω.  If it is ``noise.power_spectrum`` of ``ProductNoise``
        (``NuFTRL``, …) or ``CepstralNoise``, the result is that noise.

    Raises
    ------
    ValueError
        If a value of ``power`` is not positive and finite, or has a wrong shape.
    ArithmeticError
        If no cepstrum converges on a quarter of a million frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from corrnoise.solvers.spectral_factorisation import noise_from_power_spectrum
    >>> noise = noise_from_power_spectrum(lambda frequencies: 0.25 + 2 * np.sin(frequencies / 2) ** 2)
    >>> noise.coefficients(2).round(6)
    array([ 1. , -0.5])
    """
    if not callable(power):
        raise TypeError(f"power must be a function of an array of frequencies, got {power!r}")
    owner = getattr(power, "__self__", None)
    if isinstance(owner, ProductNoise | CepstralNoise) and power == owner.power_spectrum:
        return owner
    checked = _logarithm(power, CHECKED_FREQUENCIES)
    warps = _WARP_VALUES
    deviation = None
    for grid in _GRID_SIZES:
        attempts = [_Attempt.at(power, checked, warp, grid) for warp in warps]
        settled = [attempt.noise() for attempt in attempts if attempt.tail <= _MAX_TAIL_NORM]
        for noise in sorted(settled, key=lambda noise: (noise.warp != 0, noise.cepstrum.size)):
            deviation = deviation_of(noise, checked)
            if deviation <= MAX_RELATIVE_ERROR:
                return noise
        if grid >= _ALL_WARPS:
            attempts.sort(key=lambda attempt: attempt.roughness)
            warps = list({0.0, *(attempt.warp for attempt in attempts[:_KEPT_WARPS])})
    reason = "the cepstrum does not fall below rounding"
    if deviation is not None:
        reason = f"between them it is off by {deviation:.1e}"
    raise ArithmeticError(
        f"power is not resolved by {_GRID_SIZES[-1]} frequencies ({reason}): it must have no jumps, no zeros or poles "
        "on the unit circle, no features narrower than 1e-6 at 0, 1e-5 at π or 3e-4 between, and no rounding errors"
    )
