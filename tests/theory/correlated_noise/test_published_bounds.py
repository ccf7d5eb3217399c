"""Bounds of stationary errors: each holds, with its sharp constant, and its false neighbours do not.

Inequalities are pairs (smaller, larger) with a constant on the smaller side.  Each holds on random problems at the
constant 1 and fails, at a witness that shows how sharp it is, at a slightly larger one.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.correlated_noise import published_bounds as bounds
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests import problem_oracles as oracles
from tests.strategies import gaps, log_uniform, noises, regressions

Sides = tuple[float, float]


def holds(sides: Sides, slack: float = 1e-12) -> bool:
    """Smaller <= larger, up to rounding."""
    smaller, larger = sides
    return bool(smaller <= larger * (1 + slack))


def isotropic(d: int, eta: float, s: float = 0.0, kurtosis: float = 3.0) -> LinearRegression:
    return LinearRegression(np.ones(d), eta, s, kurtosis=kurtosis)


# -- inequalities for one problem and one noise ------------------------------------------------------------------------


def linear_gap(problem: LinearRegression) -> float:
    """2/(2 − η R²), the largest ratio of an error to its linear part."""
    return 2 / (2 - problem.learning_rate * problem.moment_bound)


def log_form(problem: LinearRegression, power: int = 2) -> float:
    """(η²/(4π²)) Tr H (avg log(8/x_j))² at G = ρ = 1, and the residual part."""
    eta, v, s2 = problem.learning_rate, problem.eigenvalues, problem.residual_std**2
    mean_log = float(np.average(np.log(8 / problem.rates), weights=v))
    return eta / 4 * s2 * v.sum() + eta**2 * v.sum() * mean_log**power / (4 * math.pi**2)


def mean_square_form(problem: LinearRegression) -> float:
    """(η²/4) Σ λ_j γ_∞⁴(x_j) at G = ρ = 1, and the residual part: Minkowski's inequality for ∫ sqrt(h)."""
    eta, v, s2 = problem.learning_rate, problem.eigenvalues, problem.residual_std**2
    gamma4 = np.array([NuFTRL(x).limiting_sensitivity() ** 4 for x in problem.rates])
    return float(eta / 4 * s2 * v.sum() + eta**2 / 4 * (v * gamma4).sum())


def c14_constant(problem: LinearRegression) -> dict[str, Any]:
    return {"kurtosis_constant": max(3.0, float(np.max(problem.kurtosis)))}


SLOW, WIDE, SIGN = isotropic(1, 1e-6, 1.0), isotropic(10_000, 1e-4), isotropic(1, 1e-9, 1e6, kurtosis=1.0)

# The two sides; then a witness, a problem and its noise, and the constant that is too large for it.
INEQUALITIES: dict[str, tuple[Callable[[Any, Any], Sides], LinearRegression, ToeplitzNoise, float]] = {
    "optimum": (lambda p, n: (p.optimal_error(), p.stationary_error(n)), isotropic(3, 0.1), NuFTRL(0.1), 1 + 1e-6),
    "N1": (
        lambda p, n: (p.stationary_error(n), p.upper_bound(n)),
        *(isotropic(4, 0.2, 1.0), AntiPGD(0.3), 1 + 1e-6),
    ),
    "linear part": (
        lambda p, n: (p.lower_bound(n), p.stationary_error(n)),
        *(SLOW, AntiPGD(0.1), 1 + 1e-5),
    ),
    "linear part, from above": (
        lambda p, n: (p.stationary_error(n), linear_gap(p) * p.lower_bound(n)),
        *(WIDE, NuFTRL(0.1), 1 + 1e-4),
    ),
    "linear part of the optimum, from above": (
        lambda p, n: (p.optimal_error(), linear_gap(p) * p.lower_bound()),
        *(WIDE, DPSGD(), 1 + 1e-4),
    ),
    "all noise": (
        lambda p, n: (p.lower_bound(), p.optimal_error()),
        *(SLOW, DPSGD(), 1 + 1e-5),
    ),
    "C.14 over 8": (
        lambda p, n: (p.stationary_error(n), bounds.theorem_c14_upper_bound(p, n, **c14_constant(p)) / 8),
        *(SIGN, DPSGD(), 1 + 1e-3),
    ),
    "C.18": (
        lambda p, n: (bounds.theorem_c18_lower_bound(p, n), p.stationary_error(n)),
        *(SLOW, NuFTRL(0.1), 1 + 1e-5),
    ),
    "C.18 below the linear part": (
        lambda p, n: (bounds.theorem_c18_lower_bound(p, n), p.lower_bound(n)),
        *(isotropic(2, 0.1), NuFTRL(0.1), 1 + 1e-6),
    ),
    "C.18 as printed, from above": (
        lambda p, n: (p.stationary_error(n), 2 * bounds.theorem_c18_lower_bound(p, n)),
        *(isotropic(10_000, 1 / 10_002.001, 1e3), DPSGD(), 1 + 1e-3),
    ),
    "N2": (
        lambda p, n: (bounds.average_log_lower_bound(p), p.lower_bound()),
        *(isotropic(3, 0.1), DPSGD(), 1 + 1e-6),
    ),
    "N2 below the mean of the squares": (
        lambda p, n: (bounds.average_log_lower_bound(p), mean_square_form(p)),
        *(isotropic(3, 0.1), DPSGD(), 1 + 1e-6),
    ),
    "mean of the squares": (
        lambda p, n: (mean_square_form(p), p.lower_bound()),
        *(isotropic(3, 0.1), DPSGD(), 1 + 1e-6),
    ),
    "N2, logarithms": (
        lambda p, n: (log_form(p), bounds.average_log_lower_bound(p)),
        *(isotropic(1, 1e-9), DPSGD(), 1 + 1e-6),
    ),
    "DP-SGD, lower": (
        lambda p, n: (bounds.dp_sgd_error_bounds(p)[0], p.stationary_error(DPSGD())),
        *(SLOW, DPSGD(), 1 + 1e-5),
    ),
    "DP-SGD, upper": (
        lambda p, n: (p.stationary_error(DPSGD()), bounds.dp_sgd_error_bounds(p)[1]),
        *(isotropic(2, 0.25, 1.0), DPSGD(), 1 + 1e-6),
    ),
}


@given(regressions(kurtosis=None), noises())
def test_inequalities_hold(problem: LinearRegression, noise: ToeplitzNoise) -> None:
    for name, (sides, *_) in INEQUALITIES.items():
        assert holds(sides(problem, noise)), name


@pytest.mark.parametrize("name", INEQUALITIES)
def test_inequalities_are_sharp(name: str) -> None:
    sides, problem, noise, constant = INEQUALITIES[name]
    smaller, larger = sides(problem, noise)
    assert holds((smaller, larger))
    assert not holds((constant * smaller, larger))


def test_inequalities_hold_up_to_instability() -> None:
    """The ones that need no more than stability, upper bounds being infinite where they end."""
    conditional = {"linear part, from above", "linear part of the optimum, from above", "C.18 as printed, from above"}
    for seed in range(300):
        rng = np.random.default_rng([1804, seed])
        problem, noise = oracles.random_problem(rng), oracles.random_noise(rng)
        distances = (1 - problem.instability(), abs(2 - problem.learning_rate * problem.moment_bound))
        for name in INEQUALITIES.keys() - conditional:
            assert holds(INEQUALITIES[name][0](problem, noise), 1e-12 / min(distances)), (seed, name)
        assert math.isfinite(problem.stationary_error(noise))


def test_a_third_logarithm_is_too_much() -> None:
    problem = isotropic(3, 1e-6)
    assert holds((log_form(problem), problem.optimal_error()))
    assert not holds((log_form(problem, power=3), problem.optimal_error()))


def test_theorem_c18_as_printed_fails() -> None:
    problem = isotropic(1, 0.01)
    error, printed = problem.stationary_error(DPSGD()), 2 * bounds.theorem_c18_lower_bound(problem, DPSGD())
    assert (f"{error:.8f}", f"{printed:.8f}") == ("0.00126904", "0.00251256")
    assert bounds.theorem_c18_lower_bound(problem, DPSGD()) == printed / 2 < error
    # Of the last line, over all noise, the residual part is false and the privacy part true.
    residual = isotropic(1, 0.01, 1.0)
    error = residual.optimal_error(budget=Budget(1e12))
    assert error < bounds.printed_c18_universal_lower_bound(residual, budget=Budget(1e12))
    assert error > residual.lower_bound(budget=Budget(1e12))
    assert bounds.printed_c18_universal_lower_bound(problem) < problem.optimal_error()


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
            "C.18 all, printed": (2 * eta * s2 + eta**2 * unit) * trace / 4,
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
        "C.18 all, printed": bounds.printed_c18_universal_lower_bound(problem, **budget),
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


def test_trace_bound_needs_only_the_moment_bound() -> None:
    """Inputs with one coordinate at a time, x = ± sqrt(d λ_j) e_j, are dependent: E ‖x‖² x xᵀ = d H², R² = d max λ."""
    d, eta = 3, 0.2
    for v in (np.array([1.0, 0.5, 0.1]), np.ones(3)):
        steps = [np.eye(d) - eta * np.diag(d * v * (np.arange(d) == j)) for j in range(d)]
        moments = sum(np.kron(step, step) for step in steps) / d
        drive = eta**2 * (0.25 * np.diag(v) + 0.5 * np.eye(d))  # s = 1/2, σ² = 1/2
        covariance = np.linalg.solve(np.eye(d * d) - moments, drive.ravel()).reshape(d, d)
        error, bound = (
            np.trace(np.diag(v) @ covariance) / 2,
            LinearRegression(v, eta, 0.5).upper_bound(DPSGD(), moment_bound=d * v.max()),
        )
        assert holds((error, bound))
        assert holds((error * (1 + 1e-6), bound)) == (v.min() < 1)  # an equality for equal eigenvalues


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


def test_nu_ftrl_upper_bound_rejects_false_neighbours() -> None:
    """Half of the first constant, two fifths of the second, and a weaker logarithm are too small."""
    near = isotropic(1, 0.918, kurtosis=1.8)
    first, second = nu_forms(near, 0.918)
    error = near.stationary_error(NuFTRL(0.918))
    assert (error > 0.5 * first, error > 0.39 * second) == (True, True)
    tiny = isotropic(1, 1e-30)
    error = tiny.stationary_error(NuFTRL(1e-30))
    assert all(error <= form for form in nu_forms(tiny, 1e-30))
    assert all(error > form for form in nu_forms(tiny, 1e-30, power=0.5))
    one = isotropic(1, 1e-3)
    one_log_each, no_log_of_nu = nu_forms(one, 1e-200)[1], nu_forms(one, 1e-200, power=0.0)[1]
    assert no_log_of_nu < one.stationary_error(NuFTRL(1e-200)) < one_log_each < nu_forms(one, 1e-200)[0]


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


def test_mean_estimation_constants_are_sharp() -> None:
    lower, upper = bounds.mean_estimation_optimal_error_bounds(MeanEstimation(1.0))
    assert upper == pytest.approx(MeanEstimation(1.0).optimal_error(), rel=1e-14) == 0.25
    assert upper / lower == pytest.approx((math.pi / math.log(16)) ** 2, rel=1e-14)
    assert not holds((MeanEstimation(1.0).optimal_error(), upper * (1 - 1e-6)))
    small = MeanEstimation(1e-9)
    assert not holds((bounds.mean_estimation_optimal_error_bounds(small)[0] * (1 + 1e-6), small.optimal_error()))
    for eta in (2.0, 3.0):
        assert bounds.mean_estimation_optimal_error_bounds(MeanEstimation(eta)) == (math.inf, math.inf)


def test_rate_of_theorem_2_1_fails_near_one() -> None:
    """The optimum over η² log²(1/η) is bounded as η → 0 and unbounded as η → 1; over η² log²(8/η) it is bounded."""

    def ratio(eta: float, constant: float) -> float:
        return MeanEstimation(eta).optimal_error() / (eta * math.log(constant / eta)) ** 2

    assert ratio(0.9, 1) == pytest.approx(0.8140779 / 4 / 0.0089916, rel=1e-4)
    assert [ratio(1 - gap, 1) * 4 * gap**2 for gap in (1e-3, 1e-6)] == pytest.approx([1, 1], rel=2e-3)
    assert all(0.999 < ratio(eta, 8) * 4 * math.pi**2 < 2.3 for eta in [*np.geomspace(1e-100, 1, 50), 1.0])


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
