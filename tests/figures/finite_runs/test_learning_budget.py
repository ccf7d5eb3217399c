"""The budget of noise for learning: the parts add up, the curve has the mean that was minimised, nothing is below."""

import numpy as np
import pytest

from corrnoise.figures.finite_runs import learning_budget as figure
from corrnoise.figures.publication import Data
from corrnoise.theory.participation import Participation
from tests.figure_entries import check_entry, check_places, rendered

STEPS = 32


@pytest.fixture(scope="module")
def drawn() -> Data:
    return figure.data(STEPS)


def of(drawn: Data, panel: str, method: str) -> np.ndarray:
    return next(s.y for s in drawn if (s.panel, s.method) == (panel, method))


def test_the_entry_says_what_is_drawn(drawn: Data) -> None:
    check_entry(figure.FIGURE, drawn)


@pytest.mark.parametrize("method", figure.DRAWN_BY_STEP)
def test_the_budget_of_the_worst_example_is_one(drawn: Data, method: str) -> None:
    classes = Participation.fixed_epochs(STEPS, epochs=4).residue_classes()
    examples = [of(drawn, figure.BUDGET, method)[steps].sum() for steps in classes]
    assert max(examples) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("method", figure.DRAWN_BY_STEP)
def test_the_curve_has_the_error_that_is_judged(drawn: Data, method: str) -> None:
    curve = of(drawn, figure.CURVE, method)
    assert curve[STEPS // 2 :].mean() == pytest.approx(of(drawn, figure.BOTH, method)[0], rel=1e-9)


def test_each_optimum_is_best_at_its_own_task_and_none_is_below_the_floor(drawn: Data) -> None:
    excess = figure._excess(drawn)
    assert min(min(row[2:]) for row in excess.values()) > -1e-9
    assert (
        excess[figure.ANY_LEARNING][3]
        < 0.01
        < min(row[3] for name, row in excess.items() if name != figure.ANY_LEARNING)
    )
    assert (
        excess[figure.ANY_PREFIX][2] < 0.01 < min(row[2] for name, row in excess.items() if name != figure.ANY_PREFIX)
    )
    assert excess[figure.VARYING_LEARNING][1] < excess[figure.PLAIN][1]


def test_nothing_overlaps_or_leaves_the_page(drawn: Data) -> None:
    drawing = rendered(figure.FIGURE, drawn)
    assert len(drawing.axes) == 4
    check_places(drawing)
