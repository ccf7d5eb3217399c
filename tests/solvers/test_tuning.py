"""Tuning against dense grids, closed forms at 40 digits, and problems whose answer is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from corrnoise.solvers import tuning
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.tuning import (
    ShortenedProblem,
    TunedRun,
    best_learning_rate,
    stability_limit,
    stationary_damping,
    stationary_noise,
    stationary_nu,
)
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation, QuadraticProblem
from corrnoise.theory.problems.strongly_convex import CRITERIA, StronglyConvex
from tests.strategies import gaps, log_uniform, mean_estimations, regressions


def at(problem: QuadraticProblem, learning_rate: float) -> QuadraticProblem:
    return type(problem)(**{**problem.arguments(), "learning_rate": learning_rate})


once = Participation.single


def nu_ftrl(problem: QuadraticProblem) -> NuFTRL:
    return NuFTRL(stationary_nu(problem))


def scatter(problem: QuadraticProblem, nu: mpf) -> mpf:
    """γ_∞² Σ g_j b_j of ν-DP-FTRL by Carlson's integrals, at the working precision."""
    total = mpf(0)
    kurtosis = np.broadcast_to(problem.kurtosis, problem.rates.size).tolist()
    for x, k in zip(map(mpf, problem.rates.tolist()), map(mpf, kurtosis), strict=True):
        a, b, p, q = nu, x, 2 - nu, 2 - x
        if a <= b:
            integral = 4 * (a / b) ** 2 * mp.elliprf(0, a * a, p * p)
            last = mp.elliprj(0, a * a, p * p, (a * q / b) ** 2)
            integral += mpf(16) / 3 * (b - a) * (a + b - a * b) * a**2 / b**4 * last
        else:
            integral = 4 * (p / q) ** 2 * mp.elliprf(0, a * a, p * p)
            last = mp.elliprj(0, 1, (a / p) ** 2, (b / q) ** 2)
            integral += mpf(16) / 3 * (a - b) * (a + b - a * b) / (p * q**4) * last
        total += x * q / (2 * mp.pi) * integral / (1 - (k - 1) * x / 2)
    return total / mp.agm(nu, 2 - nu)


# -- ν -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        LinearRegression([1, 0.1], 0.3, 2.0),
        LinearRegression([1, 1e-6], 0.1),
        LinearRegression([1.5, 0.3], 1.0, kurtosis=1),
        LinearRegression([1.8, 0.1], 1.0, kurtosis=1),
        LinearRegression([1, 1e-9, 1e-3], 0.1, kurtosis=[1.0, 30.0, 2.0]),
    ],
    ids=repr,
)
def test_nu_at_40_digits(problem):
    """The derivative changes its sign within 1e-6 of ν, and the value is within 1e-12 of the minimum."""
    nu = stationary_nu(problem)
    with mp.workdps(40):
        step = mpf(10) ** -12

        def slope(value: mpf) -> mpf:
            return scatter(problem, value * (1 + step)) - scatter(problem, value * (1 - step))

        low, high = nu * (1 - mpf(10) ** -6), nu * (1 + mpf(10) ** -6)
        assert slope(low) < 0 < slope(high)
        for _ in range(25):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        assert 0 <= scatter(problem, mpf(nu)) / scatter(problem, low) - 1 < 1e-12
        assert scatter(problem, nu * (1 + mpf(10) ** -4)) / scatter(problem, low) - 1 > 1e-12


@pytest.mark.slow
@given(regressions(kurtosis=None))
def test_no_other_nu_is_better(problem):
    nu = stationary_nu(problem)
    assert problem.rates.min() <= nu <= problem.rates.max()
    least = problem.stationary_error(NuFTRL(nu)) * (1 - 1e-12)
    others = np.concatenate([np.geomspace(problem.rates.min() / 100, 1, 120), np.linspace(1, 1.99, 9)])
    assert all(problem.stationary_error(NuFTRL(other)) >= least for other in others)


@given(gaps(1e-9), gaps(1e-9), gaps(1e-9))
def test_for_one_rate_the_error_falls_up_to_it_and_rises_from_there(rate, first, second):
    """Hence no best ν lies outside the rates."""
    problem = MeanEstimation(min(rate, 1.99))
    low, high = sorted((first, second))
    errors = [problem.stationary_error(NuFTRL(nu)) for nu in (low, high)]
    if high <= problem.learning_rate:
        assert errors[0] >= errors[1] * (1 - 1e-13)
    if low >= problem.learning_rate:
        assert errors[0] * (1 - 1e-13) <= errors[1]


@given(mean_estimations(), log_uniform(1e-6, 0.1), st.integers(1, 4))
def test_equal_rates(problem, rate, d):
    assert stationary_nu(problem) == problem.learning_rate
    same = LinearRegression(np.full(d, 2.0), rate)
    assert stationary_nu(same) == same.rates[0]


def test_what_does_not_move_the_best_noise():
    spectrum = np.array([1, 0.1, 0.01])
    plain = LinearRegression(spectrum, 0.1)
    for other in (LinearRegression(spectrum[::-1], 0.1, 1e9), LinearRegression(spectrum * 1024, 0.1 / 1024)):
        assert stationary_nu(other) == pytest.approx(stationary_nu(plain), rel=1e-7)
        assert stationary_damping(other) == pytest.approx(stationary_damping(plain), rel=1e-14)
    assert stationary_nu(plain, budget=Budget(7.0, clip_norm=0.1)) == stationary_nu(plain)
    assert stationary_nu(LinearRegression(spectrum, 0.1, kurtosis=1)) != pytest.approx(stationary_nu(plain), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("std", [0.0, 2.0])
def test_of_strongly_convex_losses_the_bound_is_minimised(criterion, std):
    problem = StronglyConvex(0.03, 1.0, 0.5, gradient_noise_std=std)

    def bound(nu):
        return strongly_convex_certificate(problem, NuFTRL(nu), budget=Budget(3.0), criterion=criterion).value

    nu = stationary_nu(problem, budget=Budget(3.0), criterion=criterion)
    assert all(bound(nu) <= bound(other) * (1 + 1e-4) for other in np.geomspace(0.015, 0.5, 20))
    assert bound(nu) < 0.997 * bound(0.015)
    assert stationary_nu(StronglyConvex(0.3, 0.3, 0.5)) == 0.15
    with pytest.raises(ValueError, match=r"learning_rate must lie in \(0, 2.0\), got 2.5"):
        stationary_nu(StronglyConvex(0.03, 1.0, 2.5))


# -- damping -----------------------------------------------------------------------------------------------------------


@given(regressions(kurtosis=None))
def test_best_damping(problem):
    damping, margin = stationary_damping(problem), 1e-12
    least = problem.stationary_error(AntiPGD(damping))
    for other in np.concatenate([damping * np.geomspace(0.1, 1, 9), np.linspace(damping, 1.99, 9)]):
        assert problem.stationary_error(AntiPGD(other)) >= least * (1 - margin)
    assert problem.stationary_error(AntiPGD(damping * 0.99)) > least * (1 + margin)


def test_best_damping_of_gaussian_inputs():
    """(−s + sqrt(2 s D − s²))/d with s = Σ x/(1 − x) and D = Σ 1/(1 − x), at 40 digits."""
    for problem in (LinearRegression([1, 0.2], 0.3), LinearRegression(1 / np.arange(1, 33.0), 1e-7)):
        with mp.workdps(40):
            x = [mpf(rate) for rate in problem.rates.tolist()]
            s, total = mp.fsum(v / (1 - v) for v in x), mp.fsum(1 / (1 - v) for v in x)
            exact = (-s + mp.sqrt(2 * s * total - s**2)) / len(x)
            assert abs(stationary_damping(problem) / exact - 1) < 1e-14


def test_best_damping_beyond_one():
    assert stationary_damping(MeanEstimation(1.0)) == 1
    problem = MeanEstimation(1.9)
    assert 1 < stationary_damping(problem) < 2
    assert problem.stationary_error(AntiPGD(stationary_damping(problem))) < problem.stationary_error(DPSGD())


# -- the stability limit -----------------------------------------------------------------------------------------------


@given(regressions(kurtosis=None))
def test_stability_limit(problem):
    limit = stability_limit(problem)
    assert at(problem, limit).instability() < 1 <= at(problem, np.nextafter(limit, 9e9)).instability()
    assert limit >= 2 / problem.moment_bound * (1 - 1e-14)
    assert stability_limit(at(problem, 100 * limit)) == stability_limit(at(problem, limit / 1e9)) == limit


def test_stability_limits_in_closed_form():
    assert stability_limit(MeanEstimation(1e-5)) == pytest.approx(2, rel=1e-15)
    assert stability_limit(MeanEstimation(77.0)) == pytest.approx(2, rel=1e-15)
    for d, kurtosis in ((1, 3.0), (5, 3.0), (4, 1.0), (7, 9.0)):
        problem = LinearRegression(np.full(d, 3.0), 1.0, kurtosis=kurtosis)
        assert stability_limit(problem) == pytest.approx(2 / 3 / (d + kurtosis - 1), rel=1e-14)


# -- learning rates ----------------------------------------------------------------------------------------------------


def final_errors(problem, steps, noise, rates, **arguments):
    errors = []
    for rate in rates:
        tuned = at(problem, rate)
        errors.append(tuned.learning_curve(noise(tuned), steps, participation=once(steps), **arguments)[-1])
    return np.array(errors)


@pytest.mark.parametrize(("steps", "offset", "std"), [(1, 1.0, 0.0), (3, 2.0, 0.5), (50, 1.0, 0.3), (4000, 0.1, 1.0)])
def test_mean_estimation_without_correlation_at_40_digits(steps, offset, std):
    """½ (c^{2T} δ² + η² (s² + σ²) (1 − c^{2T})/(1 − c²)) with c = 1 − η, minimised by bisection of its derivative."""
    problem = MeanEstimation(0.1, std)
    tuned = best_learning_rate(problem, once(steps), DPSGD(), initial_offset=offset, budget=Budget(20.0))
    with mp.workdps(40):
        variance = mpf(std) ** 2 + mpf(1) / 40

        def error(eta: mpf) -> mpf:
            power = (1 - eta) ** (2 * steps)
            return (power * mpf(offset) ** 2 + eta * variance * (1 - power) / (2 - eta)) / 2

        best = mp.findroot(lambda eta: mp.diff(error, eta), mpf(tuned.learning_rate))
        assert abs(tuned.learning_rate / best - 1) < 1e-5
        assert abs(tuned.error / error(best) - 1) < 1e-12
        assert error(best * (1 + mpf(10) ** -3)) / error(best) - 1 > 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("noise", [optimal_noise, nu_ftrl, lambda p: AntiPGD(stationary_damping(p))])
@pytest.mark.parametrize("steps", [1, 20, 300])
def test_no_learning_rate_of_a_dense_grid_is_better(noise, steps):
    problem = LinearRegression([1, 0.3, 0.01], 5.0, 0.2)
    arguments = {"budget": Budget(30.0, clip_norm=0.7), "initial_offset": np.array([1.0, -2.0, 3.0])}
    tuned = best_learning_rate(problem, once(steps), noise, **arguments)
    limit = stability_limit(problem)
    assert 0 < tuned.learning_rate < limit
    rates = np.concatenate([np.geomspace(1e-5, 1, 80), np.linspace(0.01, 0.999, 80)]) * limit
    errors = final_errors(problem, steps, noise, rates, **arguments)
    assert errors.min() >= tuned.error * (1 - 1e-9)
    nearby = tuned.learning_rate * np.array([1 - 1e-2, 1, 1 + 1e-2])
    below, here, above = final_errors(problem, steps, noise, nearby, **arguments)
    assert here == pytest.approx(tuned.error, rel=1e-12)
    assert min(below, above) > tuned.error
    assert tuned.noise == noise(at(problem, tuned.learning_rate))


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.3, 1e4])
@pytest.mark.parametrize("noise", [DPSGD(), NuFTRL(1e-3), optimal_noise], ids=["dp-sgd", "nu-ftrl", "optimum"])
@pytest.mark.parametrize(
    ("problem", "steps"),
    [
        (LinearRegression(1 / np.arange(1.0, 201), 0.02, 0.3), 3000),
        (LinearRegression(np.arange(1.0, 401) ** -2, 0.1, kurtosis=1.8), 300),
        (LinearRegression([1.0, 1.0, 1.0, 0.1, 0.1], 0.1), 50),
    ],
    ids=["1/k", "1/k^2", "repeated"],
)
def test_shorter_sums_are_exact_to_1e_9(problem, steps, noise, offset):
    shortened = ShortenedProblem(problem, once(steps), np.asarray(offset), Budget(0.1, clip_norm=2.0))
    assert shortened.eigenvalues.size < problem.eigenvalues.size
    limit = stability_limit(problem)
    for share in (0.99, 0.3, 0.01, 1e-4):
        tuned = at(problem, share * limit)
        made = noise(tuned) if callable(noise) else noise
        exact = tuned.learning_curve(
            made,
            steps,
            participation=once(steps),
            budget=Budget(0.1, clip_norm=2.0),
            initial_offset=offset,
        )[-1]
        assert shortened.error(tuned, made) == pytest.approx(exact, rel=1e-9)
        shortened.weights = shortened.weights * 1.0001  # as if an eigenvalue were counted too often
        assert shortened.error(tuned, made) != pytest.approx(exact, rel=1e-6)
        shortened.weights = shortened.weights / 1.0001


@pytest.mark.slow
@pytest.mark.parametrize("noise", [lambda p: DPSGD(), optimal_noise])
def test_long_runs_are_searched_by_shorter_sums(noise, monkeypatch):
    problem = LinearRegression(1 / np.arange(1.0, 201), 0.02)
    found = []
    for long in (0.0, math.inf):
        monkeypatch.setattr(tuning, "LONG_WORK", long)
        found.append(best_learning_rate(problem, once(1000), noise, initial_offset=0.3, budget=Budget(0.1)))
    shorter, exact = found
    assert shorter.learning_rate == pytest.approx(exact.learning_rate, rel=1e-4)
    assert exact.error * (1 - 1e-9) <= shorter.error <= exact.error * (1 + 1e-9)
    tuned = at(problem, shorter.learning_rate)
    curve = tuned.learning_curve(shorter.noise, 1000, participation=once(1000), budget=Budget(0.1), initial_offset=0.3)
    assert shorter.error == curve[-1]  # exact for the learning rate that is returned


def test_directions_that_differ_are_not_summed_up():
    long = 10**6
    spectrum = np.array([1.0, 0.5])
    assert ShortenedProblem.applies(LinearRegression(spectrum, 0.1), long, np.asarray(0.3))
    assert not ShortenedProblem.applies(LinearRegression(spectrum, 0.1), 100, np.asarray(0.3))
    assert not ShortenedProblem.applies(LinearRegression(spectrum, 0.1), long, np.array([0.3, 0.4]))
    assert not ShortenedProblem.applies(LinearRegression(spectrum, 0.1, kurtosis=[1.0, 2.0]), long, np.asarray(0.3))
    unstable = ShortenedProblem(LinearRegression(spectrum, 0.1), once(200), np.asarray(0.3), Budget(1.0))
    assert unstable.error(LinearRegression(spectrum, 50.0), DPSGD()) == math.inf


def test_a_fixed_noise_is_the_constant_function():
    problem = LinearRegression([1, 0.1], 0.1)
    fixed = best_learning_rate(problem, once(40), NuFTRL(0.05), initial_offset=3.0)
    assert fixed == best_learning_rate(problem, once(40), lambda _: NuFTRL(0.05), initial_offset=np.array([3.0, 3.0]))
    assert isinstance(fixed, TunedRun)
    better = best_learning_rate(problem, once(40), DPSGD(), initial_offset=3.0)
    assert better.error != fixed.error


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 0.0, [0.0, 0.0]])
def test_a_run_from_the_minimum_is_refused(offset):
    with pytest.raises(ValueError, match=r"initial_offset must not be 0 \(learning rate 0 would be optimal\), got"):
        best_learning_rate(LinearRegression([1, 0.5], 0.1), once(10), DPSGD(), initial_offset=offset)


def test_offsets_that_drown_in_noise_are_refused():
    with pytest.raises(ValueError, match="initial_offset must be larger"):
        best_learning_rate(MeanEstimation(0.1), once(10), DPSGD(), initial_offset=1e-9)


def test_noise_for_a_participation_is_the_better_of_two():
    problem, who = LinearRegression([1.0, 0.3, 0.05], 0.1), Participation.min_sep(60, 12)
    assert stationary_noise(problem) == optimal_noise(problem)
    candidates = (optimal_noise(problem), NuFTRL(stationary_nu(problem, participation=who)))
    errors = [problem.stationary_error(noise, participation=who) for noise in candidates]
    found = stationary_noise(problem, participation=who)
    assert found in candidates
    assert problem.stationary_error(found, participation=who) == min(errors)
    assert errors[0] != errors[1]


def test_shortened_sums_take_the_sensitivity_of_their_participation():
    """A mutant: reshuffled epochs taken for a min-sep, which has the smaller sensitivity."""
    problem = LinearRegression(1 / np.arange(1.0, 61), 0.01)
    noise = optimal_noise(problem)
    for who in (once(200), Participation.min_sep(200, 50), Participation.reshuffled(200, period=50)):
        _, found = ShortenedProblem(problem, who, np.asarray(0.3), Budget(1.0)).series_of(noise)
        assert found == pytest.approx(noise.sensitivity_upper_bound(who), rel=1e-8)
    assert found > noise.sensitivity_upper_bound(Participation.min_sep(200, 50)) * 1.01


@pytest.mark.parametrize("tune", [stationary_nu, stationary_damping])
def test_unstable_problems_are_refused(tune):
    for problem in (MeanEstimation(2.5), LinearRegression([1.0], 0.7)):
        with pytest.raises(ValueError, match="learning_rate must be stable"):
            tune(problem)


def test_bad_arguments():
    problem = MeanEstimation(0.1)
    for function in (stationary_nu, stationary_damping, stability_limit):
        with pytest.raises(TypeError, match="problem must be MeanEstimation or LinearRegression, got"):
            function(NuFTRL(0.1))
    with pytest.raises(ValueError, match="participation must be for any length for strongly convex losses"):
        stationary_nu(StronglyConvex(0.1, 1.0, 0.5), participation=once(10))
    with pytest.raises(TypeError, match="problem must be"):
        best_learning_rate(None, once(10), DPSGD(), initial_offset=1.0)
    with pytest.raises(ValueError, match="participation must have a number of steps"):
        best_learning_rate(problem, once(), DPSGD(), initial_offset=1.0)
    with pytest.raises(TypeError, match="noise must be correlated noise or a function"):
        best_learning_rate(problem, once(10), 0.1, initial_offset=1.0)
    with pytest.raises(TypeError, match="noise must be correlated noise"):
        best_learning_rate(problem, once(10), lambda _: 0.1, initial_offset=1.0)
    with pytest.raises(ValueError, match=r"initial_offset must be a scalar or have shape \(1,\)"):
        best_learning_rate(problem, once(10), DPSGD(), initial_offset=[1.0, 2.0])
    with pytest.raises(ValueError, match="initial_offset must lie in"):
        best_learning_rate(problem, once(10), DPSGD(), initial_offset=math.inf)
