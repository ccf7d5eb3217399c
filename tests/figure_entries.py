"""Entries of figures: what every one must say of its own data, and which take no time to compute."""

from corrnoise.figures import COMPANIONS, NAMES
from corrnoise.figures.publication import Data, PaperFigure, SimulatedSeries

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
