"""Entries of figures: what every one must say of its own data, and which take no time to compute."""

from itertools import combinations
from typing import Any

from matplotlib.figure import Figure

from corrnoise.figures import COMPANIONS, NAMES
from corrnoise.figures.publication import Data, PaperFigure, SimulatedSeries, house_style

#: Figures whose tests compute them with smaller settings, in the files named after them.
LONG = {
    "strongly_convex",
    "shuffled_experiments",
    "error_memory",
    "learning_memory",
    "learning_budget",
    "momentum_noise",
    "momentum_rates",
    *COMPANIONS,
}
QUICK = tuple(name for name in NAMES if name not in LONG)


def check_entry(figure: PaperFigure, data: Data) -> None:
    """Panels and texts fit the data."""
    assert {s.panel for s in data} == set(figure.panels)
    assert not any(isinstance(s, SimulatedSeries) for s in data)
    assert "arXiv" in figure.source or "ICML" in figure.source
    texts = [figure.title, figure.report(data), *figure.panels.values(), *figure.parameters]
    assert [text for text in texts if not text.isascii()] == []


def rendered(figure: PaperFigure, data: Data) -> Figure:
    """The drawing, in the style of the files, with all places known."""
    with house_style():
        drawing = figure.draw(data)
        drawing.draw_without_rendering()
    return drawing


def check_places(drawing: Figure) -> None:
    """Panels and the legend are on the page, and neither they nor the labels of an axis overlap."""
    boxes = [drawing.legends[0].get_window_extent(), *(ax.get_tightbbox() for ax in drawing.axes)]
    for box in boxes:
        assert box is not None
        assert 0 <= box.x0 < box.x1 <= drawing.bbox.width
        assert 0 <= box.y0 < box.y1 <= drawing.bbox.height
    labels = [axis.get_ticklabels() for ax in drawing.axes for axis in (ax.xaxis, ax.yaxis)]
    groups: list[list[Any]] = [
        boxes,
        *([label.get_window_extent() for label in one if label.get_text()] for one in labels),
    ]
    assert not any(a.overlaps(b) for group in groups for a, b in combinations(group, 2))
