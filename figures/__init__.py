"""The figures of the papers, and of what goes on from there: a data function and a drawing function each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corrnoise.figures.publication import PaperFigure

#: Every figure, in the order of the papers; each is the ``FIGURE`` of the module of its name.
NAMES = ("mean_estimation", "linear_regression", "learning_curves")


def paper_figure(name: str) -> PaperFigure:
    """Return the figure called ``name``; its module is imported now."""
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    figure: PaperFigure = import_module(f"corrnoise.figures.{name}").FIGURE
    return figure
