"""The least value of a function by L-BFGS with backtracking, in a descent that can stop and go on.

The Fortran code of SciPy cannot go on, and calls threads of BLAS for its tiny matrices, which takes ten times as long
on a busy machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.checks import Array

_MAX_PAIRS = 60  # of steps and changes of the gradient
MAX_HALVINGS = 20
_MIN_DECREASE = 1e-10  # of the value; a smaller one ends a descent


class Descent:
    """The least value so far, and where it is.

    Parameters
    ----------
    function : gives a value and the gradient
    start : where it begins, shape (variables,)
    scales : the diagonal of the inverse Hessian at the start, but for a common factor, shape (variables,)
    """

    def __init__(self, function: Callable[[Array], tuple[float, Array]], start: Array, scales: Array) -> None:
        self.at = start
        self.value, self._gradient = function(start)
        self._function = function
        self._scales = scales
        self._steps = np.empty((_MAX_PAIRS, start.size))
        self._changes = np.empty((_MAX_PAIRS, start.size))
        self._pairs = 0
        self._ended = False

    def go_on(self, iterations: int) -> Descent:
        """Make so many iterations more, or fewer if it ends."""
        for _ in range(iterations):
            if self._ended:
                break
            self._step()
        return self

    def _step(self) -> None:
        direction = np.empty(self.at.size)
        _direction(self._gradient, self._scales, self._steps, self._changes, self._pairs, direction)
        with np.errstate(over="ignore", invalid="ignore"):
            slope = float(self._gradient @ direction)
        if not np.isfinite(slope):  # steps or changes of the gradient are too short
            self._pairs, direction = 0, -self._gradient
            slope = -float(self._gradient @ self._gradient)
        length = 1.0 if self._pairs else 1 / max(1.0, float(np.abs(self._gradient).max()))
        for _ in range(MAX_HALVINGS):
            value, gradient = self._function(self.at + length * direction)
            if value <= self.value + 1e-4 * length * slope:
                break
            length *= 0.3
        else:
            self._ended = True
            return
        step, change = length * direction, gradient - self._gradient
        if step @ change > 0:
            self._steps[self._pairs % _MAX_PAIRS] = step
            self._changes[self._pairs % _MAX_PAIRS] = change
            self._pairs += 1
        self._ended = self.value - value < _MIN_DECREASE
        self.at, self.value, self._gradient = self.at + step, value, gradient


@kernel
def _direction(gradient, scales, steps, changes, pairs, direction):  # type: ignore[no-untyped-def]
    """Fill minus the gradient times the inverse Hessian that the last of all pairs imply, shape (kept, variables)."""
    kept, size = steps.shape
    first = max(0, pairs - kept)
    shares, curved = np.empty(kept), np.empty(kept)
    for x in range(size):
        direction[x] = -gradient[x]
    for pair in range(pairs - 1, first - 1, -1):
        k = pair % kept
        curvature, share = 0.0, 0.0
        for x in range(size):
            curvature += steps[k, x] * changes[k, x]
            share += steps[k, x] * direction[x]
        curved[k], shares[k] = curvature, share / curvature
        for x in range(size):
            direction[x] -= shares[k] * changes[k, x]
    factor = 1.0
    if pairs > 0:
        last, total = (pairs - 1) % kept, 0.0
        for x in range(size):
            total += changes[last, x] * (scales[x] * changes[last, x])
        factor = curved[last] / total
    for x in range(size):
        direction[x] *= factor * scales[x]
    for pair in range(first, pairs):
        k = pair % kept
        total = 0.0
        for x in range(size):
            total += changes[k, x] * direction[x]
        share = shares[k] - total / curved[k]
        for x in range(size):
            direction[x] += share * steps[k, x]
