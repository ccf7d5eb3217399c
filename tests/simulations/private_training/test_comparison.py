"""Experiments that compare mechanisms: multipliers, errors, pairing, and intervals."""

import math

import numpy as np
import pytest

from corrnoise.simulations.private_training import comparison
from corrnoise.simulations.private_training.comparison import (
    CYCLIC,
    DELTA,
    EXPERIMENTS,
    FULL,
    LINEAR,
    MECHANISMS,
    PUBLIC,
    SAMPLED,
    Experiment,
    Run,
    grid,
    noise_multiplier,
    paired_interval,
    prefix_error,
    scores,
)
from corrnoise.simulations.private_training.networks import Network
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.privacy import gaussian_rho

pytest.importorskip("sklearn")
SMALL = Experiment("diabetes", Network((10, 1), "regression"), 350, 35, 2)


def test_multipliers_and_errors_of_the_digits():
    """T = 400, S = 20, k = 20."""
    digits = EXPERIMENTS["digits"]
    rho = gaussian_rho(5.0, DELTA)
    unit = math.sqrt(2 * rho)
    assert unit * noise_multiplier(digits, "square root", 5.0) == pytest.approx(16.884454, rel=1e-6)
    assert unit * noise_multiplier(digits, "independent noise", 5.0) == pytest.approx(math.sqrt(20), rel=1e-9)
    assert noise_multiplier(digits, FULL, 5.0) == pytest.approx(noise_multiplier(digits, "independent noise", 5.0))
    assert noise_multiplier(digits, PUBLIC, 5.0) == 0
    errors = {name: prefix_error(digits, name, 5.0) for name in MECHANISMS}
    assert min(errors, key=lambda name: errors[name]) == "dense optimum"
    assert max(errors, key=lambda name: errors[name]) == "independent noise"


def test_the_multiplier_of_dp_sgd():
    assert noise_multiplier(EXPERIMENTS["digits"], SAMPLED, 5.0) == pytest.approx(1.163, abs=1e-3)


def test_runs_of_one_seed_do_not_depend_on_the_others():
    runs = [Run("ν-DP-FTRL", 2.0, 0.05, 0.9), Run("square root", 5.0, 0.02, 0.0), Run(PUBLIC, 2.0, 0.1, 0.0)]
    together = scores(SMALL, runs, (1, 2))
    alone = [scores(SMALL, [run], (1, 2))[0] for run in runs]
    assert together == pytest.approx(alone, abs=1e-5)
    assert scores(SMALL, runs, (1, 3))[0] != together[0]


def test_more_noise_is_worse_and_too_large_rates_are_counted():
    runs = [Run("independent noise", epsilon, 0.1, 0.0) for epsilon in (0.01, 100.0)]
    noisy, quiet = np.mean([scores(SMALL, runs, (4, i)) for i in range(4)], axis=0)
    assert noisy < quiet - 0.2
    assert scores(SMALL, [Run(FULL, 1.0, 1e30, 0.9)], (5,))[0] == -1


def test_noise_of_a_run_is_that_of_its_mechanism(monkeypatch):
    seen = {}

    def record(network, inputs, targets, batches, runs, **settings):
        seen.update(settings)
        return np.zeros((len(runs.scales), network.parameters), dtype=np.float32)

    monkeypatch.setattr(comparison, "trained", record)
    scores(SMALL, [Run("square root", 2.0, 0.1, 0.0), Run("independent noise", 2.0, 0.1, 0.0)], (6,))
    correlated, draws = seen["noise"]
    expected = NuFTRL(0.0).noising(draws.astype(float))
    assert correlated == pytest.approx(expected, abs=1e-5)
    assert seen["schedule"][-1] == pytest.approx(0.05)
    assert (seen["schedule"][:15] == 1).all()


def test_the_grid_is_the_same_for_all():
    assert {run[2:] for run in grid(PUBLIC, 1.0)} == {run[2:] for run in grid(SAMPLED, 5.0)}
    assert len(grid(PUBLIC, 1.0)) == 20


def test_bootstrap_intervals():
    """Percentiles of 10 000 resamples are near those of the normal approximation."""
    differences = np.random.default_rng(2).normal(0.3, 1.0, size=200)
    low, high = paired_interval(differences)
    half = 1.96 * differences.std() / math.sqrt(200)
    assert (low, high) == pytest.approx((differences.mean() - half, differences.mean() + half), abs=0.015)
    assert paired_interval(np.full(10, 0.5)) == (0.5, 0.5)


@pytest.mark.slow
def test_noise_for_sampled_batches_is_the_one_that_the_accountant_covers() -> None:
    """The bands depend on ε, the multiplier is that of the program, and the error of prefix sums is written out."""
    found = comparison.amplified(LINEAR, CYCLIC, 8.0)
    assert found.participation.kind == "cyclic poisson"
    sums = np.cumsum(found.mechanism.noising_matrix(200), axis=0)
    error = noise_multiplier(LINEAR, CYCLIC, 8.0) * math.sqrt(float((sums**2).sum()) / 200)
    assert prefix_error(LINEAR, CYCLIC, 8.0) == pytest.approx(error, rel=1e-9)
    assert error < prefix_error(LINEAR, SAMPLED, 8.0)


def test_runs_with_sampled_batches_learn() -> None:
    chosen = [Run(CYCLIC, 8.0, 2.0, 0.0), Run(SAMPLED, 8.0, 2.0, 0.0)]
    found = scores(LINEAR, chosen, (1, 2))
    assert (found > 0.85).all()
    assert scores(LINEAR, chosen[:1], (1, 2))[0] == found[0]
