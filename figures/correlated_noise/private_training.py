"""Figure 4 of arXiv 2310.06771 on data that are at hand: the accuracy of private training under each mechanism.

All methods have the same data, network, batch size, number of epochs and clip norm.  Each is tuned on the same grid of
learning rates and momenta with seeds of its own, and judged with others; runs with the same seed are compared in pairs.

For each data set: the score over ε; its difference to DP-SGD, with a bootstrap interval over the paired seeds; and what
the theory says beforehand, the error of prefix sums of each mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.figures.simulation import Simulated, SimulationRun, as_finished, kept
from corrnoise.simulations.private_training.comparison import (
    BINS,
    CIFAR_10,
    CLIP_NORM,
    CYCLIC,
    DELTA,
    EXPERIMENTS,
    FULL,
    LINEAR,
    METHODS,
    MOMENTA,
    PUBLIC,
    RATES,
    SAMPLED,
    STREAMED,
    Experiment,
    Run,
    grid,
    paired_interval,
    prefix_error,
    scores,
)
from corrnoise.simulations.sweeps.running import told
from corrnoise.theory.numerics.checks import Array

SHOWN = {**EXPERIMENTS, CIFAR_10.name: CIFAR_10, LINEAR.name: LINEAR}
EPSILONS = (2.0, 5.0, 10.0)
PAPER = (2.0, 4.0, 6.0, 8.0, 10.0)  #: ε of the paper
TUNING = 4  #: seeds to tune with
JUDGING = 48  #: seeds to judge with
SAMPLING = ("ν-DP-FTRL", CYCLIC, BINS, SAMPLED, PUBLIC)  #: beside each other under sampled batches
SCORES = {"classification": "test accuracy", "regression": "coefficient of determination"}
LOOKS: dict[str, dict[str, Any]] = {
    "independent noise": {"color": "C0", "marker": "o"},
    "binary tree": {"color": "C1", "marker": "s"},
    "online tree": {"color": "C1", "marker": "s"},
    "square root": {"color": "C2", "marker": "^"},
    "ν-DP-FTRL": {"color": "C3", "marker": "D"},
    "damped root": {"color": "C4", "marker": "v"},
    "dense optimum": {"color": "C5", "marker": "*"},
    CYCLIC: {"color": "C6", "marker": "<"},
    BINS: {"color": "C8", "marker": "P"},
    SAMPLED: {"color": "black", "marker": "x"},
    "full batches": {"color": "0.5", "marker": "+"},
    PUBLIC: {"color": "0.5", "marker": "", "linestyle": ":"},
}


def panel(name: str, what: str) -> str:
    """The name of a panel."""
    return f"{name}, {what}"


def data(
    names: Sequence[str] = tuple(EXPERIMENTS), *, methods: Sequence[str] = METHODS, epsilons: Sequence[float] = EPSILONS
) -> Data:
    """The errors of prefix sums."""
    x = np.array(epsilons)
    found = []
    for name in names:
        for method in methods:
            if method in (FULL, PUBLIC):
                continue
            y = np.array([prefix_error(SHOWN[name], method, epsilon) for epsilon in epsilons])
            found.append(Series(panel(name, "prefix sums"), method, "exact", x, y))
    return tuple(found)


def simulate(
    run: SimulationRun,
    names: Sequence[str] = tuple(EXPERIMENTS),
    *,
    methods: Sequence[str] = METHODS,
    epsilons: Sequence[float] = EPSILONS,
    tuning: int = TUNING,
    judging: int = JUDGING,
) -> Simulated:
    """Tune and judge all methods."""
    series: list[Series] = []
    failures: list[str] = []
    for name in names:
        experiment = SHOWN[name]
        try:
            series += _compared(run, experiment, methods, epsilons, tuning, judging * math.isqrt(run.repeats))
        except OSError:
            raise
        except Exception as fault:
            failures.append(f"{name}: {told(fault)}")
    return Simulated(tuple(series), tuple(failures))


def _compared(
    run: SimulationRun,
    experiment: Experiment,
    methods: Sequence[str],
    epsilons: Sequence[float],
    tuning: int,
    judging: int,
) -> list[Series]:
    cases = [(method, epsilon) for method in methods for epsilon in (epsilons if method != PUBLIC else epsilons[:1])]
    candidates = [choice for case in cases for choice in grid(*case)]
    tuned = _scored(run, experiment, candidates, [(run.seed, 0, i) for i in range(tuning)]).mean(axis=0)
    size = len(RATES) * len(MOMENTA)
    best = [candidates[k * size + int(part.argmax())] for k, part in enumerate(tuned.reshape(-1, size))]
    judged = _scored(run, experiment, best, [(run.seed, 1, i) for i in range(judging)])
    column = dict(zip(cases, judged.T, strict=True))
    choice = dict(zip(cases, best, strict=True))
    x = np.array(epsilons)
    where = panel(experiment.name, "score")
    found = []
    for method in methods:
        own = [(method, epsilons[0] if method == PUBLIC else epsilon) for epsilon in epsilons]
        values = np.array([column[case] for case in own])
        errors = values.std(axis=1, ddof=1) / math.sqrt(judging)
        for kind, y in (
            ("mean", values.mean(axis=1)),
            ("standard error", errors),
            ("tuned learning rate", np.array([choice[case].learning_rate for case in own])),
            ("tuned momentum", np.array([choice[case].momentum for case in own])),
        ):
            found.append(Series(where, method, kind, x, y))
        if SAMPLED in methods and method not in (SAMPLED, PUBLIC):
            pairs = values - np.array([column[SAMPLED, epsilon] for epsilon in epsilons])
            intervals = np.array([paired_interval(pair) for pair in pairs])
            below = panel(experiment.name, "difference to DP-SGD")
            found.append(Series(below, method, "mean", x, pairs.mean(axis=1)))
            found.append(Series(below, method, "lower end", x, intervals[:, 0]))
            found.append(Series(below, method, "upper end", x, intervals[:, 1]))
    return found


def _scored(
    run: SimulationRun, experiment: Experiment, choices: Sequence[Run], seeds: Sequence[tuple[int, int, int]]
) -> Array:
    """The score of each choice for each seed, shape (seeds, choices)."""
    cases = [(experiment, tuple(choices), seed, run.directory) for seed in seeds]
    return np.array(list(as_finished(_one, cases, run)))


def _one(experiment: Experiment, choices: tuple[Run, ...], seed: tuple[int, int, int], directory: Path | None) -> Array:
    described = ["training", experiment, [list(choice) for choice in choices], list(seed)]
    return kept(directory, described, lambda: _scores(experiment)(experiment, choices, seed))


def _scores(experiment: Experiment) -> Callable[[Experiment, Sequence[Run], Sequence[int]], Array]:
    if experiment.network is not None:
        return scores
    from corrnoise.simulations.private_training import cifar

    return cifar.scores


def draw(data: Data) -> Drawing:
    """A row for each data set: scores, differences to DP-SGD, errors of prefix sums."""
    curves = {(s.panel, s.method, s.kind): s for s in data}
    names = [name for name in SHOWN if any(s.panel.startswith(f"{name},") for s in data)]
    figure, grid_of_axes = subplots(0.9 + 1.9 * len(names), len(names), 3, sharex=True, squeeze=False)
    for row, name in zip(grid_of_axes, names, strict=True):
        task = SHOWN[name].task
        unit = 100 if task == "classification" else 1
        for k, method in enumerate(LOOKS):
            look = {"markersize": 4, "linewidth": 1, **LOOKS[method]}
            mean = curves.get((panel(name, "score"), method, "mean"))
            if mean is not None:
                bars = 2 * unit * curves[panel(name, "score"), method, "standard error"].y
                row[0].errorbar(mean.x, unit * mean.y, yerr=bars, label=method, capsize=2, **look)
            pair = curves.get((panel(name, "difference to DP-SGD"), method, "mean"))
            if pair is not None:
                ends = [curves[pair.panel, method, kind].y for kind in ("lower end", "upper end")]
                offset = 1 + 0.015 * (k - 3)
                bars = unit * np.abs(np.array(ends) - pair.y)
                row[1].errorbar(pair.x * offset, unit * pair.y, yerr=bars, capsize=2, **look)
            exact = curves.get((panel(name, "prefix sums"), method, "exact"))
            if exact is not None:
                row[2].plot(exact.x, exact.y, label=method, **look)
        _finish(row, name, task)
    ticks = data[0].x
    for axes in grid_of_axes[-1]:
        axes.set(xscale="log", xlabel=r"$\varepsilon$", xticks=ticks, xticklabels=[f"{e:g}" for e in ticks])
        axes.minorticks_off()
    handles, labels = max(
        (axes.get_legend_handles_labels() for axes in grid_of_axes[0]), key=lambda found: len(found[1])
    )
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _finish(row: Any, name: str, task: str) -> None:
    percent = " in %" if task == "classification" else ""
    row[0].set(title=name, ylabel=("Accuracy" if percent else "$R^2$") + percent)
    row[1].set(title=f"{name}, minus DP-SGD", ylabel="Difference" + percent)
    row[1].axhline(0, color="black", linewidth=0.6)
    row[2].set(title=f"{name}, theory", ylabel="Error of prefix sums", yscale="log")


def report(data: Data) -> str:
    """Tables of scores and of paired differences, and what to read from them."""
    curves = {(s.panel, s.method, s.kind): s for s in data}
    blocks = []
    epsilons = data[0].x
    for name, experiment in SHOWN.items():
        unit = 100 if experiment.task == "classification" else 1
        lines = []
        for method in LOOKS:
            mean = curves.get((panel(name, "score"), method, "mean"))
            if mean is None:
                continue
            errors = curves[mean.panel, method, "standard error"].y
            cells = [f"{unit * y:6.2f} ({unit * e:.2f})" for y, e in zip(mean.y, errors, strict=True)]
            pair = curves.get((panel(name, "difference to DP-SGD"), method, "mean"))
            if pair is not None:
                low = curves[pair.panel, method, "lower end"].y
                high = curves[pair.panel, method, "upper end"].y
                cells += [
                    f"{unit * y:+.2f} [{unit * a:+.2f}, {unit * b:+.2f}]"
                    for y, a, b in zip(pair.y, low, high, strict=True)
                ]
            lines.append(f"  {method:<24}" + "  ".join(f"{cell:<14}" for cell in cells))
        if lines:
            head = ", ".join(f"{e:g}" for e in epsilons)
            blocks.append(f"{name}, {SCORES[experiment.task]} at epsilon = {head}:\n" + "\n".join(lines))
    tuned = [s for s in data if s.kind == "tuned learning rate"]
    at_ends = sum(int(np.isin(s.y, (RATES[0], RATES[-1])).sum()) for s in tuned)
    count = sum(s.y.size for s in tuned)
    tables = "\n\n".join(blocks)
    return f"""\
Mean (standard error) over the judged seeds, then the paired difference to DP-SGD with a 95 % bootstrap interval:

{tables}

- Small bundled data stand in for the paper's CIFAR-10; corrnoise figures private_training --download is for a GPU.
- {at_ends} of the {count} tuned learning rates are at an end of the grid.
- DP-SGD has Poisson sampling, counted by the certified accountant; noise whose name says nothing of batches has a
  fixed order.  All have zero-out adjacency.
- Tuning looks at the data and is not covered by epsilon, nor is the standardisation of the tables."""


def _figure(
    name: str,
    shown: Sequence[Experiment] = tuple(EXPERIMENTS.values()),
    methods: Sequence[str] = METHODS,
    epsilons: Sequence[float] = EPSILONS,
    *,
    tuning: int = TUNING,
    judging: int = JUDGING,
    original: Callable[[], PaperFigure] | None = None,
) -> PaperFigure:
    settings: dict[str, Any] = {"methods": methods, "epsilons": epsilons}
    names = tuple(e.name for e in shown)
    sizes = "; ".join(f"{e.name}: n = {e.training}, B = {e.batch_size}, {e.epochs} epochs" for e in shown)
    layers = ", ".join(
        f"{e.name} {'the network of Appendix G' if e.network is None else e.network.sizes}" for e in shown
    )
    return PaperFigure(
        name=name,
        source="Figure 4 of arXiv 2310.06771" + ("" if CIFAR_10 in shown else ", on other data"),
        title="private training under each mechanism, beside DP-SGD with sampled batches",
        panels={
            panel(experiment.name, what): text
            for experiment in shown
            for what, text in (
                ("score", f"x = epsilon; y = {SCORES[experiment.task]}, its standard error, tuned values"),
                ("difference to DP-SGD", "x = epsilon; y = paired difference of the scores, its bootstrap interval"),
                ("prefix sums", "x = epsilon; y = root mean square error of prefix sums, in units of the clip norm"),
            )
        },
        parameters=(
            sizes,
            f"layers: {layers}",
            f"clip norm {CLIP_NORM:g}, delta = {DELTA:g}; rates {RATES[0]:g} to {RATES[-1]:g}, momentum {MOMENTA}",
            f"tuned with {tuning} seeds, judged with {judging} others; error bars: two standard errors; paired: 95 %",
        ),
        data=partial(data, names, **settings),
        draw=draw,
        report=report,
        simulate=lambda run: simulate(run, names, tuning=tuning, judging=judging, **settings),
        on_original_data=original,
    )


#: On CIFAR-10, which takes days on a GPU: fewer seeds, and one to tune with.
_cifar = partial(_figure, "private_training_cifar", (CIFAR_10,), STREAMED, PAPER, tuning=1, judging=12)
FIGURES = {
    "private_training": _figure("private_training", original=_cifar),
    "sampled_training": _figure("sampled_training", (LINEAR,), SAMPLING, (1.0, 2.0, 5.0, 8.0)),
}
