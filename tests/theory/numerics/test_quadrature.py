"""Means over the circle against mpmath and closed forms: narrow features, weak singularities, divergence."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.numerics.quadrature import (
    DISC,
    NODES,
    WEIGHTS,
    averages,
    circle_mean,
    gauss_error,
    modulus,
    root_spectrum_mean,
)
from tests import oracles
from tests.strategies import gaps, rates


def factor(gap, exponent):
    """Weighted sums of |1 − (1 − a) e^{iω}|^{2e}."""
    return lambda c, s, w: float((w * modulus(gap, c, s) ** (2 * exponent)).sum())


def factor_mean(gap, exponent):
    """Their mean, with everything said that there is to say."""
    return circle_mean(
        factor(gap, exponent),
        near_zero=gap if gap > 0 else 1.0,
        near_pi=2 - gap if gap < 2 else 1.0,
        order_zero=2 * exponent if gap == 0 else 0.0,
        order_pi=2 * exponent if gap == 2 else 0.0,
    )


@workdps(60)
def exact_factor_mean(gap, exponent):
    """Σ_t C(e, t)² (1 − a)^{2t}, by Gauss."""
    e = mpf(exponent)
    if gap in (0, 2):
        return mp.gamma(1 + 2 * e) / mp.gamma(1 + e) ** 2
    return mp.hyp2f1(-e, -e, 1, (1 - mpf(gap)) ** 2)


@pytest.mark.parametrize("exponent", [-3.0, -1.0, -0.5, -0.49, 0.0, 0.3, 0.5, 1.0, 2.5])
@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-3, 0.5, 1.0, 1.9, 2 - 1e-9, 2.0])
def test_mean_of_one_factor(gap, exponent):
    got = factor_mean(gap, exponent)
    if gap in (0.0, 2.0) and exponent <= -0.5:
        assert got == math.inf
        return
    tolerance = 2e-15 * (1 + abs(exponent)) ** 2
    assert oracles.relative_error(got, exact_factor_mean(gap, exponent)) < tolerance
    if exponent and gap != 1:
        assert oracles.relative_error(factor_mean(gap, exponent + 1e-6), exact_factor_mean(gap, exponent)) > tolerance


@pytest.mark.parametrize("order", [-1.0, -1.5, -math.inf])
def test_divergent_means_are_infinite(order):
    assert circle_mean(factor(0.5, 1), order_zero=order) == math.inf
    assert circle_mean(factor(0.5, 1), order_pi=order) == math.inf


@pytest.mark.parametrize("exponent", [-0.4999, -0.499999])
def test_nearly_divergent_means(exponent):
    exact = exact_factor_mean(0, exponent)
    assert oracles.relative_error(factor_mean(0.0, exponent), exact) < 2e-15
    with pytest.raises(ArithmeticError, match="did not settle"):  # the power must be stated
        circle_mean(factor(0.0, exponent))


@pytest.mark.parametrize("width", [1e-300, 1e-200, 1e-30])
def test_features_of_any_width(width):
    with workdps(40):
        exact = 1 / mp.agm(mpf(width), 2 - mpf(width))
    assert oracles.relative_error(factor_mean(width, -0.5), exact) < 4e-15


@pytest.mark.parametrize("frequency", [0.0, math.pi, 1.0])
def test_features_must_be_stated(frequency):
    """A resonance of width 1e-9: settled where it is stated, noticed where it is not."""

    def resonance(c, s, w):
        distance = 2 * np.arctan2(s, c) - frequency
        return float((w / np.hypot(1e-9, distance)).sum())

    with pytest.raises(ArithmeticError, match="unstated narrow features"):
        circle_mean(resonance)
    exact = factor_mean(1e-9, -0.5)
    assert oracles.relative_error(circle_mean(factor(1e-9, -0.5), near_zero=1e-9), exact) < 4e-15
    with pytest.raises(ArithmeticError, match="unstated narrow features"):
        circle_mean(factor(1e-9, -0.5), near_pi=1e-9)


@pytest.mark.parametrize("r", [0.3, 0.6, 0.75, 0.82, 0.9, 0.95])
@pytest.mark.parametrize("theta", [0.3, 1.0, 2.5])
def test_resonances_between_the_ends_are_resolved(r, theta):
    """The Poisson kernel at ±θ has mean 1: the step is halved until it is found."""

    def kernel(c, s, w):
        omega = 2 * np.arctan2(s, c)
        both = sum((1 - r * r) / ((1 - r) ** 2 + 4 * r * np.sin((omega + t) / 2) ** 2) for t in (-theta, theta))
        return float((w * both / 2).sum())

    assert abs(circle_mean(kernel) - 1) < 4e-15


def test_means_of_arrays():
    got = circle_mean(lambda c, s, w: np.array([w.sum(), (w * s**2).sum(), (w * s**4).sum()]))
    np.testing.assert_allclose(got, [1, 1 / 2, 3 / 8], rtol=2e-15)


@given(gaps(1e-300), st.floats(0, math.pi))
def test_modulus(gap, omega):
    c, s = np.array([math.cos(omega / 2)]), np.array([math.sin(omega / 2)])
    with workdps(60):
        a, c_exact, s_exact = mpf(gap), mpf(c[0]), mpf(s[0])
        exact = mp.sqrt((a * c_exact) ** 2 + ((2 - a) * s_exact) ** 2)
    assert oracles.relative_error(modulus(gap, c, s)[0], exact) < 1e-15


@pytest.mark.slow
@settings(max_examples=10)
@given(gaps(1e-9), st.sampled_from([0.5, -0.5, 1.0]), rates(1e-9))
def test_averages(gap, exponent, rate):
    def seen(c, s, w):
        return averages(np.array([rate, 1.0]), c, s, w * modulus(gap, c, s) ** (2 * exponent))

    got = circle_mean(seen, near_zero=min(gap, rate), near_pi=min(2 - gap, 2 - rate))
    assert oracles.relative_error(got[0], oracles.spectrum_mean([gap], [exponent], rate)) < 1e-14
    assert oracles.relative_error(got[1], oracles.spectrum_mean([gap], [exponent], 1)) < 1e-14


def test_averages_of_many_rates_are_formed_in_parts():
    x = np.linspace(0.1, 1.9, 60_000)  # more than one part
    got = circle_mean(lambda c, s, w: averages(x, c, s, w * modulus(0.3, c, s) ** 2), near_zero=0.1, near_pi=0.1)
    np.testing.assert_allclose(got, 0.3**2 + 2 * 0.7 * x, rtol=1e-14)


@workdps(40)
def exact_root_spectrum_mean(x, weights):
    """(1/2π) ∫ sqrt(Σ weights x/|1 − x − e^{iω}|²) dω with ω = 2 arctan e^u."""
    x, weights = [mpf(v) for v in x], [mpf(v) for v in weights]
    step, total = mpf(1) / 8, mpf(0)
    for k in range(-1200, 1201):
        square = mp.exp(2 * k * step)
        c, s = 1 / (1 + square), square / (1 + square)
        h = mp.fsum(w * v / (v**2 * c + (2 - v) ** 2 * s) for v, w in zip(x, weights, strict=True))
        total += mp.sqrt(h * c * s) * 2 * step / mp.pi
    return total


@pytest.mark.parametrize(
    ("x", "weights"),
    [([0.3], [1.0]), ([1e-9, 1e-4, 0.5], [1e-9, 1e-4, 0.5]), ([0.5, 1.5, 2 - 1e-9], [1.0, 3.0, 0.1]), ([1.0], [4.0])],
)
def test_root_spectrum_mean(x, weights):
    exact = exact_root_spectrum_mean(x, weights)
    assert oracles.relative_error(root_spectrum_mean(np.array(x), np.array(weights)), exact) < 4e-15
    assert oracles.relative_error(root_spectrum_mean(np.array(x), np.array(weights) * (1 + 1e-13)), exact) > 4e-15


def test_root_spectrum_mean_of_equal_rates_is_a_closed_form():
    for x in (1e-12, 0.2, 1.7):
        with workdps(40):
            exact = mp.sqrt(5 * mpf(x)) / mp.agm(mpf(x), 2 - mpf(x))
        assert oracles.relative_error(root_spectrum_mean(np.full(5, x), np.ones(5)), exact) < 4e-15


# -- Gauss's rule with a proved error ----------------------------------------------------------------------------------


def test_nodes_and_weights_against_mpmath():
    with workdps(40):
        for x, w in zip(NODES, WEIGHTS, strict=True):
            exact = mp.findroot(lambda t: mp.legendre(16, t), mpf(float(x)))
            slope = 16 * mp.legendre(15, exact) / (1 - exact**2)
            assert abs(float(x) - exact) < 2e-16
            assert oracles.relative_error(w, 2 / ((1 - exact**2) * slope**2)) < 64 * 2.0**-53


@given(st.floats(1e-3, 30), st.floats(0, math.pi), st.floats(-3, 3), st.floats(1e-6, 10))
def test_gauss_error_bounds_the_error_on_simple_poles(distance, angle, middle, half):
    """f = 1/(x − p) with a pole just outside the disc, or far away; its integral is a logarithm."""
    pole = middle + half * (DISC + distance) * complex(math.cos(angle), math.sin(angle))
    with workdps(40):
        p, low, high = mp.mpc(pole), mpf(middle) - mpf(half), mpf(middle) + mpf(half)
        exact = mp.log((high - p) / (low - p))
        both = zip(NODES, WEIGHTS, strict=True)
        rule = mp.fsum(mpf(float(w)) * half / (middle + half * mpf(float(x)) - p) for x, w in both)
        largest = 1 / (abs(p - middle) - mpf(half) * DISC)
        rounding = mpf(10) ** -13 * half * largest
        assert abs(rule - exact) <= float(gauss_error(np.array(half), np.array(float(largest)))) + rounding


def test_gauss_error_is_nearly_attained_on_the_ellipse():
    """T_32 is at most (3³² + 3⁻³²)/2 on the ellipse in the disc, and a third of the bound would be wrong."""
    with workdps(40):
        exact = mpf(-2) / (32**2 - 1)
        rule = mp.fsum(mpf(float(w)) * mp.chebyt(32, mpf(float(x))) for x, w in zip(NODES, WEIGHTS, strict=True))
    bound = float(gauss_error(np.array(1.0), np.array((3.0**32 + 3.0**-32) / 2)))
    assert bound / 3 < abs(rule - exact) <= bound


def test_gauss_rule_is_exact_for_degree_31():
    for k in (30, 31):
        exact = 2 / (k + 1) if k % 2 == 0 else 0.0
        assert abs((WEIGHTS * NODES**k).sum() - exact) < 1e-15
    assert abs((WEIGHTS * NODES**32).sum() - 2 / 33) > 1e-11
