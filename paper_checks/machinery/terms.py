"""Terms: the function of a claim in a number system whose numbers are formulas.

A claim's function is called with a ``Term`` for each argument.  Operators, the functions of ``arithmetic`` and NumPy's
functions of the same names build a tree.  Everything else would leave the formula: ``float(x)`` and ``if x < y`` need a
number.  They are an ``Untraceable``, and the claim has no formula.

A ``Formula`` is the traced inequality as plain data: ranges of the variables, a list of nodes that refer to earlier
ones, and the two sides.  Equal nodes are stored once.  Numbers are exact: a decimal string is the decimal, a float its
binary value.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from corrnoise.paper_checks.machinery.domains import Domain
from corrnoise.theory.numerics.arithmetic import Arithmetic

#: The operations of nodes, and how many nodes each takes.  "number" has a rational, "variable" an index, "power" also an
#: integer exponent.
OPERATIONS = {
    **dict.fromkeys(("number", "variable", "pi"), 0),
    **dict.fromkeys(("neg", "abs", "sqrt", "exp", "log", "expm1", "log1p", "sin", "cos", "power"), 1),
    **dict.fromkeys(("add", "sub", "mul", "div", "min", "max", "agm"), 2),
}
_UFUNC_OPERATIONS = {
    **{name: name for name in ("sqrt", "exp", "log", "expm1", "log1p", "sin", "cos")},
    **{"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow"},
    **{"minimum": "min", "maximum": "max", "absolute": "abs", "negative": "neg"},
}


class Untraceable(TypeError):  # noqa: N818
    """A function needs the value of a term, so that it has no formula."""


def _operator(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    def build(self: Any, *others: Any) -> Term:
        operands = (self, *map(term, others))
        return Term(name, *(operands[::-1] if reflected else operands))

    return build


def _refused(name: str) -> Any:
    def refuse(*_: Any) -> Any:
        raise Untraceable(f"{name} needs a number")

    return refuse


class Term:
    """A node of a formula: an operation, and its operands; see ``OPERATIONS``."""

    number_system: ClassVar[Arithmetic]

    def __init__(self, operation: str, *operands: Any) -> None:
        if operation not in OPERATIONS:  # as in type(x)("0.1")
            raise Untraceable(f"{operation!r} is no operation")
        self.operation = operation
        self.operands = operands

    __add__, __radd__ = _operator("add"), _operator("add")
    __sub__, __rsub__ = _operator("sub"), _operator("sub", reflected=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul")
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", reflected=True)
    __neg__, __abs__ = _operator("neg"), _operator("abs")
    __float__, __int__, __complex__, __bool__ = map(_refused, ("float", "int", "complex", "a condition"))
    __index__, __round__, __iter__, __len__ = map(_refused, ("an index", "round", "iteration", "len"))
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refused("a comparison")
    __hash__ = object.__hash__

    def __pow__(self, exponent: Any) -> Term:
        number = None if isinstance(exponent, Term) else exact(exponent)
        if number is not None and number.denominator == 1:
            return Term("power", self, int(number))
        return Term("sqrt", self) if number == Fraction(1, 2) else Term("exp", term(exponent) * Term("log", self))

    def __rpow__(self, base: Any) -> Term:
        return term(base) ** self

    def __pos__(self) -> Term:
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Term:
        name = _UFUNC_OPERATIONS.get(ufunc.__name__)
        if name is None or method != "__call__" or options:
            raise Untraceable(f"numpy.{ufunc.__name__} needs a number")
        return term(inputs[0]) ** inputs[1] if name == "pow" else Term(name, *map(term, inputs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what copying and NumPy look for
            raise AttributeError(name)
        raise Untraceable(f"{name} needs a number")


def exact(value: Any) -> Fraction:
    """A number as the rational that it is; ``Untraceable`` for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    try:
        if isinstance(value, int | float | str | Fraction):
            return Fraction(value)
    except (ValueError, OverflowError):
        pass
    raise Untraceable(f"{value!r} is no number")


def term(value: Any) -> Term:
    """A term as it is, and a number as a term."""
    return value if isinstance(value, Term) else Term("number", exact(value))


def _function(name: str) -> Any:
    return lambda *arguments: Term(name, *map(term, arguments))


Term.number_system = Arithmetic(
    number=term,
    pi=Term("pi"),
    minimum=_function("min"),
    maximum=_function("max"),
    **{name: _function(name) for name in ("sqrt", "exp", "log", "expm1", "log1p", "sin", "cos", "agm")},
    **{name: _refused(name) for name in ("poch", "rc", "settled", "between")},
)


# -- formulas ----------------------------------------------------------------------------------------------------------


def written(number: Fraction) -> str:
    """A rational as text that ``read`` reads back: a decimal, a float in hexadecimal digits, or a fraction.

    >>> written(Fraction("1e-300")), written(Fraction(0.1)), written(Fraction(1, 3))
    ('1e-300', '0x1.999999999999ap-4', '1/3')
    """
    if number.denominator == 1 and abs(number) < 10**15:
        return str(number.numerator)
    nearest = float(number) if abs(number) < 10**300 else math.inf
    if math.isinf(nearest):
        return str(number)
    decimal = repr(nearest)
    return decimal if Fraction(decimal) == number else nearest.hex() if nearest == number else str(number)


@dataclass(frozen=True)
class Range:
    """A variable and its range; an end is a rational or the name of an earlier variable."""

    name: str
    low: Fraction | str
    high: Fraction | str
    scale: str = "linear"  #: or "log": the boxes of a certificate are equal on this scale


@dataclass(frozen=True)
class Formula:
    """An inequality: the ranges of its variables, its nodes in order, and the nodes of its sides.

    ``strict`` says whether equality is excluded, and ``left_out`` which part of the stated domain the ranges omit.
    """

    ranges: tuple[Range, ...]
    nodes: tuple[tuple[Any, ...], ...]
    smaller: int
    larger: int
    strict: bool = False
    left_out: str = ""

    @property
    def bounded(self) -> bool:
        """Whether a variable is an end of another's range."""
        return any(isinstance(end, str) for each in self.ranges for end in (each.low, each.high))

    def content(self) -> dict[str, Any]:
        """The formula in the terms of JSON."""
        axes = [
            [one.name, *(end if isinstance(end, str) else written(end) for end in (one.low, one.high)), one.scale]
            for one in self.ranges
        ]
        nodes = [[written(each) if isinstance(each, Fraction) else each for each in node] for node in self.nodes]
        sides = {"smaller": self.smaller, "larger": self.larger, "strict": self.strict, "left_out": self.left_out}
        return {"axes": axes, "nodes": nodes, **sides}

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the formula."""
        return hashlib.sha256(json.dumps(self.content(), sort_keys=True).encode()).hexdigest()


def formula(
    ranges: tuple[Range, ...], smaller: Any, larger: Any, *, strict: bool = False, left_out: str = ""
) -> Formula:
    """The formula with these sides; equal nodes are merged."""
    places: dict[tuple[Any, ...], int] = {}
    seen: dict[int, tuple[int, Term]] = {}  # with the term, so that its identity stays taken

    def place(one: Term) -> int:
        if id(one) not in seen:
            node = (one.operation, *(place(each) if isinstance(each, Term) else each for each in one.operands))
            seen[id(one)] = places.setdefault(node, len(places)), one
        return seen[id(one)][0]

    sides = place(term(smaller)), place(term(larger))
    return Formula(ranges, tuple(places), *sides, strict=strict, left_out=left_out)


def traced(function: Callable[..., Any], domain: Domain, constants: Mapping[str, Any]) -> Formula:
    """The formula of a claim's function on its domain; ``Untraceable`` if it has none."""
    if not domain.axes or not domain.ball:
        raise Untraceable("only arguments that are real numbers have formulas")
    ranges = []
    for name, axis in domain.axes.items():
        low, high = (
            end if isinstance(end, str) and end.isidentifier() else exact(end) for end in (axis.low, axis.high)
        )
        ranges.append(Range(name, low, high, str(axis.scale)))
    variables = {name: Term("variable", k) for k, name in enumerate(domain.axes)}
    try:
        smaller, larger = function(**variables, **constants)
        return formula(tuple(ranges), smaller, larger)
    except Untraceable:
        raise
    except Exception as error:
        raise Untraceable(f"{type(error).__name__}: {error}") from error
