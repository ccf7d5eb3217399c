"""Certification: proved only if true on every box, refuted only if certainly false, else open."""

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.paper_checks.machinery.certification import PRECISION, certify, monotone


def test_a_true_inequality_is_proved_and_a_false_one_is_refuted_where_it_is_false():
    assert certify(lambda u: (u[0] * (1 - u[0]), arb("0.2501")), 1).answer == "proved"
    certificate = certify(lambda u: (u[0] * (1 - u[0]), arb("0.2499")), 1)
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
    assert certify(sides, dimension, boxes=boxes).answer == answer


def test_an_open_answer_tells_where_and_the_budget_is_kept():
    calls = []

    def sides(u):
        calls.append(1)
        return u[0] * u[1], u[0] * u[1] + (u[0] - arb("0.7")) ** 2 / 100

    certificate = certify(sides, 2, boxes=300)
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
    certificate = certify(lambda u: (polynomial(u), arb(threshold)), 2, boxes=2000)
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

    assert certify(lambda u: (one(u), 1 + arb(offset)), 1).answer == "proved"
    assert certify(lambda u: (one(u), 1 - arb(offset)), 1).answer == "refuted"
    assert certify(lambda u: (one(u), 1 + arb(offset)), 1, boxes=10).answer == "open"


def test_it_works_at_its_own_precision_and_leaves_the_global_one_alone():
    before, seen = ctx.prec, set()

    def sides(u):
        seen.add(ctx.prec)
        return u[0], arb(2)

    certify(sides, 1)
    assert seen == {PRECISION}
    assert ctx.prec == before
    with pytest.raises(ZeroDivisionError):
        certify(lambda u: 1 // 0, 1)
    assert ctx.prec == before


# -- functions that leave ball arithmetic ------------------------------------------------------------------------------


def test_sides_that_are_no_balls_are_refused():
    with pytest.raises(TypeError, match=r"sides must be balls where the arguments are, got 0\.5 and 1\.0"):
        certify(lambda u: (float(u[0]), 1.0), 1)


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
        certify(lambda u: (u[0], larger(u)), 1)


def test_a_wrong_claim_of_monotonicity_is_noticed():
    bump = monotone(+1)(lambda x: x * (1 - x))
    with pytest.raises(ArithmeticError, match="does not contain"):
        certify(lambda u: (bump(u[0]), u[0] + arb("0.2")), 1)


# -- monotone functions ------------------------------------------------------------------------------------------------


def test_monotone_functions_are_enclosed_by_their_ends():
    ratio = monotone(+1, -1)(lambda x, y: x / (x + y))
    with ctx.workprec(PRECISION):
        x, y = arb(1.5, 0.5), arb(3, 1)
        enclosure = ratio(x, y)
        assert enclosure.contains(arb(1) / 5)
        assert enclosure.contains(arb(1) / 2)
        assert enclosure.lower() > arb("0.1999999")
        assert enclosure.upper() < arb("0.5000001")
        naive = x / (x + y)
        assert naive.rad() > 1.5 * enclosure.rad()
        assert ratio(x, 2.0).contains(arb(1) / 3)  # one argument may be a number
    assert ratio(1.0, 3.0) == 0.25
    np.testing.assert_array_equal(ratio(np.ones(2), np.ones(2)), [0.5, 0.5])


@given(st.floats(0.1, 10), st.floats(0, 0.09), st.floats(-1, 1))
def test_monotone_enclosures_contain_every_value(centre, radius, share):
    falling = monotone(-1)(lambda x: 1 / (1 + x * x))
    with ctx.workprec(PRECISION):
        assert falling(arb(centre, radius)).overlaps(1 / (1 + arb(centre + share * radius) ** 2))


def test_monotone_functions_keep_within_the_reach_of_their_proof():
    """A ball reaches a little beyond the box it stands for; at a vertex that would be the other branch."""
    calls = []

    def square(x):
        calls.append(x)
        return (x - 1) ** 2

    with ctx.workprec(PRECISION):
        ball = arb(0).union(arb(1))
        assert ball.upper() > 1
        enclosure = monotone(-1, within=[("0", "1")])(square)(ball)
        assert all(0 <= x <= 1 for x in calls)
        assert enclosure.contains(arb(0))
        assert enclosure.contains(arb(1))
        calls.clear()
        monotone(-1)(square)(ball)
        assert not all(0 <= x <= 1 for x in calls)


# -- which edge is halved ----------------------------------------------------------------------------------------------


def test_the_edge_that_matters_is_halved():
    """x(1 − x) needs x divided some 2⁷ times; dividing the other two edges as often would take 2²¹ boxes."""

    def sides(u):
        return u[1] * (1 - u[1]) + (u[0] + u[2]) / 10**6, arb("0.251")

    certificate = certify(sides, 3, boxes=600)
    assert certificate.answer == "proved"
    line = certify(lambda u: sides([arb(1), u[0], arb(1)]), 1)
    assert certificate.boxes <= 3 * line.boxes


def test_where_no_edge_alone_decides_the_longest_is_halved():
    """The smaller side is undefined on every box but the last ones, so no edge is better than another."""

    def sides(u):
        return arb(0) if u[0].rad() + u[1].rad() < arb("0.3") else arb("nan"), u[0] + u[1] + 1

    certificate = certify(sides, 2, boxes=40)
    assert certificate.answer == "proved"
    assert certificate.boxes == 1 + 2 + 4 + 8 + 16
