"""Rational approximation: correlated noise with few poles in place of noise with a long memory.

The factors (1 − r_k z)^{e_k} with r_1 > r_2 > … > r_K > 0 are taken together (those with r_k < 0 are their mirror
image).  Whole powers are moved into a rational factor, h_k of them from the first k factors, such that the heights
E_k = h_k − (e_1 + … + e_k) lie in [0, 1].  What is left is a mixture of poles with positive weights,

    G(z) = Π (1 − r_k z)^{E_{k−1} − E_k} = ∫_0^{r_1} μ(p)/(1 − p z) dp,    E_0 = 0,
    μ(p) = (sin(π E_k)/(π p)) Π_m |1 − r_m/p|^{E_{m−1} − E_m}    for r_{k+1} < p < r_k,

the exponential representation of Stieltjes functions.  Of a single factor with e = ½ the rational factor is 1 − r z,
and E_1 = ½.  The optimum for linear regression, e = ½, −½, ½, …, ½, has the same rational factor and the heights
½, 1, ½, …, ½: poles lie between a mode and the next zero, and none between that and the next mode.

All sums over poles are computed for s = q/(2 − q), where q = 1 − p is the gap: the unit circle becomes the imaginary
axis, a pole 1/(s + t), and poles that crowd at p = 1 keep their digits.  Between two ends s_k and s_{k+1} the
trapezoidal rule for s = s_k + (s_{k+1} − s_k)/(1 + e^{−u}) turns the integral into many poles, and Gauss's rule these
into some more than ten an octave, right to rounding.  The system they form is symmetric (its two Gramians are one
matrix), and its projection on the few dominant directions of the Gramian leaves few poles, real with positive weights,
and zeros that interlace them.  The plain Gramian measures absolute errors, the one with the weights divided by |G|
relative ones; halfway between them, as here, the errors that matter in training take the fewest poles.  The zeros of
the rational factor are kept exactly: nothing cancels at low frequencies, where noise for training is small.

References
----------
N. Aronszajn and W. Donoghue, On exponential representations of analytic functions in the upper half-plane, 1956.
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

from corrnoise.solvers.rational.pole_sums import condensed, interlacing_zeros
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_STEP = 0.3
_MARGIN = 38.0  # exp(−38) is below rounding
_WHOLE = 1e-14  # exponents so close to whole numbers are whole
_NEGLIGIBLE = 1e-8  # times the tolerance: what matters of the Gramian, relative to its largest eigenvalue
_MOST_POLES = 80
_SMALLEST_GAP = 1e-60  # of a fractional factor

# -- from factors to many poles ----------------------------------------------------------------------------------------


def _heights(exponents: Array) -> tuple[Array, Array]:
    """Whole powers h_k − h_{k−1}, as few as possible, and the heights E_k in [0, 1]."""
    powers, heights = np.zeros(exponents.size, dtype=int), np.zeros(exponents.size)
    before, total = 0, 0.0
    for k, exponent in enumerate(exponents.tolist()):
        total += exponent
        if abs(total - round(total)) <= _WHOLE:
            total = round(total)
        whole = min(max(before, math.ceil(total)), math.floor(total) + 1)
        powers[k], heights[k] = whole - before, whole - total
        before = whole
    return powers, heights


def _mixture(gaps: Array, heights: Array) -> tuple[Array, Array]:
    """Gaps and weights of poles whose sum is G(z) to rounding, for factors with ascending ``gaps``."""
    # The poles reach p = 0, which is one more end; with its exponent E_K − 1 the exponents have the sum −1.
    ends, before, after = np.append(gaps, 1.0), np.append(0.0, heights), np.append(heights, 1.0)
    exponents = before - after
    places, weights = [], []
    for k in np.flatnonzero((heights > 0) & (heights < 1)):
        to_left, to_right = (2 * np.abs(ends - end) / ((2 - ends) * (2 - end)) for end in ends[k : k + 2])
        left, width = ends[k] / (2 - ends[k]), to_left[k + 1]
        strip = math.pi - math.atan(width / (2 * math.sqrt(left * (left + width))))  # at its edge s is imaginary
        step = _STEP * strip / (math.pi / 2)
        # Beyond the nodes the density is a power of the distance to the end, and its sum a geometric series.
        left_power, right_power = before[k] + (1 - heights[k]), heights[k] + (1 - after[k + 1])
        nearest = min(left, to_left[k - 1]) if k else left, to_right[k + 2] if k + 2 < ends.size else 1.0
        low = _MARGIN / (1 + left_power) + max(math.log(width / nearest[0]), 0.0)
        high = _MARGIN / (1 + right_power) + max(math.log(width / nearest[1]), 0.0)
        u = np.arange(-math.ceil(low / step), math.ceil(high / step) + 1)[:, np.newaxis] * step
        x, y = special.expit(-u), special.expit(u)
        distances = np.where(np.arange(ends.size) <= k, to_left + width * y, to_right + width * x)
        modulus = np.exp(np.log(distances * (2 - ends) / 2) @ exponents)
        weight = step * math.sin(math.pi * heights[k]) / (2 * math.pi) * (width * x * y).ravel() * modulus
        weight[0] /= -math.expm1(-left_power * step)
        weight[-1] /= -math.expm1(-right_power * step)
        places.append(left + (width * y).ravel())
        weights.append(weight)
    if heights[-1] == 0:  # G does not vanish for z → ∞: a pole at p = 0
        places.append(np.ones(1))
        weights.append(np.exp(np.log1p(-gaps) @ exponents[:-1])[np.newaxis])
    s, w = condensed(np.concatenate(places), np.concatenate(weights))
    return 2 * s / (1 + s), 2 * w / (1 + s)


# -- from many poles to few --------------------------------------------------------------------------------------------


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


class _Group:
    """Π (1 − (1 − a_k) z)^{e_k} with all zeros on one side of 0, ready to be approximated by any number of poles."""

    def __init__(self, gaps: Array, exponents: Array, tolerance: float, *, mirrored: bool) -> None:
        self.mirrored = mirrored  # a pole at −p is a pole at p of B(−z)
        a = 2 - gaps if mirrored else gaps
        powers = np.rint(exponents).astype(int)
        fractional = np.flatnonzero(np.abs(exponents - powers) > _WHOLE)[:: -1 if mirrored else 1]
        powers[fractional], heights = _heights(exponents[fractional])
        self.zeros, self.poles = np.repeat(a, np.maximum(powers, 0)), np.repeat(a, np.maximum(-powers, 0))
        self.sizes = np.empty(0)
        if fractional.size:
            self.gaps, self.weights = _mixture(a[fractional], heights)
            # |G| at frequencies of about q; with half the gaps the fewest poles are enough.
            exponents = np.append(0.0, heights[:-1]) - heights
            modulus = np.exp(np.log(self.gaps[:, np.newaxis] + a[fractional] / 2) @ exponents)
            self.directions, self.sizes = _dominant(self.gaps, self.weights / np.sqrt(modulus), tolerance)

    def approximation(self, poles: int) -> tuple[Array, Array]:
        """Gaps of zeros and poles."""
        a, b = self.zeros, self.poles
        if self.sizes.size:
            q, c = _projected(self.gaps, self.weights, self.directions[:poles])
            a, b = np.concatenate([a, interlacing_zeros(q, c)]), np.concatenate([b, q])
        return (2 - a, 2 - b) if self.mirrored else (a, b)


def _check(noise: ProductNoise) -> None:
    for gap, exponent in zip(noise.gaps.tolist(), noise.exponents.tolist(), strict=True):
        inner = min(gap, 2 - gap)
        if (inner == 0 and exponent < 0) or (inner < _SMALLEST_GAP and exponent % 1):
            raise ValueError(
                f"noise must have no pole and no fractional zero within {_SMALLEST_GAP} of the unit circle, where "
                f"memory never ends, got gap {gap!r} with exponent {exponent!r}"
            )
        if abs(exponent) > _MOST_POLES:
            raise ValueError(f"noise must have exponents in [-{_MOST_POLES}, {_MOST_POLES}], got {exponent!r}")


def rational_approximation(noise: ToeplitzNoise, tolerance: float) -> PoleNoise | FiniteNoise:
    """Approximate correlated noise by noise with few poles, which takes O(poles) memory and time a step.

    Parameters
    ----------
    noise
        A ``ProductNoise`` (``NuFTRL``, ``AntiPGD``, optimal noise, …) with exponents of at most 80 in modulus, without
        a pole on the unit circle and without a fractional zero within 1e-60 of it; a ``CepstralNoise``; or a
        ``FiniteNoise``, which has its poles at 0 already and is returned as it is.
    tolerance
        Bound of the relative error of the limiting sensitivity and of the averaged variances b(x) at all rates x from
        the smallest of the a_k and 2 − a_k up to 1; in [1e-12, 1).  The power spectrum at a single frequency, and b(x)
        at other rates, are off by about sqrt(tolerance).

    Returns
    -------
    Noise of its own: its privacy is that of *its* sensitivity, never of the sensitivity it approximates.  For
    ``NuFTRL`` at a tolerance of 1e-6 it has 6 poles for ν = 0.01, 11 for 1e-4, and 21 for 1e-8.  Products take about
    as many as the slowest factor on either side of 0 alone: 10 for the optimum of 128 eigenvalues 1/k at η = 0.02.
    Integer exponents need no approximation.

    Raises
    ------
    ValueError
        The noise remembers for ever (ν = 0), or 80 poles on either side of 0 do not reach the tolerance.

    Examples
    --------
    >>> import corrnoise as cn
    >>> noise = cn.NuFTRL(0.01)
    >>> rational = cn.rational_approximation(noise, 1e-6)
    >>> rational.poles.size
    6
    >>> abs(rational.limiting_sensitivity() / noise.limiting_sensitivity() - 1) < 1e-6
    True
    """
    tolerance = checks.real("tolerance", tolerance, "[1e-12, 1)")
    if isinstance(noise, FiniteNoise):
        return noise
    if isinstance(noise, CepstralNoise):
        from corrnoise.solvers.rational.spectrum import reduced_noise

        return reduced_noise(noise, tolerance)
    if not isinstance(noise, ProductNoise):
        raise TypeError(f"noise must be ProductNoise, CepstralNoise or FiniteNoise, got {noise!r}")
    _check(noise)
    groups = [
        _Group(noise.gaps[side], noise.exponents[side], tolerance, mirrored=mirrored)
        for side, mirrored in ((noise.gaps < 1, False), (noise.gaps > 1, True))
    ]
    # One pole for each group, and more in the order of the eigenvalues of the Gramians.
    owners = np.repeat(np.arange(len(groups)), [max(group.sizes.size - 1, 0) for group in groups])
    sizes = np.concatenate([group.sizes[1:] / group.sizes[:1] for group in groups])
    owners = owners[np.argsort(-sizes, kind="stable")]

    def with_poles(more: int) -> PoleNoise:
        counts = 1 + np.bincount(owners[:more], minlength=len(groups))
        parts = [group.approximation(count) for group, count in zip(groups, counts, strict=True)]
        zeros, poles = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        return PoleNoise(zeros, poles)

    if not sizes.size:
        return with_poles(0)
    inner = np.concatenate([noise.gaps, 2 - noise.gaps])
    slowest = min(float(inner[inner > 0].min()), 0.5)
    # b(x) averages over about a factor of e in frequency: between points ten times as close nothing is missed.
    rates = np.geomspace(slowest, 0.5, 2 + math.ceil(10 * math.log(0.5 / slowest)))
    rates = np.concatenate([rates, np.linspace(0.5, 1.0, 48)])
    variances, sensitivity = noise.averaged_variance(rates), noise.limiting_sensitivity()

    def suffices(more: int) -> bool:
        approximation = with_poles(more)
        gamma = approximation.limiting_sensitivity()
        right = gamma == sensitivity or abs(gamma / sensitivity - 1) <= tolerance
        errors = np.abs(approximation.averaged_variance(rates) / variances - 1)
        return bool(right and (errors <= 0.995 * tolerance).all())

    failed, more = -1, 0
    while not suffices(more):
        if more == sizes.size:
            raise ValueError(
                f"tolerance must be larger for {noise!r}: up to {_MOST_POLES} poles a side do not reach {tolerance!r}"
            )
        failed, more = more, min(more + 1 + more // 3, sizes.size)
    return with_poles(bisect_left(range(more), True, lo=failed + 1, key=suffices))
