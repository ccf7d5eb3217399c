"""Losses: links in high precision, derivatives, and constants that hold and that slightly smaller ones miss."""

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.losses import LINKS, EmpiricalRisk, LinearLoss, MarginLoss, SmoothLoss, TwoLayerNetwork
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
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
ONE = LinearLoss("squares", 1, 1.0, 1.0)

#: The links as they are defined, without care for rounding.
EXACT = {
    "squares": lambda u, y: (u - y) ** 2 / 2,
    "logistic": lambda u, y: mp.log(1 + mp.exp(-y * u)),
    "binary": lambda u, y: mp.log(1 + mp.exp(u)) - y * u,
    "sigmoid": lambda u, y: 1 / (1 + mp.exp(y * u)),
}
TARGETS = {"squares": (-1.5, 0.0), "logistic": (-1.0, 1.0), "binary": (0.0, 1.0), "sigmoid": (-1.0, 1.0)}
LINEAR = [
    LinearLoss("mean", 3, 2.0),
    LinearLoss("squares", 3, 2.0, 1.5),
    LinearLoss("squares", 3, 2.0, 1.5, scale=2.0),
    LinearLoss("logistic", 3, 2.0, scale=0.7),
    LinearLoss("binary", 3, 2.0),
    LinearLoss("softmax", 3, 2.0, classes=4),
]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("u", [-30.0, -3.0, -0.2, 0.0, 0.5, 30.0])
def test_links_in_high_precision(name, u):
    link = LINKS[name]
    with mp.workdps(40):
        for y in TARGETS[name]:
            value, slope, curvature = (float(mp.diff(lambda v, y=y: EXACT[name](v, y), u, k)) for k in range(3))
            assert link.value(u, y) == pytest.approx(value, rel=1e-13, abs=1e-14)
            assert link.slope(u, y) == pytest.approx(slope, rel=1e-13, abs=1e-14)
            assert abs(slope) <= link.steepest
            assert abs(curvature) <= link.curvature * (1 + 1e-12)


# -- linear losses -----------------------------------------------------------------------------------------------------


@given(st.sampled_from(LINEAR), st.integers(0, 2**32 - 1), st.floats(0.1, 10))
def test_gradients_and_constants_of_linear_losses(loss, seed, diameter):
    rng = np.random.default_rng(seed)
    row = rng.standard_normal(3)
    a = (row * loss.feature_norm * rng.random() ** 0.2 / np.linalg.norm(row))[np.newaxis]
    y = {"softmax": rng.integers(loss.classes), "logistic": rng.choice([-1, 1]), "binary": rng.integers(2)}
    targets = np.array([float(y.get(loss.link, rng.uniform(-1.5, 1.5)))])
    loss.checked_examples(a, targets)
    directions = rng.standard_normal((2, loss.dimension))
    x, z = directions * diameter / 2 * rng.random((2, 1)) / np.linalg.norm(directions, axis=1, keepdims=True)
    [gradient] = loss.gradients(x, a, targets)
    step = 1e-6 * rng.standard_normal(loss.dimension)
    up, down = (loss.values(x + sign * step, a, targets)[0] for sign in (1, -1))
    assert (up - down) / 2 == pytest.approx(float(gradient @ step), abs=1e-12)
    family = LossClass.of(loss, diameter)
    assert np.linalg.norm(gradient) <= family.lipschitz * (1 + 1e-12)
    difference = np.linalg.norm(gradient - loss.gradients(z, a, targets)[0])
    assert difference <= loss.smoothness_of(a)[0] * np.linalg.norm(x - z) * (1 + 1e-9)
    assert loss.smoothness_of(a)[0] <= loss.smoothness * (1 + 1e-12) == family.smoothness * (1 + 1e-12)


@pytest.mark.parametrize("loss", LINEAR, ids=repr)
def test_constants_of_linear_losses_one_percent_smaller_are_missed(loss):
    """Features (b, 0, 0), the steepest target, and two logits at a time."""
    a = np.array([[loss.feature_norm, 0.0, 0.0]])
    y = np.array([{"squares": -1.5, "logistic": -1.0}.get(loss.link, 0.0)])
    along = np.zeros(loss.dimension)
    along[0] = 1.0
    far, near = 25.0 * along, 0 * along
    if loss.link == "mean":
        far = -far
    if loss.link == "softmax":
        along[3] = -1.0
        near = np.repeat([0.0, 0.0, -50.0, -50.0], 3)
        far = -25.0 * along
    steepest = np.linalg.norm(loss.gradients(far, a, y))
    assert steepest > 0.99 * loss.lipschitz(25.0)
    change = loss.gradients(near + 1e-6 * along, a, y) - loss.gradients(near, a, y)
    assert np.linalg.norm(change) > 0.99 * loss.smoothness * np.linalg.norm(1e-6 * along)


@pytest.mark.parametrize("product", [-800.0, -100.0, 100.0, 800.0])
def test_logistic_losses_far_out(product):
    loss = LinearLoss("logistic", 1)
    x, row, y = np.array([product / 2]), np.array([[2.0]]), np.array([-1.0])
    assert loss.values(x, row, y)[0] == pytest.approx(max(product, 0.0), abs=1e-40)
    assert loss.gradients(x, row, y)[0, 0] == pytest.approx(2.0 if product > 0 else 0.0, abs=1e-40)


points = st.lists(st.floats(-5, 5), min_size=3, max_size=3).map(np.array)


@given(points, points, points, st.sampled_from(LINEAR[:5]), st.sampled_from([0.1, 1.0, np.inf]))
def test_clipped_steps_do_not_expand_up_to_two_over_smoothness(x, z, a, loss, clip):
    y = np.array([1.0])
    row = a[np.newaxis] + 0.01
    eta = 2 / loss.smoothness_of(row)[0]

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


def test_accuracy_counts():
    loss = LinearLoss("binary", 1, 1.0)
    found = loss.accuracy(np.ones(1), np.array([[1.0], [-1.0], [0.5]]), np.array([1.0, 0.0, 0.0]))
    assert found == pytest.approx(2 / 3)
    several = LinearLoss("softmax", 1, 1.0, classes=2)
    assert several.accuracy(np.array([0.0, 1.0]), np.array([[1.0], [-1.0]]), np.array([1.0, 0.0])) == 1.0


# -- smooth losses -----------------------------------------------------------------------------------------------------


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
        (lambda: LinearLoss(HINGE, 3), "link must be one of 'mean', 'squares'"),
        (lambda: LinearLoss("mean", 3, -1.0), r"feature_norm must lie in \(0, 1e50\]"),
        (lambda: LinearLoss("mean", 3, 1.0, -1.0), r"target_bound must lie in \[0, 1e50\]"),
        (lambda: LinearLoss("mean", 3, scale=0.0), r"scale must lie in \(0, 1e50\]"),
        (lambda: LinearLoss("softmax", 1, 1.0), "classes must be an integer >= 2"),
        (lambda: LinearLoss("squares", 1, 1.0, classes=3), r"classes must be 1 for 'squares', got 3"),
        (lambda: ONE.checked_examples([[2.0]], [0.0]), r"features must have norms in \[0, 1.0\], got 2.0"),
        (lambda: ONE.checked_examples([[1.0]], [3.0]), r"targets must lie in \[-1.0, 1.0\], got 3.0"),
        (lambda: LinearLoss("binary", 1).checked_examples([[1.0]], [-1.0]), r"targets must be 0 or 1, got -1\.0"),
        (lambda: LinearLoss("softmax", 1, classes=2).checked_examples([[1.0]], [2.0]), r"whole numbers in \[0, 2\)"),
        (lambda: ONE.accuracy(np.ones(1), np.ones((1, 1)), np.ones(1)), "link must be one of 'binary', 'softmax'"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
