"""Double-double arithmetic, compiled: power series, and normals of words of 128 bits.

Coefficients of correlated noise come from recursions whose small results are left over from large ones: after 10⁷
steps in float64 five digits can be gone.  They run here in double-double arithmetic (about 31 digits), so that what
is returned is right to the last bit or so.

A result of ``add``, ``product`` or ``over`` has a relative error below 2⁻¹⁰⁰ (Joldes, Muller and Popescu 2017); they
also take arrays.  Nothing here checks its arguments.  The arithmetic and what uses it live in one file, because numba's
cache does not notice a change of a callee in another one.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from corrnoise.support.kernels import kernel

_TINY_NUMBER = 1e-306  # smaller numbers are as good as 0, and slow
SPLITTER = 2.0**27 + 1  #: Veltkamp's: halves the digits of a float64 in two

# -- double-double arithmetic: a number is the unevaluated sum of two floats -------------------------------------------


@kernel
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """A + b exactly, as a sum of two."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@kernel
def _fast_two_sum(a, b):  # type: ignore[no-untyped-def]
    """The same for |a| >= |b|."""
    s = a + b
    return s, b - (s - a)


@kernel
def _two_product(a, b):  # type: ignore[no-untyped-def]
    p = a * b
    t = SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def add(x, x_low, y, y_low):  # type: ignore[no-untyped-def]
    """The sum of two pairs."""
    s, e = two_sum(x, y)
    t, f = two_sum(x_low, y_low)
    s, e = _fast_two_sum(s, e + t)
    return _fast_two_sum(s, e + f)


@kernel
def _times(x, x_low, a):  # type: ignore[no-untyped-def]
    p, e = _two_product(x, a)
    return _fast_two_sum(p, e + x_low * a)


@kernel
def product(x, x_low, y, y_low):  # type: ignore[no-untyped-def]
    """The product of two pairs."""
    p, e = _two_product(x, y)
    return _fast_two_sum(p, e + (x * y_low + x_low * y))


@kernel
def over(x, x_low, a):  # type: ignore[no-untyped-def]
    """A pair over a float."""
    q = x / a
    p, e = _two_product(q, a)
    return _fast_two_sum(q, ((x - p) - e + x_low) / a)


@kernel
def _quotient(x, x_low, y, y_low):  # type: ignore[no-untyped-def]
    q = x / y
    p, p_low = _times(y, y_low, -q)
    r, r_low = add(x, x_low, p, p_low)
    return _fast_two_sum(q, (r + r_low) / y)


# -- power series ------------------------------------------------------------------------------------------------------


@kernel
def factor_series(gap, exponent, series):  # type: ignore[no-untyped-def]
    """Fill ``series`` with the coefficients of (1 − (1 − a) z)^e: the running product of (1 − a) (n − 1 − e)/n.

    The product runs in float64 and its relative rounding errors, known exactly to first order, are added up separately.
    Only the product itself is a chain of dependent operations; the rest of a block vectorises.
    """
    block = 256
    ratios, errors, products = np.empty(block), np.empty(block), np.empty(block + 1)
    r, r_low = two_sum(1.0, -gap)
    series[0] = products[0] = 1.0
    error = 0.0
    for first in range(1, series.size, block):
        count = min(block, series.size - first)
        for i in range(count):
            n = float(first + i)
            x, x_low = two_sum(n - 1.0, -exponent)
            q = x / n
            p, p_low = _two_product(q, n)
            q_low = ((x - p) - p_low + x_low) / n
            p, p_low = _two_product(q, r)
            ratios[i] = p
            errors[i] = (p_low + (q * r_low + q_low * r)) / p if p != 0 else 0.0
        for i in range(count):
            products[i + 1] = products[i] * ratios[i]
        for i in range(count):
            p, p_low = _two_product(products[i], ratios[i])
            errors[i] += p_low / p if p != 0 else 0.0
        for i in range(count):
            if abs(products[i + 1]) < _TINY_NUMBER:  # from here on the errors of subnormal numbers would rule
                series[first + i :] = 0.0
                return
            error += errors[i]
            series[first + i] = products[i + 1] + products[i + 1] * error
        products[0] = products[count]


@kernel
def product_series(gaps, exponents, series):  # type: ignore[no-untyped-def]
    """Fill ``series`` with the coefficients of Π (1 − (1 − a_k) z)^{e_k}.

    From z B'(z) = −B(z) Σ e_k r_k z/(1 − r_k z): n β_n = −Σ e_k y_k with y_k ← r_k (y_k + β_{n−1}), r y = y − a y.
    """
    if gaps.size == 1:
        factor_series(gaps[0], exponents[0], series)
        return
    y, y_low = np.zeros(gaps.size), np.zeros(gaps.size)
    value, value_low = 1.0, 0.0
    for n in range(series.size):
        if n > 0:
            total, total_low = 0.0, 0.0
            for k in range(gaps.size):
                u, u_low = add(y[k], y_low[k], value, value_low)
                v, v_low = _times(u, u_low, -gaps[k])
                u, u_low = add(u, u_low, v, v_low) if abs(u) > _TINY_NUMBER else (0.0, 0.0)
                y[k], y_low[k] = u, u_low
                v, v_low = _times(u, u_low, -exponents[k])
                total, total_low = add(total, total_low, v, v_low)
            value, value_low = over(total, total_low, float(n))
        series[n] = value + value_low


@kernel
def reciprocal_series(coefficients, series):  # type: ignore[no-untyped-def]
    """Fill ``series`` with the coefficients of 1/B(z) by forward substitution, O(terms × coefficients)."""
    low = np.zeros(series.size)
    for t in range(series.size):
        total, total_low = (1.0, 0.0) if t == 0 else (0.0, 0.0)
        for k in range(1, min(t, coefficients.size - 1) + 1):
            v, v_low = _times(series[t - k], low[t - k], -coefficients[k])
            total, total_low = add(total, total_low, v, v_low)
        series[t], low[t] = over(total, total_low, coefficients[0])


@kernel
def running_sums(values, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` with the partial sums of ``values``."""
    total, total_low = 0.0, 0.0
    for t in range(values.size):
        total, total_low = add(total, total_low, values[t], 0.0)
        sums[t] = total + total_low


@kernel
def step_down(coefficients):  # type: ignore[no-untyped-def]
    """Return ‖1/B‖² of a polynomial B by the Schur–Cohn (Levinson step-down) recursion, O(n²).

    It is 1/(β_0² Π (1 − k_m²)) with the reflection coefficients k_m, which are all below 1 in modulus if and only if
    B has no zero in |z| <= 1; else inf, and also where 1 − k_m² is lost in rounding.
    """
    return _reflections(coefficients, np.empty(coefficients.size), np.empty(coefficients.size))


@kernel
def _reflections(coefficients, reflections, reflections_low):  # type: ignore[no-untyped-def]
    """Fill in k_1, …, k_n from index 1 on, and return ‖1/B‖²."""
    a = coefficients.copy()
    a_low = np.zeros(coefficients.size)
    total, total_low = _two_product(coefficients[0], coefficients[0])
    for i in range(a.size):
        a[i], a_low[i] = over(coefficients[i], 0.0, coefficients[0])
    for m in range(a.size - 1, 0, -1):
        k = a[m]
        k_low = a_low[m]
        reflections[m], reflections_low[m] = k, k_low
        square, square_low = product(k, k_low, k, k_low)
        rest, rest_low = add(1.0, 0.0, -square, -square_low)
        if not rest > 2.0**-80:
            return math.inf
        total, total_low = product(total, total_low, rest, rest_low)
        for i in range(1, m // 2 + 1):
            j = m - i
            x = a[i]
            x_low = a_low[i]
            y = a[j]
            y_low = a_low[j]
            u, u_low = product(y, y_low, -k, -k_low)
            u, u_low = add(x, x_low, u, u_low)
            a[i], a_low[i] = _quotient(u, u_low, rest, rest_low)
            u, u_low = product(x, x_low, -k, -k_low)
            u, u_low = add(y, y_low, u, u_low)
            a[j], a_low[j] = _quotient(u, u_low, rest, rest_low)
    return 1 / (total + total_low)


@kernel
def averaged_variances(coefficients, rates, variances):  # type: ignore[no-untyped-def]
    """Fill ``variances`` with b(x) = Σ β_t β_τ (1 − x)^{|t−τ|} of finitely many coefficients.

    In terms of the average y_t = (1 − x) y_{t−1} + β_t all terms are positive: b = x (2 − x) Σ y_t² + (1 − x)² y_last².
    """
    for i in range(rates.size):
        x = rates[i]
        y, y_low = 0.0, 0.0
        squares, squares_low = 0.0, 0.0
        for beta in coefficients:
            u, u_low = _times(y, y_low, -x)
            y, y_low = add(y, y_low, u, u_low)
            y, y_low = add(y, y_low, beta, 0.0)
            squares, squares_low = two_sum(squares, squares_low + y * y)
        variances[i] = x * (2 - x) * squares + (1 - x) ** 2 * y * y


@kernel
def autoregressive_averages(coefficients, rates, variances):  # type: ignore[no-untyped-def]
    """Fill ``variances`` with b(x) = Σ r_l (1 − x)^{|l|}, r the autocovariances of 1/C, for a polynomial C.

    With the reflection coefficients k_m of C and s = 1 − x it is r_0 Ψ(s)/Φ(s).  Here Φ = C/c_0 comes from the k_m by
    the step-up recursion Φ ← Φ + k s Φ*, Φ* ← s Φ* + k Φ, and Ψ from −k_m by the same.  If C has a zero in |z| <= 1,
    b is inf.
    """
    k, k_low = np.empty(coefficients.size), np.empty(coefficients.size)
    variance = _reflections(coefficients, k, k_low)
    for i in range(rates.size):
        if not variance < math.inf:
            variances[i] = math.inf
            continue
        s, s_low = two_sum(1.0, -rates[i])
        values = np.ones((2, 2))  # Ψ and Φ, with their reversed polynomials
        lows = np.zeros((2, 2))
        for m in range(1, coefficients.size):
            for sign in range(2):
                q, q_low = (k[m], k_low[m]) if sign == 1 else (-k[m], -k_low[m])
                u = values[sign, 0]
                u_low = lows[sign, 0]
                v, v_low = product(values[sign, 1], lows[sign, 1], s, s_low)
                y, y_low = product(v, v_low, q, q_low)
                values[sign, 0], lows[sign, 0] = add(u, u_low, y, y_low)
                y, y_low = product(u, u_low, q, q_low)
                values[sign, 1], lows[sign, 1] = add(v, v_low, y, y_low)
        ratio, ratio_low = _quotient(values[0, 0], lows[0, 0], values[1, 0], lows[1, 0])
        variances[i] = variance * (ratio + ratio_low)


# -- normals -----------------------------------------------------------------------------------------------------------

_TWO_PI = Fraction(0xC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74, 2**189)  # rounded down, relative error 2⁻¹⁹²
_LOG_TWO = Fraction(0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D, 2**192)
_SERIES_TERMS = 26  # of the logarithm: 0.0295²⁶/53 < 2⁻¹³²


def _pairs(numbers: list[Fraction]) -> NDArray[np.float64]:
    """Rows of a float64 and the rest."""
    return np.array([[float(each), float(each - Fraction(float(each)))] for each in numbers])


_CIRCLE_PAIRS = _pairs([_TWO_PI, _LOG_TWO])
_ATANH_PAIRS = _pairs([Fraction(2, 2 * k + 1) for k in range(_SERIES_TERMS)])
_FACTORIAL_PAIRS = _pairs([Fraction((-1) ** (k // 2), math.factorial(k)) for k in range(32)])  # 0.79³²/32! < 2⁻¹²⁸


@kernel
def _joined(high, low):  # type: ignore[no-untyped-def]
    """A word of 128 bits, and ½, over 2¹²⁸."""
    a, b = np.float64(high >> np.uint64(11)) * 2.0**-53, np.float64(high & np.uint64(0x7FF)) * 2.0**-64
    c, d = np.float64(low >> np.uint64(11)) * 2.0**-117, (np.float64(low & np.uint64(0x7FF)) + 0.5) * 2.0**-128
    x, x_low = two_sum(a, b)
    y, y_low = two_sum(c, d)
    return add(x, x_low, y, y_low)


@kernel
def normal_pairs(words, found):  # type: ignore[no-untyped-def]
    """Normals by the transform of Box and Muller from words of 128 bits, in double-double arithmetic.

    A row of ``words`` has the high and low words of U and of V, and a row of ``found`` gets sqrt(−2 log U) cos 2πV and
    sqrt(−2 log U) sin 2πV, two floats each, to within 2⁻⁸⁰ for whatever bits follow.  It is NaN where U or 1 − U is
    below 2⁻⁴⁴.
    """
    two_pi, two_pi_low = _CIRCLE_PAIRS[0, 0], _CIRCLE_PAIRS[0, 1]
    log_two, log_two_low = _CIRCLE_PAIRS[1, 0], _CIRCLE_PAIRS[1, 1]
    for j in range(len(words)):
        high, low, v_high, v_low = words[j]
        if high < np.uint64(1 << 20) or high > ~np.uint64(1 << 20):
            found[j] = math.nan
            continue
        # log U = k log 2 + 2 artanh((m − 1)/(m + 1)) with sqrt(½) <= m < sqrt(2)
        m, m_low = _joined(high, low)
        k = 0
        while m < 0.70710678:
            m, m_low, k = 2.0 * m, 2.0 * m_low, k - 1
        x, x_low = add(m, m_low, -1.0, 0.0)
        y, y_low = add(m, m_low, 1.0, 0.0)
        s, s_low = _quotient(x, x_low, y, y_low)
        z, z_low = product(s, s_low, s, s_low)
        log, log_low = _ATANH_PAIRS[-1, 0], _ATANH_PAIRS[-1, 1]
        for n in range(_SERIES_TERMS - 2, -1, -1):
            log, log_low = product(log, log_low, z, z_low)
            log, log_low = add(log, log_low, _ATANH_PAIRS[n, 0], _ATANH_PAIRS[n, 1])
        log, log_low = product(log, log_low, s, s_low)
        x, x_low = _times(log_two, log_two_low, np.float64(k))
        log, log_low = add(log, log_low, x, x_low)
        square, square_low = -2.0 * log, -2.0 * log_low
        root = math.sqrt(square)
        x, x_low = _two_product(root, root)
        y, y_low = add(square, square_low, -x, -x_low)
        radius, radius_low = _fast_two_sum(root, y / (2.0 * root))
        # The angle is a quarter turn, the nearest one, and the rest in [−π/4, π/4].
        quarter = (v_high >> np.uint64(62)) + ((v_high >> np.uint64(61)) & np.uint64(1))
        x, x_low = _joined(v_high, v_low)
        x, x_low = add(x, x_low, -0.25 * np.float64(quarter), 0.0)
        x, x_low = product(x, x_low, two_pi, two_pi_low)
        z, z_low = product(x, x_low, x, x_low)
        sine, sine_low = _FACTORIAL_PAIRS[31, 0], _FACTORIAL_PAIRS[31, 1]
        cosine, cosine_low = _FACTORIAL_PAIRS[30, 0], _FACTORIAL_PAIRS[30, 1]
        for n in range(29, 0, -2):
            sine, sine_low = product(sine, sine_low, z, z_low)
            sine, sine_low = add(sine, sine_low, _FACTORIAL_PAIRS[n, 0], _FACTORIAL_PAIRS[n, 1])
            cosine, cosine_low = product(cosine, cosine_low, z, z_low)
            cosine, cosine_low = add(cosine, cosine_low, _FACTORIAL_PAIRS[n - 1, 0], _FACTORIAL_PAIRS[n - 1, 1])
        sine, sine_low = product(sine, sine_low, x, x_low)
        for _ in range(quarter & np.uint64(3)):
            cosine, cosine_low, sine, sine_low = -sine, -sine_low, cosine, cosine_low
        found[j, 0], found[j, 1] = product(radius, radius_low, cosine, cosine_low)
        found[j, 2], found[j, 3] = product(radius, radius_low, sine, sine_low)
