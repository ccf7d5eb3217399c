"""Enclosures: on every ball all values, by mpmath; as close as the claims need; floats are the functions of theory."""

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.paper_checks.machinery.certification import PRECISION
from corrnoise.paper_checks.machinery.enclosures import (
    DEEPEST,
    SHALLOWEST,
    first_kind,
    gap,
    inverse_mean,
    inverse_mean_by_depth,
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


@given(st.floats(1e-12, 1), SHARE, SHARE)
def test_inverse_means_are_enclosed(low, width, share):
    high = low ** (1 - width)
    with ctx.workprec(PRECISION):
        inside = low + share * (high - low)
        assert inverse_mean(ball(low, high)).overlaps(exactly(inverse_agm, inside))
        complement = exactly(lambda k: mpmath.ellipk(1 - k * k), min(inside, 1))
        assert first_kind(ball(low, high)).overlaps(complement)


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


def test_a_ball_that_contains_zero_is_drawn_back_from_it():
    """As the first box of a logarithmic scale does; the mean of 0 and 2 would never settle."""
    with ctx.workprec(PRECISION):
        for function in (inverse_mean, first_kind):
            assert function(arb("0.5", 0.6)).overlaps(function(arb("0.01")))


def test_numbers_are_passed_on():
    rng = np.random.default_rng(1)
    for depth, other in rng.uniform(2.2, 600, size=(20, 2)):
        a, b = float(gap(max(depth, other))), float(gap(min(depth, other)))
        found = ratio_integral(max(depth, other), min(depth, other))
        assert found == pytest.approx(float(elliptic.modulus_ratio_integral(a, b)), rel=1e-13)
        assert inverse_mean(a) == float(elliptic.mean_inverse_modulus(a))
        assert first_kind(a) * 2 / np.pi == pytest.approx(float(1 / elliptic.agm(1.0, a)), rel=1e-15)
    assert float(DEEPEST) < np.log(8 / 1e-300)
    assert gap(arb(SHALLOWEST)) > 1
