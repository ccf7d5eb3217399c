"""The elliptic integrals behind ν-DP-FTRL, by arithmetic-geometric means.

Every integral over frequencies that the ν-DP-FTRL noise needs is a complete elliptic integral.  The forms here
add and multiply positive numbers only, so they keep full accuracy where moduli and characteristics tend to 1;
they run in float64 (arrays broadcast), mpmath and Arb balls alike.

Sources: Choquette-Choo et al., arXiv 2310.06771, Lemmas C.21, F.10, F.15 and F.16; R. Bulirsch, Numerical calculation
of elliptic integrals and elliptic functions III, 1969 (the function cel).
"""

from __future__ import annotations

from typing import Any

from corrnoise.theory.numerics.arithmetic import arithmetic


def agm(x: Any, y: Any) -> Any:
    """Arithmetic-geometric mean of x, y > 0."""
    return arithmetic(x, y).agm(x, y)


def cel(kc: Any, q: Any, a: Any, c: Any) -> Any:
    """Complete elliptic integral of Bulirsch, with all arguments positive.

        ∫_0^{π/2} (a cos² φ + c q sin² φ) / ((cos² φ + q² sin² φ) sqrt(cos² φ + kc² sin² φ)) dφ

    In Bulirsch's letters p = q² and b = c q; q and c are passed because squares underflow first.
    """
    m = arithmetic(kc, q, a, c)
    k = kc
    n = m.number(1)
    product = kc
    while True:
        a, c, q = a + c / q, 2 * (a * (product / q) + c), q + product / q
        n_before = n
        n = n + k
        if m.settled(k, n_before):
            break
        k = 2 * m.sqrt(product)
        product = k * n
    # The rest is the same integral with kc = 2 sqrt(product) / n, at most 1: it lies between its value at
    # kc = 1 and that divided by kc.
    return m.pi / 2 * (c / n + a) / (n + q) * m.between(m.number(1), n / (2 * m.sqrt(product)))


def mean_inverse_modulus(gap: Any) -> Any:
    """(1/2π) ∫ dω / |1 − a − e^{iω}| = 1/agm(a, 2 − a) for the gap 0 < a < 2.

    This is γ_∞² of ν-DP-FTRL at ν = a, and (2/π) K(k = 1 − a).  Relative error below 1e-15 in float64.
    """
    return 1 / agm(gap, 2 - gap)


def first_kind(complement: Any) -> Any:
    """K(k) = π/(2 agm(1, k')) for the complement k' = sqrt(1 − k²) > 0.  Relative error below 1e-15 in float64."""
    m = arithmetic(complement)
    return m.pi / 2 / agm(m.number(1), complement)


def averaged_modulus(gap: Any, rate: Any) -> Any:
    """(x (2 − x)/2π) ∫ |1 − a − e^{iω}| / |1 − x − e^{iω}|² dω for 0 < a, x < 2.

    The variance b(x) of ν-DP-FTRL noise at ν = a, seen through an exponential average of rate x.  Relative
    error below 4e-15 in float64 for a in [1e-300, 2) and x in [1e-290, 2), and for x in [1e-300, 2) if a <= 1.
    """
    kc, q = gap / (2 - gap), rate / (2 - rate)
    scaled = cel(kc, q, rate / 2 / kc, kc * (2 - rate) / 2)  # both by (2 − x)/2 to stay within the range of floats
    return 4 * gap / (2 - rate) / arithmetic(gap, rate).pi * scaled


def averaged_modulus_without_gap(rate: Any) -> Any:
    """The limit a → 0 of ``averaged_modulus``: (4 x/π) artanh(s)/s with s = sqrt(1 − x), continued to x < 2."""
    m = arithmetic(rate)
    return 4 * rate / m.pi * m.rc(m.number(1), rate)


def modulus_ratio_integral(a: Any, b: Any) -> Any:
    """I(a, b) = ∫_{−π}^{π} |1 − a − e^{iω}| / |1 − b − e^{iω}|² dω for 0 < a, b < 2, of Lemma C.21.

    The closed form of Lemma F.16 (with Legendre's Π) loses all digits in float64 when a is small; this one has a
    relative error below 4e-15, on the same domain.  At a = 0 the integral is 8 artanh(s)/((2 − b) s), s = sqrt(1 − b).
    """
    return 2 * arithmetic(a, b).pi * averaged_modulus(a, b) / (b * (2 - b))
