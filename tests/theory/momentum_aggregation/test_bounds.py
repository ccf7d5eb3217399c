"""Bounds of gradient norms: known values, the counterexamples to what is printed, and simulated momenta."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.momentum_aggregation.bounds import (
    descent_upper_bound,
    momentum_error_upper_bound,
    reduced_noise_upper_bound,
    theorem_6_steps,
    theorem_6_upper_bound,
    theorem_9_steps,
    theorem_9_upper_bound,
)

KNOWN: dict[str, Any] = {
    "examples": 10**5,
    "dimension": 31,
    "epsilon": 1.0,
    "delta": 1e-5,
    "lipschitz": 1.0,
    "smoothness": 1.0,
    "initial_error": 1.0,
}


def test_known_values():
    assert theorem_6_steps(examples=10**5, dimension=31, epsilon=1.0, delta=1e-5) == pytest.approx(2.17184e7, rel=1e-5)
    assert theorem_9_steps(examples=10**5, dimension=31, epsilon=1.0) == pytest.approx(4.70355e10, rel=1e-5)
    assert theorem_6_upper_bound(**KNOWN, published=True) == pytest.approx(1.62201371, rel=1e-8)
    assert theorem_9_upper_bound(**KNOWN, published=True) == pytest.approx(702.01382, rel=1e-7)
    assert theorem_9_upper_bound(**KNOWN) > theorem_9_upper_bound(**KNOWN, published=True)


def test_theorem_6_as_printed_is_false_on_a_ramp():
    """F has slope −1 on a ramp longer than all steps together, so that the gradient norm is 1 whatever the noise."""
    n = 10**5
    length = math.sqrt(theorem_6_steps(examples=n, dimension=1, epsilon=1.0, delta=1e-5) / n)
    smooth = 10 / length
    run = {**KNOWN, "dimension": 1, "smoothness": smooth, "initial_error": length + 1 / (2 * smooth)}
    assert theorem_6_upper_bound(**run, published=True) == pytest.approx(0.65132763, rel=1e-7)
    assert theorem_6_upper_bound(**run) > 1


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
    run = {key: KNOWN[key] for key in ("examples", "dimension", "epsilon", "delta", "lipschitz", "smoothness")}
    run |= {"steps": 10**7, "alpha": 1e-5, "learning_rate": 1e-6}
    assert reduced_noise_upper_bound(**run) < reduced_noise_upper_bound(**run, published=True)
    run["steps"] = 1
    assert reduced_noise_upper_bound(**run, published=True) == 0.0  # the printed bound; the noise is not 0
    with pytest.raises(ValueError, match=f"steps must be an integer >= {KNOWN['examples']}, got 1"):
        reduced_noise_upper_bound(**run)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theorem_6_upper_bound(**KNOWN | {"epsilon": 20.0}), r"delta must lie in \(0, exp\(-epsilon\)\]"),
        (lambda: theorem_9_upper_bound(**KNOWN | {"examples": 2, "epsilon": 1e-3}), "examples must be so large"),
        (lambda: theorem_6_steps(examples=0, dimension=1, epsilon=1.0, delta=0.1), "examples must be an integer >= 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
