"""Inequalities as text: the grammar, and refusals with the position of the fault."""

import math
import random

import pytest

from corrnoise.paper_checks.machinery.domains import Domain, linear, log_scale
from corrnoise.paper_checks.machinery.expressions import Malformed, statement
from corrnoise.paper_checks.machinery.statements import traced_statement
from corrnoise.theory.numerics.arithmetic import arithmetic

UNIT = "0 <= x <= 1"


def test_the_text_and_the_function_are_one_statement():
    def function(x, y):
        m = arithmetic(x, y)
        return m.log(4 / x) ** 2 - m.number("1e-3") * m.minimum(x, y), m.exp(-y) + 2**x - m.pi

    axes = {"x": log_scale("1e-300", "0.19"), "y": linear("0.05", "x")}
    text = statement("ln(4/x)^2 - 1e-3*min(x, y) <= exp(-y) + 2**x - pi", "0 < x <= 0.19, 1/20 <= y <= x")
    traced = traced_statement(function, Domain(axes), {})
    assert text.left_out == "0 < x < 1e-300"
    assert text.content() | {"left_out": ""} == traced.content()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-x^2", -0.25),
        ("2^3^-1 - 2", None),
        ("x - x - x", -0.5),
        ("8/2/2*x", 1.0),
        ("--x", 0.5),
        ("x**-2", 4.0),
        ("x^(1/2)", math.sqrt(0.5)),
        ("abs(x - 1) + max(x, 0.75) + agm(1, 1) + .5e1", 7.25),
    ],
)
def test_operators_bind_as_usual(text, value):
    """At x = 1/2, to a relative 1e-9."""
    if value is None:
        with pytest.raises(Malformed, match="an exponent must be a number"):
            statement(f"{text} <= 1", "0 <= x <= 1")
        return
    low, high = value - 1e-9, value + 1e-9
    near = "0.49999999999 <= x <= 0.50000000001"
    assert statement(f"{text} <= {high!r}", near).certify().answer == "proved"
    assert statement(f"{text} >= {low!r}", near).certify().answer == "proved"
    assert statement(f"{text} > {high!r}", near).certify().answer == "refuted"


def test_scales_and_signs():
    assert [one.scale for one in statement("x <= y", "1 <= x <= 100, 1/100 <= y <= 2").ranges] == ["linear", "log"]
    assert statement("x > 0", "0 < x <= 1").strict
    assert not statement("x >= 0", "0 < x <= 1").strict
    assert statement("x >= 0", "-1 <= x <= 1/3").ranges[0].scale == "linear"
    assert statement("x >= y", "0.001 <= y <= 1, y <= x <= 2").ranges[1].scale == "log"


@pytest.mark.parametrize(
    ("inequality", "ranges", "message"),
    [
        ("x", UNIT, "'<=' or '<' or '>=' or '>' expected at position 2"),
        ("x <= 1 <= 2", UNIT, "an operator or the end expected at position 8"),
        ("2x <= 1", UNIT, "expected at position 2, got 'x'"),
        ("x <= (", UNIT, "a number, a name or '\\(' expected at position 7"),
        ("sqrt(x, x) <= 1", UNIT, "'\\)' expected at position 7"),
        ("min(x) <= 1", UNIT, "',' expected at position 6"),
        ("sqr(x) <= 1", UNIT, "'sqr' at position 1 is no variable with a range and no function.*sqrt"),
        ("y <= 1", UNIT, "'y' at position 1 is no variable"),
        ("x <= 1", "", "expected at position 1"),
        ("x <= 1", "0 <= x", "'<' or '<=' expected"),
        ("x <= 1", "1 <= x <= 0", "low < high"),
        ("x <= 1", "0 <= exp <= 1", "a new name expected"),
        ("x <= 1", "0 <= x <= 1, 0 <= x <= 1", "a new name expected"),
        ("x <= 1", "0 <= x <= y", "'y' at position 11"),
        ("x <= 1", "0 <= x <= 1/0", "an end of a range must be a number"),
        ("x <= 1", "0 <= x <= exp(1)", "an end of a range must be a number"),
        ("x^(1/0) <= 1", UNIT, "an exponent must be a number"),
    ],
)
def test_faults_have_positions(inequality, ranges, message):
    with pytest.raises(Malformed, match=message):
        statement(inequality, ranges)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__",
        "x.real",
        "x[0]",
        "lambda: x",
        "x if x else x",
        "eval(x)",
        "exec(x)",
        "9**9**9**9",
        "x^1001",
        "x^1e9",
        "1e9999",
        "1e" + "9" * 500,
        "(" * 500 + "x" + ")" * 500,
        "-" * 500 + "x",
        "x" + "+x" * 1900,
        "x" + "*1" * 5000,
        "x; x",
        "x = 1",
        "x\0",
        "x # 1",
        "{x}",
    ],
)
def test_hostile_texts_are_refused(text):
    """None is executed, and none takes memory or time; one with 1900 sums may be too deep or not."""
    try:
        found = statement(f"{text} <= 1", UNIT)
    except Malformed:
        return
    assert text == "x" + "+x" * 1900
    assert len(found.nodes) <= 2000


def test_any_text_is_a_statement_or_malformed():
    signs = ["x", "1", "0.5", "1e3", "+", "-", "*", "/", "^", "**", "(", ")", ",", "<=", ">", "exp", "min", "pi", " "]
    draw = random.Random(0)
    understood = 0
    for _ in range(3000):
        try:
            statement("".join(draw.choices(signs, k=draw.randint(1, 12))) + "<= x", UNIT)
            understood += 1
        except Malformed:
            pass
    assert understood > 20
