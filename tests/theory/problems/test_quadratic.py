"""Exact errors of quadratic problems against 40-digit formulas, exact moments and enumeration."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from mpmath import mp, mpf, workdps

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems import second_moments
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests import problem_oracles as oracles
from tests.strategies import log_uniform, mean_estimations

DIVERGENT = [NuFTRL(0), AntiPGD(0), ProductNoise([0, 0.5], [1.0, 0.3]), FiniteNoise([1, -1]), FiniteNoise([1, -2])]

# -- accuracy ----------------------------------------------------------------------------------------------------------

EXTREMES = [
    (MeanEstimation(2 - 1e-7, 0.3), NuFTRL(2 - 1e-6)),
    (MeanEstimation(2 - 1e-12), AntiPGD(1.5)),
    (MeanEstimation(1e-12, 1.0), NuFTRL(1e-12)),
    (MeanEstimation(1.0), FiniteNoise([1, -0.5])),
    (LinearRegression([1.0, 1e-8], 0.1), NuFTRL(1e-9)),  # condition number 1e8
    (LinearRegression([3.0, 3.0, 3e-8], 1e-12, 1.0), NuFTRL(1e-12)),
    (LinearRegression([1.0, 0.01], 1e-30, 0.7), DPSGD()),
    (LinearRegression([1.0, 1e-9], 2 * (1 - 1e-8), kurtosis=1.0), NuFTRL(1.0)),
]


@pytest.mark.parametrize("case", range(22))
def test_errors_to_40_digits(case: int) -> None:
    rng = np.random.default_rng([2310, case])
    problem, noise = (
        EXTREMES[case] if case < len(EXTREMES) else (oracles.random_problem(rng), oracles.random_noise(rng))
    )
    rho, clip_norm = 10 ** rng.uniform(-3, 3, 2)
    margin = oracles.stability_margin(problem)
    parts = oracles.contributions(problem, noise, rho, clip_norm)
    with workdps(oracles.DIGITS):
        total = sum(parts)
    assert oracles.agrees(problem.stationary_error(noise, budget=Budget(rho, clip_norm=clip_norm)), total, margin)
    assert oracles.agrees(
        problem.optimal_error(budget=Budget(rho, clip_norm=clip_norm)),
        oracles.optimal_error(problem, rho, clip_norm),
        margin,
    )
    shares = problem.contributions(noise, budget=Budget(rho, clip_norm=clip_norm))
    assert all(oracles.agrees(share, part, margin) for share, part in zip(shares, parts, strict=True))


def test_accuracy_rejects_false_neighbours() -> None:
    problem, noise = LinearRegression([1.0, 0.2, 1e-3], 0.3, 0.5), NuFTRL(0.01)
    margin = oracles.stability_margin(problem)
    values = [problem.stationary_error(noise), problem.optimal_error()]
    for value, exact in zip(
        values, [oracles.stationary_error(problem, noise), oracles.optimal_error(problem)], strict=True
    ):
        assert oracles.agrees(value, exact, margin)
        assert not oracles.agrees(value * (1 + 1e-6), exact, margin)
        assert not oracles.agrees(value * (1 - 1e-6), exact, margin)
    other = LinearRegression(problem.eigenvalues, 0.3, 0.5, kurtosis=3 + 1e-6)
    assert not oracles.agrees(other.stationary_error(noise), oracles.stationary_error(problem, noise), margin)


def test_a_hundred_thousand_eigenvalues() -> None:
    distinct, copies = np.array([1.0, 0.1, 1e-3, 1e-6]), 25_000
    problem, x = LinearRegression(np.repeat(distinct, copies), 1e-5), [mpf(1e-5) * mpf(float(v)) for v in distinct]
    with workdps(oracles.DIGITS):
        gains = [1 / (1 - v) for v in x]
        margin = 1 - copies * sum(v * g for v, g in zip(x, gains, strict=True)) / 2
        weights = [copies * mpf(float(v)) * (2 - y) * g for v, y, g in zip(distinct, x, gains, strict=True)]
        optimum = (mpf(1e-5) * oracles.root_mean(x, weights)) ** 2 / 8 / margin
        white = mpf(1e-5) / 8 * copies * sum(gains) / margin
    assert oracles.agrees(problem.optimal_error(), optimum, margin)
    assert oracles.agrees(problem.stationary_error(DPSGD()), white, margin)
    assert optimum < problem.stationary_error(NuFTRL(1e-9)) < math.inf


# -- Theorem 2.1, and where the optimum is attained --------------------------------------------------------------------


@given(mean_estimations(), log_uniform(1e-3, 1e3), log_uniform(1e-3, 1e3))
def test_theorem_2_1(problem: MeanEstimation, rho: float, clip_norm: float) -> None:
    eta, s2 = problem.learning_rate, problem.sample_std**2
    budget: dict[str, Any] = {"budget": Budget(rho, clip_norm=clip_norm)}
    with workdps(oracles.DIGITS):
        x, unit = mpf(eta), mpf(clip_norm) ** 2 / (2 * mpf(rho))
        mean = mp.agm(x, 2 - x)
        sgd = x * (unit + s2) / (2 * (2 - x))
        optimum = x**2 * unit / (2 * mean**2) + x * s2 / (2 * (2 - x))
    margin = 1 - eta / 2
    assert oracles.agrees(problem.stationary_error(DPSGD(), **budget), sgd, margin)
    assert oracles.agrees(problem.optimal_error(**budget), optimum, margin)
    assert oracles.agrees(problem.stationary_error(NuFTRL(eta), **budget), optimum, margin)
    assert not oracles.agrees(problem.optimal_error(**budget), 2 * optimum, margin)  # without the ½ of F
    assert LinearRegression([1.0], eta, problem.sample_std, kurtosis=1.0).optimal_error() == problem.optimal_error()


# -- stability ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eigenvalues", [[1.0], [1.0, 1.0], [1.0, 0.3], [0.2, 1e-6]])
@pytest.mark.parametrize("law", oracles.LAWS)
def test_stability_is_that_of_the_second_moments(law: str, eigenvalues: list[float]) -> None:
    laws = oracles.LAWS[law][: len(eigenvalues)]
    k = np.array([oracles.kurtosis(one) for one in laws])
    edge = oracles.stable_edge(np.array(eigenvalues), k)
    for factor in (0.3, 0.9, 1 - 1e-5, 1 + 1e-5, 1.1, 3.0):
        problem = LinearRegression(eigenvalues, edge * factor, kurtosis=k)
        moments = oracles.second_moment_map(oracles.white(eigenvalues, edge * factor), laws)
        stable = bool(np.abs(np.linalg.eigvals(moments)).max() < 1)
        assert stable == (problem.instability() < 1) == (factor < 1)
        assert math.isfinite(problem.stationary_error(DPSGD())) == math.isfinite(problem.optimal_error()) == stable


def test_rates_beyond_one_are_stable_for_constant_squares() -> None:
    """Kurtosis 1 with ηλ in (1, 2): a test of ηλ < 1, right for Gaussian inputs, would refuse a stable problem."""
    problem = LinearRegression([1.0, 0.3], 1.4, 0.5, kurtosis=1.0)
    assert problem.rates[0] > 1
    assert problem.instability() == pytest.approx(0.91)
    long = oracles.full_matrix_curve(oracles.white([1.0, 0.3], 1.4, 0.5), np.ones(2), 2000)[-1]
    assert problem.stationary_error(DPSGD(), budget=Budget(0.5)) == pytest.approx(long, rel=1e-12)
    gaussian = LinearRegression([1.0, 0.3], 1.4, 0.5)
    assert gaussian.instability() == gaussian.stationary_error(DPSGD()) == math.inf


@pytest.mark.parametrize("eta", [2.0, 2.5, 1e6, 1e300])
def test_unstable_learning_rates(eta: float) -> None:
    for problem in (MeanEstimation(eta), LinearRegression([1.0, 0.5], eta), LinearRegression([1.0], eta, kurtosis=1)):
        assert problem.stationary_error(NuFTRL(0.5)) == problem.optimal_error() == math.inf
        assert (problem.contributions(NuFTRL(0.5)) == math.inf).all()
        assert problem.upper_bound(NuFTRL(0.5)) == problem.lower_bound() == problem.lower_bound(DPSGD()) == math.inf
    curve = LinearRegression([1.0, 0.5], eta).learning_curve(NuFTRL(0.5), 1000, initial_offset=1.0)
    assert curve[-1] == math.inf or eta == 2.0
    assert (np.diff(curve[np.isfinite(curve)]) > 0).all()


# -- learning curves ---------------------------------------------------------------------------------------------------


def turned(angle: float) -> Array:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


@pytest.mark.parametrize("eta", [0.05, 0.8, 1.3, 1e4])  # rates up to 0.1, 1.6, 2.6 and 2e4
@pytest.mark.parametrize("law", oracles.LAWS)
def test_learning_curve_by_enumeration(law: str, eta: float) -> None:
    laws, steps, horizon = oracles.LAWS[law], 3, 5
    beta, offset = np.array([1.0, -0.6, 0.3, -0.2]), np.array([0.7, -1.2])
    noise_std = 1.5 * oracles.sensitivity(beta, horizon) / math.sqrt(2 * 0.3)
    run = oracles.Run(np.array([2.0, 0.3]), eta, 0.4, beta, noise_std, offset, turned(0.4))
    k = np.array([oracles.kurtosis(one) for one in laws])
    problem = LinearRegression(run.eigenvalues, eta, 0.4, kurtosis=k)
    curve = problem.learning_curve(
        FiniteNoise(beta),
        steps,
        participation=Participation.single(horizon),
        budget=Budget(0.3, clip_norm=1.5),
        initial_offset=offset,
    )
    exact = oracles.enumerated_curve(run, laws, steps)
    assert curve == pytest.approx(exact, rel=1e-13)
    assert oracles.full_matrix_curve(run, k, steps) == pytest.approx(exact, rel=1e-12)
    wrong = LinearRegression(run.eigenvalues, eta, 0.4, kurtosis=k + 1e-6)
    mutant = wrong.learning_curve(
        FiniteNoise(beta),
        steps,
        participation=Participation.single(horizon),
        budget=Budget(0.3, clip_norm=1.5),
        initial_offset=offset,
    )
    assert mutant != pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("seed", range(6))
def test_learning_curve_and_its_limit_by_the_full_matrix(seed: int) -> None:
    rng = np.random.default_rng([97, seed])
    d, k = int(rng.integers(1, 4)), rng.uniform(1, 5, 4)
    eigenvalues, k = rng.uniform(0.1, 1, d), k[:d]
    eta, beta = 0.7 * oracles.stable_edge(eigenvalues, k), np.array([1, *rng.uniform(-0.25, 0.25, 3)])
    basis, offset = np.linalg.qr(rng.normal(size=(d, d)))[0], rng.normal(size=d)
    noise, problem = FiniteNoise(beta), LinearRegression(eigenvalues, eta, 0.6, kurtosis=k)
    run = oracles.Run(eigenvalues, eta, 0.6, beta, oracles.sensitivity(beta, 200) / math.sqrt(2), offset, basis)
    exact = oracles.full_matrix_curve(run, k, 2000)
    assert problem.learning_curve(noise, 2000, initial_offset=offset) == pytest.approx(exact, rel=1e-12)
    assert problem.stationary_error(noise) == pytest.approx(exact[-1], rel=1e-12)
    assert problem.stationary_error(noise) * (1 + 1e-6) != pytest.approx(exact[-1], rel=1e-12)


@pytest.mark.parametrize("k", [1.0, 1.8, 3.0])
@pytest.mark.parametrize("x", [1e-9, 1e-6, 1e-4, 0.6])
def test_long_runs_lose_no_digits(x: float, k: float) -> None:
    """One direction, independent noise: v_t = v_∞ + (v_0 − v_∞) rᵗ with r = 1 − 2x + k x²."""
    steps, offset = 2_000_000, 30.0
    curve = LinearRegression([1.0], x, 2.0, kurtosis=k).learning_curve(DPSGD(), steps, initial_offset=offset)
    with workdps(oracles.DIGITS):
        contraction = mpf(x) * (2 - k * mpf(x))
        limit = mpf(x) ** 2 * mpf("4.5") / contraction
        forgotten = -mp.expm1(steps * mp.log1p(-contraction))
        final = (offset**2 + (limit - offset**2) * forgotten) / 2
    assert curve.shape == (steps + 1,)
    assert oracles.agrees(curve[-1], final)
    assert not oracles.agrees(curve[-1] * (1 + 1e-6), final)


@pytest.mark.parametrize("k", [1.0, 3.0])
@pytest.mark.parametrize("x", [1e-9, 1e-5, 0.02, 0.6, 1.3, 1.9])
def test_learning_curve_of_correlated_noise_to_40_digits(x: float, k: float) -> None:
    """Exact to 1e-13 of the largest error so far."""
    steps, gap = 200, min(x, 1e-4)
    problem = LinearRegression([1.0, 1e-3], x, 0.1, kurtosis=k)
    with workdps(oracles.DIGITS):
        anti, square = [mpf(1), mpf(gap) - 1, *[mpf(0)] * (steps - 2)], [mpf(1)]
        square += [mp.binomial(0.5, t) * (mpf(gap) - 1) ** t for t in range(1, steps)]
    for noise, beta in ((AntiPGD(gap), anti), (NuFTRL(gap), square)):
        variance = noise.sensitivity(Participation.single(steps)) ** 2 / 2
        for offset in (0.0, 1e6):
            curve = problem.learning_curve(
                noise, steps, participation=Participation.single(steps), initial_offset=offset
            )
            exact = oracles.learning_curve(problem, beta, variance, offset)
            scale = np.maximum.accumulate(np.array(exact, dtype=float))
            difference = np.array([float(mpf(float(v)) - e) for v, e in zip(curve, exact, strict=True)])
            assert (np.abs(difference) <= 1e-13 * scale).all()
            assert not (np.abs(difference + 1e-6 * curve) <= 1e-13 * scale).all()


@pytest.mark.parametrize(("noise", "tolerance"), [(AntiPGD(1e-5), 1e-13), (NuFTRL(1e-5), 1e-11)])
def test_millions_of_steps_lose_few_digits(noise: ToeplitzNoise, tolerance: float) -> None:
    problem = LinearRegression([1.0], 1e-5)
    curve, exact = problem.learning_curve(noise, 4_000_000), oracles.stationary_error(problem, noise)
    assert abs(curve[-1] / float(exact) - 1) < tolerance


def test_participation_sets_the_noise() -> None:
    problem, noise = LinearRegression([1.0, 0.1], 0.2), NuFTRL(0.01)
    beta = noise.coefficients(50)
    curves = [problem.learning_curve(noise, 20, participation=Participation.single(h)) for h in (20, 35, 50)] + [
        problem.learning_curve(noise, 20)
    ]
    gammas = [oracles.sensitivity(beta, h) for h in (20, 35, 50)] + [noise.limiting_sensitivity()]
    assert gammas == sorted(set(gammas))
    for curve, gamma in zip(curves, gammas, strict=True):
        assert curve == pytest.approx(curves[0] * (gamma / gammas[0]) ** 2, rel=1e-13)
    assert problem.learning_curve(noise, 50, participation=Participation.single(50))[:21] == pytest.approx(
        curves[2], rel=1e-15
    )
    with pytest.raises(ValueError, match="steps must be at most the 20 of participation, got 21: no more are private"):
        problem.learning_curve(noise, 21, participation=Participation.single(20))


@pytest.mark.parametrize("noise", DIVERGENT)
def test_divergent_sensitivities(noise: ToeplitzNoise) -> None:
    problem = LinearRegression([1.0, 0.1], 0.2, 1.0)
    assert problem.stationary_error(noise) == problem.upper_bound(noise) == problem.lower_bound(noise) == math.inf
    assert (problem.contributions(noise) == math.inf).all()
    assert problem.learning_curve(noise, 3, initial_offset=[1, 2]).tolist() == [0.7, math.inf, math.inf, math.inf]
    assert problem.learning_curve(noise, 0, initial_offset=[1, 2]).tolist() == [0.7]
    run = replace(oracles.white(problem.eigenvalues, 0.2, 1.0), coefficients=noise.coefficients(4))
    gamma = oracles.sensitivity(noise.coefficients(4), 4)
    finite = problem.learning_curve(noise, 3, participation=Participation.single(4), budget=Budget(gamma**2 / 2))
    assert finite == pytest.approx(oracles.full_matrix_curve(run, np.full(2, 3.0), 3), rel=1e-13)


def test_second_moments_stop_at_the_first_overflow() -> None:
    errors = np.zeros(6)
    second_moments.second_moments(np.full(1, 1e100), np.full(1, 3.0), np.ones(6), 1.0, 1.0, 0.0, np.ones(1), errors)
    assert errors[0] == 0.5
    assert errors[1] == pytest.approx(1.5e200, rel=1e-12)  # r = 1 − 2x + 3x²
    assert (errors[2:] == math.inf).all()


# -- derived quantities, records, bad input ----------------------------------------------------------------------------


PROBLEM, NOISE = LinearRegression([1.0, 0.5], 0.1), NuFTRL(0.1)
NOT_POSITIVE: list[Any] = [0, -0.0, -1.0, math.nan, math.inf, -math.inf]
NO_NUMBER: list[Any] = ["1", None, True, 1j, [0.1], object()]
BAD: list[tuple[str, Callable[[Any], object], list[Any], list[Any]]] = [
    ("learning_rate", lambda v: LinearRegression([1.0], v), NOT_POSITIVE, NO_NUMBER),
    ("learning_rate", lambda v: MeanEstimation(v), NOT_POSITIVE, NO_NUMBER),
    ("learning_rate × eigenvalues", lambda v: LinearRegression([1.0, v], v), [1e-160, 1e160], []),
    ("learning_rate × eigenvalues", lambda v: MeanEstimation(v), [5e-324, 1e308], []),
    ("eigenvalues", lambda v: LinearRegression([1.0, v], 0.1), NOT_POSITIVE, ["1", None, 1j, object()]),
    ("eigenvalues", lambda v: LinearRegression(v, 0.1), [[], 1.0, [[1.0]]], ["1", None, [True]]),
    ("residual_std", lambda v: LinearRegression([1.0], 0.1, v), NOT_POSITIVE[2:], NO_NUMBER),
    ("sample_std", lambda v: MeanEstimation(0.1, v), NOT_POSITIVE[2:], NO_NUMBER),
    ("kurtosis", lambda v: LinearRegression([1.0, 0.5], 0.1, kurtosis=v), [0.999, math.nan, math.inf], ["3", None, 1j]),
    (
        "kurtosis",
        lambda v: LinearRegression([1.0, 0.5], 0.1, kurtosis=v),
        [[3.0], [3, 0.5], [[3.0, 3.0]]],
        [[True, True]],
    ),
    ("steps", lambda v: PROBLEM.learning_curve(NOISE, v), [-1], [1.5, "3", None, True, math.nan]),
    (
        "participation",
        lambda v: PROBLEM.learning_curve(NOISE, 3, participation=v),
        [Participation.single(2), Participation.min_sep(2, 1)],
        [3, 3.0, "3", None],
    ),
    ("initial_offset", lambda v: PROBLEM.learning_curve(NOISE, 3, initial_offset=v), [math.nan, math.inf], ["1", 1j]),
    (
        "initial_offset",
        lambda v: PROBLEM.learning_curve(NOISE, 3, initial_offset=v),
        [[], [1.0], np.ones((2, 1))],
        [None],
    ),
    *(
        ("noise", method, [], ["NuFTRL(0.1)", 0.1, NuFTRL, [1.0]])
        for method in (
            PROBLEM.stationary_error,
            PROBLEM.contributions,
            PROBLEM.upper_bound,
            PROBLEM.lower_bound,
            lambda noise: PROBLEM.learning_curve(noise, 3),
        )
    ),
]


@pytest.mark.parametrize(("name", "call", "values", "types"), BAD)
def test_bad_input_is_named(name: str, call: Callable[[Any], object], values: list[Any], types: list[Any]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=name):
            call(value)
    for value in types:
        with pytest.raises(TypeError, match=name):
            call(value)
