"""Table 3, measured: streams make the noise of their mechanisms, and cells do not overlap."""

from itertools import combinations

import numpy as np
import pytest

from corrnoise.figures import COMPANIONS
from corrnoise.figures.finite_runs import table3 as figure
from corrnoise.figures.publication import Data
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation
from tests.figure_entries import check_entry, rendered

STEPS = 32
RUN = Participation.fixed_epochs(STEPS, epochs=figure.EPOCHS)


@pytest.fixture(scope="module")
def drawn() -> Data:
    return figure.data(64, size=4)


def draws(size: int, rng: np.random.Generator) -> Array:
    """Independent noise, a draw a step."""
    return rng.standard_normal((STEPS, size))


@pytest.mark.parametrize("name", figure.VARIANTS)
def test_streams_make_the_noise_of_their_mechanism(name: str) -> None:
    variant = figure.VARIANTS[name]
    mechanism = variant.make(RUN)
    made = np.array(list(variant.stream(mechanism, RUN, 3, 1)))
    np.testing.assert_allclose(made, mechanism.noising(draws(3, np.random.default_rng(1))), atol=1e-9)
    assert np.abs(made - mechanism.noising(draws(3, np.random.default_rng(2)))).max() > 0.1


def test_a_stream_of_another_mechanism_is_told_apart() -> None:
    """The plain tree has the same draws as the online one, and other noise."""
    plain = BinaryTree(STEPS, decoder="binary").noising(draws(3, np.random.default_rng(1)))
    online = figure.VARIANTS["Honaker/TreeAgg"]
    made = np.array(list(online.stream(online.make(RUN), RUN, 3, 1)))
    assert np.abs(made - plain).max() > 0.1


def test_the_entry_says_what_is_drawn(drawn: Data) -> None:
    check_entry(figure.FIGURE, drawn)
    assert "table3" in COMPANIONS
    assert all((s.y > 0).all() for s in drawn if s.kind == "measured")


def test_memory_is_what_streams_keep(drawn: Data) -> None:
    """A stream of all draws holds 64 arrays at least; buffers and trees hold a few (small ones count objects, too)."""
    mechanism = figure.VARIANTS["buffers"].make(Participation.fixed_epochs(256, epochs=4))
    kept = figure.measured(figure.VARIANTS["buffers"], Participation.fixed_epochs(256, epochs=4), 10_000)["memory"]
    assert mechanism.memory(256) <= kept <= mechanism.memory(256) + 4
    found = {s.method: s.y[0] for s in drawn if s.panel == "memory"}
    assert found["nu-DP-FTRL"] >= 64


def test_no_cell_overlaps_another_or_leaves_the_page(drawn: Data) -> None:
    drawing = rendered(figure.FIGURE, drawn)
    texts = [text for text in drawing.axes[0].texts if text.get_text()]
    assert len(texts) == 4 + 8 + sum(sum(cell != "" for cell in row) for row in figure.table(drawn))
    boxes = [text.get_window_extent() for text in texts]
    for (one, a), (other, b) in combinations(zip(texts, boxes, strict=True), 2):
        assert not a.overlaps(b), (one.get_text(), other.get_text())
    page = drawing.bbox
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)
