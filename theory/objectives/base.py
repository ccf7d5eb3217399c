r"""The objective of a finite run: a quadratic form tr(W N Nᵀ) of its noise N, times the squared sensitivity.

The mean squared error of a workload A with r rows is of this form with W = AᵀA/r, the largest squared error of a
Toeplitz workload with W = aaᵀ for its last row a, and the cost of privacy in learning with the W of
``theory.problems.learning_objective``.  A class of its own needs ``recursion`` or ``weight_matrix`` and nothing else.

For Toeplitz noise N = T(β) the form is βᵀ M β.  ``power`` computes it and its gradient 2 M β in one of four ways:

* prefix sums of p coefficients, in O(p);
* a linear system of one state for each group, whose steps are all the same:
  Σ_j Σ_t w_{t,j} Σ_{s<=t} y_{s,j}², y_s = (1 − x_j) y_{s−1} + β_s, in O(n d);
* a Toeplitz workload with the first column a:  Σ_t w_t b_t² with b = a ∗ β and w_t = (n − t)/n, in O(n log n);
* any W:  M_ij = W_ij + M_{i+1,j+1}, in O(n²), up to 4096 steps.

For noise with a factor for each step, N = diag(s) T(β), K = N Nᵀ follows row by row from
K_tr/(s_t s_r) = β_t β_r + K_{t−1,r−1}/(s_{t−1} s_{r−1}), and the form is Σ W_tr K_tr.
"""

from __future__ import annotations

import math
from abc import ABC
from copy import copy
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.power_series import multiplied
from corrnoise.theory.numerics.records import Record
from corrnoise.theory.objectives.toeplitz_errors import Aggregate, covariance, error_weights, noising_error
from corrnoise.theory.participation import Participation
from corrnoise.theory.recursion import Recursion

Measure = Literal["root mean squared error", "excess loss", "stationary excess loss"]

LARGEST_MATRIX = 4096  #: the most steps with n × n matrices
REGULARISATION = 1e-12  #: share of tr(W)/n that is added to the diagonal of the weights W of an objective


@runtime_checkable
class Minimisable(Protocol):
    """An objective, or a recipe for one that the length of the run completes."""

    def for_run(self, participation: Participation) -> Any:
        """Return the ``Objective`` of a run; a problem returns itself in a run of any length."""


def checked_minimisable(objective: object) -> Minimisable:
    """Return ``objective``; raise ``TypeError`` unless it can be minimised."""
    if not isinstance(objective, Minimisable):
        raise TypeError(f"objective must be SGD, a workload, a problem or another Objective, got {objective!r:.80}")
    return objective


class Objective(Record, ABC):
    """A quadratic form of the noise of a run of ``steps`` steps."""

    steps: int
    measure: ClassVar[Measure] = "root mean squared error"
    #: Whether the mean or the largest of the errors of the steps counts; the linear system always belongs to the mean.
    aggregate: ClassVar[Aggregate] = "mean"
    #: Whether ``matrix`` is a root of W with a small multiple of the identity added.
    regularised: ClassVar[bool] = True

    # -- defined by each class -----------------------------------------------------------------------------------------

    def recursion(self) -> Recursion | None:
        """Return the linear system whose squared error is the form; None where none is known.

        Returns
        -------
        Recursion or None
        """
        return None

    def weight_matrix(self) -> Array:
        """Return the weights W of the form.

        Returns
        -------
        array of shape (steps, steps)
        """
        if self.system is None:
            raise TypeError(f"{type(self).__name__} must define recursion() or weight_matrix(), and has neither")
        return self.system.gram()

    def column(self) -> Array | None:
        """Return the first column of a lower-triangular Toeplitz workload, shape (steps,); None for all others.

        Returns
        -------
        array of float or None
        """
        return None

    def inverse_bands(self) -> Array | None:
        """Return the bands of a lower-triangular A⁻¹, shape (p, steps): entry (i, j) is (A⁻¹)_{j+i,j}.

        Entries where j + i is not a step are 0.  None where no banded inverse is known.

        Returns
        -------
        array of float or None
        """
        return None

    @property
    def precise(self) -> bool:
        """Whether the form is an error of prefix sums: closed forms then find the last digits in a short time."""
        return False

    @property
    def groups(self) -> int:
        """Number of groups of the linear system; 0 where none is known."""
        system = self.recursion()
        return 0 if system is None else system.weights.shape[1]

    def error(self, square: float) -> float:
        """Return the reported value of a squared error γ² tr(W N Nᵀ).

        Parameters
        ----------
        square : float
            γ² tr(W N Nᵀ).

        Returns
        -------
        float
        """
        return math.sqrt(square)

    # -- what follows --------------------------------------------------------------------------------------------------

    def for_run(self, participation: Participation) -> Objective:
        """Return this objective, as a copy that caches numbers of one run only.

        Parameters
        ----------
        participation : Participation
            The data order or sampling of the run.

        Returns
        -------
        Objective

        Raises
        ------
        ValueError
            The run has another number of steps, or is too long for dense matrices where nothing else is known.
        """
        self._of_this_run(participation)
        if self.steps > LARGEST_MATRIX and not self.groups and self.column() is None:
            raise too_long(self.steps)
        return copy(self)

    def _of_this_run(self, participation: Participation) -> Participation:
        if checks.instance("participation", participation, Participation).steps != self.steps:
            raise ValueError(f"participation must have steps={self.steps} as the objective has, got {participation!r}")
        return participation

    @cached_property
    def system(self) -> Recursion | None:
        """The linear system, computed once."""
        return self.recursion()

    @cached_property
    def toeplitz(self) -> bool:
        """Whether the form covers all Toeplitz noise; otherwise it has independent noise and time-varying buffers."""
        return self.steps <= LARGEST_MATRIX or self._column is not None or self._contraction is not None

    @cached_property
    def form(self) -> Array:
        """W, shape (steps, steps), computed once."""
        if not self.toeplitz:
            raise too_long(self.steps)
        return self.weight_matrix()

    @cached_property
    def _root(self) -> Array:
        return root_of_weights(self.form)

    def matrix(self) -> Array:
        """Return an A with W = AᵀA/rows, shape (rows, steps); here A is upper triangular and W is regularised.

        Returns
        -------
        array of float
        """
        return self._root

    def power(self, noising: Array) -> tuple[float, Array]:
        """Return tr(W T(β) T(β)ᵀ) and its gradient in β.

        Parameters
        ----------
        noising : Array
            β, shape (p,), which is 0 after p <= n steps.

        Returns
        -------
        tuple[float, Array]
            The form, and the gradient of shape (p,).
        """
        n, count = self.steps, noising.size
        if self.precise:
            return noising_error(noising, error_weights(n, count, self.aggregate))
        if self._contraction is not None:
            from corrnoise.theory.recursion_kernels import filtered_gradient, filtered_power  # numba takes a second

            assert self.system is not None
            given, gradient = (self._contraction, _padded(noising, n), self.system.weights), np.empty(n)
            filtered_gradient(*given, gradient)
            return float(filtered_power(*given)), gradient[:count]
        if self._column is not None:
            sums = self._sums(noising)
            weighted = self._shares * sums
            # The transpose of a Toeplitz workload is the workload in reversed time.
            return float(weighted @ sums), 2 * self._sums(weighted[::-1])[::-1][:count]
        slope = self._shifted_form[:count, :count] @ noising
        return float(noising @ slope), 2 * slope

    def scaled_power(self, noising: Array, scales: Array) -> float:
        """Return tr(W N Nᵀ) of N = diag(scales) T(β); O(n²).

        Parameters
        ----------
        noising : array of float
            β, shape (n,).
        scales : array of float
            Factors of the steps, shape (n,).

        Returns
        -------
        float
        """
        return float((self.form * covariance(noising, scales)).sum())

    def epoch_powers(self, noising: Array, scales: Array, period: int) -> Array:
        """Return the parts of ``scaled_power`` by pairs of epochs of ``period`` steps, shape (epochs, epochs).

        Parameters
        ----------
        noising : array of float
            β, shape (n,).
        scales : array of float
            Factors of the steps, shape (n,).
        period : int
            Steps of an epoch, >= 1.

        Returns
        -------
        array of float
        """
        first = np.arange(0, self.steps, period)
        return np.add.reduceat(np.add.reduceat(self.form * covariance(noising, scales), first, 0), first, 1)

    @cached_property
    def _column(self) -> Array | None:
        return self.column()

    @cached_property
    def _shares(self) -> Array:
        return error_weights(self.steps, self.steps, self.aggregate)

    @cached_property
    def _contraction(self) -> Array | None:
        """1 − Φ of a linear system of one state for each group and of equal steps with the input 1; otherwise None."""
        system = None if self.aggregate == "max" else self.system
        if system is None or system.transition.shape != (1, system.weights.shape[1], 1, 1):
            return None
        return 1 - system.transition[0, :, 0, 0] if (system.input == 1).all() else None

    @cached_property
    def _shifted_form(self) -> Array:
        """M."""
        form = self.form.copy()
        for i in range(self.steps - 2, -1, -1):
            form[i, :-1] += form[i + 1, 1:]
        return form

    def _sums(self, noise: Array) -> Array:
        """The Toeplitz workload of noise, which is 0 after the steps that are given."""
        if self.system is None:
            assert self._column is not None
            return multiplied(self._column, noise)
        return self.system.response(_padded(noise, self.steps))[:, 0]


def root_of_weights(weights: ArrayLike) -> Array:
    """Return the upper triangular A with AᵀA/n = W, up to a small multiple of the identity.

    1e-12 tr(W)/n is added to the diagonal of W, because no strategy attains the infimum where W is singular.
    """
    array = checks.reals("weights", weights)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise ValueError(f"weights must be a square matrix, got shape {array.shape}")
    n = array.shape[0]
    matrix = checks.symmetric("weights", array, n)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    added = REGULARISATION * float(np.trace(matrix)) / n
    if values[0] < -max(added, 1e-10 * values[-1]) or values[-1] <= 0:
        raise ValueError(f"weights must be positive semidefinite and not 0, got the eigenvalue {float(values[0])!r}")
    roots = np.sqrt(np.maximum(values, 0.0) + added) * math.sqrt(n)
    return np.asarray(np.linalg.qr(roots[:, np.newaxis] * vectors.T, mode="r"))


def too_long(steps: int) -> ValueError:
    """Return the error for a run so long that a dense matrix of its steps is too large."""
    return ValueError(f"steps must be at most {LARGEST_MATRIX} where dense matrices are made, got {steps}")


def _padded(noising: Array, steps: int) -> Array:
    """The coefficients of all steps, which are 0 after the given ones."""
    return np.concatenate([noising, np.zeros(steps - noising.size)])
