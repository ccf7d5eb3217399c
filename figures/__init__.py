"""The figures of the papers, and of what goes on from there: a data function and a drawing function each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corrnoise.figures.publication import PaperFigure

#: The module of every figure, in the order of the papers; the module's ``FIGURES`` holds it by its name.
_HOMES = {
    "mean_estimation": "mean_estimation",
    "linear_regression": "linear_regression",
    "strongly_convex": "strongly_convex",
    "strongly_convex_convergence": "strongly_convex_convergence",
    "learning_curves": "learning_curves",
    "shuffled_experiments": "shuffled_experiments",
    "shuffled_experiments_sharp": "shuffled_experiments",
    "shuffled_given_order": "shuffled_experiments",
    "shuffled_once": "shuffled_experiments",
    "shuffled_quarter": "shuffled_experiments",
    "shuffled_three_quarters": "shuffled_experiments",
    "shuffled_two_rates": "shuffled_experiments",
    "shuffled_privacy": "shuffled_privacy",
    "shuffled_counterexample": "shuffled_counterexample",
}
NAMES = tuple(_HOMES)
#: Companions of others, drawn only when asked for: they repeat long experiments in another setting.
COMPANIONS = (
    "strongly_convex_convergence",
    "shuffled_experiments_sharp",
    "shuffled_given_order",
    "shuffled_once",
    "shuffled_quarter",
    "shuffled_three_quarters",
    "shuffled_two_rates",
)


def paper_figure(name: str) -> PaperFigure:
    """Return the figure called ``name``; its module is imported now."""
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    figure: PaperFigure = import_module(f"corrnoise.figures.{_HOMES[name]}").FIGURES[name]
    return figure
