"""The optimum of quadratic problems against formula E3 at 45 digits, perturbations, and minimisation by brute force."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from mpmath import mp, mpf
from scipy.optimize import minimize

from corrnoise.solvers import optimal_noise as module
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL, ProductNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation, QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from tests import problem_oracles as oracles
from tests.strategies import mean_estimations, regressions

SMALL = [
    LinearRegression([1, 0.3], 0.2),
    LinearRegression([1, 1e-6], 0.1),
    LinearRegression([1, 1e-7, 1e-3], 0.3, kurtosis=1),
    LinearRegression([1, 1 - 1e-9, 0.1], 0.05, residual_std=2.0),
    LinearRegression([1.3, 0.2, 1e-3], 1.0, kurtosis=1),  # a rate above 1
    LinearRegression([1, 0.4, 0.05], 1.0, kurtosis=[1, 1.8, 3]),  # a rate of exactly 1
    LinearRegression([1.9, 0.05], 1.0, kurtosis=1),
]

DECADES = np.random.default_rng(1).uniform(-12, 0, 300)
EXTREME = {
    "one": ([0.7], 0.3),
    "1/k": (1 / np.arange(1, 129.0), 0.02),
    "k^-5": (np.arange(1, 65.0) ** -5, 0.1),
    "(1, 1e-6)": ([1, 1e-6], 0.1),
    "(1, 1e-50)": ([1, 1e-50], 0.3),
    "300 in twelve decades": (10**DECADES, 0.5 / (10**DECADES).sum()),
    "cluster": (1 - 1.2e-16 * np.arange(9), 0.05),
    "clusters": (np.outer([1, 1e-3, 1e-9], 1 + 1e-15 * np.arange(7)).ravel(), 0.04),
    "equal but for two": (np.concatenate([np.ones(50), [1e-3, 1e-7]]), 0.01),
    "501": (np.arange(1, 502.0) ** -2, 0.1),
    "2000": (1 / np.arange(1, 2001.0), 0.01),
    "2000 in clusters": (np.outer([1, 1e-4], 1 + 1e-14 * np.arange(1000)).ravel(), 2e-4),
}


def excess(problem: QuadraticProblem, noise: ProductNoise) -> float:
    """Relative excess of the stationary error over the minimum, at 45 digits."""
    with mp.workdps(45):
        return float(oracles.stationary_error(problem, noise) / oracles.optimal_error(problem) - 1)


# -- it is the minimum -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("problem", SMALL, ids=repr)
def test_it_is_the_minimum_at_45_digits(problem):
    """Errors of 1e-15 in the gaps are errors of 1e-30 or so in the value, which falsified noise exceeds by far."""
    noise = optimal_noise(problem)
    assert -1e-40 <= excess(problem, noise) <= 1e-28
    assert excess(problem, ProductNoise(noise.gaps, noise.exponents * (1 + 2e-3))) > 1e-10
    moved = np.where(noise.exponents < 0, noise.gaps * (1 + 1e-5), noise.gaps)
    assert excess(problem, ProductNoise(moved, noise.exponents)) > 1e-20


@pytest.mark.parametrize("name", EXTREME)
def test_extreme_spectra(name):
    problem = LinearRegression(*EXTREME[name])
    noise = optimal_noise(problem)
    assert problem.stationary_error(noise) / problem.optimal_error() == pytest.approx(1, rel=0, abs=1e-13)
    assert (noise.coefficients(300)[1:] < 0).all()


@given(regressions(kurtosis=None) | mean_estimations())
def test_random_problems(problem):
    noise = optimal_noise(problem)
    margin = 1 - problem.instability()
    assert problem.stationary_error(noise) / problem.optimal_error() == pytest.approx(1, rel=0, abs=1e-13 / margin)


@pytest.mark.parametrize("problem", SMALL[:5], ids=repr)
def test_no_perturbation_wins(problem):
    """Factors are added and exponents changed at random; the excess is second order, and for none of them 0."""
    noise, rng = optimal_noise(problem), np.random.default_rng(2)
    best = problem.optimal_error()
    largest = 0.0
    for size in 10.0 ** rng.uniform(-3, 0, 60):
        gaps = 10 ** rng.uniform(math.log10(problem.rates.min()) - 1, 0.3, 3)
        exponents = np.concatenate(
            [noise.exponents + size * rng.normal(size=noise.gaps.size) / 9, size * rng.normal(size=3)]
        )
        perturbed = ProductNoise(np.concatenate([noise.gaps, np.minimum(gaps, 1.99)]), exponents)
        error = problem.stationary_error(perturbed) / best - 1
        assert error > -1e-13
        largest = max(largest, error)
    assert largest > 0.01


def test_brute_force():
    """Minimising over 30 free coefficients, with sensitivities from the series itself, ends at the same noise."""
    problem = LinearRegression([1, 0.55], 0.6, kurtosis=1)
    taps, length = 30, 90
    contraction = 1 - problem.rates
    lags = np.abs(np.subtract.outer(np.arange(taps + 1), np.arange(taps + 1)))
    weight = sum(c**lags for c in contraction)  # the gains are 1

    def error(free: Array) -> float:
        beta = np.concatenate([[1.0], free])
        series = np.zeros(length)
        series[0] = 1
        for t in range(1, length):
            reach = min(t, taps)
            series[t] = -beta[1 : reach + 1] @ series[t - reach : t][::-1]
        return float(series @ series * (beta @ weight @ beta))

    found = minimize(error, np.zeros(taps), method="BFGS", options={"gtol": 1e-7, "maxiter": 500})
    noise = optimal_noise(problem)
    np.testing.assert_allclose(found.x, noise.coefficients(taps + 1)[1:], atol=2e-6)
    least = noise.limiting_sensitivity() ** 2 * noise.averaged_variance(problem.rates).sum()
    assert -1e-13 < found.fun / least - 1 < 1e-9
    assert problem.stationary_error(FiniteNoise(np.concatenate([[1.0], found.x]))) >= problem.optimal_error()
    assert np.abs(found.x - NuFTRL(0.45).coefficients(taps + 1)[1:]).max() > 1e-3


# -- its form ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", SMALL, ids=repr)
def test_the_spectrum_is_the_root_of_the_inverse(problem):
    """|B|⁴ h̃ is constant."""
    frequencies = np.concatenate([[0.0], np.geomspace(1e-14, math.pi, 200)])
    x, k = problem.rates[:, np.newaxis], np.broadcast_to(problem.kurtosis, problem.rates.size)[:, np.newaxis]
    s, c = np.sin(frequencies / 2), np.cos(frequencies / 2)
    h = (x * (2 - x) / (1 - (k - 1) * x / 2) / ((x * c) ** 2 + ((2 - x) * s) ** 2)).sum(axis=0)
    constant = optimal_noise(problem).power_spectrum(frequencies) ** 2 * h
    np.testing.assert_allclose(constant, constant[0], rtol=1e-13)
    other = NuFTRL(problem.rates.min()).power_spectrum(frequencies) ** 2 * h
    assert other.max() > 1.001 * other.min()


@pytest.mark.parametrize("problem", SMALL, ids=repr)
def test_zeros_are_zeros_of_the_spectrum(problem):
    """At 60 digits h̃ changes its sign within 2e-15 of each, relatively."""
    noise = optimal_noise(problem)
    kurtosis = np.broadcast_to(problem.kurtosis, problem.rates.size)

    def spectrum(a: mpf) -> mpf:
        pairs = [(mpf(float(x)), mpf(float(k))) for x, k in zip(problem.rates, kurtosis, strict=True)]
        return mp.fsum(x * (2 - x) / (1 - (k - 1) * x / 2) / ((x - a) * (x + a - x * a)) for x, k in pairs)

    with mp.workdps(60):
        for a in map(mpf, noise.gaps[noise.exponents < 0].tolist()):
            assert spectrum(a * (1 - mpf(2e-15))) < 0 < spectrum(a * (1 + mpf(2e-15)))


def test_rate_one_is_independent_noise():
    assert optimal_noise(MeanEstimation(1.0)).gaps.size == DPSGD().gaps.size == 0


def test_mean_estimation_beyond_one():
    problem = MeanEstimation(1.7, 0.3)
    noise = optimal_noise(problem)
    assert noise == NuFTRL(1.7)
    assert problem.stationary_error(noise) == pytest.approx(problem.optimal_error(), rel=1e-13)
    assert noise.coefficients(2)[1] > 0  # negative coefficients are a property of rates up to 1


def test_coefficients_by_recursion():
    """n β_n = ½ Σ_m (Σ_k z_kᵐ − Σ_j c_jᵐ) β_{n−m}, at 40 digits."""
    problem = LinearRegression([1, 0.3, 0.02], 0.1)
    noise = optimal_noise(problem)
    with mp.workdps(40):
        roots = [(1 - mpf(float(a)), mpf(float(e))) for a, e in zip(noise.gaps, noise.exponents, strict=True)]
        powers = [-mp.fsum(e * r**m for r, e in roots) for m in range(60)]
        beta = [mpf(1)]
        for n in range(1, 60):
            beta.append(mp.fsum(powers[m] * beta[n - m] for m in range(1, n + 1)) / n)
    np.testing.assert_allclose(noise.coefficients(60), np.array(beta, dtype=float), rtol=1e-15)


# -- invariances -------------------------------------------------------------------------------------------------------


def test_equal_rates_of_different_kurtosis():
    """Their weights add up: mpmath's optimum knows nothing of merging."""
    problem = LinearRegression([0.5, 0.5, 0.1], 0.5, kurtosis=[1, 6, 3])
    assert optimal_noise(problem).gaps.size == 3
    assert -1e-40 <= excess(problem, optimal_noise(problem)) <= 1e-28


# -- many rates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kurtosis", [1.0, 3.0])
def test_many_rates_are_condensed_without_loss(kurtosis, monkeypatch):
    spectrum = 10 ** np.random.default_rng(3).uniform(-8, 0, 900)
    problem = LinearRegression(spectrum, 1.2 / spectrum.sum(), kurtosis=kurtosis)
    condensed = optimal_noise(problem)
    monkeypatch.setattr(module, "MAX_RATES", 1000)
    full = optimal_noise(problem)
    assert condensed.gaps.size < 0.4 * full.gaps.size == 0.4 * 1799
    np.testing.assert_allclose(condensed.coefficients(500), full.coefficients(500), rtol=1e-12)
    ratio = condensed.power_spectrum(np.geomspace(1e-12, math.pi, 99)) / full.power_spectrum(
        np.geomspace(1e-12, math.pi, 99)
    )
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


# -- other problems, and none ------------------------------------------------------------------------------------------


def test_strongly_convex_problems_get_the_minimiser_of_the_bound(monkeypatch):
    def minimiser(problem, *, budget):
        assert isinstance(problem, StronglyConvex)
        return SimpleNamespace(noise=("minimiser", budget))

    stand_in = SimpleNamespace(minimise_strongly_convex_bound=minimiser)
    monkeypatch.setitem(sys.modules, "corrnoise.solvers.strongly_convex.alternating_minimisation", stand_in)
    budget = Budget(2.0, clip_norm=3.0)
    assert optimal_noise(StronglyConvex(0.1, 1.0, 1.0), budget=budget) == ("minimiser", budget)


@pytest.mark.parametrize(
    "problem",
    [
        MeanEstimation(2.0),
        LinearRegression([1.0], 0.67),
        LinearRegression(np.ones(128), 1 / 65),
        LinearRegression([1.0, 0.1], 0.1, kurtosis=30),
    ],
    ids=repr,
)
def test_unstable_problems_are_refused(problem):
    with pytest.raises(ValueError, match=r"learning_rate must be stable.* got .* every noise has an infinite error"):
        optimal_noise(problem)
    stable = type(problem)(**{**problem.arguments(), "learning_rate": problem.learning_rate / 4})
    assert math.isfinite(stable.stationary_error(optimal_noise(stable)))


def test_bad_arguments():
    for other in (None, 0.1, NuFTRL(0.1)):
        with pytest.raises(TypeError, match="problem must be MeanEstimation, LinearRegression or StronglyConvex, got"):
            optimal_noise(other)
