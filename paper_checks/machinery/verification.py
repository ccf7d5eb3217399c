"""Verification of certificates by software that did not find them: the interval arithmetic of mpmath.

Nothing here comes from Arb or from the numerics of this project.  A record is read from anybody.  So every part is
checked before it is used, and a fault makes the record not valid.  What must hold:

* the tree uses up its boxes exactly: a preorder of splits and leaves with that property is a full binary tree, so its
  leaves cover the cube;
* on each leaf every node has a finite enclosure, so that both sides are defined there;
* on a leaf of kind −1 the enclosures prove the inequality; on one of kind −2 the mean value form does, with derivatives
  that exist on the whole box, and no variable is an end of another's range;
* the digest is the formula's.

The agm of an interval lies between those of its ends, because it rises in both arguments.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from mpmath.ctx_iv import MPIntervalContext

_FORMAT_NAME = "corrnoise-certificate/1"
_WORKING_BITS = 140
_MAX_EXTRA_BITS = 20_000  #: for log1p and expm1 of small numbers
_MAX_NODES = 5000
_MAX_POWER = 1000
_MAX_EXPONENT = 2**40  #: arguments of exp beyond it are refused
_MAX_MEAN_STEPS = 200
_NUMBER_PATTERN = re.compile(r"-?\d{1,4000}(?:\.\d{1,400}(?:e-?\d{1,4})?|e-?\d{1,4}|/\d{1,4000})?")
_HEX_PATTERN = re.compile(r"-?0x[01]\.[0-9a-f]{1,13}p[+-]\d{1,4}")
_ARITIES = {
    **dict.fromkeys(("number", "variable", "pi"), 0),
    **dict.fromkeys(("neg", "abs", "sqrt", "exp", "log", "expm1", "log1p", "sin", "cos", "power"), 1),
    **dict.fromkeys(("add", "sub", "mul", "div", "min", "max", "agm"), 2),
}


@dataclass(frozen=True)
class Verification:
    """Whether a record proves its formula, why not, and the number of boxes that were verified."""

    valid: bool
    reason: str
    leaves: int


class _VerifiedAxis(NamedTuple):
    name: str
    low: Any  #: an interval, or the number of an earlier axis
    high: Any
    log: bool


def verify(record: Mapping[str, Any]) -> Verification:
    """Verify a certificate.

    Parameters
    ----------
    record : dict
        What ``BoxCertificate.record`` returns, or the JSON of a file that ``corrnoise check --certificate`` wrote.

    Returns
    -------
    Verification
    """
    leaves = 0
    try:
        proof = _ProofRecord(record)
        for box, kind in _leaves(proof.tree, len(proof.axes)):
            if not proof.holds(box, kind):
                ends = ", ".join(f"{low} to {high}" for low, high in box)
                return Verification(False, f"a leaf of kind {kind} is not proved: {ends}", leaves)
            leaves += 1
    except _RecordError as fault:
        return Verification(False, str(fault), leaves)
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        return Verification(False, f"{type(error).__name__}: {error}", leaves)
    return Verification(True, "", leaves)


class _RecordError(Exception):
    """Why a record is not valid."""


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise _RecordError(fault)


def _integer(value: Any, low: int, high: int, what: str) -> int:
    _require(
        type(value) is int and low <= value <= high, f"{what} must be an integer in [{low}, {high}], got {value!r}"
    )
    return int(value)


def _rational(text: Any) -> Fraction:
    _require(isinstance(text, str), f"a number must be text, got {text!r}")
    if _HEX_PATTERN.fullmatch(text):
        return Fraction(float.fromhex(text))
    _require(_NUMBER_PATTERN.fullmatch(text) is not None, f"no number: {text[:40]!r}")
    return Fraction(text)


def _leaves(tree: Sequence[int], size: int) -> Iterator[tuple[list[tuple[Fraction, Fraction]], int]]:
    """The boxes at the leaves of a preorder, and their kinds."""
    boxes = [[(Fraction(0), Fraction(1))] * size]
    for code in tree:
        _require(bool(boxes), "the tree has more entries than boxes")
        box = boxes.pop()
        if code < 0:
            yield box, code
            continue
        low, high = box[code]
        middle = (low + high) / 2
        for half in ((middle, high), (low, middle)):
            boxes.append([*box[:code], half, *box[code + 1 :]])
    _require(not boxes, "the leaves of the tree do not cover the domain")


def _finite(interval: Any) -> bool:
    """Whether both ends are numbers: mpmath writes infinities and nan with mantissa 0 and an exponent."""
    return all(end[1] or not end[2] for end in interval._mpi_)


class _ProofRecord:
    """The formula and the tree of a record, and its enclosures."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        _require(isinstance(record, Mapping), "a record must be an object")
        _require(record.get("format") == _FORMAT_NAME, f"format must be {_FORMAT_NAME!r}, got {record.get('format')!r}")
        self.iv = MPIntervalContext()
        self.iv.prec = _WORKING_BITS
        parts = {name: record.get(name) for name in ("axes", "nodes", "smaller", "larger", "strict", "left_out")}
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        _require(record.get("digest") == digest, "the digest is not the formula's")
        for name in ("axes", "nodes", "tree"):
            _require(isinstance(record.get(name), list), f"{name} must be a list")
        self.axes: list[_VerifiedAxis] = []
        for axis in record["axes"]:
            self.axes.append(self._axis(axis))
        self.bounded = any(isinstance(end, int) for axis in self.axes for end in (axis.low, axis.high))
        _require(0 < len(record["nodes"]) <= _MAX_NODES, f"there must be 1 to {_MAX_NODES} nodes")
        self.nodes: list[tuple[str, tuple[Any, ...]]] = []
        for node in record["nodes"]:
            self.nodes.append(self._node(node))
        last = len(self.nodes) - 1
        self.smaller = _integer(record["smaller"], 0, last, "smaller")
        self.larger = _integer(record["larger"], 0, last, "larger")
        _require(type(record["strict"]) is bool, "strict must be true or false")
        self.strict = record["strict"]
        self.tree = [_integer(code, -2, len(self.axes) - 1, "an entry of the tree") for code in record["tree"]]

    def _interval(self, number: Fraction) -> Any:
        return self.iv.mpf(number.numerator) / self.iv.mpf(number.denominator)

    def _axis(self, axis: Any) -> _VerifiedAxis:
        _require(isinstance(axis, list) and len(axis) == 4, f"an axis must have four parts, got {axis!r}")
        name, *ends, scale = axis
        earlier = [one.name for one in self.axes]
        _require(isinstance(name, str) and name.isidentifier() and name not in earlier, f"no name of an axis: {name!r}")
        _require(scale in ("linear", "log"), f"scale must be linear or log, got {scale!r}")
        rational = [None if end in earlier else _rational(end) for end in ends]
        low, high = rational
        if low is not None and high is not None:
            _require(low < high, f"the range of {name} is empty")
        if scale == "log":
            _require(all(end is None or end > 0 for end in rational), f"a log scale must be positive: {name}")
        low_end, high_end = (
            earlier.index(end) if number is None else self._interval(number)
            for end, number in zip(ends, rational, strict=True)
        )
        return _VerifiedAxis(name, low_end, high_end, scale == "log")

    def _node(self, node: Any) -> tuple[str, tuple[Any, ...]]:
        _require(isinstance(node, list) and bool(node) and node[0] in _ARITIES, f"no node: {node!r}")
        name, *operands = node
        count = _ARITIES[name] + (name in ("number", "variable", "power"))
        _require(len(operands) == count, f"{name} must have {count} operands, got {operands!r}")
        if name == "number":
            return name, (self._interval(_rational(operands[0])),)
        if name == "variable":
            return name, (_integer(operands[0], 0, len(self.axes) - 1, "a variable"),)
        exponent = [_integer(operands.pop(), -_MAX_POWER, _MAX_POWER, "an exponent")] if name == "power" else []
        earlier = [_integer(each, 0, len(self.nodes) - 1, "an operand") for each in operands]
        return name, (*earlier, *exponent)

    # -- enclosures ----------------------------------------------------------------------------------------------------

    def holds(self, box: Sequence[tuple[Fraction, Fraction]], kind: int) -> bool:
        """Whether the inequality is proved on a box in the way that the kind of the leaf names."""
        variables = self._variables(box)
        values = self._values(variables)
        if kind == -1:
            return self._below(values[self.smaller], values[self.larger])
        _require(not self.bounded, "a leaf of kind -2, where an axis is an end of another")
        allowance = self.iv.mpf(0)
        slopes = self._slopes(values)
        for axis, x, slope, (low, high) in zip(self.axes, variables, slopes, box, strict=True):
            stretch = self.iv.log(axis.high / axis.low) * x if axis.log else axis.high - axis.low
            allowance += abs(slope * stretch) * self._interval((high - low) / 2)
        middle = [((low + high) / 2,) * 2 for low, high in box]
        there = self._values(self._variables(middle))
        return _finite(allowance) and self._below(there[self.smaller] + allowance, there[self.larger])

    def _below(self, smaller: Any, larger: Any) -> bool:
        return bool(smaller.b < larger.a if self.strict else smaller.b <= larger.a)

    def _variables(self, box: Sequence[tuple[Fraction, Fraction]]) -> list[Any]:
        found: list[Any] = []
        for axis, ends in zip(self.axes, box, strict=True):
            low, high = (found[end] if isinstance(end, int) else end for end in (axis.low, axis.high))
            at = []
            for u in ends:
                share = self._interval(u)
                if u in (0, 1):
                    at.append(high if u else low)
                elif axis.log:
                    first, last = self.iv.log(low), self.iv.log(high)
                    at.append(self.iv.exp(first + share * (last - first)))
                else:
                    at.append(low + share * (high - low))
            found.append(self._hull(*at))
        return found

    def _hull(self, x: Any, y: Any) -> Any:
        return self.iv.mpf([min(x.a, y.a), max(x.b, y.b)])

    def _values(self, variables: Sequence[Any]) -> list[Any]:
        values: list[Any] = []
        for name, operands in self.nodes:
            if name == "number":
                value = operands[0]
            elif name == "variable":
                value = variables[operands[0]]
            elif name == "pi":
                value = self.iv.pi + 0
            elif name == "power":
                value = values[operands[0]] ** operands[1]
            else:
                value = self._applied(name, operands, [values[k] for k in operands])
            if not _finite(value):
                raise ArithmeticError(f"{name} has no finite enclosure on a box")
            values.append(value)
        return values

    def _applied(self, name: str, operands: Sequence[int], x: Sequence[Any]) -> Any:
        iv = self.iv
        if name in ("sqrt", "log", "agm"):
            least = min(each.a for each in x)
            _require(bool(least > 0 or (name == "sqrt" and least >= 0)), f"{name} of a number that may be negative")
        if name in ("exp", "expm1"):
            _require(bool(abs(x[0]).b < _MAX_EXPONENT), "exp of a number beyond the limit")
        if name in ("sqrt", "exp", "log", "sin", "cos"):
            return getattr(iv, name)(x[0])
        if name in ("log1p", "expm1"):
            return self._precise(name, x[0])
        if name == "mul":
            return x[0] ** 2 if operands[0] == operands[1] else x[0] * x[1]
        if name == "div":
            _require(0 not in x[1], "division by an interval that contains 0")
            return x[0] / x[1]
        if name in ("min", "max"):
            choose = min if name == "min" else max
            return iv.mpf([choose(x[0].a, x[1].a), choose(x[0].b, x[1].b)])
        if name == "agm":
            return self._hull(self._mean(x[0].a, x[1].a), self._mean(x[0].b, x[1].b))
        return {"neg": lambda: -x[0], "abs": lambda: abs(x[0]), "add": lambda: x[0] + x[1], "sub": lambda: x[0] - x[1]}[
            name
        ]()

    def _precise(self, name: str, x: Any) -> Any:
        """log(1 + x) or exp(x) − 1, with the more bits, the smaller x is."""
        sizes = [end[2] + end[3] for end in x._mpi_ if end[1]]
        extra = max([0, *(-size for size in sizes)])
        _require(extra <= _MAX_EXTRA_BITS, f"{name} of a number that is too small")
        try:
            self.iv.prec = _WORKING_BITS + extra
            _require(name == "expm1" or bool(x.a > -1), "log1p of a number that may be below -1")
            return self.iv.log(1 + x) if name == "log1p" else self.iv.exp(x) - 1
        finally:
            self.iv.prec = _WORKING_BITS

    def _mean(self, x: Any, y: Any) -> Any:
        """The arithmetic-geometric mean of two positive numbers: it lies between the two means at every step."""
        for _ in range(_MAX_MEAN_STEPS):
            x, y = (x + y) / 2, self.iv.sqrt(x * y)
            if abs(x - y).b <= abs(y).b * self.iv.mpf(2) ** (8 - _WORKING_BITS):
                return self._hull(x, y)
        raise ArithmeticError("the arithmetic-geometric mean does not settle")

    def _slopes(self, values: Sequence[Any]) -> list[Any]:
        """The derivatives of larger − smaller by the variables, on the whole box."""
        iv = self.iv
        none = [iv.mpf(0)] * len(self.axes)
        rows: list[list[Any]] = []
        for (name, operands), value in zip(self.nodes, values, strict=True):
            if name in ("number", "pi"):
                rows.append(none)
                continue
            if name == "variable":
                rows.append([iv.mpf(int(k == operands[0])) for k in range(len(self.axes))])
                continue
            inner = [rows[k] for k in operands[: _ARITIES[name]]]
            if all(row is none for row in inner):
                rows.append(none)
                continue
            x = [values[k] for k in operands[: _ARITIES[name]]]
            rows.append([iv.mpf(0)] * len(self.axes))
            for partial, row in zip(self._partials(name, x, value, operands), inner, strict=True):
                if row is not none:
                    rows[-1] = [total + partial * each for total, each in zip(rows[-1], row, strict=True)]
        return [a - b for a, b in zip(rows[self.larger], rows[self.smaller], strict=True)]

    def _partials(self, name: str, x: Sequence[Any], value: Any, operands: Sequence[int]) -> tuple[Any, ...]:
        iv = self.iv
        if name in ("min", "max"):
            first_below, second_below = bool(x[0].b < x[1].a), bool(x[1].b < x[0].a)
            _require(first_below or second_below, f"{name} may not be differentiable on a leaf of kind -2")
            first = iv.mpf(int(first_below == (name == "min")))
            return first, 1 - first
        if name in ("abs", "sqrt"):
            _require(0 not in x[0], f"{name} may not be differentiable on a leaf of kind -2")
        _require(name != "agm", "agm has no derivative here, on a leaf of kind -2")
        return {
            "add": lambda: (iv.mpf(1), iv.mpf(1)),
            "sub": lambda: (iv.mpf(1), -iv.mpf(1)),
            "mul": lambda: (x[1], x[0]),
            "div": lambda: (1 / x[1], -value / x[1]),
            "neg": lambda: (-iv.mpf(1),),
            "abs": lambda: (iv.mpf(1 if x[0].a > 0 else -1),),
            "sqrt": lambda: (1 / (2 * value),),
            "exp": lambda: (value,),
            "expm1": lambda: (iv.exp(x[0]),),
            "log": lambda: (1 / x[0],),
            "log1p": lambda: (1 / (1 + x[0]),),
            "sin": lambda: (iv.cos(x[0]),),
            "cos": lambda: (-iv.sin(x[0]),),
            "power": lambda: (operands[1] * x[0] ** (operands[1] - 1),),
        }[name]()
