"""The figures of the papers, and of what goes on from there: a data function and a drawing function each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from corrnoise.support.suggestions import did_you_mean

if TYPE_CHECKING:
    from corrnoise.figures.publication import PaperFigure

#: The module of every figure, in the order of the papers: its ``FIGURE``, or in its ``FIGURES`` by name.
_FIGURE_HOMES = {
    "mean_estimation": "correlated_noise.mean_estimation",
    "linear_regression": "correlated_noise.linear_regression",
    "strongly_convex": "correlated_noise.strongly_convex",
    "strongly_convex_convergence": "correlated_noise.strongly_convex_convergence",
    "learning_curves": "correlated_noise.learning_curves",
    "shuffled_experiments": "shuffled_gradients.experiments",
    "shuffled_experiments_sharp": "shuffled_gradients.experiments",
    "shuffled_given_order": "shuffled_gradients.experiments",
    "shuffled_once": "shuffled_gradients.experiments",
    "shuffled_quarter": "shuffled_gradients.experiments",
    "shuffled_three_quarters": "shuffled_gradients.experiments",
    "shuffled_two_rates": "shuffled_gradients.experiments",
    "shuffled_privacy": "shuffled_gradients.privacy_figure",
    "shuffled_counterexample": "shuffled_gradients.counterexample",
    "noise_cancellation": "noise_cancellation.noise_figure",
    "noise_cancellation_excess": "noise_cancellation.excess",
    "noise_cancellation_digits": "noise_cancellation.digits",
    "momentum_noise": "momentum_aggregation.noise_figure",
    "momentum_rates": "momentum_aggregation.rates",
    "momentum_gradient_norms": "momentum_aggregation.gradient_norms",
    "error_memory": "finite_runs.error_memory",
    "error_memory_long": "finite_runs.error_memory",
    "learning_memory": "finite_runs.learning_memory",
    "learning_budget": "finite_runs.learning_budget",
    "sampling": "finite_runs.sampling",
    "table3": "finite_runs.table3",
}
NAMES = tuple(_FIGURE_HOMES)
#: Drawn only when asked for: they repeat long experiments in another setting, or measure times.
COMPANIONS = (
    "strongly_convex_convergence",
    "shuffled_experiments_sharp",
    "shuffled_given_order",
    "shuffled_once",
    "shuffled_quarter",
    "shuffled_three_quarters",
    "shuffled_two_rates",
    "noise_cancellation_excess",
    "noise_cancellation_digits",
    "momentum_gradient_norms",
    "error_memory_long",
    "sampling",
    "table3",
)


def paper_figure(name: str) -> PaperFigure:
    """Return the figure called ``name``; its module is imported now."""
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}{did_you_mean(name, NAMES)}")
    module = import_module(f"corrnoise.figures.{_FIGURE_HOMES[name]}")
    figure: PaperFigure = module.FIGURES[name] if hasattr(module, "FIGURES") else module.FIGURE
    return figure
