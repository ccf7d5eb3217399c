"""Power series in double-double arithmetic against mpmath and rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.numerics import double_double_series
from tests import oracles
from tests.strategies import gaps, minimum_phase_coefficients, rates

LARGEST = 1e-31  # of the largest coefficient so far: what is left of coefficients that cancel


def product_series(a, e, steps):
    series = np.empty(steps)
    double_double_series.product_series(np.array(a, dtype=float), np.array(e, dtype=float), series)
    return series


def compare(series, exact, relative=4e-16, absolute=0.0):
    """Every term to a relative error, or to an error relative to the largest so far."""
    largest = mpf(0)
    for value, x in zip(series, exact, strict=True):
        largest = max(largest, abs(x))
        with workdps(60):
            if abs(x) > 1e-290:
                assert abs(mpf(float(value)) - x) <= relative * abs(x) + absolute * largest
            else:
                assert abs(value) <= 1e-289


@pytest.mark.parametrize("e", [0.5, -0.5, 1.0, -1.0, 2.0, -3.0, 0.25, -1.5, 2.5, 1e-300, 50.5, -50.5])
@pytest.mark.parametrize("a", [0.0, 1e-300, 1e-12, 0.1, 0.5, 1 + 1e-15, 1.5, 2 - 1e-12, 2.0])
def test_one_factor(a, e):
    steps = 400
    compare(product_series([a], [e], steps), oracles.product_coefficients([a], [e], steps))


@pytest.mark.parametrize(
    ("a", "e"),
    [
        ([0.0, 2.0], [0.5, 0.5]),
        ([0.1, 1e-3, 1e-6], [0.5, -0.5, 0.5]),
        ([1e-6, 1e-6 * (1 + 1e-10)], [0.5, -0.5]),
        ([0.3, 1.7], [0.5, 0.5]),
        ([0.0, 1e-3], [5.0, -5.0]),
        ([0.02, 0.03, 1.5], [-1.0, -1.0, -2.0]),
        ([1e-12, 1e-9, 1e-6, 1e-3, 2 - 1e-9], [0.5, -0.5, 0.5, -0.5, 0.5]),
    ],
)
def test_products(a, e):
    steps = 150
    exact = oracles.product_coefficients(a, e, steps)
    series = product_series(a, e, steps)
    compare(series, exact, absolute=LARGEST)
    with pytest.raises(AssertionError):
        compare(product_series(a, [e[0] + 1e-6, *e[1:]], steps), exact, absolute=LARGEST)
    with pytest.raises(AssertionError):
        compare(series * (1 + 1e-15), exact, absolute=LARGEST)


@given(st.lists(st.tuples(st.sampled_from([0.0, 2.0]) | gaps(), st.floats(-5, 5)), min_size=2, max_size=4))
def test_products_at_random(factors):
    a, e = [f[0] for f in factors], [f[1] for f in factors]
    compare(product_series(a, e, 60), oracles.product_coefficients(a, e, 60), absolute=LARGEST)


@pytest.mark.parametrize(
    ("coefficients", "terms"),
    [
        ([1.0, -1.0], 50), ([1.0, -2.0], 60), ([1.0, -0.5, 0.25, 0.125], 60), ([3.0, 1.0, -1.0], 40),
        ([1.0, 0.0, 0.0, -0.75], 60), ([-2.0], 3), ([1.0, -2.9, 2.9, -0.99], 60),
    ],
)  # fmt: skip
def test_reciprocals_term_by_term(coefficients, terms):
    series = np.empty(terms)
    double_double_series.reciprocal_series(np.array(coefficients), series)
    exact = oracles.reciprocal_in_fractions(coefficients, terms)
    assert oracles.worst_relative_error(series, exact) < 2e-16
    assert oracles.worst_relative_error(series, oracles.reciprocal(coefficients, terms)) < 2e-16
    double_double_series.reciprocal_series(np.array([*coefficients[:-1], coefficients[-1] * (1 + 1e-6)]), series)
    assert oracles.worst_relative_error(series, exact) > 2e-16


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50))
def test_running_sums(values):
    sums = np.empty(len(values))
    double_double_series.running_sums(np.array(values), sums)
    total = Fraction(0)
    for value, partial in zip(values, sums, strict=True):
        total += Fraction(value)
        assert abs(Fraction(partial) - total) <= abs(total) * Fraction(2) ** -52 + Fraction(2) ** -70


def test_running_sums_lose_nothing_where_everything_cancels():
    sums = np.empty(4)
    double_double_series.running_sums(np.array([1.0, 1e-20, -1.0, 1e-25]), sums)
    assert sums[2] == 1e-20
    assert math.isclose(sums[3], 1e-20 + 1e-25, rel_tol=1e-15)


# -- the norm of a reciprocal ------------------------------------------------------------------------------------------


@given(minimum_phase_coefficients(8), st.sampled_from([1.0, -0.25, 3.0]))
def test_step_down(coefficients, scale):
    exact = oracles.squared_norm_of_reciprocal(coefficients * scale)
    assert oracles.relative_error(double_double_series.step_down(coefficients * scale), exact) < 1e-14


@pytest.mark.parametrize(
    "zeros",
    [[1 - 1e-9], [1 - 1e-9, -1 + 1e-9], [0.9999, 0.9998, 0.9997], [0.999] * 3, [-0.99] * 4, [0.5, -0.5, 0.25, 0.9] * 2],
)
def test_step_down_close_to_the_unit_circle(zeros):
    """The coefficients are as good as they are: exact arithmetic starts from the same floats."""
    coefficients = np.ones(1)
    for r in zeros:
        coefficients = np.convolve(coefficients, [1.0, -r])
    exact = oracles.squared_norm_of_reciprocal(coefficients)
    assert oracles.relative_error(double_double_series.step_down(coefficients), exact) < 1e-9
    partial = oracles.norm(oracles.reciprocal(coefficients, 2000, 60)) ** 2
    assert partial <= oracles.exactly(exact)


ON_THE_CIRCLE = [
    [1.0, -1.0], [1.0, 1.0], [1.0, 0.0, 1.0], [1.0, -1.0, 1.0], [1.0, -2.0, 1.0], [1.0, -1.5, 0.5], [1.0, -1.25, 0.25],
    [1.0, -2.125, 1.4375, -0.3125],  # (1 − z)(1 − z/2)(1 − 5z/8)
    [1.0, -1.8125, 0.7578125, 0.0546875],  # (1 − z)(1 − 7z/8)(1 + z/16)
    [1.0, 1.375, 0.40625, 0.03125],  # (1 + z)(1 + z/4)(1 + z/8)
]  # fmt: skip
INSIDE = [[1.0, -2.0], [1.0, -2.5, 1.0], [1.0, 0.0, 4.0], [0.5, 1.0, 0.1], [1.0, -1 - 2**-52], [1.0, -3.0, 3.0, -1.5]]


@pytest.mark.parametrize("coefficients", ON_THE_CIRCLE + INSIDE)
def test_step_down_diverges_with_zeros_on_or_inside_the_circle(coefficients):
    assert double_double_series.step_down(np.array(coefficients)) == math.inf
    first, second = (oracles.norm(oracles.reciprocal(coefficients, t)) for t in (100, 400))
    assert second > 1.5 * first or coefficients in ([1.0, -1 - 2**-52],)


@pytest.mark.parametrize("seed", range(3))
def test_step_down_never_takes_a_zero_on_the_circle_for_one_outside(seed):
    """Products of exact binary factors, one of them with a zero on the circle: all coefficients are exact."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        coefficients = np.array([[1.0, -1.0], [1.0, 1.0]][rng.integers(2)])
        for r in rng.integers(-15, 16, rng.integers(1, 5)) / 16:
            coefficients = np.convolve(coefficients, [1.0, -r])
        assert double_double_series.step_down(coefficients) == math.inf, coefficients.tolist()


def test_the_integral_over_frequencies_is_no_norm_beyond_minimum_phase():
    """A false neighbour: (1, −2) and its mirror image have the same |B(ω)|², but only the latter a finite norm."""
    for omega in (0.0, 1.0, 3.0):
        mirrored = oracles.polynomial_power([-2, 1], omega)
        assert oracles.relative_error(oracles.polynomial_power([1, -2], omega), mirrored) < 1e-40
    assert oracles.squared_norm_of_reciprocal([-2, 1]) == Fraction(1, 3)
    assert oracles.relative_error(double_double_series.step_down(np.array([-2.0, 1.0])), Fraction(1, 3)) < 4e-16
    assert double_double_series.step_down(np.array([1.0, -2.0])) == math.inf


# -- averaged variances ------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=40), rates())
def test_averaged_variances_at_random(coefficients, rate):
    variances = np.empty(1)
    beta = np.array(coefficients)
    double_double_series.averaged_variances(beta, np.array([rate]), variances)
    exact = oracles.averaged_variance(coefficients, rate)
    assert abs(variances[0] - exact) <= 1e-14 * exact + 1e-300
    rate_off = rate * (1 + 1e-6) if rate < 1 else rate * (1 - 1e-6)
    double_double_series.averaged_variances(beta * (1 + 1e-6), np.array([rate_off]), variances)
    assert oracles.relative_error(variances[0], oracles.averaged_variance(coefficients, rate_off)) > 1e-6 or exact == 0


@pytest.mark.parametrize("rate", [1e-300, 1e-12, 1e-3, 0.5, 1.0, 1.5, 2 - 1e-12])
@pytest.mark.parametrize("coefficients", [[1.0, -1.0], [1.0, 1.0], [1.0, -2.0, 1.0], [1.0, -3.0, 3.0, -1.0], [2.0]])
def test_averaged_variances_lose_nothing_where_everything_cancels(coefficients, rate):
    variances = np.empty(1)
    double_double_series.averaged_variances(np.array(coefficients), np.array([rate]), variances)
    with workdps(700):
        c, beta = 1 - mpf(rate), list(enumerate(coefficients))
        exact = mp.fsum(b * other * c ** abs(t - tau) for t, b in beta for tau, other in beta)
    assert abs(mpf(variances[0]) - exact) <= 2e-15 * exact + mpf("1e-305")
