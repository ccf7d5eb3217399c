"""The pictures of a design: the numbers of the comparison and of the alternatives, drawn whole."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from corrnoise.designs import figure as figures
from corrnoise.designs import memory_figure
from corrnoise.designs.comparison import ANTI, BEST_FTRL, BOUND, DESIGN, FTRL, INDEPENDENT, WORST
from corrnoise.designs.design import Design
from corrnoise.designs.figure import NOTHING, TUNED, draw, picture_data, write_picture
from corrnoise.designs.make import design
from corrnoise.designs.memory_figure import FLOOR, alternatives_data, curve_data
from corrnoise.figures.publication import Data, Series, house_style, read_csv
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests.design_examples import BUDGET, ENDLESS, PROBLEM, STEPS, compared, made

ONLY: dict[str, Any] = {"family": "stationary optimum"}


def data_of(found: Design, offset: float = 0.0, points: int = 160) -> Data:
    """The data of the picture of a design."""
    return picture_data(found, compared(found, offset), points)


def drawn(data: Data) -> Figure:
    with house_style():
        figure = draw(data)
        figure.draw_without_rendering()
    return figure


def by_method(data: Data, panel: str) -> dict[str, Series]:
    return {s.method: s for s in data if s.panel == panel}


def test_errors_are_those_of_the_comparison() -> None:
    comparison = compared(made("once"), 1.0)
    data = picture_data(made("once"), comparison, points=10)
    stationary = by_method(data, "error")
    tuned = by_method(data, "tuned")
    assert list(stationary) == [row.method for row in comparison.rows]
    for row in comparison.rows:
        one = stationary[row.method]
        assert (one.kind, one.x[0], one.y[0]) == (row.kind, row.stationary_error, row.ratio)
        if row.best_ratio is not None:
            assert (tuned[row.method].x[0], tuned[row.method].y[0]) == (row.best_learning_rate, row.best_ratio)
    assert list(tuned) == [INDEPENDENT, ANTI, FTRL, BEST_FTRL, DESIGN]


def test_learning_curves_are_exact_and_private_for_the_horizon() -> None:
    who = Participation.single(500)
    found = design(BUDGET, who, PROBLEM, **ONLY)
    comparison = found.comparison(0.7)
    curves = by_method(picture_data(found, comparison, points=30), "learning")
    assert list(curves) == [INDEPENDENT, FTRL, BEST_FTRL, DESIGN, TUNED, NOTHING]
    run: dict[str, Any] = {"initial_offset": 0.7, "budget": BUDGET}
    for row in comparison.rows:
        if row.method in curves and isinstance(row.noise, ToeplitzNoise):
            exact = PROBLEM.learning_curve(row.noise, 500, participation=who, **run)
            assert curves[row.method].y == pytest.approx(exact[curves[row.method].x.astype(int)], rel=1e-14)
            assert curves[row.method].x[[0, -1]].tolist() == [1, 500]
    assert curves[TUNED].y[-1] == pytest.approx(comparison[INDEPENDENT].best_error, rel=1e-12)
    assert curves[TUNED].y[-1] < curves[INDEPENDENT].y[-1]
    assert isinstance(found.mechanism, ToeplitzNoise)
    assert curves[DESIGN].y[-1] < PROBLEM.learning_curve(found.mechanism, 500, **run)[-1]  # γ_500 < γ_∞
    bias = PROBLEM.learning_curve(DPSGD(), 500, budget=Budget(1e90), initial_offset=0.7)
    assert curves[NOTHING].y == pytest.approx(bias[curves[NOTHING].x.astype(int)], rel=1e-12)


@pytest.mark.slow
def test_noise_with_a_factor_for_each_step_has_a_learning_curve() -> None:
    found = made("a problem")
    comparison = found.comparison(0.5)
    curves = by_method(picture_data(found, comparison, points=30), "learning")
    assert curves[DESIGN].y[-1] == pytest.approx(comparison[DESIGN].final_error, rel=1e-9)
    assert DESIGN not in by_method(data_of(found), "error")


def test_without_a_horizon_there_are_spectra() -> None:
    found = made("endless")
    data = data_of(found, points=30)
    curves = by_method(data, "spectrum")
    assert list(curves) == [INDEPENDENT, FTRL, BEST_FTRL, DESIGN]
    assert isinstance(found.mechanism, ToeplitzNoise)
    exact = np.sqrt(found.mechanism.power_spectrum(curves[DESIGN].x))
    assert curves[DESIGN].y == pytest.approx(exact, rel=1e-14)
    assert (curves[INDEPENDENT].y == 1).all()
    assert not by_method(data, "learning")


def test_coefficients_are_scaled_by_their_limiting_decay() -> None:
    found = design(BUDGET, Participation.single(2000), PROBLEM, **ONLY)
    comparison = compared(found)
    curves = by_method(picture_data(found, comparison, points=30), "coefficients")
    assert list(curves) == [FTRL, BEST_FTRL, DESIGN]
    for row in comparison.rows:
        if row.method in curves and isinstance(row.noise, ToeplitzNoise):
            t = curves[row.method].x.astype(int)
            assert curves[row.method].y == pytest.approx(np.abs(row.noise.coefficients(2000)[t]) * t**1.5, rel=1e-14)
            assert (curves[row.method].y >= figures.SMALLEST_COEFFICIENT).all()
    middle = (curves[FTRL].x > 15) & (curves[FTRL].x < 30)  # long before 1/ν = 2000
    assert curves[FTRL].y[middle] == pytest.approx(1 / (2 * math.sqrt(math.pi)), rel=0.05)


@pytest.mark.parametrize(
    ("name", "offset", "lines"),
    [
        ("once", 1.0, [3, 6]),
        ("once", 0.0, [3, 5]),
        ("endless", 0.0, [3, 4]),
        ("a problem", 1.0, [2, 6]),
        ("convex", 0.0, [3, 4]),
    ],
)
def test_everything_is_drawn_and_nothing_overlaps_or_leaves_the_page(
    name: str, offset: float, lines: list[int]
) -> None:
    comparison = compared(made(name), offset)
    figure = drawn(picture_data(made(name), comparison, points=20))
    errors, coefficients, third = figure.axes
    # The closed-form lower bound says nothing where the optimum is known.
    expected = [row.method for row in comparison.rows if row.method != BOUND and row.ratio is not None]
    assert [label.get_text() for label in errors.get_yticklabels()] == [figures.LABELS[name] for name in expected]
    assert len(errors.texts) == len(expected)
    assert [len(coefficients.lines), len(third.lines)] == lines
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_title(loc="left")
    (legend,) = figure.legends
    shown = {line.get_label() for axes in (coefficients, third) for line in axes.lines}
    tuned = any(row.best_ratio is not None for row in comparison.rows)
    marks = {figures.FILLED, figures.OPEN} if tuned else set()
    assert {text.get_text() for text in legend.get_texts()} == shown | marks
    assert ("Bound" in errors.get_xlabel()) == (WORST in expected)
    page = figure.bbox
    boxes = [axes.get_tightbbox() for axes in figure.axes] + [legend.get_tightbbox()]
    for box in boxes:
        assert box is not None
        assert page.x0 - 1 <= box.x0 < box.x1 <= page.x1 + 1
        assert page.y0 - 1 <= box.y0 < box.y1 <= page.y1 + 1
    for one, other in pairwise(boxes[:3]):
        assert one is not None
        assert other is not None
        assert one.x1 <= other.x0 + 1


@pytest.mark.parametrize(
    "problem", [LinearRegression([1.0, 1e-6], 1e-3), MeanEstimation(1.0)], ids=["ratios beyond 10⁴", "optimum"]
)
def test_extreme_problems_are_drawn(problem: Any) -> None:
    drawn(data_of(design(BUDGET, ENDLESS, problem), points=20))


@pytest.mark.slow
def test_a_label_says_what_is_compared_and_a_curve_that_rises_has_its_reason() -> None:
    rising = drawn(data_of(made("once"), points=20))
    tuned = drawn(data_of(made("once"), 10.0, points=20))
    (text,) = rising.axes[2].texts
    assert "starts at the minimum" in text.get_text()
    assert not tuned.axes[2].texts
    assert tuned.axes[0].get_xlabel() == "Error / error of this design"
    assert "each at its best" in tuned.legends[0].get_texts()[-2].get_text()
    assert "all at one" in drawn(data_of(made("endless"), points=9)).axes[0].get_xlabel()


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "1.00"),
        (0.9434, "0.943"),
        (114.2, "114"),
        (12345.0, r"$1.23 \times 10^{4}$"),
        (1e6 - 1, r"$1.00 \times 10^{6}$"),
    ],
)
def test_ratios_have_three_digits(ratio: float, text: str) -> None:
    assert figures._shown(ratio) == text


@pytest.mark.slow
def test_files_hold_the_data_and_are_the_same_at_every_run(tmp_path: Path) -> None:
    comparison = compared(made("once"), 1.0)
    names = ["comparison.csv", "comparison.pdf", "comparison.png"]
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_picture(made("once"), comparison, tmp_path / folder)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    assert read_csv(tmp_path / "a/comparison.csv") == picture_data(made("once"), comparison)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_points_are_checked() -> None:
    with pytest.raises(ValueError, match="points must be an integer >= 2, got 1"):
        data_of(made("endless"), points=1)


# -- alternatives ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_picture_shows_every_family_in_a_look_of_its_own_and_the_floor() -> None:
    found = made("a problem")
    curves = curve_data(found)
    data = alternatives_data(found)
    shown = {s.method for s in data}
    assert {one.label for one in (found.optimum, *found.alternatives)} | {FLOOR, "this design"} == shown
    draw = memory_figure.memory_picture(found).draw
    figure = draw(data + curves)
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(shown) + any(s.kind == "upper bound" for s in data)
    looks = [(to_hex(line.get_color()), line.get_linestyle(), line.get_marker()) for line in figure.axes[0].lines]
    assert len(set(looks)) == len(looks)
    assert len(figure.axes) == 2
    assert len(draw(data).axes) == 1
    assert curve_data(made("usual")) == ()
    own, independent = (next(s for s in curves if s.method == name) for name in ("this design", "independent noise"))
    assert own.y[own.x > STEPS / 2].mean() == pytest.approx(found.error, rel=0.02)  # steps are not evenly spaced
    run: dict[str, Any] = {"participation": found.participation, "budget": BUDGET}
    noise = PROBLEM.learning_curve(DPSGD(), STEPS, **run) - PROBLEM.learning_curve(DPSGD(), STEPS, budget=Budget(1e90))
    assert independent.y == pytest.approx(noise[independent.x.astype(int)], rel=1e-6)


@pytest.mark.slow
def test_noise_with_more_replays_has_another_marker() -> None:
    markers = set()
    for replays in range(4):
        found = design(BUDGET, Participation.fixed_epochs(16, epochs=4), memory=1, replays=replays)
        assert found.optimum.replays == replays
        picture = memory_figure.memory_picture(found)
        lines = picture.draw(picture.data()).axes[0].lines
        (own,) = (line for line in lines if line.get_label() == found.optimum.label)
        markers.add(own.get_marker())
    assert len(markers) == 4
