"""What a finite run minimises: a quadratic form tr(W N Nᵀ) of the noise N, from a workload or from learning.

The mean squared error of a workload A with r rows is of this form with W = AᵀA/r, and what privacy costs in learning
with the W of ``theory.problems.learning_objective``.  Times the squared sensitivity it is what noise is compared by.

For Toeplitz noise N = T(β) the form is βᵀ M β.  Three ways to compute it and its gradient 2 M β are here:

* a Toeplitz workload with the first column a:  Σ_t w_t b_t² with b = a ∗ β and w_t = (n − t)/n, in O(n log n);
* learning:  Σ_j Σ_s Ω_{s,j} y_{s,j}², y_s = (1 − x_j) y_{s−1} + β_s, in O(n d);
* any W:  M_ij = W_ij + M_{i+1,j+1}, in O(n²).

For noise with a factor for each step, N = diag(s) T(β), K = N Nᵀ follows row by row from
K_tr/(s_t s_r) = β_t β_r + K_{t−1,r−1}/(s_{t−1} s_{r−1}), and the form is Σ W_tr K_tr.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from corrnoise.theory.mechanisms.toeplitz_losses import correlated, error_weights, multiplied, toeplitz_covariance
from corrnoise.theory.workloads import PrefixSums, Workload
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.learning_recursions import filtered_gradient, filtered_power

LARGEST_MATRIX = 4096  #: steps up to which n × n matrices are made


class RunObjective(ABC):
    """A quadratic form of the noise of a run of ``steps`` steps."""

    steps: int

    @abstractmethod
    def power(self, noising: Array) -> tuple[float, Array]:
        """tr(W T(β) T(β)ᵀ) and its gradient in β, shape (steps,)."""

    @abstractmethod
    def weights(self) -> Array:
        """W, shape (steps, steps), for at most ``LARGEST_MATRIX`` steps."""

    @cached_property
    def _weights(self) -> Array:
        return self.weights()

    def scaled_power(self, noising: Array, scales: Array) -> float:
        """tr(W N Nᵀ) of N = diag(scales) T(β); O(n²)."""
        return float((self._weights * covariance(noising, scales)).sum())

    def epoch_powers(self, noising: Array, scales: Array, min_sep: int) -> Array:
        """The parts of ``scaled_power`` by pairs of epochs of ``min_sep`` steps, shape (epochs, epochs)."""
        first = np.arange(0, self.steps, min_sep)
        return np.add.reduceat(np.add.reduceat(self._weights * covariance(noising, scales), first, 0), first, 1)


def covariance(noising: Array, scales: Array) -> Array:
    """K = N Nᵀ of N = diag(scales) T(β), shape (n, n)."""
    return toeplitz_covariance(noising) * np.outer(scales, scales)


class _ToeplitzWorkload(RunObjective):
    def __init__(self, workload: Workload, column: Array) -> None:
        self.steps, self.workload, self.column = workload.steps, workload, column
        self.shares = error_weights(workload.steps, workload.steps, "mean")

    def power(self, noising: Array) -> tuple[float, Array]:
        if isinstance(self.workload, PrefixSums):
            sums = np.cumsum(noising)
            weighted = self.shares * sums
            return float(weighted @ sums), 2 * np.cumsum(weighted[::-1])[::-1]
        sums = multiplied(self.column, noising)
        weighted = self.shares * sums
        return float(weighted @ sums), 2 * correlated(weighted, self.column, self.steps)

    def weights(self) -> Array:
        return _mean_gram(self.workload)


class _AnyWorkload(RunObjective):
    def __init__(self, workload: Workload) -> None:
        self.steps, self.workload = workload.steps, workload

    def power(self, noising: Array) -> tuple[float, Array]:
        slope = self._form @ noising
        return float(noising @ slope), 2 * slope

    def weights(self) -> Array:
        return _mean_gram(self.workload)

    @cached_property
    def _form(self) -> Array:
        form = self._weights.copy()
        for i in range(self.steps - 2, -1, -1):
            form[i, :-1] += form[i + 1, 1:]
        return form


class _Learning(RunObjective):
    def __init__(self, objective: LearningObjective) -> None:
        self.steps, self.objective = objective.steps, objective

    @cached_property
    def _tails(self) -> Array:
        return self.objective.tail_weights()

    def power(self, noising: Array) -> tuple[float, Array]:
        rates = self.objective.problem.rates
        gradient = np.empty(self.steps)
        filtered_gradient(rates, noising, self._tails, gradient)
        return float(filtered_power(rates, noising, self._tails)), gradient

    def weights(self) -> Array:
        return self.objective.weight_matrix()


def run_objective(what: Workload | LearningObjective) -> RunObjective:
    """The quadratic form of a workload, whose errors are averaged over its rows, or of learning."""
    if isinstance(what, LearningObjective):
        return _Learning(what)
    workload = checks.instance("what", what, Workload)  # type: ignore[type-abstract]
    column = workload.toeplitz_coefficients()
    if column is not None:
        return _ToeplitzWorkload(workload, column)
    if workload.steps > LARGEST_MATRIX:
        raise ValueError(
            f"steps must be at most {LARGEST_MATRIX} for a workload that is not Toeplitz, got {workload.steps}"
        )
    return _AnyWorkload(workload)


def _mean_gram(workload: Workload) -> Array:
    if isinstance(workload, PrefixSums):
        steps = np.arange(workload.steps)
        return (workload.steps - np.maximum.outer(steps, steps)) / workload.steps
    matrix = workload.matrix()
    return workload.apply_transposed(matrix) / matrix.shape[0]
