"""Gradient norm against ε on real data: Algorithms 1 and 2 of Tran and Cutkosky next to descent without momentum.

The loss is the sigmoid loss of a linear classifier with a pseudo-Huber regulariser, not convex, on data that
scikit-learn carries.  Rows are data sets; the left column has the last iterate, the right one the mean over the run,
as an iterate drawn at random has it, and as the theorems bound it.  Every algorithm is tuned on one half of its
repetitions and judged on the other, so its choice does not flatter it.  Bands are 95 % intervals of the mean.

The records that need no simulation are the gradient norm at the start, and the bound of all gradients, G.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, legend_below, subplots
from corrnoise.figures.simulation import Simulated, SimulationRun, as_finished, kept
from corrnoise.simulations.papers.momentum_aggregation.data import BUNDLED, REGULARISATION, momentum_risk
from corrnoise.simulations.papers.momentum_aggregation.experiments import (
    ALGORITHMS,
    JUDGED,
    MomentumCandidate,
    candidates,
    gradient_norms,
    tuned,
)
from corrnoise.simulations.sweeps.running import told
from corrnoise.theory.numerics.checks import Array

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
REPETITIONS = 16  #: half of them to tune, half to judge
START = "start"
MEAN, HALF, DIFFERENCE = "mean", "half width of mean", "paired difference"
REFERENCE = "exact tree"
PAIRED = (
    "published tree",
    "square root",
    "Algorithm 2 published",
    "Algorithm 2'",
)  #: compared with the reference in runs with the same order
LOOKS: dict[str, dict[str, Any]] = {
    "DP-GD": {"color": "C0", "marker": "o", "label": "full-batch descent"},
    "DP-SGD": {"color": "C4", "marker": "v", "label": "sampled batches, amplified"},
    "published tree": {"color": "C3", "marker": "x", "label": "Algorithm 1, published noise"},
    "exact tree": {"color": "C1", "marker": "s", "label": "Algorithm 1, exact tree noise"},
    "square root": {"color": "C2", "marker": "^", "label": r"Algorithm 1, $\nu$-DP-FTRL noise"},
    "Algorithm 2 published": {"color": "C5", "marker": "+", "linestyle": "--", "label": "Algorithm 2, published noise"},
    "Algorithm 2'": {"color": "C5", "marker": "D", "label": "Algorithm 2, repaired"},
    "no noise": {"color": "0.3", "linestyle": ":", "label": "momentum without noise"},
}


def panel(name: str, judged: str) -> str:
    """The name of a panel."""
    return f"{name}, {judged}"


def data(names: tuple[str, ...] = BUNDLED, *, download: bool = False) -> Data:
    """Gradient norms at the start, the same in all panels of a data set."""
    x = np.array(EPSILONS)
    series = []
    for name in names:
        risk = momentum_risk(name, download=download)
        start = float(np.linalg.norm(risk.gradients(np.zeros(risk.loss.dimension))))
        series += [Series(panel(name, judged), START, "exact", x, np.full(x.size, start)) for judged in JUDGED]
    return tuple(series)


def simulate(
    run: SimulationRun,
    names: tuple[str, ...] = BUNDLED,
    *,
    algorithms: tuple[str, ...] = ALGORITHMS,
    repetitions: int = REPETITIONS,
    download: bool = False,
) -> Simulated:
    """Run all candidates, the larger grid for an effort of 4 or more, three times as often for ten repeats.

    A candidate that fails is left out and reported.
    """
    count = repetitions * math.isqrt(run.repeats)
    points = [
        (name, candidate)
        for name in names
        for algorithm in algorithms
        for candidate in candidates(algorithm, thorough=run.effort >= 4)
    ]
    points.sort(key=lambda point: -_work(*point))  # long ones first
    cases = [(*point, count, run.seed, run.directory, download) for point in points]
    found = dict(zip(points, as_finished(_norms, cases, run), strict=True))
    series: list[Series] = []
    for name in names:
        judged = {}
        for algorithm in algorithms:
            mine = [
                norms
                for (n, c), norms in sorted(found.items(), key=lambda item: repr(item[0]))
                if n == name and c.algorithm == algorithm and isinstance(norms, np.ndarray)
            ]
            if mine:
                _, judged[algorithm] = tuned(np.concatenate(mine, axis=1))
        for algorithm, norms in judged.items():
            series += _series(name, algorithm, MEAN, norms)
            if REFERENCE in judged and algorithm in PAIRED:
                series += _series(name, algorithm, DIFFERENCE, norms - judged[REFERENCE])
    return Simulated(tuple(series), tuple(sorted({norms for norms in found.values() if isinstance(norms, str)})))


def _work(name: str, candidate: MomentumCandidate) -> float:
    """A rough measure of how long a candidate takes."""
    settings = candidate.passes * len(candidate.paths) * len(candidate.gammas)
    return settings * {"DP-GD": 0.01, "DP-SGD": 0.1, "Algorithm 2 published": 5.0, "Algorithm 2'": 5.0}.get(
        candidate.algorithm, 1.0
    )


def _norms(
    name: str, candidate: MomentumCandidate, repetitions: int, seed: int, directory: Path | None, download: bool
) -> Array | str | None:
    """Gradient norms, shape (budgets, settings, 2, repetitions), or what went wrong; None if an extra is missing."""
    try:
        risk = momentum_risk(name, download=download)

        def compute() -> Array:
            return gradient_norms(
                risk, candidate, epsilons=EPSILONS, delta=DELTA, repetitions=repetitions, seed=seed
            ).ravel()

        described = ["momentum", name, risk.regularisation, candidate, EPSILONS, DELTA, repetitions, seed]
        flat = kept(directory, described, compute)
    except OSError:  # the folder cannot be written to, or the data are not to be had
        raise
    except ImportError:
        return None
    except Exception as fault:
        return f"{candidate!r} on {name}: {told(fault)}"
    return flat.reshape(len(EPSILONS), -1, len(JUDGED), repetitions)


def _series(name: str, algorithm: str, kind: str, values: Array) -> list[Series]:
    """Means of values of shape (budgets, 2, repetitions), and half widths of their intervals."""
    x = np.array(EPSILONS)
    repetitions = values.shape[-1]
    means = values.mean(axis=-1)
    half = stdtrit(repetitions - 1, 0.975) * values.std(axis=-1, ddof=1) / math.sqrt(repetitions)
    series = []
    for k, column in enumerate(JUDGED):
        where = panel(name, column)
        series.append(Series(where, algorithm, kind, x, means[:, k]))
        series.append(Series(where, algorithm, f"half width of {kind}", x, half[:, k]))
    return series


def draw(data: Data) -> Drawing:
    """Rows of panels for the data sets, columns for the last iterate and the mean over the run."""
    from matplotlib.ticker import NullFormatter

    curves = {(s.panel, s.method, s.kind): s for s in data}
    names = list(dict.fromkeys(s.panel.rpartition(", ")[0] for s in data))
    figure, grid = subplots(0.8 + 2.1 * len(names), len(names), len(JUDGED), sharex=True, sharey="row", squeeze=False)
    for row, name in zip(grid, names, strict=True):
        for axes, judged in zip(row, JUDGED, strict=True):
            where = panel(name, judged)
            start = curves[where, START, "exact"]
            axes.loglog(start.x, start.y, color="black", linewidth=0.8, label=r"start, $\|\nabla F(w_1)\|$")
            for algorithm, look in LOOKS.items():
                if (where, algorithm, MEAN) not in curves:
                    continue
                mean = curves[where, algorithm, MEAN]
                half = curves[where, algorithm, HALF].y
                axes.loglog(mean.x, mean.y, markersize=3.5, linewidth=1.2, **look)
                low = np.maximum(mean.y - half, mean.y / 10)
                axes.fill_between(mean.x, low, mean.y + half, color=look["color"], alpha=0.2, linewidth=0)
            axes.set(title=f"{name}, {judged}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        row[0].set(ylabel=r"$\|\nabla F(w)\|$")
    for axes in grid[-1]:
        axes.set(xlabel=r"$\varepsilon$", xticks=EPSILONS, xticklabels=[f"{e:g}" for e in EPSILONS])
        axes.xaxis.set_minor_formatter(NullFormatter())
    figure.align_ylabels(grid[:, 0])
    legend_below(figure, grid[0, 0], 3)
    return figure


def report(data: Data) -> str:
    """The means with their intervals, and their answer about the paper's algorithms."""
    curves = {(s.panel, s.method, s.kind): s for s in data}
    head = "".join(f"{f'eps={e:g}':>17}" for e in EPSILONS)
    lines = []
    for where in dict.fromkeys(s.panel for s in data):
        start = curves[where, START, "exact"].y[0]
        lines.append(f"  {where + f' (start {start:.4f})':<44}{head}")
        for algorithm in ALGORITHMS:
            if (where, algorithm, MEAN) in curves:
                means, halves = (curves[where, algorithm, kind].y for kind in (MEAN, HALF))
                cells = "".join(f"{f'{m:.4f} +- {h:.4f}':>17}" for m, h in zip(means, halves, strict=True))
                lines.append(f"    {algorithm:<42}{cells}")
    table = "\n".join(lines)
    return f"""\
Gradient norm, mean and half width of a 95 % interval, every algorithm tuned on other repetitions:

{table}
{_order(curves)}
- (epsilon, {DELTA:g}) for zero-out adjacency at fixed parameters; the tuning looks at the data and is not covered.
- Momentum runs have one random order for all epochs.  The published noise is halved for zero-out adjacency.
- Algorithm 2 reduces sensitivity at the price of three trees.  The published parameters would need a run far longer."""


def _order(curves: dict[tuple[str, str, str], Series]) -> str:
    """How often each other run of momentum is ahead of the exact tree by its paired interval, or behind."""
    lines = []
    for other in PAIRED:
        pairs = [
            (s.y, curves[where, method, f"half width of {kind}"].y)
            for (where, method, kind), s in curves.items()
            if (method, kind) == (other, DIFFERENCE)
        ]
        if pairs:
            ahead = sum(int((y + half < 0).sum()) for y, half in pairs)
            behind = sum(int((y - half > 0).sum()) for y, half in pairs)
            lines.append(f"- {other}: ahead at {ahead}, behind at {behind} of {len(pairs) * len(EPSILONS)} points.")
    if not lines:
        return ""
    return (
        "\nBeside the exact tree, by 95 % intervals of differences in runs with the same order:\n"
        + "\n".join(lines)
        + "\n"
    )


FIGURE = PaperFigure(
    name="momentum_gradient_norms",
    source="Beyond Tran and Cutkosky, arXiv 2210.06328",
    title="private non-convex training on bundled data: gradient norm against epsilon",
    panels={
        panel(
            name, judged
        ): "x = epsilon; y = gradient norm of F: mean over the judged runs, half width of its interval, "
        "and the paired difference from the exact tree"
        for name in BUNDLED
        for judged in JUDGED
    },
    parameters=(
        f"sigmoid loss, linear classifier, pseudo-Huber regulariser {REGULARISATION:g}, examples of norm 1, start at 0",
        f"delta = {DELTA:g}, zero-out adjacency; {REPETITIONS} runs a setting, half to tune and half to judge",
        "data: breast cancer (N = 569, d = 31) and digits, 5 to 9 against 0 to 4 (N = 1797, d = 65)",
    ),
    data=data,
    draw=draw,
    report=report,
    simulate=simulate,
)
