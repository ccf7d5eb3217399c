"""Enclosures: on every ball all values, by mpmath; as close as the claims need; floats are the functions of theory."""

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.paper_checks.machinery.certificates import PRECISION, certify_sides
from corrnoise.paper_checks.machinery.enclosures import (
    DEEPEST,
    SHALLOWEST,
    gap,
    inverse_mean_by_depth,
    monotone,
    ratio_integral,
)
from corrnoise.theory.numerics import elliptic

SHARE = st.floats(0, 1)
DEPTH = st.floats(float(SHALLOWEST) + 1e-9, 600)


def ball(low, high):
    return arb(low).union(arb(high))


def exactly(function, *arguments):
    """A value by mpmath's own elliptic integrals, with far more digits than it needs."""
    with mpmath.workdps(80):
        return arb(mpmath.nstr(function(*map(mpmath.mpf, arguments)), 30))


def inverse_agm(a):
    return 1 / mpmath.agm(a, 2 - a)


def by_third_kind(a, b):
    """I(a, b) by Lemma F.16."""
    k2 = (1 - a) / (1 - a / 2) ** 2
    n = (b * b * (1 - a) - a * a * (1 - b)) / (b * b * (1 - a / 2) ** 2)
    return 2 * a * a / (b * b * (1 - a / 2)) * mpmath.ellippi(n, k2)


@given(DEPTH, SHARE, SHARE)
def test_inverse_means_by_depth_are_enclosed_and_fall(low, width, share):
    high = low + 60 * width
    with ctx.workprec(PRECISION):
        inside = low + share * (high - low)
        value = exactly(lambda d: inverse_agm(8 * mpmath.exp(-d)) / d, inside)
        enclosure = inverse_mean_by_depth(ball(low, high))
        assert enclosure.overlaps(value)
        assert (enclosure - 1 / arb.pi()).lower() > -arb("1e-8")  # the limit


@given(st.floats(float(SHALLOWEST) + 1e-6, 40), SHARE, SHARE, SHARE, SHARE, SHARE)
def test_ratio_integrals_are_enclosed_for_all_pairs_of_a_box(shallow, width, start, extent, share, other):
    """b is in a box, a in another that overlaps it or lies below, and only a <= b counts."""
    b_ends = (shallow, shallow + 3 * width)
    a_ends = (shallow + 10 * start, shallow + 10 * start + 3 * extent)
    b = b_ends[0] + share * (b_ends[1] - b_ends[0])
    a = max(a_ends[0] + other * (a_ends[1] - a_ends[0]), b)
    with ctx.workprec(PRECISION):
        value = exactly(lambda x, y: by_third_kind(8 * mpmath.exp(-x), 8 * mpmath.exp(-y)), a, b)
        if a <= a_ends[1]:
            assert value.lower() < ratio_integral(ball(*a_ends), ball(*b_ends)).upper() * (1 + arb("1e-12"))


def test_ratio_integrals_of_narrow_balls_are_close():
    with ctx.workprec(PRECISION):
        for a, b in ((5.0, 3.0), (300.0, 20.0), (690.0, 690.0), (400.0, 2.1)):
            value = elliptic.modulus_ratio_integral(gap(arb(a)), gap(arb(b)))
            upper = ratio_integral(ball(a, a * (1 + 1e-6)), ball(b, b * (1 + 1e-6))).upper()
            assert value < upper
            assert upper < value * (1 + arb("2e-5"))


def test_numbers_are_passed_on():
    rng = np.random.default_rng(1)
    for depth, other in rng.uniform(2.2, 600, size=(20, 2)):
        a, b = float(gap(max(depth, other))), float(gap(min(depth, other)))
        found = ratio_integral(max(depth, other), min(depth, other))
        assert found == pytest.approx(float(elliptic.modulus_ratio_integral(a, b)), rel=1e-13)
    assert float(DEEPEST) < np.log(8 / 1e-300)
    assert gap(arb(SHALLOWEST)) > 1


def test_a_wrong_claim_of_monotonicity_is_noticed():
    bump = monotone(+1)(lambda x: x * (1 - x))
    with pytest.raises(ArithmeticError, match="does not contain"):
        certify_sides(lambda u: (bump(u[0]), u[0] + arb("0.2")), 1)


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
