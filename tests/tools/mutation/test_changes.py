"""The mutator: which changes are made, and untouched code."""

import ast

import pytest

from tools.mutation.changes import changes


def changed(source):
    """The kinds of all changes of a function's source, each with the new expressions."""
    [function] = ast.parse(source).body
    found = {}
    for change in changes(function):
        found.setdefault(change.kind, set()).add(ast.unparse(change.after))
    return found


def test_the_changes_of_formulas():
    found = changed("def f(x, d):\n    return math.sqrt(x) + bound(x, d) * x.sum() ** 2 - math.exp(-3 * d)")
    assert found["drop a term"] >= {"math.sqrt(x)", "bound(x, d) * x.sum() ** 2", "-math.exp(-3 * d)"}
    assert found["drop a factor"] == {"bound(x, d)", "x.sum() ** 2", "-3", "d"}
    assert found["sum to maximum"] == {"x.max()"}
    assert found["scale a quantity"] == {"0.9 * bound(x, d)", "1.1 * bound(x, d)"}
    assert found["quantity to constant"] == {"__frozen__(x)", "__frozen__(d)", "__frozen__(bound(x, d))"}
    assert found["exchange arguments"] == {"bound(d, x)"}
    assert {"x.sum() ** 1", "x.sum() ** 3", "x ** 0.45", "math.exp(1.05 * (-3 * d))"} <= found["change an exponent"]


@pytest.mark.parametrize(
    ("expression", "kind", "after"),
    [
        ("x @ d", "sum to maximum", "(x * d).max()"),
        ("math.fsum(x)", "sum to maximum", "max(x)"),
        ("min(x, d)", "drop a term", "d"),
        ("np.maximum(x, d)", "drop a term", "x"),
        ("max(x, d)", "exchange maximum and minimum", "min(x, d)"),
        ("np.minimum(x, d)", "exchange maximum and minimum", "np.maximum(x, d)"),
        ("math.log(x)", "drop a logarithm", "1.0"),
        ("x ** 0.5", "change an exponent", "x ** 0.25"),
        ("x ** d", "change an exponent", "x ** (1.05 * d)"),
        ("x / d", "drop a factor", "1.0 / d"),
        ("x - d", "change a sign", "x + d"),
        ("x.size", "scale a quantity", "1.1 * x.size"),
        ("6 * x", "change a number", "9.0"),
        ("6 * x", "step a number", "7"),
        ("0 - x", "step a number", "-1"),
        ("x + d", "exchange an operator", "x * d"),
        ("x - d", "exchange an operator", "x ** d"),
        ("-x", "exchange an operator", "x"),
    ],
)
def test_each_kind_of_change(expression, kind, after):
    assert after in changed(f"def f(x, d):\n    return {expression}")[kind]


def test_what_is_assigned_to_is_left_alone():
    found = changed("def f(x, d):\n    x, d[2] = d * x, 3\n    for x in d:\n        d.size = 5 * x\n    return d")
    assert len(found["change a number"]) == 4
    assert {"2.0", "4.5", "7.5"} <= found["change a number"]


@pytest.mark.parametrize("line", ["x[2 + 3]", "x if 2 < 3 else d", "f'{2 + 3}'", "int(2 * x)", "round(x / 3)"])
def test_what_states_no_formula_is_left_alone(line):
    assert set(changed(f"def f(x, d):\n    return {line}")) <= {"quantity to constant"}
