"""Figure 3 of arXiv 2310.06771: bounds against published values, exact errors below them; its convergence study."""

from itertools import pairwise

import numpy as np
import pytest

from corrnoise.figures.correlated_noise import strongly_convex, strongly_convex_convergence
from corrnoise.figures.correlated_noise.strongly_convex import BOUND, ONE_LINE, PANELS, WORST
from corrnoise.figures.publication import Data
from tests.figure_entries import check_entry

#: By panel and method the bounds at κ = 10: of cone programs with 4000 frequencies, 100 lags.
pytestmark = pytest.mark.slow
BOUNDS = {
    ("eta L = 1", "DP-SGD"): 3.3606,
    ("eta L = 1", "nu = eta mu"): 2.5121,
    ("eta L = 1", "optimised"): 2.3316,
    ("eta L = 0.1", "DP-SGD"): 0.25606,
    ("eta L = 0.1", "nu = eta mu"): 0.037853,
    ("eta L = 0.1", "optimised"): 0.037611,
}


@pytest.fixture(scope="module")
def data() -> Data:
    return strongly_convex.data((1.0, 10.0), jobs=1)


def curves(data: Data) -> dict[tuple[str, str, str], np.ndarray]:
    return {(s.panel, s.method, s.kind): s.y for s in data}


@pytest.mark.parametrize(("curve", "value"), BOUNDS.items())
def test_the_bounds_are_those_of_the_cone_program(data: Data, curve: tuple[str, str], value: float) -> None:
    assert curves(data)[*curve, BOUND][1] == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("panel", PANELS)
def test_bounds_lie_above_the_exact_errors_and_better_noise_below_worse(data: Data, panel: str) -> None:
    found = curves(data)
    methods = ("DP-SGD", "nu = eta mu", "best nu", "optimised")
    for method in methods:
        assert (found[panel, method, BOUND] >= found[panel, method, WORST] * (1 - 1e-9)).all()
        assert (found[panel, method, BOUND][1:] > 1.5 * found[panel, method, WORST][1:]).all()  # slack, for κ >= 10
    for worse, better in pairwise(methods):
        assert (found[panel, better, BOUND] <= found[panel, worse, BOUND] * (1 + 1e-6)).all()
    assert (found[panel, "DP-SGD", ONE_LINE] >= found[panel, "DP-SGD", WORST] * (1 - 1e-9)).all()


def test_it_is_drawn_and_reported(data: Data) -> None:
    check_entry(strongly_convex.FIGURE, data)
    drawing = strongly_convex.draw(data)
    assert len(drawing.axes) == 4
    texts = {text.get_text() for text in drawing.legends[0].get_texts()}
    assert {"DP-SGD", "optimised", "bound", "worst quadratic (exact)", "DP-SGD, one-line bound"} <= texts
    text = strongly_convex.report(data)
    assert "2.3316" in text
    assert "kappa 100" not in text


@pytest.fixture(scope="module")
def study() -> Data:
    return strongly_convex_convergence.data(counts=(200, 600), lags=(2, 20), many=600)


def test_the_cone_program_comes_closer_with_more_frequencies_and_lags(study: Data) -> None:
    for s in study:
        if s.panel == "lags":
            assert s.y[1] < s.y[0]
        if s.panel == "frequencies" and s.method == "kappa = 1000":
            assert s.y[1] < 0.3 * s.y[0]
        if s.panel == "time":
            assert (s.y > 0).all()


def test_the_study_is_drawn_and_reported(study: Data) -> None:
    check_entry(strongly_convex_convergence.FIGURE, study)
    drawing = strongly_convex_convergence.draw(study)
    assert [axes.get_xlabel() for axes in drawing.axes] == ["Frequencies $k$", "Largest lag", "Largest lag"]
    assert "lags 20: excess" in strongly_convex_convergence.report(study)
