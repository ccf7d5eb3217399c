"""The picture of a design: the numbers of the comparison, drawn whole, whatever the problem."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from corrnoise.designs import figure as figures
from corrnoise.designs.comparison import ANTI, BEST_FTRL, BOUND, DESIGN, FTRL, SGD, STREAM, WORST
from corrnoise.designs.figure import NOTHING, TUNED_SGD, draw, picture_data, write_picture
from corrnoise.designs.make import design
from corrnoise.designs.record import Design
from corrnoise.figures.publication import STYLE, Data, Series, read_csv
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from tests.design_examples import PROBLEM


def data_of(made: Design, points: int = 160) -> Data:
    """The data of the picture of a design."""
    return picture_data(made, made.comparison, points)


def drawn(data: Data) -> Figure:
    with rc_context(fname=STYLE):
        figure = draw(data)
        figure.draw_without_rendering()
    return figure


def by_method(data: Data, panel: str) -> dict[str, Series]:
    return {s.method: s for s in data if s.panel == panel}


def test_errors_are_those_of_the_comparison() -> None:
    d = design(PROBLEM, rho=0.3, steps=200, initial_offset=1.0)
    data = data_of(d, points=10)
    stationary = by_method(data, "error")
    tuned = by_method(data, "tuned")
    assert list(stationary) == [row.method for row in d.comparison.rows]
    for row in d.comparison.rows:
        one = stationary[row.method]
        assert (one.kind, one.x[0], one.y[0]) == (row.kind, row.stationary_error, row.ratio)
        if row.best_ratio is not None:
            assert (tuned[row.method].x[0], tuned[row.method].y[0]) == (row.best_learning_rate, row.best_ratio)
    assert list(tuned) == [SGD, ANTI, FTRL, BEST_FTRL, DESIGN]


def test_learning_curves_are_exact_and_private_for_the_horizon() -> None:
    d = design(PROBLEM, rho=0.3, steps=500, initial_offset=0.7)
    curves = by_method(data_of(d, points=30), "learning")
    assert list(curves) == [SGD, FTRL, BEST_FTRL, DESIGN, TUNED_SGD, NOTHING]
    for row in d.comparison.rows:
        if row.method in curves and row.noise is not None:
            exact = PROBLEM.learning_curve(row.noise, 500, horizon=500, rho=0.3, initial_offset=0.7)
            assert curves[row.method].y == pytest.approx(exact[curves[row.method].x.astype(int)], rel=1e-14)
            assert curves[row.method].x[[0, -1]].tolist() == [1, 500]
    assert curves[TUNED_SGD].y[-1] == pytest.approx(d.comparison[SGD].best_error, rel=1e-12)
    assert curves[TUNED_SGD].y[-1] < curves[SGD].y[-1]
    limit = PROBLEM.learning_curve(d.noise, 500, rho=0.3, initial_offset=0.7)
    assert curves[DESIGN].y[-1] < limit[-1]  # γ_500 < γ_∞
    assert (curves[NOTHING].y < curves[DESIGN].y[: curves[NOTHING].x.size]).all()
    assert curves[NOTHING].y.min() >= curves[DESIGN].y.min() / 10
    bias = PROBLEM.learning_curve(DPSGD(), 500, rho=1e90, initial_offset=0.7)
    assert curves[NOTHING].y == pytest.approx(bias[curves[NOTHING].x.astype(int)], rel=1e-12)


def test_without_a_horizon_there_are_spectra() -> None:
    d = design(PROBLEM, rho=1.0)
    data = data_of(d, points=30)
    curves = by_method(data, "spectrum")
    assert list(curves) == [SGD, FTRL, BEST_FTRL, DESIGN]
    assert curves[DESIGN].y == pytest.approx(np.sqrt(d.noise.power_spectrum(curves[DESIGN].x)), rel=1e-14)
    assert (curves[SGD].y == 1).all()
    assert not by_method(data, "learning")


def test_coefficients_are_scaled_by_their_limiting_decay() -> None:
    d = design(PROBLEM, rho=1.0, steps=2000)
    curves = by_method(data_of(d, points=30), "coefficients")
    assert list(curves) == [FTRL, BEST_FTRL, DESIGN, STREAM]
    for row in d.comparison.rows:
        if row.method in curves and row.noise is not None:
            t = curves[row.method].x.astype(int)
            assert curves[row.method].y == pytest.approx(np.abs(row.noise.coefficients(2000)[t]) * t**1.5, rel=1e-14)
            assert (curves[row.method].y >= figures.SMALLEST_COEFFICIENT).all()
    middle = (curves[FTRL].x > 15) & (curves[FTRL].x < 30)  # long before 1/ν = 2000
    assert curves[FTRL].y[middle] == pytest.approx(1 / (2 * math.sqrt(math.pi)), rel=0.05)


@pytest.mark.parametrize(
    ("problem", "steps", "offset", "lines"),
    [
        (PROBLEM, 300, 1.0, [4, 6]),
        (PROBLEM, None, 0.0, [4, 4]),
        (LinearRegression([1.0, 0.3], 0.05), 300, 0.0, [4, 4]),  # nothing to learn without noise
        (LinearRegression([1.0, 1e-6], 1e-3), None, 0.0, [4, 4]),  # ratios beyond 10⁴
        (MeanEstimation(1.0), None, 0.0, [0, 4]),  # independent noise is optimal
        (MeanEstimation(0.3), 1, 1.0, [0, 6]),
        (StronglyConvex(0.1, 1.0, 0.5), 100, 0.0, [4, 4]),
    ],
)
def test_everything_is_drawn(
    problem: LinearRegression | MeanEstimation | StronglyConvex, steps: int | None, offset: float, lines: list[int]
) -> None:
    d = design(problem, rho=1.0, steps=steps, initial_offset=offset)
    data = data_of(d, points=20)
    figure = drawn(data)
    errors, coefficients, third = figure.axes
    # The closed-form lower bound says nothing where the optimum is known.
    expected = [row.method for row in d.comparison.rows if row.method != BOUND]
    assert [label.get_text() for label in errors.get_yticklabels()] == [figures.LABELS[name] for name in expected]
    assert len(errors.texts) == len(expected)
    assert [len(coefficients.lines), len(third.lines)] == lines
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_title(loc="left")
    for axes in (coefficients, third):
        assert len({to_hex(line.get_color()) for line in axes.lines if line.get_linewidth() > 1}) >= len(axes.lines) - 2
    (legend,) = figure.legends
    shown = {line.get_label() for axes in (coefficients, third) for line in axes.lines}
    marks = {figures.FILLED, figures.OPEN} if d.comparison.tuned else set()
    assert {text.get_text() for text in legend.get_texts()} == shown | marks
    if isinstance(problem, StronglyConvex):
        assert WORST in expected
        assert "Bound" in errors.get_xlabel()


def test_a_curve_that_rises_has_its_reason() -> None:
    rising = drawn(data_of(design(PROBLEM, rho=1.0, steps=300), points=20))
    falling = drawn(data_of(design(PROBLEM, rho=1.0, steps=300, initial_offset=10.0), points=20))
    (text,) = rising.axes[2].texts
    assert "starts at the minimum" in text.get_text()
    assert not falling.axes[2].texts


def test_a_label_says_what_is_compared() -> None:
    run = design(PROBLEM, rho=1.0, steps=300, initial_offset=10.0)
    tuned = drawn(data_of(run, points=9))
    assert tuned.axes[0].get_xlabel() == "Error / error of this design"
    assert "each at its best" in tuned.legends[0].get_texts()[-2].get_text()
    endless = design(PROBLEM, rho=1.0)
    assert "all at one" in drawn(data_of(endless, points=9)).axes[0].get_xlabel()


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_nothing_overlaps_or_leaves_the_page(offset: float) -> None:
    figure = drawn(data_of(design(PROBLEM, rho=1.0, steps=300, initial_offset=offset), points=20))
    page = figure.bbox
    (legend,) = figure.legends
    boxes = [axes.get_tightbbox() for axes in figure.axes] + [legend.get_tightbbox()]
    for box in boxes:
        assert box is not None
        assert page.x0 - 1 <= box.x0 < box.x1 <= page.x1 + 1
        assert page.y0 - 1 <= box.y0 < box.y1 <= page.y1 + 1
    for one, other in pairwise(boxes[:3]):
        assert one is not None
        assert other is not None
        assert one.x1 <= other.x0 + 1


@pytest.mark.parametrize(("ratio", "text"), [(1.0, "1.00"), (0.9434, "0.943"), (77.04, "77.0"), (114.2, "114")])
def test_ratios_have_three_digits(ratio: float, text: str) -> None:
    assert figures._shown(ratio) == text


def test_large_ratios_are_powers_of_ten() -> None:
    assert figures._shown(12345.0) == r"$1.23 \times 10^{4}$"
    assert figures._shown(999_999.0) == r"$1.00 \times 10^{6}$"


def test_files_hold_the_data_and_are_the_same_at_every_run(tmp_path: Path) -> None:
    d = design(PROBLEM, rho=1.0, steps=50, initial_offset=1.0)
    names = ["comparison.csv", "comparison.pdf", "comparison.png"]
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_picture(d, d.comparison, tmp_path / folder)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    assert read_csv(tmp_path / "a/comparison.csv") == data_of(d)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_points_are_checked() -> None:
    with pytest.raises(ValueError, match="points must be an integer >= 2, got 1"):
        data_of(design(PROBLEM, rho=1.0), points=1)
