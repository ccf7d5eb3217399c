"""Means over the unit circle of spectra with features of any width, and Gauss's rule with a proved error.

**Means.**  With ω = 2 arctan(e^u) the mean (1/2π) ∫ f dω of an even f becomes (1/π) ∫ f du / cosh u.  A spectrum built
from factors |1 − (1 − a) e^{iω}|² = a² cos²(ω/2) + (2 − a)² sin²(ω/2) has all its singularities on |Im u| = π/2,
whatever the a, so the trapezoidal rule converges geometrically, exp(−π²/step), and the number of nodes grows only with
log(1/a).  A uniform grid in ω would need more than 1/a nodes.

**Gauss's rule** with 16 points on [−1, 1] has an error below 4.51 · 3^{−32} M, if |f| <= M on the disc |z| <= 5/3
(docs/strongly-convex-bound.md, The certificate).

Source: L. N. Trefethen, Approximation Theory and Approximation Practice, Theorems 8.1 and 19.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from corrnoise.theory.numerics.checks import Array

#: Gauss's rule on [−1, 1]: nodes with absolute error 2e-16, weights with relative error 7.1e-15.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
#: Radius of the disc where the integrand is bounded, in units of half the width of the interval: a little more than
#: 5/3, so that the rounding of its middle does not matter.
DISC = 1.67

_BLOCK_ENTRIES = 2**21  # entries of a table of moduli held at once

_FIRST_STEP = 1 / 3  # of the trapezoidal rule; smooth integrands have settled after one halving
_MAX_HALVINGS = 8
_LOG_MARGIN = 18.0  # beyond a feature f is a pure power up to exp(-2 * margin)
_MAX_EXPONENT = 708.0  # exp(u) stays finite


def circle_mean(
    weighted_sum: Callable[[Array, Array, Array], Any],
    *,
    near_zero: float = 1.0,
    near_pi: float = 1.0,
    order_zero: float = 0.0,
    order_pi: float = 0.0,
    agreement: float = 1e-8,
) -> Any:
    """(1/2π) ∫_{−π}^{π} f(ω) dω for an even f >= 0.

    ``weighted_sum(c, s, w)`` gets vectors of nodes c = cos(ω/2), s = sin(ω/2) (both accurate down to their smallest
    values) and weights, and returns Σ w f, a number or an array of them.  The narrowest features at ω = 0 and ω = π
    have the widths ``near_zero`` and ``near_pi``, at least 1e-300.  Where tan(ω/2) is well below ``near_zero``, f is
    proportional to sin(ω/2) to the power ``order_zero``; the same holds at π with cos(ω/2).  Unless both orders exceed
    −1, the integral diverges and ``inf`` is returned.

    Halving the step squares the error, so that an ``agreement`` of two steps of 1e-8 leaves 1e-16 for the spectra
    above.  With features between 0 and π the errors of two steps oscillate and may agree by chance; take 1e-12 for
    these.

    Raises
    ------
    ArithmeticError
        If the rule did not settle, because f has features narrower than stated.
    """
    if order_zero <= -1 or order_pi <= -1:
        return math.inf
    left, right = (min(math.log(2 / min(near, 1.0)) + _LOG_MARGIN, _MAX_EXPONENT) for near in (near_zero, near_pi))

    def trapezoid(step: float, offset: float) -> Any:
        u = np.arange(-math.floor(left / step), math.floor(right / step)) * step + offset
        c = 1 / np.hypot(1, np.exp(u))
        s = 1 / np.hypot(1, np.exp(-u))
        w = (2 * step / math.pi) * c * s
        # Outside the nodes f / cosh u is a geometric sequence, summed into the end weights.
        w[0] /= -math.expm1(-(1 + order_zero) * step)
        w[-1] /= -math.expm1(-(1 + order_pi) * step)
        return weighted_sum(c, s, w)

    step = _FIRST_STEP
    coarse = trapezoid(step, 0.0)
    for _ in range(_MAX_HALVINGS):
        fine = (coarse + trapezoid(step, step / 2)) / 2
        if np.all(np.abs(fine - coarse) <= agreement * np.abs(fine)):
            return fine
        step /= 2
        coarse = fine
    raise ArithmeticError("the quadrature over frequencies did not settle: the spectrum has unstated narrow features")


def modulus(gap: Any, c: Array, s: Array) -> Array:
    """|1 − (1 − a) e^{iω}| at c = |cos(ω/2)|, s = |sin(ω/2)|; the terms under the root are positive."""
    return np.asarray(np.hypot(gap * c, (2 - gap) * s))


def _table(rates: Array, c: Array, s: Array) -> Iterator[tuple[slice, Array]]:
    """Rows |1 − (1 − x) e^{iω}| for the rates x, in blocks that limit the memory."""
    rows = max(_BLOCK_ENTRIES // c.size, 1)
    for first in range(0, rates.size, rows):
        part = slice(first, first + rows)
        yield part, modulus(rates[part, np.newaxis], c, s)


def averages(rates: Array, c: Array, s: Array, w: Array) -> Array:
    """Σ w x (2 − x)/|1 − x − e^{iω}|² for each rate x: the mean of a spectrum over exponential averages."""
    seen = np.empty(rates.size)
    for part, m in _table(rates, c, s):
        x = rates[part, np.newaxis]
        seen[part] = (w * (x / m) * ((2 - x) / m)).sum(axis=-1)
    return seen


def root_spectrum_mean(rates: Array, weights: Array) -> float:
    """(1/2π) ∫ sqrt(Σ_j weights_j x_j/|1 − x_j − e^{iω}|²) dω for rates 0 < x_j < 2, both of shape (d,)."""

    def weighted_sum(c: Array, s: Array, w: Array) -> float:
        total = np.zeros(c.size)
        for part, m in _table(rates, c, s):
            total += ((weights * rates)[part, np.newaxis] / m / m).sum(axis=0)
        return float((w * np.sqrt(total)).sum())

    return float(circle_mean(weighted_sum, near_zero=rates.min(), near_pi=(2 - rates).min()))


def gauss_error(half: Array, largest: Array) -> Array:
    """Upper bound of the error of Gauss's rule on intervals of half the width ``half``.

    The function f must be analytic on the discs with radius ``DISC`` × ``half`` around the middles of the intervals.
    ``largest`` is an upper bound of |f| on these discs.
    """
    return np.asarray(4.51 * 3.0**-32 * half * largest)
