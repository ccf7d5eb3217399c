"""The quadratic form of a run against the definition, tr(W N Nᵀ) with matrices written out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from corrnoise.solvers.objectives import _LongWorkload, covariance, run_objective
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.objectives.workloads import MatrixWorkload, MomentumSGD, PrefixSums, Workload
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.strategies import regressions, workloads


def by_definition(weights: np.ndarray, noising: np.ndarray, scales: np.ndarray) -> float:
    matrix = scales[:, np.newaxis] * toeplitz(noising, np.zeros(noising.size))
    return float(np.trace(weights @ matrix @ matrix.T))


def weights_of(what: Workload | LearningObjective) -> np.ndarray:
    if isinstance(what, LearningObjective):
        return what.weight_matrix()
    matrix = what.matrix()
    return np.asarray(matrix.T @ matrix / matrix.shape[0])


def agrees_with_the_definition(what: Workload | LearningObjective, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = what.steps
    noising, other = np.exp(-0.3 * np.arange(n)) * rng.normal(size=(2, n))
    scales = np.exp(rng.normal(size=n) / 3)
    objective = run_objective(what)
    weights = weights_of(what)
    value, gradient = objective.power(noising)
    size = max(1.0, by_definition(np.abs(weights), np.abs(noising), np.ones(n)))
    assert value == pytest.approx(by_definition(weights, noising, np.ones(n)), abs=1e-11 * size)
    # The form is quadratic, so a symmetric difference of any step is its derivative.
    slope = (objective.power(noising + other)[0] - objective.power(noising - other)[0]) / 2
    assert gradient @ other == pytest.approx(slope, abs=1e-9 * max(size, abs(slope)) + 1e-9)
    assert objective.scaled_power(noising, scales) == pytest.approx(
        by_definition(weights, noising, scales), rel=1e-9, abs=1e-11 * size
    )
    parts = objective.epoch_powers(noising, scales, 3)
    assert parts.shape == (-(-n // 3),) * 2
    assert parts.sum() == pytest.approx(objective.scaled_power(noising, scales), rel=1e-9, abs=1e-9 * size)


@given(workloads(), st.integers(0, 2**32 - 1))
def test_workloads(workload: Workload, seed: int) -> None:
    agrees_with_the_definition(workload, seed)


@given(regressions(most=3, largest=0.5), st.integers(1, 12), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_learning(problem: LinearRegression, steps: int, seed: int, batch_size: int) -> None:
    agrees_with_the_definition(LearningObjective(problem, steps, weights="second half", batch_size=batch_size), seed)


@pytest.mark.parametrize("most", [1, 10**6])
def test_what_a_search_finds_is_judged_by_all_modes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search may take fewer groups; errors are those of the objective of learning itself."""
    monkeypatch.setattr("corrnoise.solvers.objectives._MANY", most)
    what = LearningObjective(LinearRegression(0.8 ** np.arange(100.0), 0.1), 40, weights="second half")
    objective = run_objective(what)
    rng = np.random.default_rng(0)
    outputs, inputs = rng.uniform(0.05, 0.2, (2, 40, 2))
    varying = TimeVaryingBuffers([0.9, 0.99], outputs, inputs, np.ones(40))
    for noise in (DPSGD(), NuFTRL(0.01), varying):
        noising = noise.noising_matrix(40)
        exact = float((noising * (what.weight_matrix() @ noising)).sum())
        assert objective.power_of(noise) == pytest.approx(exact, rel=1e-9)
        quick = objective.coarse.power_of(noise)
        assert (abs(quick / exact - 1) > 1e-6) == (most == 1)


def test_a_false_neighbour_is_seen() -> None:
    noising = np.array([1.0, -0.5, -0.1])
    value, _ = run_objective(MomentumSGD(3, momentum=0.5)).power(noising)
    assert abs(value / by_definition(weights_of(MomentumSGD(3, momentum=0.51)), noising, np.ones(3)) - 1) > 1e-3


def test_covariance() -> None:
    matrix = np.array([2.0, 1.0, 0.5])[:, np.newaxis] * toeplitz([1.0, -0.4, 0.2], np.zeros(3))
    assert covariance(np.array([1.0, -0.4, 0.2]), np.array([2.0, 1.0, 0.5])) == pytest.approx(matrix @ matrix.T)


def test_long_schedules_judge_independent_noise_and_time_varying_buffers() -> None:
    rng = np.random.default_rng(3)
    short = MomentumSGD(40, momentum=0.5, learning_rates=np.linspace(1, 0.1, 40))
    weights, outputs, inputs = np.exp(rng.normal(size=40)), rng.uniform(size=(40, 2)), rng.uniform(size=(40, 2))
    buffers = TimeVaryingBuffers([0.9, 0.2], outputs, inputs, weights)
    long, dense = _LongWorkload(short, short.recursion()), run_objective(short)
    assert long.power_of(DPSGD()) == pytest.approx(float(np.trace(weights_of(short))), rel=1e-12)
    noising = buffers.noising_matrix()
    expected = float((weights_of(short) * (noising @ noising.T)).sum())
    assert long.power_of(buffers) == pytest.approx(expected, rel=1e-12)
    assert dense.power_of(buffers) == pytest.approx(expected, rel=1e-12)
    for refused in (lambda: long.power(np.ones(1)), long.weights, lambda: long.power_of(BinaryTree(40))):
        with pytest.raises(ValueError, match="dense matrices are made, got 40"):
            refused()
    schedule: Any = np.linspace(1, 0.5, 5000)
    assert not run_objective(MomentumSGD(5000, momentum=0.5, learning_rates=schedule)).toeplitz


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="steps must be at most 4096 where dense matrices are made, got 5000"):
        run_objective(MatrixWorkload(np.ones((1, 5000))))
    with pytest.raises(TypeError, match="objective must be"):
        run_objective(3)  # type: ignore[arg-type]
    assert run_objective(PrefixSums(5000)).steps == 5000
    assert run_objective(MatrixWorkload(np.eye(2))).steps == 2
