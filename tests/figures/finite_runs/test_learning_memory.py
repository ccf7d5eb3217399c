"""The error of learning against memory: two ways to the same numbers, nothing below the floor, nothing overlaps."""

import numpy as np
import pytest

from corrnoise.figures import COMPANIONS
from corrnoise.figures.finite_runs import learning_memory as figure
from corrnoise.figures.finite_runs.error_memory import FLOOR, floors
from corrnoise.figures.publication import Data
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.quadratic import problem_of
from tests.figure_entries import check_entry, check_places, rendered

pytestmark = pytest.mark.slow
STEPS = 32


@pytest.fixture(scope="module")
def drawn() -> Data:
    return figure.data(STEPS)


def test_the_entry_says_what_is_drawn(drawn: Data) -> None:
    check_entry(figure.FIGURE, drawn)
    assert "learning_memory" not in COMPANIONS


@pytest.mark.parametrize("name", figure.SPECTRA)
def test_errors_are_those_of_the_learning_curve(drawn: Data, name: str) -> None:
    """One epoch: the mean of the last half of the exact curve from the minimum, without sampling noise."""
    problem = problem_of(figure.objective(figure.SPECTRA[name], STEPS))
    assert problem is not None
    found = {(s.panel, s.method): s.y[-1] for s in drawn}
    for method, noise in (("independent noise", DPSGD()), ("BSR", NuFTRL(0))):
        exact = problem.learning_curve(noise, STEPS, participation=Participation.single(STEPS))[-STEPS // 2 :].mean()
        assert found[f"{name}, one epoch", method] == pytest.approx(exact, rel=1e-9)
    other = problem.learning_curve(NuFTRL(0), STEPS, participation=Participation.single(STEPS))[-1]
    assert found[f"{name}, one epoch", "BSR"] != pytest.approx(other, rel=1e-9)


def test_no_mechanism_is_below_the_floor(drawn: Data) -> None:
    least = floors(drawn)
    assert set(least) == set(figure.FIGURE.panels)
    for s in drawn:
        if s.method != FLOOR:
            assert (s.y >= least[s.panel] * (1 - 1e-9)).all(), (s.panel, s.method)


def test_nothing_overlaps_or_leaves_the_page(drawn: Data) -> None:
    drawing = rendered(figure.FIGURE, drawn)
    assert len(drawing.axes) == 6
    check_places(drawing)
    assert all(np.isfinite(ax.get_ylim()).all() for ax in drawing.axes)
