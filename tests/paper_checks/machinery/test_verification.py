"""Verification: certificates are valid, and every change of one is noticed."""

import copy
import json

import pytest
from mpmath.ctx_iv import MPIntervalContext

from corrnoise.paper_checks.machinery.domains import Domain, linear, log_scale
from corrnoise.paper_checks.machinery.statements import traced_statement
from corrnoise.paper_checks.machinery.terms import formula, term
from corrnoise.paper_checks.machinery.verification import verify
from corrnoise.theory.numerics.arithmetic import arithmetic


def statement(function, **axes):
    return traced_statement(function, Domain(axes), {})


def small_rates(x):
    m = arithmetic(x)
    return x * m.log(4 / x), m.log(2 - x)


def every_derivative(x, y):
    """Leaves of both kinds, and a derivative of each operation that has one."""
    m = arithmetic(x, y)
    curved = m.sin(x) + m.cos(y) + m.sqrt(x) + m.log1p(x) * m.expm1(y) + abs(x) / y + m.minimum(x, y + 1) + m.exp(-x)
    return curved + m.log(y) - x**2 + m.maximum(x, -y) - curved - m.log(y) + x * x, x + m.number("0.01") + 0 * m.pi


def record(one, **limits):
    return json.loads(json.dumps(one.certify(**limits).record("a test")))


SMALL = record(statement(small_rates, x=log_scale("1e-300", "0.19")))
BOUNDED = statement(lambda b, a: (a, b + arithmetic(b).number("0.1")), b=linear("1", "2"), a=linear("0.5", "b"))


def signed(changed):
    """The record with the digest of its formula, so that another part must notice the change."""
    import hashlib

    parts = {name: changed[name] for name in ("axes", "nodes", "smaller", "larger", "strict", "left_out")}
    return changed | {"digest": hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()}


@pytest.mark.parametrize(
    "one",
    [
        statement(small_rates, x=log_scale("1e-300", "0.19")),
        statement(every_derivative, x=linear("0.5", "0.75"), y=log_scale("0.5", "1")),
        statement(lambda x: (arithmetic(x).agm(x, 2 - x), 2 - x), x=linear("0.1", "0.9")),
        statement(lambda x: (arithmetic(x).log1p(x), x), x=log_scale("1e-9", "1e9")),
        BOUNDED,
    ],
)
def test_certificates_are_valid(one):
    proof = record(one)
    found = verify(proof)
    assert (found.valid, found.reason) == (True, "")
    assert found.leaves == len(proof["tree"]) // 2 + 1


def test_both_kinds_of_leaves_occur():
    assert set(SMALL["tree"]) == {-1, 0, -2}


CHANGES = {
    "the last leaf dropped": lambda r: r["tree"].pop(),
    "a leaf added": lambda r: r["tree"].append(-1),
    "one box": lambda r: r.update(tree=[-1]),
    "one box by the mean value form": lambda r: r.update(tree=[-2]),
    "no such axis": lambda r: r["tree"].__setitem__(0, 1),
    "no such leaf": lambda r: r["tree"].__setitem__(-1, -3),
    "sides exchanged": lambda r: r.update(smaller=r["larger"], larger=r["smaller"]),
    "a wider domain": lambda r: r["axes"][0].__setitem__(2, "0.3"),
    "a domain from 0": lambda r: r["axes"][0].__setitem__(1, "0"),
    "a linear scale from 0": lambda r: r["axes"].__setitem__(0, ["x", "0", "0.19", "linear"]),
    "a domain from -1": lambda r: r["axes"].__setitem__(0, ["x", "-1", "0.19", "linear"]),
    "an empty domain": lambda r: r["axes"][0].__setitem__(1, "0.2"),
    "a constant": lambda r: next(n for n in r["nodes"] if n == ["number", "2"]).__setitem__(1, "1.5"),
    "three times the smaller side": lambda r: (
        r["nodes"].extend([["number", "3"], ["mul", len(r["nodes"]), r["smaller"]]]),
        r.update(smaller=len(r["nodes"]) - 1),
    ),
    "a node of later nodes": lambda r: r["nodes"][2].__setitem__(1, 7),
    "an unknown node": lambda r: r["nodes"].append(["tan", 0]),
    "a number of another kind": lambda r: r["nodes"].append(["number", "1e999999999"]),
    "no nodes": lambda r: r.update(nodes=[]),
    "another format": lambda r: r.update(format="corrnoise-certificate/2"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_certificate_is_not_valid(change):
    changed = copy.deepcopy(SMALL)
    CHANGES[change](changed)
    assert not verify(signed(changed)).valid


def test_another_digest_is_noticed_where_the_statement_is_true():
    changed = copy.deepcopy(SMALL)
    changed["axes"][0][2] = "0.18"
    assert verify(signed(changed)).valid
    assert verify(changed).reason == "the digest is not the formula's"


def test_a_bounded_axis_has_no_mean_value_form():
    proof = record(BOUNDED)
    assert -2 not in proof["tree"]
    changed = proof | {"tree": [-2]}
    assert "an axis is an end of another" in verify(changed).reason


@pytest.mark.parametrize(
    ("function", "kind", "reason"),
    [
        (lambda m, x: (m.log(x), 1), -1, "log of a number that may be negative"),
        (lambda m, x: (m.sqrt(x - m.number("0.5")), 1), -1, "sqrt of a number that may be negative"),
        (lambda m, x: (0 * (1 / x), 1), -1, "division by an interval that contains 0"),
        (lambda m, x: (0 * m.exp(m.number("1e300") * x), 1), -1, "exp of a number beyond the limit"),
        (lambda m, x: (m.log1p(-x - 1), 1), -1, "log1p"),
        (lambda m, x: (abs(x - m.number("0.5")), 1), -2, "may not be differentiable"),
        (lambda m, x: (m.minimum(x, 1 - x), 1), -2, "may not be differentiable"),
        (lambda m, x: (m.sqrt(x), 2), -2, "may not be differentiable"),
        (lambda m, x: (m.agm(x + 1, 1), 3), -2, "agm has no derivative"),
    ],
)
def test_every_node_must_be_finite_and_differentiable(function, kind, reason):
    """Without the rule log(x) <= 1 would be proved at x = 0, where it has no value."""
    x = term_of_x()
    one = formula(statement(lambda x: (0, 1), x=linear("0", "1")).ranges, *function(x.number_system, x))
    proof = {"format": SMALL["format"], "claim": ""} | one.content() | {"tree": [kind], "digest": one.digest}
    found = verify(proof)
    assert not found.valid
    assert reason in found.reason


def term_of_x():
    from corrnoise.paper_checks.machinery.terms import Term

    return term(Term("variable", 0))


@pytest.mark.parametrize(
    "junk", [None, [], {}, {"format": SMALL["format"]}, SMALL | {"axes": {}}, SMALL | {"tree": [[]]}]
)
def test_junk_is_not_valid(junk):
    assert not verify(junk).valid


def test_mpmath_rounds_outwards():
    """The enclosures of mpmath that the verifier builds on contain values of higher precision."""
    wide, fine = MPIntervalContext(), MPIntervalContext()
    wide.prec, fine.prec = 30, 200
    for name in ("exp", "log", "sqrt", "sin", "cos"):
        for text in ("0.3", "2", "17.25"):
            inner = getattr(fine, name)(fine.mpf(text))
            outer = getattr(wide, name)(wide.mpf(text))
            assert outer.a <= inner.a
            assert inner.b <= outer.b
