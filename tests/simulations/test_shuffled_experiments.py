"""Data sets and experiments: shapes, stand-ins named so, noise at the calibrated level, the best learning rate."""

import numpy as np
import pytest

from corrnoise.simulations import shuffled_data
from corrnoise.simulations.shuffled_data import BUNDLED, DATA_SETS, task
from corrnoise.simulations.shuffled_experiments import ALGORITHMS, experiment, noise_multiplier
from corrnoise.solvers.empirical_risk import empirical_risk_minimiser
from corrnoise.theory.shuffled_gradients.schedules import dp_shuffled, interleaved


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
    assert DATA_SETS[name].stand_in_for


def test_stand_ins_say_so_and_nothing_is_fetched_without_leave():
    for name, entry in DATA_SETS.items():
        assert ("(stand-in)" in name) == bool(entry.stand_in_for) == (name in BUNDLED)
        if entry.downloaded:
            with pytest.raises(ValueError, match="allow it with download=True"):
                task(name)
    with pytest.raises(ValueError, match="name must be one of"):
        task("MNIST")


def test_an_unreachable_server_is_reported(monkeypatch):
    class Offline:
        @staticmethod
        def fetch_openml(**_):
            raise ConnectionError("no route")

    monkeypatch.setattr(shuffled_data, "_sklearn", lambda _: Offline)
    with pytest.raises(OSError, match=r"mnist_784 could not be fetched from OpenML \(no route\)"):
        task("MNIST-69", download=True)


class Fetched:
    """A server that returns small made-up tables of the right columns."""

    def __init__(self, data, target, names):
        self.data, self.target, self.feature_names = data, target, names

    def fetch_openml(self, **_):
        return self


RNG = np.random.default_rng(0)
SERVED = {
    "MNIST-69": Fetched(RNG.uniform(0, 255, (40, 784)), np.repeat(["6", "9"], 20), ["p"] * 784),
    "CIFAR-10": Fetched(RNG.uniform(0, 255, (3600, 12)), np.tile(np.arange(10), 360), ["p"] * 12),
    "Crime": Fetched(np.where(np.arange(300).reshape(60, 5) == 7, np.nan, 1.5), np.linspace(0, 1, 60), list("abcde")),
    "COMPAS": Fetched(
        np.column_stack([RNG.normal(size=(80, 2)), np.repeat([0, 1], 40), np.repeat([1, 0], 40)]),
        np.tile([0, 1], 40),
        ["age", "priors", "race_African-American", "race_Caucasian"],
    ),
    "CreditCard": Fetched(
        np.column_stack([RNG.normal(size=(1200, 2)), np.repeat([1, 2, 3], 400)]),
        np.tile([0, 1], 600),
        ["x1", "x2", "x3"],
    ),
}


@pytest.mark.parametrize("name", SERVED)
def test_fetched_data_sets_are_split_as_in_the_paper(name, monkeypatch):
    monkeypatch.setattr(shuffled_data, "_sklearn", lambda _: SERVED[name])
    t = task(name, download=True)
    shapes = {
        "MNIST-69": ((20, 784), (20, 784)),
        "CIFAR-10": ((1000, 12), (1000, 12)),
        "Crime": ((29, 5), (29, 5)),
        "COMPAS": ((40, 2), (40, 2)),
        "CreditCard": ((200, 2), (200, 2)),
    }
    assert (t.features.shape, t.public_features.shape) == shapes[name]
    if t.loss.name == "logistic":
        assert set(t.targets.tolist()) == {-1.0, 1.0}
    if name == "MNIST-69":
        assert (t.public_features[0] == SERVED[name].data[20][::-1] / 255).all()  # rotated by 180 degrees
    if name == "CIFAR-10":
        assert np.bincount(t.targets.astype(int)).tolist() == [100] * 10
        assert np.bincount(t.public_targets.astype(int)).tolist() == [250] * 4


def test_noise_of_experiments():
    assert noise_multiplier(dp_shuffled(1000, 50), 1.0, 1e-6) == pytest.approx(75.66014, abs=6e-6)
    assert noise_multiplier(interleaved(1000, 50, 500), 5.0, 1e-6) == pytest.approx(0.71971, abs=6e-6)
    sharp = noise_multiplier(dp_shuffled(1000, 50), 1.0, 1e-6, accounting="sharp")
    assert sharp == pytest.approx(5.28641, abs=6e-6)
    given = noise_multiplier(dp_shuffled(1000, 50), 1.0, 1e-6, order="given", accounting="sharp")
    assert given == pytest.approx(8.65389, abs=6e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_experiment_shows_the_best_of_its_learning_rates(algorithm):
    t = task("diabetes by sex (stand-in)")
    settings = {"epsilon": 5.0, "epochs": 4, "runs": 2}
    rates = (1e-2, 1e-4, 1e-5)
    best = experiment(t, algorithm, rates=rates, **settings)
    alone = [experiment(t, algorithm, rates=(rate,), **settings) for rate in rates]
    assert best in alone
    assert best.mean[-1] == min(e.mean[-1] for e in alone)
    assert best.mean.shape == best.std.shape == (5,)
    assert best.std[0] == 0
    assert (best.noise_multiplier == 0) == (algorithm == "Public only")
    assert (best.mean >= 0).all()


def test_learning_rates_without_a_guarantee_are_refused():
    with pytest.raises(ValueError, match="rates must hold one of at most 2/smoothness"):
        experiment(task("digits-69 (stand-in)"), "DP-ShuffleG", epsilon=1.0, rates=(2.5,), epochs=2, runs=1)
