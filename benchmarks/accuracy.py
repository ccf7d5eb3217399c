"""Test accuracy of private training: does correlated noise pay?

    .venv/bin/python -m benchmarks.accuracy [--quick] [--output FOLDER]

Needs the extras ``data`` and ``jax``, and Opacus.  All methods have the same data, batch sizes, models and grid of step
sizes, clipping norms and momenta.  Some seeds tune, others judge, and runs with the same seed are compared in pairs.
The noise is the noise of a run, made from seeded normal variables; a private run draws them in secret.  ``--output``
appends a row to ``accuracy.csv`` after each method, so that the same command resumes, and draws ``accuracy.svg``.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import subprocess
import sys
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import corrnoise as cn

if TYPE_CHECKING:
    from benchmarks.accuracy_tasks import Task

Array = NDArray[np.float64]
COMMAND = "python -m benchmarks.accuracy"
DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0)
BUFFERS = REPLAYS = 4  #: the largest numbers for correlated noise
MOMENTA = (0.0, 0.9)
TUNING_SEEDS, JUDGING_SEEDS = range(1000, 1004), range(20)
RUNS_AT_ONCE = 10
LARGEST_RATIO = 0.99  #: of a predicted error that counts as smaller
DPSGD, FIXED, CYCLIC, BINS, REPLAYED, OPACUS = METHODS = (
    "DP-SGD, Poisson batches",
    "correlated noise, one fixed order",
    "banded noise, cyclic Poisson batches",
    "correlated noise, balls in bins",
    "correlated noise with replays, one fixed order",
    "DP-SGD, Poisson batches, accountant of Opacus",
)
COLOURS = dict(zip(METHODS, ("#000000", "#0072B2", "#E69F00", "#D55E00", "#56B4E9", "#999999"), strict=True))


class Row(NamedTuple):
    """A method in a setting, with its results for each judging seed.

    Parameters
    ----------
    task, epochs, steps, epsilon, method
        The setting; ``steps`` counts the steps of the whole run.
    multiplier : float
        Standard deviation of the independent normal variables over the clipping norm.
    predicted_error, predicted_last_error : float
        The error of the iterates due to noise over the error of DP-SGD, in the root mean square over the run and after
        its last step, for gradients that do not depend on the noise.
    momentum, clip_norm, step_size : float
        The best ones on the tuning seeds.
    accuracies, losses : str
        Test accuracy in percent and test loss for each judging seed, separated by spaces.
    noiseless_losses : str
        The same runs without noise, for the first judging seeds.
    command, commit : str
        How the row was made.
    """

    task: str
    epochs: int
    steps: int
    epsilon: float
    method: str
    multiplier: float
    predicted_error: float
    predicted_last_error: float
    momentum: float
    clip_norm: float
    step_size: float
    accuracies: str
    losses: str
    noiseless_losses: str
    command: str
    commit: str

    @property
    def setting(self) -> tuple[str, int, int, float]:
        return self.task, self.epochs, self.steps, self.epsilon


class Summary(NamedTuple):
    """A row against DP-SGD in the same setting; each interval is half of a 95 % interval (Student's t)."""

    row: Row
    accuracy: float
    accuracy_interval: float
    difference: float
    difference_interval: float
    noise_share: float  # of the test loss
    loss_ratio: float  # to DP-SGD


# -- noise and batches -------------------------------------------------------------------------------------------------


@functools.cache
def _optimum(participation: cn.Participation, replays: int, budget: cn.Budget | None) -> Any:
    return cn.optimise(cn.SGD(), participation, memory=BUFFERS, replays=replays, budget=budget)


@functools.cache
def noise(method: str, epochs: int, period: int, epsilon: float) -> tuple[cn.Participation, float, Array]:
    """The participation of a method, its noise multiplier, and the noise of the steps from independent normals."""
    steps, budget = epochs * period, cn.Budget(epsilon=epsilon, delta=DELTA, clip_norm=1.0)
    if method in (DPSGD, OPACUS):
        found = _optimum(cn.Participation.poisson(steps, 1 / period), 0, budget)
    elif method == CYCLIC:
        groups = range(2, min(BUFFERS + 1, period) + 1)
        turns = (cn.Participation.cyclic_poisson(steps, period=each, rate=each / period) for each in groups)
        found = min((_optimum(each, 0, budget) for each in turns), key=lambda each: each.error_at(budget))
    elif method == BINS:
        found = _optimum(cn.Participation.balls_in_bins(steps, period=period), 0, budget)
    else:
        order = cn.Participation.fixed_epochs(steps, epochs=epochs)
        found = _optimum(order, REPLAYS if method == REPLAYED else 0, None)
    if method == OPACUS:
        from opacus.accountants.utils import get_noise_multiplier

        options = {"target_epsilon": epsilon, "target_delta": DELTA, "accountant": "prv"}
        with warnings.catch_warnings(action="ignore"):  # about the Rényi orders of a first guess
            multiplier = get_noise_multiplier(sample_rate=1 / period, steps=steps, **options)
    else:
        multiplier = found.mechanism.program(found.participation).multiplier(budget)
    return found.participation, float(multiplier), np.asarray(found.mechanism.noising(np.eye(steps)))


def used(participation: cn.Participation, users: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Whether each step uses each user."""
    steps = np.arange(participation.steps or 0)[:, np.newaxis]
    joins = rng.random((steps.size, users))
    if isinstance(participation, cn.participation.Poisson):
        return joins < participation.rate
    if isinstance(participation, cn.participation.CyclicPoisson):
        period = participation.period
        return (steps % period == rng.permutation(users) % period) & (joins < participation.rate)
    period = participation.worst.period
    bins = isinstance(participation, cn.participation.BallsInBins)
    return np.asarray(steps % period == (rng.integers(period, size=users) if bins else rng.permutation(users) % period))


def predicted_errors(noise_of_steps: Array, multiplier: float) -> Array:
    """The error of the iterates, in the root mean square over the run and after its last step."""
    squares = (multiplier * np.cumsum(noise_of_steps, axis=0)) ** 2
    return np.sqrt([squares.sum(axis=1).mean(), squares[-1].sum()])


# -- experiment --------------------------------------------------------------------------------------------------------


class Setup(NamedTuple):
    """How much is tried: all of it, or with ``--quick`` little of it."""

    tasks: tuple[Task, ...]
    epsilons: tuple[float, ...] = EPSILONS
    tuning: Iterable[int] = TUNING_SEEDS
    judging: Iterable[int] = JUDGING_SEEDS


def _setup(quick: bool) -> Setup:
    from benchmarks.accuracy_tasks import TASKS

    if not quick:
        return Setup(TASKS)
    little: dict[str, Any] = {"trained": 16, "epochs": 2, "period": 4, "step_sizes": (1.0,), "clip_norms": (1.0,)}
    short = tuple(replace(task, **little) for task in TASKS[2:])
    return Setup(short, (8.0,), range(1000, 1001), range(2))


def measure(task: Task, epsilon: float, method: str, setup: Setup, baseline: Row | None) -> Row:
    """Tune a method on the tuning seeds, and train with all others."""
    from benchmarks.accuracy_tasks import Run

    participation, multiplier, noise_of_steps = noise(method, task.epochs, task.period, epsilon)

    def run(seed: int, momentum: float, clip_norm: float, step_size: float, scale: float = multiplier) -> Run:
        chosen = used(participation, task.trained, np.random.default_rng((seed, 2)))
        return Run(seed, chosen, scale * noise_of_steps, momentum, clip_norm, step_size)

    if method == OPACUS and baseline is not None:  # another multiplier alone, so the best settings are the same
        best = (baseline.momentum, baseline.clip_norm, baseline.step_size)
    else:
        grid = list(itertools.product(MOMENTA, task.clip_norms, task.step_sizes))
        tried = _results(task, [run(seed, *each) for each in grid for seed in setup.tuning])[0]
        best = grid[int(tried.reshape(len(grid), -1).mean(axis=1).argmax())]
    accuracies, losses = _results(task, [run(seed, *best) for seed in setup.judging])
    noiseless = _results(task, [run(seed, *best, 0.0) for seed in list(setup.judging)[:RUNS_AT_ONCE]])[1]
    _, plain_multiplier, plain_noise = noise(DPSGD, task.epochs, task.period, epsilon)
    errors = predicted_errors(noise_of_steps, multiplier) / predicted_errors(plain_noise, plain_multiplier)
    setting = (task.name, task.epochs, task.steps, epsilon, method, multiplier)
    texts = (_text(accuracies), _text(losses), _text(noiseless))
    return Row(*setting, float(errors[0]), float(errors[1]), *best, *texts, COMMAND, _commit())


def _text(values: Array) -> str:
    return " ".join(f"{value:.5g}" for value in values)


def _results(task: Task, runs: list[Any]) -> tuple[Array, Array]:
    """The accuracies and losses of runs, a few at once."""
    from benchmarks.accuracy_tasks import trained

    parts = [trained(task, runs[i : i + RUNS_AT_ONCE]) for i in range(0, len(runs), RUNS_AT_ONCE)]
    return np.concatenate([each[0] for each in parts]), np.concatenate([each[1] for each in parts])


@functools.cache
def _commit() -> str:
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


# -- results -----------------------------------------------------------------------------------------------------------


def read(path: Path) -> list[Row]:
    """The rows of a file in the order of the settings; none without a file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file)
        if tuple(table.fieldnames or ()) != Row._fields:
            raise ValueError(f"{path} must have the columns {', '.join(Row._fields)}: move the file away")
        kinds = {"epochs": int, "steps": int, "epsilon": float, "multiplier": float, "predicted_error": float}
        kinds |= dict.fromkeys(("predicted_last_error", "momentum", "clip_norm", "step_size"), float)
        rows = [Row(**{name: kinds.get(name, str)(value) for name, value in each.items()}) for each in table]
    return rows


def append(row: Row, path: Path) -> None:
    """Write one more row."""
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        if new:
            table.writerow(Row._fields)
        table.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in row])


def summaries(rows: list[Row]) -> list[Summary]:
    """The results of each row, compared with DP-SGD."""
    from scipy import stats

    plain = {row.setting: row for row in rows if row.method == DPSGD}
    made = []
    for row in rows:
        accuracies, losses, noiseless = (
            np.array(text.split(), dtype=float) for text in (row.accuracies, row.losses, row.noiseless_losses)
        )
        differences = accuracies - np.array(plain[row.setting].accuracies.split(), dtype=float)
        half = stats.t.ppf(0.975, accuracies.size - 1) / np.sqrt(accuracies.size)
        with_noise = losses[: noiseless.size].mean()
        made.append(
            Summary(
                row,
                float(accuracies.mean()),
                float(half * accuracies.std(ddof=1)),
                float(differences.mean()),
                float(half * differences.std(ddof=1)),
                float((with_noise - noiseless.mean()) / with_noise),
                float(losses.mean() / np.array(plain[row.setting].losses.split(), dtype=float).mean()),
            )
        )
    return made


def table(found: list[Summary], task: str, epochs: int) -> list[str]:
    """The rows of a Markdown table: a method, and its results for each ε."""
    lines = []
    for method in METHODS:
        own = [each for each in found if (each.row.task, each.row.epochs, each.row.method) == (task, epochs, method)]
        cells = [
            f"{each.accuracy:.1f}"
            if method == DPSGD
            else f"{each.difference:+.1f} ± {each.difference_interval:.1f}".replace("-", "−")
            for each in sorted(own, key=lambda each: each.row.epsilon)
        ]
        if cells:
            lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def unconfirmed(found: list[Summary]) -> list[str]:
    """The rows of a Markdown table: smaller predicted errors that accuracy does not show, most noise first."""
    shares = {each.row.setting: each.noise_share for each in found if each.row.method == DPSGD}
    lines = []
    for each in sorted(found, key=lambda each: -shares[each.row.setting]):
        row = each.row
        shown = each.difference > each.difference_interval
        if row.method in (DPSGD, OPACUS) or row.predicted_error > LARGEST_RATIO or shown:
            continue
        setting = f"{row.task}, {row.epochs} × {row.steps // row.epochs} steps | {row.epsilon:g} | {row.method}"
        result = f"{each.difference:+.1f} ± {each.difference_interval:.1f}".replace("-", "−")
        lines.append(f"| {setting} | {row.predicted_error:.2f} | {result} | {100 * shares[row.setting]:.0f} % |")
    return lines


def draw(found: list[Summary], path: Path) -> None:
    """The difference of test accuracy to DP-SGD over ε, with its interval, in a panel for each task."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "corrnoise", "font.sans-serif": ["DejaVu Sans"]}
    )
    import matplotlib.pyplot as plt

    settings = list(dict.fromkeys((each.row.task, each.row.epochs, each.row.steps) for each in found))
    figure, panels = plt.subplots(1, len(settings), figsize=(2.4 * len(settings), 3.4), squeeze=False)
    for panel, setting in zip(panels[0], settings, strict=True):
        here = [each for each in found if each.row[:3] == setting]
        for i, method in enumerate((FIXED, CYCLIC, BINS, REPLAYED)):
            own = sorted((each for each in here if each.row.method == method), key=lambda each: each.row.epsilon)
            panel.errorbar(
                [each.row.epsilon * 1.04 ** (i - 1.5) for each in own],  # intervals next to each other
                [each.difference for each in own],
                yerr=[each.difference_interval for each in own],
                label=method,
                color=COLOURS[method],
                marker="o",
                markersize=3,
                linewidth=1.2,
            )
        panel.axhline(0, color=COLOURS[DPSGD], linewidth=1, linestyle="--", label=DPSGD)
        task, epochs, steps = setting
        panel.set_title(f"{task},\n{epochs} × {steps // epochs} steps", fontsize=9)
        ticks = sorted({each.row.epsilon for each in here})
        panel.set(xscale="log", xlabel="ε")
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.minorticks_off()
    panels[0][0].set_ylabel("test accuracy minus DP-SGD, in %")
    handles, labels = panels[0][-1].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="lower center", ncols=3, fontsize=8)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Measure the rows that the file does not have, and print a table for each task."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few short runs, whose results say nothing")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write accuracy.csv and accuracy.svg there")
    given = parser.parse_args(arguments)
    setup = _setup(given.quick)
    path = None if given.output is None else given.output / "accuracy.csv"
    rows = [] if path is None else read(path)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    there = {(row.setting, row.method): row for row in rows}
    for method, task, epsilon in itertools.product(METHODS, setup.tasks, setup.epsilons):
        setting = (task.name, task.epochs, task.steps, epsilon)
        if (setting, method) in there or (method == REPLAYED and task.epochs == 1):  # one epoch needs no replays
            continue
        row = measure(task, epsilon, method, setup, there.get((setting, DPSGD)))
        there[setting, method] = row
        if path is not None:
            append(row, path)
        accuracy = np.mean(np.array(row.accuracies.split(), dtype=float))
        print(
            f"{task.name}, {task.epochs} × {task.period} steps, ε = {epsilon:g}, {method}: {accuracy:.1f}", flush=True
        )
    order = {setting: i for i, setting in enumerate((task.name, task.epochs) for task in setup.tasks)}
    rows = sorted(there.values(), key=lambda row: (order.get(row.setting[:2], -1), row.epsilon))
    found = summaries(rows)
    for name, epochs in order:
        print(f"\n{name}, {epochs} epochs", *table(found, name, epochs), sep="\n")
    print("\nsmaller predicted errors that accuracy does not show", *unconfirmed(found), sep="\n")
    if path is not None:
        draw(found, path.with_suffix(".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
