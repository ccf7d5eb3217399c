"""Inequalities as text, such as ``x*log(4/x) <= log(2-x)`` for ``0 < x <= 0.19``: a tokenizer and a recursive descent.

No text is evaluated.  It becomes a formula over the numbers and names that stand in it, within limits on its size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from corrnoise.paper_checks.machinery.statements import Statement
from corrnoise.paper_checks.machinery.terms import Range, Term, formula, term
from corrnoise.support.suggestions import did_you_mean

_MAX_CHARACTERS = 4000
_MAX_DEPTH = 60
_MAX_POWER = 1000
_MAX_DECIMAL_EXPONENT = 4000
_SMALLEST_POSITIVE = Fraction("1e-300")  #: where a range above 0 begins
_LOG_SCALE_FACTOR = 100  #: a positive range whose ends differ by more is on a log scale
_FUNCTION_OPERANDS = {
    **dict.fromkeys(("sqrt", "exp", "log", "ln", "log1p", "expm1", "abs", "sin", "cos"), 1),
    **dict.fromkeys(("min", "max", "agm"), 2),
}
_TOKEN_PATTERN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|<=|>=|[-+*/^(),<>]))"
)
_OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


class Malformed(ValueError):  # noqa: N818
    """A text is not an inequality, or not a range; the message says where."""


class _Token(NamedTuple):
    kind: str  #: number, name, sign or end
    text: str
    place: int


def _tokens(text: str) -> list[_Token]:
    if len(text) > _MAX_CHARACTERS:
        raise Malformed(f"a text must have at most {_MAX_CHARACTERS} characters, got {len(text)}")
    found, place = [], 0
    while text[place:].strip():
        match = _TOKEN_PATTERN.match(text, place)
        if match is None or match.lastgroup is None:
            blanks = len(text[place:]) - len(text[place:].lstrip())
            raise Malformed(f"no number, name or sign at position {place + blanks + 1}: {text[place:].lstrip()[:20]!r}")
        found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        place = match.end()
    return [*found, _Token("end", "the end", len(text) + 1)]


class _Parser:
    """One text, its next token, and the variables that it may use."""

    def __init__(self, text: str, variables: Sequence[str]) -> None:
        self.tokens = _tokens(text)
        self.variables = list(variables)
        self.depth = 0

    def fault(self, expected: str) -> Malformed:
        found = self.tokens[0]
        return Malformed(f"{expected} expected at position {found.place}, got {found.text!r}")

    def take(self, *texts: str) -> str | None:
        """The next token, if it is one of these signs."""
        token = self.tokens[0]
        return self.tokens.pop(0).text if token.kind == "sign" and token.text in texts else None

    def require(self, *texts: str) -> str:
        found = self.take(*texts)
        if found is None:
            raise self.fault(" or ".join(map(repr, texts)))
        return found

    def end(self) -> None:
        if self.tokens[0].kind != "end":
            raise self.fault("an operator or the end")

    def sum(self) -> Term:
        found = self.product()
        while sign := self.take("+", "-"):
            found = Term(_OPERATIONS[sign], found, self.product())
        return found

    def product(self) -> Term:
        found = self.signed()
        while sign := self.take("*", "/"):
            found = Term(_OPERATIONS[sign], found, self.signed())
        return found

    def signed(self) -> Term:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fault(f"fewer than {_MAX_DEPTH} nested parts")
        sign = self.take("+", "-")
        found = self.power() if sign is None else self.signed()
        self.depth -= 1
        return -found if sign == "-" else found

    def power(self) -> Term:
        base = self.atom()
        if not self.take("^", "**"):
            return base
        place = self.tokens[0].place
        exponent = self.signed()
        if _varies(exponent):
            return base**exponent
        number = _constant(exponent)
        if number is None or abs(number) > _MAX_POWER:
            raise Malformed(
                f"an exponent must be a number up to {_MAX_POWER} or depend on a variable, at position {place}"
            )
        return base**number

    def atom(self) -> Term:
        token = self.tokens[0]
        if token.kind == "number":
            return term(self.number())
        if self.take("("):
            found = self.sum()
            self.require(")")
            return found
        if token.kind != "name":
            raise self.fault("a number, a name or '('")
        self.tokens.pop(0)
        if token.text == "pi":
            return Term("pi")
        if token.text in self.variables:
            return Term("variable", self.variables.index(token.text))
        if token.text not in _FUNCTION_OPERANDS:
            known = (*self.variables, *_FUNCTION_OPERANDS, "pi")
            raise Malformed(
                f"{token.text!r} at position {token.place} is no variable with a range and no function; "
                f"there are {', '.join(known)}{did_you_mean(token.text, known)}"
            )
        self.require("(")
        operands = [self.sum()]
        while len(operands) < _FUNCTION_OPERANDS[token.text]:
            self.require(",")
            operands.append(self.sum())
        self.require(")")
        return Term("log" if token.text == "ln" else token.text, *operands)

    def number(self) -> Fraction:
        text = self.tokens.pop(0).text
        if abs(int(re.split("[eE]", f"{text}e0")[1])) > _MAX_DECIMAL_EXPONENT:
            raise Malformed(f"a decimal exponent must be at most {_MAX_DECIMAL_EXPONENT}, got {text[:30]!r}")
        return Fraction(text)

    def bound(self) -> Fraction | str:
        """An end of a range: a rational, or the name of an earlier variable."""
        token = self.tokens[0]
        if token.kind == "name" and token.text in self.variables:
            return self.tokens.pop(0).text
        number = _constant(self.product())
        if number is None:
            raise Malformed(f"an end of a range must be a number or an earlier name, at position {token.place}")
        return number


def _varies(one: Term) -> bool:
    return one.operation == "variable" or any(_varies(each) for each in one.operands if isinstance(each, Term))


def _constant(one: Term) -> Fraction | None:
    """The value of a number, its negative, or a product or quotient of such; None of anything else."""
    if one.operation == "number":
        number: Fraction = one.operands[0]
        return number
    if one.operation not in ("neg", "mul", "div"):
        return None
    values = [_constant(each) for each in one.operands]
    if any(value is None for value in values) or (one.operation == "div" and not values[1]):
        return None
    first, *others = (value for value in values if value is not None)
    return -first if not others else first * others[0] if one.operation == "mul" else first / others[0]


def _range(text: str, earlier: Sequence[Range]) -> tuple[Range, str]:
    """A range, and the part of it that is left out."""
    parser = _Parser(text, [one.name for one in earlier])
    low = parser.bound()
    first = parser.require("<", "<=")
    token = parser.tokens[0]
    if token.kind != "name" or token.text in (*parser.variables, *_FUNCTION_OPERANDS, "pi"):
        raise parser.fault("a new name")
    name = parser.tokens.pop(0).text
    parser.require("<", "<=")
    high = parser.bound()
    parser.end()
    left_out = ""
    if low == 0 and first == "<":
        low, left_out = _SMALLEST_POSITIVE, f"0 < {name} < 1e-300"
    limits = {one.name: (one.low, one.high) for one in earlier}
    least, most = low, high
    while isinstance(least, str):
        least = limits[least][0]
    while isinstance(most, str):
        most = limits[most][1]
    if least >= most:
        raise Malformed(f"a range must have low < high, got {text.strip()!r}")
    log = least > 0 and most / least > _LOG_SCALE_FACTOR
    return Range(name, low, high, "log" if log else "linear"), left_out


def statement(inequality: str, ranges: str) -> Statement:
    """A statement from text.

    Parameters
    ----------
    inequality : str
        Two sides with ``<=``, ``<``, ``>=`` or ``>`` between them: numbers, names, ``+ - * / ^ **``, parentheses, ``pi``
        and the functions sqrt, exp, log, ln, log1p, expm1, abs, sin, cos, min, max and agm.
    ranges : str
        A range ``low <= name <= high`` for each name, separated by commas; an end is a number or an earlier name.  A
        range above 0 begins at 1e-300, which ``Statement.left_out`` says.

    Returns
    -------
    Statement

    Raises
    ------
    Malformed
        With the position of the fault.

    Examples
    --------
    >>> from corrnoise import ledger
    >>> ledger.statement("x*log(4/x) <= log(2-x)", "0 < x <= 0.19").certify().answer
    'proved'
    """
    found: list[Range] = []
    left_out = []
    for text in ranges.split(","):
        one, missing = _range(text, found)
        found.append(one)
        left_out += [missing] if missing else []
    parser = _Parser(inequality, [one.name for one in found])
    sides = [parser.sum()]
    sign = parser.require("<=", "<", ">=", ">")
    sides.append(parser.sum())
    parser.end()
    smaller, larger = sides if sign[0] == "<" else sides[::-1]
    try:
        parts = formula(tuple(found), smaller, larger, strict=len(sign) == 1, left_out=", ".join(left_out))
    except RecursionError as error:
        raise Malformed("the inequality must have fewer operations") from error
    return Statement(**vars(parts))
