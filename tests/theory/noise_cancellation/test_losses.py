"""Gradients against differences of the values, and the constants G and L against points of the ball."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.noise_cancellation.losses import LinearLoss

LOSSES = (
    LinearLoss("squares", 3, 2.0, target_bound=1.5),
    LinearLoss("logistic", 3, 2.0),
    LinearLoss("softmax", 3, 2.0, classes=4),
)


def example(loss, rng):
    a = rng.standard_normal(loss.features)
    a *= loss.feature_norm * rng.random() ** 0.2 / np.linalg.norm(a)
    y = {"squares": rng.uniform(-1.5, 1.5), "logistic": rng.integers(2), "softmax": rng.integers(loss.classes)}
    return a, float(y[loss.link])


def points(loss, rng, diameter):
    for _ in range(2):
        x = rng.standard_normal(loss.dimension)
        yield x * diameter / 2 * rng.random() / np.linalg.norm(x)


@given(st.sampled_from(LOSSES), st.integers(0, 2**32 - 1), st.floats(0.1, 10))
def test_gradients_and_their_constants(loss, seed, diameter):
    rng = np.random.default_rng(seed)
    a, y = example(loss, rng)
    x, z = points(loss, rng, diameter)
    gradient = loss.gradient(x, a, y)
    step = 1e-6 * rng.standard_normal(loss.dimension)
    up, down = (loss.values(x + sign * step, a[np.newaxis], np.array([y]))[0] for sign in (1, -1))
    assert (up - down) / 2 == pytest.approx(float(gradient @ step), abs=1e-13)
    family = loss.family(diameter)
    assert np.linalg.norm(gradient) <= family.lipschitz * (1 + 1e-12)
    difference = np.linalg.norm(gradient - loss.gradient(z, a, y))
    assert difference <= family.smoothness * np.linalg.norm(x - z) * (1 + 1e-9)


def test_the_constants_are_attained():
    softmax = LinearLoss("softmax", 1, 1.0, classes=3)
    half = np.array([0.0, 0.0, -50.0])
    e = np.array([1e-6, -1e-6, 0.0])
    change = softmax.gradient(half + e, np.ones(1), 0.0) - softmax.gradient(half, np.ones(1), 0.0)
    assert np.linalg.norm(change) / np.linalg.norm(e) == pytest.approx(softmax.family(1.0).smoothness, rel=1e-6)
    far = np.array([-50.0, 50.0, -50.0])
    assert np.linalg.norm(softmax.gradient(far, np.ones(1), 0.0)) == pytest.approx(softmax.family(1.0).lipschitz)
    logistic = LinearLoss("logistic", 1, 1.0)
    slope = (logistic.gradient(np.array([1e-6]), np.ones(1), 0.0) - logistic.gradient(np.zeros(1), np.ones(1), 0.0))[0]
    assert slope / 1e-6 == pytest.approx(logistic.family(1.0).smoothness, rel=1e-6)


def test_accuracy_counts():
    loss = LinearLoss("logistic", 1, 1.0)
    assert loss.accuracy(np.ones(1), np.array([[1.0], [-1.0], [0.5]]), np.array([1.0, 0.0, 0.0])) == pytest.approx(
        2 / 3
    )
    several = LinearLoss("softmax", 1, 1.0, classes=2)
    assert several.accuracy(np.array([0.0, 1.0]), np.array([[1.0], [-1.0]]), np.array([1.0, 0.0])) == 1.0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="classes must be an integer >= 2"):
        LinearLoss("softmax", 1, 1.0)
    with pytest.raises(ValueError, match=r"classes must be 1 for 'squares', got 3"):
        LinearLoss("squares", 1, 1.0, classes=3)
    loss = LinearLoss("squares", 1, 1.0)
    with pytest.raises(ValueError, match=r"features must have norms in \[0, 1.0\], got 2.0"):
        loss.checked_examples([[2.0]], [0.0])
    with pytest.raises(ValueError, match=r"targets must lie in \[-1.0, 1.0\], got 3.0"):
        loss.checked_examples([[1.0]], [3.0])
    with pytest.raises(ValueError, match=r"targets must be 0 or 1, got -1\.0"):
        LinearLoss("logistic", 1, 1.0).checked_examples([[1.0]], [-1.0])
    with pytest.raises(ValueError, match=r"link must be one of 'logistic', 'softmax'"):
        loss.accuracy(np.ones(1), np.ones((1, 1)), np.ones(1))
