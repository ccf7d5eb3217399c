"""Noise given by the logarithm of its transfer function: what factorising a power spectrum finds.

    log B(z) = Σ_{n=1}^N c_n (ζⁿ − (−a)ⁿ),    ζ = (z − a)/(1 − a z),

the cepstrum c in an all-pass variable ζ, whose angle φ has tan(φ/2) = (1 + a)/(1 − a) tan(ω/2).  The warp −1 < a < 1
spreads frequencies out around 0 (a > 0) or π (a < 0), so that narrow features there take few c_n; the constant makes
β_0 = 1.  Such noise is minimum phase by construction, and its inverse has the cepstrum −c.

A harmonic function in the unit disk stays one in the variable ζ.  The averaged variance b(x) is the harmonic extension
of |B|² from the circle to z = 1 − x, and γ_∞² that of |B|⁻² to z = 0: both lie on the real axis, also in ζ, and of the
trigonometric interpolant of M equidistant values f_k at φ_k = 2πk/M the extension to −1 < ρ < 1 is

    (1/M) Σ_k f_k (1 − (−1)^k ρ^{M/2}) (1 − ρ²)/|1 − ρ e^{iφ_k}|²,

because 1 + 2 Σ_{n<M/2} ρⁿ cos nφ + ρ^{M/2} cos (M/2)φ is that weight at φ = φ_k.  All weights are positive: nothing
cancels.

Sources: A. Oppenheim and R. Schafer, Discrete-Time Signal Processing (cepstrum, minimum phase); A. Härmä et al.,
Frequency-warped signal processing for audio applications, 2000; Choquette-Choo et al., arXiv 2310.06771: equation (5),
Lemma C.4.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from corrnoise.theory.mechanisms.toeplitz import RATES, ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

_SMALLEST_GRID = 64
_LARGEST_GRID = 2**22
_SETTLED_CHANGE = 1e-13
_LARGEST_LOGARITHM = 300.0  # squares of B stay within the range of floats
_BLOCK_ENTRIES = 2**21  # entries of a table held at once


@record
class CepstralNoise(ToeplitzNoise):
    """Minimum-phase noise B(z) = exp(Σ c_n (ζⁿ − (−a)ⁿ)) with ζ = (z − a)/(1 − a z).

    Measured for ‖c‖₂ of about 1 and N up to 30 000: relative errors of limiting sensitivity, averaged variances and
    power spectrum below 1e-13, of the first steps of the (inverse) coefficients in the 2-norm below 1e-12.  These are
    absolute errors, of 1e-15 times the largest value of |B|^{±1}.  With a != 0 they take O(N × steps).  Numbers that a
    release depends on (``program``, ``sensitivity_upper_bound``) carry a bound of the error.
    ``ArithmeticError`` where |log B| exceeds 300, or exp(Σ c_n ζⁿ) is not resolved by four million frequencies.
    """

    cepstrum: Array  #: c_1, …, c_N, shape (N,); zero afterwards.  N = 0 is independent noise.
    warp: float  #: −1 < a < 1.  At 0, the default, ζ = z.

    def __init__(self, cepstrum: ArrayLike, warp: float = 0.0) -> None:
        c = checks.frozen(np.trim_zeros(checks.vector("cepstrum", cepstrum), "b") + 0.0)  # −0 is 0
        a = checks.real("warp", warp, "(-1, 1)") + 0.0
        self._set(cepstrum=c, warp=a if c.size else 0.0)

    def _constant(self) -> float:
        """Σ c_n (−a)ⁿ."""
        return math.fsum(self.cepstrum * (-self.warp) ** np.arange(1, self.cepstrum.size + 1))

    def _first_grid(self) -> int:
        return max(_SMALLEST_GRID, 4 * 2 ** math.ceil(math.log2(self.cepstrum.size + 1)))

    def _logarithm(self, grid: int) -> tuple[NDArray[np.complex128], float]:
        """Log B at φ = −2πk/grid for k = 0, …, grid/2, and a bound of its error."""
        if grid > _LARGEST_GRID:
            raise ArithmeticError(f"{self!r} is not resolved by {_LARGEST_GRID} frequencies")
        values = fft.rfft(np.concatenate([[0.0], self.cepstrum]), grid) - self._constant()
        largest = float(np.abs(values).max())
        if not largest <= _LARGEST_LOGARITHM:
            raise ArithmeticError(f"|log B| must not exceed {_LARGEST_LOGARITHM}, got {largest:.3g} for {self!r}")
        sizes = np.abs(self.cepstrum)
        size = float((sizes * abs(self.warp) ** np.arange(1, sizes.size + 1)).sum())
        rounding = (16 * math.log2(grid) * float(np.linalg.norm(sizes)) + 4 * (size + largest) + 4) * UNIT_ROUNDOFF
        return values, rounding

    def _warped_series(self) -> tuple[Array, float]:
        """B as a power series in ζ, as long as its terms exceed rounding, and a bound of its error in the 2-norm."""
        grid = self._first_grid()
        while True:
            logarithm, error = self._logarithm(grid)
            error += 16 * UNIT_ROUNDOFF * math.log2(grid)
            series = fft.irfft(np.exp(logarithm), grid)
            tails = np.sqrt(np.cumsum(np.square(series[::-1])))[::-1]  # norms of the rest from each term on
            if tails[grid // 2] <= error * tails[0]:
                break
            grid *= 2
        count = max(1, int(np.argmax(tails <= max(2 * UNIT_ROUNDOFF * tails[0], 2 * tails[grid // 2]))))
        # The part that wraps around the grid is at most its upper half, which is at most the part that is cut off.
        return series[:count], float(error * tails[0] + 2 * tails[count])

    def _series(self, steps: int) -> tuple[Array, float]:
        """The first ``steps`` coefficients of B, and a bound of their error in the 2-norm."""
        from corrnoise.theory.numerics import warped_series

        warped, error = self._warped_series()
        series = np.zeros(steps)
        if self.warp == 0:
            shown = warped[:steps]
            series[: shown.size] = shown
        else:
            warped_series.unwarped(warped, self.warp, series)
        series[0] = 1.0
        a = abs(self.warp)
        # Σ e_m ζᵐ has the squared norm ∫ |E|² (dω/dφ) dφ/2π, and dω/dφ is at most (1 + a)/(1 − a).
        return series, math.sqrt((1 + a) / (1 - a)) * error + 4 * UNIT_ROUNDOFF * float(np.abs(warped).sum())

    def coefficients(self, steps: int) -> Array:
        return self._series(checks.integer("steps", steps, 1))[0]

    def _inverse(self, steps: int) -> tuple[Array, float]:
        series, error = CepstralNoise(-self.cepstrum, self.warp)._series(steps)
        return series, error / float(np.linalg.norm(series))

    def _power(self, cosine: Array, sine: Array) -> Array:
        c = np.asarray(np.abs((1 - self.warp) * np.ravel(cosine)))
        s = np.asarray(np.abs((1 + self.warp) * np.ravel(sine)))
        power = np.empty(c.size)
        # The angle is measured from the nearer end, φ = 0 or φ = π, where cos nφ = (−1)ⁿ cos n(π − φ).
        far = s > c
        power[~far] = self._cosine_sum(2 * np.arctan2(s, c)[~far], 1)
        power[far] = self._cosine_sum(2 * np.arctan2(c, s)[far], -1)
        return np.exp(2 * (power - self._constant())).reshape(np.shape(cosine))

    def _cosine_sum(self, angles: Array, sign: int) -> Array:
        """Σ signⁿ c_n cos nφ, by blocks of about sqrt(N) terms."""
        size = math.isqrt(self.cepstrum.size) + 1
        blocks = np.zeros((size, size))
        blocks.ravel()[1 : self.cepstrum.size + 1] = self.cepstrum * float(sign) ** np.arange(1, self.cepstrum.size + 1)
        total = np.empty(angles.size)
        rows = max(_BLOCK_ENTRIES // size, 1)
        for first in range(0, angles.size, rows):
            part = angles[first : first + rows, np.newaxis]
            inner = np.exp(1j * part * np.arange(size)) @ blocks.T
            total[first : first + rows] = (np.exp(1j * (part * size) * np.arange(size)) * inner).real.sum(axis=1)
        return total

    def _mean(self, exponent: int, near_one: Array, near_minus_one: Array) -> tuple[Array, float]:
        """The harmonic extension of |B|^{2 exponent} to ζ = ρ, given as 1 ∓ ρ, and a bound of its relative error."""
        grid = self._first_grid()
        coarse, _ = self._extension(grid, exponent, near_one, near_minus_one)
        while True:
            fine, error = self._extension(2 * grid, exponent, near_one, near_minus_one)
            change = float(np.max(np.abs(fine - coarse) / fine, initial=0.0))
            if change <= max(_SETTLED_CHANGE, error):
                return fine, change + error  # doubling the grid at least halves the error: it is below the change
            grid, coarse = 2 * grid, fine

    def _extension(self, grid: int, exponent: int, near_one: Array, near_minus_one: Array) -> tuple[Array, float]:
        """The sum of the module's docstring over ``grid`` values, and a bound of its relative rounding error."""
        logarithm, error = self._logarithm(grid)
        values = np.exp(2 * exponent * logarithm.real) / (grid // 2)
        values[[0, -1]] /= 2  # the others stand for φ and −φ
        sine = np.sin(np.arange(values.size) * (np.pi / grid))
        cosine = sine[::-1]
        # ρ^{M/2} depends on |ρ| only.  Closer to an end than the floor, an extension is constant to all digits.
        first, second = np.maximum(near_one, 1e-305), np.maximum(near_minus_one, 1e-305)
        with np.errstate(divide="ignore"):
            power = grid / 2 * np.log1p(-np.minimum(np.minimum(first, second), 1.0))
        even = -np.expm1(power)
        odd = 1 + np.exp(power)
        total = np.empty(first.size)
        rows = max(_BLOCK_ENTRIES // values.size, 1)
        for start in range(0, first.size, rows):
            part = slice(start, start + rows)
            x = first[part, np.newaxis]
            y = second[part, np.newaxis]
            modulus = np.hypot(x * cosine, y * sine)
            weights = x / modulus
            weights[:, ::2] *= even[part, np.newaxis]
            weights[:, 1::2] *= odd[part, np.newaxis]
            total[part] = (weights * (y / modulus) * values).sum(axis=1)
        return total, 2 * error + 40 * UNIT_ROUNDOFF

    def averaged_variance(self, rates: ArrayLike) -> Array:
        x = checks.reals("rates", rates, RATES)
        a = self.warp
        flat = np.ravel(x)
        scale = (1 - a) + a * flat if a > 0 else (1 + a) - a * (2 - flat)
        return self._mean(1, (1 + a) * flat / scale, (1 - a) * (2 - flat) / scale)[0].reshape(x.shape)

    def _limiting(self) -> tuple[float, float]:
        square, error = self._mean(-1, np.array([1 + self.warp]), np.array([1 - self.warp]))
        return math.sqrt(float(square[0])), error
