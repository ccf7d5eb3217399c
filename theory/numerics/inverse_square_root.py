"""1/√x as a sum of few poles, with a proved error: what turns square roots of banded matrices into linear systems.

On 1 <= x <= h let κ'² = 1/h, κ² = 1 − κ'², and K, K' the complete elliptic integrals of the moduli κ, κ'.  The
substitution t = sc(u, κ) in x^{−1/2} = (2/π) ∫_0^∞ dt/(x + t²) gives

    x^{−1/2} = (2/π) ∫_0^K f(u) du,    f(u) = dn(u)/(x cn²(u) + sn²(u)),

and the midpoint rule with m points is a sum of m poles, Q(x) = Σ_j w_j/(x + c_j), with

    c_j = t_j²,    w_j = (2 K/π m) sqrt((1 + c_j)(1 + κ'² c_j)),    t_j = sc((j − ½) K/m, κ).

**Theorem.**  |√x Q(x) − 1| <= 4 q/(1 − q) for 1 <= x <= h, with q = exp(−2 π m K'/K).

Proof.  Let x = 1/dn²(s), 0 <= s <= K.  f is elliptic with f(u + 2 K) = f(u) = −f(u + 2 i K'), and its poles are simple,
at ±s + i K' up to periods.  So has dn(u + s) + dn(u − s); both are even in u, hence they are proportional, because an
entire elliptic function that changes its sign is 0.  By the Fourier series of dn, the coefficients of f are
proportional to cos(nπs/K)/cosh(nπK'/K).  The midpoint rule with 2m points on a period adds to the mean of f the
coefficients of the orders 2mp with the signs (−1)^p, so that

    √x Q(x) = 1 + 2 Σ_{p>=1} (−1)^p cos(2mpπs/K)/cosh(2mpπK'/K),

and 1/cosh y <= 2 e^{−y}.  ∎

The number of poles grows like ln(h) ln(1/error)/(2π²): 60 poles reach 1e-15 at h = 1e12.

Source: E. I. Zolotarev, 1877 (the best such sums); N. Hale, N. J. Higham, L. N. Trefethen, Computing A^α, log(A), and
related matrix functions by contour integrals, SIAM J. Numer. Anal. 46, 2008 (the quadrature).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.elliptic import agm
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

_BALL_BITS = 128
_FLOAT_ROUNDINGS = 8  # of a float pole and weight: two of the balls, four of the scale, one of sum and quotient each
_LARGEST_RATIO = 1e200


@record
class PoleSum(Record):
    """Q(x) = Σ_j w_j/(x + c_j) with |√x Q(x) − 1| <= ``error`` on an interval.

    ``poles`` c and ``weights`` w are positive, of shape (m,).  The error includes the floats c and w, with one sum
    x + c_j and one quotient each in float64; adding up the m terms is not in it.
    """

    poles: Array
    weights: Array
    error: float


def _tangents(half_nome: arb, modulus: arb, count: int) -> list[arb]:
    """sc((j − ½) K/m, κ), from the product of sn at the modulus κ': q = e^{−2Y}, y_j = Y (j − ½)/m.

    sc = 2 q^{1/4} κ'^{−1/2} sinh y Π_{p even} (1 − q^p e^{2y})(1 − q^p e^{−2y}) / Π_{p odd} (the same).
    """
    last = 2 + math.ceil(_BALL_BITS * math.log(2) / (2 * float(half_nome)))
    tail = 8 * (-2 * last * half_nome).exp() / (1 - (-2 * half_nome).exp())  # of |log| of all factors with p > last
    front = 2 * (-half_nome / 2).exp() / modulus.sqrt() * arb(1).union(1 + tail).union(1 - tail)

    def one(j: int) -> arb:
        y = half_nome * (2 * j - 1) / (2 * count)
        value = front * y.sinh()
        for p in range(1, last + 1):
            factor = (-2 * (p * half_nome - y)).expm1() * (-2 * (p * half_nome + y)).expm1()
            value = value / factor if p % 2 else value * factor
        return value

    return [one(j) for j in range(1, count + 1)]


@lru_cache(maxsize=64)
def _on_powers_of_four(exponent: int, tolerance: float) -> PoleSum:
    """The sum for 1 <= x <= 4^exponent."""
    before, ctx.prec = ctx.prec, _BALL_BITS
    try:
        modulus = arb(2) ** -exponent
        small, large = agm(arb(1), modulus), agm(arb(1), ((1 - modulus) * (1 + modulus)).sqrt())  # π/2K, π/2K'
        half_nome = arb.pi() / 2 * large / small
        rate = 2 * arb.pi() * small / large
        count = math.ceil(math.log(5 / tolerance) / float(rate))
        q = (-rate * count).exp()
        squares = [t * t for t in _tangents(half_nome, modulus, count)]
        weights = [((1 + c) * (1 + modulus**2 * c)).sqrt() / (small * count) for c in squares]
        rounded: list[Any] = [[float(ball.mid()) for ball in balls] for balls in (squares, weights)]
        widest = max(float((ball.rad() / ball).abs_upper()) for ball in squares + weights)
        error = (
            float((4 * q / (1 - q)).upper()) * (1 + 2 * UNIT_ROUNDOFF) + _FLOAT_ROUNDINGS * UNIT_ROUNDOFF + 2 * widest
        )
    finally:
        ctx.prec = before
    return PoleSum(np.array(rounded[0]), np.array(rounded[1]), error)


def inverse_square_root(low: float, high: float, *, tolerance: float = 1e-14) -> PoleSum:
    """A sum of poles for x^{−1/2} on [low, high].

    The sum has m = O(ln(high/low) ln(1/tolerance)) poles, sorted; high/low <= 1e200.  The interval is widened to a
    ratio that is a power of 4, at least 4.  The tolerance bounds the relative error of the quadrature; roundings add
    1e-15.
    """
    low = checks.real("low", low, "(1e-150, 1e150)")
    high = checks.real("high", high, f"[{low!r}, 1e150)")
    tolerance = checks.real("tolerance", tolerance, "[1e-30, 0.1]")
    if high / low > _LARGEST_RATIO:
        raise ValueError(f"high must be at most 1e200 times low={low!r}, got {high!r}")
    exponent = max(1, math.ceil(math.log2(high / low) / 2 * (1 + 1e-14) + 1e-14))
    scaled = _on_powers_of_four(exponent, tolerance)
    return PoleSum(scaled.poles * low, scaled.weights * math.sqrt(low), scaled.error)
