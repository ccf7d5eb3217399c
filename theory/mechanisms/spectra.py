"""Power spectra with proved bounds: rounded up at a frequency, on discs of complex frequencies, near a singular end.

The power spectrum S(ω) = |B(ω)|² of correlated noise is B(e^{iω}) B(e^{−iω}), which continues it to complex
frequencies z.  To integrate it with a proved error one has to bound it there, and to bound the rounding errors of its
values.  Each kind of noise needs an argument of its own:

* ``ProductNoise``: |1 − q e^{iz}| differs from |1 − q e^{iω}| by |q| (e^r − 1) at most, if |z − ω| <= r;
* ``FiniteNoise``: the same for the sum of its terms; and |S(z)| <= e^{nr} max S, n the degree (S. Bernstein);
* ``BandedStrategyNoise``: the same for the polynomial in its denominator, which is bounded from below;
* ``CepstralNoise``: term n of the logarithm changes by |c_n| (e^{n r'} − 1) at most, with r' the radius after the warp.

Rounding errors are bounded from first principles, for IEEE arithmetic and elementary functions (sine, cosine,
exponential, power, arctangent, hypotenuse) that are right to 4 units in the last place, as numpy's are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.quadrature import modulus
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

_OUTWARD_ROUNDING = 1e-9  # relative; outweighs the rounding of a bound on a disc
_DISTANCE_SHARE = 0.9  # largest share of the distance to a singularity with a trusted bound
_PI_BELOW = 2 * UNIT_ROUNDOFF  # by how much π exceeds math.pi, rounded up
_CLOSE_TO_PI = 1e-10  # at this distance floats near π are 4e-6 of it apart
_SIDE_NEIGHBOURS = 8  # neighbours on either side that interpolate a cosine sum
_TINY_DISTANCE = 1e-290  # in place of the distance 0 to a neighbour


class PowerSpectrum(ABC):
    """A power spectrum S that can be bounded.

    To certify integrals over the spectrum of another kind of noise, add a subclass to ``SPECTRA``.
    """

    @abstractmethod
    def rounded(self, frequencies: Array) -> tuple[Array, Array]:
        """S at ``frequencies`` to rounding, and an upper bound of S there."""

    @abstractmethod
    def on_discs(self, frequencies: Array, radii: Array) -> tuple[Array, Array]:
        """S at ``frequencies`` ω, and an upper bound of |S(z)| for |z − ω| <= radius (``inf`` near singularities)."""

    def reach(self, frequencies: Array) -> Array:
        """Lower bound of the distance from ω to the nearest singularity of S; ``inf`` for entire functions."""
        return np.full(frequencies.size, np.inf)

    @property
    def singular_ends(self) -> tuple[float, float]:
        """Largest distances from ω = 0 and ω = π that use ``near_end``, for singularities there; 0 without one.

        They are 1e-9 of the distance to the nearest other feature of the spectrum.
        """
        return 0.0, 0.0

    def near_end(self, end: int, edge: float) -> float:
        """Upper bound of (1/π) ∫ S dω between a singular end (0: ω = 0, 1: ω = π) and the frequency ``edge``.

        ``inf`` where the integral diverges, or may be too large to be bounded in this way.
        """
        raise NotImplementedError(f"{type(self).__name__} has no singular ends")


class ProductSpectrum(PowerSpectrum):
    """Π |1 − (1 − a_k) e^{iω}|^{2 e_k}."""

    def __init__(self, noise: ProductNoise) -> None:
        self.noise = noise
        self._error = UNIT_ROUNDOFF * float((16 + 40 * np.abs(noise.exponents)).sum())
        self._outwards = 1 + _OUTWARD_ROUNDING * (1 + float(np.abs(noise.exponents).sum()))

    def rounded(self, frequencies: Array) -> tuple[Array, Array]:
        values = self.noise.power_spectrum(frequencies)
        return values, values * (1 + self._error) + np.finfo(float).tiny

    def _moduli(self, frequencies: Array) -> Iterator[tuple[float, float, Array]]:
        """Gap, exponent and |1 − (1 − gap) e^{iω}| of each factor."""
        cosine = np.abs(np.cos(frequencies / 2))
        sine = np.abs(np.sin(frequencies / 2))
        for gap, exponent in zip(self.noise.gaps, self.noise.exponents, strict=True):
            yield float(gap), float(exponent), modulus(gap, cosine, sine)

    def reach(self, frequencies: Array) -> Array:
        distances = [np.log1p(size / abs(1 - gap)) for gap, _, size in self._moduli(frequencies)]
        return np.min(distances, axis=0) if distances else super().reach(frequencies)

    def on_discs(self, frequencies: Array, radii: Array) -> tuple[Array, Array]:
        values = np.ones(frequencies.size)
        growth = np.full(frequencies.size, self._outwards)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for gap, exponent, size in self._moduli(frequencies):
                change = abs(1 - gap) * np.expm1(radii) / size
                bent = 1 + np.sign(exponent) * np.minimum(change, _DISTANCE_SHARE)
                values *= size ** (2 * exponent)
                growth *= np.where(change <= _DISTANCE_SHARE, bent ** (2 * exponent), np.inf)
            return values, values * growth

    def _at_end(self, end: int) -> NDArray[np.bool_]:
        """Whether a factor is singular at ω = 0 (0) or π (1), or closer to π than floats can tell."""
        return self.noise.gaps == 0 if end == 0 else self.noise.gaps >= 2 - _CLOSE_TO_PI

    @property
    def singular_ends(self) -> tuple[float, float]:
        zero, pi = self._at_end(0), self._at_end(1)
        others = self.noise.gaps[~zero & ~pi]
        finest = 1e-9 * float(min(others.min(initial=1.0), (2 - others).min(initial=1.0)))
        return finest * bool(zero.any()), finest * bool(pi.any())

    def near_end(self, end: int, edge: float) -> float:
        width = math.pi - edge + _PI_BELOW if end else edge
        half = np.array([end * math.pi, edge]) / 2
        order = 0.0
        largest = self._outwards
        for gap, exponent, singular in zip(self.noise.gaps, self.noise.exponents, self._at_end(end), strict=True):
            distance = abs(gap - 2 * end)
            if singular and (exponent < 0 or distance == 0):
                # At the distance t the modulus is at least (1 − distance/2) 2 sin(t/2), with equality for distance 0.
                order += 2 * exponent
                largest *= (1 - distance / 2) ** (2 * exponent)
            else:
                sizes = modulus(gap, np.cos(half), np.sin(half))  # it is monotone between the end and the edge
                largest *= float(sizes.max() if exponent > 0 else sizes.min()) ** (2 * exponent)
        if order <= -1:
            return math.inf
        # 2 sin(t/2) lies between t (1 − width²/24) and t.
        largest *= (1 - width**2 / 24) ** min(order, 0.0)
        return largest * width ** (order + 1) / (order + 1) / math.pi


class FiniteSpectrum(PowerSpectrum):
    """|Σ β_t e^{iωt}|², from B(z) = (1 − z) Σ_{t<n} p_t zᵗ + p_n zⁿ with the partial sums p of β."""

    def __init__(self, noise: FiniteNoise) -> None:
        from corrnoise.theory.numerics import double_double_series

        self.noise = noise
        beta = noise.values
        self._degree = beta.size - 1
        partial = np.empty(beta.size)
        double_double_series.running_sums(beta, partial)
        sizes = np.abs(partial)
        self._last = float(sizes[-1])
        self._sum = float(sizes[:-1].sum())
        self._moment = float((np.arange(self._degree) * sizes[:-1]).sum())
        # |B| exceeds its largest value at N >= 8n equidistant points by the factor 1/cos(πn/2N) at most (M. Riesz).
        grid = 8 * 2 ** math.ceil(math.log2(beta.size))
        largest = float(np.abs(np.fft.rfft(beta, grid)).max()) / math.cos(math.pi / 16)
        self._largest = largest * (1 + _OUTWARD_ROUNDING) + beta.size * UNIT_ROUNDOFF * float(np.abs(beta).sum())

    def rounded(self, frequencies: Array) -> tuple[Array, Array]:
        values = self.noise.power_spectrum(frequencies)
        # Horner's scheme: z is known to 24 units of rounding, so its t-th power to 24 t, and each step adds 4.
        distance = 2 * np.sin(frequencies / 2)
        error = 64 * UNIT_ROUNDOFF * (distance * (self._sum + self._moment) + (self._degree + 1) * self._last)
        return values, (np.sqrt(values) + error) ** 2 * (1 + 8 * UNIT_ROUNDOFF)

    def on_discs(self, frequencies: Array, radii: Array) -> tuple[Array, Array]:
        values, upper = self.rounded(frequencies)
        with np.errstate(over="ignore"):
            rise = np.expm1(self._degree * radii)
            # By convexity e^{tr} − 1 <= (t/n) (e^{nr} − 1) for t <= n.
            moment = self._moment / max(self._degree, 1) * rise
            change = np.expm1(radii) * (self._sum + moment) + 2 * np.sin(frequencies / 2) * moment + self._last * rise
            # Either e^{iz} or e^{−iz} lies in the unit disk, where |B| is no larger than on the circle.
            largest = np.minimum((np.sqrt(upper) + change) ** 2, self._largest**2 * (1 + rise))
            return values, largest * (1 + _OUTWARD_ROUNDING)


class BandedStrategySpectrum(PowerSpectrum):
    """1/|C|² with a polynomial C: bounds of C from below in place of bounds from above.

    On a disc of radius r a polynomial with coefficients c changes by Σ |c_k| (e^{kr} − 1) at most.
    """

    def __init__(self, noise: BandedStrategyNoise) -> None:
        self.noise = noise
        self._strategy = FiniteSpectrum(noise.inverse)
        self._sizes = np.abs(noise.values)

    def rounded(self, frequencies: Array) -> tuple[Array, Array]:
        modulus, error = self._modulus(frequencies)
        with np.errstate(divide="ignore"):
            return 1 / modulus**2, (1 + 16 * UNIT_ROUNDOFF) / np.maximum(modulus - error, 0.0) ** 2

    def _modulus(self, frequencies: Array) -> tuple[Array, Array]:
        """|C|, and a bound of its rounding error."""
        values, upper = self._strategy.rounded(frequencies)
        return np.sqrt(values), np.sqrt(upper) - np.sqrt(values) + 8 * UNIT_ROUNDOFF * np.sqrt(upper)

    def reach(self, frequencies: Array) -> Array:
        # Σ |c_k| (e^{kr} − 1) <= (e^{nr} − 1) Σ |c_k|, which is below |C| for r < log(1 + |C|/Σ|c_k|)/n.
        if self._sizes.size == 1:
            return super().reach(frequencies)
        modulus, error = self._modulus(frequencies)
        lowest = np.maximum(modulus - error, 0.0)
        return np.log1p(lowest / (self._sizes[1:].sum() * (1 + _OUTWARD_ROUNDING))) / (self._sizes.size - 1)

    def on_discs(self, frequencies: Array, radii: Array) -> tuple[Array, Array]:
        modulus, error = self._modulus(frequencies)
        orders = np.arange(1, self._sizes.size)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            change = np.expm1(radii[:, np.newaxis] * orders) @ self._sizes[1:] * (1 + _OUTWARD_ROUNDING)
            lowest = modulus - error - change
            largest = np.where(lowest > (1 - _DISTANCE_SHARE) * modulus, (1 + _OUTWARD_ROUNDING) / lowest**2, np.inf)
            return 1 / modulus**2, largest


class CepstralSpectrum(PowerSpectrum):
    """exp(2 Re Σ c_n (ζⁿ − (−a)ⁿ)), ζ = (z − a)/(1 − a z).

    At thousands of frequencies the sum Σ c_n cos nφ over thousands of terms is too slow.  It is evaluated once on a
    uniform grid of angles φ, by FFT, and interpolated by polynomials of degree 15 through 16 neighbours.  The error is
    at most max |Π (u − k)|/16! · Σ |c_n| (n h)¹⁶ with the spacing h, and the grid is fine enough to make it rounding.
    """

    def __init__(self, noise: CepstralNoise) -> None:
        self.noise = noise
        sizes = np.abs(noise.cepstrum)
        order = np.arange(1, sizes.size + 1)
        total = float(sizes.sum())
        self._grid = 8 * 2 ** math.ceil(math.log2(sizes.size + 4))
        while (interpolation := self._interpolation_error(sizes)) > UNIT_ROUNDOFF * total:
            self._grid *= 2
        values = np.fft.rfft(np.concatenate([[0.0], noise.cepstrum]), self._grid).real
        self._padded = np.concatenate(
            [values[_SIDE_NEIGHBOURS:0:-1], values, values[-2 : -2 - _SIDE_NEIGHBOURS : -1]]
        )  # it is even
        self._constant = math.fsum(noise.cepstrum * (-noise.warp) ** order)
        phases = 128 * float((sizes * order).sum())
        sums = (512 + 16 * math.log2(self._grid)) * total
        self._error = math.expm1(2 * (UNIT_ROUNDOFF * (phases + sums) + interpolation)) + 16 * UNIT_ROUNDOFF

    def _interpolation_error(self, sizes: Array) -> float:
        """Bound for Σ c_n cos nφ; in the middle Π |u − k| is (½ · 3/2 ⋯ 15/2)²."""
        largest = math.prod(k / 2 for k in range(1, 2 * _SIDE_NEIGHBOURS, 2)) ** 2 / math.factorial(
            2 * _SIDE_NEIGHBOURS
        )
        steps = np.arange(1, sizes.size + 1) * (2 * math.pi / self._grid)
        return 1.001 * largest * float((sizes * steps ** (2 * _SIDE_NEIGHBOURS)).sum())

    def _values(self, frequencies: Array) -> Array:
        warp = self.noise.warp
        angles = 2 * np.arctan2((1 + warp) * np.sin(frequencies / 2), (1 - warp) * np.cos(frequencies / 2))
        place = angles * (self._grid / (2 * math.pi))
        first = np.minimum(np.floor(place).astype(int), self._grid // 2 - 1)
        above = np.zeros(frequencies.size)
        below = np.zeros(frequencies.size)
        for k in range(2 * _SIDE_NEIGHBOURS):
            distance = place - first - (k - _SIDE_NEIGHBOURS + 1)
            weight = (
                (-1) ** k * math.comb(2 * _SIDE_NEIGHBOURS - 1, k) / np.where(distance == 0, _TINY_DISTANCE, distance)
            )
            above += weight * self._padded[first + k + 1]
            below += weight
        return np.exp(2 * (above / below - self._constant))

    def rounded(self, frequencies: Array) -> tuple[Array, Array]:
        values = self._values(frequencies)
        return values, values * (1 + self._error)

    def on_discs(self, frequencies: Array, radii: Array) -> tuple[Array, Array]:
        values, upper = self.rounded(frequencies)
        warp = self.noise.warp
        nearest = modulus(1 - warp, np.cos(frequencies / 2), np.sin(frequencies / 2)) - abs(warp) * np.expm1(radii)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # The warped angle has the derivative (1 − a²)/((1 − a e^{iz}) (1 − a e^{−iz})).
            warped = np.where(nearest > 0, radii * (1 - warp) * (1 + warp) / nearest**2, np.inf)
            largest = upper * np.exp(2 * self._rise(warped)) * (1 + _OUTWARD_ROUNDING)
        return values, np.where(np.isfinite(largest), largest, np.inf)

    def _rise(self, radii: Array) -> Array:
        """Σ |c_n| (e^{n r} − 1), by blocks of about sqrt(N) terms."""
        sizes = np.abs(self.noise.cepstrum)
        width = math.isqrt(sizes.size) + 1
        blocks = np.zeros((width, width))
        blocks.ravel()[1 : sizes.size + 1] = sizes
        within = np.exp(radii[:, np.newaxis] * np.arange(width)) @ blocks.T
        between = np.exp((radii * width)[:, np.newaxis] * np.arange(width))
        return np.asarray((between * within).sum(axis=1) - sizes.sum())


SPECTRA: dict[type[ToeplitzNoise], type] = {
    DPSGD: ProductSpectrum,
    NuFTRL: ProductSpectrum,
    AntiPGD: ProductSpectrum,
    ProductNoise: ProductSpectrum,
    PoleNoise: ProductSpectrum,
    BufferNoise: ProductSpectrum,
    FiniteNoise: FiniteSpectrum,
    BandedStrategyNoise: BandedStrategySpectrum,
    CepstralNoise: CepstralSpectrum,
}


def spectrum_of(noise: ToeplitzNoise) -> PowerSpectrum:
    """The bounded spectrum of ``noise``; raises ``TypeError`` for kinds that are not in ``SPECTRA``.

    A subclass of a known kind counts as unknown, because it may have another spectrum.
    """
    kind = SPECTRA.get(type(noise))
    if kind is None:
        known = ", ".join(known.__name__ for known in SPECTRA)
        raise TypeError(f"noise must be of a kind whose spectrum can be bounded ({known}), got {noise!r}")
    spectrum: PowerSpectrum = kind(noise)
    return spectrum
