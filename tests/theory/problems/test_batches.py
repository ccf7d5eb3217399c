"""Batches of several examples on quadratic problems: enumeration, 40 digits, bounds, and refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.papers.correlated_noise import finite_time, published_bounds, table_rates
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests import problem_oracles as oracles
from tests.strategies import mean_estimations, noises, regressions


@pytest.mark.parametrize("law", oracles.LAWS)
@pytest.mark.parametrize("batch_size", [2, 3])
def test_batches_agree_with_all_sequences_of_inputs(law: str, batch_size: int) -> None:
    """Two examples have the covariances that any larger number has; three show the powers of 1/m."""
    laws = oracles.LAWS[law]
    steps = 2 if batch_size == 2 else 1
    run = oracles.Run(
        np.array([1.0, 0.4]), 0.3, 0.7, np.array([1.0, -0.4, -0.1]), 0.8, np.array([0.5, -1.0]), np.eye(2)
    )
    problem = LinearRegression(
        run.eigenvalues, 0.3, 0.7, kurtosis=[oracles.kurtosis(one) for one in laws], batch_size=batch_size
    )
    noise = FiniteNoise(run.coefficients)
    once = Participation.single(steps)
    budget = Budget(0.5, clip_norm=run.noise_std / noise.sensitivity(once))
    expected = oracles.enumerated_curve(run, laws, steps, batch_size)
    found = problem.learning_curve(noise, steps, budget=budget, participation=once, initial_offset=run.offset)
    assert found == pytest.approx(expected, rel=1e-12)
    single = LinearRegression(run.eigenvalues, 0.3, 0.7, kurtosis=problem.kurtosis)
    wrong = single.learning_curve(noise, steps, budget=budget, participation=once, initial_offset=run.offset)
    assert abs(wrong[-1] / expected[-1] - 1) > 1e-3


@pytest.mark.parametrize("case", range(8))
def test_errors_of_batches_to_40_digits(case: int) -> None:
    rng = np.random.default_rng([2311, case])
    plain, noise = oracles.random_problem(rng), oracles.random_noise(rng)
    problem = LinearRegression(**{**plain.arguments(), "batch_size": int(rng.choice([2, 7, 10**6]))})
    margin = oracles.stability_margin(problem)
    assert oracles.agrees(problem.stationary_error(noise), oracles.stationary_error(problem, noise), margin)
    assert oracles.agrees(problem.optimal_error(), oracles.optimal_error(problem), margin)
    assert problem.contributions(noise).sum() == pytest.approx(problem.stationary_error(noise), rel=1e-12)


@given(regressions(kurtosis=None), noises(), st.integers(1, 10**6))
def test_bounds_of_batches(problem: LinearRegression, noise: ToeplitzNoise, batch_size: int) -> None:
    batched = LinearRegression(**{**problem.arguments(), "batch_size": batch_size})
    error = batched.stationary_error(noise)
    assert batched.lower_bound(noise) <= error * (1 + 1e-12)
    assert error <= batched.upper_bound(noise) * (1 + 1e-12)
    assert batched.lower_bound() * (1 - 1e-12) <= batched.optimal_error() <= error * (1 + 1e-12)
    assert error <= problem.stationary_error(noise) * (1 + 1e-12)
    assert batched.instability() <= problem.instability() * (1 + 1e-12)


@given(mean_estimations(), st.integers(1, 1000))
def test_a_mean_over_a_batch_has_the_residual_and_the_noise_of_a_mean(problem: MeanEstimation, m: int) -> None:
    batched = MeanEstimation(problem.learning_rate, problem.sample_std, batch_size=m)
    same = MeanEstimation(problem.learning_rate, problem.sample_std / math.sqrt(m))
    for noise in (DPSGD(), NuFTRL(0.1)):
        assert batched.stationary_error(noise) == pytest.approx(
            same.stationary_error(noise, budget=Budget(1.0, clip_norm=1 / m)), rel=1e-9
        )


def test_a_batch_of_one_is_the_default_and_others_are_named() -> None:
    assert LinearRegression([1.0], 0.1, batch_size=1) == LinearRegression([1.0], 0.1)
    assert "batch_size" not in repr(MeanEstimation(0.1))
    assert repr(MeanEstimation(0.1, batch_size=4)) == "MeanEstimation(learning_rate=0.1, sample_std=0.0, batch_size=4)"
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="batch_size must be an integer >= 1"):
            LinearRegression([1.0], 0.1, batch_size=wrong)


def test_what_is_known_for_one_example_is_refused_for_batches() -> None:
    problem = LinearRegression([1.0, 0.5], 0.1, batch_size=2)
    for bound in (
        lambda: published_bounds.theorem_c18_lower_bound(problem, DPSGD()),
        lambda: published_bounds.average_log_lower_bound(problem),
        lambda: published_bounds.dp_sgd_error_bounds(problem),
        lambda: finite_time.theorem_d11_upper_bound(problem, DPSGD(), [1.0], 1.0),
        lambda: finite_time.FiniteRun(problem, 10, 0.1, 0.0),
        lambda: table_rates.lower_bound_rate(problem),
    ):
        with pytest.raises(ValueError, match="problem must have batch_size=1, as the proof assumes, got 2"):
            bound()
    with pytest.raises(ValueError, match="batch_size must be that of the problem, 2, or None, got 3"):
        LearningObjective(problem, 10, batch_size=3)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_learning_objective_takes_the_batch_of_the_problem(batch_size: int) -> None:
    problem = LinearRegression([1.0, 0.5, 0.1], 0.2, 0.3, batch_size=batch_size)
    objective = LearningObjective(problem, 40)
    run, once = NuFTRL(0.1), Participation.single(40)
    parts = objective.privacy_error(run, once) + objective.sampling_error() + objective.initial_error(0.3)
    curve = problem.learning_curve(NuFTRL(0.1), 40, participation=once, initial_offset=0.3)
    assert parts == pytest.approx(curve[-1], rel=1e-12)
