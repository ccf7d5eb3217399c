"""Workloads: the part of the noise that a finite run shows.

A workload is a matrix A with a column for each step.  The noise N z of a mechanism reaches what is released, or what
is learned, as A N z: the error of row t is (A N Nᵀ Aᵀ)_tt.  Sums of all gradients so far (``PrefixSums``) are the
iterates of SGD with a constant learning rate; ``MomentumSGD`` has momentum, weight decay and a schedule.  ``SGD`` is
the optimiser itself, which has no length and gives the workload of each.
``MomentumAverage`` is the momentum itself, which is what normalised steps and methods like Adam read.

A workload of a run that can be undone, from iterates back to gradients, has a banded inverse, and everything about it
takes O(n).

Sources: Denisov et al., arXiv 2202.08312 (workloads of training); Kalinin and Lampert, arXiv 2405.13763 (momentum and
weight decay).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_banded

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.objectives.base import Objective, root_of_weights
from corrnoise.theory.objectives.toeplitz_errors import Aggregate
from corrnoise.theory.participation import Participation
from corrnoise.theory.recursion import Recursion


class Workload(Objective):
    """A matrix A with ``steps`` columns, applied to the noise: its root mean squared error is minimised."""

    regularised: ClassVar[bool] = False
    #: Examples of a batch, over which ``error`` averages.
    averaged_over = 1

    def arguments(self) -> dict[str, Any]:
        """The arguments that rebuild this workload; a batch of one example, the default, is left out."""
        found = super().arguments()
        if found.get("averaged_over") == 1:
            del found["averaged_over"]
        return found

    def error(self, square: float) -> float:
        return 1 / self.averaged_over * math.sqrt(square)

    @abstractmethod
    def apply(self, values: ArrayLike) -> Array:
        """The product A x.

        Parameters
        ----------
        values : array_like
            x, shape (steps, …).

        Returns
        -------
        array of shape (rows, …)
        """

    @abstractmethod
    def apply_transposed(self, values: ArrayLike) -> Array:
        """The product Aᵀ y.

        Parameters
        ----------
        values : array_like
            y, shape (rows, …).

        Returns
        -------
        array of shape (steps, …)
        """

    def matrix(self) -> Array:
        """A as an array, shape (rows, steps)."""
        return self.apply(np.eye(self.steps)) + 0.0  # −0 is 0

    def weight_matrix(self) -> Array:
        matrix = self.matrix()
        return self.apply_transposed(matrix) / matrix.shape[0]

    def _columns(self, name: str, values: ArrayLike, length: int) -> Array:
        array = checks.reals(name, values)
        if array.ndim == 0 or array.shape[0] != length:
            raise ValueError(f"{name} must have shape ({length}, …), got {array.shape}")
        return array


class RecursiveWorkload(Workload):
    """A lower-triangular workload with a banded inverse."""

    @abstractmethod
    def inverse_bands(self) -> Array:
        pass

    def apply(self, values: ArrayLike) -> Array:
        bands = self.inverse_bands()
        x = self._columns("values", values, self.steps)
        flat = solve_banded((bands.shape[0] - 1, 0), bands, x.reshape(self.steps, -1))
        return np.asarray(flat.reshape(x.shape))

    def apply_transposed(self, values: ArrayLike) -> Array:
        bands = self.inverse_bands()
        y = self._columns("values", values, self.steps)
        size = bands.shape[0] - 1
        upper = np.zeros_like(bands)  # of the transposed matrix, in the storage of LAPACK
        for i, band in enumerate(bands):
            upper[size - i, i:] = band[: self.steps - i]
        flat = solve_banded((0, size), upper, y.reshape(self.steps, -1))
        return np.asarray(flat.reshape(y.shape))


@record
class PrefixSums(RecursiveWorkload):
    """Sums of all gradients so far, A_ts = 1 for s <= t: SGD with a constant learning rate.

    Parameters
    ----------
    steps : int
        At least 1.
    averaged_over : int, default 1
        Examples of a batch, over which ``error`` averages.
    """

    steps: int
    averaged_over: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        self._check(steps=1, averaged_over=1)

    @property
    def precise(self) -> bool:
        return True

    def apply(self, values: ArrayLike) -> Array:
        return np.asarray(np.cumsum(self._columns("values", values, self.steps), axis=0))

    def apply_transposed(self, values: ArrayLike) -> Array:
        return np.asarray(np.cumsum(self._columns("values", values, self.steps)[::-1], axis=0)[::-1])

    def inverse_bands(self) -> Array:
        bands = np.array([np.ones(self.steps), np.full(self.steps, -1.0)])
        bands[1, -1] = 0.0
        return bands

    def column(self) -> Array:
        return np.ones(self.steps)

    def weight_matrix(self) -> Array:
        steps = np.arange(self.steps)
        return np.asarray((self.steps - np.maximum.outer(steps, steps)) / self.steps)

    def recursion(self) -> Recursion:
        return Recursion([[[[1.0]]]], [[[1.0]]], np.full((self.steps, 1), 1 / self.steps))


@record
class MomentumSGD(RecursiveWorkload):
    """Iterates of SGD with momentum, decoupled weight decay and a schedule of learning rates.

    With gradients g_t and θ_0 = 0 the workload maps g to −θ_1, …, −θ_n of

        m_t = μ m_{t−1} + g_t,    θ_{t+1} = (1 − η_t ω) θ_t − η_t m_t.

    A⁻¹ has three bands: (A⁻¹)_tt = 1/η_t, (A⁻¹)_{t,t−1} = −(1 − η_t ω)/η_t − μ/η_{t−1} and
    (A⁻¹)_{t,t−2} = μ (1 − η_{t−1} ω)/η_{t−1}.

    Raises
    ------
    ValueError
        If a learning rate of 0 makes A singular: the step shows nothing of the gradient.
    """

    steps: int  #: n >= 1
    _: KW_ONLY
    momentum: float  #: 0 <= μ < 1
    weight_decay: float = 0.0  #: ω >= 0 with η_t ω <= 1 for all t
    learning_rates: ArrayLike | None = None  #: η_t > 0, shape (steps,); None for 1 in every step
    averaged_over: int = 1  #: examples of a batch, over which ``error`` averages

    def __post_init__(self) -> None:
        steps = checks.integer("steps", self.steps, 1)
        rates = None
        if self.learning_rates is not None:
            rates = checks.shaped("learning_rates", self.learning_rates, (steps,), "(0, 1e100]")
        largest = 1.0 if rates is None else float(rates.max())
        self._check(momentum="[0, 1)", weight_decay=f"[0, {1 / largest!r}]", averaged_over=1)
        self._set(steps=steps, learning_rates=rates)

    def _rates(self) -> Array:
        return np.ones(self.steps) if self.learning_rates is None else np.asarray(self.learning_rates)

    def inverse_bands(self) -> Array:
        rates = self._rates()
        kept = (1 - rates * self.weight_decay) / rates
        bands = np.zeros((3, self.steps))
        bands[0] = 1 / rates
        bands[1, :-1] = -kept[1:] - self.momentum / rates[:-1]
        bands[2, :-2] = self.momentum * kept[1:-1]
        return bands[: self.steps]

    def column(self) -> Array | None:
        rates = self._rates()
        return self.apply(np.eye(self.steps, 1)[:, 0]) if np.all(rates == rates[0]) else None

    def recursion(self) -> Recursion:
        """The system of the states (−θ, m)."""
        rates = self._rates()[: 1 if self.learning_rates is None else None]
        moved = np.zeros((rates.size, 1, 2, 2))
        moved[:, 0, 0, 0] = 1 - rates * self.weight_decay
        moved[:, 0, 0, 1] = rates * self.momentum
        moved[:, 0, 1, 1] = self.momentum
        added = np.stack([rates, np.ones(rates.size)], axis=-1)[:, np.newaxis]
        return Recursion(moved, added, np.full((self.steps, 1), 1 / self.steps))


@record
class SGD(Record):
    """An optimiser: SGD with momentum, decoupled weight decay and a schedule, for a run of any length.

    Parameters
    ----------
    momentum : float, default 0.0
        0 <= μ < 1.
    weight_decay : float, default 0.0
        ω >= 0, at most 1 over the largest learning rate.
    learning_rates : array_like, optional
        η_t > 0 of all steps, a vector, which then is for runs of as many steps; None for 1 in every step.
    cool_down : float, optional
        Share in (0, 1] of the run, at its end, over which the learning rate falls from 1 towards 0, linearly; None for
        no such schedule.  It is in place of ``learning_rates``.
    batch_size : int, default 1
        m >= 1: examples a step, over which gradients are averaged.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.SGD().workload(100)
    PrefixSums(steps=100)
    >>> cn.SGD(cool_down=0.5).learning_rates_of(4)
    array([1. , 1. , 1. , 0.5])
    >>> cn.SGD(momentum=0.9).in_words()
    'SGD with momentum 0.9'
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    learning_rates: ArrayLike | None = None
    cool_down: float | None = None
    batch_size: int = 1

    def __post_init__(self) -> None:
        rates = self.learning_rates
        if rates is not None:
            if self.cool_down is not None:
                raise ValueError("learning_rates must not come with cool_down, which is a schedule too")
            rates = checks.reals("learning_rates", rates, "(0, 1e100]", ndim=1)
        largest = 1.0 if rates is None else float(rates.max())
        self._check(momentum="[0, 1)", weight_decay=f"[0, {1 / largest!r}]", batch_size=1, cool_down="(0, 1]")
        self._set(learning_rates=rates)

    def learning_rates_of(self, steps: int) -> Array | None:
        """The learning rates of all steps of a run, shape (steps,); None for a constant one.

        Parameters
        ----------
        steps : int
            n >= 1.

        Returns
        -------
        array of float or None
        """
        n = checks.integer("steps", steps, 1)
        if self.cool_down is not None:
            return np.minimum(1.0, (n - np.arange(n)) / (self.cool_down * n))
        return None if self.learning_rates is None else checks.shaped("learning_rates", self.learning_rates, (n,))

    def workload(self, steps: int) -> PrefixSums | MomentumSGD:
        """The workload of a run, whose errors are the errors of the iterates.

        Parameters
        ----------
        steps : int
            n >= 1.

        Returns
        -------
        PrefixSums or MomentumSGD
        """
        rates = self.learning_rates_of(steps)
        if self.momentum == 0 and self.weight_decay == 0 and rates is None:
            return PrefixSums(steps)
        return MomentumSGD(steps, momentum=self.momentum, weight_decay=self.weight_decay, learning_rates=rates)

    def for_run(self, participation: Participation) -> Objective:
        """The objective of a run: its workload, with the mean error of a batch.

        Parameters
        ----------
        participation : Participation
            The order of the data, for a run of a known number of steps.

        Returns
        -------
        Objective

        Raises
        ------
        ValueError
            The number of steps is not known.
        """
        if participation.steps is None:
            raise ValueError(f"steps must be given without a problem, got a run of any length, {participation!r}")
        return replace(self.workload(participation.steps), averaged_over=self.batch_size)

    def in_words(self) -> str:
        """The optimiser as it stands in reports.

        Returns
        -------
        str
        """
        parts = [f"momentum {self.momentum:g}"] if self.momentum else []
        parts += [f"weight decay {self.weight_decay:g}"] if self.weight_decay else []
        if self.cool_down is not None:
            parts += [f"a learning rate that falls over the last {self.cool_down:.4g} of the run"]
        elif self.learning_rates is not None:
            rates = np.asarray(self.learning_rates)
            parts += [f"learning rates from {rates.min():.6g} to {rates.max():.6g}"]
        return f"SGD with {', '.join(parts) or 'a constant learning rate'}"


@record
class MomentumAverage(RecursiveWorkload):
    """The momentum m_t = (1 − α) m_{t−1} + α g_t with m_0 = 0, A_ts = α (1 − α)^{t−s} for s <= t.

    Parameters
    ----------
    steps : int
        At least 1.
    alpha : float
        α in (0, 1].
    """

    steps: int
    _: KW_ONLY
    alpha: float

    def __post_init__(self) -> None:
        self._check(steps=1, alpha="(0, 1]")

    def inverse_bands(self) -> Array:
        bands = np.array([np.full(self.steps, 1 / self.alpha), np.full(self.steps, 1 - 1 / self.alpha)])
        bands[1, -1] = 0.0
        return bands[: self.steps]

    def column(self) -> Array:
        return self.apply(np.eye(self.steps, 1)[:, 0])

    def recursion(self) -> Recursion:
        return Recursion([[[[1 - self.alpha]]]], [[[self.alpha]]], np.full((self.steps, 1), 1 / self.steps))


@record
class MatrixWorkload(Workload):
    """Any matrix A: a row for each quantity that counts, a column for each step."""

    entries: Array

    def __init__(self, matrix: ArrayLike) -> None:
        entries = checks.reals("matrix", matrix)
        if entries.ndim != 2 or 0 in entries.shape:
            raise ValueError(f"matrix must have shape (rows, steps), got {entries.shape}")
        self._set(entries=entries)

    def arguments(self) -> dict[str, Array]:
        return {"matrix": self.entries}

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return int(self.entries.shape[1])

    def matrix(self) -> Array:
        return self.entries

    def apply(self, values: ArrayLike) -> Array:
        return np.tensordot(self.entries, self._columns("values", values, self.steps), axes=1)

    def apply_transposed(self, values: ArrayLike) -> Array:
        return np.tensordot(self.entries.T, self._columns("values", values, self.entries.shape[0]), axes=1)


@record
class LargestError(Objective):
    """The largest root mean squared error of a row of a workload.

    For Toeplitz noise and a Toeplitz workload it is the error of the last step.  ``recursion`` is the linear system of
    the mean error, which is at most the largest one.

    Parameters
    ----------
    workload : Workload
        A Toeplitz workload, such as ``PrefixSums``; certified optima of one participation take any workload.
    """

    aggregate: ClassVar[Aggregate] = "max"
    regularised: ClassVar[bool] = False

    workload: Workload

    def __post_init__(self) -> None:
        self._check(workload=Workload)

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Number of steps of the workload."""
        return self.workload.steps

    @property
    def precise(self) -> bool:
        return self.workload.precise

    def for_run(self, participation: Participation) -> Objective:
        if self.workload.column() is None:
            raise ValueError(
                f"workload must be Toeplitz for its largest error, got {self.workload!r:.80}: minimise the workload "
                "itself, whose mean error counts"
            )
        return super().for_run(participation)

    def recursion(self) -> Recursion | None:
        return self.workload.recursion()

    def column(self) -> Array | None:
        return self.workload.column()

    def weight_matrix(self) -> Array:
        """Return aaᵀ for the last row a of a Toeplitz workload."""
        column = self.column()
        assert column is not None
        return np.outer(column[::-1], column[::-1])

    def matrix(self) -> Array:
        """Return the workload as an array."""
        return self.workload.matrix()

    def error(self, square: float) -> float:
        return self.workload.error(square)


def workload_of_weights(weights: ArrayLike) -> MatrixWorkload:
    """Return a workload whose squared mean error is tr(W N Nᵀ), as ``root_of_weights`` makes it."""
    return MatrixWorkload(root_of_weights(weights))
