"""Enclosures of elliptic integrals on wide balls, by their values at corners where they are largest or smallest.

Ball arithmetic treats two occurrences of one variable as independent, so its enclosures on wide balls are too wide.
Gaps a in (0, 1] are given by their value.  Where small gaps matter, they are given by their depth log(8/a), because a
ball that holds 1e-300 and 1e-200 would contain 0.  For arguments that are not balls these functions are those of
``corrnoise.theory.numerics.elliptic``.
"""

from typing import Any

from corrnoise.paper_checks.machinery.certification import monotone
from corrnoise.theory.numerics import elliptic
from corrnoise.theory.numerics.arithmetic import arithmetic

DEEPEST, SHALLOWEST = "690", "2.07944154167983"  #: depths of 8e-300 and, rounded down, of 1
_POSITIVE_RANGE = ("1e-310", "1")


def gap(depth: Any) -> Any:
    """The gap a with log(8/a) = ``depth``."""
    return 8 * arithmetic(depth).exp(-depth)


@monotone(-1, within=[_POSITIVE_RANGE])
def inverse_mean(a: Any) -> Any:
    """1/agm(a, 2 − a) falls on (0, 1], because both means of a and 2 − a rise."""
    return elliptic.mean_inverse_modulus(a)


@monotone(-1)
def inverse_mean_by_depth(depth: Any) -> Any:
    """g(L)/L, where g(L) = 1/agm(a, 2 − a) and L = log(8/a), falls for 0 < a <= 1, because g' <= 1/π <= g/L.

    The two inequalities are γ (slope) and γ (lower) of the ledger.
    """
    return elliptic.mean_inverse_modulus(gap(depth)) / depth


@monotone(+1, within=[("1e-310", "1")])
def elliptic_ratio(a: Any) -> Any:
    """E(k)/K(k) at k = 1 − a rises with a in (0, 1], because E falls and K rises with k."""
    kc = arithmetic(a).sqrt(a * (2 - a))
    return elliptic.cel(kc, 1, 1, kc * kc) / elliptic.cel(kc, 1, 1, 1)


def ratio_integral(depth_a: Any, depth_b: Any) -> Any:
    """I(a, b) of Lemma C.21 for 0 < a <= b <= 1; for balls a ball from 0 to the largest value.

    (2 − b) I(a, b) is 2π E/b for the mean E of |1 − a − e^{iω}| with the Poisson kernel of radius 1 − b.  It is convex
    in a, as a norm is, so largest at an end.  It falls with b: the powers of u in sqrt(1 − u cos ω) have negative
    coefficients, those of cos ω positive ones, so |1 − a − e^{iω}| has Fourier coefficients r_k <= 0 for k >= 1; hence
    E = r_0 + 2 Σ r_k (1 − b)^k is concave in b and positive at 0.  And it falls along a = b, where it is
    2π/agm(t, 1) with t = a/(2 − a), so values of a above the smallest b need not be considered.
    """
    from flint import arb

    if not isinstance(depth_a, arb):
        return elliptic.modulus_ratio_integral(gap(depth_a), gap(depth_b))
    deepest = arb(depth_b).upper()
    b = gap(deepest)
    ends = [gap(end.max(deepest)) for end in (depth_a.lower(), depth_a.upper())]
    largest = [(2 - b) * elliptic.modulus_ratio_integral(a, b) for a in ends]
    return arb(0).union(largest[0]).union(largest[1]) / (2 - gap(depth_b))


@monotone(-1, within=[_POSITIVE_RANGE])
def first_kind(complement: Any) -> Any:
    """K(k) = π/(2 agm(1, k')), k' = sqrt(1 − k²), falls with k', because both means of 1 and k' rise with it."""
    m = arithmetic(complement)
    return m.pi / 2 / elliptic.agm(m.number(1), complement)
