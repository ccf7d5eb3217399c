"""Figure 2 of arXiv 2310.06771: slopes.  The ledger checks the bounds."""

import numpy as np
import pytest

from corrnoise.figures.correlated_noise import linear_regression
from corrnoise.figures.correlated_noise.linear_regression import (
    FTRL,
    PAPER_SLOPES,
    SETTINGS,
    SGD,
    slope,
)
from corrnoise.figures.publication import Series

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
