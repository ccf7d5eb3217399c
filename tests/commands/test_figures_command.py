"""The options of ``corrnoise figures``: which simulations run, where they are kept, and how failures end."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from corrnoise import __main__ as command_line
from corrnoise import figures
from corrnoise.figures.publication import Data, SimulatedSeries, read_csv
from corrnoise.figures.simulation import THOROUGH, Simulated, SimulationRun

POINT = SimulatedSeries("ratio", "DP-FTRL / DP-SGD", "plain", *(np.array([v]) for v in (0.5, 0.87, 0.01, 0.86)))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[SimulationRun]:
    """How each simulation of a stand-in for Figure 1 was asked for; with seed 13 it fails."""
    runs = []

    def simulate(run: SimulationRun) -> Simulated:
        runs.append(run)
        return Simulated((POINT,), ("eta = 0.9, seed 13: ValueError: luck",) if run.seed == 13 else ())

    figure = dataclasses.replace(
        figures.paper_figure("mean_estimation"),
        draw=lambda _: Figure(figsize=(1, 1)),
        simulate=simulate,
        report=lambda data: f"{len(data)} records",
        on_cluster=True,
    )
    monkeypatch.setattr(figures, "paper_figure", lambda _: figure)
    return runs


def run(folder: Path, *options: str) -> int:
    return command_line.main(["figures", "mean_estimation", "--output", str(folder), *options])


def written(folder: Path) -> Data:
    return read_csv(folder / "mean_estimation.csv")


def test_simulations_are_drawn_and_reported(
    runs: list[SimulationRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path) == 0
    assert runs == [SimulationRun(tmp_path / "simulations", jobs=-1)]
    assert written(tmp_path)[-1] == POINT
    assert f"{len(written(tmp_path))} records" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--seed", "5"], {"seed": 5}),
        (["--jobs", "3"], {"jobs": 3}),
        (["--cluster", "tcp://here:1"], {"cluster": "tcp://here:1"}),
        (["--full"], THOROUGH),
    ],
)
def test_options_reach_the_simulation(
    options: list[str],
    settings: dict[str, Any],
    runs: list[SimulationRun],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("corrnoise.figures.publication.publish", lambda *_: [])
    monkeypatch.setattr("corrnoise.commands.figures.require_scheduler", lambda address: None)
    assert run(tmp_path, *options) == 0
    usual = SimulationRun(tmp_path / "simulations", jobs=-1)
    assert runs == [dataclasses.replace(usual, **settings)] != [usual]


def test_failures_are_named_and_the_rest_is_drawn(
    runs: list[SimulationRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--seed", "13") == 1
    assert capsys.readouterr().err == "corrnoise: error: eta = 0.9, seed 13: ValueError: luck\n"
    assert POINT in written(tmp_path)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--jobs", "0"], 2, "'0' must be a number of processes, 1, 2, ... or -1 for one a core"),
        (["--seed", "-1"], 1, "seed must be an integer >= 0, got -1"),
        (["--cluster", "127.0.0.1:1"], 1, "none answers at '127.0.0.1:1'"),
    ],
)
def test_other_numbers_are_refused_before_anything_is_drawn(
    options: list[str],
    status: int,
    message: str,
    runs: list[SimulationRun],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(tmp_path, *options) == status
    assert message in capsys.readouterr().err
    assert not runs
    assert not list(tmp_path.iterdir())


def test_a_cluster_is_refused_where_it_would_not_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corrnoise.commands.figures.require_scheduler", lambda address: None)
    arguments = ["figures", "learning_curves", "--cluster", "tcp://127.0.0.1:1", "--output", str(tmp_path)]
    assert command_line.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("corrnoise: error: --cluster must be left out for learning_curves, which this machine")
    assert not list(tmp_path.iterdir())
    assert figures.paper_figure("linear_regression").on_cluster


def test_no_simulation_draws_the_exact_curves_only_and_what_is_replaced_is_named(
    runs: list[SimulationRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--no-simulation") == 0
    assert run(tmp_path, "--no-simulation") == 0
    assert capsys.readouterr().err == ""  # the same bytes
    assert not runs
    assert {path.name for path in tmp_path.iterdir()} == {f"mean_estimation.{s}" for s in ("pdf", "png", "csv")}
    assert POINT not in written(tmp_path)
    (tmp_path / "mean_estimation.csv").write_text("mine")
    assert run(tmp_path, "--no-simulation") == 0
    assert capsys.readouterr().err == (
        f"corrnoise: replaced: {tmp_path / 'mean_estimation.csv'}, which was different\n"
    )


def test_a_figure_whose_extra_is_missing_is_left_out_unless_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def data() -> Data:
        raise ImportError("data sets need scikit-learn: pip install 'corrnoise[data]'")

    needy = dataclasses.replace(figures.paper_figure("mean_estimation"), data=data)
    drawn = figures.paper_figure("mean_estimation")
    monkeypatch.setattr(figures, "NAMES", ("mean_estimation", "linear_regression"))
    monkeypatch.setattr(figures, "paper_figure", {"mean_estimation": needy, "linear_regression": drawn}.get)
    monkeypatch.setattr("corrnoise.figures.publication.publish", lambda *_: [])
    assert command_line.main(["figures", "--no-simulation", "--output", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "mean_estimation: not drawn: data sets need scikit-learn: pip install 'corrnoise[data]'" in output
    assert f"linear_regression: {drawn.source}" in output
    assert run(tmp_path, "--no-simulation") == 1
    assert "pip install 'corrnoise[data]'" in capsys.readouterr().err
