"""The figure of the noise in a momentum: nothing is below the certified least."""

import pytest

from corrnoise.figures.momentum_aggregation import noise_figure as figure
from corrnoise.figures.publication import Data, Series
from tests.figure_entries import check_entry


@pytest.fixture(scope="module")
def drawn() -> Data:
    return figure.data(examples=12, epochs=4, fewer_epochs=3, loads=(1.0, 4.0))


@pytest.fixture(scope="module")
def curves(drawn: Data) -> dict[tuple[str, str], Series]:
    return {(s.panel, s.method): s for s in drawn}


def test_the_entry_says_what_is_drawn(drawn: Data) -> None:
    check_entry(figure.FIGURE, drawn)
    assert len(figure.draw(drawn).axes) == 3
    assert {s.method for s in drawn} == set(figure.LOOKS)


def test_nothing_is_below_the_certified_least(curves: dict[tuple[str, str], Series]) -> None:
    for name in figure.LOOKS:
        assert (curves["ratio", name].y >= 1).all(), name
    assert curves["ratio", "best bands"].y.max() < 1.06
    assert (curves["ratio", "buffers"].y < curves["ratio", "square root"].y).all()
