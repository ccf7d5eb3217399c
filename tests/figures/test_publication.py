"""Files of figures: the same bytes at every run, whole or not there, and read back without loss."""

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from corrnoise.figures import paper_figure
from corrnoise.figures.publication import (
    Data,
    PaperFigure,
    Series,
    SimulatedSeries,
    csv_text,
    house_style,
    publish,
    read_csv,
)
from tests.figure_entries import QUICK, check_entry, rendered

TWICE = QUICK[:2]  # drawn to files, and again; the others are drawn without


def series() -> Series:
    x = np.array([0.1, 1 / 3, 1e-300])
    return Series("left, upper", 'a "method"', "exact", x, np.array([np.pi, -1e300, 5e-324]))


def small(**changes: Any) -> PaperFigure:
    """A figure of one line."""

    def draw(data: Data) -> Figure:
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot(data[0].x, [0, 1, 2], label="$\\beta$")
        return figure

    entry = PaperFigure(
        name="small",
        source="Nowhere",
        title="a line",
        panels={"left, upper": "x = number; y = number"},
        parameters=("none, at all",),
        data=lambda: (series(), dataclasses.replace(series(), method="b")),
        draw=draw,
        report=lambda _: "",
    )
    return dataclasses.replace(entry, **changes)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@cache
def data_of(name: str) -> Data:
    """The data of a figure; ``publish`` computes them again where it is given none."""
    return paper_figure(name).data()


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_entries_describe_their_own_data(name: str) -> None:
    figure = paper_figure(name)
    assert figure.name == name
    check_entry(figure, data_of(name))
    assert rendered(figure, data_of(name)).axes


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"name must be one of mean_estimation, .*, got 'nothing'"):
        paper_figure("nothing")


def test_every_text_is_at_least_seven_points_high() -> None:
    with house_style():
        sizes = [
            v
            for key, v in matplotlib.rcParams.items()
            if key.endswith(("labelsize", "titlesize", "fontsize", "font.size"))
        ]
    assert min(v for v in sizes if isinstance(v, float)) >= 7


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    return {name: publish(paper_figure(name), tmp_path_factory.mktemp(name), data_of(name)) for name in TWICE}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWICE)
def test_two_runs_write_the_same_bytes_whatever_the_user_has_set(
    name: str, published: dict[str, list[Path]], tmp_path: Path
) -> None:
    with matplotlib.rc_context({"font.size": 20, "axes.grid": False, "lines.linewidth": 9, "savefig.dpi": 30}):
        again = publish(paper_figure(name), tmp_path / "made" / "on the way")
    assert [path.name for path in again] == [f"{name}.pdf", f"{name}.png", f"{name}.csv"]
    assert again[0].read_bytes().startswith(b"%PDF")
    assert again[1].read_bytes().startswith(b"\x89PNG")
    assert contents(again[0].parent) == contents(published[name][0].parent)


def test_other_data_write_other_bytes(tmp_path: Path) -> None:
    publish(small(), tmp_path / "first")
    changed = dataclasses.replace(series(), x=np.array([0.1, 1 / 3, 2e-300]))
    publish(small(data=lambda: (changed, changed)), tmp_path / "second")
    assert contents(tmp_path / "first")["small.csv"] != contents(tmp_path / "second")["small.csv"]


def test_csv_is_read_back_without_loss(tmp_path: Path) -> None:
    *_, path = publish(small(), tmp_path)
    assert read_csv(path) == small().data()
    assert read_csv(path)[0].x[1] == 1 / 3
    lines = path.read_text().splitlines()
    assert lines[0] == "# Nowhere: a line"
    assert "# Panel left, upper: x = number; y = number" in lines
    assert "# none, at all" in lines


def simulated() -> SimulatedSeries:
    columns = [[1.0, 2.0], [0.3, 1 / 7], [0.1, 1e-300], [0.2, 1 / 7]]
    return SimulatedSeries("left, upper", 'a "method"', "plain", *map(np.array, columns))


def test_csv_holds_standard_errors_and_z_of_what_was_simulated(tmp_path: Path) -> None:
    *_, path = publish(small(), tmp_path, (series(), simulated()))
    assert read_csv(path) == (series(), simulated())
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "panel,method,kind,x,y,standard_error,exact,z"
    assert lines[1].endswith(",exact,0.1,3.141592653589793,,,")
    assert lines[4].endswith(f",plain,1.0,0.3,0.1,0.2,{(0.3 - 0.2) / 0.1}")
    assert lines[5].endswith(",0.0")


def test_nothing_simulated_means_no_columns_for_it(tmp_path: Path) -> None:
    *_, path = publish(small(), tmp_path)
    assert "\npanel,method,kind,x,y\n" in path.read_text()
    assert read_csv(publish(small(), tmp_path, (series(),))[2]) == (series(),)


def test_simulated_series_need_positive_standard_errors_of_equal_length() -> None:
    one, two = np.array([1.0]), np.array([1.0, 2.0])
    for bad in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="standard_error must lie in"):
            SimulatedSeries("p", "m", "plain", one, one, np.array([bad]), one)
    with pytest.raises(ValueError, match="y and standard_error must have the same length, got 1 and 2"):
        SimulatedSeries("p", "m", "plain", one, one, two, one)
    with pytest.raises(ValueError, match="y and exact must have the same length, got 1 and 2"):
        SimulatedSeries("p", "m", "plain", one, one, one, two)
    assert simulated() != dataclasses.replace(simulated(), exact=np.array([0.2, 0.2]))


@pytest.mark.parametrize("name", QUICK)
def test_csv_of_each_figure_holds_its_data(name: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(csv_text(paper_figure(name), data_of(name)), encoding="utf-8", newline="")
    assert read_csv(tmp_path / "data.csv") == data_of(name)


def test_other_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("# comment\nx,y\n1,2\n")
    with pytest.raises(ValueError, match=r"columns panel, method, kind, x, y, got x, y"):
        read_csv(path)


@pytest.mark.parametrize("stage", ["data", "draw", "drawing", "panels"])
def test_a_failure_leaves_what_was_there(stage: str, tmp_path: Path) -> None:
    publish(small(), tmp_path)
    before = contents(tmp_path)

    class Unfinished:
        def savefig(self, path: Path, **_: object) -> NoReturn:
            path.write_bytes(b"half of a file")
            raise KeyboardInterrupt

    def fail(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    broken = {"data": fail, "draw": fail, "drawing": lambda _: Unfinished(), "panels": None}[stage]
    error = AttributeError if stage == "panels" else KeyboardInterrupt  # panels are read when the table is written
    with pytest.raises(error):
        publish(small(**{"draw" if stage == "drawing" else stage: broken}), tmp_path)
    assert contents(tmp_path) == before


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("kept")
    with pytest.raises(OSError, match="taken"):
        publish(small(), tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "kept"


def test_series_hold_finite_vectors_of_equal_length() -> None:
    with pytest.raises(ValueError, match="y must lie in"):
        Series("p", "m", "exact", np.array([1.0]), np.array([np.nan]))
    with pytest.raises(ValueError, match="x and y must have the same length, got 1 and 2"):
        Series("p", "m", "exact", np.array([1.0]), np.array([1.0, 2.0]))
    assert not series().x.flags.writeable
