"""The run of a design: epochs, batches, optimisers, and what contradicts itself."""

from typing import Any

import numpy as np
import pytest

from corrnoise.designs.run import Run, run_of, schedule, workload_in_words, workload_of
from corrnoise.theory.workloads import MomentumSGD, PrefixSums

NOTHING: dict[str, Any] = {
    "epochs": None,
    "steps_per_epoch": None,
    "examples": None,
    "batch_size": 1,
    "min_sep": 1,
    "max_participations": 1,
}
PLAIN: dict[str, Any] = {"momentum": 0.0, "weight_decay": 0.0, "learning_rates": None, "cool_down": None}


@pytest.mark.parametrize(
    "given",
    [
        {"steps": 2000, "epochs": 4},
        {"steps": None, "epochs": 4, "steps_per_epoch": 500},
        {"steps": None, "epochs": 4, "examples": 16_000, "batch_size": 32},
        {"steps": 2000, "epochs": 4, "steps_per_epoch": 500, "examples": 16_000, "batch_size": 32},
        {"steps": 2000, "min_sep": 500, "max_participations": 4},
    ],
)
def test_the_same_run_in_several_ways(given: dict[str, Any]) -> None:
    found = run_of(given["steps"], **{**NOTHING, **{name: v for name, v in given.items() if name != "steps"}})
    assert found == Run(2000, 500, 4)
    assert found.participation is not None
    assert found.participation.kind == "min-sep"  # the weaker promise, which the multiplier covers


def test_a_run_of_any_length_has_no_participation() -> None:
    assert run_of(None, **NOTHING).participation is None
    assert run_of(10, **{**NOTHING, "epochs": 1}) == Run(10, 10, 1)


@pytest.mark.parametrize(
    ("steps", "given", "message"),
    [
        (10, {"epochs": 3}, "steps must be a multiple of epochs=3, got 10"),
        (10, {"epochs": 0}, "epochs must be an integer >= 1, got 0"),
        (None, {"epochs": 3}, "epochs must come with steps, steps_per_epoch or examples, got none of them"),
        (10, {"epochs": 2, "min_sep": 5}, "min_sep must not come with epochs, which say the same, got 5"),
        (10, {"epochs": 2, "max_participations": 2}, "max_participations must not come with epochs"),
        (10, {"steps_per_epoch": 5}, "steps_per_epoch must come with epochs, got 5 without"),
        (None, {"examples": 5}, "examples must come with epochs, got 5 without"),
        (None, {"epochs": 2, "examples": 10, "batch_size": 4}, "examples must be a multiple of batch_size=4, got 10"),
        (12, {"epochs": 2, "steps_per_epoch": 5}, "steps must agree with steps_per_epoch, which says 5 steps"),
        (None, {"epochs": 2, "steps_per_epoch": 5, "examples": 6}, "examples must agree with steps_per_epoch"),
        (None, {"max_participations": 2}, "steps must be given for several participations"),
        (10, {"min_sep": 5, "max_participations": 3}, "max_participations must be at most"),
    ],
)
def test_contradictions_are_refused(steps: int | None, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_of(steps, **{**NOTHING, **given})


def test_workloads() -> None:
    assert workload_of(8, **PLAIN) == PrefixSums(8)
    rates = np.array([1, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    assert schedule(8, learning_rates=None, cool_down=0.5) == pytest.approx(rates)
    given = workload_of(8, **{**PLAIN, "momentum": 0.5, "learning_rates": rates})
    assert given == workload_of(8, **{**PLAIN, "momentum": 0.5, "cool_down": 0.5})
    assert isinstance(given, MomentumSGD)
    assert workload_in_words(given) == "SGD with momentum 0.5, learning rates from 0.25 to 1"
    assert workload_in_words(PrefixSums(3)) == "SGD with a constant learning rate"
    assert "weight decay 0.1" in workload_in_words(workload_of(8, **{**PLAIN, "weight_decay": 0.1}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        ({"momentum": float("nan")}, "momentum must lie in"),
        ({"weight_decay": -0.1}, r"weight_decay must lie in \[0, inf\)"),
        ({"weight_decay": 2.0}, "weight_decay must lie in"),
        ({"learning_rates": [1.0, 0.5]}, r"learning_rates must have shape \(8,\)"),
        ({"learning_rates": [0.0] * 8}, r"learning_rates must lie in \(0, 1e100\]"),
        ({"learning_rates": [float("nan")] * 8}, r"learning_rates must lie in \(0, 1e100\]"),
        ({"cool_down": 0.0}, r"cool_down must lie in \(0, 1\], got 0.0"),
        ({"cool_down": 0.5, "learning_rates": [1.0] * 8}, "learning_rates must not come with cool_down"),
    ],
)
def test_bad_optimisers_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        workload_of(8, **{**PLAIN, **given})
