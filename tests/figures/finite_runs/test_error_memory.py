"""Error against memory: known values, nothing below the floor, and a drawing where nothing overlaps."""

import dataclasses

import numpy as np
import pytest

from corrnoise.figures import COMPANIONS, paper_figure
from corrnoise.figures.finite_runs import error_memory as figure
from corrnoise.figures.publication import Data
from tests.figure_entries import check_entry, check_places, rendered

pytestmark = pytest.mark.slow
ENTRY = figure.FIGURES["error_memory"]


@pytest.fixture(scope="module")
def drawn() -> Data:
    return figure.data(64)


def points(data: Data, panel: str) -> dict[tuple[str, float], float]:
    """Errors by method and memory."""
    return {(s.method, x): y for s in data if s.panel == panel for x, y in zip(s.x, s.y, strict=True)}


def test_the_entry_says_what_is_drawn(drawn: Data) -> None:
    check_entry(ENTRY, drawn)
    assert "error_memory" not in COMPANIONS
    assert "error_memory_long" in COMPANIONS
    assert "n = 100000" in paper_figure("error_memory_long").title


#: Figures of the literature and of dense computations for n = 64; four epochs of 16 steps.
ONE = {
    ("BISR", 3): 2.631354382,
    ("damped root", 3): 2.343636303,
    ("banded inverse", 15): 2.180709175,
    ("BSR", 31): 2.218803603,
    ("best Toeplitz", 63): 2.179043433,
    ("buffers", 2): 2.179914158,
    ("time-varying buffers", 2): 2.10047421,
    ("lambda-CGD", 1): 2.476835448,
    ("nu-DP-FTRL", 63): 2.187088866,
    ("square root, unit columns", 63): 2.127701744,
    ("binary tree", 7): 4.594493987,
    ("binary tree, online", 7): 3.406935704,
    ("binary tree, full Honaker", 63): 2.517806089,
    ("Fourier", 63): 2.200363551,
    ("lower bound", 0): 2.099856472,
}
FOUR = {
    ("independent noise", 0): 11.401754251,
    ("nu-DP-FTRL", 63): 5.078343208,
    ("damped root", 15): 4.959838133,
    ("buffers", 1): 4.916838302,
    ("BSR", 15): 4.721414353,
    ("best Toeplitz", 15): 4.700108746,
    ("lower bound", 0): 4.407853385,
}


@pytest.mark.parametrize(("panel", "known"), [("one epoch", ONE), ("four epochs", FOUR)])
def test_errors_are_those_known(drawn: Data, panel: str, known: dict[tuple[str, float], float]) -> None:
    found = points(drawn, panel)
    for key, value in known.items():
        tolerance = {"lower bound": 1e-6, "time-varying buffers": 1e-4}.get(key[0], 1e-8)
        assert found[key] == pytest.approx(value, rel=tolerance), key


def test_no_mechanism_is_below_the_floor(drawn: Data) -> None:
    for panel, floor in figure.floors(drawn).items():
        for key, error in points(drawn, panel).items():
            assert error >= floor * (1 - 1e-12), key


def test_what_is_only_bounded_is_hollow(drawn: Data) -> None:
    assert {s.kind for s in drawn} <= {"exact", "upper bound", "lower bound"}
    bounded = (dataclasses.replace(drawn[0], kind="upper bound"), *drawn[1:])  # independent noise
    for data, faces in ((drawn, ["black"]), (bounded, ["black", "white"])):
        lines = [line for line in rendered(ENTRY, data).axes[0].lines if line.get_color() == "black"]
        assert [line.get_markerfacecolor() for line in lines] == faces


def test_the_report_has_the_points_that_none_beats(drawn: Data) -> None:
    said = figure.report(drawn)
    assert "2.1004" in said
    assert "binary tree" not in said
    better = dataclasses.replace(drawn[0], x=np.array([0.0]), y=np.array([2.1]))
    assert "2.10049" not in figure.report((better, *drawn))


def test_the_report_names_searches_that_did_not_move(drawn: Data) -> None:
    assert figure.unmoved(drawn) == []
    found = {(s.panel, s.method): s for s in drawn}
    stuck = found["one epoch", "best Toeplitz"]
    start = dataclasses.replace(found["one epoch", "BSR"], x=stuck.x, y=np.where(stuck.x == 7, stuck.y, 9.0))
    said = "- one epoch, memory 7: the search of best Toeplitz did not leave its start."
    assert figure.unmoved((stuck, start)) == [said]


def test_long_runs_leave_out_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    who = figure.participations(16)["one epoch"]
    assert {name for name, _ in figure.mechanisms(who)} == set(figure.LOOKS)
    monkeypatch.setattr(figure, "LARGEST_MATRIX", 15)
    left = set(figure.LOOKS) - {name for name, _ in figure.mechanisms(who)}
    assert {"Fourier", "binary tree", "buffers, unit columns"} <= left
    assert "buffers" not in left


def test_nothing_overlaps_or_leaves_the_page(drawn: Data) -> None:
    drawing = rendered(ENTRY, drawn)
    assert len(drawing.axes) == 2
    check_places(drawing)
    shown = {text.get_text() for text in drawing.legends[0].get_texts()}
    assert len(shown) == len(figure.LOOKS) + 1  # and the meaning of hollow markers
    lowest = min(np.min(line.get_ydata()) for line in drawing.axes[0].lines)
    least = figure.floors(drawn)["one epoch"]
    best = min(error for (name, _), error in points(drawn, "one epoch").items() if name != figure.FLOOR)
    assert lowest == pytest.approx(100 * (best / least - 1), rel=1e-6)
