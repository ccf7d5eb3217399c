"""One formula, three number systems: float64 arrays, mpmath numbers and Arb balls.

A closed form asks ``m = arithmetic(*arguments)`` for the functions that operators do not cover, and is then
written once.  Beside the elementary functions there are two names that make a convergent iteration portable:

``settled(x, y)``
    The two ends of an iteration that converges quadratically agree so well that one more step would change
    nothing; of balls also when only rounding is left between them.
``between(x, y)``
    What is known of a limit that lies between x and y: their midpoint, and of balls their hull, which turns
    the limit into an enclosure.

Decimal constants of a claim are strings given to ``number``; a third of x is ``x / 3``, never ``(1/3) * x``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Arithmetic:
    """The functions of one number system.  ``rc`` is Carlson's R_C, ``poch`` the rising factorial."""

    number: Callable[[Any], Any]
    pi: Any
    sqrt: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    expm1: Callable[[Any], Any]
    log1p: Callable[[Any], Any]
    poch: Callable[[Any, Any], Any]
    rc: Callable[[Any, Any], Any]
    settled: Callable[[Any, Any], bool]
    between: Callable[[Any, Any], Any]


def _float() -> Arithmetic:
    from scipy.special import elliprc, poch

    return Arithmetic(
        number=float,
        pi=math.pi,
        sqrt=np.sqrt,
        exp=np.exp,
        log=np.log,
        expm1=np.expm1,
        log1p=np.log1p,
        poch=poch,
        rc=elliprc,
        settled=lambda x, y: bool(np.all(np.abs(x - y) <= 1e-9 * np.abs(y))),
        between=lambda x, y: x + (y - x) / 2,
    )


def _multiprecision() -> Arithmetic:
    from mpmath import mp

    return Arithmetic(
        number=mp.mpf,
        pi=mp.pi,
        sqrt=mp.sqrt,
        exp=mp.exp,
        log=mp.log,
        expm1=mp.expm1,
        log1p=mp.log1p,
        poch=mp.rf,
        rc=mp.elliprc,
        settled=lambda x, y: abs(x - y) <= mp.ldexp(abs(y), -mp.prec // 2 - 1),
        between=lambda x, y: (x + y) / 2,
    )


def _ball() -> Arithmetic:
    from flint import acb, arb, ctx

    def settled(x: Any, y: Any) -> bool:
        gap = abs(x - y)
        return not x.is_finite() or x.overlaps(y) or bool(gap <= abs(y) * arb(2) ** (8 - ctx.prec))

    return Arithmetic(
        number=arb,
        pi=arb.pi(),
        sqrt=arb.sqrt,
        exp=arb.exp,
        log=arb.log,
        expm1=arb.expm1,
        log1p=arb.log1p,
        poch=lambda x, n: arb(x).rising(n),
        rc=lambda x, y: acb.elliptic_rf(acb(x), acb(y), acb(y)).real,
        settled=settled,
        between=lambda x, y: x.union(y),
    )


def arithmetic(*arguments: object) -> Arithmetic:
    """Return the number system of ``arguments``: balls before mpmath numbers before floats."""
    homes = {type(argument).__module__.partition(".")[0] for argument in arguments}
    if "flint" in homes:
        return _ball()
    return _multiprecision() if "mpmath" in homes else _float()
