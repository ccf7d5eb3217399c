"""Clip norms against quadrature, and runs with clipping against another simulator."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import toeplitz
from scipy.optimize import brentq
from scipy.special import k0
from scipy.stats import beta as beta_distribution
from scipy.stats import norm

from corrnoise.simulations.clip_norm_study import clipping_study, unclipped_clip_norm
from corrnoise.simulations.quadratic import simulate_learning_curve
from corrnoise.theory.correlated_noise.finite_time import FiniteRun
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.participation import ANY_LENGTH
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression

SCALAR = LinearRegression([1.0], learning_rate=0.5, residual_std=1.0)
SPECTRUM = LinearRegression(1 / np.arange(1.0, 6.0), learning_rate=0.05, residual_std=0.3)


def run_of(problem, steps, p, rho=1.0, offset=0.0):
    return FiniteRun(problem, steps, p, offset, Budget(rho))


def matrix(noise, steps):
    return toeplitz(noise.coefficients(steps), np.zeros(steps))


# -- the clip norm -----------------------------------------------------------------------------------------------------


def two_step_failure(clip_norm: float, noise_std: float) -> float:
    """P(a gradient of two steps exceeds G) for d = λ = s = 1, η = ½, θ_0 = θ* and noise N(0, ``noise_std``²) at step 0.

    The first gradient is v = x ξ up to its sign, with density K_0(|v|)/π; given v and the next input x, the next one is
    x times a normal variable with mean x v/2 and variance 1 + x² ``noise_std``²/4.
    """
    nodes, weights = np.polynomial.legendre.leggauss(80)
    u, x = (nodes + 1) / 2, 4 * (nodes + 1)
    v, dv = clip_norm * u**3, 3 * clip_norm * u**2 * weights / 2  # the power removes the logarithm at 0
    std = np.sqrt(1 + (x * noise_std / 2) ** 2)
    centre = np.multiply.outer(v, x / 2)
    inside = norm.cdf((clip_norm / x - centre) / std) - norm.cdf((-clip_norm / x - centre) / std)
    return float(1 - 4 * (dv * k0(v) / np.pi) @ inside @ (4 * weights * norm.pdf(x)))


def one_step_quantile(p: float) -> float:
    """The G with P(|x ξ| > G) = p."""
    return float(brentq(lambda g: 1 - p - 2 * quad(lambda v: k0(v) / math.pi, 0, g)[0], 0.1, 20))


def test_clip_norm_of_one_step_is_a_quantile():
    found = unclipped_clip_norm(run_of(SCALAR, 1, 0.1), DPSGD(), chains=20_000, rng=1)
    exact, wrong = one_step_quantile(0.1), one_step_quantile(0.12)
    assert found.lower_bound < exact < found.clip_norm < 1.08 * exact
    assert not found.lower_bound < wrong < found.clip_norm


@pytest.mark.parametrize("noise", [DPSGD(), AntiPGD(0.5)])
def test_clip_norm_of_two_steps_solves_the_fixed_point(noise):
    assert abs(two_step_failure(200.0, 0.0)) < 1e-8  # the oracle is normalised
    p, rho = 0.1, 1.0
    found = unclipped_clip_norm(run_of(SCALAR, 2, p, rho), noise, chains=10_000, rng=2)
    gamma = np.linalg.norm(np.linalg.inv(matrix(noise, 2)), axis=0).max()
    multiplier = gamma / math.sqrt(2 * rho)
    excess = lambda g, std: two_step_failure(g, std * g) - p  # noqa: E731
    fixed_point = lambda std: brentq(excess, 1, 1e3, (std,)) if excess(1e3, std) < 0 else math.inf  # noqa: E731
    assert found.lower_bound < fixed_point(multiplier) < found.clip_norm < 1.3 * fixed_point(multiplier)
    for factor in (0.0, 0.8, 1.2):
        assert not found.lower_bound < fixed_point(factor * multiplier) < found.clip_norm


@pytest.mark.parametrize(("rho", "exists"), [(0.3, False), (0.5, False), (0.65, True), (2.0, True)])
def test_no_clip_norm_exists_where_the_noise_alone_exceeds_it(rho, exists):
    # As G → ∞: P(x² |w|/(2 sqrt(2ρ)) > 1).
    alone = 4 * quad(lambda x: norm.sf(2 * math.sqrt(2 * rho) / x**2) * norm.pdf(x), 1e-9, 12)[0]
    assert (alone < 0.1) == exists
    found = unclipped_clip_norm(run_of(SCALAR, 2, 0.1, rho), DPSGD(), chains=100_000, rng=3)
    assert math.isfinite(found.lower_bound) == math.isfinite(found.clip_norm) == exists


def test_clip_norm_is_where_the_binomial_bound_of_failures_crosses_p():
    p, chains = 0.1, 400
    run = run_of(SPECTRUM, 60, p, 20.0, 0.5)
    found = unclipped_clip_norm(run, NuFTRL(0.01), chains=chains, rng=4)

    def failures(clip_norm):
        study = clipping_study(run, NuFTRL(0.01), [clip_norm], chains=chains, rng=4)
        return round(chains * (1 - study.unclipped_runs[0]))

    upper = lambda k: beta_distribution.ppf(found.confidence, k + 1, chains - k)  # noqa: E731
    lower = lambda k: beta_distribution.ppf(1 - found.confidence, k, chains - k + 1)  # noqa: E731
    assert upper(failures(found.clip_norm * (1 + 1e-9))) <= p < upper(failures(found.clip_norm * (1 - 1e-9)))
    assert lower(failures(found.lower_bound * (1 + 1e-9))) <= p < lower(failures(found.lower_bound * (1 - 1e-9)))
    assert found.theorem_clip_norm == run.theorem_d13_clip_norm(constant=4.0)
    assert found.theorem_clip_norm > 10 * found.clip_norm


def test_confidence_is_kept():
    exact, tries, confidence = one_step_quantile(0.1), 300, 0.8

    def misses(level):
        runs = [
            unclipped_clip_norm(run_of(SCALAR, 1, 0.1), DPSGD(), chains=150, rng=k, confidence=level)
            for k in range(tries)
        ]
        return sum(r.clip_norm < exact for r in runs), sum(r.lower_bound > exact for r in runs)

    allowed = (1 - confidence) * tries + 4.8 * math.sqrt(tries * confidence * (1 - confidence))  # false alarm < 1e-6
    assert max(misses(confidence)) <= allowed
    assert max(misses(0.5)) > allowed


def test_too_few_chains_nothing_to_clip_and_runs_that_diverge():
    with pytest.raises(ValueError, match="chains must be an integer >= 135 for this p and confidence, got 134"):
        unclipped_clip_norm(run_of(SCALAR, 1, 0.05), DPSGD(), chains=134, rng=0)
    assert math.isfinite(unclipped_clip_norm(run_of(SCALAR, 1, 0.05), DPSGD(), chains=135, rng=0).clip_norm)
    calm = LinearRegression([1.0], 0.1)
    assert unclipped_clip_norm(run_of(calm, 20, 0.1, 1e4), DPSGD(), chains=100, rng=6).clip_norm == 0
    wild = LinearRegression([1.0], 1e3, 1.0)
    assert unclipped_clip_norm(run_of(wild, 400, 0.1), DPSGD(), chains=100, rng=6).lower_bound == math.inf


# -- what clipping does ------------------------------------------------------------------------------------------------


def test_study_agrees_with_the_simulator():
    limits, noise = [0.3, 1.0, 3.0], NuFTRL(0.02)
    run = run_of(SPECTRUM, 80, 0.5, 2.0, 1.0)
    study = clipping_study(run, noise, limits, chains=1500, rng=7)
    setting = {"chains": 1500, "points": 81, "participation": run.participation, "clip": True, "rng": 8}
    for k, limit in enumerate(limits):
        budget = run.budget_at(limit)
        curve = simulate_learning_curve(SPECTRUM, noise, 81, budget=budget, initial_offset=1.0, **setting)
        spread = 5 * math.hypot(curve.standard_error[80], study.standard_error[k])
        assert abs(curve.mean[80] - study.excess_loss[k]) < spread
        assert abs(curve.mean[72] - study.excess_loss[k]) > spread or limit == 3.0
    assert (np.diff(study.clipped_fraction) < 0).all()
    assert study.clipped_fraction[0] > 0.3


def test_without_clipping_the_loss_is_exact():
    run, noise = run_of(SPECTRUM, 40, 0.5, 1e3, 1.0), NuFTRL(1e-6)
    study = clipping_study(run, noise, [5e3], chains=4000, rng=9)
    assert (study.clipped_fraction[0], study.unclipped_runs[0]) == (0, 1)
    assert abs(study.excess_loss[0] - study.exact_excess_loss[0]) < 5 * study.standard_error[0]
    exact, limiting = (
        SPECTRUM.learning_curve(noise, 40, budget=run.budget_at(5e3), participation=who, initial_offset=1.0)[-1]
        for who in (run.participation, ANY_LENGTH)
    )
    assert study.exact_excess_loss[0] == exact
    assert abs(study.excess_loss[0] - limiting) > 5 * study.standard_error[0]


BAD_RUNS = {
    "run": [run_of(LinearRegression([1.0], 0.1, kurtosis=1.0), 2, 0.5)],
    "noise": [0.1],
    "chains": [0],
    "clip_norms": [[], [0.0], [math.nan], [[1.0]]],
}


@pytest.mark.parametrize("name", BAD_RUNS)
def test_bad_arguments_of_model_runs(name):
    for value in BAD_RUNS[name]:
        arguments = {"run": run_of(SCALAR, 2, 0.5), "noise": DPSGD(), "chains": 100, "clip_norms": [1.0], name: value}
        with pytest.raises((TypeError, ValueError), match=f"{name}|kurtosis"):
            clipping_study(**arguments)
