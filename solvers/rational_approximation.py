"""Rational approximation: correlated noise with few poles in place of noise with a long memory.

A factor (1 − r z)^e, r = 1 − a, is an integer power times a fractional one, and the latter is (1 − r z) G(z) with

    G(z) = (1 − r z)^{f−1} = (sin πf/π) ∫_0^1 x^{−f} (1 − x)^{f−1} / (1 − r x z) dx,    0 < f < 1,

a mixture of poles r x.  With x = 1/(1 + e^u) the trapezoidal rule turns the integral into some hundred poles, right
to rounding.  The system they form is symmetric (its two Gramians are one matrix), and its projection on the few
dominant directions of the Gramian leaves few poles, real with positive weights, and zeros that interlace them.  The
plain Gramian measures absolute errors, the one with the weights divided by |G|² relative ones; halfway between them, as
here, the errors that matter in training take the fewest poles.  Gaps 1 − p are carried throughout, so poles that crowd
at 1 keep their digits, and the zero of the factor itself is kept exactly: nothing cancels at low frequencies, where
noise for training is small.

References
----------
P. Opdenacker and E. Jonckheere, LQG balancing and reduced LQG compensation of symmetric passive systems, 1985.
J. Demmel, Accurate singular value decompositions of structured matrices, 1999 (the factorisation of the Gramian).
J. Demmel and K. Veselić, Jacobi's method is more accurate than QR, 1992.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numba
import numpy as np
from scipy import special

from corrnoise.theory import checks
from corrnoise.theory.checks import Array
from corrnoise.theory.finite_noise import FiniteNoise
from corrnoise.theory.pole_noise import PoleNoise
from corrnoise.theory.product_noise import ProductNoise
from corrnoise.theory.toeplitz_noise import ToeplitzNoise

_STEP = 0.3
_MARGIN = 38.0  # exp(−38) is below rounding
_NEGLIGIBLE = 1e-8  # times the tolerance: what matters of the Gramian, relative to its largest eigenvalue
_MOST_POLES = 80
_SMALLEST_GAP = 1e-60  # of a fractional factor


def _mixture(gap: float, f: float) -> tuple[Array, Array]:
    """Gaps and weights of poles whose sum is (1 − (1 − a) z)^{f−1} to rounding."""
    u = np.arange(math.floor((math.log(gap) - _MARGIN) / _STEP), math.ceil(_MARGIN / _STEP) + 1) * _STEP
    x, y = special.expit(-u), special.expit(u)
    weights = _STEP * math.sin(math.pi * f) / math.pi * x ** (1 - f) * y**f
    # The poles beyond the ends are those at the ends, to rounding, and their weights geometric sequences.
    weights[0] /= -math.expm1(-f * _STEP)
    weights[-1] /= -math.expm1(-(1 - f) * _STEP)
    return y + gap * x, weights


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _rotate(rows):  # type: ignore[no-untyped-def]
    """Make the rows orthogonal, in place, by rotations of two of them (the one-sided method of Jacobi)."""
    for _ in range(60):
        settled = True
        for i in range(len(rows) - 1):
            for j in range(i + 1, len(rows)):
                xx, yy, xy = 0.0, 0.0, 0.0
                for k in range(rows.shape[1]):
                    x, y = rows[i, k], rows[j, k]
                    xx += x * x
                    yy += y * y
                    xy += x * y
                if abs(xy) > 1e-15 * math.sqrt(xx * yy):
                    settled = False
                    cotangent = (yy - xx) / (2 * xy)  # of twice the angle
                    tangent = 1 / (cotangent + math.copysign(math.hypot(1.0, cotangent), cotangent))
                    cosine = 1 / math.hypot(1.0, tangent)
                    sine = tangent * cosine
                    for k in range(rows.shape[1]):
                        x, y = rows[i, k], rows[j, k]
                        rows[i, k] = cosine * x - sine * y
                        rows[j, k] = sine * x + cosine * y
        if settled:
            return


def _orthogonal(rows: Array) -> tuple[Array, Array]:
    """The rows of Uᵀ M, orthogonal for the right U, and their norms, the singular values of M, largest first.

    Unlike those of LAPACK the smallest singular values of a graded M keep their digits.
    """
    rows = np.array(rows)
    _rotate(rows)
    norms = np.sqrt(np.square(rows).sum(axis=1))
    order = np.argsort(-norms)
    return rows[order], norms[order]


def _dominant(gaps: Array, weights: Array, tolerance: float) -> tuple[Array, Array]:
    """The dominant directions, as rows, of the Gramian sqrt(w_i w_j)/(q_i + q_j − q_i q_j), and its eigenvalues.

    It is b_i b_j/(s_i + s_j) with s = q/(2 − q), a Cauchy matrix.  So are its Schur complements: pivoted Cholesky needs
    no subtraction of what its columns leave, and keeps the digits of the smallest eigenvalues.
    """
    s, b = gaps / (2 - gaps), np.sqrt(2 * weights) / (2 - gaps)
    columns: list[Array] = []
    pivots: list[float] = []
    while len(columns) < _MOST_POLES:
        k = int(np.argmax(b * b / s))
        pivots.append(b[k] ** 2 / s[k])
        if pivots[-1] <= _NEGLIGIBLE * tolerance * pivots[0]:
            break
        columns.append(b * math.sqrt(2 * s[k]) / (s + s[k]))
        b = b * (s - s[k]) / (s + s[k])
    directions, roots = _orthogonal(np.array(columns))
    return directions / roots[:, np.newaxis], roots**2


def _projected(gaps: Array, weights: Array, directions: Array) -> tuple[Array, Array]:
    """The system Σ weights/(1 − (1 − gaps) z) in the space of ``directions``, as gaps, ascending, and weights again."""
    rows, roots = _orthogonal(np.sqrt(gaps) * directions)
    return roots[::-1] ** 2, (rows * np.sqrt(weights / gaps)).sum(axis=1)[::-1] ** 2


def _interlacing_zeros(gaps: Array, weights: Array) -> Array:
    """Gaps of the zeros of Σ weights/(1 − (1 − gaps) z), one between any two neighbouring poles (by bisection)."""
    width = np.diff(gaps)
    place = np.arange(width.size)
    low, high = np.zeros(width.size), np.ones(width.size)
    for _ in range(60):
        middle = (low + high) / 2
        distance = gaps - gaps[:-1, np.newaxis] - (middle * width)[:, np.newaxis]
        distance[place, place] = -middle * width
        distance[place, place + 1] = (1 - middle) * width
        left = (weights / distance).sum(axis=1) < 0
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.asarray(gaps[:-1] + (low + high) / 2 * width)


class _Factor:
    """(1 − (1 − a) z)^e, ready to be approximated by any number of poles."""

    def __init__(self, gap: float, exponent: float, tolerance: float) -> None:
        self.mirrored = gap > 1  # a pole at −p is a pole at p of B(−z)
        self.gap = 2 - gap if self.mirrored else gap
        self.power, self.fraction = math.floor(exponent), exponent % 1
        if self.fraction == 1:  # the remainder of a tiny negative exponent is rounded
            self.power, self.fraction = 0, 0.0
        if (self.gap == 0 and self.power < 0) or (self.gap < _SMALLEST_GAP and self.fraction):
            raise ValueError(
                f"noise must have no pole and no fractional zero within {_SMALLEST_GAP} of the unit circle, where "
                f"memory never ends, got gap {gap!r} with exponent {exponent!r}"
            )
        if abs(exponent) > _MOST_POLES:
            raise ValueError(f"noise must have exponents in [-{_MOST_POLES}, {_MOST_POLES}], got {exponent!r}")
        self.sizes = np.empty(0)
        if self.fraction:
            self.gaps, self.weights = _mixture(self.gap, self.fraction)
            halfway = self.weights * self.gaps ** ((1 - self.fraction) / 2)  # |G| falls like q^(f−1)
            self.directions, self.sizes = _dominant(self.gaps, halfway, tolerance)

    def approximation(self, poles: int) -> tuple[Array, Array]:
        """Gaps of zeros and poles."""
        zeros, ends = [self.gap] * max(self.power, 0), [self.gap] * max(-self.power, 0)
        if self.fraction:
            q, c = _projected(self.gaps, self.weights, self.directions[:poles])
            zeros, ends = [*zeros, self.gap, *_interlacing_zeros(q, c)], [*ends, *q]
        a, b = np.array(zeros, dtype=float), np.array(ends, dtype=float)
        return (2 - a, 2 - b) if self.mirrored else (a, b)


def rational_approximation(noise: ToeplitzNoise, tolerance: float) -> PoleNoise | FiniteNoise:
    """Approximate correlated noise by noise with few poles, which takes O(poles) memory and time a step.

    Parameters
    ----------
    noise
        A ``ProductNoise`` (``NuFTRL``, ``AntiPGD``, …) with exponents of at most 80 in modulus, without a pole on the
        unit circle and without a fractional zero within 1e-60 of it; or a ``FiniteNoise``, which has its poles at 0
        already and is returned as it is.
    tolerance
        Bound of the relative error of the limiting sensitivity and of the averaged variances b(x) at all rates x from
        the smallest of the a_k and 2 − a_k up to 1; in [1e-12, 1).  The power spectrum at a single frequency, and b(x)
        at other rates, are off by about sqrt(tolerance).

    Returns
    -------
    Noise of its own: its privacy is that of *its* sensitivity, never of the sensitivity it approximates.  For
    ``NuFTRL`` at a tolerance of 1e-6 it has 6 poles for ν = 0.01, 11 for 1e-4, and 21 for 1e-8.  Integer exponents
    need no approximation.

    Raises
    ------
    ValueError
        The noise remembers for ever (ν = 0), or 80 poles a factor do not reach the tolerance.
    """
    tolerance = checks.real("tolerance", tolerance, "[1e-12, 1)")
    if isinstance(noise, FiniteNoise):
        return noise
    if not isinstance(noise, ProductNoise):
        raise TypeError(f"noise must be ProductNoise or FiniteNoise, got {noise!r}")
    factors = [_Factor(float(a), float(e), tolerance) for a, e in zip(noise.gaps, noise.exponents, strict=True)]
    # One pole for each fractional factor, and more in the order of the eigenvalues of the Gramians.
    owners = np.repeat(np.arange(len(factors)), [max(factor.sizes.size - 1, 0) for factor in factors])
    sizes = np.concatenate([np.empty(0), *(factor.sizes[1:] / factor.sizes[:1] for factor in factors)])
    owners = owners[np.argsort(-sizes, kind="stable")]

    def with_poles(more: int) -> PoleNoise:
        counts = 1 + np.bincount(owners[:more], minlength=len(factors))
        parts = [factor.approximation(count) for factor, count in zip(factors, counts, strict=True)]
        zeros, poles = (np.concatenate([np.empty(0), *(part[i] for part in parts)]) for i in (0, 1))
        return PoleNoise(zeros, poles)

    if not sizes.size:
        return with_poles(0)
    inner = np.concatenate([noise.gaps, 2 - noise.gaps])
    slowest = float(inner[inner > 0].min())
    rates = np.geomspace(min(slowest, 0.5), 1.0, 48)
    variances, sensitivity = noise.averaged_variance(rates), noise.limiting_sensitivity()

    def suffices(more: int) -> bool:
        approximation = with_poles(more)
        gamma = approximation.limiting_sensitivity()
        right = gamma == sensitivity or abs(gamma / sensitivity - 1) <= tolerance
        return bool(right and (np.abs(approximation.averaged_variance(rates) / variances - 1) <= tolerance).all())

    failed, more = -1, 0
    while not suffices(more):
        if more == sizes.size:
            raise ValueError(
                f"tolerance must be larger for {noise!r}: up to {_MOST_POLES} poles a factor do not reach {tolerance!r}"
            )
        failed, more = more, min(more + 1 + more // 3, sizes.size)
    return with_poles(bisect_left(range(more), True, lo=failed + 1, key=suffices))
