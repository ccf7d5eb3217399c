"""``python -m benchmarks.design_grid``: time, peak memory and distance from the floor of designs over a grid of runs.

Runs have one order in all epochs, or participations that are an epoch apart; the spectrum has 10 000 eigenvalues.
Each run is designed in a process of its own, so that the peak belongs to the design, with compiled code in the cache.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

import corrnoise as cn
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.problems.quadratic import QuadraticProblem

STEPS = (10, 100, 1000, 2048, 2049, 4096, 4097, 10_000, 100_000, 1_000_000)
EPOCHS = (1, 4, 100, 1000)
EIGENVALUES = 1 / np.arange(1.0, 10_001)
SPECTRUM = cn.LinearRegression(EIGENVALUES, learning_rate=0.5 / (EIGENVALUES.sum() + 2))
TASKS: dict[str, SGD | QuadraticProblem] = {
    "prefix sums": SGD(),
    "momentum": SGD(momentum=0.9),
    "schedule": SGD(momentum=0.9, cool_down=0.25),
    "spectrum": SPECTRUM,
}
ORDERS: dict[str, Callable[..., cn.Participation]] = {
    "same": cn.Participation.fixed_epochs,
    "apart": cn.Participation.min_sep,
}


def measured(steps: int, epochs: int, task: str, order: str) -> str:
    """A line of the table."""
    participation = ORDERS[order](steps, period=-(-steps // epochs))
    start = time.perf_counter()
    try:
        found = cn.optimise(TASKS[task], participation, memory=4)
        result = f"{found.label}, {'no bound' if found.optimality_gap is None else f'{1 + found.optimality_gap:.4f}'}"
    except (ValueError, MemoryError) as error:
        result = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"{steps:>9}  {epochs:>6}  {task:<12}  {order:<5}  {seconds:>8.2f}  {gigabytes:>6.2f}  {result}"


def main(arguments: list[str] | None = None) -> None:
    """Print the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.design_grid", description=(__doc__ or "").split("\n")[2]
    )
    parser.add_argument("--most", type=int, default=max(STEPS), help="leave longer runs out")
    most = parser.parse_args(arguments).most
    print(f"{'steps':>9}  {'epochs':>6}  {'task':<12}  {'order':<5}  {'seconds':>8}  {'GB':>6}  family, error/floor")
    for steps, epochs, task, order in product(STEPS, EPOCHS, TASKS, ORDERS):
        if epochs <= steps <= most:
            with ProcessPoolExecutor(1) as alone:
                print(alone.submit(measured, steps, epochs, task, order).result(), flush=True)


if __name__ == "__main__":
    main()
