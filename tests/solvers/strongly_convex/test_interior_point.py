"""The interior-point method against differences, a general-purpose optimiser and its own optimality conditions."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from corrnoise.solvers.strongly_convex.cone_program import uniform_frequencies
from corrnoise.solvers.strongly_convex.interior_point import MultiplierProgram
from corrnoise.solvers.strongly_convex.multipliers import further_kernels, taps
from corrnoise.theory.problems.strongly_convex import CRITERIA, circle_multiplier


def program(pair=(0.1, 1.0), criterion="distance", count=64, lags=4):
    return MultiplierProgram(*pair, criterion, taps(lags), *uniform_frequencies(count))


def spectrum(of):
    return 1 + 0.5 * np.cos(of.frequencies)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_gradient_and_hessian_against_differences(criterion):
    of = program(criterion=criterion)
    w = of.quadrature * spectrum(of)
    c = np.append(12.0, np.linspace(0.1, 0.5, 8))
    at = of.evaluate(c, w)
    slope, root = of.gradient(at, w), of.root_of_hessian(at, w)
    step = 1e-5
    for j in range(c.size):
        shifted = [c + sign * step * (np.arange(c.size) == j) for sign in (1, -1)]
        ahead, behind = (of.evaluate(one, w) for one in shifted)
        assert slope[j] == pytest.approx((ahead.value - behind.value) / (2 * step), rel=1e-5, abs=1e-8)
        bend = (of.gradient(ahead, w) - of.gradient(behind, w)) / (2 * step)
        np.testing.assert_allclose(root.T @ root[:, j], bend, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("pair", [(0.1, 1.0), (0.2, 1.6), (0.02, 0.1)])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_optimum_against_a_general_optimiser(pair, criterion):
    of = program(pair, criterion)
    w = of.quadrature * spectrum(of)
    c = of.solve(spectrum(of))
    assert (c >= 0).all()
    best = of.evaluate(c, w).value
    start = np.append(3 * circle_multiplier(*pair, criterion)[0] + pair[1], np.full(8, 1e-3))

    def value(z):
        return min(of.evaluate(z, w).value, 1e9) / best

    def slope(z):
        at = of.evaluate(z, w)
        return of.gradient(at, w) / best if math.isfinite(at.value) else np.zeros(9)

    other = minimize(value, start, jac=slope, bounds=[(0, None)] * 9, method="L-BFGS-B", options={"maxiter": 5000})
    assert 1 - 1e-9 <= other.fun <= 1 + 1e-3
    for factor in (0.98, 1.02):
        for j in range(c.size):
            moved = c * np.where(np.arange(c.size) == j, factor, 1)
            assert of.evaluate(moved, w).value >= best * (1 - 1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_optimality_conditions(criterion):
    of = program((0.01, 1.0), criterion, 500, 20)
    c = of.solve(spectrum(of))
    assert 0 <= of.suboptimality(c, spectrum(of)) <= 1e-7
    worse = of.suboptimality(c * 1.01, spectrum(of))
    assert worse > 1e-5
    w = of.quadrature * spectrum(of)
    assert of.evaluate(c * 1.01, w).value <= of.evaluate(c, w).value * (1 + worse)


def test_scale_of_the_spectrum_does_not_matter():
    of = program()
    one, other = of.solve(spectrum(of)), of.solve(1e30 * spectrum(of))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_prices_are_derivatives():
    of = program()
    c = of.solve(spectrum(of))
    w = of.quadrature * spectrum(of)
    more = further_kernels(0.1, 1.0).chosen(np.array([0, 10, 70, 150]))
    prices = of.prices(more, c, spectrum(of))
    wider = MultiplierProgram(0.1, 1.0, "distance", of.kernels.and_also(more), of.frequencies, of.quadrature)
    base, step = of.evaluate(c, w).value, 1e-5 * c.sum()
    for j, price in enumerate(prices):
        added = np.append(c, step * (np.arange(4) == j))
        assert (wider.evaluate(added, w).value / base - 1) / 1e-5 == pytest.approx(price, abs=1e-4)


def test_frequency_zero_is_heeded_though_no_node_shows_it():
    """With the spectrum away from ω = 0 slow lags would replace the constant altogether."""
    omega = np.linspace(0.5, math.pi, 200)
    of = MultiplierProgram(0.1, 1.0, "distance", taps(30), omega, np.full(200, 1 / 200))
    c = of.solve(np.ones(200))
    assert 2 * 0.1 * c[0] - 0.9 > 0
    assert of.multiplier(c).gain(np.zeros(1))[0] < math.inf
