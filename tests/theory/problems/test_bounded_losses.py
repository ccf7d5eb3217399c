"""Losses with bounded gradients: derivatives, and the constants G and L, which hold and which false neighbours miss."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.problems.bounded_losses import EmpiricalRisk, MarginLoss, SmoothLoss, TwoLayerNetwork
from tests.strategies import log_uniform

LOSSES = [
    MarginLoss("sigmoid", 3, 1.0),
    MarginLoss("logistic", 3, 2.5),
    TwoLayerNetwork("sigmoid", 3, 1.0, hidden=2),
    TwoLayerNetwork("logistic", 3, 0.7, hidden=1),
    TwoLayerNetwork("sigmoid", 3, 1.8, hidden=3),
]
HINGE: Any = "hinge"
SQUARES = MarginLoss("squares", 3, 2.0)


def vectors(size: int, scale: float = 30.0) -> st.SearchStrategy[np.ndarray]:
    """Vectors of all lengths up to ``scale``."""
    entry = st.one_of(st.floats(-3.0, 3.0), st.floats(-scale, scale), st.just(0.0))
    return st.lists(entry, min_size=size, max_size=size).map(np.array)


@st.composite
def cases(draw: st.DrawFn, loss: SmoothLoss) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two points and an example; the second point is near to the first or anywhere."""
    row = draw(vectors(loss.features)) + 1e-3
    example = row / np.linalg.norm(row) * loss.feature_norm
    first = draw(vectors(loss.dimension))
    step = draw(vectors(loss.dimension)) + 1e-3
    return first, first + step * draw(log_uniform(1e-5, 1.0)), example


def lengthening(loss: SmoothLoss, first: np.ndarray, second: np.ndarray, example: np.ndarray) -> float:
    change = loss.gradients(second, example) - loss.gradients(first, example)
    return float(np.linalg.norm(change) / np.linalg.norm(second - first))


@pytest.mark.parametrize("loss", [*LOSSES, SQUARES], ids=repr)
def test_gradients_are_the_derivatives_of_the_values(loss):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5, loss.features))
    rows *= loss.feature_norm / np.linalg.norm(rows, axis=1, keepdims=True)
    points = rng.standard_normal((4, 2, loss.dimension))
    risk = EmpiricalRisk(loss, rows, 0.3)
    found = risk.gradients(points)
    h = 1e-5
    for k in range(loss.dimension):
        e = h * np.eye(loss.dimension)[k]
        slopes = (risk.values(points + e) - risk.values(points - e)) / (2 * h)
        np.testing.assert_allclose(found[..., k], slopes, atol=2e-9 * max(1.0, float(np.abs(slopes).max())))


@pytest.mark.parametrize("loss", [*LOSSES, SQUARES], ids=repr)
def test_the_mean_is_that_of_the_examples(loss):
    rng = np.random.default_rng(1)
    rows = rng.uniform(-0.5, 0.5, (7, loss.features))
    points = rng.standard_normal((3, loss.dimension))
    each = np.stack([loss.gradients(points, row) for row in rows])
    np.testing.assert_allclose(loss.mean_gradients(points, rows), each.mean(axis=0), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(data=st.data())
def test_the_constants_hold(loss, data):
    first, second, example = data.draw(cases(loss))
    assert np.linalg.norm(loss.gradients(first, example)) <= loss.lipschitz * (1 + 1e-12)
    if np.linalg.norm(second - first) > 1e-6 * max(1.0, float(np.linalg.norm(first))):  # above rounding
        assert lengthening(loss, first, second, example) <= loss.smoothness * (1 + 1e-6)


@given(data=st.data())
def test_squares_are_smooth_but_have_no_bound(data):
    first, second, example = data.draw(cases(SQUARES))
    assert SQUARES.lipschitz == math.inf
    if np.linalg.norm(second - first) > 1e-6 * max(1.0, float(np.linalg.norm(first))):
        assert lengthening(SQUARES, first, second, example) <= SQUARES.smoothness * (1 + 1e-6)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=repr)
def test_constants_one_percent_smaller_are_rejected_for_margin_losses(loss):
    b = loss.feature_norm
    along = np.array([1.0, 0.0, 0.0])
    steepest = {"sigmoid": 0.0, "logistic": -20.0}[loss.link]
    assert np.linalg.norm(loss.gradients(steepest * along, b * along)) > 0.99 * loss.lipschitz
    s = (3 - math.sqrt(3)) / 6
    bend = {"sigmoid": math.log((1 - s) / s), "logistic": 0.0}[loss.link] / b
    assert lengthening(loss, bend * along, (bend + 1e-4) * along, b * along) > 0.99 * loss.smoothness


@pytest.mark.parametrize("units", [1, 4])
def test_constants_of_networks_are_attained_up_to_their_two_parts(units):
    loss = TwoLayerNetwork("sigmoid", 1, 1.0, hidden=units)
    wide = np.tile([0.0, 30.0], units)  # tanh(v) = 0 and tanh(W a) = 1: every unit has its steepest slope, u = 0
    assert np.linalg.norm(loss.gradients(wide, np.ones(1))) > (1 - 1e-12) * loss.lipschitz
    step = 1e-6 * np.tile([1.0, 1.0], units)
    second_part = 0.25 / math.sqrt(units)  # at 0 only the curvature of the network counts
    assert lengthening(loss, 0 * step, step, np.ones(1)) > 0.99 * second_part


def test_the_regulariser_has_the_constants_that_are_said():
    risk = EmpiricalRisk(MarginLoss("sigmoid", 3, 1.0), np.zeros((1, 3)), 0.02)
    assert (risk.lipschitz, risk.smoothness) == (0.27, 0.25 / (1.5 * math.sqrt(3)) + 0.02)
    far = np.array([1e6, 0.0, 0.0])
    assert 0.99 * 0.02 < np.linalg.norm(risk.regulariser_gradients(far)) <= 0.02
    near = np.array([1e-6, 0.0, 0.0])
    assert 0.99 * 0.02 < np.linalg.norm(risk.regulariser_gradients(near)) / 1e-6 <= 0.02


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MarginLoss(HINGE, 3, 1.0), "link must be one of 'sigmoid', 'logistic', 'squares', got 'hinge'"),
        (lambda: TwoLayerNetwork("squares", 3, 1.0, 2), "link must be one of 'sigmoid', 'logistic', got 'squares'"),
        (lambda: EmpiricalRisk(LOSSES[0], np.ones((2, 3))), r"examples must have norms in \[0, 1.0\], got 1.73"),
        (lambda: EmpiricalRisk(LOSSES[0], np.ones((2, 4))), r"examples must have shape \(n, 3\)"),
        (lambda: EmpiricalRisk(LOSSES[0], np.zeros((2, 3)), -1.0), r"regularisation must lie in \[0, inf\)"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
