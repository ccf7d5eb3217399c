"""The figure of noise cancellation: its curves are those of the theory, and below and above each other as they must."""

import numpy as np
import pytest

from corrnoise.figures.noise_cancellation import noise as figure
from corrnoise.figures.publication import Data, Series
from tests.figure_entries import check_entry


@pytest.fixture(scope="module")
def drawn() -> Data:
    return figure.data(rounds=60, counts=(1, 8, 24), ratios=(1, 4, 16, 64))


@pytest.fixture(scope="module")
def curves(drawn: Data) -> dict[tuple[str, str], Series]:
    return {(s.panel, s.method): s for s in drawn}


def test_the_entry_says_what_is_drawn(drawn: Data) -> None:
    check_entry(figure.FIGURE, drawn)
    assert len(figure.draw(drawn).axes) == 4
    assert "least possible" in figure.report(drawn)


def test_noise_at_the_server(curves: dict[tuple[str, str], Series]) -> None:
    """Published: c t/m with the half-sensitivity R = 2; in the end every other noise of a capped machine is smaller."""
    t = np.arange(1, 61)
    exact = 4 * 4 * (1 + np.log(60)) * t / figure.PARTICIPANTS
    np.testing.assert_allclose(curves["server", "published"].y, exact, rtol=1e-9)
    for name in ("constant", "best share", "square root", "nothing taken back"):
        assert curves["server", name].y[-1] < curves["server", "published"].y[-1]


def test_no_noise_is_below_the_least_possible(curves: dict[tuple[str, str], Series]) -> None:
    for panel in ("variance", "machine"):
        least = curves[panel, "least possible"].y
        for name in figure.noises(2):
            assert (curves[panel, name].y >= least * (1 - 1e-12)).all(), name
    assert (curves["machine", "best share"].y[1:] < curves["machine", "constant"].y[1:]).all()


def test_the_published_bound_is_solid_where_it_is_proved(curves: dict[tuple[str, str], Series]) -> None:
    assert curves["bound", "published"].x.tolist() == [1, 4]
    assert curves["bound", "published, beyond its proof"].x.tolist() == [16, 64]
    assert (curves["bound", "constant"].y[:2] < curves["bound", "published"].y).all()
