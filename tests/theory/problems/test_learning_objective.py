"""The learning error of any noise, against learning curves and complete enumeration of the data."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems import learning_objective
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests.strategies import mean_estimations, mechanisms, noises, regressions


def total(objective, mechanism, offset, rho=1.0):
    who = Participation.single(objective.steps)
    return (
        objective.privacy_error(mechanism, who, Budget(rho))
        + objective.sampling_error()
        + objective.initial_error(offset)
    )


@pytest.mark.slow
@given(regressions(most=4, kurtosis=None) | mean_estimations(), noises(), st.integers(1, 40), st.data())
def test_toeplitz_noise_has_the_error_of_its_learning_curve(problem, noise, steps, data):
    weights = np.array(data.draw(st.lists(st.floats(0, 1), min_size=steps, max_size=steps)))
    weights[-1] += 0.1
    offset = data.draw(st.floats(-2, 2))
    curve = problem.learning_curve(
        noise, steps, participation=Participation.single(steps), budget=Budget(0.7), initial_offset=offset
    )
    for weighting, exact in (("last", curve[-1]), (weights, weights @ curve[1:])):
        found = total(LearningObjective(problem, steps, weights=weighting), noise, offset, 0.7)
        assert found == pytest.approx(exact, rel=1e-10)
    half = LearningObjective(problem, steps, weights="second half").step_weights()
    assert half.sum() == pytest.approx(1)
    assert np.count_nonzero(half) == steps - steps // 2


@given(regressions(most=4, kurtosis=None) | mean_estimations(), mechanisms())
def test_the_weight_matrix(problem, mechanism):
    """It is positive semidefinite, and the short cut for Toeplitz noise agrees with it."""
    steps = mechanism.steps or 7
    objective = LearningObjective(problem, steps, weights="second half", batch_size=2)
    weights = objective.weight_matrix()
    np.testing.assert_array_equal(weights, weights.T)
    assert np.linalg.eigvalsh(weights)[0] >= -1e-13 * np.trace(weights)
    noising = mechanism.noising_matrix(steps)
    exact = np.trace(weights @ noising @ noising.T)
    scale = np.abs(noising).sum() ** 2 * np.abs(weights).max()
    assert mechanism.squared_error(objective) == pytest.approx(exact, rel=1e-9, abs=1e-13 * scale)


def enumerated(problem, batch, mechanism, offset, weights, sigma, values, shares):
    """E Σ ϖ_s (F(θ_s) − F*) over all batches of inputs with the given coordinates and residuals ±s."""
    eta, lam, steps = problem.learning_rate, problem.eigenvalues, mechanism.steps
    d = lam.size
    covariance = sigma**2 * mechanism.noising_matrix() @ mechanism.noising_matrix().T
    expected = 0.0
    for choice in itertools.product(range(len(values)), repeat=steps * batch * d):
        probability = np.prod(shares[list(choice)])
        x = values[list(choice)].reshape(steps, batch, d) * np.sqrt(lam)
        bias, parts = np.full(d, offset), np.zeros((steps, d, d))  # θ_s = bias + Σ parts_t (noise_t) + residuals
        residual = np.zeros((d, d))
        for t in range(steps):
            step = np.eye(d) - eta * x[t].T @ x[t] / batch
            bias, parts, residual = step @ bias, step @ parts, step @ residual @ step.T
            parts[t] = -eta * np.eye(d)
            residual += (eta * problem.residual_std / batch) ** 2 * x[t].T @ x[t]
            noise = np.einsum("tij,rkj,tr->ik", parts, parts, covariance)
            second = np.outer(bias, bias) + noise + residual
            expected += probability * weights[t] * (lam * np.diag(second)).sum() / 2
    return expected


SIGNS = (np.array([-1.0, 1.0]), np.array([0.5, 0.5]))
SPARSE = (np.array([-2.0, 0.0, 2.0]), np.array([0.125, 0.75, 0.125]))  # kurtosis 4


@pytest.mark.parametrize(
    ("inputs", "kurtosis", "steps", "batch", "d"),
    [(SIGNS, 1.0, 2, 2, 2), (SPARSE, 4.0, 2, 2, 2), (SPARSE, 4.0, 3, 2, 1), (SPARSE, 4.0, 3, 1, 2)],
)
def test_batches_and_any_noise_by_enumeration(inputs, kurtosis, steps, batch, d):
    problem = LinearRegression([1.0, 0.4][:d], 0.3, 0.7, kurtosis=kurtosis)
    rng = np.random.default_rng(5)
    mechanism = MatrixNoise(np.tril(rng.normal(size=(steps, steps)), -1) + np.eye(steps))
    weights = np.array([0.1, 0.2, 0.3, 0.4])[-steps:]
    gamma = mechanism.sensitivity(Participation.single(steps))
    exact = enumerated(problem, batch, mechanism, 0.8, weights, gamma / np.sqrt(2) / batch, *inputs)
    found = total(LearningObjective(problem, steps, weights=weights, batch_size=batch), mechanism, 0.8)
    assert found == pytest.approx(exact, rel=1e-12)
    mutant = LinearRegression([1.0, 0.4][:d], 0.3, 0.7, kurtosis=kurtosis + 1e-6)
    changed = total(LearningObjective(mutant, steps, weights=weights, batch_size=batch), mechanism, 0.8)
    assert abs(changed / exact - 1) > 1e-10
    other = total(LearningObjective(problem, steps, weights=weights, batch_size=batch + 1), mechanism, 0.8)
    assert abs(other / exact - 1) > 1e-2


@pytest.mark.parametrize(
    ("decay", "epochs", "weights", "independent", "root"),
    [
        (1, 1, "last", 0.40324, 0.048457),
        (1, 4, "second half", 1.6040, 0.28474),
        (2, 4, "last", 1.6696, 0.26209),
        (0, 1, "second half", 0.078431, 0.013549),
    ],
)
def test_known_privacy_errors(decay, epochs, weights, independent, root):
    """32 eigenvalues, 1024 steps; from an independent program."""
    lam = np.arange(1, 33.0) ** -decay
    problem = LinearRegression(lam, 0.5 / (lam.sum() + 2 * lam.max()))
    objective, who = LearningObjective(problem, 1024, weights=weights), Participation.fixed_epochs(1024, epochs=epochs)
    for noise, value in ((DPSGD(), independent), (NuFTRL(0.0), root)):
        error = objective.privacy_error(noise, who)
        assert error == pytest.approx(value, rel=2e-4)


def test_refusals():
    problem = MeanEstimation(0.1)
    with pytest.raises(ValueError, match="weights must not all be 0"):
        LearningObjective(problem, 2, weights=[0.0, 0.0])
    with pytest.raises(ValueError, match="weights must be one of 'last', 'second half', got 'mean'"):
        LearningObjective(problem, 2, weights="mean")
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\)"):
        LearningObjective(problem, 2, weights=[1.0])
    with pytest.raises(ValueError, match="batch_size must be an integer >= 1, got 0"):
        LearningObjective(problem, 2, batch_size=0)
    with pytest.raises(ValueError, match="the number of steps must be 3 as the mechanism has, got 2"):
        MatrixNoise(np.eye(3)).squared_error(LearningObjective(problem, 2))
    for error in (LearningObjective(problem, 2).privacy_error, LearningObjective(problem, 2).privacy_curve):
        with pytest.raises(ValueError, match="participation must have steps=2 as the objective has, got Single"):
            error(DPSGD(), Participation.single(3))
    with pytest.raises(OverflowError, match="exceed the range of floats"):
        LearningObjective(MeanEstimation(10.0), 1000).weight_matrix()


# -- many eigenvalues --------------------------------------------------------------------------------------------------


def all_errors(objective):
    n = objective.steps
    rng = np.random.default_rng(0)
    varying = TimeVaryingBuffers([0.9, 0.99], *rng.uniform(0.05, 0.2, (2, n, 2)), np.ones(n))
    found = [noise.squared_error(objective) for noise in (NuFTRL(0.01), DPSGD(), varying, MatrixNoise.fourier(n))]
    curve = objective.privacy_curve(DPSGD(), Participation.single(n))
    return np.array([*found, objective.sampling_error(), objective.initial_error(1.5), *curve[1:]])


@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("decay", [0.0, 1.0, 3.0])
def test_few_modes_stand_for_many_eigenvalues(decay, batch_size, monkeypatch):
    eigenvalues = np.random.default_rng(1).uniform(0.5, 1.5, 400) * np.arange(1.0, 401) ** -decay
    problem = LinearRegression(eigenvalues, 0.7 / (eigenvalues.sum() + 2 * eigenvalues.max()), 0.3)
    objective = LearningObjective(problem, 150, weights="second half", batch_size=batch_size)
    few = all_errors(objective)
    modes = objective.modes()
    assert modes.counts.size < 300
    assert modes.counts.sum() == pytest.approx(400)
    monkeypatch.setattr(learning_objective, "MAX_EXACT_MODES", 400)
    assert objective.modes().counts.size == 400
    np.testing.assert_allclose(few, all_errors(objective), rtol=1e-10)
    monkeypatch.setattr(LearningObjective, "modes", lambda _: modes._replace(counts=np.ones(modes.counts.size)))
    assert (np.abs(all_errors(objective) / few - 1) > 1e-5).any()  # the mutant counts each mode once


def test_directions_of_several_kurtoses_are_all_kept():
    problem = LinearRegression(np.ones(100) / 100, 0.1, kurtosis=np.linspace(1, 3, 100))
    assert LearningObjective(problem, 10).modes().counts.size == 100
