"""The noise with the smallest strongly convex bound: reference values, optimality, and other ways to look for it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid

from corrnoise.solvers.strongly_convex import alternating_minimisation as module
from corrnoise.solvers.strongly_convex.alternating_minimisation import minimise_strongly_convex_bound
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.strongly_convex import CRITERIA, StronglyConvex

TABLE = [  # η, μ, L, frequencies, lags, F
    pytest.param(1, 0.1, 1, 1000, 50, 2.331643243, marks=pytest.mark.slow),
    (0.5, 0.2, 2, 500, 20, 1.165822039),
    (0.5, 1, 3, 200, 10, 0.586632056),
]
CONTINUUM = [(0.1, 1, 9.326573), (0.01, 1, 116.162531), (0.001, 1, 1350.9943), (0.05, 0.5, 10.087709)]


@pytest.mark.parametrize(("eta", "mu", "smoothness", "count", "lags", "value"), TABLE)
def test_reference_table_and_the_cone_program(eta, mu, smoothness, count, lags, value):
    problem = StronglyConvex(mu, smoothness, eta)
    found = minimise_strongly_convex_bound(problem)
    cones = strongly_convex_certificate(problem, found.noise, method="socp", frequencies=count, lags=lags).value
    assert cones == pytest.approx(value, rel=1e-4)
    assert found.bound == pytest.approx(value, rel=1e-4)
    assert found.converged


@pytest.mark.parametrize(("m", "ell", "value"), CONTINUUM)
def test_fast_against_converged_values(m, ell, value):
    problem = StronglyConvex(m, ell, 1)
    found = minimise_strongly_convex_bound(problem)
    assert found.bound / (ell / 4) == pytest.approx(value, rel=2e-7)
    assert found.bound == strongly_convex_certificate(problem, found.noise).value
    assert found.bound == pytest.approx(found.history[-1], rel=1e-7)
    assert found.converged
    assert "rounds" in found.reason
    assert (np.diff(found.history) <= 0).all()
    assert max(found.limits) == pytest.approx(min(found.limits), rel=1e-7)
    assert found.noise.coefficients(1)[0] == 1


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("pair", [(0.1, 1.0), (0.02, 0.3), (0.3, 1.6)])
def test_no_neighbour_is_better(pair, criterion):
    """Products with nearby zeros and poles, and rivals: all above, some of them by next to nothing."""
    problem = StronglyConvex(*pair, 1)
    found = minimise_strongly_convex_bound(problem, criterion=criterion)
    for rival in (DPSGD(), NuFTRL(pair[0]), AntiPGD(0.5), *(NuFTRL(nu) for nu in np.geomspace(pair[0], 1, 8))):
        assert strongly_convex_certificate(problem, rival, criterion=criterion).value >= found.bound * (1 - 1e-6)
    rng = np.random.default_rng(5)
    multiplier = strongly_convex_certificate(problem, found.noise, criterion=criterion).multiplier
    omega = np.linspace(0, math.pi, 4001)
    gains = multiplier.gain(omega)

    def value(power):
        """γ_∞² × mean of |B|² ξ for minimum-phase noise with this power spectrum, at the fixed multiplier."""
        return trapezoid(1 / power, omega) * trapezoid(power * gains, omega)

    best = value(found.noise.power_spectrum(omega))
    assert best == pytest.approx(value(1 / np.sqrt(gains)), rel=1e-5)
    for size in (0.01, 0.1, 1.0):
        wiggle = np.exp(size * sum(rng.standard_normal() * np.cos(k * omega) / k for k in range(1, 9)))
        assert value(found.noise.power_spectrum(omega) * wiggle) > best * (1 + 1e-6)


def test_gradient_noise_shifts_the_optimum():
    """Each of the two optima is the better one on its own problem."""
    quiet, noisy = StronglyConvex(0.1, 1, 1), StronglyConvex(0.1, 1, 1, gradient_noise_std=3.0)
    one, other = minimise_strongly_convex_bound(quiet), minimise_strongly_convex_bound(noisy)
    assert one.noise != other.noise
    assert strongly_convex_certificate(quiet, other.noise).value > one.bound * (1 + 1e-4)
    assert strongly_convex_certificate(noisy, one.noise).value > other.bound * (1 + 1e-4)
    larger = minimise_strongly_convex_bound(noisy, budget=Budget(0.25, clip_norm=2.0))
    assert strongly_convex_certificate(noisy, larger.noise, budget=Budget(0.25, clip_norm=2.0)).value == larger.bound
    assert larger.bound > other.bound


def test_budget_only_scales_without_gradient_noise():
    problem = StronglyConvex(0.1, 1, 1)
    one, other = (minimise_strongly_convex_bound(problem, budget=Budget(rho, clip_norm=2.0)) for rho in (1.0, 0.1))
    assert other.bound == pytest.approx(10 * one.bound, rel=1e-9)


@pytest.mark.parametrize("rate", [0.1, 1.0, 1.6])
def test_condition_number_one_is_exact(rate):
    """NuFTRL(ηL), the optimum of mean estimation; and nearby condition numbers tend to it."""
    found = minimise_strongly_convex_bound(StronglyConvex(rate, rate, 1))
    assert found.noise == NuFTRL(rate)
    assert found.bound == pytest.approx(StronglyConvex(rate, rate, 1).worst_quadratic_error(NuFTRL(rate)), rel=1e-10)
    near = minimise_strongly_convex_bound(StronglyConvex(rate / 1.0001, rate, 1))
    assert near.bound == pytest.approx(found.bound, rel=2e-3)
    assert near.bound >= found.bound * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [(1e-4, 1.0), (1e-5, 0.01), (0.02, 1.99), (1.9, 1.99)])
def test_far_corners(pair):
    problem = StronglyConvex(*pair, 1)
    for criterion in CRITERIA:
        found = minimise_strongly_convex_bound(problem, criterion=criterion)
        for rival in (DPSGD(), NuFTRL(pair[0]), NuFTRL(min(3 * pair[0], 1.0))):
            assert found.bound <= strongly_convex_certificate(problem, rival, criterion=criterion).value * (1 + 1e-6)
        assert found.bound == pytest.approx(found.history[-1], rel=1e-2)


def test_unstable_learning_rates_are_refused():
    with pytest.raises(ValueError, match="learning_rate"):
        minimise_strongly_convex_bound(StronglyConvex(0.1, 1, 2))


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="problem"):
        minimise_strongly_convex_bound(NuFTRL(0.1))
    with pytest.raises(ValueError, match="criterion"):
        minimise_strongly_convex_bound(StronglyConvex(0.1, 1, 1), criterion="loss")


def test_noise_that_cannot_be_factorised_is_an_error(monkeypatch):
    def never(_):
        raise ArithmeticError("not resolved")

    monkeypatch.setattr(module, "noise_of", never)
    with pytest.raises(ArithmeticError, match="factorised") as raised:
        minimise_strongly_convex_bound(StronglyConvex(0.1, 1, 1))
    assert "not resolved" in str(raised.value.__cause__)


def test_starts_that_disagree_are_reported(monkeypatch):
    """And so is a search that is cut short."""
    alternate = module.alternate

    def worse(program, spectrum, unit, extra):
        run = alternate(program, spectrum, unit, extra)
        return replace(run, history=[value * (1 + 1e-3 * float(spectrum[0] == 1)) for value in run.history])

    monkeypatch.setattr(module, "alternate", worse)
    found = minimise_strongly_convex_bound(StronglyConvex(0.1, 1, 1))
    assert not found.converged
    assert "differ" in found.reason
    monkeypatch.setattr(module, "alternate", alternate)
    monkeypatch.setattr(module, "MAX_ROUNDS", 2)
    found = minimise_strongly_convex_bound(StronglyConvex(0.1, 1, 1))
    assert not found.converged
    assert "did not settle" in found.reason
    assert len(found.history) == 2


def test_spectrum_of_the_noise_is_the_gain_to_the_power_of_minus_a_half():
    problem = StronglyConvex(0.1, 1, 1)
    found = minimise_strongly_convex_bound(problem)
    multiplier = strongly_convex_certificate(problem, found.noise).multiplier
    omega = np.array([1e-6, 0.01, 0.1, 1.0, 2.0, 3.1])
    product = found.noise.power_spectrum(omega) * np.sqrt(multiplier.gain(omega))
    np.testing.assert_allclose(product, product[0], rtol=1e-3)
    wrong = ProductNoise([0.1], [1.0]).power_spectrum(omega) * np.sqrt(multiplier.gain(omega))
    assert np.ptp(wrong) > 0.1 * wrong.mean()
