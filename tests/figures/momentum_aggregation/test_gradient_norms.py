"""The figure of gradient norms, with fewer and shorter runs: resumed, drawn, reported."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.figures.momentum_aggregation import gradient_norms as figure
from corrnoise.figures.simulation import SimulationRun
from corrnoise.simulations.papers.momentum_aggregation.experiments import MomentumCandidate
from tests.figure_entries import check_entry

SHOWN: dict[str, Any] = {
    "names": ("breast cancer",),
    "algorithms": ("DP-GD", "exact tree", "square root"),
    "repetitions": 4,
}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "candidates", lambda name, thorough: [MomentumCandidate(name, 1, 16.0, (4.0, 8.0))])


def test_the_exact_part_is_the_start() -> None:
    drawn = figure.data()
    check_entry(figure.FIGURE, drawn)
    assert {s.panel.split(",")[0]: round(float(s.y[0]), 4) for s in drawn} == {
        "breast cancer": 0.1364,
        "digits": 0.0371,
    }
    assert len(figure.draw(drawn).axes) == 4
    assert max(map(len, figure.report(drawn).splitlines())) <= 140


@pytest.mark.usefixtures("short")
def test_small_runs_are_resumed_drawn_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimulationRun(tmp_path, seed=5, progress=False)
    found = figure.simulate(run, **SHOWN)
    assert not found.failures
    assert len(list(tmp_path.glob("*.json"))) == 3
    differences = [s for s in found.data if "paired difference" in s.kind]
    assert {(s.method, s.kind) for s in differences} == {
        ("square root", "paired difference"),
        ("square root", "half width of paired difference"),
    }
    assert {(s.panel, s.method, s.kind) for s in found.data} - {(s.panel, s.method, s.kind) for s in differences} == {
        (f"breast cancer, {judged}", algorithm, kind)
        for judged in ("last iterate", "random iterate")
        for algorithm in ("DP-GD", "exact tree", "square root")
        for kind in ("mean", "half width of mean")
    }
    means = {s.method: s.y for s in found.data if s.kind == "mean" and "last" in s.panel}
    assert all((y > 0).all() and (y < 0.136).all() for y in means.values())
    assert means["exact tree"][-1] < means["exact tree"][0]
    drawn = figure.data(("breast cancer",)) + found.data
    figure.draw(drawn).draw_without_rendering()
    assert "exact tree" in figure.report(drawn)
    assert "- square root: ahead at " in figure.report(drawn)
    by_kind = {(s.panel, s.method, s.kind): s.y for s in found.data}
    where = "breast cancer, last iterate"
    np.testing.assert_allclose(
        by_kind[where, "square root", "paired difference"],
        by_kind[where, "square root", "mean"] - by_kind[where, "exact tree", "mean"],
        rtol=1e-9,
    )

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(figure, "gradient_norms", fail)
    again = figure.simulate(run, **SHOWN)
    assert all((a.y == b.y).all() for a, b in zip(again.data, found.data, strict=True))
    other = figure.simulate(dataclasses.replace(run, seed=6), **SHOWN)
    assert other.data == ()
    assert all("AssertionError: computed again" in failure for failure in other.failures)


@pytest.mark.usefixtures("short")
def test_without_its_extra_a_curve_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> np.ndarray:
        raise ImportError("needs dp-accounting")

    monkeypatch.setattr(figure, "gradient_norms", missing)
    found = figure.simulate(SimulationRun(progress=False), names=("breast cancer",), algorithms=("DP-SGD",))
    assert (found.data, found.failures) == ((), ())
