"""The simulators of quadratic problems against exact errors and against brute force.

False alarms: the file makes fewer than 500 comparisons |z| < LIMIT of a simulated mean with a number.  LIMIT is the
point that one of 500 values of Student's t with 200 degrees of freedom exceeds with probability 1e-7, so that other
seeds would fail somewhere with about this probability (the seeds are fixed, so these never do).  The counts of
intervals that miss are compared at levels of the same order.  Mutants show that the comparisons are sharp.
"""

import itertools
import math
import signal
import threading
import warnings

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import stdtrit

from corrnoise.simulations import quadratic as quadratic_problems
from corrnoise.simulations.quadratic import relaxation_rate, simulate, simulate_learning_curve
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation

LIMIT = -stdtrit(200, 1e-7 / 2 / 500)
SPECTRUM = [1.0, 0.5, 0.2]
PROBLEM = LinearRegression(SPECTRUM, 0.25, 0.5)
SIZE = {"steps": 10_000, "chains": 128}


def z_scores(simulation, exact):
    return {name: (mean - exact) / error for name, (mean, error) in simulation.estimators.items()}


# -- stationary errors -------------------------------------------------------------------------------------------------

CASES = {
    "independent noise": (PROBLEM, DPSGD(), {}),
    "correlated noise": (PROBLEM, NuFTRL(0.05), {"budget": Budget(0.3, clip_norm=2.0)}),
    "without residuals": (LinearRegression(SPECTRUM, 0.25), NuFTRL(0.05), {}),
    "anticorrelated noise": (PROBLEM, AntiPGD(0.1), {}),
    "finite noise": (PROBLEM, FiniteNoise([2.0, -1.2, 0.5]), {}),
    "finite noise of any phase": (PROBLEM, FiniteNoise([-0.5, 0.3]), {}),
    "product noise": (PROBLEM, ProductNoise([0.05, 0.4, 1.7], [0.5, -0.3, 0.4]), {}),
    "alternating poles": (PROBLEM, PoleNoise([0.1, 0.3, 1.9], [0.2, 1.8, 0.2]), {}),
    "uniform inputs": (LinearRegression(SPECTRUM, 0.25, 0.5, kurtosis=1.8), NuFTRL(0.05), {"inputs": "uniform"}),
    "signs": (LinearRegression(SPECTRUM, 0.7, 0.5, kurtosis=1), NuFTRL(0.05), {"inputs": "signs"}),
    "Student's t": (LinearRegression(SPECTRUM, 0.1, 0.5, kurtosis=3.6), NuFTRL(0.05), {"inputs": "student-t"}),
    "kurtosis by coordinate": (LinearRegression(SPECTRUM, 0.25, kurtosis=[3, 3, 3]), DPSGD(), {}),
    "mean": (MeanEstimation(0.2, 0.7), NuFTRL(0.2), {}),
    "oscillating mean": (MeanEstimation(1.6, 0.3), AntiPGD(0.3), {}),
    "batches": (LinearRegression(SPECTRUM, 0.5, 0.5, batch_size=3), NuFTRL(0.05), {"budget": Budget(0.3)}),
}


@pytest.fixture(scope="module")
def simulations():
    """Every case, simulated once."""
    return {name: simulate(p, noise, rng=1, **SIZE, **options) for name, (p, noise, options) in CASES.items()}


def exact_error(name):
    p, noise, options = CASES[name]
    return p.stationary_error(noise, **{k: v for k, v in options.items() if k != "inputs"})


@pytest.mark.parametrize("name", CASES)
def test_all_estimators_agree_with_the_exact_error(simulations, name):
    found = simulations[name]
    assert set(found.estimators) == {"plain", "delta", "delta1"}
    assert (found.mean, found.standard_error) == found.estimators["plain"]
    for estimator, z in z_scores(found, exact_error(name)).items():
        assert abs(z) < LIMIT, estimator
    assert found.standard_error < 3.6e-3 * found.mean
    assert found.estimators["delta"][1] < found.standard_error
    assert found.clipped_fraction == 0


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_errors_off_by_three_percent_are_rejected(simulations, name, factor):
    z = z_scores(simulations[name], factor * exact_error(name))
    assert min(map(abs, z.values())) > LIMIT


PLAIN = LinearRegression(SPECTRUM, 0.25)


@pytest.mark.parametrize(
    ("p", "noise", "options"),
    [
        (PLAIN, FiniteNoise([2.0]), {}),
        (PLAIN, DPSGD(), {"budget": Budget(1e100, clip_norm=1e-80)}),
        (PLAIN, DPSGD(), {"budget": Budget(1e-100, clip_norm=1e90)}),
    ],
)
def test_the_scale_of_the_noise_is_a_factor_of_the_error(p, noise, options):
    """Without residuals; of the same draws."""
    size = {"steps": 100, "chains": 2, "rng": 4}
    found, unit = simulate(p, noise, **size, **options), simulate(p, DPSGD(), **size)
    for name, (mean, error) in found.estimators.items():
        exact, of_unit = p.stationary_error(noise, **options), p.stationary_error(DPSGD())
        assert np.divide((mean, error), exact) == pytest.approx(np.divide(unit.estimators[name], of_unit), rel=1e-9)


def test_mutants_of_the_formula_are_rejected(simulations):
    """The linear part alone, and σ without γ, by each estimator."""
    p, noise, _ = CASES["anticorrelated noise"]
    exact, linear = exact_error("anticorrelated noise"), p.lower_bound(noise) / 2
    gamma2 = noise.limiting_sensitivity() ** 2
    without_gamma = p.stationary_error(noise, budget=Budget(gamma2))
    assert linear < 0.9 * exact
    for mutant in (linear, without_gamma):
        assert min(map(abs, z_scores(simulations["anticorrelated noise"], mutant).values())) > 5 * LIMIT


def test_steps_that_no_batch_length_divides_all_count():
    found = simulate(PROBLEM, DPSGD(), steps=1009, chains=500, rng=2)
    assert found.steps == 1009
    assert max(map(abs, z_scores(found, PROBLEM.stationary_error(DPSGD())).values())) < LIMIT


@pytest.mark.slow
def test_the_start_is_forgotten_in_the_default_burn_in():
    """Without burn-in the error is visibly too small; with the default one it is not, over 2 steps of 6000 chains."""
    p = LinearRegression([1.0, 0.1], 0.2, 0.5)
    size = {"steps": 2, "chains": 6000, "rng": 3, "threads": 1}
    for noise in (NuFTRL(0.02), PoleNoise([0.1, 1.9], [0.2, 1.98])):
        exact = p.stationary_error(noise)
        assert max(map(abs, z_scores(simulate(p, noise, **size), exact).values())) < LIMIT
        assert z_scores(simulate(p, noise, burn_in=5, **size), exact)["plain"] < -LIMIT


# -- brute force: its own generator, a full convolution, numpy ---------------------------------------------------------


def brute_force(p, beta, sigma, steps, chains, rng, clip_norm=math.inf):
    """F − F* before each step, shape (steps, chains), and the number of clipped gradients of each chain."""
    d = p.eigenvalues.size
    w = np.zeros((2 * steps - 1, chains, d))
    w[steps - 1 :] = rng.normal(scale=sigma, size=(steps, chains, d))
    noise = sliding_window_view(w, steps, axis=0) @ beta[:steps][::-1]
    theta, errors, clipped = np.zeros((chains, d)), np.empty((steps, chains)), np.zeros(chains)
    for t in range(steps):
        errors[t] = (p.eigenvalues * theta**2).sum(axis=1) / 2
        x = np.sqrt(p.eigenvalues) * rng.normal(size=(chains, d))
        residual = (x * theta).sum(axis=1) - p.residual_std * rng.normal(size=chains)
        gradient = residual[:, np.newaxis] * x
        norm = np.linalg.norm(gradient, axis=1)
        clipped += norm > clip_norm
        gradient *= np.minimum(1, clip_norm / norm)[:, np.newaxis]
        theta = theta - p.learning_rate * (gradient + noise[t])
    return errors, clipped


@pytest.mark.slow
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("d", [1, 3])
def test_runs_against_brute_force(clip, d):
    p, noise, steps, chains, clip_norm = LinearRegression(SPECTRUM[:d], 0.3, 0.8), NuFTRL(0.05), 60, 4000, 0.9
    sigma = noise.limiting_sensitivity() * clip_norm / math.sqrt(2)
    errors, clipped = brute_force(
        p, noise.coefficients(steps), sigma, steps, chains, np.random.default_rng(4), clip_norm if clip else math.inf
    )
    curve = simulate_learning_curve(
        p, noise, steps, chains=10_000, points=12, rng=5, clip=clip, budget=Budget(1.0, clip_norm=clip_norm), threads=1
    )
    blocks = errors.reshape(12, 5, chains).mean(axis=1)
    mean, error = blocks.mean(axis=1), blocks.std(axis=1, ddof=1) / math.sqrt(chains)
    assert curve.steps.tolist() == list(range(0, steps, 5))
    assert (np.abs(mean - curve.mean) < LIMIT * np.hypot(error, curve.standard_error)).all()
    if clip:
        found = simulate(
            p, noise, steps=steps, chains=10_000, burn_in=0, rng=6, clip=True, budget=Budget(1.0, clip_norm=clip_norm)
        )
        share, spread = clipped.mean() / steps, clipped.std(ddof=1) / steps * math.sqrt(1 / chains + 1 / 10_000)
        assert abs(found.clipped_fraction - share) < LIMIT * spread
        assert 0.1 < share < 0.9
        assert set(found.estimators) == {"plain"}
        assert abs(errors.mean() - found.mean) < LIMIT * math.hypot(
            errors.mean(axis=0).std(ddof=1) / math.sqrt(chains), found.standard_error
        )
        unclipped = (
            p.learning_curve(noise, steps - 1, budget=Budget(1.0, clip_norm=clip_norm)).reshape(12, 5).mean(axis=1)
        )
        assert (np.abs(unclipped - curve.mean)[6:] > 2 * LIMIT * curve.standard_error[6:]).all()  # clipping matters


# -- clipping ----------------------------------------------------------------------------------------------------------


def test_a_tiny_clip_norm_clips_everything_and_an_unstable_learning_rate_is_allowed():
    tiny = {"clip": True, "budget": Budget(1.0, clip_norm=1e-9), "rng": 8}
    assert simulate(PROBLEM, NuFTRL(0.05), steps=5000, chains=4, **tiny).clipped_fraction == 1
    assert simulate(LinearRegression([1.0], 3.0, 0.5), DPSGD(), steps=100, chains=2, **tiny).clipped_fraction == 1


@pytest.mark.slow
def test_clipped_gradients_are_counted_after_the_burn_in_only():
    """One step from θ = θ*: the gradient is ξ x, and P(|ξ x| > G) is known by integration."""
    p, g = LinearRegression([1.0], 0.1, 1.0), 0.5
    found = simulate(
        p, DPSGD(), steps=1, chains=20_000, burn_in=0, rng=9, clip=True, budget=Budget(1.0, clip_norm=g), threads=1
    )
    u = (np.arange(400_000) + 0.5) / 400_000 * 12  # P(|ξ| > g/|x|) over the density of |x|
    erfc = np.vectorize(math.erfc)
    exact = (erfc(g / u / math.sqrt(2)) * np.exp(-u * u / 2)).sum() * 12 / u.size * math.sqrt(2 / math.pi)
    assert abs(found.clipped_fraction - exact) < LIMIT * math.sqrt(exact * (1 - exact) / 20_000)


# -- learning rates too large ------------------------------------------------------------------------------------------

ONE_STEP = {"steps": 1, "chains": 1, "burn_in": 0, "rng": 0}


@pytest.mark.parametrize(
    ("p", "options"),
    [
        (LinearRegression([1.0], 0.67), {}),
        (LinearRegression([1.0] * 5, 0.3), {}),
        (LinearRegression([1.0], 2.01, kurtosis=1), {"inputs": "signs"}),
        (MeanEstimation(2.0), {}),
    ],
)
def test_unstable_learning_rates_are_refused(p, options):
    with pytest.raises(ValueError, match="learning_rate must keep second moments finite"):
        simulate(p, DPSGD(), **ONE_STEP, **options)


@pytest.mark.parametrize(("exponent", "threshold"), [(1.0, 0.3171), (0.7, 0.1657), (0.5, 0.09192), (0.4, 0.06623)])
def test_infinite_variance_is_warned_of(exponent, threshold):
    eigenvalues = np.arange(1, 129) ** -exponent
    with pytest.warns(RuntimeWarning, match="fourth moments of the iterates diverge") as caught:
        simulate(LinearRegression(eigenvalues, threshold * 1.0005), DPSGD(), **ONE_STEP)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(LinearRegression(eigenvalues, threshold / 1.0005), DPSGD(), **ONE_STEP)


@pytest.mark.parametrize("d", [1, 2, 128, 300, 5000])
def test_tiny_and_stable_learning_rates_pass_without_a_warning(d):
    for rate in (1e-8, 0.05):
        simulate(LinearRegression(1 / np.arange(1, d + 1), rate), DPSGD(), **ONE_STEP)
    simulate(LinearRegression(np.full(d, 1.9 / d), 1.0, kurtosis=1), DPSGD(), inputs="signs", **ONE_STEP)
    simulate(MeanEstimation(1.99), DPSGD(), **ONE_STEP)


# -- relaxation --------------------------------------------------------------------------------------------------------

THREE_POINTS = (np.sqrt(3) * np.array([-1, 0, 1]), np.array([1, 4, 1]) / 6)  # Gaussian up to the fifth moment
SIGNS = (np.array([-1.0, 1.0]), np.array([0.5, 0.5]))


@pytest.mark.parametrize(("law", "kurtosis"), [(THREE_POINTS, 3), (SIGNS, 1)])
def test_relaxation_rate_against_the_matrix_of_all_second_moments(law, kurtosis):
    rng = np.random.default_rng(10)
    for _ in range(40):
        d = rng.integers(1, 4)
        rates = rng.exponential(size=d) ** 2
        rates *= rng.uniform(0.01, 1.1) / rates.sum()
        matrix = np.zeros((d * d, d * d))
        for choice in itertools.product(range(law[0].size), repeat=d):
            z, p = law[0][list(choice)], law[1][list(choice)].prod()
            step = np.eye(d) - np.outer(rates * z, z)
            matrix += p * np.kron(step, step)
        exact = 1 - np.abs(np.linalg.eigvals(matrix)).max()
        assert relaxation_rate(LinearRegression(rates, 1.0, kurtosis=kurtosis)) == pytest.approx(exact, abs=1e-10)


def test_relaxation_rate_of_equal_tiny_and_unstable_rates():
    assert relaxation_rate(MeanEstimation(0.3)) == pytest.approx(1 - 0.7**2, rel=1e-14)
    # equal rates: (1 − x)² + x² + d x², Gaussian
    assert relaxation_rate(LinearRegression(np.ones(50), 1e-3)) == pytest.approx(2e-3 - 52e-6, rel=1e-10)
    assert relaxation_rate(LinearRegression(np.ones(3), 1e-12)) == pytest.approx(2e-12, rel=1e-10)
    assert relaxation_rate(LinearRegression(np.ones(3), 0.4)) == pytest.approx(0.8 - 5 * 0.16, abs=1e-12)
    assert relaxation_rate(LinearRegression(np.ones(3), 0.5)) < 0


# -- standard errors ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "noise", "chains", "relaxations"),
    [
        (MeanEstimation(0.02, 0.3), DPSGD(), 1, 400),
        (LinearRegression([1.0, 0.25], 0.1, 0.5), NuFTRL(0.05), 1, 400),
        (LinearRegression([1.0, 0.25], 0.1, 0.5), DPSGD(), 2, 200),
        (LinearRegression([1.0, 0.25], 0.1, 0.5), AntiPGD(0.2), 8, 50),
        (MeanEstimation(0.02, 0.3), NuFTRL(0.1), 32, 12),
    ],
    ids=lambda v: v if isinstance(v, int) else type(v).__name__,
)
def test_standard_errors_are_honest(p, noise, chains, relaxations):
    """Over 400 runs: how often 1.96 of them are exceeded, and the spread of z.

    Bounds that fail with probability below 1e-7 where 1.96 are exceeded in 6 % and the spread is 0.92.
    """
    exact, steps = p.stationary_error(noise), math.ceil(relaxations * 2 / relaxation_rate(p))
    estimators = ["plain"] if isinstance(p, MeanEstimation) else ["plain", "delta", "delta1"]
    runs = [simulate(p, noise, steps=steps, chains=chains, rng=seed, threads=1) for seed in range(400)]
    z = np.array([[z_scores(run, exact)[name] for name in estimators] for run in runs])

    def honest(z):
        return ((np.abs(z) > 1.96).mean(axis=0) < 0.14) & (z.std(axis=0) > 0.72)

    assert honest(z).all()
    assert not honest(1.7 * z).any()  # mutants: 1.7 times too small, too large
    assert not honest(z / 1.7).any()


def test_independent_draws_count_fully():
    """θ is a fresh sample at every step for η = 1."""
    found = simulate(MeanEstimation(1.0, 0.5), DPSGD(), steps=20_000, chains=8, rng=11)
    assert 0.85 * 160_000 < found.effective_sample_size <= 160_000


def test_dependent_draws_count_less():
    """The autocorrelations of θ² are (1 − η)^{2k}."""
    found = simulate(MeanEstimation(0.1, 0.5), DPSGD(), steps=50_000, chains=8, rng=12)
    assert found.effective_sample_size == pytest.approx(400_000 * (1 - 0.81) / (1 + 0.81), rel=0.2)


def test_one_stretch_has_no_standard_error():
    found = simulate(PROBLEM, DPSGD(), steps=1, chains=1, rng=13)
    assert math.isinf(found.standard_error)
    assert found.effective_sample_size == 0
    assert math.isfinite(simulate(PROBLEM, DPSGD(), steps=1, chains=2, rng=13).standard_error)


# -- reproducibility ---------------------------------------------------------------------------------------------------


def test_results_depend_on_the_seed_and_on_nothing_else():
    def run(rng, **options):
        found = simulate(PROBLEM, NuFTRL(0.05), steps=300, chains=5, rng=rng, **options)
        return found.estimators, found.effective_sample_size

    seed = np.random.SeedSequence(14)
    first = run(14)
    assert all(run(14, threads=n) == first for n in (1, 2, 4))
    assert run(seed) == run(seed) == run(np.random.default_rng(14)) == first
    generator = np.random.default_rng(14)
    assert run(generator) == first != run(generator)
    assert run(15) != first
    assert run(None) != run(None)


def test_curves_depend_on_the_seed_and_on_nothing_else():
    def run(rng, **options):
        found = simulate_learning_curve(PROBLEM, NuFTRL(0.05), 50, chains=5, rng=rng, **options)
        return found.mean.tolist(), found.standard_error.tolist()

    assert run(1, threads=1) == run(1, threads=2) == run(1, threads=4) != run(2)


# -- learning curves ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "noise", "options"),
    [
        (PROBLEM, NuFTRL(0.05), {"initial_offset": [2.0, -1.0, 0.5]}),
        (PROBLEM, NuFTRL(0.05), {"participation": Participation.single(90), "budget": Budget(0.2, clip_norm=0.5)}),
        (PROBLEM, AntiPGD(0.0), {"participation": Participation.single(90), "initial_offset": 1.0}),
        (PROBLEM, FiniteNoise([1.0, -0.6, 0.2]), {"participation": Participation.single(91)}),
        (MeanEstimation(0.1, 0.5), DPSGD(), {"initial_offset": 3.0}),
    ],
)
def test_learning_curves_against_exact_ones(p, noise, options):
    """Blocks of nearly equal length, 13 of 90 steps; a shift by one step is a mutant."""
    curve = simulate_learning_curve(p, noise, 90, chains=5000, points=13, rng=17, threads=1, **options)
    exact = p.learning_curve(noise, 90, **options)
    ends = [*curve.steps[1:], 90]
    assert {e - s for s, e in zip(curve.steps, ends, strict=True)} == {6, 7}

    def blocks(values):
        return np.array([values[s:e].mean() for s, e in zip(curve.steps, ends, strict=True)])

    assert (np.abs(curve.mean - blocks(exact)) < LIMIT * curve.standard_error).all()
    assert (np.abs(curve.mean - blocks(exact[1:])) > LIMIT * curve.standard_error).any()


def test_a_diverging_curve_becomes_infinite_and_never_nan():
    curve = simulate_learning_curve(LinearRegression([1.0], 40.0), DPSGD(), 2000, chains=4, points=100, rng=19)
    assert np.isfinite(curve.mean[:2]).all()
    assert np.isinf(curve.mean[-1])
    assert np.isinf(curve.standard_error[-1])
    assert not np.isnan(curve.mean).any()
    assert not np.isnan(curve.standard_error).any()


@pytest.mark.slow
def test_standard_errors_of_curves_with_few_chains_are_honest():
    exact = PROBLEM.learning_curve(DPSGD(), 40)[39:40]
    z = np.array(
        [
            (curve.mean[-1] - exact[0]) / curve.standard_error[-1]
            for curve in (
                simulate_learning_curve(PROBLEM, DPSGD(), 40, chains=5, points=40, rng=seed, threads=1)
                for seed in range(500)
            )
        ]
    )
    assert 0.005 < (np.abs(z) > 1.96).mean() < 0.16
    assert (np.abs(z) > 1.96 / 1.6).mean() > 0.16


# -- progress, failures, interrupts ------------------------------------------------------------------------------------


def test_progress_goes_to_standard_error(capfd):
    simulate(PROBLEM, DPSGD(), steps=10, chains=3, rng=20, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.endswith(" 3/3 chains\r\x1b[K")
    simulate(PROBLEM, DPSGD(), steps=10, chains=3, rng=20, progress=False)
    simulate(PROBLEM, DPSGD(), steps=10, chains=3, rng=20)  # standard error is no terminal
    assert capfd.readouterr() == ("", "")


ENDLESS = {"steps": 10**13, "chains": 6, "threads": 2, "burn_in": 0, "rng": 21}


def test_a_failing_chain_ends_the_others(monkeypatch):
    run, calls = quadratic_problems.run_chain, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise MemoryError("no room for this chain")
        return run(*arguments)

    monkeypatch.setattr(quadratic_problems, "run_chain", failing)
    with pytest.raises(MemoryError, match="no room for this chain"):
        simulate(PROBLEM, DPSGD(), **ENDLESS)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to threads")
def test_an_interrupt_ends_all_chains():
    simulate(PROBLEM, DPSGD(), steps=1, chains=1)  # compiled before the clock starts
    main = threading.get_ident()
    timer = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulate(PROBLEM, DPSGD(), **ENDLESS)
    timer.join()


# -- bad arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"problem": 3}, TypeError, "problem must be MeanEstimation or LinearRegression"),
        ({"noise": [1.0, 0.5]}, TypeError, "noise must be correlated noise"),
        ({"noise": AntiPGD(0.0)}, ValueError, "finite limiting sensitivity"),
        ({"noise": NuFTRL(0.0)}, ValueError, "finite limiting sensitivity"),
        ({"noise": FiniteNoise([1.0, -2.0])}, ValueError, "finite limiting sensitivity"),
        ({"steps": 0}, ValueError, "steps must be an integer >= 1"),
        ({"steps": 2.0}, TypeError, "steps must be an integer >= 1"),
        ({"chains": 0}, ValueError, "chains must be an integer >= 1"),
        ({"chains": True}, TypeError, "chains must be an integer >= 1"),
        ({"burn_in": -1}, ValueError, "burn_in must be an integer >= 0"),
        ({"threads": 0}, ValueError, "threads must be an integer >= 1"),
        ({"inputs": "cauchy"}, ValueError, "inputs must be one of 'gaussian', 'uniform', 'signs', 'student-t'"),
        ({"inputs": "cauchy", "problem": MeanEstimation(0.1)}, ValueError, "inputs must be one of"),
        ({"inputs": "uniform"}, ValueError, "kurtosis of the problem must be 1.8 for uniform inputs, got 3.0"),
        ({"inputs": "signs"}, ValueError, "kurtosis of the problem must be 1.0 for signs inputs"),
        ({"inputs": "student-t"}, ValueError, "kurtosis must exceed 3 for student-t inputs"),
        ({"problem": LinearRegression([1, 0.5], 0.1, kurtosis=[3, 1])}, ValueError, "kurtosis must be one number"),
        ({"problem": LinearRegression([1], 0.1, kurtosis=2)}, ValueError, "kurtosis of the problem must be 3.0"),
        ({"rng": "seed"}, TypeError, "rng must be an integer >= 0, .*, got 'seed'"),
        ({"rng": -1}, ValueError, "rng must be an integer >= 0, .*, got -1"),
        ({"clip": "no"}, TypeError, "clip must be True or False, got 'no'"),
    ],
)
def test_bad_arguments_are_refused(changes, error, message):
    arguments = {"problem": PROBLEM, "noise": DPSGD(), "steps": 2, "chains": 1, "rng": 0, **changes}
    with pytest.raises(error, match=message):
        simulate(**arguments)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"problem": 3}, TypeError, "problem must be MeanEstimation or LinearRegression"),
        ({"noise": "white"}, TypeError, "noise must be correlated noise"),
        ({"noise": AntiPGD(0.0)}, ValueError, "finite sensitivity"),
        ({"noise": NuFTRL(0.0), "participation": Participation.single(10)}, ValueError, "memory never ends"),
        ({"steps": 0}, ValueError, "steps must be an integer >= 1"),
        ({"chains": 1}, ValueError, "chains must be an integer >= 2"),
        ({"points": 0}, ValueError, "points must be an integer >= 1"),
        ({"participation": 5}, TypeError, "participation must be a Participation, got 5"),
        (
            {"participation": Participation.single(5), "steps": 7},
            ValueError,
            r"steps must be at most the 5 of participation \+ 1, got 7",
        ),
        ({"clip": "no"}, TypeError, "clip must be True or False, got 'no'"),
        ({"problem": LinearRegression([1], 0.1, kurtosis=1.8)}, ValueError, "kurtosis of the problem must be 3.0"),
        ({"initial_offset": [1.0, 2.0]}, ValueError, r"initial_offset must be a scalar or have shape \(3,\)"),
        ({"initial_offset": math.nan}, ValueError, "initial_offset must lie in"),
        ({"threads": -1}, ValueError, "threads must be an integer >= 1"),
    ],
)
def test_bad_arguments_of_curves_are_refused(changes, error, message):
    arguments = {"problem": PROBLEM, "noise": DPSGD(), "steps": 3, "chains": 2, "rng": 0, **changes}
    with pytest.raises(error, match=message):
        simulate_learning_curve(**arguments)
