"""The best number of epochs of shuffled gradient methods, by their bounds at equal privacy.

More epochs need more noise; with amplification over the whole run and noise at the end of epochs the bound still falls
to the order of the lower bound, but only after a number of epochs that nobody runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from corrnoise.theory.shuffled_gradients.table_rates import BoundCoefficients

_MOST = 1e16


def best_epochs(bound: Callable[[float], BoundCoefficients]) -> float:
    """The K in [2, 1e16], a real number, at which a bound is smallest at its best learning rate.

    ``bound`` is ``bound_coefficients`` as a function of K.  Raises ``ArithmeticError`` where it falls for ever, as the
    published one does.
    """

    def least(log_epochs: float) -> float:
        return bound(math.exp(log_epochs)).best().excess_risk_upper_bound

    grid = np.linspace(math.log(2), math.log(_MOST), 80)
    best = int(np.argmin([least(u) for u in grid]))
    if best == grid.size - 1:
        raise ArithmeticError("bound must have a best number of epochs, got one that falls for ever")
    ends = grid[max(best - 1, 0)], grid[best + 1]
    return math.exp(minimize_scalar(least, bounds=ends, method="bounded", options={"xatol": 1e-8}).x)
