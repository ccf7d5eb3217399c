"""Bounds of gradient norms: known values, the counterexamples to what is printed, and simulated momenta."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.momentum_aggregation.bounds import BoundedTask, descent_upper_bound, momentum_error_upper_bound
from corrnoise.theory.privacy import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-5)
KNOWN = BoundedTask(10**5, 31, BUDGET)


def test_known_values():
    assert KNOWN.theorem_6_steps() == pytest.approx(2.17184e7, rel=1e-5)
    assert KNOWN.theorem_9_steps() == pytest.approx(4.70355e10, rel=1e-5)
    assert KNOWN.theorem_6(published=True) == pytest.approx(1.62201371, rel=1e-8)
    assert KNOWN.theorem_9(published=True) == pytest.approx(702.01382, rel=1e-7)
    assert KNOWN.theorem_9() > KNOWN.theorem_9(published=True)


def test_theorem_6_as_printed_is_false_on_a_ramp():
    """F has slope −1 on a ramp longer than all steps together, so that the gradient norm is 1 whatever the noise."""
    n = 10**5
    length = math.sqrt(BoundedTask(n, 1, BUDGET).theorem_6_steps() / n)
    smooth = 10 / length
    run = BoundedTask(n, 1, BUDGET, smooth, initial_error=length + 1 / (2 * smooth))
    assert run.theorem_6(published=True) == pytest.approx(0.65132763, rel=1e-7)
    assert run.theorem_6() > 1


def test_lemma_11_as_printed_is_false_for_small_steps():
    """A linear function: the error of the momentum is exactly (1 − α)^t."""
    run = {"examples": 100, "alpha": 0.01, "learning_rate": 0.0, "lipschitz": 1.0, "smoothness": 0.0}
    violated = [t for t in range(1, 400) if 0.99**t > momentum_error_upper_bound(t, **run, published=True)]
    assert violated == list(range(1, 161))
    assert all(0.99**t <= momentum_error_upper_bound(t, **run) for t in range(1, 400))


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4), st.floats(0.02, 1))
def test_lemma_11_for_gradients_that_do_not_depend_on_the_point(seed, examples, epochs, alpha):
    """E ‖m_t − ∇F‖² exactly, from the covariance of sampling without replacement."""
    rng = np.random.default_rng(seed)
    gradients = rng.uniform(-1, 1, examples)
    gradients /= np.abs(gradients).max()
    mean = gradients.mean()
    variance = (gradients**2).mean() - mean**2
    for t in range(1, examples * epochs + 1):
        weights = alpha * (1 - alpha) ** np.arange(t - 1, -1, -1)
        total = 0.0
        for start in range(0, t, examples):
            part = weights[start : min(start + examples, t)]
            total += variance * ((part**2).sum() - (part.sum() ** 2 - (part**2).sum()) / (examples - 1))
        error = math.sqrt(max(total, 0.0) + ((1 - alpha) ** t * mean) ** 2)
        bound = momentum_error_upper_bound(
            t, examples=examples, alpha=alpha, learning_rate=0.0, lipschitz=1.0, smoothness=0.0
        )
        assert error <= bound * (1 + 1e-12)


@given(st.integers(0, 10**6), st.integers(1, 3), st.floats(0, 3))
def test_the_step_behind_lemma_5(seed, dimension, size):
    """⟨g, m/‖m‖⟩ >= ‖g‖ − 2 ‖m − g‖, and no smaller factor than 2 will do."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=dimension)
    m = g + size * rng.normal(size=dimension)
    assert g @ m / np.linalg.norm(m) >= np.linalg.norm(g) - 2 * np.linalg.norm(m - g) - 1e-12
    opposite = -1e-9 * g
    assert g @ opposite / np.linalg.norm(opposite) < np.linalg.norm(g) - 1.99 * np.linalg.norm(opposite - g)


def test_descent_on_a_quadratic():
    """Normalised descent on ½ w² with momenta that are off by 0.1: the mean gradient norm is below the bound."""
    w, length, norms = 2.0, 0.05, []
    for _ in range(200):
        norms.append(abs(w))
        w -= length * math.copysign(1.0, w + 0.1)
    bound = descent_upper_bound(
        decrease=2.0 - w**2 / 2, smoothness=1.0, learning_rate=length, steps=200, mean_error=0.1
    )
    assert np.mean(norms) <= bound
    assert np.mean(norms) > bound - 0.2 - 1e-9  # without the error it would be false or almost so
    published = descent_upper_bound(
        decrease=2.0, smoothness=1.0, learning_rate=length, steps=200, mean_error=0.1, published=True
    )
    assert published > bound


def test_noise_bounds():
    run: dict[str, Any] = {"steps": 10**7, "alpha": 1e-5, "learning_rate": 1e-6}
    assert KNOWN.lemma_7(**run) < KNOWN.lemma_7(**run, published=True)
    run["steps"] = 1
    assert KNOWN.lemma_7(**run, published=True) == 0.0  # the printed bound; the noise is not 0
    with pytest.raises(ValueError, match=f"steps must be an integer >= {KNOWN.examples}, got 1"):
        KNOWN.lemma_7(**run)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BoundedTask(10**5, 31, Budget(epsilon=20.0, delta=1e-5)).theorem_6(), r"delta must lie in \(0, exp\("),
        (lambda: BoundedTask(2, 31, Budget(epsilon=1e-3, delta=1e-5)).theorem_9(), "examples must be so large"),
        (lambda: BoundedTask(10**5, 31, Budget(1.0)).theorem_6_steps(), "budget must be given by epsilon and delta"),
        (lambda: BoundedTask(0, 1, BUDGET), "examples must be an integer >= 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
