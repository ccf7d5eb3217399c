"""The sensitivity of any mechanism if every epoch uses each example once, in a fixed order or in any orders.

A fixed order is participation in *fixed epochs*.  In reshuffled orders an example takes part at any one step t_e of
each epoch e.  With the strategy C and M = CᵀC its squared sensitivity is at most

    Σ_{e, f} max { |M_ts| : t in epoch e, s in epoch f }.

Toeplitz noise has |M_ts| <= r(|t − s|), where r is the autocorrelation of the absolute values of the inverse
coefficients, made to not increase.  Steps t_e and t_{e+k} differ by more than (k − 1) N and less than (k + 1) N.  Not
all of them can be close: in a chain e, e + k, e + 2k, … the differences add up, to at least k N each less N − 1 for
the chain.  Where r lies below its chord over that range, as it does for convex r, the mean of r(t_{e+k} − t_e) over e
is therefore at most the chord at the least mean difference; elsewhere it is at most the largest r.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.momentum_aggregation.sensitivity import ORDERS, Order
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation

_ROUNDING = 1e-9  #: relative, of sums of products, with room to spare
_MOST_STEPS = 4096  # of which a Gram matrix is formed


def order_sensitivity(mechanism: Mechanism, examples: int, order: Order) -> float:
    """An upper bound of the sensitivity for zero-out adjacency when each epoch uses every example once.

    Parameters
    ----------
    mechanism
        Noise that is added to gradients, for a run of T steps.
    examples
        N >= 1, the number of steps of an epoch.
    order
        ``"fixed"`` for one order in all epochs, ``"reshuffled"`` for any orders.

    Raises
    ------
    ValueError
        The order is reshuffled, the noise is no Toeplitz noise and has more than 4096 steps.

    Examples
    --------
    >>> from corrnoise import NuFTRL, ToeplitzMechanism
    >>> noise = ToeplitzMechanism(NuFTRL(1 / 64), 256)  # the square root of a momentum with α = 1/64
    >>> round(order_sensitivity(noise, 64, "fixed") ** 2, 6), round(order_sensitivity(noise, 64, "reshuffled") ** 2, 6)
    (8.932015, 14.089837)
    """
    checks.instance("mechanism", mechanism, Mechanism)  # type: ignore[type-abstract]
    n = checks.integer("examples", examples, 1)
    steps = mechanism.steps
    epochs = -(-steps // n)
    if checks.choice("order", order, ORDERS) == "fixed" or epochs == 1:
        who = Participation.fixed_epochs(steps, period=n)
        return mechanism.sensitivity_upper_bound(who)
    if isinstance(mechanism, ToeplitzMechanism):
        total = _toeplitz(mechanism, n, epochs)
    elif steps <= _MOST_STEPS:
        strategy = mechanism.strategy()
        gram = np.abs(strategy.T @ strategy)
        starts = np.arange(0, steps, n)
        total = math.fsum(np.maximum.reduceat(np.maximum.reduceat(gram, starts, axis=0), starts, axis=1).ravel())
    else:
        raise ValueError(
            f"mechanism must be Toeplitz noise or have at most {_MOST_STEPS} steps for reshuffled orders, "
            f"got {type(mechanism).__name__} with {steps}"
        )
    return math.sqrt(total) * (1 + mechanism.strategy_error + _ROUNDING)


def _toeplitz(mechanism: ToeplitzMechanism, examples: int, epochs: int) -> float:
    """E r(0) + 2 Σ_k (E − k) times a bound of the mean of r over the pairs of epochs that are k apart."""
    column = np.abs(mechanism.noise.inverse_coefficients(mechanism.steps))
    length = fft.next_fast_len(2 * column.size, real=True)
    lags = np.zeros((epochs + 1) * examples)
    lags[: column.size] = fft.irfft(np.abs(fft.rfft(column, length)) ** 2, length)[: column.size]
    lags += _ROUNDING / 10 * lags[0]  # the error of the transforms
    lags = np.maximum.accumulate(lags[::-1])[::-1]
    pairs = [(epochs - k) * _mean_of_pairs(lags, examples, epochs, k) for k in range(1, epochs)]
    return epochs * float(lags[0]) + 2 * math.fsum(pairs)


def _mean_of_pairs(lags: Array, examples: int, epochs: int, apart: int) -> float:
    """A bound of the mean of r(t_{e+k} − t_e) over e, for r that does not increase."""
    first = (apart - 1) * examples + 1
    values = lags[first : (apart + 1) * examples]
    chord = np.linspace(values[0], values[-1], values.size)
    if values.size == 1 or np.any(values > chord * (1 + 1e-12)):
        return float(values[0])
    chains = min(apart, epochs - apart)
    nearest = apart * examples - chains * (examples - 1) / (epochs - apart)  # the least mean of t_{e+k} − t_e
    return float(np.interp(max(nearest - first, 0.0), np.arange(values.size), chord))
