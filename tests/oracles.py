"""Slow exact oracles, from definitions and from outside the package: mpmath, rational numbers, brute force.

Nothing here imports ``corrnoise``.  Floats are taken as the exact numbers they are; every function works at its own
number of decimal digits (40 unless it says otherwise) and leaves mpmath's global precision alone.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from mpmath import mp, mpf, workdps


def exactly(x) -> mpf:
    """The number x, a float, an integer or a fraction, as mpmath has it."""
    if isinstance(x, Fraction):
        return mpf(x.numerator) / x.denominator
    return x if isinstance(x, mpf) else mpf(int(x) if isinstance(x, int) else float(x))


@workdps(60)
def relative_error(value, exact) -> float:
    """|value/exact − 1|; 0 where both are 0 or the same infinity."""
    value, exact = exactly(value), exactly(exact)
    if value == exact:
        return 0.0
    return float(abs(value - exact) / abs(exact)) if exact and mp.isfinite(exact) else float("inf")


def worst_relative_error(values: Iterable, exact: Iterable) -> float:
    """The largest ``relative_error`` of two equally long sequences."""
    return max(relative_error(v, x) for v, x in zip(values, exact, strict=True))


# -- power series ------------------------------------------------------------------------------------------------------


@workdps(40)
def binomial_coefficient(gap, exponent, t: int) -> mpf:
    """The coefficient of zᵗ in (1 − (1 − a) z)^e by the binomial theorem, for any t."""
    return mp.binomial(exactly(exponent), t) * (exactly(gap) - 1) ** t


@workdps(60)
def product_coefficients(gaps: Sequence, exponents: Sequence, steps: int) -> list[mpf]:
    """The coefficients of Π (1 − (1 − a_k) z)^{e_k}: the factors' binomial series, multiplied out."""
    product = [mpf(1)] + [mpf(0)] * (steps - 1)
    for gap, exponent in zip(gaps, exponents, strict=True):
        r, e, factor = exactly(gap) - 1, exactly(exponent), [mpf(1)]
        for t in range(1, steps):
            factor.append(factor[-1] * r * (e - (t - 1)) / t)
        product = [mp.fdot(product[: t + 1], factor[t::-1]) for t in range(steps)]
    return product


def reciprocal(coefficients: Sequence, steps: int, digits: int = 200) -> list[mpf]:
    """The coefficients of 1/B by forward substitution, at many digits."""
    with workdps(digits):
        beta = [exactly(b) for b in coefficients]
        series = [1 / beta[0]]
        for t in range(1, steps):
            k = min(t, len(beta) - 1)
            series.append(-mp.fdot(beta[1 : k + 1], series[: t - k - 1 : -1] if t > k else series[::-1]) / beta[0])
        return series


def reciprocal_in_fractions(coefficients: Sequence, steps: int) -> list[Fraction]:
    """The coefficients of 1/B in rational arithmetic."""
    beta = [Fraction(b) for b in coefficients]
    series: list[Fraction] = []
    for t in range(steps):
        total = sum((beta[k] * series[t - k] for k in range(1, min(t, len(beta) - 1) + 1)), Fraction(0))
        series.append(((t == 0) - total) / beta[0])
    return series


@workdps(60)
def norm(values: Iterable) -> mpf:
    """Euclidean norm."""
    return mp.sqrt(mp.fsum(exactly(v) ** 2 for v in values))


# -- the noise coefficient matrix --------------------------------------------------------------------------------------


def toeplitz(coefficients: Sequence, steps: int) -> list[list[Fraction]]:
    """The lower-triangular Toeplitz matrix of the coefficients (zero after the last), rows of rational numbers."""
    beta = [Fraction(b) for b in coefficients[:steps]] + [Fraction(0)] * max(steps - len(coefficients), 0)
    return [[beta[i - j] if i >= j else Fraction(0) for j in range(steps)] for i in range(steps)]


def inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """The inverse of any invertible matrix by Gauss–Jordan elimination."""
    n = len(matrix)
    rows = [[*row, *(Fraction(i == j) for j in range(n))] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[n:] for row in rows]


@workdps(60)
def sensitivity(coefficients: Sequence, steps: int) -> mpf:
    """The largest column norm of the inverse of the explicit steps × steps matrix."""
    columns = zip(*inverse(toeplitz(coefficients, steps)), strict=True)
    return mp.sqrt(exactly(max(sum(x * x for x in column) for column in columns)))


def squared_norm_of_reciprocal(coefficients: Sequence) -> Fraction:
    """‖1/B‖² of a polynomial without zeros in |z| <= 1, from the Yule–Walker equations of the process w/B.

    With zeros inside the equations still have a solution, which means nothing.
    """
    beta = [Fraction(b) for b in coefficients]
    n = len(beta)
    matrix = [[Fraction(0)] * n for _ in range(n)]
    for m in range(n):
        for k in range(n):
            matrix[m][abs(m - k)] += beta[k]
    return inverse(matrix)[0][0] / beta[0]


# -- frequencies and averages ------------------------------------------------------------------------------------------


@workdps(60)
def squared_modulus(gap, omega) -> mpf:
    """|1 − (1 − a) e^{iω}|² = a² + 4 (1 − a) sin²(ω/2)."""
    a = exactly(gap)
    return a * a + 4 * (1 - a) * mp.sin(exactly(omega) / 2) ** 2


@workdps(60)
def product_power(gaps: Sequence, exponents: Sequence, omega) -> mpf:
    """|B(ω)|² of a product."""
    pairs = zip(gaps, exponents, strict=True)
    return mp.fprod(squared_modulus(a, omega) ** exactly(e) for a, e in pairs)


@workdps(120)
def polynomial_power(coefficients: Sequence, omega) -> mpf:
    """|B(ω)|² of finitely many coefficients."""
    z = mp.expj(exactly(omega))
    return abs(mp.fsum(exactly(b) * z**t for t, b in enumerate(coefficients))) ** 2


@workdps(40)
def spectrum_mean(gaps: Sequence, exponents: Sequence, rate=None) -> mpf:
    """(1/2π) ∫ Π |1 − (1 − a_k) e^{iω}|^{2 e_k} dω, or b(x) at ``rate`` x for the noise with this spectrum.

    The trapezoidal rule in u = log tan(ω/2), as far as 1/cosh u stays above 1e-30; 25 digits, for spectra without poles
    on the unit circle (gaps 0 and 2 with negative exponents are refused).
    """
    step = mpf(1) / 7
    a = [exactly(gap) for gap in gaps]
    e = [exactly(exponent) for exponent in exponents]
    if any(exponent < 0 for gap, exponent in zip(a, e, strict=True) if gap in (0, 2)):
        raise ValueError("a pole on the unit circle is beyond this oracle")
    x = None if rate is None else exactly(rate)
    features = a if x is None else [*a, x]
    left = 70 + max([-mp.log(f) for f in features if 0 < f < 1], default=mpf(0))
    right = 70 + max([-mp.log(2 - f) for f in features if 1 < f < 2], default=mpf(0))
    total = mpf(0)
    for k in range(-int(left / step), int(right / step) + 1):
        square = mp.exp(2 * k * step)  # tan²(ω/2)
        c, s = 1 / (1 + square), square / (1 + square)
        f = mp.sqrt(c * s) * 2 * step / mp.pi
        for gap, exponent in zip(a, e, strict=True):
            f *= (gap**2 * c + (2 - gap) ** 2 * s) ** exponent
        if x is not None:
            f *= x * (2 - x) / (x**2 * c + (2 - x) ** 2 * s)
        total += f
    return total


@workdps(100)
def averaged_variance(coefficients: Sequence, rate) -> mpf:
    """Σ_{t,τ} β_t β_τ (1 − x)^{|t−τ|} of finitely many coefficients, summed over t >= τ."""
    c, seen, total = 1 - exactly(rate), mpf(0), mpf(0)
    for beta in map(exactly, coefficients):
        seen *= c
        total += beta * (beta + 2 * seen)
        seen += beta
    return total


@workdps(40)
def modulus_ratio_integral(a, b) -> mpf:
    """∫_{−π}^{π} |1 − a − e^{iω}| / |1 − b − e^{iω}|² dω by Carlson's R_F and R_J, 0 < a, b < 2, not below 1e-20."""
    a, b = exactly(a), exactly(b)
    A, B = 2 - a, 2 - b
    if a <= b:
        first = (a / b) ** 2 * mp.elliprf(0, a * a, A * A)
        second = (b - a) * (a / (b * b)) ** 2 * mp.elliprj(0, a * a, A * A, (a * B / b) ** 2)
    else:
        first = (A / B) ** 2 * mp.elliprf(0, a * a, A * A)
        second = (a - b) / (A * B**4) * mp.elliprj(0, 1, (a / A) ** 2, (b / B) ** 2)
    return 4 * first + 16 * (a + b - a * b) * second / 3
