"""The privacy of shuffled gradients: noise multipliers of all accountants, and exact divergences with bounds.

(a) The noise multiplier σ/G that DP-ShuffleG needs for (ε, 1e-6)-DP after K = 50 epochs of n = 1000 steps, by
accountant.
(b) The Rényi divergence of order 2 between the last iterates of mean estimation on neighbouring data that lie 2G apart
(σ = G, the record last in each epoch), exact and as bounded, over the number of epochs.
"""

from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.theory.papers.shuffled_gradients.accountants import Conversion, Method
from corrnoise.theory.papers.shuffled_gradients.amplification import run_steps
from corrnoise.theory.papers.shuffled_gradients.exact_runs import linear_run_separation
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.papers.shuffled_gradients.schedules import ORDERS, dp_shuffled
from corrnoise.theory.privacy import Budget

SAMPLES = 1000
EPOCHS = 50
DELTA = 1e-6
SHORT = 10  #: samples of panel (b)
LEARNING_RATES = (1e-3, 0.1)  #: of panel (b), for losses with smoothness 1

MULTIPLIERS: dict[str, tuple[str, Method, Conversion, dict[str, Any]]] = {
    "published": ("given", "per-epoch", "published", {"color": "C0", "linestyle": "-"}),
    "composition, exact curve": ("given", "per-epoch", "gaussian", {"color": "C0", "linestyle": "--"}),
    "epochs, shuffled once": ("shuffled once", "epochs shuffled once", "gaussian", {"color": "C3", "linestyle": "-."}),
    "epochs, reshuffled (Lemma E.3)": ("reshuffled", "epochs reshuffled", "zcdp", {"color": "C4", "linestyle": "-."}),
    "whole run, any order": ("given", "whole-run", "gaussian", {"color": "C1", "linestyle": "-"}),
    "whole run, reshuffled": ("reshuffled", "whole-run reshuffled", "gaussian", {"color": "C2", "linestyle": "-"}),
    "whole run, shuffled once": (
        "shuffled once",
        "whole-run shuffled once",
        "gaussian",
        {"color": "black", "linestyle": ":"},
    ),
}


def dp_shuffle(samples: int, epochs: int, order: str = "given") -> ShuffledGradients:
    """DP-ShuffleG with clipped gradients of convex losses; it releases the last iterate."""
    return ShuffledGradients(
        Budget(1.0, adjacency="replace-one"),
        ORDERS[order](samples, epochs),
        learning_rate=0.1,
        smoothness=1.0,
        clipping="cocoercive",
        convex=True,
        released="last iterate",
    )


def exact_divergence(epochs: int, learning_rate: float) -> float:
    """D_2 of the last iterates of mean estimation: α/2 times the squared separation."""
    s, noise, _ = run_steps(dp_shuffled(SHORT, epochs=epochs), SHORT)
    return linear_run_separation(2 * s, noise, np.full(s.size, 1 - learning_rate))


def data(points: int = 13) -> Data:
    """The curves of both panels."""
    epsilons = np.geomspace(0.25, 16, points)
    series = []
    for name, (order, method, conversion, _) in MULTIPLIERS.items():
        found = dp_shuffle(SAMPLES, EPOCHS, order).accountant(method)
        multipliers = [
            found.noise_multiplier(epsilon=epsilon, delta=DELTA, conversion=conversion) for epsilon in epsilons
        ]
        series.append(Series("multiplier", name, "upper bound", epsilons, np.array(multipliers)))
    epochs = np.unique(np.geomspace(1, 200, 3 * points).round())
    bounds: dict[str, Method] = {"published": "per-epoch", "whole run, any order": "whole-run"}
    for name, method in bounds.items():
        values = [dp_shuffle(SHORT, int(k)).accountant(method).renyi_divergence(2.0, 1.0) for k in epochs]
        series.append(Series("divergence", name, "upper bound", epochs, np.array(values)))
    for eta in LEARNING_RATES:
        exact = np.array([exact_divergence(int(k), eta) for k in epochs])
        series.append(Series("divergence", f"eta = {eta:g}", "exact", epochs, exact))
    return tuple(series)


def draw(data: Data) -> Drawing:
    """Draw the panels side by side."""
    figure, (left, right) = subplots(2.9, 1, 2)
    exact = {f"eta = {eta:g}": look for eta, look in zip(LEARNING_RATES, ("-", ":"), strict=True)}
    for s in data:
        if s.panel == "multiplier":
            left.loglog(s.x, s.y, label=s.method, **MULTIPLIERS[s.method][3])
        elif s.kind == "exact":
            label = rf"exact, $\eta = {s.method.partition(' = ')[2]}$"
            right.loglog(s.x, s.y, color="black", linestyle=exact[s.method], label=label)
        else:
            right.loglog(s.x, s.y, label=f"{s.method} (bound)", **MULTIPLIERS[s.method][3])
    left.set(title="(a)", xlabel=r"$\epsilon$", ylabel=r"Noise multiplier $\sigma/G$", ylim=(0.008, 400))
    right.set(title="(b)", xlabel="Epochs $K$", ylabel=r"Rényi divergence $D_2$")
    left.legend(loc="lower left")
    right.legend(loc="upper left")
    return figure


def report(data: Data) -> str:
    """Ratios of the multipliers at ε nearest 1, and of bound and truth at 50 epochs."""
    curves = {(s.panel, s.method): s for s in data}
    first = curves["multiplier", "published"]
    at = int(np.argmin(np.abs(np.log(first.x))))
    lines = "\n".join(
        f"  {name:<32} {y:10.4f}  ({first.y[at] / y:.2f}x less noise than published)"
        for name, y in ((name, curves["multiplier", name].y[at]) for name in MULTIPLIERS)
    )
    return f"""\
Noise multipliers for epsilon = {first.x[at]:.3g}, delta = {DELTA:g}, n = {SAMPLES}, K = {EPOCHS}:

{lines}

- The paper composes epochs, because its regularisation step need not be contractive.  The proximal map of a convex
  function never expands, so amplification by iteration holds over the whole run.
- A secret permutation hides more than any fixed order; the paper calls the gain marginal.  Over the whole run it hardly
  matters whether it is fresh in each epoch: the last position decides."""


FIGURE = PaperFigure(
    name="shuffled_privacy",
    source="Beyond the figures of arXiv 2502.03652",
    title="privacy of shuffled gradients: noise multipliers by accountant, exact divergence beside bounds",
    panels={
        "multiplier": "x = epsilon; y = noise multiplier sigma/G of DP-ShuffleG, an upper bound of what is needed",
        "divergence": "x = epochs K; y = Renyi divergence of order 2 of the last iterates, replace-one adjacency",
    },
    parameters=(
        f"multiplier: n = {SAMPLES}, K = {EPOCHS}, delta = {DELTA:g}",
        f"divergence: mean estimation in one dimension, n = {SHORT}, sigma = G, data 2G apart, record last in order",
    ),
    data=data,
    draw=draw,
    report=report,
)
