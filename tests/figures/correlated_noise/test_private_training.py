"""The figure of private training, with fewer runs: tuned, judged, resumed, drawn, reported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.figures.correlated_noise import private_training as figure
from corrnoise.figures.simulation import SimulationRun
from corrnoise.simulations.private_training.comparison import SAMPLED

pytest.importorskip("sklearn")
SHOWN: dict[str, Any] = {"names": ("diabetes",), "methods": ("independent noise", "ν-DP-FTRL", SAMPLED), "judging": 4}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "TUNING", 1)
    monkeypatch.setattr(figure, "prefix_error", lambda experiment, method, epsilon: len(method) / epsilon)


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_small_runs_are_resumed_drawn_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimulationRun(tmp_path, seed=5, progress=False)
    found = figure.simulate(run, tuning=1, **SHOWN)
    assert not found.failures
    assert len(list(tmp_path.glob("*.json"))) == 5
    means = {s.method: s.y for s in found.data if s.kind == "mean" and s.panel == "diabetes, score"}
    assert list(means) == list(SHOWN["methods"])
    assert all(y.min() >= -1 and y.max() < 1 for y in means.values())
    curves = {(s.panel, s.method, s.kind): s.y for s in found.data}
    below = "diabetes, difference to DP-SGD"
    assert curves[below, "ν-DP-FTRL", "mean"] == pytest.approx(means["ν-DP-FTRL"] - means[SAMPLED])
    assert (curves[below, "ν-DP-FTRL", "lower end"] <= curves[below, "ν-DP-FTRL", "upper end"]).all()
    drawn = figure.data(("diabetes",)) + found.data
    figure.draw(drawn).draw_without_rendering()
    assert "ν-DP-FTRL" in figure.report(drawn)
    assert "tuned learning rates are at an end of the grid" in figure.report(drawn)

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(figure, "scores", fail)
    again = figure.simulate(run, tuning=1, **SHOWN)
    assert all((a.y == b.y).all() for a, b in zip(again.data, found.data, strict=True))
    other = figure.simulate(SimulationRun(tmp_path, seed=6, progress=False), tuning=1, **SHOWN)
    assert other.data == ()
    assert "AssertionError: computed again" in other.failures[0]


@pytest.mark.usefixtures("short")
def test_the_entry_says_what_is_drawn() -> None:
    drawn = figure.data()
    panels = figure.FIGURES["private_training"].panels
    assert {s.panel for s in drawn} == {name for name in panels if name.endswith("prefix sums")}
    assert len(figure.draw(drawn).axes) == 9
    assert np.isfinite([s.y for s in drawn]).all()
