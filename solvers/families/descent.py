"""The least value of a function by L-BFGS with backtracking, in a descent that can stop and go on.

The Fortran code of SciPy cannot go on, and calls threads of BLAS for its tiny matrices, which takes ten times as long
on a busy machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from corrnoise.theory.numerics.checks import Array

_PAIRS = 20  # of steps and changes of the gradient
_HALVINGS = 20
_DECREASE = 1e-10  # at which a descent ends


class Descent:
    """The least value so far, and where it is.

    Parameters
    ----------
    function : gives a value and the gradient
    start : where it begins
    """

    def __init__(self, function: Callable[[Array], tuple[float, Array]], start: Array) -> None:
        self.at = start
        self.value, self._gradient = function(start)
        self._function = function
        self._pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_PAIRS)
        self._ended = False

    def go_on(self, iterations: int) -> Descent:
        """Make so many iterations more, or fewer if it ends."""
        for _ in range(iterations):
            if self._ended:
                break
            self._step()
        return self

    def _step(self) -> None:
        direction = self._direction()
        slope = float(self._gradient @ direction)
        length = 1.0 if self._pairs else 1 / max(1.0, float(np.abs(self._gradient).max()))
        for _ in range(_HALVINGS):
            value, gradient = self._function(self.at + length * direction)
            if value <= self.value + 1e-4 * length * slope:
                break
            length *= 0.3
        else:
            self._ended = True
            return
        step, change = length * direction, gradient - self._gradient
        if (curved := float(step @ change)) > 0:
            self._pairs.append((step, change, curved))
        self._ended = self.value - value < _DECREASE
        self.at, self.value, self._gradient = self.at + step, value, gradient

    def _direction(self) -> Array:
        """Minus the gradient times the inverse Hessian that the pairs of steps and changes of the gradient imply."""
        direction = -self._gradient
        shares = []
        for step, change, curved in reversed(self._pairs):
            shares.append(float(step @ direction) / curved)
            direction = direction - shares[-1] * change
        if self._pairs:
            _, change, curved = self._pairs[-1]
            direction = direction * (curved / float(change @ change))
        for (step, change, curved), share in zip(self._pairs, reversed(shares), strict=True):
            direction = direction + (share - float(change @ direction) / curved) * step
        return direction
