"""Figure 2 of arXiv 2310.06771: slopes, and bounds below and above the exact errors."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from corrnoise.figures.correlated_noise import linear_regression
from corrnoise.figures.correlated_noise.linear_regression import (
    FTRL,
    OPTIMUM,
    PAPER_SLOPES,
    SETTINGS,
    SGD,
    problem,
    slope,
)
from corrnoise.figures.publication import Series
from corrnoise.theory.correlated_noise.published_bounds import theorem_c18_lower_bound
from corrnoise.theory.mechanisms.product import DPSGD

#: Slopes of the exact curves for dimension, effective dimension and learning rate.
EXACT_SLOPES = {
    ("dimension", SGD): 1.008,
    ("dimension", FTRL): 0.428,
    ("effective dimension", SGD): 0.170,
    ("effective dimension", FTRL): 0.942,
    ("learning rate", SGD): 1.264,
    ("learning rate", FTRL): 2.024,
}
#: Slopes without the feedback of the error on itself.
LINEAR_SLOPES = {
    ("dimension", SGD): 0.999,
    ("dimension", FTRL): 0.419,
    ("effective dimension", SGD): 0.001,
    ("effective dimension", FTRL): 0.774,
    ("learning rate", SGD): 1.001,
    ("learning rate", FTRL): 1.755,
}


Curves = dict[tuple[str, str, str], Series]


@pytest.fixture(scope="module")
def curves() -> Curves:
    return {(s.panel, s.method, s.kind): s for s in linear_regression.data()}


def have_slopes(curves: Curves, kind: str, expected: dict[tuple[str, str], float], tolerance: float = 6e-4) -> bool:
    return all(abs(slope(curves[*key, kind]) - value) <= tolerance for key, value in expected.items())


def test_slopes_are_those_of_the_exact_formula(curves: Curves) -> None:
    assert have_slopes(curves, "exact", EXACT_SLOPES)
    assert have_slopes(curves, "linear part", LINEAR_SLOPES)


def test_slopes_agree_with_the_caption_to_a_hundredth(curves: Curves) -> None:
    assert have_slopes(curves, "exact", PAPER_SLOPES, tolerance=0.0105)


@pytest.mark.parametrize("kind", ["linear part", "rate"])
def test_without_the_instability_factor_the_slopes_are_others(curves: Curves, kind: str) -> None:
    assert not have_slopes(curves, kind, EXACT_SLOPES)
    assert not have_slopes(curves, kind, PAPER_SLOPES, tolerance=0.0105)
    for panel in ("effective dimension", "learning rate"):
        assert not have_slopes(curves, kind, {(panel, SGD): PAPER_SLOPES[panel, SGD]}, tolerance=0.1)


def test_the_instability_factor_accounts_for_the_difference(curves: Curves) -> None:
    for panel, method in EXACT_SLOPES:
        feedback = slope(curves[panel, "feedback", "exact"])
        whole = slope(curves[panel, method, "exact"])
        assert whole == pytest.approx(slope(curves[panel, method, "linear part"]) + feedback, abs=0.02)


def test_effective_dimension_is_the_sum_of_the_eigenvalues(curves: Curves) -> None:
    x = curves["effective dimension", SGD, "exact"].x
    assert x[0] == pytest.approx(sum(1 / k for k in range(1, 129)), rel=1e-14)
    assert x[-1] == pytest.approx(sum(k**-0.4 for k in range(1, 129)), rel=1e-14)


def are_ordered(curves: Curves, *names: tuple[str, str]) -> bool:
    """Whether the curves lie strictly above each other at every point of every panel."""
    return all(
        (curves[panel, *low].y < curves[panel, *high].y).all() for panel in SETTINGS for low, high in pairwise(names)
    )


def test_bounds_lie_below_the_curves_at_every_point(curves: Curves) -> None:
    assert are_ordered(curves, (FTRL, "rate"), (FTRL, "linear part"), (FTRL, "exact"), (SGD, "exact"), (SGD, "rate"))
    assert are_ordered(curves, (FTRL, "rate"), (OPTIMUM, "exact"), (FTRL, "exact"))
    assert are_ordered(curves, (SGD, "linear part"), (SGD, "exact"))


def test_twice_the_bounds_are_none(curves: Curves) -> None:
    doubled = {key: dataclasses.replace(s, y=2 * s.y) if s.kind == "linear part" else s for key, s in curves.items()}
    assert not are_ordered(doubled, (FTRL, "linear part"), (FTRL, "exact"))
    assert not are_ordered(doubled, (SGD, "linear part"), (SGD, "exact"))
    p = problem()
    assert p.lower_bound(DPSGD()) == pytest.approx(theorem_c18_lower_bound(p, DPSGD()), rel=1e-12)


def test_points_between_the_settings_do_not_move_the_slopes(curves: Curves) -> None:
    for s in linear_regression.data(refine=1):
        assert s.x.size == SETTINGS[s.panel].size
        assert slope(s) == pytest.approx(slope(curves[s.panel, s.method, s.kind]), abs=1e-12)


def test_slope_is_the_exponent_of_a_power_law() -> None:
    x = SETTINGS["dimension"].astype(float)
    assert slope(Series("dimension", SGD, "simulated", x, 3 * x**1.7)) == pytest.approx(1.7, abs=1e-12)
    for points in (1, 4, 6):
        with pytest.raises(ValueError, match=f"must hold the 5 settings of its panel, got {points} points"):
            slope(Series("dimension", SGD, "simulated", np.arange(1.0, points + 1), np.ones(points)))


@pytest.mark.parametrize("refine", [0, 3, 16])
def test_other_refinements_are_refused(refine: int) -> None:
    with pytest.raises(ValueError, match="refine must be"):
        linear_regression.data(refine=refine)


def test_every_curve_is_drawn_and_slopes_are_written() -> None:
    figure = linear_regression.draw(linear_regression.data(refine=1))
    figure.draw_without_rendering()
    for ax in figure.axes:
        assert len(ax.lines) == len(linear_regression.STYLES)
        assert ax.get_xlabel()
    written = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert written == [["slope 1.01", "slope 0.43"], ["slope 0.17", "slope 0.94"], ["slope 1.26", "slope 2.02"]]
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(looks) == len(linear_regression.STYLES)


def test_records_of_a_new_kind_leave_the_drawing_as_it_is() -> None:
    data = linear_regression.data(refine=1)
    simulated = dataclasses.replace(data[0], kind="simulated")
    assert len(linear_regression.draw((*data, simulated)).axes[0].lines) == len(linear_regression.STYLES)


def test_report_shows_the_stated_slopes_beside_ours() -> None:
    lines = linear_regression.report(linear_regression.data()).splitlines()
    for (panel, method), stated in PAPER_SLOPES.items():
        (line,) = [x for x in lines if x.split()[:-4] == [*panel.split(), method]]
        assert line.split()[-4] == f"{stated:.2f}"
        assert float(line.split()[-3]) == pytest.approx(EXACT_SLOPES[panel, method], abs=6e-4)
        assert float(line.split()[-2]) == pytest.approx(LINEAR_SLOPES[panel, method], abs=6e-4)
    assert any("0.010, 0.168, 0.261" in line for line in lines)
