"""Error against ε for each way of sampling and its noise, at equal (ε, δ).

The error is the root mean squared error of prefix sums, relative to DP-SGD with Poisson batches of the same mean size.
Each noise is tuned for its sampler and budget.  Multipliers come from certified accountants; for balls in bins the
estimate that guides the search is drawn too, which is near the truth and no guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, legend_below, subplots
from corrnoise.solvers.optimise import optimise
from corrnoise.solvers.optimum import Optimum
from corrnoise.solvers.sampled import sampled_noises, samplers
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

PERIOD = 32  #: steps of an epoch
EPOCHS = (1, 10, 50)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
MEMORY = 16  #: arrays of the noise with cyclic Poisson batches
POISSON, FIXED = "DP-SGD, Poisson batches", "buffers, same order in every epoch"
CYCLIC, BINS = "best bands, cyclic Poisson batches", "one buffer, balls in bins"
ESTIMATE = "one buffer, balls in bins, estimate"
LOOKS: dict[str, dict[str, Any]] = {
    POISSON: {"color": "black", "linestyle": "--"},
    FIXED: {"color": "C3", "marker": "s"},
    CYCLIC: {"color": "C0", "marker": "o"},
    BINS: {"color": "C2", "marker": "^"},
    ESTIMATE: {"color": "C1", "marker": "v", "linestyle": ":", "markerfacecolor": "white"},
}


def panel(epochs: int) -> str:
    """The name of a panel."""
    return "1 epoch" if epochs == 1 else f"{epochs} epochs"


def data(period: int = PERIOD, epochs: Sequence[int] = EPOCHS, epsilons: Sequence[float] = EPSILONS) -> Data:
    """The errors relative to DP-SGD's, and the bands that are best for cyclic Poisson batches."""
    found: list[Series] = []
    for count in epochs:
        steps = period * count
        order = Participation.fixed_epochs(steps, period=period) if count > 1 else Participation.single(steps)
        fixed = optimise(PrefixSums(steps), order, family="BLT, unit columns", memory=2)
        columns = [_errors(fixed, period, epsilon) for epsilon in epsilons]
        for method in LOOKS:
            values = np.array([column[method] for column in columns])
            kind = {BINS: "upper bound", ESTIMATE: "estimate"}.get(method, "exact")
            found.append(Series(panel(count), method, kind, np.array(epsilons), values))
    return tuple(found)


def _errors(fixed: Optimum, period: int, epsilon: float) -> dict[str, float]:
    """The error of each method over DP-SGD's."""
    steps = fixed.participation.length
    sums = PrefixSums(steps)
    budget = Budget(epsilon=epsilon, delta=DELTA)
    poisson, *cyclic, bins = samplers(steps, period, 1 / period, MEMORY)
    unit = _error(sums, DPSGD(), poisson, budget)

    def best(participation: Participation, family: str) -> tuple[Mechanism, float]:
        (one,) = sampled_noises(sums, participation, budget, 1 if family == "BLT" else MEMORY, {family}, lambda _: None)
        return one.mechanism, one.estimate

    buffer, multiplier = best(bins, "BLT")
    return {
        POISSON: 1.0,
        FIXED: fixed.error_at(budget) / unit,
        CYCLIC: min(_error(sums, best(one, "banded Toeplitz")[0], one, budget) for one in cyclic) / unit,
        BINS: _error(sums, buffer, bins, budget) / unit,
        ESTIMATE: multiplier * math.sqrt(buffer.squared_error(sums)) / unit,
    }


def _error(sums: Objective, noise: Mechanism, participation: Participation, budget: Budget) -> float:
    return noise.program(participation).multiplier(budget) * math.sqrt(noise.squared_error(sums))


def draw(data: Data) -> Drawing:
    """A panel for each number of epochs."""
    names = list(dict.fromkeys(s.panel for s in data))
    figure, axes = subplots(2.9, 1, len(names), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        for s in (s for s in data if s.panel == name):
            ax.plot(s.x, s.y, label=s.method, markersize=4, linewidth=1, **LOOKS[s.method])
        ticks = next(s.x for s in data if s.panel == name)
        ax.set(title=name, xlabel=r"$\varepsilon$", xscale="log", yscale="log")
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_yticks([0.25, 0.5, 1, 2], ["0.25", "0.5", "1", "2"])
        ax.minorticks_off()
    axes[0, 0].set_ylabel("Error over that of DP-SGD")
    legend_below(figure, axes[0, 0], 2)
    return figure


def report(data: Data) -> str:
    """The best of each column."""
    lines = ["The smallest error at equal privacy, over that of DP-SGD with Poisson batches:"]
    for name in dict.fromkeys(s.panel for s in data):
        rows = [s for s in data if s.panel == name and s.kind != "estimate"]
        for k, epsilon in enumerate(rows[0].x):
            best = min(rows, key=lambda s: s.y[k])
            lines.append(f"  {name:<10} epsilon {epsilon:<4g} {best.y[k]:7.3f}  {best.method}")
    return "\n".join(lines)


FIGURE = PaperFigure(
    name="sampling",
    source="Beyond Figure 4 of arXiv 2310.06771",
    title=f"error against epsilon for each way of sampling, {PERIOD} steps an epoch, delta = {DELTA:g}",
    panels={
        panel(count): "x = epsilon; y = RMSE of prefix sums over that of DP-SGD with Poisson batches"
        for count in EPOCHS
    },
    parameters=(
        f"{PERIOD} steps an epoch, batches of 1/{PERIOD} of the data on average, delta = {DELTA:g}, zero-out adjacency",
        f"best bands: the best Toeplitz strategy of p bands, the best p of 2, 4, ..., {MEMORY}",
        "upper bound: of the certified accountant; estimate: by fixed points, near the truth and no guarantee",
    ),
    data=data,
    draw=draw,
    report=report,
)
