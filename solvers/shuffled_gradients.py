"""The best learning rate and the best number of epochs of shuffled gradient methods, by their bounds at equal privacy.

More epochs need more noise; with amplification over the whole run and noise at the end of epochs the bound still falls
to the order of the lower bound, but only after a number of epochs that nobody runs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from corrnoise.theory.numerics import checks
from corrnoise.theory.shuffled_gradients.table_rates import Algorithm, TableAccounting, bound_coefficients

_MOST = 1e16


class BestLearningRate(NamedTuple):
    """A learning rate, and a bound of the excess risk at it."""

    learning_rate: float
    excess_risk_upper_bound: float


def best_learning_rate(
    algorithm: Algorithm,
    *,
    samples: int,
    dimension: int,
    epochs: float,
    epsilon: float,
    delta: float = 1e-6,
    private_share: float = 1.0,
    accounting: TableAccounting = "whole-run",
    distance: float = 1.0,
    lipschitz: float = 1.0,
    smoothness: float = 1.0,
    deviation: float = 1.0,
) -> BestLearningRate:
    """The learning rate with the smallest bound of those that the bound admits, without dissimilarity.

    Arguments as for ``corrnoise.theory.shuffled_gradients.table_rates.bound_coefficients``.
    """
    bound = bound_coefficients(
        algorithm,
        samples=samples,
        dimension=dimension,
        epochs=epochs,
        epsilon=epsilon,
        delta=delta,
        private_share=private_share,
        accounting=accounting,
        distance=distance,
        lipschitz=lipschitz,
        smoothness=smoothness,
        deviation=deviation,
    )
    eta = min(_stationary_point(bound.a, bound.b, bound.c), bound.largest)
    return BestLearningRate(eta, bound.at(eta))


def _stationary_point(a: float, b: float, c: float) -> float:
    """The minimiser of a/η + bη + cη² on η > 0: the root of 2cη³ + bη² = a, by Newton's method from above."""
    eta = a ** (1 / 3) / (2 * c) ** (1 / 3)
    for _ in range(200):
        step = ((2 * c * eta + b) * eta * eta - a) / ((6 * c * eta + 2 * b) * eta)
        eta -= step
        if step <= 1e-15 * eta:
            break
    return eta


def best_epochs(
    algorithm: Algorithm,
    *,
    samples: int,
    dimension: int,
    epsilon: float,
    delta: float = 1e-6,
    private_share: float = 1.0,
    accounting: TableAccounting = "whole-run",
) -> float:
    """The K in [2, 1e16], a real number, at which the bound of ``best_learning_rate`` is smallest, R = G = L = s = 1.

    Raises ``ArithmeticError`` where the bound falls for ever, as the published one does.
    """
    checks.integer("samples", samples, 1)

    def bound(log_epochs: float) -> float:
        found = best_learning_rate(
            algorithm,
            samples=samples,
            dimension=dimension,
            epochs=math.exp(log_epochs),
            epsilon=epsilon,
            delta=delta,
            private_share=private_share,
            accounting=accounting,
        )
        return found.excess_risk_upper_bound

    grid = np.linspace(math.log(2), math.log(_MOST), 80)
    best = int(np.argmin([bound(u) for u in grid]))
    if best == grid.size - 1:
        raise ArithmeticError(f"accounting {accounting!r} has no best number of epochs: the bound falls for ever")
    ends = grid[max(best - 1, 0)], grid[best + 1]
    found = minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-8})
    return math.exp(found.x)
