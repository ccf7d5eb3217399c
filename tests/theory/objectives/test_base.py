"""The quadratic form of a run against the definition, tr(W N Nᵀ) with matrices written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.objectives import base
from corrnoise.theory.objectives.toeplitz_errors import covariance
from corrnoise.theory.objectives.workloads import SGD, LargestError, MatrixWorkload, MomentumSGD, PrefixSums, Workload
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex
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
    weights = weights_of(what)
    value, gradient = what.power(noising)
    size = max(1.0, by_definition(np.abs(weights), np.abs(noising), np.ones(n)))
    assert value == pytest.approx(by_definition(weights, noising, np.ones(n)), abs=1e-11 * size)
    # The form is quadratic, so a symmetric difference of any step is its derivative.
    slope = (what.power(noising + other)[0] - what.power(noising - other)[0]) / 2
    assert gradient @ other == pytest.approx(slope, abs=1e-9 * max(size, abs(slope)) + 1e-9)
    assert what.scaled_power(noising, scales) == pytest.approx(
        by_definition(weights, noising, scales), rel=1e-9, abs=1e-11 * size
    )
    parts = what.epoch_powers(noising, scales, 3)
    assert parts.shape == (-(-n // 3),) * 2
    assert parts.sum() == pytest.approx(what.scaled_power(noising, scales), rel=1e-9, abs=1e-9 * size)


@given(workloads(), st.integers(0, 2**32 - 1))
def test_workloads(workload: Workload, seed: int) -> None:
    agrees_with_the_definition(workload, seed)


@given(regressions(most=3, largest=0.5), st.integers(1, 12), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_learning(problem: LinearRegression, steps: int, seed: int, batch_size: int) -> None:
    agrees_with_the_definition(LearningObjective(problem, steps, weights="second half", batch_size=batch_size), seed)


def test_a_false_neighbour_is_seen() -> None:
    noising = np.array([1.0, -0.5, -0.1])
    value, _ = MomentumSGD(3, momentum=0.5).power(noising)
    assert abs(value / by_definition(weights_of(MomentumSGD(3, momentum=0.51)), noising, np.ones(3)) - 1) > 1e-3


def test_covariance() -> None:
    matrix = np.array([2.0, 1.0, 0.5])[:, np.newaxis] * toeplitz([1.0, -0.4, 0.2], np.zeros(3))
    assert covariance(np.array([1.0, -0.4, 0.2]), np.array([2.0, 1.0, 0.5])) == pytest.approx(matrix @ matrix.T)


def test_long_schedules_judge_independent_noise_and_time_varying_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    short = MomentumSGD(40, momentum=0.5, learning_rates=np.linspace(1, 0.1, 40))
    weights, outputs, inputs = np.exp(rng.normal(size=40)), rng.uniform(size=(40, 2)), rng.uniform(size=(40, 2))
    buffers = TimeVaryingBuffers([0.9, 0.2], outputs, inputs, weights)
    noising = buffers.noising_matrix()
    expected = float((weights_of(short) * (noising @ noising.T)).sum())
    assert short.toeplitz
    assert buffers.squared_error(short) == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(base, "LARGEST_MATRIX", 39)
    long = short.for_run(Participation.single(40))
    del vars(long)["toeplitz"]
    assert not long.toeplitz
    assert DPSGD().squared_error(long) == pytest.approx(float(np.trace(weights_of(short))), rel=1e-12)
    assert buffers.squared_error(long) == pytest.approx(expected, rel=1e-12)
    for refused in (lambda: long.power(np.ones(1)), lambda: long.form, lambda: BinaryTree(40).squared_error(long)):
        with pytest.raises(ValueError, match="dense matrices are made, got 40"):
            refused()


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="steps must be at most 4096 where dense matrices are made, got 5000"):
        MatrixWorkload(np.ones((1, 5000))).for_run(Participation.single(5000))
    with pytest.raises(ValueError, match="participation must have steps=3 as the objective has"):
        PrefixSums(3).for_run(Participation.single(4))
    assert PrefixSums(5000).for_run(Participation.single(5000)) == PrefixSums(5000)
    assert MatrixWorkload(np.eye(2)).for_run(Participation.single(2)).steps == 2


def test_a_run_keeps_what_it_computes_and_the_objective_does_not() -> None:
    what = LearningObjective(LinearRegression([1.0, 0.1], 0.1), 8)
    run = what.for_run(Participation.single(8))
    assert run == what
    assert run.system is run.system
    assert "system" in vars(run)
    assert "system" not in vars(what)


def test_the_largest_error() -> None:
    column = MomentumSGD(6, momentum=0.5).matrix()[:, 0]
    largest = LargestError(MomentumSGD(6, momentum=0.5))
    assert largest.weight_matrix() == pytest.approx(np.outer(column[::-1], column[::-1]))
    noising = np.array([1.0, -0.3, 0.1])
    matrix = MomentumSGD(6, momentum=0.5).matrix() @ toeplitz(np.append(noising, np.zeros(3)), np.zeros(6))
    rows = np.square(matrix).sum(axis=1)
    assert largest.power(noising)[0] == pytest.approx(rows.max())
    assert abs(rows.mean() / rows.max() - 1) > 0.1
    with pytest.raises(ValueError, match="workload must be Toeplitz for its largest error"):
        LargestError(MatrixWorkload(np.eye(3))).for_run(Participation.single(3))
    with pytest.raises(TypeError, match="workload must be"):
        LargestError(3)  # type: ignore[arg-type]


def test_recipes_make_the_objective_of_a_run() -> None:
    problem = LinearRegression([1.0, 0.1], 0.1)
    assert SGD().for_run(Participation.single(8)) == PrefixSums(8)
    batches = SGD(momentum=0.5, batch_size=4).for_run(Participation.single(8))
    assert batches == MomentumSGD(8, momentum=0.5, averaged_over=4)
    assert batches.error(9.0) == pytest.approx(0.75)
    assert problem.for_run(Participation.single(8)) == LearningObjective(problem, 8, weights="second half")
    assert problem.for_run(Participation.single()) is problem
    losses = StronglyConvex(0.1, 1.0, 0.1)
    assert losses.for_run(Participation.single(8)) is losses
    with pytest.raises(ValueError, match="steps must be given without a problem"):
        SGD().for_run(Participation.single())
