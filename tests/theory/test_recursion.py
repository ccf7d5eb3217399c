"""Recursions, against the matrices that they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.objectives.workloads import MatrixWorkload, MomentumSGD
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.recursion import Recursion
from tests.strategies import mean_estimations, regressions, workloads


def differs(found, exact):
    return np.abs(found - exact).max() > 1e-9 * np.abs(exact).max()


@given(workloads(kinds=("prefix", "momentum", "average")))
def test_the_recursion_of_a_workload_has_its_mean_squared_error(work):
    assert not differs(work.recursion().gram(), work.weight_matrix())


def test_a_momentum_that_enters_the_next_step_is_another_workload():
    work = MomentumSGD(6, momentum=0.5, weight_decay=0.1, learning_rates=[1.0, 0.9, 0.8, 0.5, 0.3, 0.1])
    found = work.recursion()
    delayed = found.transition.copy()
    delayed[:, 0, 0, 1] = np.roll(delayed[:, 0, 0, 1], 1)
    assert not differs(found.gram(), work.weight_matrix())
    assert differs(Recursion(delayed, found.input, found.weights).gram(), work.weight_matrix())


@given(regressions(most=4, kurtosis=None) | mean_estimations(), st.integers(1, 12), st.sampled_from(["last", "half"]))
def test_the_recursion_of_learning_has_its_weights(problem, steps, weights):
    objective = LearningObjective(problem, steps, weights="last" if weights == "last" else "second half")
    exact = objective.weight_matrix()
    found = objective.recursion()
    assert not differs(found.gram(), exact)
    tails = Recursion(found.transition, found.input, np.cumsum(found.weights[::-1], axis=0)[::-1])
    assert steps < 3 or differs(tails.gram(), exact)


def test_a_matrix_has_no_recursion():
    assert MatrixWorkload([[1.0, 0.0], [1.0, 1.0]]).recursion() is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[[[1.0]]]], [[[1.0]]], [1.0]), "weights must have shape"),
        (([[[[1.0]]]], [[[1.0]]], [[-1.0]]), "weights must lie in"),
        ((np.ones((3, 1, 1, 1)), [[[1.0]]], [[1.0], [1.0]]), "transition must have shape"),
        (([[[[1.0]]]], [[[1.0, 2.0]]], [[1.0]]), "input must have shape"),
    ],
)
def test_shapes_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Recursion(*arguments)


@given(workloads(kinds=("prefix", "momentum", "average")), st.integers(0, 2**32))
def test_the_response_to_noise_is_that_of_the_workload(work, seed):
    noise = np.random.default_rng(seed).normal(size=work.steps)
    found = work.recursion().response(noise)
    assert found.shape == (work.steps, 1)
    assert not differs(found[:, 0], work.apply(noise))
    late = work.recursion().response(np.append(0.0, noise[:-1]))  # the mutant waits a step
    assert work.steps < 2 or differs(late[:, 0], work.apply(noise))


def test_the_response_of_learning_has_a_column_for_each_rate():
    system = LearningObjective(LinearRegression([1.0, 0.5], 0.5), 5).recursion()
    found = system.response([1.0, 0.0, 0.0, 0.0, 1.0])
    decays = np.array([0.5, 0.75])
    np.testing.assert_allclose(found, decays ** np.arange(5)[:, np.newaxis] + np.eye(5)[4][:, np.newaxis], rtol=1e-15)


def test_noise_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"noise must have shape \(4,\), got \(3,\)"):
        MomentumSGD(4, momentum=0.5).recursion().response(np.zeros(3))
