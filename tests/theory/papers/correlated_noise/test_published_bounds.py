"""Bounds of stationary errors: their formulas in 40 digits, and where they end.

That they hold, with sharp constants and false neighbours, is checked by the claims of the ledger.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.papers.correlated_noise import published_bounds as bounds
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests import problem_oracles as oracles
from tests.strategies import gaps, log_uniform, regressions

Sides = tuple[float, float]


def holds(sides: Sides, slack: float = 1e-12) -> bool:
    """Smaller <= larger, up to rounding."""
    smaller, larger = sides
    return bool(smaller <= larger * (1 + slack))


def isotropic(d: int, eta: float, s: float = 0.0, kurtosis: float = 3.0) -> LinearRegression:
    return LinearRegression(np.ones(d), eta, s, kurtosis=kurtosis)


def linear_gap(problem: LinearRegression) -> float:
    """2/(2 − η R²), the largest ratio of an error to its linear part."""
    return 2 / (2 - problem.learning_rate * problem.moment_bound)


# -- the formulas, recomputed ------------------------------------------------------------------------------------------


FORMULAS = [
    (LinearRegression([1.0, 0.2, 1e-4], 0.2, 0.3), NuFTRL(0.01)),
    (LinearRegression([2.0, 1e-6], 0.11, 2.0, kurtosis=[1.8, 6.0]), ProductNoise([0.1, 1.7], [0.5, -0.4])),
    (LinearRegression([0.5], 0.3, 0.0), AntiPGD(0.2)),
    (MeanEstimation(0.9, 0.5), NuFTRL(0.3)),
]


@pytest.mark.parametrize(("problem", "noise"), FORMULAS)
def test_formulas_to_40_digits(problem: Any, noise: ProductNoise) -> None:
    rho, clip_norm = 0.7, 3.0
    budget: dict[str, Any] = {"budget": Budget(rho, clip_norm=clip_norm)}
    with workdps(oracles.DIGITS):
        eta, s2 = mpf(problem.learning_rate), mpf(problem.residual_std) ** 2
        v = [mpf(float(e)) for e in problem.eigenvalues]
        k = [mpf(float(e)) for e in np.broadcast_to(problem.kurtosis, len(v))]
        x, trace, unit = [eta * e for e in v], mp.fsum(v), mpf(clip_norm) ** 2 / (2 * mpf(rho))
        b, gamma2 = oracles.averaged_variances(noise, x), oracles.squared_sensitivity(noise)
        r2 = trace + max((q - 1) * e for q, e in zip(k, v, strict=True))
        series, variance, total = (1 - mp.sqrt(eta * r2)) ** -2, unit * gamma2, mp.fsum(b)
        seen = eta * oracles.weighted_power(problem, noise)  # (η/2π) ∫ |B|² h
        pairs = list(zip(v, x, b, strict=True))
        c18 = eta / 4 * s2 * trace + eta / 2 * variance * seen
        sgd = eta / 4 * (len(v) * unit + s2 * trace)
        mean = mp.fsum(e / mp.agm(y, 2 - y) for e, y in zip(v, x, strict=True))
        exact = {
            "linear": eta / 2 * mp.fsum((s2 * e + variance * c) / (2 - y) for e, y, c in pairs),
            "N1": eta * (s2 * trace + variance * total) / (2 * (2 - eta * r2)),
            "N1, R² = 3": eta * (s2 * trace + variance * total) / (2 * (2 - eta * 3)),
            "C.14": (1 + series) * eta * r2 * s2 + (1 + 4 * series) * eta * variance * total,
            "C.18": c18,
            "C.18 all": eta / 4 * s2 * trace + eta**2 * unit / 2 * oracles.root_mean(x, v) ** 2,
            "N2": eta / 4 * s2 * trace + eta**2 * unit / 2 * mean**2 / trace,
            "DP-SGD, lower": sgd,
            "DP-SGD, upper": 2 * sgd,
        }
    values = {
        "linear": problem.lower_bound(noise, **budget),
        "N1": problem.upper_bound(noise, **budget),
        "N1, R² = 3": problem.upper_bound(noise, moment_bound=3.0, **budget),
        "C.14": bounds.theorem_c14_upper_bound(problem, noise, kurtosis_constant=4.0, **budget),
        "C.18": bounds.theorem_c18_lower_bound(problem, noise, **budget),
        "C.18 all": problem.lower_bound(**budget),
        "N2": bounds.average_log_lower_bound(problem, **budget),
        "DP-SGD, lower": bounds.dp_sgd_error_bounds(problem, **budget)[0],
        "DP-SGD, upper": bounds.dp_sgd_error_bounds(problem, **budget)[1],
    }
    assert values.keys() == exact.keys()
    for name, value in values.items():
        if math.isinf(value):  # outside the range of the bound
            assert problem.learning_rate * (3.0 if "= 3" in name else problem.moment_bound) >= 1
            continue
        assert oracles.agrees(value, exact[name]), name
        assert not oracles.agrees(value * (1 + 1e-6), exact[name]), name
        assert not oracles.agrees(value * (1 - 1e-6), exact[name]), name
    assert problem.lower_bound(**budget) == values["C.18 all"]


# -- ν-DP-FTRL ---------------------------------------------------------------------------------------------------------


def nu_forms(problem: LinearRegression, nu: float, power: float = 1.0) -> tuple[float, float]:
    """The two privacy parts of N3 at G = ρ = 1, with the logarithm of γ_∞² to a power."""
    eta, v, log8 = problem.learning_rate, problem.eigenvalues, math.log(8)
    gamma2 = (math.log(8 / nu) / log8) ** power
    scale = eta**2 * gamma2 / log8 / (2 - eta * problem.moment_bound)
    one_log = 2 / math.pi * float((v * np.log(8 / problem.rates)).sum())
    return scale * float(v.sum()) * math.log(8 / nu) / 2, scale * one_log


@given(regressions(kurtosis=None), log_uniform(1e-12, 1.0))
def test_nu_ftrl_upper_bound(problem: LinearRegression, fraction: float) -> None:
    nu = fraction * problem.rates.min()
    assume(nu > 0)
    residual = linear_gap(problem) * problem.learning_rate / 4 * problem.residual_std**2 * problem.eigenvalues.sum()
    private = LinearRegression(problem.eigenvalues, problem.learning_rate, kurtosis=problem.kurtosis)
    error = private.stationary_error(NuFTRL(nu))
    for form in nu_forms(problem, nu):
        assert holds((error, form))
    bound = bounds.nu_ftrl_upper_bound(problem, nu)
    assert bound == pytest.approx(residual + min(nu_forms(problem, nu)), rel=1e-12)
    assert holds((problem.stationary_error(NuFTRL(nu)), bound))
    assert bounds.nu_ftrl_upper_bound(problem, nu, budget=Budget(0.1, clip_norm=3.0)) == pytest.approx(
        residual + 90 * min(nu_forms(problem, nu)), rel=1e-12
    )


def test_nu_ftrl_upper_bound_outside_its_range() -> None:
    problem = LinearRegression([1.0, 0.1], 0.1)
    assert math.isfinite(bounds.nu_ftrl_upper_bound(problem, problem.rates.min()))
    for nu in (np.nextafter(problem.rates.min(), 1), 0.1, 1.0):
        with pytest.raises(ValueError, match="nu must lie in"):
            bounds.nu_ftrl_upper_bound(problem, nu)
    assert bounds.nu_ftrl_upper_bound(isotropic(2, 0.5), 0.1) == math.inf  # η R² = 2
    assert bounds.nu_ftrl_upper_bound(isotropic(1, 1.0, kurtosis=1.0), 0.1) == math.inf  # x = 1


# -- mean estimation ---------------------------------------------------------------------------------------------------


@given(gaps(1e-300), st.sampled_from([0.0, 0.3, 2.0]), log_uniform(1e-3, 1e3))
def test_mean_estimation_bounds(eta: float, s: float, rho: float) -> None:
    problem = MeanEstimation(eta, s)
    lower, upper = bounds.mean_estimation_optimal_error_bounds(problem, budget=Budget(rho))
    optimum, slack = problem.optimal_error(budget=Budget(rho)), 1e-13 / (1 - eta / 2)
    assert holds((lower, optimum), slack)
    assert holds((optimum, upper), slack)
    log = math.log(4 / math.sqrt(eta * (2 - eta))) if eta > 1e-150 else math.log(4) - math.log(2 * eta) / 2
    residual = eta * s**2 / (2 * (2 - eta))
    assert lower == pytest.approx((eta * log / math.pi) ** 2 / rho + residual, rel=1e-11, abs=1e-300)
    assert upper - residual == pytest.approx(
        (math.pi / math.log(16)) ** 2 * (lower - residual), rel=1e-9, abs=1e-14 * lower
    )


# -- outside the ranges ------------------------------------------------------------------------------------------------


def test_outside_their_ranges_bounds_are_infinite() -> None:
    beyond, unstable, diverges = isotropic(2, 0.3), isotropic(2, 2.0), FiniteNoise([1, -2])  # η R² = 1.2, 8
    one_noise: list[Callable[..., float]] = [
        LinearRegression.upper_bound,
        bounds.theorem_c14_upper_bound,
        LinearRegression.lower_bound,
        bounds.theorem_c18_lower_bound,
    ]
    assert [math.isfinite(bound(beyond, DPSGD())) for bound in one_noise] == [True, False, True, True]
    assert all(bound(unstable, DPSGD()) == bound(beyond, diverges) == math.inf for bound in one_noise)
    assert unstable.lower_bound() == bounds.average_log_lower_bound(unstable) == math.inf
    assert bounds.dp_sgd_error_bounds(beyond)[1] == math.inf
    assert beyond.upper_bound(DPSGD(), moment_bound=2 / 0.3) == math.inf


NOT_POSITIVE: list[Any] = [0, -1.0, math.nan, math.inf]
BAD: list[tuple[str, Callable[[Any], object], list[Any]]] = [
    ("nu", lambda v: bounds.nu_ftrl_upper_bound(isotropic(1, 0.1), v), [*NOT_POSITIVE, 2.0]),
    (
        "kurtosis_constant",
        lambda v: bounds.theorem_c14_upper_bound(isotropic(1, 0.1), DPSGD(), kurtosis_constant=v),
        NOT_POSITIVE[1:],
    ),
    ("moment_bound", lambda v: isotropic(1, 0.1).upper_bound(DPSGD(), moment_bound=v), NOT_POSITIVE),
]


@pytest.mark.parametrize(("name", "call", "values"), BAD)
def test_bad_input_is_named(name: str, call: Callable[[Any], object], values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=name):
            call(value)
    for value in ("1", None, True, 1j, [0.1]):
        if (name, value) != ("moment_bound", None):
            with pytest.raises(TypeError, match=name):
                call(value)
