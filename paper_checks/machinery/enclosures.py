"""Enclosures of elliptic integrals that have no formula, by their values at corners where they are largest or smallest.

Ball arithmetic treats two occurrences of one variable as independent, so its enclosures on wide balls are too wide.
Gaps a in (0, 1] are given by their value.  Where small gaps matter, they are given by their depth log(8/a), because a
ball that holds 1e-300 and 1e-200 would contain 0.  For other arguments these functions are the ones of
``corrnoise.theory.numerics.elliptic``.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from corrnoise.theory.numerics import elliptic
from corrnoise.theory.numerics.arithmetic import arithmetic

DEEPEST, SHALLOWEST = "690", "2.07944154167983"  #: depths of 8e-300 and, rounded down, of 1


def monotone(
    *signs: int, within: Sequence[tuple[Any, Any] | None] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Evaluate a function that is increasing (+1) or decreasing (−1) in each argument at the ends of wide balls only.

    Ball arithmetic treats two occurrences of one variable as independent, so its enclosures on wide balls are too wide.
    The values at the two extreme corners enclose the range exactly.  The docstring of the function must prove the
    monotonicity, and ``within`` says where the proof holds: (lowest, highest) for each argument, numbers or decimal
    strings; None: everywhere.  The ends of balls, which are wider than their boxes by about 1e-9 of the width, are
    clipped to it.  Arguments that are not balls are passed on unchanged.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def ends(*arguments: Any) -> Any:
            from flint import arb

            if not any(isinstance(argument, arb) for argument in arguments):
                return function(*arguments)
            low, high = [], []
            for argument, sign, limits in zip(arguments, signs, within or [None] * len(signs), strict=True):
                bottom = arb(argument).lower()
                top = arb(argument).upper()
                if limits is not None:
                    bottom, top = bottom.max(arb(limits[0])), top.min(arb(limits[1]))
                low.append(bottom if sign > 0 else top)
                high.append(top if sign > 0 else bottom)
            return function(*low).union(function(*high))

        return ends

    return decorate


def gap(depth: Any) -> Any:
    """The gap a with log(8/a) = ``depth``."""
    return 8 * arithmetic(depth).exp(-depth)


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
