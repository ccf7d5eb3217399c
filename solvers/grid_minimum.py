"""The smallest minimum of a function of one variable: a grid first, then bounded minimisation between its points."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from corrnoise.theory.numerics.checks import Array

_MAX_START_RATIO = 3.0  # largest ratio of a grid value to the least one at the start of a search


def smallest_minimum(
    function: Callable[[float], float], points: Array, values: Array, width: float
) -> tuple[float, float]:
    """The place and the value of the smallest minimum that is found.

    Each local minimum of ``values`` that is at most 3 times the least value is searched between its two neighbours.  A
    minimum that lies between two neighbouring points and shows at neither is missed.
    ``points`` is a grid in ascending order with the positive ``values`` of the function, both of shape (n,), and
    ``width`` the width of the interval that is left around a minimum at the end.
    """
    best = int(np.argmin(values))
    place = float(points[best])
    least = float(values[best])
    padded = np.concatenate([[math.inf], values, [math.inf]])
    promising = (values <= padded[:-2]) & (values <= padded[2:]) & (values <= _MAX_START_RATIO * least)
    for k in np.flatnonzero(promising).tolist():
        bounds = points[max(k - 1, 0)], points[min(k + 1, points.size - 1)]
        found = minimize_scalar(function, bounds=bounds, method="bounded", options={"xatol": width})
        if found.fun < least:
            place = float(found.x)
            least = float(found.fun)
    return place, least
