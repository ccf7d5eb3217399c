"""The figure of noise cancellation: its curves, and where the published bound is proved."""

import pytest

from corrnoise.figures.noise_cancellation import noise_figure as figure
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


@pytest.mark.parametrize("count", [1, 2, 30])
def test_noises_by_name_are_made_for_the_participations(count: int) -> None:
    for name, noise in figure.noises(count).items():
        assert noise.column_norms(count).shape == (count,)
        assert noise.memory(count) <= (29 if name == "square root" else 5)


def test_the_published_bound_is_solid_where_it_is_proved(curves: dict[tuple[str, str], Series]) -> None:
    assert curves["bound", "published"].x.tolist() == [1, 4]
    assert curves["bound", "published, beyond its proof"].x.tolist() == [16, 64]
    assert (curves["bound", "constant"].y[:2] < curves["bound", "published"].y).all()
