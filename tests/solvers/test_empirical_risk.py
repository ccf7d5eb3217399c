"""Minimisers of empirical risks: optimality in every direction, closed forms, the cone solver, and refusal."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.empirical_risk import empirical_risk_minimiser
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.papers.shuffled_gradients.task import TASK_LINKS, Regulariser, Task

LOSSES = [LinearLoss(link, 4, scale=scale) for link in TASK_LINKS for scale in (0.3, 1.0, 2.0)]


def task(loss, regulariser, strength, seed, n=30, d=4):
    rng = np.random.default_rng(seed)
    a, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)
    return Task(loss, Regulariser(regulariser, strength), a, y, a, y)


@given(
    st.sampled_from(LOSSES), st.sampled_from(["ridge", "lasso", "ball"]), st.floats(0.01, 1.0), st.integers(0, 10**6)
)
def test_nothing_nearby_is_better(loss, regulariser, strength, seed):
    t = task(loss, regulariser, strength, seed)
    x, value = empirical_risk_minimiser(t)
    assert value == t.objective(x)
    rng = np.random.default_rng(seed)
    for scale in (1e-6, 1e-3, 0.1, 1.0):
        for direction in rng.normal(size=(5, x.size)):
            assert t.objective(x + scale * direction) >= value - 1e-14 * abs(value)


def test_lasso_logistic_regression_agrees_with_a_cone_solver():
    t = task(LinearLoss("logistic", 4), "lasso", 0.05, 3)
    x, value = empirical_risk_minimiser(t)
    z = cp.Variable(x.size)
    risk = cp.sum(cp.logistic(cp.multiply(-t.targets, t.features @ z))) / len(t.targets) + 0.05 * cp.norm1(z)
    problem = cp.Problem(cp.Minimize(risk))
    problem.solve(solver=cp.CLARABEL)
    assert value <= problem.value + 1e-12
    assert value == pytest.approx(problem.value, rel=1e-7)
    assert (x == 0).any() == (np.abs(z.value) < 1e-5).any()


@pytest.mark.slow
def test_a_risk_without_minimiser_is_refused():
    a = np.array([[1.0], [2.0]])
    separable = Task(LinearLoss("logistic", 1), Regulariser("none"), a, np.ones(2), a, np.ones(2))
    with pytest.raises(ArithmeticError, match="the minimiser was not found"):
        empirical_risk_minimiser(separable)
    with pytest.raises(TypeError, match="task must be a Task, got None"):
        empirical_risk_minimiser(None)
