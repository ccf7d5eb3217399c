"""The parameters of private momentum with the smallest proved gradient norm."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.momentum_aggregation.run_bounds import DyadicTask

Algorithm = Literal["Algorithm 1", "Algorithm 2"]
ALGORITHMS: tuple[Algorithm, ...] = ("Algorithm 1", "Algorithm 2")


@record
class BestBound(Record):
    """A bound of E ‖∇F(ŵ)‖ and the parameters that attain it."""

    value: float  #: the bound, which holds for these parameters whether they are the best or not
    log2_epochs: int  #: the number of epochs is 2 to this power
    #: α, η and γ; γ = 1 for Algorithm 1, which has none
    alpha: float
    learning_rate: float
    gamma: float = 1.0


def best_momentum_bounds(
    task: DyadicTask, algorithm: Algorithm, *, most_log2_epochs: int = 10
) -> tuple[BestBound, ...]:
    """Minimise the bound of ``run_bounds`` over α, η and γ for each number of epochs 1, 2, 4, ….

    A local minimum for 2^j epochs is the start for 2^{j+1}, with η and γ halved.  The values belong to the parameters
    found, so they are true bounds in any case.
    """
    checks.instance("task", task, DyadicTask)
    checks.choice("algorithm", algorithm, ALGORITHMS)
    start = np.array([math.log(task.examples), 0.5 * math.log(task.examples), 0.0][: 2 + (algorithm == "Algorithm 2")])
    found = []
    for j in range(checks.integer("most_log2_epochs", most_log2_epochs, 0) + 1):
        bound, start = _at(task, algorithm, j, start)
        found.append(bound)
        start = start + np.array([0.0, math.log(2), math.log(2)])[: start.size]
    return tuple(found)


def _at(task: DyadicTask, algorithm: Algorithm, log2_epochs: int, start: Array) -> tuple[BestBound, Array]:
    """A local minimum for a number of epochs, and its place: −log α, −log η and −log(γ/(1 − γ))."""

    def parameters(x: Array) -> dict[str, float]:
        alpha = math.exp(-float(np.clip(x[0], 0.0, 50 * math.log(2))))
        found = {"alpha": min(max(alpha, 2.0**-50), 1.0), "learning_rate": math.exp(-float(np.clip(x[1], -50, 300)))}
        if algorithm == "Algorithm 2":
            found["gamma"] = 1 / (1 + math.exp(float(np.clip(x[2], -30, 300))))
        return found

    run = task.algorithm_1 if algorithm == "Algorithm 1" else task.algorithm_2

    def objective(x: Array) -> float:
        return math.log(run(log2_epochs=log2_epochs, **parameters(x)))

    options = {"xatol": 3e-2, "fatol": 1e-5, "maxfev": 200}
    found = minimize(objective, start, method="Nelder-Mead", options=options)
    return BestBound(math.exp(float(found.fun)), log2_epochs, **parameters(found.x)), np.asarray(found.x)
