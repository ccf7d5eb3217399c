"""Errors and sensitivities of Toeplitz mechanisms against dense matrices, mpmath and finite differences."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms import toeplitz_losses as losses
from corrnoise.theory.numerics import power_series
from corrnoise.theory.objectives import toeplitz_errors as errors
from corrnoise.theory.participation import Participation
from tests.strategies import minimum_phase_coefficients


def lower(column: np.ndarray, n: int) -> np.ndarray:
    padded = np.zeros(n, dtype=column.dtype)
    padded[: column.size] = column[:n]
    return scipy.linalg.toeplitz(padded, np.zeros(n))


def participations(n: int, b: int, k: int) -> Participation:
    return Participation.min_sep(n, b, min(k, -(-n // b)))


def complex_step(function, at: np.ndarray) -> np.ndarray:
    """The gradient of an analytic function, to rounding."""
    return np.array([function(at + 1e-100j * direction).imag / 1e-100 for direction in np.eye(at.size)])


def dense_error(strategy: np.ndarray, n: int, objective: str):
    rows = np.square(np.tril(np.ones((n, n))) @ np.linalg.inv(lower(strategy, n))).sum(axis=1)
    return rows.mean() if objective == "mean" else rows[-1]


def pattern_norm(c: np.ndarray, b: int, k: int):
    return np.square(lower(c, c.size)[:, ::b][:, :k].sum(axis=1)).sum()


@given(noising=minimum_phase_coefficients())
def test_covariance_is_the_product_with_the_transpose(noising):
    matrix = lower(noising, noising.size)
    assert errors.covariance(noising, np.ones(noising.size)) == pytest.approx(matrix @ matrix.T, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("objective", errors.AGGREGATES)
@given(strategy=minimum_phase_coefficients(), n=st.integers(6, 30))
def test_error_of_a_strategy_is_that_of_matrices(objective, strategy, n):
    error, gradient = errors.strategy_error(strategy, errors.error_weights(n, n, objective))
    assert error == pytest.approx(dense_error(strategy, n, objective), rel=1e-10)
    other = errors.AGGREGATES[objective == "mean"]
    assert error != pytest.approx(dense_error(strategy, n, other), rel=1e-10)
    exact = complex_step(lambda c: dense_error(c, n, objective), strategy)
    np.testing.assert_allclose(gradient, exact, rtol=1e-8, atol=1e-8 * np.abs(exact).max())


@pytest.mark.parametrize("objective", errors.AGGREGATES)
@given(noising=minimum_phase_coefficients(), n=st.integers(8, 30))
def test_error_of_banded_noising_takes_as_many_weights_as_coefficients(objective, noising, n):
    p = noising.size
    error, gradient = errors.noising_error(noising, errors.error_weights(n, p, objective))
    strategy = power_series.divided(np.eye(1, n).ravel(), noising)
    full = errors.error_weights(n, n, objective)
    assert error == pytest.approx(errors.strategy_error(strategy, full)[0], rel=1e-10)
    other = losses.gradient_in_noising(errors.strategy_error(strategy, full)[1], noising, strategy)
    np.testing.assert_allclose(gradient, other, rtol=1e-8, atol=1e-8 * np.abs(gradient).max())


@given(data=st.data(), n=st.integers(1, 20), b=st.integers(1, 20), k=st.integers(1, 20))
def test_sensitivity_of_the_pattern(data, n, b, k):
    c = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=n, max_size=n)))
    square, gradient = losses.squared_sensitivity(c, participations(n, b, k))
    assert square == pytest.approx(pattern_norm(c, b, k), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(gradient, complex_step(lambda x: pattern_norm(x, b, k), c), rtol=1e-12, atol=1e-12)


@given(data=st.data(), n=st.integers(1, 20), b=st.integers(1, 20), k=st.integers(1, 20))
def test_the_bound_is_that_of_the_majorant(data, n, b, k):
    """Its gradient is taken by the formula at the majorant, carried back; checked along a line without kinks."""
    c = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=n, max_size=n)))
    who = participations(n, b, k)
    start = n if who.once else who.period
    majorant = np.array([max(abs(c[t:])) if t >= start else abs(c[t]) for t in range(n)])
    square, gradient = losses.squared_sensitivity_bound(c, who)
    assert square == pytest.approx(pattern_norm(majorant, who.period, who.count), rel=1e-12, abs=1e-12)
    assert square >= losses.squared_sensitivity(c, who)[0] * (1 - 1e-12)
    grown, _ = losses.squared_sensitivity_bound(c * (1 + 1e-6), who)  # the order of sizes stays
    assert gradient @ c == pytest.approx((grown - square) / 1e-6, rel=1e-5, abs=1e-12)
    distinct = np.sign(c) * (np.abs(c) + 1e-3 * np.arange(n))
    sizes = np.sort(np.abs(distinct[distinct != 0]))
    if np.diff(sizes, prepend=0.0).min(initial=1.0) > 1e-4:
        direction = np.cos(np.arange(n)) * (distinct != 0)
        ends = [losses.squared_sensitivity_bound(distinct + h * direction, who)[0] for h in (1e-6, -1e-6)]
        slope = losses.squared_sensitivity_bound(distinct, who)[1] @ direction
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("p", [100, 400])
def test_long_strategies_take_transforms_and_agree_with_forty_digits(p):
    n = 400
    with mpmath.workdps(40):
        exact = [mpmath.mpf(1)]
        for t in range(1, p):
            exact.append(exact[-1] * (mpmath.mpf(t) - mpmath.mpf("0.5")) / t)
        sums = []
        for t in range(n):
            sums.append(1 - mpmath.fsum(exact[k] * sums[t - k] for k in range(1, min(t, p - 1) + 1)))
        truth = float(mpmath.fsum((n - t) * sums[t] ** 2 for t in range(n)) / n)
    strategy = np.array([float(c) for c in exact])
    assert errors.strategy_error(strategy, errors.error_weights(n, n, "mean"))[0] == pytest.approx(truth, rel=1e-13)


@given(strategy=minimum_phase_coefficients(), n=st.integers(6, 60))
def test_errors_are_as_small_as_stated(strategy, n):
    """Against 40 digits, relative to p max(1, Σ|c| Σ|β|)."""
    with mpmath.workdps(40):
        c = [mpmath.mpf(float(value)) for value in strategy]
        sums = []
        for t in range(n):
            sums.append((1 - mpmath.fsum(c[k] * sums[t - k] for k in range(1, min(t, len(c) - 1) + 1))) / c[0])
        truth = float(mpmath.fsum(s**2 for s in sums))
    condition = np.abs(strategy).sum() * np.abs(np.diff([0.0, *map(float, sums)])).sum()
    error, _ = errors.strategy_error(strategy, errors.error_weights(n, n, "max"))
    assert error == pytest.approx(truth, rel=1e-15 * strategy.size * max(1, condition))


def test_both_routes_of_each_operation_agree(monkeypatch):
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=50), np.concatenate([[3.0], rng.normal(size=19) / 5])
    direct = (
        power_series.divided(one, other),
        power_series.multiplied(one, other),
        power_series.correlated(one, one[::-1], 20),
    )
    monkeypatch.setattr(power_series, "DIRECT_COEFFICIENTS", 0)
    transformed = (
        power_series.divided(one, other),
        power_series.multiplied(one, other),
        power_series.correlated(one, one[::-1], 20),
    )
    for a, b in zip(direct, transformed, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13 * np.abs(a).max())
