"""Exact sides: whether both sides of a statement are certainly apart at one point, or equal rational numbers.

The arguments of a refutation are balls around floats at their binary value.  A function cannot turn them into floats
unnoticed, and a condition on them, or an integer part, must be certain.  Other numbers count at their binary value.  A
side that has become a float may have been rounded, and then nothing is certain.

A ball also has the formula that led to it, so that sides that are apart make a statement which Coq can prove.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from corrnoise.paper_checks.machinery.terms import OPERATIONS, Term, Untraceable, term
from corrnoise.paper_checks.machinery.verdicts import INEQUALITY, Relation
from corrnoise.theory.numerics.arithmetic import Arithmetic, arithmetic

_PRECISION_BITS = 200  #: of balls


class Uncertain(TypeError):  # noqa: N818
    """A number has been rounded, or a condition on balls is not certain."""


def _ball(value: Any) -> Ball:
    """A number at its binary value as a ball."""
    from flint import arb

    if isinstance(value, Ball):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float | Fraction):
        raise Uncertain(f"{value!r} is no number")
    number = arb(value.numerator) / value.denominator if isinstance(value, Fraction) else arb(value)
    return Ball(number, term(value) if math.isfinite(value) else None)


def _formula(operation: str, *operands: Ball) -> Term | None:
    """The formula of an operation; None if an operand has none, or no formula has this operation."""
    terms = [one.term for one in operands if one.term is not None]
    if operation not in (*OPERATIONS, "pow") or len(terms) < len(operands):
        return None
    try:
        if operation != "pow":
            return Term(operation, *terms)
        return term(terms[0]) ** (terms[1].operands[0] if terms[1].operation == "number" else terms[1])
    except Untraceable:
        return None


def _binary(apply: Callable[[Any, Any], Any], name: str, reflected: bool = False) -> Any:
    def operate(self: Ball, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        pair = (self, _ball(other))[:: -1 if reflected else 1]
        return Ball(apply(*(one.value for one in pair)), _formula(name, *pair))

    return operate


def _comparison(apply: Callable[[Any, Any], Any], otherwise: Callable[[Any, Any], Any]) -> Any:
    def compare(self: Ball, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        left, right = self.value, _ball(other).value
        if not (apply(left, right) or otherwise(left, right)):
            raise Uncertain("a condition on balls that overlap")
        return bool(apply(left, right))

    return compare


def _unary(method: str, name: str | None = None) -> Any:
    return lambda self: Ball(getattr(self.value, method)(), _formula(name or method, self))


class Ball:
    """An Arb ball with its formula.  It does not become a float, and is compared only where the answer is certain."""

    number_system: ClassVar[Arithmetic]

    def __init__(self, value: Any, formula: Term | None) -> None:
        self.value = value
        self.term = formula

    __add__, __radd__ = _binary(operator.add, "add"), _binary(operator.add, "add")
    __sub__, __rsub__ = _binary(operator.sub, "sub"), _binary(operator.sub, "sub", reflected=True)
    __mul__, __rmul__ = _binary(operator.mul, "mul"), _binary(operator.mul, "mul")
    __truediv__, __rtruediv__ = _binary(operator.truediv, "div"), _binary(operator.truediv, "div", reflected=True)
    __pow__, __rpow__ = _binary(operator.pow, "pow"), _binary(operator.pow, "pow", reflected=True)
    __lt__, __ge__ = _comparison(operator.lt, operator.ge), _comparison(operator.ge, operator.lt)
    __gt__, __le__ = _comparison(operator.gt, operator.le), _comparison(operator.le, operator.gt)
    __eq__, __ne__ = _comparison(operator.eq, operator.ne), _comparison(operator.ne, operator.eq)
    __neg__, __abs__ = _unary("__neg__", "neg"), _unary("__abs__", "abs")
    sqrt, exp, log, expm1, log1p, sin, cos = map(_unary, ("sqrt", "exp", "log", "expm1", "log1p", "sin", "cos"))
    __hash__ = None  # type: ignore[assignment]

    def __int__(self) -> int:
        return -int(-self) if self.value < 0 else _whole(self.value)

    def __round__(self) -> int:
        found = _whole(self.value + 0.5)
        if not self.value + 0.5 > found:
            raise Uncertain("a number halfway between two integers")
        return found


def _whole(value: Any) -> int:
    """The integer part of a ball, rounded down."""
    found = value.floor().unique_fmpz()
    if found is None:
        raise Uncertain("an integer part that is not certain")
    return int(found)


def _number_system() -> Arithmetic:
    """The functions of balls, to the precision in force."""
    plain = arithmetic(_ball(0).value)
    names = {"minimum": "min", "maximum": "max"}

    def function(name: str) -> Any:
        of = getattr(plain, name)

        def wrapped(*given: Any) -> Any:
            balls = [_ball(Fraction(one) if isinstance(one, str) else one) for one in given]
            if name == "number":
                return balls[0]
            found = of(*(one.value for one in balls))
            return found if isinstance(found, bool) else Ball(found, _formula(names.get(name, name), *balls))

        return wrapped

    functions = {one.name: function(one.name) for one in fields(Arithmetic) if one.name != "pi"}
    return Arithmetic(**functions, pi=Ball(plain.pi, Term("pi")))


def _as_balls(value: Any) -> Any:
    """A float, and an array of floats, as balls; other values stay."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.array([_ball(entry) for entry in value.ravel()], dtype=object).reshape(value.shape)
    return _ball(value) if isinstance(value, float) else value


def _certain(found: Any) -> Ball:
    """The ball of an entry of a side; ``Uncertain`` for a float, which may have been rounded."""
    if isinstance(found, float | np.floating):
        raise Uncertain(f"{found!r} may have been rounded")
    return _ball(found)


def certainly_apart(
    function: Callable[..., tuple[Any, Any]],
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
    relation: Relation,
) -> tuple[Ball, Ball] | None:
    """Two entries of the sides that make the statement certainly false at these arguments: the lower, and the higher one.

    The lower one is the larger side of an inequality, and any side of an identity.  None if nothing is certain.
    """
    from flint import ctx

    before = ctx.prec
    ctx.prec = _PRECISION_BITS
    Ball.number_system = _number_system()
    try:
        given = {name: _as_balls(value) for name, value in {**arguments, **constants}.items()}
        sides = (np.asarray(side, dtype=None if isinstance(side, np.ndarray) else object) for side in function(**given))
        pairs = zip(*(side.ravel() for side in np.broadcast_arrays(*sides)), strict=True)
        for left, right in [(_certain(left), _certain(right)) for left, right in pairs]:
            if right.value < left.value:
                return right, left
            if relation != INEQUALITY and left.value < right.value:
                return left, right
    except (TypeError, AttributeError):  # a function of floats refuses balls
        pass
    finally:
        ctx.prec = before
    return None


def equal_rationals(left: Any, right: Any) -> bool:
    """Whether two sides are integers or fractions, or arrays of them, and equal."""
    pairs = [np.asarray(side, dtype=None if isinstance(side, np.ndarray) else object) for side in (left, right)]
    entries = [entry for side in pairs for entry in side.ravel()]
    return all(isinstance(entry, int | Fraction | np.integer) for entry in entries) and bool(
        np.all(pairs[0] == pairs[1])
    )
