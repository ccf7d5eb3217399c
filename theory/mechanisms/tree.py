"""Binary trees and their like: mechanisms that sum over dyadic intervals, and the Fourier mechanism.

The tree adds noise to the sum of the gradients over each dyadic interval [j 2^h, (j + 1) 2^h) of steps; its strategy C
has a row for each interval.  The interval of one step is a leaf.  There are three decoders for the sum over the steps
0, …, t:

* ``"binary"``: the intervals that the binary digits of t + 1 name;
* ``"online"``: the same, with each node estimated from its own subtree (Honaker's estimate from below): node h has
  the variance v_h = 2 v_{h−1}/(1 + 2 v_{h−1}), v_0 = 1;
* ``full_honaker``: the least-squares estimate from all nodes, also later ones, by a causal strategy with the same Gram
  matrix.

References
----------
Chan, Shi and Song, ACM TISSEC 2011; Dwork et al., STOC 2010 (binary trees).
J. Honaker, Efficient use of differentially private binary trees, 2015.
Denisov et al., arXiv 2202.08312 (the full estimate is A C⁺); Choquette-Choo et al., arXiv 2211.06530 (FFT).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy import fft

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.matrix import MatrixNoise, causal_strategy
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record

Decoder = Literal["binary", "online"]


def _intervals(steps: int) -> list[tuple[int, int]]:
    """The complete dyadic intervals (first, last + 1) within the run, by their last step, short ones first."""
    return [
        (last + 1 - 2**height, last + 1)
        for last in range(steps)
        for height in range(steps.bit_length())
        if (last + 1) % 2**height == 0
    ]


@record
class BinaryTree(Mechanism):
    """Tree aggregation: prefix sums from noisy sums over dyadic intervals.

    Parameters
    ----------
    steps
        n >= 1.
    decoder
        ``"binary"`` or ``"online"``, which needs no other memory and has about half the variance.

    Examples
    --------
    >>> from corrnoise import Participation
    >>> round(BinaryTree(64).mean_error(Participation(64)), 6)
    4.594494
    >>> round(BinaryTree(64, decoder="online").mean_error(Participation(64)), 6)
    3.652307
    """

    horizon: int
    decoder: Decoder = "binary"

    def __init__(self, steps: int, *, decoder: Decoder = "binary") -> None:
        checks.choice("decoder", decoder, get_args(Decoder))
        self._set(horizon=checks.integer("steps", steps, 1), decoder=decoder)

    def arguments(self) -> dict[str, object]:
        return {"steps": self.horizon, "decoder": self.decoder}

    @property
    def steps(self) -> int:
        return self.horizon

    @property
    def draws(self) -> int:
        return 2 * self.steps - self.steps.bit_count()

    @property
    def memory(self) -> int:
        return self.steps.bit_length()

    def _increments(self, released: Array) -> Array:
        """What the noise of a prefix sum adds in each step."""
        return np.diff(released, axis=0, prepend=0.0)

    def correlate(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        estimates: dict[tuple[int, int], tuple[Array, float]] = {}
        for row, (first, end) in enumerate(_intervals(self.steps)):
            noise = z[row]
            variance = 1.0
            middle = (first + end) // 2
            if self.decoder == "online" and middle > first:
                (left, of_half), (right, _) = estimates[first, middle], estimates[middle, end]
                own = 2 * of_half / (1 + 2 * of_half)
                noise, variance = own * noise + (1 - own) * (left + right), own
            estimates[first, end] = noise, variance
        sums = np.zeros((self.steps, *z.shape[1:]))
        for t in range(self.steps):
            end = t + 1
            while end:
                first = end & (end - 1)  # without the last binary digit 1
                sums[t] += estimates[first, end][0]
                end = first
        return self._increments(sums)

    def strategy(self) -> Array:
        matrix = np.zeros((self.draws, self.steps))
        for row, (first, end) in enumerate(_intervals(self.steps)):
            matrix[row, first:end] = 1.0
        return matrix


def full_honaker(steps: int) -> MatrixNoise:
    """The binary tree with the best decoder, as a causal strategy: C'ᵀC' = CᵀC of the tree.

    Parameters
    ----------
    steps
        n >= 1; takes O(n³).

    Examples
    --------
    >>> from corrnoise import Participation
    >>> round(full_honaker(64).mean_error(Participation(64)), 6)
    2.517806
    """
    matrix = BinaryTree(steps).strategy()
    return MatrixNoise(causal_strategy(matrix.T @ matrix))


def fourier_mechanism(steps: int) -> MatrixNoise:
    """The Fourier mechanism with the best decoder, as a causal strategy.

    Its Gram matrix is the leading block of the circulant matrix whose eigenvalues are the sizes of the discrete Fourier
    transform of n ones and n zeros.

    Parameters
    ----------
    steps
        n >= 1; takes O(n³).

    Examples
    --------
    >>> from corrnoise import Participation
    >>> round(fourier_mechanism(64).mean_error(Participation(64)), 6)
    2.200364
    """
    n = checks.integer("steps", steps, 1)
    column = fft.irfft(np.abs(fft.rfft(np.ones(n), 2 * n)), 2 * n)
    lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return MatrixNoise(causal_strategy(column[lags]))
