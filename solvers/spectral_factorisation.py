"""Spectral factorisation: the causal, minimum-phase noise with a given power spectrum.

The Fourier coefficients of log |B|² are twice the cepstrum of B (Kolmogorov, Szegő).  They fall geometrically, by the
distance of the nearest singularity of log |B|² from the unit circle: a feature of width δ at frequency 0 takes 36/δ of
them.  In the all-pass variable of ``mechanisms.cepstral`` with 1 − a = sqrt(δ) features of all widths from δ to 1
become at least sqrt(δ) wide, so that 36/sqrt(δ) do.  Several warps 1 − |a| = 2^{−j} are tried on growing grids, first
all, then those in which log |B|² is smoothest, until the cepstrum falls below rounding.

References
----------
N. Wiener, Extrapolation, Interpolation and Smoothing of Stationary Time Series, 1949.
A. Oppenheim and R. Schafer, Discrete-Time Signal Processing (cepstrum, minimum phase).
Choquette-Choo et al., arXiv 2310.06771: Section 3 (noise from its power spectrum).
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

_GRIDS = [2**10, 2**12, 2**14, 2**16, 2**18]
_ALL_WARPS = 2**12  # the largest grid on which all of them are tried
_WARPS = [0.0, *(sign * (1 - 2.0**-j) for j in range(1, 21) for sign in (1, -1))]
_KEPT = 4  # warps that are tried on larger grids
_SETTLED = 1e-12  # norm of the upper half of the cepstrum
_REPRODUCED = 8e-11  # relative, of |B|², at the frequencies of the check
_NEAR = np.geomspace(1e-9, 0.5, 400)
_CHECKED = np.concatenate([_NEAR, np.linspace(0.5, np.pi - 0.5, 1001)[1:-1], np.pi - _NEAR[::-1]])


def _logarithm(power: PowerSpectrum, frequencies: Array) -> Array:
    """Log |B|² at ``frequencies``, all of which the callable must answer."""
    values = np.asarray(power(frequencies.copy()))  # the callable may work in place
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

        ``checked`` is log |B|² at the frequencies of the check: what the grid has not seen is rough, too.
        """
        angles = (np.arange(grid) + 0.5) * (np.pi / grid)
        sine = np.sin(angles / 2)
        logarithm = _logarithm(power, 2 * np.arctan2((1 - warp) * sine, (1 + warp) * sine[::-1]))
        cepstrum = fft.dct(logarithm, type=2)[1:] / (2 * grid)
        bends = np.diff(logarithm, 2)
        warped = 2 * np.arctan2((1 + warp) * np.sin(_CHECKED / 2), (1 - warp) * np.cos(_CHECKED / 2))
        unseen = np.interp(warped, angles, logarithm) - checked
        roughness = max(np.abs(bends).max(), np.abs(unseen).max())
        return cls(warp, cepstrum, float(np.linalg.norm(cepstrum[grid // 2 :])), float(roughness))

    def noise(self) -> CepstralNoise:
        """What is left when the end that is no more than its upper half, mere rounding, is cut off."""
        left = np.sqrt(np.cumsum(np.square(self.cepstrum[::-1])))[::-1]
        return CepstralNoise(self.cepstrum[left > max(2 * self.tail, 1e-16)], self.warp)


def _deviation(noise: CepstralNoise, checked: Array) -> float:
    """The largest relative difference of |B|² from a constant times the power spectrum, at frequencies of no grid."""
    return float(np.expm1(np.ptp(np.log(noise.power_spectrum(_CHECKED)) - checked)))


def noise_from_power_spectrum(power: PowerSpectrum) -> ToeplitzNoise:
    """Return the causal, minimum-phase noise with β_0 = 1 whose |B(ω)|² is proportional to ``power``.

    Parameters
    ----------
    power
        |B|² as a function of an array of frequencies in (0, π), in radians a step, that returns positive numbers in
        the same shape.  Any scale; even in ω, and accurate near 0, to a relative error of 1e-14 or so (in terms of
        sin²(ω/2), never of 1 − cos ω).  The power spectrum of ``ProductNoise`` (``NuFTRL``, …) or ``CepstralNoise``
        itself, ``noise.power_spectrum``, gives back that noise.

    Returns
    -------
    ``CepstralNoise``, whose |B|² is ``power`` divided by a constant, exp of the mean of log ``power``: the scale of B
    is not free once β_0 = 1.  To 1e-10 relative at all frequencies, for features as narrow as 1e-6 at ω = 0 or
    1e-5 at ω = π, where a float64 frequency says no more, and 3e-4 between them.

    Raises
    ------
    ValueError
        A value of ``power`` is not positive and finite, or has a wrong shape.
    ArithmeticError
        No cepstrum settles on a quarter of a million frequencies: narrower features, narrow ones at both ends, a zero
        or pole on the unit circle (as of ν-DP-FTRL with ν = 0, whose memory never ends), jumps, or rounding errors.

    Notes
    -----
    The callable is all that is known of the spectrum: a line much narrower than 3e-4 that lies between all frequencies
    at which it is called goes unnoticed, and is missing in the result.
    """
    if not callable(power):
        raise TypeError(f"power must be a function of an array of frequencies, got {power!r}")
    owner = getattr(power, "__self__", None)
    if isinstance(owner, ProductNoise | CepstralNoise) and power == owner.power_spectrum:
        return owner
    checked = _logarithm(power, _CHECKED)
    warps, deviation = _WARPS, None
    for grid in _GRIDS:
        attempts = [_Attempt.at(power, checked, warp, grid) for warp in warps]
        settled = [attempt.noise() for attempt in attempts if attempt.tail <= _SETTLED]
        for noise in sorted(settled, key=lambda noise: (noise.warp != 0, noise.cepstrum.size)):
            deviation = _deviation(noise, checked)
            if deviation <= _REPRODUCED:
                return noise
        if grid >= _ALL_WARPS:
            attempts.sort(key=lambda attempt: attempt.roughness)
            warps = list({0.0, *(attempt.warp for attempt in attempts[:_KEPT])})
    reason = "the cepstrum does not fall below rounding"
    if deviation is not None:
        reason = f"between them it is off by {deviation:.1e}"
    raise ArithmeticError(
        f"power is not resolved by {_GRIDS[-1]} frequencies ({reason}): it must be free of jumps, of zeros and poles "
        "on the unit circle, of features narrower than 1e-6 at 0, 1e-5 at π or 3e-4 between, and of rounding errors"
    )
