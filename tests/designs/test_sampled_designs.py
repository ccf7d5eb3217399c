"""Designs of sampled batches: DP-SGD as a row, the choice at equal privacy, runs, and files."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.designs.design import Design
from corrnoise.designs.make import design
from corrnoise.designs.report import report
from corrnoise.designs.storage import load, save
from corrnoise.solvers.sampled import DPSGD_POISSON
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import BallsInBins, CyclicPoisson, FixedEpochs, Participation, Poisson
from corrnoise.theory.privacy import Budget

EXAMPLES, SIZE, EPOCHS = 96, 8, 2
STEPS, PERIOD = 24, 12
GROUPS = Participation.cyclic_poisson(STEPS, period=4, rate=4 / PERIOD)
ORDER = Participation.fixed_epochs(STEPS, period=PERIOD)


DATA: dict[str, Any] = {"examples": EXAMPLES, "batch_size": SIZE, "epochs": EPOCHS}


def budget(epsilon: float) -> Budget:
    return Budget(epsilon=epsilon, delta=1e-5)


@pytest.fixture(scope="module")
def cyclic() -> Design:
    return design(budget(4.0), GROUPS, SGD(batch_size=SIZE))


@pytest.mark.slow
def test_dpsgd_is_a_row_of_every_design_by_epsilon_and_delta(cyclic: Design) -> None:
    ordered = design(budget(0.3), ORDER, SGD(batch_size=SIZE), memory=2)
    for made in (cyclic, ordered):
        assert made.dpsgd is not None
        assert made.dpsgd.participation == Participation.poisson(STEPS, 1 / PERIOD)
        assert DPSGD_POISSON in report(made)
        assert f"DP-SGD:      {made.error_of(made.dpsgd):.6g}" in report(made)
    assert ordered.dpsgd_is_better
    assert "Use DP-SGD with Poisson batches" in report(ordered)
    assert not cyclic.dpsgd_is_better
    assert "Use DP-SGD" not in report(cyclic)
    assert design(Budget(0.5), ORDER, memory=1).dpsgd is None
    assert design(Budget(epsilon=1.0, delta=1e-5, adjacency="replace-one"), ORDER, memory=1).dpsgd is None


@pytest.mark.slow
def test_the_crossover_is_in_the_report(cyclic: Design) -> None:
    limit = cyclic.crossover_epsilon
    assert limit is not None
    assert f"Below epsilon = {limit:.2g} use DP-SGD" in " ".join(report(cyclic).split())
    for factor in (1 / 1.04, 1.04):
        other = Design(budget(limit * factor), GROUPS, cyclic.optimum, cyclic.objective)
        assert other.dpsgd_is_better == (factor < 1)


@pytest.mark.slow
def test_the_ends_of_delta_are_in_the_report(cyclic: Design) -> None:
    lower, upper = re.search(r"Delta: +of this noise in \[(.*), (.*)\] at epsilon = 4; some", report(cyclic)).groups()  # type: ignore[union-attr]
    assert 0.999e-5 < float(lower) <= float(upper) == 1e-5


def test_a_sampled_design_runs_with_batches_of_its_own(cyclic: Design) -> None:
    run = cyclic.run(3, examples=EXAMPLES)
    released = [run.add_noise(np.zeros(3)) for _ in run]
    assert len(released) == STEPS
    assert np.std(released) > 0
    with pytest.raises(ValueError, match="examples must be given"):
        cyclic.run(3)
    with pytest.raises(ValueError, match=r"independently \(H2\) and in secret \(H4\); run draws them"):
        cyclic.stream(3)
    with pytest.raises(ValueError, match=r"corrnoise\.jax\.make_private with this mechanism"):
        cyclic.for_jax()
    with pytest.raises(ValueError, match="examples must be None where batches are not sampled"):
        design(Budget(0.5), ORDER, memory=1).run(3, examples=EXAMPLES)


@pytest.mark.slow
def test_a_sampled_design_is_saved_and_loaded(cyclic: Design, tmp_path: Path) -> None:
    save(cyclic, tmp_path / "design.json")
    again = load(tmp_path / "design.json")
    assert again == cyclic
    assert again.program().multiplier(cyclic.budget) == cyclic.program().multiplier(cyclic.budget)
    assert {path.name for path in save(cyclic, tmp_path / "folder")} >= {"design.npz", "memory.png", "report.txt"}


def test_less_noise_in_a_file_is_refused(cyclic: Design, tmp_path: Path) -> None:
    path = tmp_path / "design.json"
    save(cyclic, path)
    text = path.read_text(encoding="utf-8")
    multiplier = repr(cyclic.program().multiplier(cyclic.budget))
    assert multiplier in text
    path.write_text(text.replace(multiplier, "0.5"), encoding="utf-8")
    with pytest.raises(ValueError, match="digest"):
        load(path)


@pytest.mark.slow
def test_the_reference_has_no_step_scales() -> None:
    made = design(budget(4.0), Participation.poisson(12, 0.25), SGD(batch_size=2))
    assert made.optimum.variant == "step scales"
    assert made.dpsgd is not None
    assert made.dpsgd.label == DPSGD_POISSON
    assert made.error < made.error_of(made.dpsgd)


def test_momentum_and_schedules() -> None:
    found = design(budget(4.0), GROUPS, SGD(batch_size=SIZE, momentum=0.9, cool_down=0.25))
    assert (found.family, found.optimum.sampler) == ("banded Toeplitz", "cyclic Poisson batches")
    assert found.optimum.label == "banded Toeplitz, step scales, cyclic Poisson batches"
    assert found.dpsgd is not None
    assert found.dpsgd.label == DPSGD_POISSON
    assert found.error < found.error_of(found.dpsgd)
    sums = design(budget(4.0), GROUPS, SGD(batch_size=SIZE))
    assert found.mechanism != sums.mechanism


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 4.0])
def test_the_best_sampler_is_at_least_as_good_as_each(epsilon: float) -> None:
    best = design(budget(epsilon), "best", **DATA)
    assert best.objective == SGD(batch_size=SIZE)
    kinds = {type(one.participation) for one in (best.optimum, *best.alternatives)}
    assert kinds == {FixedEpochs, Poisson, CyclicPoisson, BallsInBins}
    assert all(
        best.error <= 1.01 * best.error_of(one) for one in (best.optimum, *best.alternatives) if one.memory <= 16
    )
    assert best.participation == best.optimum.participation
    assert not best.dpsgd_is_better
    if best.participation.sampled:
        assert "more error" in best.facts()["Runner-up"]


@pytest.mark.parametrize(
    ("participation", "changes", "message"),
    [
        ("best", {}, "examples, batch_size and epochs must be given"),
        ("best", {"examples": 4, "batch_size": 8, "epochs": 1}, "examples must be"),
        ("best", {"examples": 96, "batch_size": 8, "epochs": 1, "family": "buffers"}, "family must be None"),
        (
            "best",
            {"examples": 96, "batch_size": 8, "epochs": 1, "objective": SGD(batch_size=4)},
            "batch_size must be 4",
        ),
        (ORDER, {"examples": 96}, "must come with participation='best'"),
    ],
)
def test_what_does_not_fit_is_refused(participation: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        design(budget(1.0), participation, **changes)


def test_a_budget_by_rho_is_refused_with_the_next_step() -> None:
    with pytest.raises(ValueError, match="budget must be given by epsilon and delta"):
        design(Budget(0.5), "best", **DATA)
    with pytest.raises(ValueError, match=r"give both, or use participation\.worst"):
        design(Budget(0.5), GROUPS)
