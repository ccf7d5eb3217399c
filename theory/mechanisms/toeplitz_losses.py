"""Squared sensitivities of Toeplitz strategies with gradients.

An example is used in steps that are at least b apart, at most k times.  ``squared_sensitivity`` is
‖Σ_{j<k} S^{jb} c‖², cut off after n steps, and does not check the theorem that makes the pattern 0, b, 2b, … the worst;
``squared_sensitivity_bound`` is an upper bound for every c.  The root mean squared error of prefix sums is the
sensitivity times the root of the error of ``theory.objectives.toeplitz_errors``.
"""

from __future__ import annotations

import numpy as np

from corrnoise.theory.mechanisms.sensitivity import window_sums
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.power_series import correlated, divided
from corrnoise.theory.participation import Participation


def squared_sensitivity(strategy: Array, participation: Participation) -> tuple[float, Array]:
    """‖v‖² for the pattern 0, b, 2b, …, and its gradient in c; both over all n steps, shape (n,)."""
    order = participation.worst
    total = window_sums(strategy, order.period, order.count)
    # The transpose of a shift is a shift in reversed time.
    return float(total @ total), 2 * window_sums(total[::-1], order.period, order.count)[::-1]


def squared_sensitivity_bound(strategy: Array, participation: Participation) -> tuple[float, Array]:
    """An upper bound of the squared sensitivity of any strategy c, shape (n,), and its gradient in c, if any.

    It is ‖v‖² for the majorant ĉ_t = |c_t| for t < b, ĉ_t = max_{s>=t} |c_s| for t >= b (P1 of
    docs/finite-runs-proofs.md).  Where c >= 0 and c does not increase from index b on, it equals
    ``squared_sensitivity``.
    """
    b = strategy.size if participation.once else participation.worst.period
    sizes = np.abs(strategy)
    tail = sizes[b:]
    highest = np.maximum.accumulate(tail[::-1])[::-1]
    # The place from which each ĉ_t comes: the next s >= t at which |c_s| is its own majorant.
    peaks = np.flatnonzero(tail == highest)
    places = np.concatenate([np.arange(b), b + peaks[np.searchsorted(peaks, np.arange(tail.size))]])
    value, gradient = squared_sensitivity(sizes[places], participation)
    carried = np.zeros(sizes.size)
    np.add.at(carried, places, gradient)
    return value, carried * np.sign(strategy)


def gradient_in_noising(gradient: Array, noising: Array, strategy: Array) -> Array:
    """The gradient in β, shape (p,), from that in c = 1/β, shape (n,), by dc = −c ∗ c ∗ dβ."""
    return -correlated(gradient, divided(strategy, noising), noising.size)
