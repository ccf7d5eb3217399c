"""Terms: the formula has the values of the function, numbers are exact, and what has no formula is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.paper_checks.machinery.domains import Domain, integers, linear, log_scale
from corrnoise.paper_checks.machinery.statements import traced_statement
from corrnoise.paper_checks.machinery.terms import OPERATIONS, Range, Term, Untraceable, written
from corrnoise.theory.numerics import elliptic
from corrnoise.theory.numerics.arithmetic import arithmetic

UNIT = {"x": linear("0.1", "0.9")}


def stated(function, **axes):
    return traced_statement(function, Domain(axes or UNIT), {})


def value(statement, *variables):
    """The difference of the sides by floats."""
    functions = {name: getattr(math, name) for name in ("sqrt", "exp", "log", "expm1", "log1p", "sin", "cos")}
    functions |= {"add": float.__add__, "sub": float.__sub__, "mul": float.__mul__, "div": float.__truediv__}
    functions |= {"min": min, "max": max, "abs": abs, "neg": float.__neg__, "agm": elliptic.agm}
    values = []
    for operation, *operands in statement.nodes:
        if operation in ("number", "variable", "pi"):
            leaf = {"number": lambda o=operands: float(o[0]), "variable": lambda o=operands: variables[o[0]]}
            values.append(leaf.get(operation, lambda: math.pi)())
        elif operation == "power":
            values.append(values[operands[0]] ** operands[1])
        else:
            values.append(float(functions[operation](*(values[k] for k in operands))))
    return values[statement.larger] - values[statement.smaller]


def every_operation(x, y):
    m = arithmetic(x, y)
    total = m.minimum(x, y) * m.sin(x) + m.maximum(x, 2 * y) - m.cos(y) / abs(-x) + m.agm(x, y)
    total = total + m.log1p(x) - m.expm1(-y) + x**3 + y**-2 + m.sqrt(x) ** y + 2**x + np.log(x) + np.float64(0.5) * y
    return 1 - total, m.exp(x - m.pi) + (+y)


@given(st.floats(0.1, 0.9), st.floats(0.1, 0.9))
def test_a_formula_has_the_values_of_its_function(x, y):
    statement = stated(every_operation, x=linear("0.1", "0.9"), y=log_scale("0.1", "0.9"))
    smaller, larger = every_operation(x, y)
    assert value(statement, x, y) == pytest.approx(larger - smaller, rel=1e-12, abs=1e-12)
    assert {node[0] for node in statement.nodes} == OPERATIONS.keys()


def test_numbers_are_exact():
    """A tracer that rounded the decimal would state something else."""
    exact = stated(lambda x: (x, arithmetic(x).number("0.1")))
    rounded = stated(lambda x: (x, 0.1))
    assert exact.nodes[exact.larger] == ("number", Fraction(1, 10))
    assert rounded.nodes[rounded.larger] == ("number", Fraction(0.1)) != exact.nodes[exact.larger]
    assert exact.digest != rounded.digest
    assert exact.ranges == (Range("x", Fraction(1, 10), Fraction(9, 10)),)


@given(st.fractions(), st.floats(allow_nan=False, allow_infinity=False), st.decimals(-(10**30), 10**30))
def test_written_numbers_are_exact(fraction, number, decimal):
    for rational in (fraction, Fraction(number), Fraction(decimal)):
        text = written(rational)
        assert rational == (Fraction(float.fromhex(text)) if "0x" in text else Fraction(text))


def test_equal_nodes_are_stored_once():
    statement = stated(lambda x: (x * x + 1 / (1 + x * x), 1 + x * x))
    assert len(statement.nodes) == len(set(statement.nodes)) == 6


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (float(x), 1),
        lambda x: (math.log(x), 1),
        lambda x: (1 if x > 0 else x, 1),
        lambda x: (x, 1) if x == x else (x, 2),
        lambda x: (min(x, 1), 1),
        lambda x: (x and 1, 1),
        lambda x: (sum(x), 1),
        lambda x: (np.tan(x), 1),
        lambda x: (np.array([x, 1.0]), 1),
        lambda x: (type(x)("1"), 1),
        lambda x: (x.tan(), 1),
        lambda x: (arithmetic(x).poch(x, 2), 1),
        lambda x: (elliptic.cel(x, 1, 1, 1), 1),
        lambda x: (x, math.nan),
        lambda x: (x, 1 / 0),
        lambda x: x,
    ],
)
def test_what_needs_a_number_has_no_formula(function):
    with pytest.raises(Untraceable):
        stated(function)


def test_only_real_numbers_have_formulas():
    for axes in ({"x": integers(1, 3)}, {"x": linear(0, 1), "n": integers(1, 3)}):
        with pytest.raises(Untraceable, match="only arguments that are real numbers"):
            stated(lambda **_: (0, 1), **axes)
    with pytest.raises(Untraceable, match="is no operation"):
        Term("1")
