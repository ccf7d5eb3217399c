"""Data sets and experiments: reading, runs, and that tuning does not flatter."""

from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.datasets import Table
from corrnoise.simulations.papers.momentum_aggregation import data, experiments
from corrnoise.simulations.papers.momentum_aggregation.data import BUNDLED, examples, momentum_risk
from corrnoise.simulations.papers.momentum_aggregation.experiments import (
    ALGORITHMS,
    REDUCED,
    MomentumCandidate,
    candidates,
    gradient_norms,
    tuned,
)
from corrnoise.simulations.papers.momentum_aggregation.methods import Momentum
from corrnoise.simulations.papers.momentum_aggregation.runs import momentum_run
from corrnoise.theory.losses import EmpiricalRisk, MarginLoss
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_rho


@pytest.mark.parametrize(
    ("name", "shape", "start"), [("breast cancer", (569, 31), 0.1364496497), ("digits", (1797, 65), 0.0370832)]
)
def test_bundled_data(name, shape, start):
    risk = momentum_risk(name)
    assert risk.examples.shape == shape
    np.testing.assert_allclose(np.linalg.norm(risk.examples, axis=1), 1, rtol=1e-12)
    assert np.linalg.norm(risk.gradients(np.zeros(shape[1]))) == pytest.approx(start, rel=1e-3)


def test_labels_have_two_signs(monkeypatch):
    targets = {
        "MNIST": (["4", "5", "9"], [-1, 1, 1]),
        "electricity": (["UP", "DOWN", "UP"], [1, -1, 1]),
        "MAGIC telescope": (["g", "h", "h"], [1, -1, -1]),
    }
    for name, (target, signs) in targets.items():
        serve(monkeypatch, {name: target})
        rows = examples(name, download=True)
        assert rows.shape == (3, 5)
        assert np.sign(rows[:, -1]).tolist() == signs  # the constant shows the labels
    serve(monkeypatch, {"electricity": ["up", "down"]})
    with pytest.raises(ValueError, match="labels of 'electricity' must be of two kinds"):
        examples("electricity", download=True)
    with pytest.raises(ValueError, match="name must be one of 'breast cancer'"):
        examples("diabetes")
    assert BUNDLED == ("breast cancer", "digits")


def serve(monkeypatch: pytest.MonkeyPatch, targets: dict[str, list[str]]) -> None:
    """Random features with these targets in the place of what OpenML has."""
    tables = {
        name: Table(np.random.default_rng(0).normal(size=(len(target), 4)), np.array(target), list("abcd"))
        for name, target in targets.items()
    }
    monkeypatch.setattr(data, "load", lambda name, **_: tables[name])


# -- experiments -------------------------------------------------------------------------------------------------------

RUN: dict[str, Any] = {"epsilons": (0.5, 8.0), "delta": 1e-5, "repetitions": 6, "seed": 3}


def small_risk() -> EmpiricalRisk:
    rows = np.random.default_rng(1).normal(size=(30, 3)) + 1.0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return EmpiricalRisk(MarginLoss("sigmoid", 3, 1.0), rows, 0.02)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "DP-SGD"])
def test_every_algorithm_runs(algorithm):
    candidate = MomentumCandidate(algorithm, 3, 1.0, (1.0, 3.0), (0.3, 0.9) if algorithm in REDUCED else (0.0,))
    norms = gradient_norms(small_risk(), candidate, **RUN)
    assert norms.shape == (2, 4 if algorithm in REDUCED else 2, 2, 6)
    assert (norms > 0).all()
    assert (norms < 0.27).all()


def test_sampled_batches_run():
    assert gradient_norms(small_risk(), MomentumCandidate("DP-SGD", 1, 0.25, (1.0,)), **RUN).shape == (2, 1, 2, 6)


def test_what_a_candidate_means():
    """The square root is Algorithm 1 with NuFTRL(α) for zero-out adjacency, at the ρ of each ε."""
    risk = small_risk()
    norms = gradient_norms(risk, MomentumCandidate("square root", 2, 2.0, (1.0, 3.0)), **RUN)
    alone = momentum_run(
        risk,
        Budget(gaussian_rho(8.0, 1e-5)),
        Participation.fixed_epochs(60, period=30),
        method=Momentum(2 / 30, NuFTRL(2 / 30)),
        learning_rate=3.0 / 60,
        repetitions=6,
        rng=3,
    ).gradient_norms(risk)
    np.testing.assert_allclose(norms[1, 1, 0], alone[-1], rtol=1e-9)
    np.testing.assert_allclose(norms[1, 1, 1], alone[:-1].mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("algorithm", REDUCED)
def test_budgets_that_do_not_fit_into_memory_together_give_the_same(algorithm, monkeypatch):
    candidate = MomentumCandidate(algorithm, 3, 1.0, (1.0, 3.0), (0.3, 0.9))
    together = gradient_norms(small_risk(), candidate, **RUN)
    monkeypatch.setattr(experiments, "RUN_BYTES", 1)
    np.testing.assert_allclose(gradient_norms(small_risk(), candidate, **RUN), together, rtol=1e-9)


def test_grids_grow():
    for algorithm in ALGORITHMS:
        quick, thorough = candidates(algorithm), candidates(algorithm, thorough=True)
        assert len(thorough) > len(quick) >= 1
    with pytest.raises(ValueError, match="algorithm must be one of 'DP-GD'"):
        candidates("SGD")


def test_settings_are_chosen_on_one_half_and_judged_on_the_other():
    norms = np.full((1, 3, 2, 4), 2.0)
    norms[0, 1, 0] = [1.0, 1.0, 9.0, 7.0]  # looks best, is worst
    norms[0, 2, 1] = [3.0, 0.0, 5.0, 6.0]
    chosen, judged = tuned(norms)
    assert chosen.tolist() == [[1, 2]]
    assert judged.tolist() == [[[9.0, 7.0], [5.0, 6.0]]]
