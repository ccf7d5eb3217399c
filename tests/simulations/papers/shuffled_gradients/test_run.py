"""Shuffled gradient runs: the right distribution on quadratics, orders, clipping, phases, and bad input.

False alarms: tests of means and variances allow six standard errors, 2e-9 each.
"""

import math
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.papers.shuffled_gradients.run import SimulatedRun, shuffled_run, trajectory
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.papers.shuffled_gradients.exact_runs import quadratic_run
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.papers.shuffled_gradients.schedules import (
    ORDERS,
    Schedule,
    dp_shuffled,
    interleaved,
    private_then_public,
    public_then_private,
)
from corrnoise.theory.papers.shuffled_gradients.task import Regulariser, Task
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

OTHER: Any = "other"  # is none of what is asked for
RNG = np.random.default_rng(7)
N, D = 6, 3
FEATURES, TARGETS = RNG.normal(size=(N, D)), RNG.choice([-1.0, 1.0], N)
PUBLIC, PUBLIC_TARGETS = RNG.normal(size=(N, D)), RNG.choice([-1.0, 1.0], N)
REGULARISERS = [Regulariser("none"), Regulariser("ridge", 0.3), Regulariser("lasso", 0.1), Regulariser("ball", 0.4)]


MEAN, LOGISTIC, RIDGE = LinearLoss("mean", D), LinearLoss("logistic", D), LinearLoss("squares", D, scale=2.0)
LOSSES = [MEAN, LOGISTIC, RIDGE, LinearLoss("mean", D, scale=0.7), LinearLoss("logistic", D, scale=0.7)]


class Smoother(LinearLoss):
    """A loss that says it is smoother than it is."""

    def smoothness_of(self, features):
        return super().smoothness_of(features) / 1e6


def task(loss=RIDGE, regulariser=REGULARISERS[1]):
    return Task(loss, regulariser, FEATURES, TARGETS, PUBLIC, PUBLIC_TARGETS)


def slow_run(task, schedule, eta, public_eta, clip):
    """A run without noise in the given order, as the algorithm is written."""
    x = np.zeros(D)
    iterates = [x]
    n = schedule.samples
    for count in schedule.private.tolist():
        for i in range(n):
            private = i < count
            rows, targets = (task.features, task.targets) if private else (task.public_features, task.public_targets)
            record = slice(i, i + 1) if private else slice(i - count, i - count + 1)
            [g] = task.loss.gradients(x, rows[record], targets[record])
            g = g * min(1.0, clip / np.linalg.norm(g))
            x = x - (eta if private else public_eta) * g
        x = task.regulariser.prox(x, n * (eta if count == n else public_eta))
        iterates.append(x)
    return np.array(iterates)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("regulariser", REGULARISERS, ids=lambda r: r.name)
@pytest.mark.parametrize(
    "schedule",
    [
        dp_shuffled(N, epochs=3),
        private_then_public(N, epochs=3, private_epochs=1),
        public_then_private(N, epochs=3, private_epochs=2),
        interleaved(N, epochs=3, private_per_epoch=4),
    ],
    ids=["private", "private first", "public first", "interleaved"],
)
@pytest.mark.parametrize("clip", [math.inf, 0.7])
def test_runs_follow_the_algorithm(loss, regulariser, schedule, clip):
    t = task(loss, regulariser)
    settings = {"learning_rate": 0.05, "public_learning_rate": 0.03, "clipped_to": clip}
    found = trajectory(t, schedule, ORDERS["given"](N, 3), noise_std=0.0, rng=0, **settings)
    assert found == pytest.approx(slow_run(t, schedule, 0.05, 0.03, clip), rel=1e-12, abs=1e-14)
    assert found != pytest.approx(slow_run(t, schedule, 0.05 * (1 + 1e-6), 0.03, clip), rel=1e-9, abs=1e-12) or (
        not schedule.private.any()
    )


@pytest.mark.parametrize("placement", ["every", "private", "tail", "end"])
def test_noise_has_the_exact_covariance(placement):
    """4000 runs of ridge regression: mean and covariance within six standard errors."""
    t, eta, sigma = task(), 0.04, 0.7
    schedule = interleaved(N, epochs=3, private_per_epoch=4, placement=placement)
    ends = np.array(
        [
            trajectory(
                t,
                schedule,
                ORDERS["given"](schedule.samples, schedule.epochs),
                learning_rate=eta,
                noise_std=sigma,
                rng=seed,
            )[-1]
            for seed in range(4000)
        ]
    )
    rows = np.concatenate([FEATURES[:4], PUBLIC[:2]])
    targets = np.concatenate([TARGETS[:4], PUBLIC_TARGETS[:2]])
    hessians = np.broadcast_to(2 * rows[:, :, None] * rows[:, None, :], (3, N, D, D))
    noise = np.broadcast_to(sigma * schedule.noisy_steps(4), (3, N))
    mean, covariance = quadratic_run(
        hessians, np.broadcast_to(2 * targets[:, None] * rows, (3, N, D)), noise, eta, ridge=0.3
    )
    error = np.sqrt(np.diag(covariance) / len(ends))
    assert (np.abs(ends.mean(axis=0) - mean) < 6 * error).all()
    standardised = np.linalg.solve(np.linalg.cholesky(covariance), (ends - mean).T)
    sample = standardised @ standardised.T / len(ends)
    assert (np.abs(sample - np.eye(D)) < 6 * math.sqrt(2 / len(ends))).all()
    assert (np.abs(1.2 * sample - np.eye(D)) >= 6 * math.sqrt(2 / len(ends))).any()  # 10 % more noise is noticed


def test_orders():
    """A linear functional of the order tells which records came when."""
    marks = np.eye(N)
    t = Task(LinearLoss("mean", N), Regulariser("none"), marks, np.zeros(N), marks, np.zeros(N))
    schedule = dp_shuffled(N, epochs=4)

    def order_of(x, before):
        # With η = 1 the run jumps to each record in turn: the last one is what it ends at.
        return int(np.argmax(x))

    for order, fresh in (("given", False), ("shuffled once", False), ("reshuffled", True)):
        last = set()
        for seed in range(40):
            iterates = trajectory(t, schedule, ORDERS[order](N, 4), learning_rate=1.0, noise_std=0.0, rng=seed)
            ends = [order_of(x, None) for x in iterates[1:]]
            last |= set(ends)
            assert fresh or len(set(ends)) == 1
        assert len(last) == (1 if order == "given" else N)


def test_the_same_seed_gives_the_same_run():
    schedule = dp_shuffled(N, epochs=3)
    one, two, other = (trajectory(task(), schedule, learning_rate=0.01, noise_std=1.0, rng=seed) for seed in (5, 5, 6))
    assert (one == two).all()
    assert (one != other).any()


def test_public_epochs_add_no_noise():
    schedule = Schedule(N, [0, 0])
    assert (
        trajectory(task(), schedule, learning_rate=0.01, noise_std=9.0, rng=1)
        == trajectory(task(), schedule, learning_rate=0.01, noise_std=0.0, rng=2)
    ).all()


# -- runs with their noise ---------------------------------------------------------------------------------------------


def budget(clip_norm: float = 0.5) -> Budget:
    return Budget(epsilon=1.0, delta=1e-6, clip_norm=clip_norm, adjacency="replace-one")


WHO = ORDERS["reshuffled"](N, 3)
FACTS: dict[str, Any] = {
    "learning_rate": 0.05,
    "public_learning_rate": 0.03,
    "smoothness": 40.0,
    "clipping": "cocoercive",
    "convex": True,
    "released": "last iterate",
}


def test_a_run_has_the_noise_of_its_multiplier():
    run = ShuffledGradients(budget(), WHO, **FACTS).interleaved(4)
    found = shuffled_run(task(), run, noise_multiplier=2.0, rng=3)
    same = trajectory(
        task(),
        run.schedule,
        learning_rate=0.05,
        public_learning_rate=0.03,
        noise_std=1.0,
        clipped_to=0.5,
        rng=3,
    )
    assert (found.iterates == same).all()
    assert (found.released == same[-1]).all()
    every = ShuffledGradients(budget(), WHO, **{**FACTS, "released": "every epoch"}).interleaved(4)
    assert (shuffled_run(task(), every, noise_multiplier=2.0, rng=3).released == same).all()
    assert isinstance(found, SimulatedRun)


def test_a_run_without_clipping_clips_nothing():
    """Mean estimation with records in the unit ball: gradients at x_1 = 3 are longer than G = 1."""
    rows = FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)
    t = Task(LinearLoss("mean", rows.shape[1]), REGULARISERS[0], rows, TARGETS, rows, TARGETS)
    facts = {**FACTS, "public_learning_rate": None, "smoothness": 1.0, "strong_convexity": 1.0, "clipping": "none"}
    run, start = ShuffledGradients(budget(1.0), WHO, **facts), np.full(D, 3.0)
    found = shuffled_run(t, run, noise_multiplier=0.5, start=start, rng=1)
    same = trajectory(t, run.schedule, learning_rate=0.05, noise_std=0.5, start=start, rng=1)
    assert (found.iterates == same).all()


@pytest.mark.parametrize(
    ("facts", "t", "message"),
    [
        (
            {"smoothness": 0.01},
            task(Smoother("squares", D, scale=2.0)),
            "loss must be a LinearLoss itself",
        ),
        ({"smoothness": 1.0}, task(), r"smoothness must bound that of every record, .* here, got 1\.0"),
        ({"clipping": "none"}, task(), "clipping must not be 'none' for squares, whose gradients have no bound"),
        ({"clipping": "none"}, task(LOGISTIC), r"clip_norm must be at least .*, by the longest private features"),
        (
            {"clipping": "none", "strong_convexity": 0.1},
            task(LOGISTIC),
            r"strong_convexity must be at most 0\.0 for the loss 'logistic', got 0\.1",
        ),
        (
            {"regulariser_convexity": 0.31},
            task(),
            r"regulariser_convexity must be at most 0\.3 for the task's regulariser, got 0\.31",
        ),
        ({"placement": "end", "learning_rate": 0.051}, task(), "learning_rate must be at most 2/smoothness = 0.05"),
        ({"placement": "end", "clipping": "general"}, task(), "clipping must be 'none' or 'cocoercive', got 'general'"),
        ({"placement": "end", "convex": False}, task(), "convex must be True, got False"),
        (
            {"placement": "tail", "public_learning_rate": 1.0, "private": [4, 4, 4]},
            task(),
            "public_learning_rate must be at most 2/smoothness",
        ),
        (
            {"participation": ORDERS["reshuffled"](N + 1, 3)},
            task(),
            "schedule must have as many samples as there are private records, 6, got 7",
        ),
    ],
)
def test_runs_that_no_accountant_covers_are_refused(facts, t, message):
    run = ShuffledGradients(**{"budget": budget(), "participation": WHO, **FACTS, **facts})
    with pytest.raises(ValueError, match=message):
        shuffled_run(t, run, noise_multiplier=1.0)


def test_bad_multipliers_are_refused():
    run = ShuffledGradients(budget(), WHO, **FACTS)
    with pytest.raises(ValueError, match=r"noise_multiplier must lie in"):
        shuffled_run(task(), run, noise_multiplier=math.inf)
    own = shuffled_run(task(), run, rng=0)
    assert (own.iterates == shuffled_run(task(), run, noise_multiplier=run.noise_multiplier(), rng=0).iterates).all()
    with pytest.raises(TypeError, match="run must be a ShuffledGradients"):
        shuffled_run(task(), OTHER, noise_multiplier=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, r"learning_rate must lie in \(0, inf\)"),
        ({"noise_std": -1.0}, r"noise_std must lie in \[0, inf\)"),
        ({"participation": Participation.single(2 * N)}, "participation must be in 2 epochs of 6 steps"),
        ({"clipped_to": 0.0}, r"clipped_to must lie in \(0, inf\)"),
        ({"start": np.zeros(2)}, r"start must have shape \(3,\)"),
        (
            {"schedule": dp_shuffled(N + 1, epochs=2)},
            "schedule must have as many samples as there are private records, 6, got 7",
        ),
    ],
)
def test_bad_input(change, message):
    arguments = {"schedule": dp_shuffled(N, epochs=2), "learning_rate": 0.1, "noise_std": 1.0, **change}
    with pytest.raises(ValueError, match=message):
        trajectory(task(), arguments.pop("schedule"), **arguments)


def test_too_few_public_records_are_refused():
    t = Task(MEAN, Regulariser("none"), FEATURES, TARGETS, PUBLIC[:1], PUBLIC_TARGETS[:1])
    with pytest.raises(ValueError, match="public_features must have at least 2 rows, got 1"):
        trajectory(t, interleaved(N, epochs=2, private_per_epoch=4), learning_rate=0.1, noise_std=0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: task(LinearLoss("binary", D)), "link of the loss must be one of"),
        (lambda: Regulariser("ridge", 0.0), r"strength must lie in \(0, inf\)"),
        (
            lambda: Task(MEAN, REGULARISERS[0], FEATURES, TARGETS[:2], PUBLIC, PUBLIC_TARGETS),
            "must have shapes",
        ),
        (
            lambda: Task(MEAN, REGULARISERS[0], FEATURES, TARGETS, PUBLIC[:, :2], PUBLIC_TARGETS),
            "public_features and public_targets must have shapes",
        ),
        (
            lambda: Task(LOGISTIC, REGULARISERS[0], FEATURES, np.arange(6.0) % 2, PUBLIC, PUBLIC_TARGETS),
            "^targets must be -1 or 1 for logistic losses, got 0.0",
        ),
        (
            lambda: Task(LOGISTIC, REGULARISERS[0], FEATURES, TARGETS, PUBLIC, 2 * PUBLIC_TARGETS),
            r"^public_targets must be -1 or 1 for logistic losses, got -?2\.0",
        ),
        (
            lambda: Task(MEAN, REGULARISERS[0], FEATURES[:0], TARGETS[:0], PUBLIC, PUBLIC_TARGETS),
            r"features must have at least one row, got shape \(0, 3\)",
        ),
    ],
)
def test_bad_tasks(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: trajectory(OTHER, dp_shuffled(N, epochs=2), learning_rate=0.1, noise_std=0.0),
            "task must be a Task, got 'other'",
        ),
        (
            lambda: trajectory(task(), OTHER, learning_rate=0.1, noise_std=0.0),
            "schedule must be a Schedule, got 'other'",
        ),
        (lambda: task(regulariser=OTHER), "regulariser must be a Regulariser, got 'other'"),
        (
            lambda: Task(OTHER, REGULARISERS[0], FEATURES, TARGETS, PUBLIC, PUBLIC_TARGETS),
            "loss must be a LinearLoss, got 'other'",
        ),
    ],
)
def test_what_is_of_the_wrong_type_is_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_tasks_are_frozen_with_their_records_however_these_lie_in_memory():
    rows = np.asfortranarray(FEATURES)
    t = Task(LinearLoss("mean", rows.shape[1]), REGULARISERS[0], rows, TARGETS, rows[::-1], TARGETS)
    assert t == Task(MEAN, REGULARISERS[0], FEATURES, TARGETS, FEATURES[::-1], TARGETS)
    for name in ("features", "targets", "public_features", "public_targets"):
        array = getattr(t, name)
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert rows.flags.writeable
