"""Problems, bounds and their tuning: the numbers of ``numbers.json``, which an earlier vocabulary gave."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.figures import paper_figure
from corrnoise.simulations.quadratic import simulate
from corrnoise.solvers import tuning
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.spectral_factorisation import noise_from_power_spectrum
from corrnoise.solvers.strongly_convex.alternating_minimisation import minimise_strongly_convex_bound
from corrnoise.solvers.strongly_convex.bound import strongly_convex_bound, strongly_convex_certificate
from corrnoise.theory.correlated_noise import finite_time, published_bounds, table_rates
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex

NUMBERS = json.loads((Path(__file__).parent / "numbers.json").read_text(encoding="utf-8"))
REGRESSION = LinearRegression([1.0, 0.5, 0.1], 0.1, residual_std=0.3)
PROBLEMS = {
    "LinearRegression([1, .5, .1], .1, .3)": REGRESSION,
    "LinearRegression([1, .5, .1], .1, .3, batch 4, kurtosis 2)": LinearRegression(
        [1.0, 0.5, 0.1], 0.1, residual_std=0.3, batch_size=4, kurtosis=2.0
    ),
    "MeanEstimation(.1, .5)": MeanEstimation(0.1, 0.5),
    "LinearRegression(1/k, 128, .02)": LinearRegression(1 / np.arange(1, 129), learning_rate=0.02),
}
NOISES = {
    "DPSGD": DPSGD(),
    "AntiPGD(0.1)": AntiPGD(0.1),
    "NuFTRL(0.01)": NuFTRL(0.01),
    "PoleNoise([0.01, 0.2], [0.1, 0.5])": PoleNoise([0.01, 0.2], [0.1, 0.5]),
}
ONCE = Participation.single(200)
APART = Participation.min_sep(400, 100, 4)


def agrees(section: str, key: str, found: Any, rel: float = 1e-12) -> None:
    assert np.ravel(found).tolist() == pytest.approx(np.ravel(NUMBERS[section][key]).tolist(), rel=rel, abs=0), key


@pytest.mark.parametrize("name", PROBLEMS)
def test_errors(name: str) -> None:
    p = PROBLEMS[name]
    for label, noise in NOISES.items():
        agrees("problems", f"{name}/{label}/stationary_error", p.stationary_error(noise))
        apart = p.stationary_error(noise, budget=Budget(0.5, clip_norm=2.0), participation=APART)
        agrees("problems", f"{name}/{label}/stationary_error, min-sep, ρ=.5, G=2", apart)
        curve = p.learning_curve(noise, 200, budget=Budget(0.5), participation=ONCE, initial_offset=0.3)
        agrees("problems", f"{name}/{label}/learning_curve(200)[[1, 10, 200]]", curve[[1, 10, -1]])
    agrees("problems", f"{name}/optimal_error", p.optimal_error())
    agrees("problems", f"{name}/lower_bound", p.lower_bound())
    agrees("problems", f"{name}/effective_dimension, instability", [p.effective_dimension(), p.instability()])
    for when in ("last", "second half"):
        objective = LearningObjective(p, 64, weights=when)
        error = objective.privacy_error(NuFTRL(0.01), Participation.single(64))
        found = [error, objective.sampling_error(), objective.initial_error(0.3)]
        agrees(
            "problems", f"{name}/LearningObjective(64, {when}): privacy error of NuFTRL(0.01), sampling, initial", found
        )


def test_bounds() -> None:
    noise, nu = NuFTRL(0.01), NuFTRL(0.0255)
    losses, small = StronglyConvex(0.01, 1.0, 0.5), StronglyConvex(0.1, 1.0, 0.5)
    bound = "StronglyConvex(.01, 1, .5)/strongly_convex_bound"
    agrees("problems", f"{bound}(DPSGD)", strongly_convex_bound(losses, DPSGD()), 1e-9)
    agrees("problems", f"{bound}(NuFTRL(.0255))", strongly_convex_bound(losses, nu), 1e-9)
    key = "StronglyConvex(.01, 1, .5)/circle, independent, worst quadratic"
    found = [losses.independent_noise_upper_bound(), losses.worst_quadratic_error(nu)]
    assert found == pytest.approx(NUMBERS["problems"][key][1:], rel=1e-12)
    least = minimise_strongly_convex_bound(small).bound
    agrees("problems", "StronglyConvex(.1, 1, .5)/minimise_strongly_convex_bound", least, 1e-9)
    certificate = strongly_convex_certificate(small, NuFTRL(0.1))
    pair = [certificate.value, certificate.upper_bound]
    agrees("problems", "StronglyConvex(.1, 1, .5)/certificate(NuFTRL(.1)) (value, upper)", pair, 1e-9)
    for name in ("theorem_c14_upper_bound", "theorem_c18_lower_bound"):
        agrees("problems", f"{name}(reg, NuFTRL(.01))", getattr(published_bounds, name)(REGRESSION, noise))
    agrees("problems", "dp_sgd_error_bounds(reg)", published_bounds.dp_sgd_error_bounds(REGRESSION))
    agrees("problems", "lower_bound_rate(reg)", table_rates.lower_bound_rate(REGRESSION))
    curve = finite_time.theorem_d11_upper_bound(REGRESSION, noise, [10, 100], 1.0)
    agrees("problems", "theorem_d11_upper_bound(reg, NuFTRL(.01), [10, 100], 1)", curve)


def test_a_simulation() -> None:
    problem = LinearRegression(1 / np.arange(1, 9), learning_rate=0.1)
    run = simulate(problem, NuFTRL(0.1 / 8), steps=2000, chains=4, rng=1, threads=1, progress=False)
    key = "simulate(1/k, 8, .1; NuFTRL(.0125), 2000 steps, 4 chains, rng 1) (mean, standard error)"
    agrees("problems", key, [run.mean, run.standard_error], 1e-11)


def test_tuning() -> None:
    best = optimal_noise(REGRESSION)
    agrees("solvers", "optimal_noise(reg)/coefficients[:6]", best.coefficients(6))
    agrees("solvers", "optimal_noise(reg)/limiting_sensitivity", best.limiting_sensitivity())
    agrees("solvers", "optimal_noise(reg)/stationary_error", REGRESSION.stationary_error(best))
    agrees("solvers", "best_nu(reg)", tuning.stationary_nu(REGRESSION), 1e-7)
    run = Participation.single(100)
    agrees("solvers", "best_nu(reg, 100 steps)", tuning.stationary_nu(REGRESSION, participation=run), 1e-7)
    agrees("solvers", "best_damping(reg)", tuning.stationary_damping(REGRESSION))
    agrees("solvers", "stability_limit(reg)", tuning.stability_limit(REGRESSION))
    for label in ("DPSGD", "NuFTRL(0.01)"):
        tuned = tuning.best_learning_rate(REGRESSION, ONCE, NOISES[label], initial_offset=0.3, budget=Budget(0.5))
        key = f"best_learning_rate(reg, 200, {label}, offset .3) (rate, error)"
        assert tuned.learning_rate == pytest.approx(NUMBERS["solvers"][key][0], rel=1e-6)
        assert tuned.error == pytest.approx(NUMBERS["solvers"][key][1], rel=1e-11)
    factorised = noise_from_power_spectrum(lambda omega: 1.1 - np.cos(omega))
    key = "noise_from_power_spectrum(1.1 - cos ω)/coefficients[:4]"
    assert factorised.coefficients(4) == pytest.approx(NUMBERS["solvers"][key], rel=1e-12, abs=1e-12)


SLOW = pytest.param("strongly_convex", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", ["mean_estimation", "linear_regression", "learning_curves", SLOW])
def test_figures(name: str) -> None:
    data = paper_figure(name).data()
    sums = [math.fsum(v for series in data for v in getattr(series, axis).tolist()) for axis in "xy"]
    agrees("figures", f"{name}/series, rows", [len(data), sum(series.x.size for series in data)])
    agrees("figures", f"{name}/sum of x, sum of y", sums, 1e-6 if name == "strongly_convex" else 1e-11)
