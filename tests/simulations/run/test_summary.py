"""The summary of a run: the privacy of the whole run first, few lines, and the state and the next call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

MAX_LINES, MAX_CHARACTERS = 15, 1500
EPOCHS = Participation.fixed_epochs(12, epochs=3)
ORDER = batches(EPOCHS, 17, 4, rng=0)  # one example is left out


def private(budget: Budget, **options: Any) -> PrivateRun:
    return PrivateRun(budget, EPOCHS, NuFTRL(0.02), 5, **{"batches": ORDER, **options})


@pytest.mark.parametrize(
    ("budget", "privacy"),
    [
        (Budget(rho=0.125, clip_norm=2.0), "0.125-zCDP for zero-out adjacency, clipping norm 2"),
        (Budget(epsilon=4.0, delta=1e-5), "(4, 1e-05)-DP for zero-out adjacency, clipping norm 1"),
    ],
)
def test_a_summary_states_the_privacy_of_the_whole_run_first(budget: Budget, privacy: str) -> None:
    run = private(budget)
    text = str(run)
    assert text == run.summary()
    assert len(text.splitlines()) <= MAX_LINES
    assert len(text) <= MAX_CHARACTERS
    [[epsilon, delta]] = re.findall(r"^The whole run of 12 steps is \((\S+), (\S+)\)-differentially private\.\n", text)
    assert 0 <= float(epsilon) - run.profile().epsilon_at(float(delta)) < 1e-4, "the stated epsilon is rounded up"
    words = " ".join(text.split())
    proof = f"{budget.gaussian_rho:.4g}-zCDP as one Gaussian mechanism"
    for part in (
        f"{privacy}, {proof}",
        "in each of 3 epochs of 4 steps",
        "the last 1 of the order",
        f"Multiplier: {run.multiplier!r}",
    ):
        assert part in words
        assert part.removeprefix("Multiplier: ") in run._repr_html_()
    assert "\n" not in repr(run)


def test_a_summary_follows_the_run(tmp_path: Path) -> None:
    budget = Budget(rho=0.5)
    run = private(budget, folder=tmp_path / "run")
    run.next_batch()
    run.add_noise(np.zeros(5))
    assert "0 of 12 done" not in str(run)
    assert "1 of 12 done, 0 skipped" in str(run)
    assert "Next:        for batch in run: noisy_sum = run.add_noise(" in str(run)
    run.close()
    assert "rerun the script to resume a run with a folder" in str(run)
    with private(budget, folder=tmp_path / "run") as run:
        for _ in run:
            run.add_noise(np.zeros(5))
        assert "12 of 12 done" in str(run)
        assert "Next:        the run is finished" in str(run)


def test_a_run_of_any_length() -> None:
    run = PrivateRun(Budget(rho=0.5), Participation.single(), NuFTRL(0.02), 5)
    assert "The whole run of any number of steps is (" in str(run)
    assert "0 of any number done" in str(run)
    assert "made by the caller" in str(run)
