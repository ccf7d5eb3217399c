"""The Gram matrix of the bins, in units of the squared clipping norm, with an upper and a lower end for each entry.

An example in bin i is used in the steps i, i + b, i + 2b, …  By Theorem 1 of ``docs/amplification-proofs.md`` its
contribution is dominated by m_i, the sum of the moduli of these columns of the strategy C, and V_ij = <m_i, m_j>/σ².
A program runs C + ΔC with columns |ΔC e_j| <= e, so that its vectors m_i' lie within η = k e of m_i, where k is the
largest number of steps of a bin: |V'_ij − V_ij| <= (η(|m_i| + |m_j|) + η²)/σ².

For Toeplitz strategies m_i is the sequence g_t = Σ_k |c_{t−kb}|, delayed by i steps and cut off after n, and the sums
Σ_{t < n−j} g_t g_{t+j−i} of one diagonal of V are running sums: O(n b) operations and O(n) memory.  Other strategies
are formed as matrices, up to 4096 steps; Toeplitz ones with factors of the steps by transforms, as long as
n b <= 2·10⁷.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

LARGEST_MATRIX = 4096  #: the most steps of a strategy that is formed as a matrix
LARGEST_VECTORS = 2 * 10**7  #: entries of all m_i together, where they are kept


@record
class Gram(Record):
    """<m_i, m_j> for the bins i, j < b, between two ends entry by entry.

    Parameters
    ----------
    lower, upper : array of float
        Shape (b, b), symmetric and non-negative, in units of the squared clipping norm.
    attained : bool
        Whether no entry of the strategy is negative, so that a constant gradient attains the pair of Theorem 1.
    """

    lower: Array
    upper: Array
    attained: bool


def gram(strategy: Any, steps: int, bins: int, column_error: float = 0.0) -> Gram:
    """The Gram matrix of ``bins`` bins in a run of ``steps`` steps, which need not be a multiple of ``bins``.

    Parameters
    ----------
    strategy : object
        Whatever has ``strategy(n)``, ``column_norms(n)`` and ``strategy_error(n)`` as mechanisms have; Toeplitz noise
        has ``inverse_with_error(n)`` besides.
    column_error : float, default 0.0
        Bound of the 2-norm of each column of the difference between the strategy that runs and the stated one.

    Raises
    ------
    ValueError
        The run is too long for a strategy that is not Toeplitz.
    """
    most = -(-steps // bins)  # participations of an example
    if hasattr(strategy, "inverse_with_error"):
        series, error = strategy.inverse_with_error(steps)
        found = _toeplitz(np.abs(series), bins)
        attained = bool((series >= 0).all())
        column_error += error * float(np.linalg.norm(series)) * (1 + 1e-9)
    else:
        vectors, attained, rounding = _vectors(strategy, steps, bins)
        found = vectors.T @ vectors
        column_error += strategy.strategy_error(steps) * float(strategy.column_norms(steps).max()) * (1 + 1e-9)
        column_error += rounding
    relative = (steps + 2 * most + 8) * UNIT_ROUNDOFF  # of a sum of products of sums of non-negative floats
    norms = np.sqrt(np.diagonal(found)) * (1 + relative)
    eta = most * column_error
    shift = eta * (norms[:, np.newaxis] + norms) + eta**2
    lower = np.maximum(found * (1 - 2 * relative) - shift * (1 + 1e-12), 0.0)
    upper = (found + shift) * (1 + 4 * relative)
    return Gram(np.minimum(lower, lower.T), np.maximum(upper, upper.T), attained)


def _toeplitz(moduli: Array, bins: int) -> Array:
    """<m_i, m_j> for the strategy with these moduli in its first column."""
    n = moduli.size
    rows = np.zeros(-(-n // bins) * bins)
    rows[:n] = moduli
    g = np.cumsum(rows.reshape(-1, bins), axis=0).ravel()[:n]
    found = np.zeros((bins, bins))
    for apart in range(min(bins, n)):
        last = np.arange(apart, min(bins, n))  # j; the sum has n − j terms
        sums = np.cumsum(g[: n - apart] * g[apart:])[n - 1 - last]
        found[last - apart, last] = found[last, last - apart] = sums
    return found


def _vectors(strategy: Any, steps: int, bins: int) -> tuple[Array, bool, float]:
    """The vectors m_i, shape (n, b), whether the strategy is non-negative, and an error of a column."""
    if steps <= LARGEST_MATRIX:
        matrix = strategy.strategy(steps)
        padded = np.zeros((steps, -(-steps // bins) * bins))
        padded[:, :steps] = np.abs(matrix)
        return padded.reshape(steps, -1, bins).sum(axis=1), bool((matrix >= 0).all()), 0.0
    noise = getattr(strategy, "noise", None)
    if noise is None or not hasattr(noise, "inverse_with_error") or steps * bins > LARGEST_VECTORS:
        raise ValueError(
            f"balls in bins needs Toeplitz noise above {LARGEST_MATRIX} steps, or Toeplitz noise with factors of the "
            f"steps and at most {LARGEST_VECTORS} steps times bins, got {strategy!r:.80} with {steps} steps"
        )
    from scipy.signal import oaconvolve

    series, _ = noise.inverse_with_error(steps)
    scales = np.ones(steps) if strategy.step_scales is None else 1 / strategy.step_scales
    weights = np.ones(steps) if strategy.draw_scales is None else 1 / strategy.draw_scales
    which = np.arange(steps) % bins
    vectors = np.empty((steps, bins))
    for i in range(bins):
        vectors[:, i] = oaconvolve(np.abs(series), np.where(which == i, scales, 0.0))[:steps] * weights
    # Of a transform of 2n entries: a relative error below 1e-13 of the product of the two norms.
    size = float(np.linalg.norm(series)) * float(np.linalg.norm(scales)) * float(weights.max())
    return np.maximum(vectors, 0.0), bool((series >= 0).all()), 1e-13 * math.log2(4 * steps) * size
