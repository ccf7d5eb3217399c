"""The figure of a design: exact errors side by side, drawn whole, whatever the problem."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from corrnoise.figures.design import BEST_FTRL, BOUND, DESIGN, FTRL, NOTHING, SGD, STREAM, WORST
from corrnoise.solvers.designs import Design, design
from hypothesis import given, settings
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from strategies import regressions

from corrnoise.figures import design as figures
from corrnoise.figures.publication import STYLE, Data, Series, publish, read_csv
from corrnoise.solvers.strongly_convex_bound import strongly_convex_bound
from corrnoise.solvers.tuning import best_nu
from corrnoise.theory.pole_noise import PoleNoise
from corrnoise.theory.problems import LinearRegression, MeanEstimation
from corrnoise.theory.product_noise import DPSGD, NuFTRL
from corrnoise.theory.strongly_convex import StronglyConvex

PROBLEM = LinearRegression([1.0, 0.3, 0.01], 0.05, 0.2)
EXPECTED = [SGD, FTRL, BEST_FTRL, DESIGN, STREAM, BOUND]


def drawn(data: Data) -> Figure:
    with rc_context(fname=STYLE):
        figure = figures.draw(data)
        figure.draw_without_rendering()
    return figure


def by_method(data: Data, panel: str) -> dict[str, Series]:
    return {s.method: s for s in data if s.panel == panel}


@given(regressions(most=4))
@settings(max_examples=15)
def test_errors_lie_between_the_bound_and_dp_sgd(problem: LinearRegression) -> None:
    errors = figures.errors(design(problem))
    assert list(errors) == EXPECTED
    ratios = {name: ratio for name, (_, ratio) in errors.items()}
    assert ratios[DESIGN] == pytest.approx(1, rel=1e-11)
    assert ratios[STREAM] == pytest.approx(1, rel=1e-5)
    assert 0 < ratios[BOUND] <= 1 + 1e-11
    assert 1 - 1e-11 <= ratios[BEST_FTRL] <= min(ratios[FTRL], ratios[SGD]) * (1 + 1e-9)


def test_errors_are_those_of_the_problem_at_the_budget_of_the_design() -> None:
    d = design(PROBLEM, rho=0.3, clip_norm=2.0, adjacency="replace-one")
    errors = figures.errors(d)
    for name, noise in (
        (SGD, DPSGD()),
        (FTRL, NuFTRL(0.05 * 0.01)),
        (BEST_FTRL, NuFTRL(best_nu(PROBLEM))),
        (DESIGN, d.noise),
    ):
        exact = PROBLEM.stationary_error(noise, rho=0.3 / 4, clip_norm=2.0)
        best = PROBLEM.optimal_error(rho=0.3 / 4, clip_norm=2.0)
        assert errors[name] == pytest.approx((exact, exact / best), rel=1e-12)
        assert errors[name][0] != pytest.approx(PROBLEM.stationary_error(noise, rho=0.3, clip_norm=2.0), rel=1e-3)
    assert errors[BOUND][0] == PROBLEM.lower_bound(rho=0.3 / 4, clip_norm=2.0)


def test_of_strongly_convex_losses_there_are_bounds() -> None:
    problem = StronglyConvex(1.0, 30.0, 0.02, dimension=4)
    d = Design(NuFTRL(0.1), PoleNoise([0.1], [0.3]), 0.5, 300, adjacency="replace-one", problem=problem)
    data = figures.data(d, points=20)
    found = {s.method: (s.kind, float(s.x[0]), float(s.y[0])) for s in data if s.panel == "error"}
    assert list(found) == [SGD, FTRL, BEST_FTRL, DESIGN, STREAM, WORST]
    assert found[BEST_FTRL][1] < min(found[FTRL][1], found[DESIGN][1])
    worst = problem.worst_quadratic_error(d.noise, rho=0.125)
    bound = strongly_convex_bound(problem, d.noise, rho=0.125, criterion="objective")
    assert found[DESIGN] == ("upper bound", bound, 1.0)
    assert found[WORST] == ("lower bound", worst, worst / bound)
    assert found[WORST][2] < 1
    # What is known of independent noise alone beats the bound for any noise here.
    assert found[SGD][1] == problem.independent_noise_upper_bound(rho=0.125)
    assert found[SGD][1] < strongly_convex_bound(problem, DPSGD(), rho=0.125, criterion="objective")
    figure = drawn(data)
    assert "bound" in figure.axes[0].get_xlabel()
    assert len(by_method(data, "spectrum")) == 4
    report = figures.report(data)
    assert "Upper bounds of F - F*" in report
    assert "exact" not in report
    assert "no correlated noise is proved to be better" in report
    better = [replace(s, y=np.array([1.5])) if s.method == SGD and s.panel == "error" else s for s in data]
    assert "no correlated noise is proved" not in figures.report(tuple(better))


def test_learning_curves_are_exact_and_private_for_the_horizon() -> None:
    d = design(PROBLEM, rho=0.3, steps=500)
    data = figures.data(d, 0.7, points=30)
    curves = by_method(data, "learning")
    assert list(curves) == [SGD, FTRL, BEST_FTRL, DESIGN, NOTHING]
    for name, noise in figures.rivals(d).items():
        if name in curves:
            exact = PROBLEM.learning_curve(noise, 500, horizon=500, rho=0.3, initial_offset=0.7)
            assert curves[name].y == pytest.approx(exact[curves[name].x.astype(int)], rel=1e-14)
            assert curves[name].x[[0, -1]].tolist() == [1, 500]
    limit = PROBLEM.learning_curve(d.noise, 500, rho=0.3, initial_offset=0.7)
    assert curves[DESIGN].y[-1] < limit[-1]  # γ_500 < γ_∞
    assert (curves[NOTHING].y < curves[DESIGN].y[: curves[NOTHING].x.size]).all()
    assert curves[NOTHING].y.min() >= curves[DESIGN].y.min() / 10
    bias = PROBLEM.learning_curve(d.noise, 500, rho=1e90, initial_offset=0.7)
    assert curves[NOTHING].y == pytest.approx(bias[curves[NOTHING].x.astype(int)], rel=1e-12)
    assert not by_method(data, "spectrum")


def test_without_a_horizon_there_are_spectra() -> None:
    d = design(PROBLEM)
    data = figures.data(d, points=30)
    curves = by_method(data, "spectrum")
    assert list(curves) == [SGD, FTRL, BEST_FTRL, DESIGN]
    assert curves[DESIGN].y == pytest.approx(np.sqrt(d.noise.power_spectrum(curves[DESIGN].x)), rel=1e-14)
    assert (curves[SGD].y == 1).all()
    assert not by_method(data, "learning")


def test_coefficients_are_scaled_by_their_limiting_decay() -> None:
    d = design(PROBLEM, steps=2000)
    curves = by_method(figures.data(d, points=30), "coefficients")
    assert list(curves) == [FTRL, BEST_FTRL, DESIGN, STREAM]
    for name, noise in figures.rivals(d).items():
        if name in curves:
            t = curves[name].x.astype(int)
            assert curves[name].y == pytest.approx(np.abs(noise.coefficients(2000)[t]) * t**1.5, rel=1e-14)
            assert (curves[name].y >= figures.SMALLEST_COEFFICIENT).all()
    middle = (curves[FTRL].x > 15) & (curves[FTRL].x < 30)  # long before 1/ν = 2000
    assert curves[FTRL].y[middle] == pytest.approx(1 / (2 * math.sqrt(math.pi)), rel=0.05)


@pytest.mark.parametrize(
    ("problem", "steps", "offset", "panels"),
    [
        (PROBLEM, 300, 1.0, [7, 4, 5]),
        (PROBLEM, None, 0.0, [7, 4, 4]),
        (LinearRegression([1.0, 0.3], 0.05), 300, 0.0, [7, 4, 4]),  # nothing to learn without noise
        (LinearRegression([1.0, 1e-6], 1e-3), None, 0.0, [7, 4, 4]),  # ratios beyond 10⁴
        (MeanEstimation(1.0), None, 0.0, [7, 0, 4]),  # independent noise is optimal
        (MeanEstimation(0.3), 1, 1.0, [7, 0, 5]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_everything_is_drawn(
    problem: LinearRegression | MeanEstimation, steps: int | None, offset: float, panels: list[int]
) -> None:
    data = figures.data(design(problem, steps=steps), offset, points=20)
    figure = drawn(data)
    errors, coefficients, third = figure.axes
    assert [label.get_text() for label in errors.get_yticklabels()] == [figures.LABELS[name] for name in EXPECTED]
    assert len(errors.texts) == len(EXPECTED)
    assert [len(coefficients.lines), len(third.lines)] == panels[1:]
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_title(loc="left")
    for axes in (coefficients, third):
        assert len({to_hex(line.get_color()) for line in axes.lines if line.get_linewidth() > 1}) >= len(axes.lines) - 1
    (legend,) = figure.legends
    shown = {line.get_label() for axes in (coefficients, third) for line in axes.lines}
    assert {text.get_text() for text in legend.get_texts()} == shown


def test_nothing_overlaps_or_leaves_the_page() -> None:
    figure = drawn(figures.data(design(PROBLEM, steps=300), 1.0, points=20))
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
    figure = figures.design_figure(design(PROBLEM, steps=50), 1.0)
    paths = publish(figure, tmp_path / "a")
    assert [path.name for path in paths] == ["comparison.pdf", "comparison.png", "comparison.csv"]
    assert read_csv(paths[2]) == figure.data()
    for path, again in zip(paths, publish(figure, tmp_path / "b"), strict=True):
        assert path.read_bytes() == again.read_bytes()


def test_report_states_every_error_and_what_it_means() -> None:
    d = design(PROBLEM, steps=500)
    data = figures.data(d, 0.7, points=20)
    report = figures.report(data)
    for s in data:
        if s.panel == "error":
            (line,) = [line for line in report.splitlines() if line.startswith(f"  {s.method:<26}")]
            assert float(line.split()[-3]) == pytest.approx(float(s.x[0]), rel=1e-5)
            assert float(line.split()[-2]) == pytest.approx(float(s.y[0]), rel=1e-4)
    assert "after 500 steps" in report
    assert "sigma of gamma_inf" in report
    assert "sigma of gamma_T" in report
    without = figures.report(figures.data(design(PROBLEM), points=20))
    assert "gamma_T" not in without
    assert "steps," not in without.splitlines()[0]


def test_a_design_without_a_problem_has_nothing_to_compare() -> None:
    with pytest.raises(TypeError, match="design must be a Design with a problem"):
        figures.data(Design(DPSGD(), None, 1.0))
    with pytest.raises(TypeError, match="design must be a Design with a problem"):
        figures.data(PROBLEM)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="points must be an integer >= 2, got 1"):
        figures.data(design(PROBLEM), points=1)
