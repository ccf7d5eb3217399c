"""The strongly convex bound against reference values, the cone program, exact quadratics and runs.

The reference values were computed by two other programs that agree to 2e-8; the values of the continuum by a third with
other kernels.  J is γ_∞² times the mean of |B|² ψ/η⁴, free of units; F = (η²L/4) J for d = G = ρ = 1.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from corrnoise.solvers.strongly_convex import bound as module
from corrnoise.solvers.strongly_convex import cone_program
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.strongly_convex.cone_program import ConeProgramError
from corrnoise.solvers.strongly_convex.frequency_grid import graded_edges, halved
from corrnoise.solvers.strongly_convex.multiplier_proof import Drive, prove
from corrnoise.solvers.strongly_convex.multipliers import Kernels, Multiplier
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.spectra import spectrum_of
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.strongly_convex import CRITERIA, StronglyConvex, circle_multiplier
from tests.strategies import log_uniform, noises
from tests.theory.problems import test_strongly_convex as runs

TABLE = [  # η, μ, L, frequencies, lags, J of DP-SGD, J of ν-DP-FTRL at ν = ημ, F of either
    (1, 0.1, 1, 1000, 50, 13.44238660, 10.04856441, 3.360596650, 2.512141103),
    pytest.param(1, 0.01, 1, 1000, 50, 255.49224411, 143.04625111, 63.873061027, 35.761562778, marks=pytest.mark.slow),
    pytest.param(0.1, 0.1, 1, 1000, 50, 102.48795991, 15.14692360, 0.256219900, 0.037867309, marks=pytest.mark.slow),
    (0.5, 0.2, 2, 500, 20, 13.44239520, None, 1.680299400, None),
    (0.5, 1, 3, 200, 10, 3.18706644, 3.59713070, 0.597574958, 0.674462006),
    (1, 0.5, 1, 100, 5, 1.95077321, 1.88465980, 0.487693303, 0.471164950),
]
CONTINUUM = [  # m, l, J of DP-SGD, J of ν-DP-FTRL
    (0.1, 1, 13.442387, 10.048564),
    (0.01, 1, 255.239082, 143.022185),
    (0.001, 1, 4362.4100, 1959.0477),
    (0.05, 0.5, 22.703850, 10.359492),
]
OBJECTIVE = [  # m, l, η L J_F of DP-SGD and of ν-DP-FTRL (1000 frequencies, 50 lags)
    (0.1, 1, 2.02049401, 2.36092691),
    (0.01, 1, 3.75310389, 4.06702195),
    (0.01, 0.1, 1.36052455, 0.35046459),
]


@st.composite
def problems(draw, least=1e-4, **keywords):
    fast = draw(log_uniform(30 * least, 1.0) | log_uniform(1e-2, 1.0).map(lambda gap: 2 - gap))
    slow = fast * draw(log_uniform(least / fast, 1.0))
    eta = draw(log_uniform(0.01, 100))
    return StronglyConvex(slow / eta, max(fast, slow) / eta, eta, **keywords)


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("eta", "mu", "smoothness", "count", "lags", "j_sgd", "j_nu", "f_sgd", "f_nu"), TABLE)
def test_cone_program_against_the_reference_table(eta, mu, smoothness, count, lags, j_sgd, j_nu, f_sgd, f_nu):
    problem = StronglyConvex(mu, smoothness, eta)
    for noise, j, f in ((DPSGD(), j_sgd, f_sgd), (NuFTRL(eta * mu), j_nu, f_nu)):
        if j is None:
            continue
        found = strongly_convex_certificate(problem, noise, method="socp", frequencies=count, lags=lags)
        assert found.value == pytest.approx(f, rel=3e-8)
        assert found.value / (eta**2 * smoothness / 4) == pytest.approx(j, rel=3e-8)
        assert found.suboptimality < 1e-8
        assert found.least_slack > 0


@pytest.mark.parametrize(("m", "ell", "white", "ftrl"), CONTINUUM)
def test_fast_against_converged_values(m, ell, white, ftrl):
    problem = StronglyConvex(m, ell, 1)
    for noise, j in ((DPSGD(), white), (NuFTRL(m), ftrl)):
        assert strongly_convex_certificate(problem, noise).value / (ell / 4) == pytest.approx(j, rel=1e-7)


@pytest.mark.parametrize(("m", "ell", "white", "ftrl"), OBJECTIVE)
def test_objective_against_reference_values_fast(m, ell, white, ftrl):
    problem = StronglyConvex(m, ell, 1)
    for noise, j in ((DPSGD(), white), (NuFTRL(m), ftrl)):
        assert strongly_convex_certificate(problem, noise, criterion="objective").value == pytest.approx(
            j / 4, rel=3e-4
        )


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("pair", [(0.1, 1.0), (0.3, 1.5), (0.2, 0.5)])
def test_cone_program_converges_to_fast(pair, criterion):
    """By frequencies and lags together; the value from either side, what its multiplier proves from above."""
    problem, noise = StronglyConvex(*pair, 1), NuFTRL(0.05)
    fast = strongly_convex_certificate(problem, noise, criterion=criterion).value
    errors = []
    for count, lags in ((24, 3), (80, 10), (240, 30)):
        found = strongly_convex_certificate(
            problem, noise, criterion=criterion, method="socp", frequencies=count, lags=lags
        )
        assert found.upper_bound >= fast * (1 - 1e-4)
        errors.append(abs(found.value / fast - 1))
    assert errors[2] < 1e-4
    assert errors[2] < errors[0]


@pytest.mark.slow
@pytest.mark.parametrize("m", [1e-2, 1e-4])
def test_no_other_search_does_much_better(m):
    """More kernels of all shapes on a grid four times as fine: by less than 3e-4 for ηL from 0.01 to 1.9."""
    for ell in (0.01, 1.0, 1.9):
        if not 1.01 * m < ell:
            continue
        for noise in (DPSGD(), NuFTRL(m)):
            for criterion in CRITERIA:
                value = strongly_convex_certificate(StronglyConvex(m, ell, 1), noise, criterion=criterion).value
                edges = halved(halved(graded_edges(m / 30, ell)))
                program = module.search_program(m, ell, criterion, edges)
                spectrum = noise.power_spectrum(program.frequencies)
                kernels = program.kernels.and_also(module.further_kernels(m / 10, ell))
                wide = type(program)(m, ell, criterion, kernels, program.frequencies, program.quadrature)
                drive = Drive(spectrum_of(noise), noise.limiting_sensitivity() ** 2 / 4)
                other = prove(wide.multiplier(wide.solve(spectrum)), drive, edges).upper_bound
                assert value <= other * (1 + 3e-4)


def test_constants():
    """DP noise by dG²/(2ρ), gradient noise by σ_sgd² without d: ratios to d = 1 at the same multiplier."""
    noise = DPSGD()
    one = strongly_convex_certificate(StronglyConvex(0.1, 1, 1), noise).value
    many = strongly_convex_certificate(
        StronglyConvex(0.1, 1, 1, dimension=5), noise, budget=Budget(0.3, clip_norm=2)
    ).value
    assert many == pytest.approx(5 * 4 / 0.3 * one, rel=1e-12)
    noisy = StronglyConvex(0.1, 1, 1, dimension=5, gradient_noise_std=3)
    both = strongly_convex_certificate(noisy, noise, budget=Budget(0.3, clip_norm=2)).value
    assert both == pytest.approx((5 * 4 / 0.6 + 9) / 0.5 * one, rel=1e-10)
    cones = {"method": "socp", "frequencies": 200, "lags": 20}
    assert strongly_convex_certificate(noisy, noise, budget=Budget(0.3, clip_norm=2), **cones).value == pytest.approx(
        both, rel=1e-6
    )
    with_both = strongly_convex_certificate(noisy, NuFTRL(0.1), **cones).value
    assert with_both == pytest.approx(strongly_convex_certificate(noisy, NuFTRL(0.1)).value, rel=1e-6)


# -- validity ----------------------------------------------------------------------------------------------------------


@given(problems(), noises(), st.sampled_from(CRITERIA))
def test_bound_of_every_quadratic(problem, noise, criterion):
    """At least the exact error of the worst quadratic, at most the constant multiplier's bound."""
    found = strongly_convex_certificate(problem, noise, criterion=criterion)
    worst = problem.worst_quadratic_error(noise)
    assert found.value == found.upper_bound
    assert worst * (1 - 1e-10) <= found.value < math.inf
    assert found.least_slack > 0
    assert 0 < found.quadrature_error <= 1e-11 * found.value
    assert 0 < found.rounding_error <= 1e-8 * found.value
    if problem.condition_number < 1 + 1e-9:
        assert found.value == pytest.approx(worst, rel=1e-6)


@pytest.mark.slow
@settings(max_examples=15)
@given(problems(1e-3), noises())
def test_objective_is_tighter_than_distance(problem, noise):
    distance, objective = (
        strongly_convex_certificate(problem, noise, criterion=criterion).value for criterion in CRITERIA
    )
    assert objective <= distance * (1 + 3e-3)


def circle_criterion_bound(problem, criterion="distance"):
    """The bound for independent noise at ρ = G = 1 from constant multipliers alone, in closed form."""
    drive = problem.dimension / 2 + problem.gradient_noise_std**2
    return problem.learning_rate / 2 * drive * circle_multiplier(*problem.rates, criterion)[1]


@settings(max_examples=15)
@given(problems(1e-3, dimension=2, gradient_noise_std=0.5))
def test_independent_noise_lies_between_the_worst_quadratic_and_the_circle_criterion(problem):
    for criterion in CRITERIA:
        bound = strongly_convex_certificate(problem, DPSGD(), criterion=criterion).value
        assert bound <= circle_criterion_bound(problem, criterion) * (1 + 1e-6)
        assert bound >= problem.worst_quadratic_error(DPSGD()) * (1 - 1e-10)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_condition_number_to_one(criterion):
    noise = NuFTRL(0.3)
    for smoothness in (0.1, 0.5, 1.0, 1.5, 1.9):
        excess = []
        for kappa in (1.01, 1.0001, 1 + 1e-8, 1 + 1.3e-12, 1.0):
            problem = StronglyConvex(smoothness / kappa, smoothness, 1)
            found = strongly_convex_certificate(problem, noise, criterion=criterion).value
            excess.append(found / problem.worst_quadratic_error(noise) - 1)
        assert 0.2 > excess[0] > excess[1] > -1e-12
        assert excess[1] < 2e-3
        assert abs(excess[2]) < 1e-6
        assert max(abs(excess[3]), abs(excess[4])) < 1e-10


NARROW = ProductNoise([1e-3, 0.3], [-0.5, 0.5])


@pytest.mark.parametrize("noise", [DPSGD(), NuFTRL(0.02), AntiPGD(0.1), NARROW], ids=["w", "nu", "anti", "narrow"])
@pytest.mark.parametrize("eta_l", [0.2, 1.0, 1.8])
def test_bound_in_runs_of_piecewise_linear_gradients(noise, eta_l):
    """Runs of 2¹⁹ steps on kinked losses, whose E F comes up to 0.9 of the bound.

    The standard error is 0.3 % there and at most 5 % elsewhere, at less than 0.8: false alarms below 1e-5.  A quarter
    of the bound would be refuted, so the test can see a constant that is too small.
    """
    steps = 2**19
    omega = 2 * np.pi * np.arange(steps // 2 + 1) / steps
    white = np.fft.rfft(np.random.default_rng(3).standard_normal(steps))
    z = np.fft.irfft(np.sqrt(noise.power_spectrum(omega) / 2) * white, steps) * noise.limiting_sensitivity()
    distance, objective = (
        strongly_convex_certificate(StronglyConvex(0.1 * eta_l, eta_l, 1), noise, criterion=criterion).value
        for criterion in CRITERIA
    )
    largest = 0.0
    for kinks, slopes in runs.LOSSES:
        square, loss = runs.squares_and_losses(z, np.array(kinks), eta_l * np.array(slopes), 5000, 1)
        assert loss <= objective
        assert eta_l / 2 * square <= distance
        largest = max(largest, loss)
    assert largest > objective / 4
    same = strongly_convex_certificate(StronglyConvex(eta_l, eta_l, 1), noise).value
    square, loss = runs.squares_and_losses(z, np.array([np.inf]), eta_l * np.ones(2), 5000, 1)
    assert loss == pytest.approx(same, rel=0.1)


# -- the certificate ---------------------------------------------------------------------------------------------------


def test_certificates_of_both_methods():
    problem, noise = StronglyConvex(0.1, 1, 1), NuFTRL(0.1)
    fast = strongly_convex_certificate(problem, noise)
    cones = strongly_convex_certificate(problem, noise, method="socp", frequencies=300, lags=20)
    assert type(fast) is type(cones)
    assert (fast.method, cones.method) == ("fast", "socp")
    assert fast == strongly_convex_certificate(problem, noise)
    for found in (fast, cones):
        assert found.criterion == "distance"
        assert found.upper_bound >= fast.value * (1 - 1e-8)
        assert 0 <= found.suboptimality < 1e-7
        assert 0 < found.quadrature_error <= 1e-12 * found.value
        assert 0 < found.rounding_error <= 1e-12 * found.value
        omega = np.linspace(0, math.pi, 100_001)
        multiplier = found.multiplier
        slack = multiplier.condition(omega).slack(*multiplier.at(omega))
        assert 0 < found.least_slack <= slack.min()
        mean = trapezoid(multiplier.gain(omega) * noise.power_spectrum(omega), omega) / math.pi
        assert found.upper_bound == pytest.approx(noise.limiting_sensitivity() ** 2 / 4 * mean, rel=1e-6)
    assert set(cones.multiplier.kernels.powers) == {0}


def test_certificate_does_not_trust_the_search(monkeypatch):
    """Whatever is put in place of the search, the value is a bound; in the worst case the circle criterion's."""
    problem, noise = StronglyConvex(0.1, 1, 1), DPSGD()
    right = strongly_convex_certificate(problem, noise).value
    solve = module.MultiplierProgram.solve
    for spoil, at_most in (
        (lambda c: 1.3 * c, 1.5 * right),
        (lambda c: 0.2 * c, circle_criterion_bound(problem)),
        (lambda c: np.append(0.0, c[1:]), circle_criterion_bound(problem)),
    ):
        monkeypatch.setattr(module.MultiplierProgram, "solve", lambda self, s, spoil=spoil: spoil(solve(self, s)))
        found = strongly_convex_certificate(problem, noise)
        assert right * (1 - 1e-9) <= found.value <= at_most * (1 + 1e-9)
        assert found.least_slack > 0


def test_infeasible_multipliers_prove_nothing():
    edges, white = graded_edges(0.1, 1.0), Drive(spectrum_of(DPSGD()), 1.0)
    best = strongly_convex_certificate(StronglyConvex(0.1, 1, 1), DPSGD()).multiplier
    assert prove(best, white, edges).upper_bound == pytest.approx(13.442387, rel=1e-7)
    small = Multiplier(0.1, 1.0, "distance", 0.5 * best.constant, 0.5 * best.weights, best.kernels)
    assert prove(small, white, edges).upper_bound == math.inf
    negative = Multiplier(0.1, 1.0, "distance", best.constant, -best.weights, best.kernels)
    with pytest.raises(ValueError, match="coefficients >= 0"):
        prove(negative, white, edges)


def test_a_grid_that_is_too_coarse_is_noticed(monkeypatch):
    """From two panels on the search repeats itself on those that the proof asks for, and loses little."""
    problem, noise = StronglyConvex(0.1, 1, 1), NuFTRL(0.1)
    right = strongly_convex_certificate(problem, noise).value
    monkeypatch.setattr(module, "graded_edges", lambda *_: np.array([0.0, 1.5, math.pi]))
    assert right * (1 - 1e-9) <= strongly_convex_certificate(problem, noise).value <= right * (1 + 1e-3)


def test_what_no_panels_resolve_is_an_error(monkeypatch):
    nothing = prove(
        Multiplier(0.1, 1.0, "distance", 0.0, np.empty(0), Kernels.of([])),
        Drive(spectrum_of(DPSGD()), 1.0),
        graded_edges(0.1, 1.0),
    )
    monkeypatch.setattr(module, "prove", lambda *_: nothing)
    with pytest.raises(ArithmeticError, match="panels resolve"):
        strongly_convex_certificate(StronglyConvex(0.1, 1, 1), NuFTRL(0.1))


def test_noise_whose_spectrum_has_no_bounds_is_refused():
    class Louder(NuFTRL):
        def _power(self, cosine, sine):
            return 2 * super()._power(cosine, sine)

    with pytest.raises(TypeError, match="spectrum can be bounded"):
        strongly_convex_certificate(StronglyConvex(0.1, 1, 1), Louder(0.1))


# -- unusual noise and arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise", [NuFTRL(0.0), AntiPGD(0.0), FiniteNoise([1, -2]), ProductNoise([0.0], [-0.5])], ids=repr
)
def test_noise_without_a_finite_bound(noise):
    problem = StronglyConvex(0.1, 1, 1)
    for method in ("fast", "socp"):
        found = strongly_convex_certificate(problem, noise, method=method, frequencies=100, lags=5)
        assert found.value == found.upper_bound == math.inf
        assert found.multiplier is None


def test_unstable_learning_rates():
    for eta in (2.0, 3.0):
        assert strongly_convex_certificate(StronglyConvex(0.1, 1, eta), DPSGD()).value == math.inf


@pytest.mark.parametrize(
    "noise",
    [
        NuFTRL(1e-6),
        NuFTRL(1e-12),
        AntiPGD(1e-6),
        ProductNoise([1e-6], [-1.0]),
        ProductNoise([1.99999], [-1.0]),
        ProductNoise([0.0], [-0.25]),
        ProductNoise([0.0], [0.25]),
        ProductNoise([2.0], [-0.25]),
        FiniteNoise(np.append(1.0, 0.05 * np.cos(0.5 * np.arange(1, 400)))),
    ],
    ids=["nu6", "nu12", "anti", "peak", "pi", "singular", "zero", "singular at pi", "line"],
)
def test_narrow_features(noise):
    """Features far narrower than ημ, at 0, at π and between: integrals agree with the noise's own averages."""
    problem = StronglyConvex(0.1, 1, 1)
    for criterion in CRITERIA:
        found = strongly_convex_certificate(problem, noise, criterion=criterion)
        assert found.value >= problem.worst_quadratic_error(noise) * (1 - 1e-10)
        assert found.quadrature_error <= 1e-11 * found.value
        assert found.rounding_error <= 1e-8 * found.value
    exact = StronglyConvex(0.5, 0.5, 1)
    assert strongly_convex_certificate(exact, noise).value == pytest.approx(
        exact.worst_quadratic_error(noise), rel=1e-8
    )


@pytest.mark.parametrize("pair", [(1e-4, 1.0), (1e-6, 0.01), (1e-9, 1.0), (1.9, 1.99), (0.5, 1.9999), (1.5e-4, 1.5)])
def test_far_corners(pair):
    problem = StronglyConvex(*pair, 1)
    for noise in (DPSGD(), NuFTRL(pair[0])):
        for criterion in CRITERIA:
            found = strongly_convex_certificate(problem, noise, criterion=criterion)
            assert problem.worst_quadratic_error(noise) <= found.value < math.inf
            assert found.least_slack > 0
            assert found.suboptimality < 1e-4
    assert strongly_convex_certificate(problem, DPSGD()).value < 0.9 * circle_criterion_bound(problem)


def test_noise_that_is_not_minimum_phase():
    """(1, −2) has infinite sensitivity; mirrored, the spectrum is the same and the sensitivity finite."""
    problem, mirrored = StronglyConvex(0.1, 1, 1), FiniteNoise([1, -0.5])
    same = strongly_convex_certificate(problem, ProductNoise([0.5], [1.0])).value
    assert strongly_convex_certificate(problem, mirrored).value == pytest.approx(same, rel=1e-12)
    cones = {"method": "socp", "frequencies": 200, "lags": 20}
    assert strongly_convex_certificate(problem, mirrored, **cones).value == pytest.approx(same, rel=1e-5)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"method": "slow"}, ValueError, "method"),
        ({"criterion": "loss"}, ValueError, "criterion"),
        ({"method": "socp", "frequencies": 101}, ValueError, "frequencies"),
        ({"method": "socp", "frequencies": 100, "lags": 50}, ValueError, "lags"),
        ({"frequencies": 2}, ValueError, "frequencies"),
        ({"lags": 0}, ValueError, "lags"),
        ({"lags": 2.5}, TypeError, "lags"),
    ],
)
def test_bad_arguments_are_named(keywords, error, message):
    with pytest.raises(error, match=message):
        strongly_convex_certificate(StronglyConvex(0.1, 1, 1), DPSGD(), **keywords)


def test_bad_problems_and_noise_are_named():
    with pytest.raises(TypeError, match="problem"):
        strongly_convex_certificate(1.0, DPSGD())
    with pytest.raises(TypeError, match="noise"):
        strongly_convex_certificate(StronglyConvex(0.1, 1, 1), "DPSGD")
    with pytest.raises(ValueError, match="learning_rate × strong_convexity"):
        strongly_convex_certificate(StronglyConvex(1e-10, 1, 1), DPSGD())
    with pytest.raises(ValueError, match="learning_rate × smoothness"):
        strongly_convex_certificate(StronglyConvex(0.1, 1.99999, 1), DPSGD())


def test_a_failing_cone_solver_is_an_error(monkeypatch):
    monkeypatch.setattr(cone_program, "MAX_ITERATIONS", 2)
    with pytest.raises(ConeProgramError, match=r"the cone solver stopped.*fast"):
        strongly_convex_certificate(StronglyConvex(0.1, 1, 1), DPSGD(), method="socp", lags=5)


@pytest.mark.slow
def test_the_cone_program_is_solved_at_large_condition_numbers():
    """κ = 10⁴: the residuals of CLARABEL's answer leave 1e-8 open, and the grid overestimates the peak at 0."""
    found = strongly_convex_certificate(StronglyConvex(1e-4, 1, 1), DPSGD(), method="socp", lags=50)
    assert 0 <= found.suboptimality < 1e-8
    assert found.upper_bound < found.value < math.inf  # to the grid the peak at frequency 0 is wider than it is
