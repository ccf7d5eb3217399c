"""Shuffled gradients with public data: excess risk over the epochs at the same privacy, on bundled stand-ins.

Figure 2 of Jiang, Sharma, Wu and Joshi (2026), and its companions for other orders (Figures 3 and 4) and shares of
private steps (Figures 5 and 6).  The paper's data sets are replaced by stand-ins that scikit-learn carries (rows of
panels); ``PaperFigure.on_original_data`` fetches the paper's own from OpenML.  Columns are ε = 1, 5, 10, with
δ = 1e-6.  Lines are means over ten runs at each algorithm's best learning rate, bands one standard deviation.

``shuffled_experiments_sharp`` has amplification over the whole run, secret permutations and the curve of Gaussian
mechanisms; ``shuffled_two_rates`` gives public epochs a learning rate of their own.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, legend_below, subplots
from corrnoise.figures.simulation import in_processes
from corrnoise.simulations.papers.shuffled_gradients.data import BUNDLED, SPLITS, task
from corrnoise.simulations.papers.shuffled_gradients.experiments import (
    ALGORITHMS,
    LEARNING_RATES,
    Experiment,
    Setting,
    experiment,
)
from corrnoise.theory.privacy import Budget

EPSILONS = (1.0, 5.0, 10.0)
DELTA = 1e-6
CLIP_NORM = 10.0
EPOCHS = 50
RUNS = 10

_EPSILON_SEPARATOR = ", epsilon = "  # between the parts of a panel's name
ORIGINAL = tuple(name for name in SPLITS if name not in BUNDLED)  #: the paper's own data sets
_STAND_INS = "; ".join(f"{name.removesuffix(' (stand-in)')} for {SPLITS[name].stand_in_for}" for name in BUNDLED)
LOOKS: dict[str, dict[str, Any]] = {
    "DP-ShuffleG": {"color": "C0", "linestyle": "-"},
    "Priv-Pub": {"color": "C4", "linestyle": "--"},
    "Pub-Priv": {"color": "C3", "linestyle": "-."},
    "Interleaved": {"color": "C1", "linestyle": "-"},
    "Public only": {"color": "C2", "linestyle": ":"},
    "Noise at the end": {"color": "black", "linestyle": (0, (5, 1))},
}


def panel(name: str, epsilon: float) -> str:
    """The name of a panel."""
    return f"{name}{_EPSILON_SEPARATOR}{epsilon:g}"


def data(
    setting: Setting,
    names: Sequence[str] = BUNDLED,
    *,
    download: bool = False,
    learning_rates: Sequence[float] = LEARNING_RATES,
    runs: int = RUNS,
    epochs: int = EPOCHS,
    jobs: int | None = None,
) -> Data:
    """Mean excess risks and bands of all algorithms on the data sets ``names``; the paper's own need ``download``.

    By so many processes; see ``in_processes``.
    """
    points = [(name, epsilon, algorithm) for name in names for epsilon in EPSILONS for algorithm in ALGORITHMS]

    def one(name: str, epsilon: float, algorithm: str) -> Experiment:
        records = task(name, download=download)
        return experiment(
            records,
            algorithm,
            Budget(epsilon=epsilon, delta=DELTA, clip_norm=CLIP_NORM, adjacency="replace-one"),
            smoothness=SPLITS[name].smoothness(records),
            epochs=epochs,
            setting=setting,
            learning_rates=learning_rates,
            runs=runs,
        )

    found = in_processes(one, points, jobs)
    x = np.arange(epochs + 1.0)
    return tuple(
        Series(panel(name, epsilon), algorithm, kind, x, y)
        for (name, epsilon, algorithm), result in zip(points, found, strict=True)
        for kind, y in (("mean", result.mean), ("standard deviation", result.std))
    )


def draw(data: Data) -> Drawing:
    """Rows of panels for the data sets, columns for ε."""
    from matplotlib.ticker import NullFormatter

    curves = {(s.panel, s.method, s.kind): s for s in data}
    names = list(dict.fromkeys(s.panel.rpartition(_EPSILON_SEPARATOR)[0] for s in data))
    figure, grid = subplots(0.6 + 1.9 * len(names), len(names), len(EPSILONS), sharex=True, sharey="row", squeeze=False)
    for row, name in zip(grid, names, strict=True):
        least = math.inf
        for axes, epsilon in zip(row, EPSILONS, strict=True):
            for algorithm, look in LOOKS.items():
                mean = curves[panel(name, epsilon), algorithm, "mean"]
                std = curves[panel(name, epsilon), algorithm, "standard deviation"]
                axes.semilogy(mean.x, mean.y, label=algorithm, linewidth=1.2, **look)
                low = np.maximum(mean.y - std.y, mean.y / 10)
                high = mean.y + std.y
                axes.fill_between(mean.x, low, high, color=look["color"], alpha=0.18, linewidth=0)
                least = min(least, float(mean.y.min()))
            axes.set_title(rf"{name}, $\epsilon = {epsilon:g}$", fontsize=7)
            axes.set(xlim=(0, mean.x[-1]))
            axes.yaxis.set_minor_formatter(NullFormatter())
        start = curves[panel(name, EPSILONS[0]), "DP-ShuffleG", "mean"].y[0]
        # Whole decades below; above, Priv-Pub rises out of the panel before its public epochs.
        row[0].set(ylim=(10.0 ** math.floor(math.log10(least)), 4 * start), ylabel=r"Excess risk $G(x) - G^*$")
    for axes in grid[-1]:
        axes.set(xlabel="Epoch")
    figure.align_ylabels(grid[:, 0])
    legend_below(figure, grid[0, 0], 6)
    return figure


def report(data: Data) -> str:
    """The last excess risks, and how often the interleaved algorithm is ahead of each other one."""
    last = {(s.panel, s.method): s.y[-1] for s in data if s.kind == "mean"}
    panels = list(dict.fromkeys(s.panel for s in data))
    head = "".join(f"{name:>18}" for name in LOOKS)
    rows = "\n".join(f"  {p:<42}" + "".join(f"{last[p, a]:>18.4g}" for a in LOOKS) for p in panels)
    wins = "\n".join(
        f"  {other:<18} {sum(last[p, 'Interleaved'] < last[p, other] for p in panels)} of {len(panels)}"
        for other in LOOKS
        if other != "Interleaved"
    )
    return f"""\
Excess risk after the last epoch (mean over the runs), at each algorithm's best learning rate:

  {"":<42}{head}
{rows}

Panels in which Interleaved has a smaller mean than
{wins}

- {_DATA_ORIGIN[any("stand-in" in p for p in panels)]}
- Learning rates were chosen on the private data, as in the paper, which no accountant covers; those above
  2/smoothness, where the Interleaved accountant has no guarantee, are left out.
- Noise at the end of an epoch, which needs no public data, is as private as noise at every step."""


_DATA_ORIGIN = {True: "The data sets are stand-ins, not the paper's.", False: "The data sets are the paper's own."}


def _figure(name: str, source: str, text: str, setting: Setting, *, original: bool = False) -> PaperFigure:
    """A figure on the stand-ins, or on the paper's own data."""
    names = ORIGINAL if original else BUNDLED

    def compute() -> Data:
        return data(setting, names, download=original)

    def on_original_data() -> PaperFigure:
        return _figure(name, source, text, setting, original=True)

    return PaperFigure(
        name=f"{name}_original" if original else name,
        source=source if original else f"{source}, on stand-ins for its data",
        title=f"shuffled gradients with public data: excess risk at equal privacy, {text}",
        panels={
            panel(n, e): "x = epoch; y = excess risk G(x) - G*: mean and standard deviation over the runs"
            for n in names
            for e in EPSILONS
        },
        parameters=(
            f"delta = {DELTA:g}, K = {EPOCHS} epochs, clip norm 10, {RUNS} runs, replace-one adjacency",
            f"order: {setting.order}; share of private steps p = {setting.private_share:g}; "
            f"accounting: {setting.accounting}; learning rates of Priv-Pub, Pub-Priv: {1 + setting.two_rates}",
            "data: the paper's own, from OpenML" if original else f"data: stand-ins from scikit-learn: {_STAND_INS}",
        ),
        data=compute,
        draw=draw,
        report=report,
        on_original_data=None if original else on_original_data,
    )


def _figures() -> dict[str, PaperFigure]:
    paper = "arXiv 2502.03652"
    entries: list[tuple[str, str, str, Setting]] = [
        ("shuffled_experiments", f"Figure 2 of {paper}", "random reshuffling", Setting()),
        (
            "shuffled_experiments_sharp",
            f"Beyond the figures of {paper}",
            "random reshuffling, sharp accounting",
            Setting(accounting="sharp"),
        ),
        (
            "shuffled_two_rates",
            f"Beyond the figures of {paper}",
            "public epochs with a learning rate of their own",
            Setting(two_rates=True),
        ),
        ("shuffled_given_order", f"Figure 3 of {paper}", "incremental gradients", Setting(order="given")),
        ("shuffled_once", f"Figure 4 of {paper}", "shuffled once", Setting(order="shuffled once")),
        ("shuffled_quarter", f"Figures 5 and 6 of {paper}", "p = 0.25", Setting(private_share=0.25)),
        ("shuffled_three_quarters", f"Figures 5 and 6 of {paper}", "p = 0.75", Setting(private_share=0.75)),
    ]
    return {name: _figure(name, source, text, setting) for name, source, text, setting in entries}


FIGURES: dict[str, PaperFigure] = _figures()
