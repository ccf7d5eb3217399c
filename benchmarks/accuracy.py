"""Test accuracy of private softmax regression on digits: does correlated noise pay?

    .venv/bin/python -m benchmarks.accuracy [--seeds N] [--output FOLDER]

All methods have the same data, batches per epoch, clipping norm and grid of learning rates. A third of the seeds tunes
the learning rate, the others judge it, and runs with the same seed are compared in pairs. The noise is seeded here;
a private run draws it in secret. ``--output`` writes ``accuracy.csv`` and ``accuracy.svg``.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import corrnoise as cn

Array = NDArray[np.float64]
EXAMPLES = 1437  #: of the 1797 digits; the others are the test set
DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0)
SETTINGS = ((1, 60), (4, 20))  #: epochs, and steps of an epoch
LEARNING_RATES = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
DPSGD, INDEPENDENT, CORRELATED = METHODS = (
    "DP-SGD, Poisson batches",
    "independent noise, fixed order",
    "correlated noise, fixed order",
)
COLOURS = ("#666666", "#D55E00", "#0072B2")
NORMAL_QUANTILE = 1.96  #: of a two-sided interval of 95 %


class Row(NamedTuple):
    """A method in a setting: accuracies in percent, each with the half width of its 95 % interval."""

    epochs: int
    steps: int
    epsilon: float
    method: str
    predicted_error: float  # over that of DP-SGD
    learning_rate: float
    accuracy: float
    accuracy_interval: float
    difference: float  # to DP-SGD with the same seed
    difference_interval: float


def sampled_batches(steps: int, rate: float, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """The examples of each step, each drawn with probability ``rate``."""
    for _ in range(steps):
        yield np.flatnonzero(rng.random(EXAMPLES) < rate)


def ordered_batches(steps: int, period: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """The examples of each step: one permutation, the same in every epoch of ``period`` steps."""
    size = EXAMPLES // period
    order = rng.permutation(EXAMPLES)
    for step in range(steps):
        first = step % period * size
        yield order[first : first + size]


def accuracies(noise: Array, chosen: Iterator[NDArray[np.int64]], size: float, seed: int) -> Array:
    """Test accuracy at each learning rate, in percent, after training with clipping norm 1."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng((seed, 0)).permutation(len(digits))
    images, digits = images[order] / 16, digits[order]
    train, labels = images[:EXAMPLES], np.eye(10)[digits[:EXAMPLES]]
    models = np.zeros((len(LEARNING_RATES), 64, 10))
    for step_noise, batch in zip(noise, chosen, strict=True):
        inputs = train[batch]
        scores = inputs @ models
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        residuals = scores / scores.sum(axis=2, keepdims=True) - labels[batch]
        norms = np.linalg.norm(inputs, axis=1) * np.linalg.norm(residuals, axis=2)  # of the gradients
        residuals *= np.minimum(1.0, 1.0 / np.maximum(norms, 1e-12))[:, :, np.newaxis]
        gradients = inputs.T @ residuals + step_noise.reshape(64, 10)
        models -= LEARNING_RATES[:, np.newaxis, np.newaxis] * gradients / size
    predicted = np.argmax(images[EXAMPLES:] @ models, axis=2)
    return 100 * np.asarray((predicted == digits[EXAMPLES:]).mean(axis=1), dtype=float)


def compare(epochs: int, period: int, epsilon: float, seeds: int) -> list[Row]:
    """The rows of a setting: each method with the learning rate that is best on the tuning seeds."""
    steps = epochs * period
    budget = cn.Budget(epsilon=epsilon, delta=DELTA, clip_norm=1.0)
    order = cn.Participation.fixed_epochs(steps, epochs=epochs)
    design = cn.design(budget, order, memory=4)
    sampled = cn.Participation.poisson(steps, 1 / period)
    independent = cn.mechanisms.DPSGD()
    ways: tuple[tuple[Any, Any, Callable[..., Iterator[NDArray[np.int64]]], float], ...] = (
        (independent, sampled, sampled_batches, 1 / period),
        (independent, order, ordered_batches, period),
        (design.mechanism, order, ordered_batches, period),
    )
    tuning = max(seeds // 3, 1)
    rows: list[Row] = []
    baseline, baseline_error = np.zeros(seeds - tuning), 1.0
    for method, (mechanism, participation, batches, rate) in zip(METHODS, ways, strict=True):
        multiplier = mechanism.program(participation).multiplier(budget)
        draws = (np.random.default_rng((seed, 1)).normal(size=(steps, 640)) for seed in range(seeds))
        found = np.array(
            [
                accuracies(
                    multiplier * mechanism.noising(each),
                    batches(steps, rate, np.random.default_rng((seed, 2))),
                    EXAMPLES / period,
                    seed,
                )
                for seed, each in enumerate(draws)
            ]
        )
        best = int(found[:tuning].mean(axis=0).argmax())
        judged = found[tuning:, best]
        error = multiplier * float(np.sqrt(np.mean(np.cumsum(mechanism.noising(np.eye(steps)), axis=0) ** 2)))
        if method == DPSGD:
            baseline, baseline_error = judged, error
        width = NORMAL_QUANTILE / np.sqrt(len(judged))
        rows.append(
            Row(
                epochs,
                steps,
                epsilon,
                method,
                error / baseline_error,
                float(LEARNING_RATES[best]),
                float(judged.mean()),
                float(width * judged.std(ddof=1)),
                float((judged - baseline).mean()),
                float(width * (judged - baseline).std(ddof=1)),
            )
        )
    return rows


def write(rows: list[Row], folder: Path) -> None:
    """Write the rows to ``accuracy.csv``, and draw them in ``accuracy.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "accuracy.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(Row._fields)
        table.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
    draw(rows, folder / "accuracy.svg")


def draw(rows: list[Row], path: Path) -> None:
    """Test accuracy over ε, with the intervals, in a panel for each setting."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "corrnoise", "font.family": "sans-serif"})
    import matplotlib.pyplot as plt

    settings = list(dict.fromkeys((row.epochs, row.steps) for row in rows))
    figure, panels = plt.subplots(1, len(settings), figsize=(7.0, 3.0), sharey=True, squeeze=False)
    for panel, (epochs, steps) in zip(panels[0], settings, strict=True):
        for method, colour in zip(METHODS, COLOURS, strict=True):
            own = [row for row in rows if (row.epochs, row.steps, row.method) == (epochs, steps, method)]
            panel.errorbar(
                [row.epsilon for row in own],
                [row.accuracy for row in own],
                yerr=[row.accuracy_interval for row in own],
                label=method,
                color=colour,
                marker="o",
                markersize=3,
                linewidth=1.2,
                capsize=2,
            )
        ticks = [row.epsilon for row in rows if row.method == DPSGD and row.epochs == epochs]
        panel.set(xscale="log", xlabel="ε", title=f"{epochs} epoch{'s' * (epochs > 1)} of {steps // epochs} steps")
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.minorticks_off()
        panel.grid(alpha=0.2)
    panels[0][0].set_ylabel("test accuracy in %")
    panels[0][-1].legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each method in each setting."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=96, metavar="N", help="a third tunes, the others judge")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write accuracy.csv and accuracy.svg there")
    given = parser.parse_args(arguments)
    rows = []
    for epochs, period in SETTINGS:
        for epsilon in EPSILONS:
            for row in compare(epochs, period, epsilon, given.seeds):
                rows.append(row)
                print(
                    f"{row.epochs} × {period} steps, ε = {row.epsilon:g}: {row.method:31}"
                    f"{row.accuracy:6.1f} ± {row.accuracy_interval:.1f} %, to DP-SGD {row.difference:+5.1f} ± "
                    f"{row.difference_interval:.1f}; learning rate {row.learning_rate:g}, "
                    f"predicted error {row.predicted_error:.2f}",
                    flush=True,
                )
    if given.output is not None:
        write(rows, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
