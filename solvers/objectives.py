"""The objective of a finite run: a quadratic form tr(W N Nᵀ) of the noise N, from a workload or from learning.

The mean squared error of a workload A with r rows is of this form with W = AᵀA/r, the largest squared error of a
Toeplitz workload with W = aaᵀ for its last row a, and what privacy costs in learning with the W of
``theory.problems.learning_objective``.  Times the squared sensitivity it is what noise is compared by.

For Toeplitz noise N = T(β) the form is βᵀ M β.  Three ways to compute it and its gradient 2 M β are here:

* a Toeplitz workload with the first column a:  Σ_t w_t b_t² with b = a ∗ β and w_t = (n − t)/n, in O(n log n), for
  prefix sums of p coefficients in O(p), of buffers in O(d²) (``theory.mechanisms.buffered``);
* learning:  Σ_j Σ_t w_{t,j} Σ_{s<=t} y_{s,j}², y_s = (1 − x_j) y_{s−1} + β_s, in O(n d);
* any W:  M_ij = W_ij + M_{i+1,j+1}, in O(n²), up to 4096 steps.

For noise with a factor for each step, N = diag(s) T(β), K = N Nᵀ follows row by row from
K_tr/(s_t s_r) = β_t β_r + K_{t−1,r−1}/(s_{t−1} s_{r−1}), and the form is Σ W_tr K_tr.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from corrnoise.solvers.optimum import Measure
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX, Mechanism
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.toeplitz_losses import (
    Objective,
    error_weights,
    multiplied,
    noising_error,
    toeplitz_covariance,
)
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.objectives.workloads import MatrixWorkload, PrefixSums, Workload
from corrnoise.theory.privacy import UNIT_BUDGET
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.learning_recursions import filtered_gradient, filtered_power
from corrnoise.theory.recursion import Recursion

_GROUPS = (8, 5)  # of a linear system in a search, in short and in long runs
_MANY = 1_000_000  # steps times modes, above which searches for Toeplitz noise use groups of modes
REGULARISATION = 1e-12  #: share of tr(W)/n that is added to the diagonal of the weights W of an objective


def grouped(system: Recursion) -> Recursion:
    """The linear system of a search: groups of one state whose transitions are close are one group.

    Rates 1 − Φ are cut into intervals of equal logarithms.  A group has the sum of their weights, and the mean of the
    logarithms of their rates by these weights.
    """
    most = _GROUPS[system.steps > LARGEST_MATRIX]
    groups = system.weights.shape[1]
    rates = 1 - system.transition[0, :, 0, 0]
    simple = system.transition.shape == (1, groups, 1, 1) and (system.input == 1).all() and (rates > 0).all()
    if groups <= most or not simple:
        return system
    logarithms = np.log(rates)
    edges = np.linspace(logarithms.min(), logarithms.max(), most + 1)
    places = np.unique(np.digitize(logarithms, edges[1:-1]), return_inverse=True)[1]
    members = (places == np.arange(places.max() + 1)[:, np.newaxis]).astype(float)
    shares = members * np.maximum(system.weights.sum(axis=0), 1e-300)
    means = shares @ logarithms / shares.sum(axis=1)
    kept = (-np.expm1(means))[np.newaxis, :, np.newaxis, np.newaxis]
    return Recursion(kept, np.ones((1, means.size, 1)), system.weights @ members.T)


class RunObjective(ABC):
    """A quadratic form of the noise of a run of ``steps`` steps."""

    steps: int
    what: Workload | LearningObjective
    kind: Objective = "mean"
    measure: Measure = "root mean squared error"
    #: Whether the form judges all Toeplitz noise, and not only independent noise and time-varying buffers.
    toeplitz = True
    #: Whether the form has closed forms, with which a search finds the last digits in a short time.
    precise = False

    @property
    def coarse(self) -> RunObjective:
        """A form that is close to this one and less costly, for searches; what they find is judged by this one."""
        return self

    @abstractmethod
    def power(self, noising: Array) -> tuple[float, Array]:
        """tr(W T(β) T(β)ᵀ) and its gradient in β; β and the gradient have shape (p,), β is 0 after p <= n steps."""

    def value(self, noising: Array) -> float:
        """tr(W T(β) T(β)ᵀ)."""
        return self.power(noising)[0]

    @abstractmethod
    def weights(self) -> Array:
        """W, shape (steps, steps), for at most ``LARGEST_MATRIX`` steps."""

    def error(self, square: float) -> float:
        """The reported value of a squared error γ² tr(W N Nᵀ)."""
        return math.sqrt(square)

    def workload(self) -> Workload:
        """A workload whose squared mean error is the form, for at most ``LARGEST_MATRIX`` steps."""
        what = self.what
        if self.kind == "mean" and isinstance(what, Workload):
            dense_size(what)
            return what
        return workload_of_weights(self.weights())

    @cached_property
    def system(self) -> Recursion | None:
        """The objective as a linear system; None where none is known."""
        return self.what.recursion()

    @cached_property
    def _weights(self) -> Array:
        return self.weights()

    def power_of_buffers(self, zeros: buffered.Numbers, poles: buffered.Numbers) -> buffered.Numbers:
        """``power`` of noise with interlacing gaps, shape (k, d), whose rows differ by complex steps; shape (k,).

        The imaginary parts of the result give its derivatives.
        """
        _, residues = buffered.residues(zeros, poles)
        weights, gaps, steps = residues * poles, poles.real[0], np.arange(self.steps - 1)
        powers = np.exp(np.log1p(-gaps)[:, np.newaxis] * steps)
        # β_t = −Σ r_i h_i (1 − h_i)^{t−1} for t >= 1
        value, slope = self.power(np.concatenate([[1.0], -(weights.real[0] @ powers)]))
        in_weights = powers @ slope[1:]
        in_gaps = powers @ (steps * slope[1:]) / (1 - gaps)
        return np.asarray(value + 1j * ((weights.real * poles.imag) @ in_gaps - weights.imag @ in_weights))

    def power_of(self, mechanism: Mechanism) -> float:
        """tr(W N Nᵀ) of any mechanism."""
        if isinstance(mechanism, ToeplitzNoise):
            return self.value(mechanism.coefficients(self.steps))
        if isinstance(mechanism, ScaledNoise) and mechanism.draw_scales is None:
            assert mechanism.step_scales is not None
            return self.scaled_power(mechanism.noise.coefficients(self.steps), mechanism.step_scales)
        if isinstance(mechanism, TimeVaryingBuffers):
            if isinstance(self.what, LearningObjective):
                assert self.system is not None
                return mechanism.squared_error(self.system)
            errors = mechanism.errors(self.what)
            return float(errors.max() if self.kind == "max" else errors.mean())
        noising = mechanism.noising_matrix()
        return float((self._weights * (noising @ noising.T)).sum())

    def scaled_power(self, noising: Array, scales: Array) -> float:
        """tr(W N Nᵀ) of N = diag(scales) T(β); O(n²)."""
        return float((self._weights * covariance(noising, scales)).sum())

    def epoch_powers(self, noising: Array, scales: Array, period: int) -> Array:
        """The parts of ``scaled_power`` by pairs of epochs of ``period`` steps, shape (epochs, epochs)."""
        first = np.arange(0, self.steps, period)
        return np.add.reduceat(np.add.reduceat(self._weights * covariance(noising, scales), first, 0), first, 1)


def covariance(noising: Array, scales: Array) -> Array:
    """K = N Nᵀ of N = diag(scales) T(β), shape (n, n)."""
    return toeplitz_covariance(noising) * np.outer(scales, scales)


def padded(noising: Array, steps: int) -> Array:
    """The coefficients of all steps, which are 0 after those that are given."""
    return np.concatenate([noising, np.zeros(steps - noising.size)])


class _PrefixSums(RunObjective):
    precise = True

    def __init__(self, workload: PrefixSums, kind: Objective) -> None:
        self.steps, self.what, self.kind = workload.steps, workload, kind

    def power(self, noising: Array) -> tuple[float, Array]:
        return noising_error(noising, error_weights(self.steps, noising.size, self.kind))

    def power_of_buffers(self, zeros: buffered.Numbers, poles: buffered.Numbers) -> buffered.Numbers:
        return buffered.squared_error(zeros, poles, steps=self.steps, objective=self.kind)

    def weights(self) -> Array:
        if self.kind == "max":
            return np.ones((self.steps, self.steps))
        steps = np.arange(self.steps)
        return (self.steps - np.maximum.outer(steps, steps)) / self.steps


class _ToeplitzWorkload(RunObjective):
    what: Workload

    def __init__(self, workload: Workload, column: Array, kind: Objective) -> None:
        self.steps, self.what, self.column, self.kind = workload.steps, workload, column, kind
        self.shares = error_weights(workload.steps, workload.steps, kind)

    def power(self, noising: Array) -> tuple[float, Array]:
        sums = self._sums(noising)
        weighted = self.shares * sums
        # The transpose of a Toeplitz workload is the workload in reversed time.
        return float(weighted @ sums), 2 * self._sums(weighted[::-1])[::-1][: noising.size]

    def _sums(self, noise: Array) -> Array:
        """The workload of noise, which is 0 after the steps that are given."""
        if self.system is None:
            return multiplied(self.column, noise)
        return self.system.response(padded(noise, self.steps))[:, 0]

    def weights(self) -> Array:
        if self.kind == "max":
            return np.outer(self.column[::-1], self.column[::-1])
        return _mean_gram(self.what)


class _AnyWorkload(RunObjective):
    what: Workload

    def __init__(self, workload: Workload) -> None:
        self.steps, self.what = workload.steps, workload

    def power(self, noising: Array) -> tuple[float, Array]:
        count = noising.size
        slope = self._form[:count, :count] @ noising
        return float(noising @ slope), 2 * slope

    def weights(self) -> Array:
        return _mean_gram(self.what)

    @cached_property
    def _form(self) -> Array:
        form = self._weights.copy()
        for i in range(self.steps - 2, -1, -1):
            form[i, :-1] += form[i + 1, 1:]
        return form


class _LongWorkload(RunObjective):
    """A linear system of more than ``LARGEST_MATRIX`` steps, in O(n)."""

    what: Workload
    toeplitz = False

    system: Recursion

    def __init__(self, workload: Workload, system: Recursion) -> None:
        self.steps, self.what, self.system = workload.steps, workload, system

    def power(self, noising: Array) -> tuple[float, Array]:
        raise too_long(self.steps)

    def weights(self) -> Array:
        raise too_long(self.steps)

    def power_of(self, mechanism: Mechanism) -> float:
        if isinstance(mechanism, DPSGD):
            none = np.zeros((self.steps, 1))
            mechanism = TimeVaryingBuffers([0.0], none, none, np.ones(self.steps))
        if not isinstance(mechanism, TimeVaryingBuffers):
            raise too_long(self.steps)
        return mechanism.squared_error(self.system)


class _Learning(RunObjective):
    what: LearningObjective
    measure: Measure = "excess loss"

    def __init__(self, objective: LearningObjective, groups: Recursion | None = None) -> None:
        self.steps, self.what = objective.steps, objective
        if groups is not None:
            self.system = groups

    @cached_property
    def system(self) -> Recursion:
        return self.what.recursion()

    @cached_property
    def coarse(self) -> RunObjective:
        if self.steps * self.what.modes().counts.size <= _MANY:
            return self
        return _Learning(self.what, grouped(self.what.recursion()))  # so a search does not keep the whole system

    @cached_property
    def _rates(self) -> Array:
        return 1 - self.system.transition[0, :, 0, 0]

    def value(self, noising: Array) -> float:
        return float(filtered_power(self._rates, padded(noising, self.steps), self.system.weights))

    def power(self, noising: Array) -> tuple[float, Array]:
        gradient = np.empty(self.steps)
        filtered_gradient(self._rates, padded(noising, self.steps), self.system.weights, gradient)
        return self.value(noising), gradient[: noising.size]

    def weights(self) -> Array:
        return self.what.weight_matrix()

    def error(self, square: float) -> float:
        of = self.what
        return of.problem.learning_rate**2 / 2 * UNIT_BUDGET.unit_variance / of.batch_size**2 * square


def run_objective(what: Workload | LearningObjective, kind: Objective = "mean") -> RunObjective:
    """The quadratic form of a workload or of learning: the mean of its squared errors over the rows, or the largest.

    A linear system of more than 4096 steps that is not Toeplitz judges independent noise and time-varying buffers only.
    Raises ``ValueError`` where a workload that is neither Toeplitz nor a linear system has more than 4096 steps, or one
    that is not Toeplitz is to be judged by its largest error.
    """
    checks.choice("kind", kind, ("mean", "max"))
    if isinstance(what, LearningObjective) and kind == "mean":
        return _Learning(what)
    workload = checks.instance("objective", what, Workload)  # type: ignore[type-abstract]
    if isinstance(workload, PrefixSums):
        return _PrefixSums(workload, kind)
    column = workload.toeplitz_coefficients()
    if column is not None:
        return _ToeplitzWorkload(workload, column, kind)
    if kind == "max":
        raise ValueError(f"kind must be 'mean' for a workload that is not Toeplitz, got 'max' for {workload!r:.80}")
    system = workload.recursion()
    if system is not None and workload.steps > LARGEST_MATRIX:
        return _LongWorkload(workload, system)
    dense_size(workload)
    return _AnyWorkload(workload)


def _mean_gram(workload: Workload) -> Array:
    matrix = workload.matrix()
    return workload.apply_transposed(matrix) / matrix.shape[0]


# -- workloads as matrices ---------------------------------------------------------------------------------------------


def dense_size(workload: Workload) -> int:
    """The number of steps, if it is small enough for dense matrices."""
    if workload.steps > LARGEST_MATRIX:
        raise too_long(workload.steps)
    return workload.steps


def too_long(steps: int) -> ValueError:
    """The error of a run for which a dense matrix would be made."""
    return ValueError(f"steps must be at most {LARGEST_MATRIX} where dense matrices are made, got {steps}")


def full_rank_matrix(workload: Workload) -> Array:
    """A as an array; ``ValueError`` if its columns are dependent."""
    dense_size(workload)
    matrix = workload.matrix()
    if np.linalg.matrix_rank(matrix) < workload.steps:
        raise ValueError(
            "workload must have independent columns, otherwise no strategy attains the optimum, got rank "
            f"{np.linalg.matrix_rank(matrix)} for {workload.steps} steps; workload_of_weights adds what is missing"
        )
    return matrix


def workload_of_weights(weights: ArrayLike) -> MatrixWorkload:
    """A workload whose squared mean error is tr(W N Nᵀ), for any objective of this form such as that of learning.

    It is the upper triangular A with AᵀA/n = W.  1e-12 tr(W)/n is added to the diagonal of W: where W is singular no
    strategy attains the infimum.
    Raises ``ValueError`` where W is not symmetric or not positive semidefinite.
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
    return MatrixWorkload(np.linalg.qr(roots[:, np.newaxis] * vectors.T, mode="r"))
