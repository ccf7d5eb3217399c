"""Data sets and experiments: shapes, stand-ins named so, noise at the calibrated level, the best learning rate."""

import math
from fractions import Fraction

import numpy as np
import pytest

from corrnoise.simulations.datasets import Table
from corrnoise.simulations.papers.shuffled_gradients import data
from corrnoise.simulations.papers.shuffled_gradients.data import BUNDLED, SPLITS, task
from corrnoise.simulations.papers.shuffled_gradients.experiments import (
    ALGORITHMS,
    Setting,
    experiment,
    noise_multiplier,
    private_epochs,
    private_run,
)
from corrnoise.solvers.empirical_risk import empirical_risk_minimiser
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.papers.shuffled_gradients.schedules import dp_shuffled
from corrnoise.theory.papers.shuffled_gradients.task import Regulariser, Task
from corrnoise.theory.privacy import Budget


@pytest.mark.parametrize(
    ("name", "shape", "gap"),
    [
        ("digits-69 (stand-in)", (180, 64), 6.507),
        ("diabetes by sex (stand-in)", (200, 9), 0.5811),
        ("diabetes rotated (stand-in)", (200, 9), 0.5114),
        ("breast cancer (stand-in)", (200, 30), 0.2199),
    ],
)
def test_bundled_data_sets(name, shape, gap):
    t = task(name)
    assert t.features.shape == t.public_features.shape == shape
    x, least = empirical_risk_minimiser(t)
    assert t.objective(np.zeros(x.size)) - least == pytest.approx(gap, abs=6e-4)
    assert SPLITS[name].stand_in_for


def test_stand_ins_say_so():
    for name, split in SPLITS.items():
        assert ("(stand-in)" in name) == bool(split.stand_in_for) == (name in BUNDLED)
    stood_in_for = [split.stand_in_for for split in SPLITS.values() if split.stand_in_for]
    assert stood_in_for == ["MNIST-69", "Crime", "Crime", "COMPAS, CreditCard"]
    with pytest.raises(ValueError, match="name must be one of"):
        task("MNIST")
    with pytest.raises(ValueError, match="download must be True for 'MNIST', which is fetched from OpenML 554"):
        task("MNIST-69")


RNG = np.random.default_rng(0)
SERVED = {
    "MNIST-69": Table(RNG.uniform(0, 255, (40, 784)), np.repeat(["6", "9"], 20), ["p"] * 784),
    "CIFAR-10": Table(RNG.uniform(0, 255, (3600, 12)), np.tile(np.arange(10), 360), ["p"] * 12),
    "Crime": Table(np.full((59, 4), 1.5), np.linspace(0, 1, 59), ["state", "fold", "population", "householdsize"]),
    "COMPAS": Table(
        np.column_stack([RNG.normal(size=(80, 2)), np.repeat([0, 1], 40), np.repeat([1, 0], 40)]),
        np.tile([0, 1], 40),
        ["age", "priors", "race_African-American", "race_Caucasian"],
    ),
    "CreditCard": Table(
        np.column_stack([RNG.normal(size=(1200, 2)), np.repeat([1, 2, 3], 400)]),
        np.tile([0, 1], 600),
        ["x1", "x2", "x3"],
    ),
}


@pytest.mark.parametrize("name", SERVED)
def test_fetched_data_sets_are_split_as_in_the_paper(name, monkeypatch):
    monkeypatch.setattr(data, "load", lambda *_, **__: SERVED[name])
    t = task(name, download=True)
    shapes = {
        "MNIST-69": ((20, 784), (20, 784)),
        "CIFAR-10": ((1000, 12), (1000, 12)),
        "Crime": ((29, 4), (29, 4)),
        "COMPAS": ((40, 2), (40, 2)),
        "CreditCard": ((200, 2), (200, 2)),
    }
    assert (t.features.shape, t.public_features.shape) == shapes[name]
    if t.loss.link == "logistic":
        assert set(t.targets.tolist()) == {-1.0, 1.0}
    if name == "MNIST-69":
        assert (t.public_features[0] == SERVED[name].features[20][::-1] / 255).all()  # rotated by 180 degrees
    if name == "CIFAR-10":
        assert np.bincount(t.targets.astype(int)).tolist() == [100] * 10
        assert np.bincount(t.public_targets.astype(int)).tolist() == [250] * 4


def budget(epsilon, clip_norm=10.0):
    return Budget(epsilon=epsilon, delta=1e-6, clip_norm=clip_norm, adjacency="replace-one")


def multiplier(schedule, epsilon, order="reshuffled", accounting="published"):
    run = private_run(budget(epsilon), schedule, learning_rate=1.0, smoothness=2.0, order=order)
    return noise_multiplier(run, accounting)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_experiment_shows_the_best_of_its_learning_rates(algorithm):
    t = task("diabetes by sex (stand-in)")
    settings = {"budget": budget(5.0), "smoothness": 98.0, "epochs": 4, "runs": 2}
    rates = (1e-2, 1e-4, 1e-5)
    best = experiment(t, algorithm, learning_rates=rates, **settings)
    alone = [experiment(t, algorithm, learning_rates=(rate,), **settings) for rate in rates]
    assert best in alone
    assert best.mean[-1] == min(e.mean[-1] for e in alone)
    assert best.mean.shape == best.std.shape == (5,)
    assert best.std[0] == 0
    assert (best.noise_multiplier == 0) == (algorithm == "Public only")
    assert (best.mean >= 0).all()


def test_public_features_of_some_sets_are_rotated(monkeypatch):
    monkeypatch.setattr(data, "load", lambda *_, **__: SERVED["Crime"])
    assert (task("Crime", download=True).public_features != 1.5).all()


@pytest.mark.parametrize("algorithm", ["Priv-Pub", "Pub-Priv"])
def test_two_phases_may_have_learning_rates_of_their_own(algorithm):
    """All pairs of the grid are tried."""
    t = task("diabetes by sex (stand-in)")
    settings = {"budget": budget(5.0), "smoothness": 98.0, "epochs": 6, "runs": 2}
    rates = (1e-2, 1e-3, 1e-4, 1e-5)
    shared = experiment(t, algorithm, learning_rates=rates, setting=Setting(accounting="sharp"), **settings)
    assert shared.learning_rate == shared.public_learning_rate
    both = experiment(
        t, algorithm, learning_rates=rates, setting=Setting(accounting="sharp", two_rates=True), **settings
    )
    assert both.mean[-1] <= shared.mean[-1]
    assert (both.mean[-1] < shared.mean[-1]) == (both.learning_rate != both.public_learning_rate)
    assert (both.mean[-1] < shared.mean[-1]) == (algorithm == "Pub-Priv")
    assert both.noise_multiplier == shared.noise_multiplier


def test_interleaving_has_one_learning_rate():
    """Its public steps hide the private ones with noise of the same size, which a rate of their own would change."""
    t = task("diabetes by sex (stand-in)")
    settings = {"budget": budget(5.0), "smoothness": 98.0, "epochs": 3, "runs": 1, "learning_rates": (1e-2, 1e-4)}
    found = experiment(t, "Interleaved", setting=Setting(two_rates=True), **settings)
    assert found == experiment(t, "Interleaved", **settings)


def test_mean_estimation_is_as_good_as_it_exactly_is():
    """The mean of 400 runs is within six standard errors of the exact risk (2e-9), and not of half as much again."""
    rows = np.full((20, 4), 0.5)
    t = Task(LinearLoss("mean", rows.shape[1]), Regulariser("none"), rows, np.zeros(20), rows, np.zeros(20))
    schedule, eta = dp_shuffled(20, epochs=8), 0.01
    found = experiment(
        t, "DP-ShuffleG", budget=budget(5.0, 1e3), smoothness=1.0, epochs=8, learning_rates=(eta,), runs=400
    )
    sigma = 1e3 * multiplier(schedule, 5.0)
    keep = (1 - eta) ** (2 * 160)
    exact = 4 * (0.25 * keep + eta**2 * sigma**2 * (1 - keep) / (1 - (1 - eta) ** 2)) / 2
    error = found.std[-1] / np.sqrt(400)
    assert abs(found.mean[-1] - exact) < 6 * error
    assert abs(found.mean[-1] - 1.5 * exact) > 6 * error


@pytest.mark.parametrize("epochs", [*range(1, 61), 100, 250, 1000])
def test_private_epochs_are_the_ceiling_of_the_decimal_that_is_written(epochs):
    """0.14 × 50 is 7.000000000000001 in floating point, and 7."""
    for k in range(1, 1001):
        share = k / 1000
        assert private_epochs(share, epochs) == math.ceil(Fraction(str(share)) * epochs), share


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"algorithm": "SGD"}, ValueError, "algorithm must be one of"),
        ({"budget": budget(0.0)}, ValueError, r"epsilon must lie in \(0, inf\), got 0\.0"),
        ({"budget": 1.0}, TypeError, "budget must be a Budget"),
        (
            {"setting": Setting(accounting="nonsense")},  # type: ignore[arg-type]
            ValueError,
            "accounting must be one of 'published', 'sharp', got 'nonsense'",
        ),
        ({"setting": Setting(order="sorted")}, ValueError, "order must be one of"),
        ({"setting": Setting(private_share=0.0)}, ValueError, r"private_share must lie in \(0, 1\], got 0\.0"),
        ({"epochs": 0}, ValueError, "epochs must be an integer >= 1, got 0"),
        ({"runs": 0}, ValueError, "runs must be an integer >= 1, got 0"),
        ({"learning_rates": (0.1, -1.0)}, ValueError, r"learning_rates must lie in \(0, inf\), got -1\.0"),
        ({"learning_rates": ()}, ValueError, r"learning_rates must hold one of at most 2/smoothness = 2\.0, got \[\]"),
        ({"learning_rates": "fast"}, TypeError, "learning_rates must hold real numbers"),
        ({"task": "mean"}, TypeError, "task must be a Task, got 'mean'"),
    ],
)
@pytest.mark.parametrize("algorithm", ["Public only", "Priv-Pub"])
def test_bad_arguments_are_refused_by_every_algorithm(algorithm, change, error, message):
    rows, targets = np.eye(2), np.zeros(2)
    t = Task(LinearLoss("mean", rows.shape[1]), Regulariser("none"), rows, targets, rows, targets)
    good = {
        "task": t,
        "algorithm": algorithm,
        "smoothness": 1.0,
        "budget": budget(1.0),
        "epochs": 2,
        "runs": 1,
        "learning_rates": (0.1,),
    }
    with pytest.raises(error, match=message):
        experiment(**{**good, **change})


def test_budgets_that_no_noise_meets_are_refused():
    with pytest.raises(ValueError, match="budget must be large enough for some finite noise"):
        experiment(task("digits-69 (stand-in)"), "Priv-Pub", budget(1e-300), smoothness=1.0, epochs=2, runs=1)
