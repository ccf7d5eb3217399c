"""Certification: proved only if true on every box, refuted only if certainly false, else open."""

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

import corrnoise as cn
from corrnoise.paper_checks.machinery.certificates import BY_MEAN_VALUE, PRECISION, certify_sides
from corrnoise.paper_checks.machinery.domains import Domain, linear, log_scale
from corrnoise.paper_checks.machinery.statements import traced_statement
from corrnoise.paper_checks.machinery.terms import Untraceable
from corrnoise.paper_checks.machinery.verification import verify
from corrnoise.theory.numerics.arithmetic import arithmetic


def test_a_true_inequality_is_proved_and_a_false_one_is_refuted_where_it_is_false():
    assert certify_sides(lambda u: (u[0] * (1 - u[0]), arb("0.2501")), 1).answer == "proved"
    certificate = certify_sides(lambda u: (u[0] * (1 - u[0]), arb("0.2499")), 1)
    assert certificate.answer == "refuted"
    assert certificate.box is not None
    for x in certificate.box[:, 0]:
        assert x * (1 - x) > 0.2499


@pytest.mark.parametrize(
    ("sides", "dimension", "boxes", "answer"),
    [
        (lambda u: (u[0] * (1 - u[0]), arb("0.25")), 1, 500, "open"),  # sharp inside
        (lambda u: (u[0], arb(1)), 1, 500, "open"),  # sharp at an end, beyond which a ball reaches
        (lambda u: (u[0], u[0]), 1, 500, "open"),  # sharp everywhere
        (lambda u: (arb(2), arb(2) + 0 * u[0]), 1, 500, "proved"),  # equal numbers
        (lambda u: (arb(0) * u[0], arb(0) * u[0]), 1, 500, "proved"),
        (lambda u: (arb(-100), (u[0] - arb("0.5")).log()), 1, 200, "open"),  # undefined somewhere
        (lambda u: (arb("nan"), arb(1)), 1, 50, "open"),
        (lambda u: (arb(1), arb(2)), 0, 500, "proved"),  # without coordinates there is one box
        (lambda u: (arb(2), arb(1)), 0, 500, "refuted"),
        (lambda u: (arb(1, 0.5), arb(1)), 0, 500, "open"),
    ],
)
def test_answers(sides, dimension, boxes, answer):
    assert certify_sides(sides, dimension, boxes=boxes).answer == answer


def test_an_open_answer_tells_where_and_the_budget_is_kept():
    calls = []

    def sides(u):
        calls.append(1)
        return u[0] * u[1], u[0] * u[1] + (u[0] - arb("0.7")) ** 2 / 100

    certificate = certify_sides(sides, 2, boxes=300)
    assert certificate.answer == "open"
    assert certificate.boxes <= 300
    assert certificate.box is not None
    assert certificate.box.shape == (2, 2)
    assert len(calls) <= 300 + 3 * 300


@given(st.integers(0, 2**20))
def test_answers_agree_with_a_dense_grid(seed):
    """Random polynomials in two variables with a random threshold: no answer contradicts 2601 values."""
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(3, 3)).round(3)
    threshold = float(np.abs(coefficients).sum() * rng.uniform(-1, 1))

    def polynomial(u):
        return sum(float(coefficients[i, j]) * u[0] ** i * u[1] ** j for i in range(3) for j in range(3))

    grid = np.array([[polynomial((x, y)) for x in np.linspace(0, 1, 51)] for y in np.linspace(0, 1, 51)])
    certificate = certify_sides(lambda u: (polynomial(u), arb(threshold)), 2, boxes=2000)
    if certificate.answer == "proved":
        assert (grid <= threshold + 1e-12).all()
    elif certificate.answer == "refuted":
        assert certificate.box is not None
        low, high = certificate.box
        for share in rng.uniform(size=(20, 2)):
            assert polynomial(low + share * (high - low)) > threshold - 1e-12
    else:
        assert np.abs(grid - threshold).min() < 0.1 * np.abs(coefficients).sum()
    if (grid > threshold + 1e-3 * np.abs(coefficients).sum()).all():
        assert certificate.answer == "refuted"


@pytest.mark.parametrize("offset", ["1e-1", "1e-3"])
def test_subdivision_overcomes_dependence(offset):
    """sin² + cos² = 1, which balls do not know."""

    def one(u):
        return u[0].sin() ** 2 + u[0].cos() ** 2

    assert certify_sides(lambda u: (one(u), 1 + arb(offset)), 1).answer == "proved"
    assert certify_sides(lambda u: (one(u), 1 - arb(offset)), 1).answer == "refuted"
    assert certify_sides(lambda u: (one(u), 1 + arb(offset)), 1, boxes=10).answer == "open"


def test_it_works_at_its_own_precision_and_leaves_the_global_one_alone():
    before, seen = ctx.prec, set()

    def sides(u):
        seen.add(ctx.prec)
        return u[0], arb(2)

    certify_sides(sides, 1)
    assert seen == {PRECISION}
    assert ctx.prec == before
    with pytest.raises(ZeroDivisionError):
        certify_sides(lambda u: 1 // 0, 1)
    assert ctx.prec == before


# -- functions that leave ball arithmetic ------------------------------------------------------------------------------


def test_sides_that_are_no_balls_are_refused():
    with pytest.raises(TypeError, match=r"sides must be balls where the arguments are, got 0\.5 and 1\.0"):
        certify_sides(lambda u: (float(u[0]), 1.0), 1)


@pytest.mark.parametrize(
    "larger",
    [
        lambda u: float(u[0]) + 2,  # the midpoint of the ball
        lambda u: u[0] + 2 if u[0] > 0.9 else arb("2.5"),  # a branch that overlapping balls do not take
        lambda u: max(arb("0.6"), u[0]) + 2,
    ],
)
def test_enclosures_that_do_not_enclose_are_noticed(larger):
    with pytest.raises(ArithmeticError, match=r"the enclosure .* of a box does not contain its value"):
        certify_sides(lambda u: (u[0], larger(u)), 1)


# -- which edge is halved ----------------------------------------------------------------------------------------------


def test_the_edge_that_matters_is_halved():
    """x(1 − x) needs x divided some 2⁷ times; dividing the other two edges as often would take 2²¹ boxes."""

    def sides(u):
        return u[1] * (1 - u[1]) + (u[0] + u[2]) / 10**6, arb("0.251")

    certificate = certify_sides(sides, 3, boxes=600)
    assert certificate.answer == "proved"
    line = certify_sides(lambda u: sides([arb(1), u[0], arb(1)]), 1)
    assert certificate.boxes <= 3 * line.boxes


def test_where_no_edge_alone_decides_the_longest_is_halved():
    """The smaller side is undefined on every box but the last ones, so no edge is better than another."""

    def sides(u):
        return arb(0) if u[0].rad() + u[1].rad() < arb("0.3") else arb("nan"), u[0] + u[1] + 1

    certificate = certify_sides(sides, 2, boxes=40)
    assert certificate.answer == "proved"
    assert certificate.boxes == 1 + 2 + 4 + 8 + 16


# -- formulas ----------------------------------------------------------------------------------------------------------


def stated(function, **axes):
    """The statement of a function of the number system and the arguments."""
    return traced_statement(lambda **x: function(arithmetic(*x.values()), **x), Domain(axes), {})


@pytest.mark.parametrize(
    ("function", "axis", "answer", "boxes"),
    [
        (lambda m, x: (m.log1p(x), x), log_scale("1e-9", "1e9"), "proved", 400),  # by enclosures alone: 10⁴
        (lambda m, x: (m.sin(x) ** 2 + m.cos(x) ** 2, m.number("1.001")), linear("0", "3"), "proved", 400),
        (lambda m, x: (m.agm(x, 2 - x), m.number("1.001")), linear("0.01", "1"), "proved", 400),
        (lambda m, x: (m.minimum(x, 1 - x), m.number("0.501")), linear("0", "1"), "proved", 400),
        (lambda m, x: (abs(x - m.number("0.3")), m.number("0.71")), linear("0", "1"), "proved", 400),
        (lambda m, x: (m.agm(x, 2 - x), m.number("0.999")), linear("0.01", "1"), "refuted", 400),
        (lambda m, x: (2 * x, 1 + x * x), linear("0", "2"), "open", 2000),  # the sides touch at 1
        (lambda m, x: (m.log(x), x), linear("0", "1"), "open", 2000),  # no value at 0
        (lambda m, x: (m.sqrt(x - 1) * 0, 1 + 0 * x), linear("0", "1"), "open", 2000),
        (lambda m, x: (x, x), linear("0", "1"), "proved", 1),
    ],
)
def test_answers_about_formulas(function, axis, answer, boxes):
    found = stated(function, x=axis).certify(boxes=boxes)
    assert found.answer == answer
    assert found.boxes <= boxes
    assert (found.box is None) == (answer == "proved")
    if answer == "proved":
        assert verify(found.record()).valid
    else:
        with pytest.raises(ValueError, match="only a proof is a certificate"):
            found.record()
    assert (found.counterexample is None) == (answer != "refuted")


def test_a_refutation_has_a_counterexample_that_violates_the_statement():
    def narrow(m, x, y):
        square = (x - m.number("0.637")) ** 2 + (y - m.number("0.219")) ** 2
        return m.number("0.5") + m.exp(-square * 10_000), 1 + 0 * x

    found = stated(narrow, x=linear("0", "1"), y=linear("0", "1")).certify()
    assert found.answer == "refuted"
    assert found.boxes < 400
    smaller, larger = narrow(arithmetic(1.0), **found.counterexample)
    assert smaller > larger + 1e-6


def test_strict_statements_exclude_equality():
    from dataclasses import replace

    one = replace(stated(lambda m, x: (0 * x, 0), x=linear("0", "1")))
    assert one.certify().answer == "proved"
    assert replace(one, strict=True).certify().answer == "refuted"


def test_a_variable_that_bounds_another_excludes_the_mean_value_form():
    one = stated(lambda m, b, a: (a - b, m.number("0.01")), b=linear("1", "2"), a=linear("0.5", "b"))
    found = one.certify()
    assert found.answer == "proved"
    assert BY_MEAN_VALUE not in found.tree
    assert verify(found.record()).valid


def test_time_is_a_limit():
    found = stated(lambda m, x: (2 * x, 1 + x * x), x=linear("0", "2")).certify(seconds=-1)
    assert (found.answer, found.boxes) == ("open", 64)


#: Claims of the ledger that are certified by a formula, a few that are proved, and two whose sides touch at an end.
CERTIFIED = {
    "correlated-noise": [
        *("Lemma C.6 (symbol)", "Equation (50)", "Lemma C.21 (ii, proof)", "Remark F.7 (exponent)", "Remark F.7 (sum)"),
        *("Remark F.7 (trace)", "Property F.10 (upper)", "Lemma F.13 (infinite)", "Lemma F.14", "Lemma F.22"),
        "Table 2 (ν-Noisy-FTRL, sensitivity)",
    ],
    "corrnoise": [
        *("Conjecture (means)", "Conjecture (right of 0.2)", "Conjecture (left of 1/3)"),
        *("Conjecture (means, small rates)", "Theorem 9 (last step)"),
    ],
}
TOUCHING = {"correlated-noise": ["Property F.10 (constant)"], "corrnoise": ["γ (upper)"]}


def claims_called(names):
    wanted = {(paper, name) for paper, all_names in names.items() for name in all_names}
    found = [one.claim for one in cn.claims() if (one.paper, one.name) in wanted]
    assert len(found) == len(wanted)
    return found


@pytest.mark.slow
def test_certificates_of_the_ledger_are_verified():
    """By another interval arithmetic; what is changed is not."""
    for claim in claims_called(CERTIFIED):
        if claim.name == "Lemma F.13 (infinite)":  # as Lemma F.14, on twice as many boxes
            continue
        proof = claim.statement().certify(seconds=None).record(claim.identifier)
        assert verify(proof).valid
        assert not verify(proof | {"tree": proof["tree"][:-1]}).valid
        assert not verify(proof | {"smaller": proof["larger"], "larger": proof["smaller"]}).valid


@pytest.mark.slow
def test_planted_falsehoods_are_refuted():
    """20 falsehoods at seeded places, with the relative height 2 % and the relative width 1e-4."""
    rng = np.random.default_rng(5)
    extra = [lambda m, x: (m.log1p(x), x), lambda m, x: (x * m.log(4 / x), m.log(2 - x))]
    lemmas = [(lambda m, one=one, **x: one(m, **x), Domain({"x": log_scale("1e-3", "0.18")})) for one in extra]
    for claim in claims_called(CERTIFIED) + claims_called(TOUCHING):
        lemmas.append((lambda _, claim=claim, **x: claim.function(**x), claim.domain))
    assert len(lemmas) == 20
    for sides, domain in lemmas:
        place = domain.arguments(rng.uniform(0.2, 0.8, domain.size))

        def planted(sides=sides, place=place, **x):
            m = arithmetic(*x.values())
            smaller, larger = sides(m, **x)
            name = next(iter(x))
            away = (x[name] - float(place[name])) / (1e-4 * float(place[name]))
            return smaller + (1.02 * larger - smaller) * m.exp(-(away**2)), larger

        found = traced_statement(planted, domain, {}).certify()
        assert found.answer == "refuted"
        smaller, larger = planted(**found.counterexample)
        assert smaller > larger


def test_what_has_no_formula_has_no_record():
    with pytest.raises(Untraceable, match="no certificate to export"):
        certify_sides(lambda u: (u[0], arb(2)), 1).record()
