"""Exact sides: whether both sides of a statement are certainly apart at one point, or equal rational numbers.

The arguments of a refutation are balls around floats at their binary value.  A function cannot turn them into floats unnoticed, and a
condition on them must be certain.  Other numbers count at their binary value.  A side that has become a float may have
been rounded, and then nothing is certain.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from corrnoise.paper_checks.machinery.verdicts import INEQUALITY, Relation
from corrnoise.theory.numerics.arithmetic import Arithmetic, arithmetic

_PRECISION_BITS = 200  #: of balls


class Uncertain(TypeError):  # noqa: N818
    """A number has been rounded, or a condition on balls is not certain."""


def _plain(value: Any) -> Any:
    """The Arb ball of a number at its binary value."""
    from flint import arb

    if isinstance(value, Ball):
        return value.value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Fraction):
        return arb(value.numerator) / value.denominator
    if isinstance(value, int | float):
        return arb(value)
    raise Uncertain(f"{value!r} is no number")


def _binary(apply: Callable[[Any, Any], Any], reflected: bool = False) -> Any:
    def operate(self: Ball, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        pair = (self.value, _plain(other))
        return Ball(apply(*(pair[::-1] if reflected else pair)))

    return operate


def _comparison(apply: Callable[[Any, Any], Any], otherwise: Callable[[Any, Any], Any]) -> Any:
    def compare(self: Ball, other: Any) -> bool:
        left, right = self.value, _plain(other)
        if not (apply(left, right) or otherwise(left, right)):
            raise Uncertain("a condition on balls that overlap")
        return bool(apply(left, right))

    return compare


def _unary(name: str) -> Any:
    return lambda self: Ball(getattr(self.value, name)())


class Ball:
    """An Arb ball that does not become a float, and is compared only where the answer is certain."""

    number_system: ClassVar[Arithmetic]

    def __init__(self, value: Any) -> None:
        self.value = value

    __add__, __radd__ = _binary(operator.add), _binary(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _binary(operator.sub, reflected=True)
    __mul__, __rmul__ = _binary(operator.mul), _binary(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _binary(operator.truediv, reflected=True)
    __pow__, __rpow__ = _binary(operator.pow), _binary(operator.pow, reflected=True)
    __lt__, __ge__ = _comparison(operator.lt, operator.ge), _comparison(operator.ge, operator.lt)
    __gt__, __le__ = _comparison(operator.gt, operator.le), _comparison(operator.le, operator.gt)
    __eq__, __ne__ = _comparison(operator.eq, operator.ne), _comparison(operator.ne, operator.eq)
    __neg__, __abs__ = _unary("__neg__"), _unary("__abs__")
    sqrt, exp, log, expm1, log1p, sin, cos = map(_unary, ("sqrt", "exp", "log", "expm1", "log1p", "sin", "cos"))
    __hash__ = None  # type: ignore[assignment]


def _number_system() -> Arithmetic:
    """The functions of balls, to the precision in force."""
    plain = arithmetic(_plain(0))

    def function(name: str) -> Any:
        of = getattr(plain, name)

        def wrapped(*given: Any) -> Any:
            found = of(*(one if isinstance(one, str) else _plain(one) for one in given))
            return found if isinstance(found, bool) else Ball(found)

        return wrapped

    return Arithmetic(
        **{one.name: function(one.name) for one in fields(Arithmetic) if one.name != "pi"}, pi=Ball(plain.pi)
    )


def _as_balls(value: Any) -> Any:
    """A float, and an array of floats, as balls; other values stay."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.array([Ball(_plain(entry)) for entry in value.ravel()], dtype=object).reshape(value.shape)
    return Ball(_plain(value)) if isinstance(value, float) else value


def _certain(found: Any) -> Any:
    """The ball of an entry of a side; ``Uncertain`` for a float, which may have been rounded."""
    if isinstance(found, float | np.floating):
        raise Uncertain(f"{found!r} may have been rounded")
    return _plain(found)


def certainly_apart(
    function: Callable[..., tuple[Any, Any]],
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
    relation: Relation,
) -> bool:
    """Whether the statement of a function is certainly false at these arguments, with these constants."""
    from flint import ctx

    before = ctx.prec
    ctx.prec = _PRECISION_BITS
    Ball.number_system = _number_system()
    try:
        given = {name: _as_balls(value) for name, value in {**arguments, **constants}.items()}
        sides = (np.asarray(side, dtype=None if isinstance(side, np.ndarray) else object) for side in function(**given))
        pairs = zip(*(side.ravel() for side in np.broadcast_arrays(*sides)), strict=True)
        balls = [(_certain(left), _certain(right)) for left, right in pairs]
        return any(bool(left > right if relation == INEQUALITY else left != right) for left, right in balls)
    except (TypeError, AttributeError):  # a function of floats refuses balls
        return False
    finally:
        ctx.prec = before


def equal_rationals(left: Any, right: Any) -> bool:
    """Whether two sides are integers or fractions, or arrays of them, and equal."""
    pairs = [np.asarray(side, dtype=None if isinstance(side, np.ndarray) else object) for side in (left, right)]
    entries = [entry for side in pairs for entry in side.ravel()]
    return all(isinstance(entry, int | Fraction | np.integer) for entry in entries) and bool(
        np.all(pairs[0] == pairs[1])
    )
