"""Refutations at one point: whether both sides of a statement are certainly apart there.

The arguments are numbers at their binary value.  A function whose sides are integers, fractions or balls is evaluated
without rounding, or with an enclosure of it.  A side that has become a float has no such form.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx

from corrnoise.paper_checks.machinery.verdicts import INEQUALITY, Relation

_PRECISION_BITS = 200  #: of balls


def _ball(value: Any) -> Any:
    """A float as a ball of radius 0; other values stay."""
    return arb(value) if isinstance(value, float) else value


def _exact(side: Any) -> arb | None:
    """A side as a ball; None if it is a float or anything else that may have been rounded."""
    if isinstance(side, arb):
        return side
    if isinstance(side, int | np.integer):
        return arb(int(side))
    return arb(side.numerator) / side.denominator if isinstance(side, Fraction) else None


def certainly_apart(
    function: Callable[..., tuple[Any, Any]],
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
    relation: Relation,
) -> bool:
    """Whether the statement of a function is certainly false at these arguments, with these constants."""
    before = ctx.prec
    ctx.prec = _PRECISION_BITS
    try:
        given = {name: _ball(value) for name, value in {**arguments, **constants}.items()}
        smaller, larger = map(_exact, function(**given))
        if smaller is None or larger is None:
            return False
        return bool(smaller > larger if relation == INEQUALITY else smaller != larger)
    except TypeError:  # a function of floats refuses balls
        return False
    finally:
        ctx.prec = before
