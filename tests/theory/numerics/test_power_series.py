"""Reciprocals of power series, and the bound of their error, on both routes: term by term and Newton's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, workdps

from corrnoise.theory.numerics import power_series
from tests import oracles
from tests.strategies import minimum_phase_coefficients

UNIT = 2.0**-53


@pytest.fixture(params=["term by term", "Newton"])
def route(request, monkeypatch):
    """Both routes, whatever the size."""
    monkeypatch.setattr(power_series, "DIRECT_OPERATIONS", math.inf if request.param == "term by term" else -1)
    return request.param


def product(*zeros):
    """Coefficients of Π (1 − z/z_k), the zeros z_k in pairs of conjugates or real."""
    return np.real(np.polynomial.polynomial.polyfromroots(zeros) / np.prod(-np.asarray(zeros)))


def true_error(coefficients, series, digits=400):
    """‖series − 1/B‖₂/‖series‖₂ and ‖1/B‖₂, at many digits."""
    exact = oracles.reciprocal(coefficients, series.size, digits)
    with workdps(digits):
        difference = oracles.norm(oracles.exactly(s) - x for s, x in zip(series, exact, strict=True))
        return float(difference / oracles.norm(series)), oracles.norm(exact)


CASES = {
    "one term": ([3.0], 5),
    "one step": ([2.0, 1.0], 1),
    "anti-PGD": ([1.0, -1.0], 400),
    "all ones": ([1.0] * 40, 300),
    "decaying": (product(1.2, 1.5, -2.0), 300),
    "close to the circle": (product(1.001, 1.01, -1.0001), 500),
    "a double zero": (product(1.001, 1.001), 577),
    "a triple zero": (product(1.01, 1.01, 1.01), 350),
    "four zeros": (product(-1.001, -1.003, -1.01, -1.03), 201),
    "complex": (product(1.01 * np.exp(1j), 1.01 * np.exp(-1j), 1.001), 400),
    "growing slowly": (product(0.99, 1.5), 300),
    "growing": ([1.0, -2.0], 60),
    "growing, three zeros": (product(0.9, 0.95, -1.1), 200),
    "long": (np.concatenate([[1.0], -0.3 / np.arange(1, 200) ** 1.5]), 250),
    "small numbers": (np.array([3.0, -2.0, 1.0]) * 1e-150, 50),
    "large numbers": (np.array([3.0, -2.0, 1.0]) * 1e150, 50),
}


@pytest.mark.parametrize("case", CASES)
def test_the_bound_covers_the_error(case, route):
    coefficients, terms = CASES[case]
    coefficients = np.asarray(coefficients, dtype=float)
    series, bound = power_series.reciprocal(coefficients, terms)
    error, norm = true_error(coefficients, series)
    assert series.shape == (terms,)
    assert error <= bound
    assert abs(float(oracles.norm(series) / norm) - 1) <= 2 * bound + UNIT
    if route == "term by term":
        assert oracles.worst_relative_error(series[:20], oracles.reciprocal(coefficients, terms)[:20]) < 2e-16
        assert bound < 1e-14 or case.startswith("growing")
    if math.isfinite(bound):  # a false series is beyond the bound
        spoilt = series.copy()
        spoilt[-1] += 2 * bound * np.linalg.norm(series)
        assert true_error(coefficients, spoilt)[0] > bound


@given(minimum_phase_coefficients(8), st.integers(2, 300), st.sampled_from([math.inf, -1]))
def test_the_bound_covers_the_error_at_random(coefficients, terms, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(power_series, "DIRECT_OPERATIONS", limit)
        series, bound = power_series.reciprocal(coefficients, terms)
    assert true_error(coefficients, series, 120)[0] <= bound


@pytest.mark.parametrize("seed", range(6))
def test_newton_agrees_with_its_bound_on_hard_series(seed):
    rng = np.random.default_rng(seed)
    for _ in range(4):
        coefficients = np.ones(1)
        for _ in range(3):
            r, cosine = 1 - 10 ** rng.uniform(-6, -1), rng.choice([1.0, -1.0, rng.uniform(-1, 1)])
            pair = np.array([1, -2 * r * cosine, r * r])
            coefficients = np.convolve(coefficients, pair if abs(cosine) < 1 else [1, -r * cosine])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(power_series, "DIRECT_OPERATIONS", -1)
            series, bound = power_series.reciprocal(coefficients, 400)
        assert true_error(coefficients, series)[0] <= bound, coefficients


def test_both_routes_agree_where_the_reciprocal_is_well_conditioned():
    coefficients = np.concatenate([[1.0], -0.2 / np.arange(1, 3000) ** 1.5])
    direct = np.empty(4000)
    from corrnoise.theory.numerics import double_double_series

    double_double_series.reciprocal_series(coefficients, direct)
    newton = power_series.newton_reciprocal(coefficients, 4000)
    np.testing.assert_allclose(newton, direct, rtol=0, atol=1e-14)


def test_the_long_route_is_taken_by_itself():
    coefficients = np.zeros(5000)
    coefficients[[0, 1, -1]] = 1.0, -0.5, 1e-3
    series, bound = power_series.reciprocal(coefficients, 6000)  # 3e7 operations
    t = np.arange(6000)
    exact = 0.5**t
    late = t[4999:] - 4999
    exact[4999:] -= 1e-3 * (late + 1) * 0.5**late
    np.testing.assert_allclose(series, exact, rtol=0, atol=1e-15)
    assert np.linalg.norm(series - exact) <= bound * np.linalg.norm(series) + 1e-15


@pytest.mark.parametrize("coefficients", [[1.0, -2.0], [1.0, 3.0, 1.0], [1e-3, 1.0]])
def test_terms_beyond_the_range_of_floats_are_infinite(coefficients, route):
    series, bound = power_series.reciprocal(np.array(coefficients), 1500)
    first = int(np.argmin(np.isfinite(series)))
    assert 0 < first < 1500
    assert np.all(np.isposinf(series[first:]))
    assert bound == math.inf
    with workdps(30):
        assert abs(oracles.reciprocal(coefficients, first + 8, 30)[-1]) > mp.mpf("1e300")
    exact = oracles.reciprocal(coefficients, min(first, 40))
    assert oracles.worst_relative_error(series[:40], exact) < (2e-16 if route == "term by term" else 1e-12)


def test_coefficients_after_the_last_term_are_not_needed(route):
    coefficients = np.array([1.0, -0.5, 0.25, 7.0, 9.0, 0.0])
    short, _ = power_series.reciprocal(coefficients, 3)
    np.testing.assert_allclose(short, [1, 0.5, 0], rtol=0, atol=1e-16)
    trailing, _ = power_series.reciprocal(np.array([1.0, -0.5, 0.0, 0.0]), 8)
    np.testing.assert_allclose(trailing, 0.5 ** np.arange(8), rtol=1e-15)
