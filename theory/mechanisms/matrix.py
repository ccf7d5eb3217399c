"""Mechanisms of a finite run: Toeplitz noise with or without scales, any strategy, banded strategies.

    ToeplitzMechanism    N = T(β)            the first n steps of any ``ToeplitzNoise``
    ScaledNoise          N = diag(d) T(β)    the same with a factor for each step, which costs nothing
    BandedNoise          C has p bands       O(p) a step
    MatrixNoise          C is triangular     O(n) a step

With d_t = ‖c_0, …, c_{n−1−t}‖ all columns of the strategy have norm 1 (``column_normalised``); for the square root
1/sqrt(1 − z) this is the normalised square root of arXiv 2509.14334.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import solve_banded, solve_triangular
from scipy.linalg import toeplitz as toeplitz_matrix
from scipy.signal import oaconvolve

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.participation import Participation
from corrnoise.theory.mechanisms.sensitivity import Sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.mechanisms.workloads import PrefixSums, Workload
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record

_UNIT = 2.0**-53


def _lower_toeplitz(column: Array) -> Array:
    return np.asarray(toeplitz_matrix(column, np.zeros(column.size)))


def _bandwidth(column: Array) -> int:
    """The number of coefficients up to the last one that is not 0."""
    return max(int(np.flatnonzero(column)[-1]) + 1, 1)


@record
class ToeplitzMechanism(Mechanism):
    """The first ``steps`` steps of Toeplitz noise.

    Parameters
    ----------
    noise
        Any correlated noise, such as ``NuFTRL(0.01)``.
    steps
        n >= 1.

    Examples
    --------
    >>> from corrnoise import NuFTRL, Participation
    >>> run = ToeplitzMechanism(NuFTRL(0.0), 64)
    >>> round(run.mean_error(Participation(64)), 6)
    2.229676
    """

    noise: ToeplitzNoise
    horizon: int

    def __init__(self, noise: ToeplitzNoise, steps: int) -> None:
        self._set(noise=checked_noise(noise), horizon=checks.integer("steps", steps, 1))

    def arguments(self) -> dict[str, Any]:
        return {"noise": self.noise, "steps": self.horizon}

    @property
    def steps(self) -> int:
        return self.horizon

    @property
    def memory(self) -> int:
        return self.noise.memory(self.steps)

    @property
    def anytime(self) -> bool:
        return math.isfinite(self.noise.limiting_sensitivity())

    @property
    def bands(self) -> int:
        return _bandwidth(self.noise.inverse_coefficients(self.steps))

    def correlate(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        beta = self.noise.coefficients(self.steps).reshape(-1, *[1] * (z.ndim - 1))
        return np.asarray(oaconvolve(z, beta, axes=0)[: self.steps])

    def noising_matrix(self) -> Array:
        return _lower_toeplitz(self.noise.coefficients(self.steps))

    def strategy(self) -> Array:
        return _lower_toeplitz(self.noise.inverse_coefficients(self.steps))

    def sensitivity_bracket(self, participation: Participation) -> Sensitivity:
        return self.noise.sensitivity_bracket(self._of_this_run(participation))

    def errors(self, workload: Workload | None = None) -> Array:
        """O(n) for Toeplitz workloads with a banded inverse, such as prefix sums and momentum; otherwise O(n²)."""
        from corrnoise.theory.numerics import double_double_series

        work = self._checked(workload)
        if work.toeplitz_coefficients() is None:
            return super().errors(work)
        beta = self.noise.coefficients(self.steps)
        if isinstance(work, PrefixSums):
            column = np.empty(self.steps)
            double_double_series.running_sums(beta, column)
        else:
            column = work.apply(beta)
        return np.asarray(np.cumsum(np.square(column)))


@record
class ScaledNoise(Mechanism):
    """Toeplitz noise times a factor for each step, N = diag(d) T(β).

    Parameters
    ----------
    noise
        Any correlated noise.
    scales
        d_t > 0, shape (steps,).  Column t of the strategy is that of T(c), divided by d_t.

    Examples
    --------
    >>> from corrnoise import NuFTRL, Participation
    >>> run = column_normalised(NuFTRL(0.0), 64)
    >>> round(run.mean_error(Participation(64)), 6)
    2.127702
    """

    noise: ToeplitzNoise
    scales: Array

    def __init__(self, noise: ToeplitzNoise, scales: ArrayLike) -> None:
        self._set(noise=checked_noise(noise), scales=checks.reals("scales", scales, "[1e-100, 1e100]", ndim=1))

    @property
    def steps(self) -> int:
        return int(self.scales.size)

    @property
    def memory(self) -> int:
        return self.noise.memory(self.steps)

    @property
    def bands(self) -> int:
        return _bandwidth(self.noise.inverse_coefficients(self.steps))

    def correlate(self, draws: ArrayLike) -> Array:
        plain = ToeplitzMechanism(self.noise, self.steps).correlate(draws)
        return np.asarray(self.scales.reshape(-1, *[1] * (plain.ndim - 1)) * plain)

    def noising_matrix(self) -> Array:
        return self.scales[:, np.newaxis] * _lower_toeplitz(self.noise.coefficients(self.steps))

    def strategy(self) -> Array:
        return _lower_toeplitz(self.noise.inverse_coefficients(self.steps)) / self.scales

    def column_norms(self) -> Array:
        return column_norms(self.noise, self.steps) / self.scales

    @property
    def strategy_error(self) -> float:
        # An error of the coefficients counts most in the last column, which has the first of them alone.
        series, error = self.noise.inverse_with_error(self.steps)
        return error * float(np.linalg.norm(series)) / abs(float(series[0])) + 2 * _UNIT


def column_norms(noise: ToeplitzNoise, steps: int) -> Array:
    """‖c_0, …, c_{n−1−t}‖ for each step t < n, shape (steps,): the norms of the columns of the strategy."""
    return np.sqrt(np.cumsum(np.square(noise.inverse_coefficients(steps))))[::-1]


def column_normalised(
    noise: ToeplitzNoise, steps: int, *, min_sep: int | None = None, epoch_weights: ArrayLike | None = None
) -> ScaledNoise:
    """Toeplitz noise with scales that give the columns of its strategy the norm 1, or a share of each epoch.

    Parameters
    ----------
    noise
        Any correlated noise.
    steps
        n >= 1.
    min_sep
        The number of steps of an epoch; needed for ``epoch_weights``.
    epoch_weights
        p_e > 0, Σ p_e = 1, one for each of the ceil(n/min_sep) epochs: the squared norm of each column of the epoch.
        With at most ``min_sep`` bands the sensitivity is then at most 1, with equality in epochs of equal length, for
        any number of participations ``min_sep`` apart.  None for columns of norm 1.

    Examples
    --------
    >>> from corrnoise import FiniteNoise, Participation
    >>> run = column_normalised(FiniteNoise([1.0]), 4, min_sep=2, epoch_weights=[0.25, 0.75])
    >>> run.scales
    array([2.        , 2.        , 1.15470054, 1.15470054])
    >>> round(run.sensitivity(Participation(4, min_sep=2, max_participations=2)), 9)
    1.0
    """
    norms = column_norms(checked_noise(noise), checks.integer("steps", steps, 1))
    if epoch_weights is None:
        return ScaledNoise(noise, norms)
    if min_sep is None:
        raise ValueError("min_sep must be given with epoch_weights, got None")
    epoch = np.arange(steps) // checks.integer("min_sep", min_sep, 1)
    weights = checks.shaped("epoch_weights", epoch_weights, (int(epoch[-1]) + 1,), "(0, 1]")
    if abs(float(weights.sum()) - 1) > 1e-9:
        raise ValueError(f"epoch_weights must have the sum 1, got {float(weights.sum())!r}")
    return ScaledNoise(noise, norms / np.sqrt(weights[epoch]))


@record
class MatrixNoise(Mechanism):
    """Any lower-triangular strategy with a diagonal that is not 0.

    Parameters
    ----------
    strategy
        C, shape (steps, steps).

    Notes
    -----
    A stream makes y = C⁻¹ z by substitution, y_t = (z_t − Σ_{s<t} C_ts y_s)/C_tt, and keeps all earlier steps that C
    still refers to: O(n) a step.

    Examples
    --------
    >>> MatrixNoise([[1.0, 0.0], [0.5, 1.0]]).noising_matrix()
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

    def arguments(self) -> dict[str, Any]:
        return {"strategy": self.matrix}

    @property
    def steps(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def memory(self) -> int:
        return self.bands - 1

    @property
    def bands(self) -> int:
        rows, columns = np.nonzero(self.matrix)
        return int((rows - columns).max()) + 1

    def correlate(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        flat = solve_triangular(self.matrix, z.reshape(self.steps, -1), lower=True)
        return np.asarray(flat.reshape(z.shape))

    def strategy(self) -> Array:
        return self.matrix


@record
class BandedNoise(Mechanism):
    """A lower-triangular strategy with few bands.

    Parameters
    ----------
    diagonals
        Shape (p, steps), 1 <= p <= steps: entry (i, t) is C_{t+i, t}, and must be 0 where t + i >= steps.  The first
        row, the diagonal, holds no 0.

    Notes
    -----
    A stream keeps p − 1 arrays and takes O(p) a step.

    Examples
    --------
    >>> BandedNoise([[1.0, 1.0, 1.0], [0.5, 0.5, 0.0]]).strategy()
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

    @property
    def memory(self) -> int:
        return self.bands - 1

    @property
    def bands(self) -> int:
        return int(self.diagonals.shape[0])

    def correlate(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        flat = solve_banded((self.bands - 1, 0), self.diagonals, z.reshape(self.steps, -1))
        return np.asarray(flat.reshape(z.shape))

    def strategy(self) -> Array:
        matrix = np.zeros((self.steps, self.steps))
        for i, diagonal in enumerate(self.diagonals):
            np.fill_diagonal(matrix[i:], diagonal)
        return matrix

    def column_norms(self) -> Array:
        return np.asarray(np.linalg.norm(self.diagonals, axis=0))


def causal_strategy(gram: ArrayLike) -> Array:
    """The lower-triangular C with CᵀC = X and a positive diagonal, shape (n, n).

    Parameters
    ----------
    gram
        X, shape (n, n), symmetric and positive definite.

    Notes
    -----
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
