"""Rational approximation: correlated noise with few poles in place of noise with a long memory.

**A mixture of poles.**  Take the factors (1 − r_k z)^{e_k} with r_1 > r_2 > … > r_K > 0.  (Factors with r_k < 0 are
their mirror image and are treated in the same way.)  Whole powers are moved into a rational factor, h_k of them from
the first k factors, such that the heights E_k = h_k − (e_1 + … + e_k) lie in [0, 1].  The remaining factor is a mixture
of poles with positive weights, by the exponential representation of Stieltjes functions:

    G(z) = Π (1 − r_k z)^{E_{k−1} − E_k} = ∫_0^{r_1} μ(p)/(1 − p z) dp,    E_0 = 0,
    μ(p) = (sin(π E_k)/(π p)) Π_m |1 − r_m/p|^{E_{m−1} − E_m}    for r_{k+1} < p < r_k.

For a single factor with e = ½ the rational factor is 1 − r z, and E_1 = ½.  The optimum for linear regression,
e = ½, −½, ½, …, ½, has the same rational factor and the heights ½, 1, ½, …, ½: there are poles between a mode and the
next zero, and none between that zero and the next mode.

**Many poles.**  All sums over poles are computed in s = q/(2 − q), where q = 1 − p is the gap.  The unit circle becomes
the imaginary axis, a pole becomes 1/(s + t), and poles close to p = 1 keep their digits.  Between two ends s_k and
s_{k+1} the trapezoidal rule in u, s = s_k + (s_{k+1} − s_k)/(1 + e^{−u}), turns the integral into many poles.  Gauss's
rule replaces them by about three in an octave, to rounding.

**Few poles.**  The system of these poles is symmetric: its two Gramians are equal.  Its projection on the few dominant
directions of the Gramian has few poles, which are real with positive weights, and zeros that interlace them.  The plain
Gramian measures absolute errors.  With the weights divided by |G| it measures relative errors.  Here the weights are
divided by sqrt(|G|): this weight gives the errors that matter in training with the fewest poles.  The zeros of the
rational factor are kept exactly, so nothing cancels at low frequencies, where noise for training is small.

Sources: N. Aronszajn and W. Donoghue, On exponential representations of analytic functions in the upper half-plane,
1956; P. Opdenacker and E. Jonckheere, LQG balancing and reduced LQG compensation of symmetric passive systems, 1985; J.
Demmel, Accurate singular value decompositions of structured matrices, 1999 (the factorisation of the Gramian); J.
Demmel and K. Veselić, Jacobi's method is more accurate than QR, 1992.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
from scipy import special

from corrnoise.support.kernels import kernel
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors

_RULE_STEP = 0.3  # of the trapezoidal rule, for an integrand that is analytic for |Im u| < π/2
_LOG_MARGIN = 38.0  # exp(−38) is below rounding
_INTEGER_TOLERANCE = 1e-14  # exponents this close to an integer count as integers
_NEGLIGIBLE_PIVOT = 1e-8  # times the tolerance: smallest pivot of the Gramian that matters, relative to the largest
_MOST_POLES = 80
_SMALLEST_GAP = 1e-60  # of a factor with a fractional exponent

# -- from factors to many poles ----------------------------------------------------------------------------------------


def heights_of(exponents: Array) -> tuple[Array, Array, Array]:
    """Whole powers h_k − h_{k−1}, as few as possible, the heights E_k in [0, 1], and sin(π E_k).

    The sine is that of π (e_1 + … + e_k − nearest integer), which keeps its digits where E_k is close to 1.
    """
    powers = np.zeros(exponents.size, dtype=int)
    heights = np.zeros(exponents.size)
    sines = np.zeros(exponents.size)
    before = 0
    total = 0.0
    for k, exponent in enumerate(exponents.tolist()):
        total += exponent
        if abs(total - round(total)) <= _INTEGER_TOLERANCE:
            total = round(total)
        whole = min(max(before, math.ceil(total)), math.floor(total) + 1)
        powers[k] = whole - before
        heights[k] = whole - total
        sines[k] = abs(math.sin(math.pi * (total - round(total))))
        before = whole
    return powers, heights, sines


def mixture_of(gaps: Array, heights: Array, sines: Array) -> tuple[Array, Array]:
    """Gaps and weights of poles whose sum is G(z) to rounding, for factors with ascending ``gaps``."""
    from corrnoise.theory.numerics.discrete_measures import condensed  # here, as few runs need it

    # The poles reach p = 0, which is one more end.  With its exponent E_K − 1 the exponents have the sum −1.
    ends = np.append(gaps, 1.0)
    padded = np.concatenate([[0.0], heights, [1.0]])
    rules = [_rule(ends, padded, int(k), float(sines[k])) for k in np.flatnonzero(sines)]
    if heights[-1] == 0:  # G does not vanish for z → ∞, so it has a pole at p = 0
        exponents = padded[:-2] - padded[1:-1]
        rules.append((np.ones(1), np.exp(np.log1p(-gaps) @ exponents)[np.newaxis]))
    places, weights = (np.concatenate(parts) for parts in zip(*rules, strict=True))
    s, w = condensed(places, weights)
    return 2 * s / (1 + s), 2 * w / (1 + s)


def _rule(ends: Array, heights: Array, k: int, sine: float) -> tuple[Array, Array]:
    """Places s and weights of poles for the density between ``ends`` k and k + 1.

    Number m of ``ends`` is the gap a_m, and ``heights`` m and m + 1 are the heights E on its two sides.  ``sine`` is
    sin(π E) between ``ends`` k and k + 1.
    """
    exponents = heights[:-1] - heights[1:]
    before, inside, after = heights[k : k + 3]

    # Distances to the ends:  |s_m − s_k| = 2 |a_m − a_k|/((2 − a_m) (2 − a_k)),  W = s_{k+1} − s_k.
    to_left, to_right = (2 * np.abs(ends - end) / ((2 - ends) * (2 - end)) for end in ends[k : k + 2])
    left = ends[k] / (2 - ends[k])
    width = to_left[k + 1]

    # Nodes:  s = s_k + W y,  y = 1/(1 + e^{−u}),  x = 1 − y.  The integrand is analytic in the strip at whose edge s
    # is imaginary.  It decreases like e^{u left_power} to the left, and like e^{−u right_power} to the right, once s is
    # closer to the end than any other singularity.
    strip = math.pi - math.atan(width / (2 * math.sqrt(left * (left + width))))
    step = _RULE_STEP * strip / (math.pi / 2)
    left_power = before + (1 - inside)
    right_power = inside + (1 - after)
    nearest_left = min(left, to_left[k - 1]) if k else left
    nearest_right = to_right[k + 2] if k + 2 < ends.size else 1.0
    low = _LOG_MARGIN / (1 + left_power) + max(math.log(width / nearest_left), 0.0)
    high = _LOG_MARGIN / (1 + right_power) + max(math.log(width / nearest_right), 0.0)
    u = np.arange(-math.ceil(low / step), math.ceil(high / step) + 1)[:, np.newaxis] * step
    x, y = special.expit(-u), special.expit(u)

    # Density:  step · ds/du · (sin(π E_k)/(2π)) Π_m (|s − s_m| (2 − a_m)/2)^{E_{m−1} − E_m},  ds/du = W x y.
    distances = np.where(np.arange(ends.size) <= k, to_left + width * y, to_right + width * x)
    modulus = np.exp(np.log(distances * (2 - ends) / 2) @ exponents)
    weights = step * sine / (2 * math.pi) * (width * x * y).ravel() * modulus

    # End corrections:  beyond the first and the last node the weights are geometric series, 1 + e^{−power · step} + ….
    weights[0] /= -math.expm1(-left_power * step)
    weights[-1] /= -math.expm1(-right_power * step)
    return left + (width * y).ravel(), weights


# -- from many poles to few --------------------------------------------------------------------------------------------


@kernel
def _rotate(rows):  # type: ignore[no-untyped-def]
    """Make the rows orthogonal, in place, by rotations of pairs of rows (the one-sided Jacobi method)."""
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
    """The rows of Uᵀ M, with the orthogonal U that makes them orthogonal, and their norms, largest first.

    The norms are the singular values of M.  The smallest singular values of a graded M keep their digits, which they
    do not in LAPACK's default routines.
    """
    rows = np.array(rows)
    _rotate(rows)
    norms = np.sqrt(np.square(rows).sum(axis=1))
    order = np.argsort(-norms)
    return rows[order], norms[order]


def _dominant(gaps: Array, weights: Array, tolerance: float) -> tuple[Array, Array]:
    """The dominant directions, as rows, of the Gramian sqrt(w_i w_j)/(q_i + q_j − q_i q_j), and its eigenvalues.

    The Gramian is b_i b_j/(s_i + s_j) with s = q/(2 − q), a Cauchy matrix, and so are its Schur complements.  Pivoted
    Cholesky factorisation therefore needs no subtraction of columns, and keeps the digits of the smallest eigenvalues.
    """
    s = gaps / (2 - gaps)
    b = np.sqrt(2 * weights) / (2 - gaps)
    columns: list[Array] = []
    pivots: list[float] = []
    while len(columns) < _MOST_POLES:
        k = int(np.argmax(b * b / s))
        pivots.append(b[k] ** 2 / s[k])
        if pivots[-1] <= _NEGLIGIBLE_PIVOT * tolerance * pivots[0]:
            break
        columns.append(b * math.sqrt(2 * s[k]) / (s + s[k]))
        b = b * (s - s[k]) / (s + s[k])
    directions, roots = _orthogonal(np.array(columns))
    return directions / roots[:, np.newaxis], roots**2


def _projected(gaps: Array, weights: Array, directions: Array) -> tuple[Array, Array]:
    """The projection of Σ weights/(1 − (1 − gaps) z) on the space of ``directions``: gaps, ascending, and weights."""
    rows, roots = _orthogonal(np.sqrt(gaps) * directions)
    return roots[::-1] ** 2, (rows * np.sqrt(weights / gaps)).sum(axis=1)[::-1] ** 2


class _PoleGroup:
    """Π (1 − (1 − a_k) z)^{e_k} with all 1 − a_k on one side of 0, prepared for approximations by few poles."""

    def __init__(self, gaps: Array, exponents: Array, tolerance: float, *, mirrored: bool) -> None:
        self.mirrored = mirrored  # a pole at −p is a pole at p of B(−z)
        a = 2 - gaps if mirrored else gaps
        powers = np.rint(exponents).astype(int)
        fractional = np.flatnonzero(np.abs(exponents - powers) > _INTEGER_TOLERANCE)[:: -1 if mirrored else 1]
        powers[fractional], heights, sines = heights_of(exponents[fractional])
        self.zeros = np.repeat(a, np.maximum(powers, 0))
        self.poles = np.repeat(a, np.maximum(-powers, 0))
        self.sizes = np.empty(0)
        if fractional.size:
            self.gaps, self.weights = mixture_of(a[fractional], heights, sines)
            # |G| at frequencies of about q.  Half the gaps are used because they need the fewest poles.
            exponents = np.append(0.0, heights[:-1]) - heights
            modulus = np.exp(np.log(self.gaps[:, np.newaxis] + a[fractional] / 2) @ exponents)
            self.directions, self.sizes = _dominant(self.gaps, self.weights / np.sqrt(modulus), tolerance)

    def approximation(self, poles: int) -> tuple[Array, Array]:
        """Gaps of zeros and poles."""
        a, b = self.zeros, self.poles
        if self.sizes.size:
            from corrnoise.theory.mechanisms.pole_sums import interlacing_zeros  # here, as few runs need it

            q, c = _projected(self.gaps, self.weights, self.directions[:poles])
            a = np.concatenate([a, interlacing_zeros(q, c)])
            b = np.concatenate([b, q])
        return (2 - a, 2 - b) if self.mirrored else (a, b)


def _check(noise: ProductNoise) -> None:
    """Raise ``ValueError`` for noise without a rational approximation."""
    for gap, exponent in zip(noise.gaps.tolist(), noise.exponents.tolist(), strict=True):
        inner = min(gap, 2 - gap)
        if (inner == 0 and exponent < 0) or (inner < _SMALLEST_GAP and exponent % 1):
            raise ValueError(
                f"noise must have no pole and no fractional zero within {_SMALLEST_GAP} of the unit circle, where "
                f"memory never ends, got gap {gap!r} with exponent {exponent!r}"
            )
        if abs(exponent) > _MOST_POLES:
            raise ValueError(f"noise must have exponents in [-{_MOST_POLES}, {_MOST_POLES}], got {exponent!r}")


@usual_float_errors
def rational(noise: ToeplitzNoise, tolerance: float) -> PoleNoise | FiniteNoise:
    """Approximate a product by noise with few poles, which takes O(poles) memory and time a step.

    The result differs from ``noise``: its privacy follows from *its own* sensitivity, never from the sensitivity of
    ``noise``.  For ``NuFTRL`` at a tolerance of 1e-6 it has 6 poles for ν = 0.01, 11 for 1e-4, and 21 for 1e-8.  A
    product takes about as many poles as its slowest factor on either side of 0: 10 for the optimum of 128 eigenvalues
    1/k at η = 0.02.  Integer exponents need no approximation.

    Parameters
    ----------
    noise : ProductNoise or FiniteNoise
        A product (``NuFTRL``, ``AntiPGD``, optimal noise, …) with exponents of at most 80 in modulus, without a pole on
        the unit circle and without a fractional zero within 1e-60 of it.  ``FiniteNoise`` has all its poles at 0 and is
        returned unchanged.
    tolerance : float
        Bound of the relative error of the limiting sensitivity and of the averaged variances b(x) at all rates x from
        the smallest of the a_k and 2 − a_k up to 1; in [1e-12, 1).  The power spectrum at a single frequency, and b(x)
        at other rates, have errors of about sqrt(tolerance).

    Returns
    -------
    PoleNoise or FiniteNoise
        The approximation.

    Raises
    ------
    TypeError
        The noise is of another class.
    ValueError
        The memory of the noise does not decay (ν = 0), or 80 poles on either side of 0 do not reach the tolerance.

    Examples
    --------
    >>> from corrnoise.theory.mechanisms.product import NuFTRL
    >>> noise = NuFTRL(0.01)
    >>> few = rational(noise, 1e-6)
    >>> few.poles.size
    6
    >>> abs(few.limiting_sensitivity() / noise.limiting_sensitivity() - 1) < 1e-6
    True
    """
    tolerance = checks.real("tolerance", tolerance, "[1e-12, 1)")
    if isinstance(noise, FiniteNoise):
        return noise
    if not isinstance(noise, ProductNoise):
        raise TypeError(
            f"noise must be ProductNoise or FiniteNoise, got {noise!r:.80}: cn.mechanisms.rational approximates "
            "CepstralNoise, too"
        )
    _check(noise)
    groups = [
        _PoleGroup(noise.gaps[side], noise.exponents[side], tolerance, mirrored=mirrored)
        for side, mirrored in ((noise.gaps < 1, False), (noise.gaps > 1, True))
    ]
    # Each group has one pole.  More poles are added in the order of the eigenvalues of the Gramians.
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
    # b(x) averages over about a factor of e in frequency, and these points are ten times as close.
    rates = np.geomspace(slowest, 0.5, 2 + math.ceil(10 * math.log(0.5 / slowest)))
    rates = np.concatenate([rates, np.linspace(0.5, 1.0, 48)])
    variances = noise.averaged_variance(rates)
    sensitivity = noise.limiting_sensitivity()

    def suffices(more: int) -> bool:
        approximation = with_poles(more)
        gamma = approximation.limiting_sensitivity()
        right = gamma == sensitivity or abs(gamma / sensitivity - 1) <= tolerance
        errors = np.abs(approximation.averaged_variance(rates) / variances - 1)
        return bool(right and (errors <= 0.995 * tolerance).all())

    failed = -1
    more = 0
    while not suffices(more):
        if more == sizes.size:
            raise ValueError(
                f"tolerance must be larger for {noise!r}: up to {_MOST_POLES} poles a side do not reach {tolerance!r}"
            )
        failed = more
        more = min(more + 1 + more // 3, sizes.size)
    return with_poles(bisect_left(range(more), True, lo=failed + 1, key=suffices))
