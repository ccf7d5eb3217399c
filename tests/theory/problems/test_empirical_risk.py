"""Losses and regularisers: derivatives, proximal maps, constants, and what clipping does to contraction."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import diff, log, mpf, workdps
from mpmath import exp as mp_exp

from corrnoise.theory.problems.empirical_risk import LOSSES, Loss, Regulariser


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("product", [-800.0, -3.0, 0.0, 0.5, 40.0, 800.0])
def test_gradients_are_derivatives(name, product):
    loss, row, y = Loss(name), np.array([[2.0]]), np.array([-1.0])
    x = np.array([product / 2])

    def value(t):
        if name == "mean":
            return (t - 2) ** 2 / 2
        return (2 * t + 1) ** 2 if name == "ridge" else log(1 + mp_exp(2 * t))

    with workdps(60):
        assert loss.values(x, row, y)[0] == pytest.approx(float(value(mpf(x[0]))), rel=1e-13)
        if name != "logistic" or abs(product) < 100:
            assert loss.gradients(x, row, y)[0, 0] == pytest.approx(float(diff(value, mpf(x[0]))), rel=1e-9)
        else:
            assert loss.gradients(x, row, y)[0, 0] == pytest.approx(2.0 if product > 0 else 0.0, abs=1e-300)


@pytest.mark.parametrize("name", LOSSES)
def test_the_curvature_is_the_largest_second_derivative(name):
    loss, row, y, h = Loss(name), np.array([[1.0]]), np.array([1.0]), 1e-4
    gradients = [loss.gradients(np.array([x]), row, y)[0, 0] for x in (-h, h)]
    assert (gradients[1] - gradients[0]) / (2 * h) == pytest.approx(loss.curvature, rel=1e-7)
    assert loss.smoothness(np.array([[3.0, 4.0]])) == pytest.approx([loss.curvature * (1 if name == "mean" else 25)])


def test_the_logistic_loss_depends_on_the_label():
    """As printed, −y log h − (1 − y) log h, it does not."""
    row, x = np.array([[1.0]]), np.array([0.7])
    values = [Loss("logistic").values(x, row, np.array([y]))[0] for y in (-1.0, 1.0)]
    assert values[0] - values[1] == pytest.approx(0.7, rel=1e-12)


vectors = st.lists(st.floats(-5, 5), min_size=3, max_size=3).map(np.array)


@given(vectors, vectors, vectors, st.sampled_from(LOSSES), st.sampled_from([0.1, 1.0, np.inf]))
def test_clipped_steps_do_not_expand_up_to_two_over_smoothness(x, z, a, name, clip):
    loss, y = Loss(name), np.array([1.0])
    row = a[np.newaxis] + 0.01
    eta = 2 / loss.smoothness(row)[0]

    def step(v):
        [g] = loss.gradients(v, row, y)
        return v - eta * g * min(1.0, clip / max(np.linalg.norm(g), 1e-300))

    assert np.linalg.norm(step(x) - step(z)) <= np.linalg.norm(x - z) * (1 + 1e-9) + 1e-12


def test_clipped_steps_of_a_general_convex_loss_may_expand():
    """f = xᵀ diag(1, 0.01) x/2, clipped to ½, at η = 1/L: two points come 1.148 times further apart."""
    rng = np.random.default_rng(0)
    hessian, worst = np.array([1.0, 0.01]), 0.0
    for _ in range(20_000):
        x, z = rng.normal(size=(2, 2)) * [1, 60]

        def step(v):
            g = hessian * v
            return v - g * min(1.0, 0.5 / np.linalg.norm(g))

        worst = max(worst, np.linalg.norm(step(x) - step(z)) / np.linalg.norm(x - z))
    assert worst > 1.05


@given(vectors, st.sampled_from(["none", "ridge", "lasso", "ball"]), st.floats(0.1, 3), st.floats(0.1, 3), vectors)
def test_proximal_maps_minimise(v, name, strength, step, direction):
    psi = Regulariser(name, strength)
    x = psi.prox(v, step)
    best = step * psi.value(x) + np.square(x - v).sum() / 2
    for scale in (1.0, 1e-2, -1e-2, -1.0):
        other = x + scale * direction
        assert best <= step * psi.value(other) + np.square(other - v).sum() / 2 + 1e-12
    assert psi.strong_convexity == (strength if name == "ridge" else 0.0)
