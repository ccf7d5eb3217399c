"""Elliptic integrals of wide balls, enclosed by their values at the corners because they are monotone.

A naive evaluation forgets that the same number occurs twice.  Of other numbers they are the functions of
``corrnoise.theory.elliptic``.
"""

from __future__ import annotations

from typing import Any

from corrnoise.paper_checks.certification import monotone
from corrnoise.theory import elliptic
from corrnoise.theory.arithmetic import arithmetic


SMALL, LARGE = ("1e-310", "1"), ("1", "2")  #: gaps, and 2 less a gap


@monotone(-1, within=[SMALL])
def inverse_mean(gap: Any) -> Any:
    """1/agm(a, 2 − a), falling on (0, 1]: arithmetic and geometric mean of a and 2 − a do not fall there."""
    return elliptic.mean_inverse_modulus(gap)


@monotone(-1, within=[SMALL])
def first_kind(complement: Any) -> Any:
    """K(k) = π/(2 agm(1, k')), k' = sqrt(1 − k²), falls with k', because all means of 1 and k' rise with it."""
    m = arithmetic(complement)
    return m.pi / 2 / elliptic.agm(m.number(1), complement)


@monotone(-1, -1, within=[("0", "1"), SMALL])
def scaled_third_kind(characteristic: Any, complement: Any) -> Any:
    """(1 − α²) Π(α², k) for α² < 1 falls with α² and k', because its integrand does, for n = 1 − α²:

    n/((cos² φ + n sin² φ) sqrt(cos² φ + k'² sin² φ)).
    """
    m = arithmetic(characteristic, complement)
    root = m.sqrt(1 - characteristic)
    return root * root * elliptic.cel(complement, root, m.number(1), 1 / root)


@monotone(+1, +1, -1, -1, within=[SMALL, LARGE, SMALL, LARGE])
def _quotient(a: Any, b: Any, c: Any, d: Any) -> Any:
    """4 ∫_0^{π/2} sqrt(a² sin² φ + b² cos² φ)/(c² sin² φ + d² cos² φ) dφ; the signs are those of the integrand."""
    m = arithmetic(a, b, c, d)
    return 4 * b / (d * d) * elliptic.cel(a / b, c / d, m.number(1), a * a * d / (b * b * c))


def ratio_integral(a: Any, b: Any) -> Any:
    """I(a, b) of Lemma C.21 for 0 < a, b < 2, by |1 − a − e^{iω}|² = a² cos²(ω/2) + (2 − a)² sin²(ω/2).

    Of balls the quotient of four independent numbers a, 2 − a, b, 2 − b, which is monotone in each.
    """
    if type(a).__module__.partition(".")[0] == type(b).__module__.partition(".")[0] != "flint":
        return elliptic.modulus_ratio_integral(a, b)
    return _quotient(a, 2 - a, b, 2 - b)
