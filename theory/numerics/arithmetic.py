"""One formula, several number systems: float64 arrays, mpmath numbers, Arb balls, and types with a system of their own.

A closed form calls ``m = arithmetic(*arguments)`` and takes the functions that operators do not cover from ``m``.  So
it is written once for all.  Two more functions make an iteration portable that converges quadratically, from
both sides, to a limit between x and y:

``settled(x, y)``
    True if x and y are so close that one more step changes nothing.  For balls it is also True if x and y differ by
    rounding only.
``between(x, y)``
    The limit.  For numbers this is the midpoint of x and y.  For balls it is their hull, which encloses the limit.

A claim passes its decimal constants as strings to ``number``.  A third of x is written ``x / 3``, because
``(1/3) * x`` rounds 1/3 to a float.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Arithmetic:
    """The functions of one number system.

    ``rc`` is Carlson's R_C, ``poch`` the rising factorial, ``agm`` the arithmetic-geometric mean of positive numbers.
    """

    number: Callable[[Any], Any]
    pi: Any
    sqrt: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    expm1: Callable[[Any], Any]
    log1p: Callable[[Any], Any]
    sin: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    minimum: Callable[[Any, Any], Any]
    maximum: Callable[[Any, Any], Any]
    agm: Callable[[Any, Any], Any]
    poch: Callable[[Any, Any], Any]
    rc: Callable[[Any, Any], Any]
    settled: Callable[[Any, Any], bool]
    between: Callable[[Any, Any], Any]


def _elementary(home: Any) -> dict[str, Any]:
    """π and the functions that all three libraries know by the same names."""
    return {name: getattr(home, name) for name in ("pi", "sqrt", "exp", "log", "expm1", "log1p", "sin", "cos")}


def _mean(x: Any, y: Any) -> Any:
    """The arithmetic-geometric mean, by iteration."""
    m = arithmetic(x, y)
    while not m.settled(x, y):
        x, y = (x + y) / 2, m.sqrt(x) * m.sqrt(y)
    return m.between(x, y)


@cache
def _float() -> Arithmetic:
    from scipy.special import elliprc, poch

    return Arithmetic(
        **_elementary(np),
        number=float,
        minimum=np.minimum,
        maximum=np.maximum,
        agm=_mean,
        poch=poch,
        rc=elliprc,
        settled=lambda x, y: bool(np.all(np.abs(x - y) <= 1e-9 * np.abs(y))),
        between=lambda x, y: x + (y - x) / 2,
    )


@cache
def _multiprecision() -> Arithmetic:
    from mpmath import mp

    return Arithmetic(
        **_elementary(mp),
        number=mp.mpf,
        minimum=min,
        maximum=max,
        agm=_mean,
        poch=mp.rf,
        rc=mp.elliprc,
        settled=lambda x, y: abs(x - y) <= mp.ldexp(abs(y), -mp.prec // 2 - 1),
        between=lambda x, y: (x + y) / 2,
    )


@cache
def _ball(precision: int) -> Arithmetic:
    """Balls, with π to the precision in force, in bits."""
    from flint import acb, arb, ctx

    def settled(x: Any, y: Any) -> bool:
        gap = abs(x - y)
        return not x.is_finite() or x.overlaps(y) or bool(gap <= abs(y) * arb(2) ** (8 - ctx.prec))

    return Arithmetic(
        **{**_elementary(arb), "pi": arb.pi()},
        number=arb,
        minimum=lambda x, y: arb(x).min(arb(y)),
        maximum=lambda x, y: arb(x).max(arb(y)),
        agm=_mean,
        poch=lambda x, n: arb(x).rising(n),
        rc=lambda x, y: acb.elliptic_rf(acb(x), acb(y), acb(y)).real,
        settled=settled,
        between=lambda x, y: x.union(y),
    )


def arithmetic(*arguments: object) -> Arithmetic:
    """Return the number system of the arguments: their own, or balls before mpmath numbers before floats.

    Parameters
    ----------
    *arguments : float, array, mpmath number, Arb ball or term
        The numbers that a formula combines.  Another type names its system in ``number_system``.

    Returns
    -------
    Arithmetic
        ``number``, exact for decimal strings, ``pi``, and the functions ``sqrt``, ``exp``, ``log``, ``expm1``,
        ``log1p``, ``sin``, ``cos``, ``minimum``, ``maximum``, ``agm`` and others.

    Examples
    --------
    >>> from corrnoise import ledger
    >>> m = ledger.arithmetic(2.0)
    >>> float(m.agm(m.number("1"), m.exp(0.0)))
    1.0
    """
    for argument in arguments:
        own: Arithmetic | None = getattr(type(argument), "number_system", None)
        if own is not None:
            return own
    homes = {type(argument).__module__.partition(".")[0] for argument in arguments}
    if "flint" in homes:
        from flint import ctx

        return _ball(ctx.prec)
    return _multiprecision() if "mpmath" in homes else _float()
