"""The number of epochs at which the excess risk bound of a shuffled gradient method is smallest, at equal privacy.

More epochs need more noise; with amplification over the whole run and noise at the end of epochs the bound still falls
to the order of the lower bound, but only after a number of epochs that nobody runs.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from corrnoise.theory.numerics import checks
from corrnoise.theory.shuffled_gradients.table_rates import tuned_run

_MOST = 1e16


def best_epochs(
    algorithm: str,
    samples: int,
    dimension: int,
    epsilon: float,
    *,
    delta: float = 1e-6,
    private_share: float = 1.0,
    accounting: str = "whole run",
) -> float:
    """The K in [2, 1e16], a real number, at which the bound of ``tuned_run`` is smallest.

    Parameters
    ----------
    algorithm, samples, dimension, epsilon, delta, private_share, accounting
        As for ``corrnoise.theory.shuffled_gradients.table_rates.tuned_run``, with R = G = L = s = 1.

    Raises
    ------
    ArithmeticError
        The bound falls for ever, as the published one does.
    """
    checks.integer("samples", samples, 1)

    def bound(log_epochs: float) -> float:
        found = tuned_run(
            algorithm,
            samples,
            dimension,
            epsilon,
            math.exp(log_epochs),
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
