"""Constants of tasks with public records: suprema over balls, and the smoothness of H."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.empirical_risk import empirical_risk_minimiser
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.papers.shuffled_gradients.dissimilarity import reshuffled_dissimilarity
from corrnoise.theory.papers.shuffled_gradients.schedules import (
    Schedule,
    dp_shuffled,
    interleaved,
)
from corrnoise.theory.papers.shuffled_gradients.task import Regulariser, Task
from corrnoise.theory.papers.shuffled_gradients.task_constants import (
    convergence_constants,
    difference_smoothness,
    dissimilarities,
    epoch_smoothness,
    quadratic_maximum,
)
from tests.theory.papers.shuffled_gradients.runs import described

seeds = st.integers(0, 10**6)


LOSSES = [("mean", 1.0), ("squares", 2.0), ("logistic", 1.0), ("mean", 0.7), ("squares", 0.7), ("logistic", 0.7)]


def task(link, seed, n=5, d=2, regulariser=None, scale=1.0, factor=None):
    rng = np.random.default_rng(seed)
    y, q = (rng.choice([-1.0, 1.0], n) if link == "logistic" else rng.normal(size=n) for _ in range(2))
    psi = regulariser or Regulariser("none")
    loss = LinearLoss(link, d, scale=factor or (2.0 if link == "squares" else 1.0))
    return Task(loss, psi, scale * rng.normal(size=(n, d)), y, scale * rng.normal(size=(n, d)), q)


# -- suprema over balls ------------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 3), st.sampled_from([0.0, 0.3, 2.0]), st.booleans(), st.sampled_from([1, 0, -1]))
def test_maximum_of_a_quadratic_over_a_ball(seed, d, radius, hard, sign):
    """Against many points; the dual is never below, and attained, for convex, indefinite and concave quadratics."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    matrix, vector = sign * root.T @ root if sign else root + root.T, rng.normal(size=d)
    if hard:  # no component along the largest eigenvalue
        top = np.linalg.eigh(matrix)[1][:, -1]
        vector -= top * (top @ vector)
    points = rng.normal(size=(20_000, d))
    points *= radius / np.linalg.norm(points, axis=1, keepdims=True)
    if sign < 1:  # the maximum may lie inside
        points *= rng.uniform(size=(20_000, 1)) ** (1 / d)
    values = np.einsum("ij,jk,ik->i", points, matrix, points) + 2 * points @ vector
    found = quadratic_maximum(matrix, vector, radius)
    assert found >= values.max() - 1e-12
    assert found == pytest.approx(values.max(), rel=0.03, abs=0.03)


@pytest.mark.parametrize(("loss", "factor"), LOSSES)
@given(seeds, st.integers(0, 4), st.sampled_from([0.0, 0.5, 3.0]))
def test_dissimilarities_bound_every_point_of_the_ball(loss, factor, seed, kept, radius):
    t = task(loss, seed, factor=factor)
    n = len(t.features)
    found = {order: dissimilarities(t, kept, radius=radius, order=order) for order in ("reshuffled", "given")}
    rng = np.random.default_rng(seed)
    largest = {order: np.zeros(n - kept) for order in found}
    for _ in range(200):
        z = rng.normal(size=2)
        z *= radius / np.linalg.norm(z)
        g = t.loss.gradients(z, t.features, t.targets)
        p = t.loss.gradients(z, t.public_features[: n - kept], t.public_targets[: n - kept])
        largest["reshuffled"] = np.maximum(largest["reshuffled"], reshuffled_dissimilarity(g, p))
        sums = np.square(np.cumsum(g[kept:] - p, axis=0)).sum(axis=1)
        largest["given"] = np.maximum(largest["given"], sums)
    for order, values in found.items():
        assert (largest[order] <= values * (1 + 1e-10) + 1e-12).all()
        if loss != "logistic":  # exact, up to how close random points of the sphere come
            assert values == pytest.approx(largest[order], rel=0.02, abs=1e-9)
            assert values != pytest.approx(1.05 * largest[order], rel=0.02, abs=1e-9) or not values.any()


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "factor"), LOSSES)
@given(seeds, st.integers(0, 4))
def test_smoothness_of_the_difference_and_of_epochs(loss, factor, seed, kept):
    """Against Hessians by differences, in every order of the private records."""
    t = task(loss, seed, factor=factor)
    n = len(t.features)
    z, step = np.random.default_rng(seed).normal(size=2), 1e-6
    largest, mean_smoothness = 0.0, 0.0

    def gradient(x, chosen):
        private = t.loss.gradients(x, t.features[chosen], t.targets[chosen]).sum(axis=0)
        public = slice(0, n - kept)
        return (private - t.loss.gradients(x, t.public_features[public], t.public_targets[public]).sum(axis=0)) / n

    for order in permutations(range(n)):
        chosen = list(order[kept:])
        hessian = np.array([gradient(z + e, chosen) - gradient(z - e, chosen) for e in step * np.eye(2)]) / (2 * step)
        largest = max(largest, np.linalg.norm(hessian, 2))
        used = np.concatenate(
            [t.loss.smoothness_of(t.features[list(order[:kept])]), t.loss.smoothness_of(t.public_features[: n - kept])]
        )
        mean_smoothness = max(mean_smoothness, used.mean())
        assert used.max() <= epoch_smoothness(t, kept)[1] * (1 + 1e-12)
    assert largest <= difference_smoothness(t, kept) * (1 + 1e-6) + 1e-6
    assert epoch_smoothness(t, kept)[0] == pytest.approx(mean_smoothness)
    if loss == "squares" and kept == 0:
        assert difference_smoothness(t, 0) == pytest.approx(largest, rel=1e-5)
        assert difference_smoothness(t, 0) != pytest.approx(1.001 * largest, rel=1e-5)


def constants(task, schedule, minimiser, *, learning_rate, order="reshuffled", **settings):
    run = described(schedule, learning_rate, math.inf, order=order)
    return convergence_constants(task, run, minimiser, **settings)


def best(task):
    """The minimiser."""
    return empirical_risk_minimiser(task)[0]


# -- the theorem -------------------------------------------------------------------------------------------------------


def test_constants_of_a_run_are_those_of_its_epochs_and_order():
    t = task("squares", 1, regulariser=Regulariser("ridge", 500.0))
    schedule, (x, _) = Schedule(5, [5, 3, 0]), empirical_risk_minimiser(t)
    runs = {
        order: constants(t, schedule, x, learning_rate=1e-4, noise_std=2.0, radius=1.0, order=order)
        for order in ("given", "reshuffled")
    }
    for order, run in runs.items():
        parts = [dissimilarities(t, c, radius=1.0, order=order) for c in (3, 0)]
        assert run.total_dissimilarity == pytest.approx([0.0, *(np.sqrt(part[-1]) for part in parts)], rel=1e-12)
        assert run.partial_dissimilarity == pytest.approx([0.0, *(part[:-1].sum() / 5 for part in parts)], rel=1e-12)
        assert run.beta == pytest.approx(500 - max(difference_smoothness(t, c) for c in (3, 0)))
        assert np.asarray(run.noise).tolist() == [2.0, 2.0, 0.0]
        assert run.distance == pytest.approx(np.linalg.norm(x))
        assert [run.smoothness[k] for k in range(3)] == [epoch_smoothness(t, c)[0] for c in (5, 3, 0)]
        assert run.private_smoothness == pytest.approx(t.loss.smoothness_of(t.features).mean())
    assert (runs["given"].total_dissimilarity != runs["reshuffled"].total_dissimilarity).any()


def test_a_ball_needs_no_strong_convexity_and_others_do():
    t = task("mean", 0, regulariser=Regulariser("ball", 2.0))
    run = constants(
        t, interleaved(5, epochs=3, private_per_epoch=2), best(t), learning_rate=1e-3, noise_std=1.0, radius=2.0
    )
    assert (run.diameter, run.beta) == (4.0, 0.0)
    bound = run.excess_risk_upper_bound()
    harmonic = 1 + 1 / 2 + 1 / 3
    partial = 5e-6 * dissimilarities(t, 2, radius=2.0)[:-1].sum() / 5
    total = np.sqrt(dissimilarities(t, 2, radius=2.0)[-1]) * 4 / 5
    assert bound.dissimilarity == pytest.approx(2 * harmonic * (total + partial), rel=1e-12)
    with pytest.raises(ValueError, match="more strongly convex than H is smooth"):
        constants(
            task("mean", 0),
            interleaved(5, epochs=3, private_per_epoch=2),
            best(task("mean", 0)),
            learning_rate=1e-3,
            noise_std=1.0,
            radius=2.0,
        )
    private_noise = interleaved(5, epochs=3, private_per_epoch=2, placement="private")
    with pytest.raises(ValueError, match="noise at every step or at the end, got 'private'"):
        constants(t, private_noise, best(t), learning_rate=1e-3, noise_std=1.0, radius=2.0)


@pytest.mark.parametrize(
    ("name", "regulariser", "size", "added"),
    [
        ("none", "smooth", 0.0, 0.0),
        ("ridge", "smooth", 0.0, 0.0),
        ("lasso", "lasso", 2 + 5 * 1e-3 * 0.3, 2 * (2 + 5 * 1e-3 * 0.3) / np.sqrt(2 * np.pi)),
        ("ball", "projection", 0.0, 0.5),
    ],
)
def test_the_published_bound_is_that_for_the_regulariser_of_the_task(name, regulariser, size, added):
    """D.14, G.3 with B from the ball that holds the iterates, G.7: what they add to the noise of D.14."""
    t = task("mean", 0, regulariser=Regulariser(name, 0.3))
    run = constants(t, dp_shuffled(5, epochs=2), best(t), learning_rate=1e-3, noise_std=2.0, radius=2.0)
    assert (run.regulariser, run.size) == (regulariser, pytest.approx(size))
    plain = 6 * 1e-6 * 5 * 2 * 4
    noise = run.excess_risk_upper_bound(printed=True).noise
    assert noise == pytest.approx(2 * 1.5 * (plain + added * 2 * 4), rel=1e-12)


def test_a_ball_with_ridge_losses_needs_a_given_order():
    t = task("squares", 0, regulariser=Regulariser("ball", 1.0))
    settings = {"learning_rate": 1e-3, "noise_std": 0.0, "radius": 1.0}
    with pytest.raises(ValueError, match="order must be 'given' for ridge losses in a ball"):
        constants(t, interleaved(5, epochs=2, private_per_epoch=2), best(t), **settings)
    for schedule, order in (
        (interleaved(5, epochs=2, private_per_epoch=2), "given"),
        (Schedule(5, [0, 0]), "reshuffled"),
    ):
        assert constants(t, schedule, best(t), order=order, **settings).diameter == 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"private_samples": 6}, r"private_samples must lie in \[0, samples\] = \[0, 5\], got 6"),
        ({"radius": -1.0}, r"radius must lie in \[0, 1e100\]"),
        ({"order": "sorted"}, "order must be one of"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        dissimilarities(task("squares", 0), **{"private_samples": 2, "radius": 1.0, **change})


def test_bad_shapes():
    t = task("squares", 0, regulariser=Regulariser("ridge", 500.0))
    settings = {"learning_rate": 1e-4, "noise_std": 1.0, "radius": 1.0}
    with pytest.raises(ValueError, match=r"minimiser must have shape \(2,\), got shape \(3,\)"):
        constants(t, dp_shuffled(5, epochs=2), np.zeros(3), **settings)
    with pytest.raises(ValueError, match=r"start must have shape \(2,\), got shape \(1,\)"):
        constants(t, dp_shuffled(5, epochs=2), best(t), start=[0.0], **settings)
    with pytest.raises(ValueError, match="schedule must have as many samples as there are private records, 5, got 6"):
        constants(t, dp_shuffled(6, epochs=2), np.zeros(2), **settings)
    with pytest.raises(TypeError, match="run must be a ShuffledGradients, got None"):
        convergence_constants(t, None, np.zeros(2), noise_std=1.0, radius=1.0)
    for call in (lambda: dissimilarities(None, 1, radius=1.0), lambda: epoch_smoothness(None, 1)):
        with pytest.raises(TypeError, match="task must be a Task, got None"):
            call()
    with pytest.raises(ValueError, match=r"matrix must have shape \(2, 2\), got shape \(1, 1\)"):
        quadratic_maximum([[1.0]], [1.0, 0.0], 1.0)
    with pytest.raises(ValueError, match=r"matrix must be symmetric, got entries that differ by 1\.0"):
        quadratic_maximum([[1.0, 1.0], [0.0, 1.0]], [1.0, 0.0], 1.0)


def test_the_assumptions_of_the_theorem_are_checked():
    """Ridge losses a = y = 1, public records 1/2 and 2: with radius 0 the bound would be below the exact risk."""
    t = Task(LinearLoss("squares", 1, scale=2.0), Regulariser("ridge", 2.0), [[1.0]], [1.0], [[0.5]], [2.0])
    x = best(t)
    assert x == pytest.approx([0.5])
    schedule = Schedule(1, [0])
    settings = {"learning_rate": 1e-3, "noise_std": 0.0}
    for radius in (0.0, 0.5 * (1 - 1e-6)):
        with pytest.raises(ValueError, match=r"radius must be at least 0\.5, for x\*, x_1 and a ball"):
            constants(t, schedule, x, radius=radius, **settings)
    with pytest.raises(ValueError, match=r"radius must be at least 3\.0, for x\*, x_1"):
        constants(t, schedule, x, radius=1.0, start=[3.0], **settings)
    for wrong in (x + 1e-4, x - 0.49):
        with pytest.raises(ValueError, match="minimiser must minimise the objective of the task"):
            constants(t, schedule, wrong, radius=1.0, **settings)
    assert constants(t, schedule, x, radius=0.5, **settings).beta > 0
    ball = task("mean", 0, regulariser=Regulariser("ball", 2.0))
    with pytest.raises(ValueError, match=r"radius must be at least 2\.0"):
        constants(ball, dp_shuffled(5, epochs=2), best(ball), radius=1.9, **settings)
    two_rates = described(schedule, 1e-3, math.inf, order="reshuffled", public_learning_rate=1e-4)
    clipped = described(schedule, 1e-3, math.inf, order="reshuffled", clipping="cocoercive")
    once = described(schedule, 1e-3, math.inf, order="shuffled once")
    for run, message in (
        (two_rates, "public_learning_rate must be learning_rate = 0.001, got 0.0001"),
        (clipped, "clipping must be 'none' for the theorem, got 'cocoercive'"),
        (once, "participation must be reshuffled, or fixed and not secret, with public records"),
    ):
        with pytest.raises(ValueError, match=message):
            convergence_constants(t, run, x, noise_std=0.0, radius=1.0)


def test_dissimilarities_hold_for_random_points_of_that_mean_square():
    """Gaussian points leave every ball: E ‖v_i(z)‖² over E ‖z‖² <= r² is what the maximum over the ball bounds."""
    t = task("squares", 3)
    rng = np.random.default_rng(0)
    bound = dissimilarities(t, 2, radius=1.5)
    for spread in ([1.0, 0.0], [0.6, 0.8], [0.0, 1.0]):
        for share in (0.0, 0.5, 1.0):  # of the mean square that is due to the mean
            mean = 1.5 * np.sqrt(share) * rng.permutation(spread)
            points = mean + 1.5 * np.sqrt(1 - share) * np.array(spread) * np.sqrt(3) * np.array([[-1], [0], [0], [1]])
            # Four points with weights 1/6, 1/3, 1/3, 1/6 have the mean and the variance of a Gaussian.
            moments = [
                reshuffled_dissimilarity(
                    t.loss.gradients(z, t.features, t.targets),
                    t.loss.gradients(z, t.public_features[:3], t.public_targets[:3]),
                )
                for z in points
            ]
            assert (np.array([1, 2, 2, 1]) / 6 @ np.array(moments) <= bound * (1 + 1e-10)).all()


def test_records_that_are_all_alike():
    """Nothing but rounding is left of the quadratics."""
    rows, y = np.tile([[0.3, -1.7]], (5, 1)), np.full(5, 0.9)
    t = Task(LinearLoss("squares", rows.shape[1], scale=2.0), Regulariser("none"), rows, y, rows, y)
    assert dissimilarities(t, 1, radius=3.0) == pytest.approx(0, abs=1e-12)


def test_too_few_public_records():
    t = task("mean", 0)
    few = Task(t.loss, t.regulariser, t.features, t.targets, t.public_features[:2], t.public_targets[:2])
    assert dissimilarities(few, 3, radius=1.0).shape == (2,)
    assert dissimilarities(few, 5, radius=1.0).shape == (0,)
    with pytest.raises(ValueError, match="public_features must have at least 3 rows, got 2"):
        dissimilarities(few, 2, radius=1.0)
