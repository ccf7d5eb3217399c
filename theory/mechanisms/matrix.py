"""Any triangular strategy of a finite run, and strategies with few bands.

    BandedNoise          C has p bands       O(p) a step
    MatrixNoise          C is triangular     O(n) a step

Sources: Denisov et al., arXiv 2202.08312 (the best decoder of a tree is A C⁺); J. Honaker, Efficient use of
differentially private binary trees, 2015; Choquette-Choo et al., arXiv 2211.06530 (the Fourier mechanism).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_banded, solve_triangular

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.rounding import substitution_sensitivity
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import Dtype
from corrnoise.theory.participation import Order


class SubstitutedNoise(Mechanism):
    """A strategy that a run inverts by substitution, y_t = (z_t − Σ_{s<t} C_ts y_s)/C_tt, from bands − 1 rows."""

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {"substitution": ("float64",)}

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        exact = self.bracket(participation).upper
        return self, substitution_sensitivity(exact, self.column_norms(), self.bands(), participation)

    def _leading(self, n: int) -> Mechanism:
        return MatrixNoise(self.strategy()[:n, :n])

    def memory(self, n: int | None = None) -> int:
        return self.bands(n) - 1

    def noising(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        return np.asarray(self._solved(z.reshape(z.shape[0], -1)).reshape(z.shape))

    @abstractmethod
    def _solved(self, draws: Array) -> Array:
        """C⁻¹ times a matrix of draws."""


@record
class MatrixNoise(SubstitutedNoise):
    """Any lower-triangular strategy with a diagonal that is not 0.

    Parameters
    ----------
    strategy : array_like
        C, shape (steps, steps).

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.mechanisms.MatrixNoise([[1.0, 0.0], [0.5, 1.0]]).noising_matrix()
    array([[ 1. ,  0. ],
           [-0.5,  1. ]])
    """

    matrix: Array

    def __init__(self, strategy: ArrayLike) -> None:
        given = checks.reals("strategy", strategy)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or given.size == 0:
            raise ValueError(f"strategy must be a square matrix, got shape {given.shape}")
        if np.triu(given, 1).any():
            raise ValueError("strategy must be lower-triangular, got an entry above the diagonal that is not 0")
        if not np.diag(given).all():
            step = int(np.argmin(np.abs(np.diag(given))))
            raise ValueError(f"strategy must not have a 0 on its diagonal, got one at step {step}")
        self._set(matrix=given)

    @classmethod
    def honaker(cls, steps: int) -> MatrixNoise:
        """The binary tree with the best decoder, the least-squares estimate from all nodes, also later ones.

        The tree sums over the dyadic intervals within the run, and the causal strategy has the Gram matrix of these.

        Parameters
        ----------
        steps : int
            n >= 1; takes O(n³).

        Returns
        -------
        MatrixNoise

        Examples
        --------
        >>> import corrnoise as cn
        >>> round(cn.mechanisms.MatrixNoise.honaker(64).mean_error(cn.Participation.single(64)), 6)
        2.517806
        """
        n = checks.integer("steps", steps, 1)
        ends = np.arange(1, n + 1)
        gram = np.zeros((n, n))
        for height in range(n.bit_length()):
            interval = (ends - 1) >> height
            complete = (interval + 1) << height <= n
            gram += np.equal.outer(interval, interval) & complete
        return cls(causal_strategy(gram))

    @classmethod
    def fourier(cls, steps: int) -> MatrixNoise:
        """The Fourier mechanism with the best decoder, as a causal strategy.

        Its Gram matrix is the leading block of the circulant matrix whose eigenvalues are the sizes of the discrete
        Fourier transform of n ones and n zeros.

        Parameters
        ----------
        steps : int
            n >= 1; takes O(n³).

        Returns
        -------
        MatrixNoise

        Examples
        --------
        >>> import corrnoise as cn
        >>> round(cn.mechanisms.MatrixNoise.fourier(64).mean_error(cn.Participation.single(64)), 6)
        2.200364
        """
        from scipy import fft

        n = checks.integer("steps", steps, 1)
        column = fft.irfft(np.abs(fft.rfft(np.ones(n), 2 * n)), 2 * n)
        lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        return cls(causal_strategy(column[lags]))

    def arguments(self) -> dict[str, Any]:
        return {"strategy": self.matrix}

    @property
    def steps(self) -> int:
        return int(self.matrix.shape[0])

    def bands(self, n: int | None = None) -> int:
        self.length(n)
        rows, columns = np.nonzero(self.matrix)
        return int((rows - columns).max()) + 1

    def _solved(self, draws: Array) -> Array:
        return np.asarray(solve_triangular(self.matrix, draws, lower=True))

    def strategy(self, n: int | None = None) -> Array:
        self.length(n)
        return self.matrix


@record
class BandedNoise(SubstitutedNoise):
    """A lower-triangular strategy with few bands.

    Parameters
    ----------
    diagonals : array_like
        Shape (p, steps), 1 <= p <= steps: entry (i, t) is C_{t+i, t}, and must be 0 where t + i >= steps.  The first
        row, the diagonal, holds no 0.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.mechanisms.BandedNoise([[1.0, 1.0, 1.0], [0.5, 0.5, 0.0]]).strategy()
    array([[1. , 0. , 0. ],
           [0.5, 1. , 0. ],
           [0. , 0.5, 1. ]])
    """

    diagonals: Array

    def __init__(self, diagonals: ArrayLike) -> None:
        given = checks.reals("diagonals", diagonals)
        if given.ndim != 2 or not 1 <= given.shape[0] <= given.shape[1]:
            raise ValueError(f"diagonals must have shape (p, steps) with 1 <= p <= steps, got {given.shape}")
        if not given[0].all():
            raise ValueError(f"diagonals[0] must not hold a 0, got one at step {int(np.argmin(np.abs(given[0])))}")
        for i, diagonal in enumerate(given):
            if diagonal[given.shape[1] - i :].any():
                raise ValueError(f"diagonals[{i}] must end with {i} zeros, got {float(diagonal[-i:].max())!r}")
        self._set(diagonals=given)

    @property
    def steps(self) -> int:
        return int(self.diagonals.shape[1])

    def _leading(self, n: int) -> BandedNoise:
        diagonals = self.diagonals[:n, :n]
        inside = np.add.outer(np.arange(len(diagonals)), np.arange(n)) < n
        return BandedNoise(np.where(inside, diagonals, 0.0))

    def bands(self, n: int | None = None) -> int:
        self.length(n)
        return int(self.diagonals.shape[0])

    def _solved(self, draws: Array) -> Array:
        return np.asarray(solve_banded((self.diagonals.shape[0] - 1, 0), self.diagonals, draws))

    def strategy(self, n: int | None = None) -> Array:
        self.length(n)
        matrix = np.zeros((self.steps, self.steps))
        for i, diagonal in enumerate(self.diagonals):
            np.fill_diagonal(matrix[i:], diagonal)
        return matrix

    def column_norms(self, n: int | None = None) -> Array:
        self.length(n)
        return np.asarray(np.linalg.norm(self.diagonals, axis=0))


def causal_strategy(gram: ArrayLike) -> Array:
    """The lower-triangular C with CᵀC = X and a positive diagonal, for X symmetric and positive definite, shape (n, n).

    Errors and sensitivity depend on X alone.  A strategy with more rows than columns, or with a decoder that looks
    ahead, becomes one that a stream can run in this way.  With the reversal J it is J chol(J X J)ᵀ J.
    """
    given = checks.reals("gram", gram)
    matrix = checks.symmetric("gram", given, given.shape[0] if given.ndim else 0)
    try:
        factor = np.linalg.cholesky(matrix[::-1, ::-1])
    except np.linalg.LinAlgError as error:
        raise ValueError("gram must be positive definite, got a matrix without a Cholesky factor") from error
    return np.tril(factor.T[::-1, ::-1])
