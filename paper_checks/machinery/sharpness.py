"""Sharp constants: the value that makes the worst case found an equality, and the interval that holds the sharp one.

The worst case that a search finds need not be the worst one, so the value found is only one end of an interval.  The
other end is a constant with a proof of the statement.  The sharp constant lies between them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_RELATIVE_STEP = 1e-3  #: relative change that shows the side of the value found where the statement holds
_SIDE_ROUNDING = 1e-9
_SHOWN_DIGITS = 5


@dataclass(frozen=True)
class Interval:
    """The interval [``low``, ``high``] that holds the sharp constant; an end that is not proved is infinite.

    ``found`` is the end that the worst case found gives, and ``above`` says whether it is the lower one: the statement
    is true for large constants and fails below it.
    """

    low: float
    high: float
    found: float
    above: bool

    def __str__(self) -> str:
        """The ends with five digits, rounded outwards, so that the printed interval is true."""
        low, high = outwards(self.low, -1), outwards(self.high, +1)
        if math.isinf(self.high):
            return f"at least {low}"
        return f"at most {high}" if math.isinf(self.low) else f"between {low} and {high}"


def outwards(value: float, sign: int) -> str:
    """``value`` with five significant digits, rounded down for sign = −1 and up for +1.

    >>> outwards(0.124881, -1), outwards(0.124881, +1), outwards(0.125, +1)
    ('0.12488', '0.12489', '0.125')
    """
    if not math.isfinite(value):
        return f"{value:g}"
    context = Context(prec=_SHOWN_DIGITS, rounding=ROUND_CEILING if sign > 0 else ROUND_FLOOR)
    return f"{float(context.create_decimal(Decimal(value))):.{_SHOWN_DIGITS}g}"


def interval(margin: Callable[[float], float], found: float, proved: float | None) -> Interval | None:
    """The interval of the sharp constant; None if the margin does not depend on the constant.

    ``margin`` is a function of the constant, 0 at ``found``, which the worst case found gives.  ``proved`` is the constant
    for which the statement is proved, if it is; a relative difference to ``found`` below 1e-9 is rounding.
    """
    step = _RELATIVE_STEP * abs(found)
    more, less = margin(found + step), margin(found - step)
    if more == less:
        return None
    above = more > less
    if proved is None:
        proved = math.inf if above else -math.inf
    elif math.isclose(found, proved, rel_tol=_SIDE_ROUNDING):
        found = proved
    return Interval(found, proved, found, above) if above else Interval(proved, found, found, above)


def equality(margin: Callable[[float], float], value: float) -> float | None:
    """The constant at which ``margin``, a function of one constant with ``value`` as default, is 0; None if not found.

    A constant that is a factor of one side is found at once.  Any other is searched between e⁻³² and e³² times the
    default.
    """
    least = margin(value)
    if least == 0:
        return value
    for guess in (value * (1 - least), value / (1 - least)) if least < 1 else ():
        if abs(margin(guess)) <= 1e-6 * abs(least) + 1e-15:
            return guess

    def scaled(exponent: float) -> float:
        return margin(value * math.exp(exponent))

    from scipy.optimize import brentq

    for end in (sign * 2.0**k for k in range(-3, 6) for sign in (1, -1)):
        if least * scaled(end) < 0:
            return value * math.exp(brentq(scaled, 0, end, xtol=1e-12))
    return None
