"""Finite runs: the bound in expectation, decay of noise, clip norms and corollaries by hand; the ledger judges them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.papers.correlated_noise.finite_time import (
    FiniteRun,
    absolute_sum,
    half_expo_constant,
    theorem_d11_upper_bound,
)
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests.strategies import gaps, log_uniform, minimum_phase_coefficients, product_noises

# -- Theorem D.11 ------------------------------------------------------------------------------------------------------


def test_shapes_and_divergent_noise_of_theorem_d11():
    problem = LinearRegression([1.0, 0.1], 0.01)
    assert theorem_d11_upper_bound(problem, DPSGD(), 3, 1.0).shape == ()
    assert theorem_d11_upper_bound(problem, DPSGD(), [[1, 2, 3.5]], 1.0).shape == (1, 3)
    assert (theorem_d11_upper_bound(problem, NuFTRL(0), [0, 1], 1.0) == math.inf).all()
    assert math.isfinite(theorem_d11_upper_bound(MeanEstimation(0.5), DPSGD(), 3, 1.0))
    for bad in ((-1, 1.0), (1, -1.0)):
        with pytest.raises(ValueError, match=r"must lie in \[0, inf\)"):
            theorem_d11_upper_bound(problem, DPSGD(), *bad)


# -- Half-Expo Decay ---------------------------------------------------------------------------------------------------


def definition_d3(coefficients, nu):
    """The largest quotient of the two sides of (70), in 40 digits."""
    with mp.workdps(40):
        root, left, right, largest = mp.sqrt(1 - mp.mpf(nu)), mp.mpf(0), 1 / mp.sqrt(1 - mp.mpf(nu)), mp.mpf(0)
        for beta in coefficients:
            left, right = root * left + abs(mp.mpf(float(beta))), root * right
            largest = max(largest, left / right)
        return float(largest)


@given(product_noises() | minimum_phase_coefficients().map(FiniteNoise), st.floats(0, 0.99), st.integers(1, 40))
def test_half_expo_constant_is_that_of_the_definition(noise, nu, steps):
    expected = definition_d3(noise.coefficients(steps), nu)
    assert half_expo_constant(noise, nu, steps) == pytest.approx(expected, rel=1e-11, abs=0)


@pytest.mark.parametrize(("nu", "expected"), [(1e-6, 1.99929289), (0.1, 1.773468), (0.5, 1.458804)])
def test_half_expo_constant_of_nu_ftrl(nu, expected):
    closed = half_expo_constant(NuFTRL(nu), nu)
    assert closed == pytest.approx(expected, abs=5e-7)
    assert closed == pytest.approx(2 - math.sqrt(1 - math.sqrt(1 - nu)), rel=1e-12, abs=0)
    assert closed <= 2
    assert closed == pytest.approx(
        half_expo_constant(NuFTRL(nu), nu, math.ceil(80 / nu) if nu > 0.01 else 10**7), rel=1e-4
    )


@given(gaps(1e-3), st.floats(0, 1, exclude_max=True))
def test_half_expo_constant_stays_below_two_up_to_its_limit(nu, share):
    limit = nu * (2 - nu)
    closed = half_expo_constant(NuFTRL(nu), share * limit)
    assert 1 - 1e-15 <= closed <= 2
    assert half_expo_constant(NuFTRL(nu), share * limit, 300) <= closed * (1 + 1e-9)
    if 1.01 * limit < 1:
        assert half_expo_constant(NuFTRL(nu), 1.01 * limit) == math.inf


def test_half_expo_decay_fails_beyond_its_limit():
    noise = NuFTRL(0.1)
    assert half_expo_constant(noise, 0.2, 2501) == pytest.approx(2259.20198825, rel=1e-10, abs=0)
    assert half_expo_constant(noise, 0.2, 200_000) == math.inf == half_expo_constant(noise, 0.2)
    # At the limit it converges slowly, long after the coefficients themselves have underflown.
    assert half_expo_constant(noise, 0.1 * 1.9) == pytest.approx(2, abs=1e-7)
    tail = 1 / math.sqrt(math.pi * 200_000)
    assert half_expo_constant(noise, 0.1 * 1.9, 200_000) == pytest.approx(2 - tail, abs=1e-5)


def test_half_expo_constants_of_noise_that_ends():
    assert half_expo_constant(DPSGD(), 0.3) == 1
    assert half_expo_constant(AntiPGD(0.3), 0.2) == pytest.approx(1 + 0.7 / math.sqrt(0.8), rel=1e-14, abs=0)
    assert half_expo_constant(AntiPGD(1.3), 0.2) == pytest.approx(1 + 0.3 / math.sqrt(0.8), rel=1e-14, abs=0)
    assert half_expo_constant(FiniteNoise([1, 0.5, -0.2]), 0.2) == pytest.approx(
        1.25 + 0.5 / math.sqrt(0.8), rel=1e-14, abs=0
    )
    assert half_expo_constant(FiniteNoise([1, 0.5, -0.2]), 0.2, 2) == pytest.approx(
        1 + 0.5 / math.sqrt(0.8), rel=1e-14, abs=0
    )
    assert absolute_sum(ProductNoise([0.5, 0.2], [1, 1])) == pytest.approx(1 + 1.3 + 0.4, rel=1e-14, abs=0)


@pytest.mark.parametrize("nu", [0.0, 1e-6, 0.02, 0.3, 0.9, 1.0, 1.7])
def test_norms_of_the_coefficients_of_nu_ftrl(nu):
    assert absolute_sum(NuFTRL(nu)) == pytest.approx(2 - math.sqrt(min(nu, 2 - nu)), rel=1e-14, abs=0)
    if nu > 0.01:
        assert absolute_sum(NuFTRL(nu)) == pytest.approx(absolute_sum(NuFTRL(nu), 5000), rel=1e-12, abs=0)
        assert absolute_sum(NuFTRL(nu)) != pytest.approx(absolute_sum(NuFTRL(nu)) - 1e-6, rel=1e-7, abs=0)
    with mp.workdps(40):
        m = (1 - mp.mpf(nu)) ** 2
        squares = 2 / mp.pi * (2 * mp.ellipe(m) - ((1 - m) * mp.ellipk(m) if m < 1 else 0))
        assert NuFTRL(nu).averaged_variance(1.0) == pytest.approx(float(squares), rel=1e-14, abs=0)


def test_noise_that_never_ends_needs_a_horizon():
    with pytest.raises(ValueError, match="steps must be an integer >= 1 for noise that never ends"):
        absolute_sum(ProductNoise([0.1], [-0.5]))
    with pytest.raises(ValueError, match=r"nu must lie in \[0, 1\)"):
        half_expo_constant(NuFTRL(0.1), 1.0)
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        half_expo_constant(NuFTRL(0.1), 0.1, 0)


# -- Theorems D.4 and D.13 ---------------------------------------------------------------------------------------------


def with_clip_norm(run, g):
    return replace(run, budget=run.budget_at(g))


@st.composite
def runs(draw, shortest=1e3, longest=1e18):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, 7))
    eigenvalues = np.exp(rng.uniform(-6, 0, d)) * draw(log_uniform(1e-3, 1e3))
    return FiniteRun(
        LinearRegression(eigenvalues, 1e-3 / eigenvalues.sum(), draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))),
        int(draw(log_uniform(shortest, longest))),
        draw(log_uniform(1e-4, 0.99)),
        rng.standard_normal(d) * draw(log_uniform(1e-2, 1e2)),
        Budget(draw(log_uniform(1e-4, 1e4))),
    )


def test_quantities_of_a_run():
    problem = LinearRegression([2.0, 0.5], 0.01, 3.0)
    run = FiniteRun(problem, 100, 0.05, [1.0, -2.0])
    assert run.initial_error == pytest.approx(2.0)
    assert run.initial_distance == pytest.approx(math.sqrt(5))
    assert FiniteRun(problem, 100, 0.05, 3.0).initial_distance == pytest.approx(3 * math.sqrt(2))
    assert run.log_factor == pytest.approx(math.log(2000))
    assert FiniteRun(problem, 1, 0.9, 0.0).log_factor == 1


def test_clip_norm_by_hand():
    """Isotropic in two dimensions: R² = 4.  Each of the three lengths is the largest once."""
    for eta, s, offset, expected in [
        (0.01, 3.0, 1.5, 1.5 * math.sqrt(2)),
        (0.01, 3.0, 0.0, 3 / 2),
        (0.1, 3.0, 1.0, 3 * math.sqrt(0.1 * 4)),
    ]:
        run = FiniteRun(LinearRegression([1.0, 1.0], eta, s), 100, 0.05, offset)
        expected *= 5 * 4 * math.log(2000) ** 2.5
        assert run.theorem_d13_clip_norm(constant=5.0) == pytest.approx(expected, rel=1e-13, abs=0)
        assert run.theorem_d13_clip_norm(constant=5.0) != pytest.approx(
            expected / math.log(2000) ** 0.1, rel=1e-3, abs=0
        )


def test_learning_rate_limit_by_hand():
    run = FiniteRun(LinearRegression([1.0, 1.0], 0.01), 100, 0.05, 1.0, budget=Budget(1e9))
    assert run.theorem_d13_learning_rate_limit(DPSGD(), constant=2.0) == pytest.approx(1 / (8 * math.log(2000)))
    run = FiniteRun(LinearRegression([1.0, 1.0], 0.01), 100, 0.05, 1.0, budget=Budget(0.1))
    expected = 0.1 / (8 * 4 * 16 * 2 * math.log(2000) ** 5)
    assert run.theorem_d13_learning_rate_limit(DPSGD(), constant=2.0) == pytest.approx(expected, rel=1e-12, abs=0)
    expected /= 1.7**2 / (0.3 * 1.7)
    assert run.theorem_d13_learning_rate_limit(AntiPGD(0.3), constant=2.0) == pytest.approx(expected, rel=1e-12, abs=0)
    assert run.theorem_d13_learning_rate_limit(NuFTRL(0), constant=2.0) == 0
    noise = ProductNoise([0.3], [-0.5])
    assert run.theorem_d13_learning_rate_limit(noise, constant=1.0) > 0


def test_theorem_d4_by_hand():
    """R² = 4, D² = 2, η R² s²/μ = 0.36, s²/R² = 2.25, η σ² d ‖β‖₁²/μ = 0.36."""
    run = FiniteRun(LinearRegression([1.0, 1.0], 0.01, 3.0), 100, 0.05, 1.0, budget=Budget(0.25))
    log = math.log(2000)
    expected = 2 * 2.72 * log**3, 2 * 16 * (2.72 + 2.25) * log**5
    assert with_clip_norm(run, 3.0).theorem_d4_bounds(DPSGD(), constant=2.0) == pytest.approx(
        expected, rel=1e-12, abs=0
    )


def test_theorem_d4_refuses_large_learning_rates():
    run = FiniteRun(LinearRegression([1.0], 0.1), 10, 0.5, 1.0)
    assert run.theorem_d4_bounds(DPSGD(), constant=1.0)[1] < math.inf
    assert run.theorem_d4_bounds(DPSGD(), constant=2.0) == (math.inf, math.inf)


# -- Section 2.3 and Corollaries D.14, D.15 ----------------------------------------------------------------------------


def test_rates_of_section_2_3_by_hand():
    """κ = 4, d_eff = 1.75, d = 3, ‖H‖₂ = 1, ‖θ_0 − θ*‖² = 12, s² = 9, ρ = 0.5, T = 1000."""
    run = FiniteRun(LinearRegression([1.0, 0.5, 0.25], 0.01, 3.0), 1000, 0.05, 2.0, budget=Budget(0.5))
    k, t, rho = 4 * 1.75, 1000, 0.5
    assert run.dp_sgd_rate() == pytest.approx(
        k * (3 * 1.75 * 12 / (rho * t) + 3 * 9 / (rho * t) + 9 / t), rel=1e-14, abs=0
    )
    nu = k * (4 * 1.75**2 * 12 / (rho * t**2) + 4 * 1.75 * 9 / (rho * t**2) + 9 / t)
    assert run.nu_dp_ftrl_rate() == pytest.approx(nu, rel=1e-14, abs=0)


def test_transients_by_hand():
    """The same run: κ d_eff = 7, Y = 294, F(θ_0) − F* = 3.5; with ρ = 1e9 the stable learning rate decides."""
    run = FiniteRun(LinearRegression([1.0, 0.5, 0.25], 0.01, 3.0), 10**9, 0.05, 2.0, budget=Budget(0.5))
    log = math.log(10**9 / 0.05)
    independent, correlated = 294 * log**5, 294 * log**7 * math.log(294)
    for printed, factor in ((False, 4 * 3.5), (True, 4)):
        shown = run.corollary_d14_rate(constant=0.1, polylog=0.0, printed=printed)
        assert shown == pytest.approx(factor * math.exp(-(10**9) / (0.1 * independent)), rel=1e-9, abs=0)
        shown = run.corollary_d15_rate(constant=1e-4, polylog=0.0, printed=printed)
        assert shown == pytest.approx(factor * math.exp(-(10**9) / (1e-4 * correlated)), rel=1e-9, abs=0)
    single = FiniteRun(LinearRegression([1.0], 0.01), 10**9, 0.05, 1.0, budget=Budget(0.5))  # Y = 2, log Y < 1
    expected = 0.5 * math.exp(-(10**9) / (0.01 * 2 * log**7))
    assert single.corollary_d15_rate(constant=0.01, polylog=0.0) == pytest.approx(expected, rel=1e-9, abs=0)
    free = replace(run, steps=1000, budget=Budget(1e9))
    expected = 4 * 3.5 * math.exp(-1000 / (7 * free.log_factor))
    assert free.corollary_d14_rate(constant=1.0, polylog=0.0) == pytest.approx(expected, rel=1e-9, abs=0)
    assert free.corollary_d15_rate(constant=1.0, polylog=0.0) == pytest.approx(expected, rel=1e-9, abs=0)
    y = (3.75 / 0.25) ** 2 * 3 / 0.5
    limit = run.corollary_d15_learning_rate_limit(constant=2.0)
    assert limit == pytest.approx(1 / (2 * 0.25 * y * log**7 * math.log(y)), rel=1e-12, abs=0)
    assert free.corollary_d15_learning_rate_limit(constant=2.0) == pytest.approx(
        1 / (7.5 * free.log_factor), rel=1e-12, abs=0
    )


def test_short_runs_are_refused():
    problem = LinearRegression([1.0, 0.5], 0.01, 1.0)
    for rate, printed in (("corollary_d14_rate", False), ("corollary_d14_rate", True), ("corollary_d15_rate", False)):
        shown = [
            getattr(FiniteRun(problem, steps, 0.05, 1.0), rate)(constant=1.0, polylog=1.0, printed=printed)
            for steps in (10, 10**6, 10**15)
        ]
        assert shown[0] == math.inf
        assert math.isfinite(shown[2])


def test_the_shortest_run_of_corollary_d15():
    """T >= c Y ℓ⁷ log(c Y): for c = 10, Y = 294 the last factor is 7.99, and 5.68 without the c."""
    problem, p = LinearRegression([1.0, 0.5, 0.25], 0.01), 1e-9
    for factor, refused in ((7.5, True), (8.5, False)):
        steps = 1e15
        for _ in range(100):
            steps = 2940 * math.log(steps / p) ** 7 * factor
        run = FiniteRun(problem, int(steps), p, 1.0, budget=Budget(0.5))
        assert (run.corollary_d15_rate(constant=10.0, polylog=0.0) == math.inf) is refused


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_runs_are_records_and_check_their_arguments():
    problem = LinearRegression([1.0, 0.5], 0.01)
    run = FiniteRun(problem, 100, 0.05, np.array([1.0, 2.0]))
    assert run == FiniteRun(problem, 100, 0.05, [1.0, 2.0])
    assert hash(run) == hash(FiniteRun(problem, 100, 0.05, [1.0, 2.0]))
    assert run != FiniteRun(problem, 100, 0.05, [1.0, 2.5])
    assert "failure_probability=0.05" in repr(run)
    with pytest.raises(ValueError, match="read-only"):
        run.initial_offset[0] = 3
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        FiniteRun(problem, 0, 0.05, 1.0)
    for p in (0.0, 1.0):
        with pytest.raises(ValueError, match=r"failure_probability must lie in \(0, 1\)"):
            FiniteRun(problem, 10, p, 1.0)
    with pytest.raises(ValueError, match="initial_offset must be a scalar or have shape"):
        FiniteRun(problem, 10, 0.1, [1.0])
    with pytest.raises(TypeError, match="problem must be LinearRegression"):
        FiniteRun(MeanEstimation(0.1), 10, 0.1, 1.0)
    with pytest.raises(ValueError, match=r"constant must lie in \(0, inf\)"):
        run.theorem_d13_clip_norm(constant=0.0)
    for method in (run.theorem_d4_bounds, run.theorem_d13_learning_rate_limit):
        with pytest.raises(ValueError, match=r"constant must lie in \[1, inf\)"):
            method(DPSGD(), constant=0.5)
    with pytest.raises(ValueError, match=r"constant must lie in \[1, inf\)"):
        run.corollary_d15_learning_rate_limit(constant=0.5)
    for call in (absolute_sum, lambda noise: run.theorem_d13_learning_rate_limit(noise, constant=1.0)):
        with pytest.raises(TypeError, match="noise must be correlated noise"):
            call("white")
    with pytest.raises(ValueError, match=r"polylog must lie in \[0, inf\)"):
        run.corollary_d14_rate(constant=1.0, polylog=-1.0)
    with pytest.raises(TypeError, match="constant"):
        run.corollary_d14_rate(polylog=1.0)
