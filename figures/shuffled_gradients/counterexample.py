"""The convergence theorem of shuffled private gradients, as published and corrected, with the exact excess risk.

n = 10 losses f_i(x) = ‖x‖²/2 in d = 50 dimensions, x_1 = x* = 0, no regulariser, noise σ = 1 at every step, learning
rate η = 0.4/K: all that remains is the noise.  The exact excess risk falls like 1/K, the published bound like
(log K)/K²: from some K on it is below the excess risk, and no constant can save it.  The corrected bound is above
for every K.
"""

from typing import Any

import numpy as np

from corrnoise.figures.publication import PAGE_WIDTH, Data, Drawing, PaperFigure, Series, subplots
from corrnoise.theory.papers.shuffled_gradients.convergence import ConvergenceConstants
from corrnoise.theory.papers.shuffled_gradients.exact_runs import noise_variance

SAMPLES = 10
DIMENSION = 50
SCALE = 0.4


def exact_excess_risk(epochs: int) -> float:
    """The iterate is Gaussian with mean 0: (d/2) times the variance of a coordinate."""
    return DIMENSION / 2 * noise_variance(SAMPLES, epochs, SCALE / epochs, 1.0)


def bound(epochs: int, *, printed: bool) -> float:
    """Corollary 4.1 (E.1)."""
    run = ConvergenceConstants(
        samples=SAMPLES,
        epochs=epochs,
        dimension=DIMENSION,
        learning_rate=SCALE / epochs,
        distance=0.0,
        deviation=0.0,
        noise=1.0,
        smoothness=1.0,
        largest_smoothness=1.0,
    )
    return run.corollary_upper_bound(printed=printed).total


def data(points: int = 60) -> Data:
    """Exact excess risk, published and corrected bound."""
    epochs = np.unique(np.geomspace(1000, 1e7, points).round())
    kinds = {
        "exact": exact_excess_risk,
        "published bound": lambda k: bound(k, printed=True),
        "corrected bound": lambda k: bound(k, printed=False),
    }
    return tuple(
        Series(
            "risk", name, "exact" if name == "exact" else "upper bound", epochs, np.array([f(int(k)) for k in epochs])
        )
        for name, f in kinds.items()
    )


def draw(data: Data) -> Drawing:
    """Draw the three curves."""
    looks: dict[str, dict[str, Any]] = {
        "exact": {"color": "black", "linewidth": 2.0},
        "published bound": {"color": "C1", "linestyle": "--"},
        "corrected bound": {"color": "C0"},
    }
    figure, axes = subplots(2.8, width=PAGE_WIDTH / 2)
    for s in data:
        axes.loglog(s.x, s.y, label=s.method, **looks[s.method])
    axes.set(xlabel="Epochs $K$", ylabel=r"Excess risk $\mathbb{E}\,G(x) - G^*$")
    axes.legend(loc="best")
    return figure


def report(data: Data) -> str:
    """Where the published bound fails, and by how much."""
    exact, printed, corrected = (s.y for s in data)
    epochs = data[0].x
    fails = epochs[exact > printed]
    return f"""\
The published bound is below the exact excess risk from K = {fails[0]:g} on; at K = {epochs[-1]:g} by the factor
{exact[-1] / printed[-1]:.4g}.  The corrected bound is at least {np.min(corrected / exact):.3g} times the exact one.

- The published noise term is 6 eta^2 n L d sigma^2 an epoch, where (eta + 5 eta^2 n L) d sigma^2 is right: its proof
  bounds the opposite sign of an inner product, and drops the term -eta I of a Jacobian."""


FIGURE = PaperFigure(
    name="shuffled_counterexample",
    source="Corollary 4.1 of arXiv 2502.03652",
    title="excess risk of a shuffled run that only shows its noise, with the published bound and the corrected one",
    panels={"risk": "x = epochs K; y = excess risk E G(x) - G*"},
    parameters=(
        f"n = {SAMPLES}, d = {DIMENSION}, losses |x|^2/2, no regulariser, sigma = 1, eta = {SCALE:g}/K",
        "x_1 = x* = 0",
    ),
    data=data,
    draw=draw,
    report=report,
)
