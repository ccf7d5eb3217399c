"""The pair of b-min-sep sampling: the steps of an example are a renewal process with gaps of at least b.

An example that was in none of the last b − 1 batches is in the next one with probability p.  The process is
stationary: before the first step the example waits for r = 1, …, b − 1 more steps with probability p/(1 + (b − 1) p)
each, which is the rate of every batch.  With at most b bands the columns of its steps have disjoint supports, and
Λ = E_S Π_{s∈S} e_s with e_s = exp(<c_s, z> − |c_s|²/2) follows from the masses f_t of the examples that are free before
step t, in O(n):

f_{t+1} gains (1 − p) f_t and f_{t+b} gains p e_t f_t, from f_0 = 1/(1 + (b − 1) p) and f_r = p f_0; Λ = Σ_{t>=n} f_t.

No certified bound uses this sampling: ``SpacedCurve`` has the worst case, and Monte Carlo the rest.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.amplification.curve import Curve, DeltaBound, Direction
from corrnoise.theory.amplification.gram import LARGEST_MATRIX
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.privacy import gaussian_deltas


@record
class SpacedCurve(Curve):
    """δ of b-min-sep sampling: the worst case, and the pair that Monte Carlo draws from.

    Parameters
    ----------
    columns : array of float
        Upper ends of |C_{t+d, t}|, shape (n, bands), in units of the clipping norm.
    period : int
        b >= 1: the least distance of two steps of an example.
    rate : float
        The probability of an example in a batch.
    attained : bool
        Whether some gradients reach the pair.
    """

    columns: Array
    period: int
    rate: float
    attained: bool

    @property
    def certifies(self) -> bool:
        return False

    @property
    def chance(self) -> float:
        """p: the probability of an example that is free to be in a batch."""
        return min(self.rate / (1 - (self.period - 1) * self.rate), 1.0)

    @cached_property
    def _squared_norm(self) -> float:
        """The largest |m_S|², for σ = 1."""
        n, bands = self.columns.shape
        most = np.zeros(n + self.period)  # of the steps from t on
        for t, square in reversed(list(enumerate(np.square(self.columns).sum(axis=1)))):
            most[t] = max(most[t + 1], square + most[t + self.period])
        return float(most[0]) * (1 + (n + bands) * 2.0**-52)

    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
        """A bracket of δ that ignores the sampling; see ``Curve.delta``."""
        rho = self._squared_norm / 2 / noise_multiplier**2 * (1 + 8 * UNIT_ROUNDOFF)
        upper = max(float(gaussian_deltas(np.array(rho), epsilon)), 1e-300)
        return DeltaBound(0.0, upper, "certified", "the worst case, without the sampling")

    def log_ratios(self, noise_multiplier: float, outputs: Array) -> Array:
        """The logarithm of Λ of outputs in units of σ.

        Parameters
        ----------
        noise_multiplier : float
            σ > 0.
        outputs : array of float
            Shape (draws, n).

        Returns
        -------
        array of float
            Shape (draws,).
        """
        found = np.empty(len(outputs))
        _log_ratios(self.columns / noise_multiplier, self.period, self.chance, outputs, found)
        return found


@kernel
def _log_ratios(columns, period, chance, outputs, found):  # type: ignore[no-untyped-def]
    n, bands = columns.shape
    free = np.empty(n + period)
    for row in range(outputs.shape[0]):
        free[:] = 0.0
        free[:period] = chance / (1 + (period - 1) * chance)
        free[0] = 1 / (1 + (period - 1) * chance)
        log = 0.0
        for t in range(n):
            exponent = 0.0
            for d in range(min(bands, n - t)):
                exponent += columns[t, d] * (outputs[row, t + d] - columns[t, d] / 2)
            free[t + 1] += (1 - chance) * free[t]
            free[t + period] += chance * free[t] * math.exp(exponent)
            if t % 8 == 7:
                largest = free[t + 1 : t + 1 + period].max()
                free[t + 1 : t + 1 + period] /= largest
                log += math.log(largest)
        found[row] = log + math.log(free[n:].sum())


def spaced_curve(strategy: Any, steps: int, period: int, rate: float, column_error: float = 0.0) -> SpacedCurve:
    """The curve of b-min-sep sampling.

    Parameters
    ----------
    strategy : object
        A mechanism: it has ``strategy(n)``, ``bands(n)``, ``column_norms(n)`` and ``strategy_error(n)``.
    steps, period : int
        n, and b >= 1.
    rate : float
        The probability of an example in a batch.
    column_error : float, default 0.0
        As for ``Participation.covering``.

    Returns
    -------
    SpacedCurve

    Raises
    ------
    ValueError
        The strategy has more than b bands, or is too long for a matrix and not Toeplitz.
    """
    bands = strategy.bands(steps)
    if bands > period:
        raise ValueError(
            f"strategy must have at most as many bands as the separation, period={period}, for b-min-sep sampling, "
            f"got {bands}: otherwise columns of one example overlap; take a longer period, or balls_in_bins"
        )
    rows = np.add.outer(np.arange(steps), np.arange(bands))
    if hasattr(strategy, "inverse_with_error"):
        columns = np.tile(strategy.inverse_with_error(steps)[0][:bands], (steps, 1))
    elif steps <= LARGEST_MATRIX:
        padded = np.pad(strategy.strategy(steps), ((0, bands), (0, 0)))
        columns = padded[rows, np.arange(steps)[:, np.newaxis]]
    else:
        raise ValueError(
            f"b-min-sep sampling needs Toeplitz noise above {LARGEST_MATRIX} steps, got {strategy!r:.80} with {steps}"
        )
    error = column_error + strategy.strategy_error(steps) * float(strategy.column_norms(steps).max())
    moduli = np.where(rows < steps, (np.abs(columns) + error) * (1 + 8 * UNIT_ROUNDOFF), 0.0)
    return SpacedCurve(moduli, period, rate, bool((columns >= 0).all()))
