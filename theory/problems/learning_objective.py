"""The exact error of a finite run on a quadratic problem, as a function of any noise: what to minimise for learning.

A run of T steps has, on a quadratic problem, with weights ϖ_1, …, ϖ_T >= 0,

    Σ ϖ_s E(F(θ_s) − F*) = ½ [ Σ_j (M a^{(0)})_j (θ_0 − θ*)_j² + (η² s²/m) Σ_t λ·a^{(t)} + η² σ² tr(W N Nᵀ) ],
    W_tr = Σ_j a_j^{(max(t, r))} (1 − x_j)^{|t − r|},    a^{(T)} = 0,    a^{(t)} = ϖ_{t+1} λ + M a^{(t+1)},
    M = diag((1 − x_j)² + (k_j − 2) x_j²/m) + (η²/m) λ λᵀ.

The privacy part is of the same form as the mean squared error of a workload, with W in place of AᵀA/n, for every
noising matrix N, and whatever optimises the one optimises the other.  With Toeplitz noise the last term is Σ_j Σ_t
w_j^{(t)} Σ_{s<=t} y_{s,j}², y_s = (1 − x_j) y_{s−1} + β_s, in O(T d).  Proof: L1 and L2 of docs/finite-runs-proofs.md.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.discrete_measures import condensed
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.objectives.base import Measure, Objective
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.recursion import Recursion

_SIZE_INTERVAL = "[-1e100, 1e100]"  # squares of these stay finite
MAX_EXACT_MODES = 64  # the most eigenvalues that are a mode each
_MAX_SLOW_RATE = 0.5  # up to this rate x few stand for many in Σ (1 − x)^t, for any t
_NO_ROWS = np.empty((0, 0))

When = Literal["last", "second half"]


class Modes(NamedTuple):
    """Directions of the eigenbasis, and how many each stands for."""

    rates: Array
    eigenvalues: Array
    counts: Array
    kurtosis: Array


class Quadratic(Record, ABC):
    """The numbers of a quadratic problem in the eigenbasis of its Hessian (``theory.problems.quadratic``)."""

    eigenvalues: Array
    learning_rate: float
    residual_std: float
    kurtosis: float | Array
    batch_size: int

    @property
    def rates(self) -> Array:
        """x_j = η λ_j, the rates of contraction a step, shape (d,)."""
        return self.learning_rate * self.eigenvalues


@record
class LearningObjective(Objective):
    """A weighted mean of the errors F(θ_s) − F* of a run, exact for any noise.

    Parameters
    ----------
    problem : QuadraticProblem
        ``MeanEstimation`` or ``LinearRegression``.
    steps : int
        T >= 1.
    weights : array_like or {"last", "second half"}, default "last"
        ϖ_s >= 0 of the errors after the steps s = 1, …, T, shape (steps,), not all 0; or ``"last"`` for the last one,
        or ``"second half"`` for the mean over s > T/2.
    batch_size : int, optional
        m >= 1: examples a step; None for the batch size of the problem.

    Examples
    --------
    >>> import corrnoise as cn
    >>> problem = cn.LinearRegression([1.0, 0.5, 0.1], learning_rate=0.1)
    >>> once = cn.Participation.single(100)
    >>> noise = cn.mechanisms.NuFTRL(0.01)
    >>> error = cn.papers.correlated_noise.LearningObjective(problem, 100).privacy_error(noise, once)
    >>> curve = problem.learning_curve(noise, 100, participation=once)
    >>> bool(abs(error / curve[-1] - 1) < 1e-9)
    True
    """

    measure: ClassVar[Measure] = "excess loss"

    problem: Quadratic
    steps: int
    weights: Array | When = "last"
    batch_size: int = 1

    def __init__(
        self,
        problem: Quadratic,
        steps: int,
        *,
        weights: ArrayLike | When = "last",
        batch_size: int | None = None,
    ) -> None:
        if not isinstance(problem, Quadratic):
            raise TypeError(f"problem must be MeanEstimation or LinearRegression, got {problem!r}")
        of_problem = problem.batch_size
        size = of_problem if batch_size is None else checks.integer("batch_size", batch_size, 1)
        if of_problem not in (1, size):
            raise ValueError(f"batch_size must be that of the problem, {of_problem}, or None, got {size}")
        n = checks.integer("steps", steps, 1)
        if isinstance(weights, str):
            checks.choice("weights", weights, ("last", "second half"))
        else:
            weights = checks.shaped("weights", weights, (n,), "[0, 1e100]")
            if not weights.any():
                raise ValueError("weights must not all be 0, got 0 in every step")
        self._set(
            problem=problem,
            steps=n,
            weights=weights,
            batch_size=size,
        )

    def step_weights(self) -> Array:
        """ϖ_1, …, ϖ_T, shape (steps,).

        Returns
        -------
        array of float
        """
        if not isinstance(self.weights, str):
            return self.weights
        first = self.steps - 1 if self.weights == "last" else self.steps // 2
        shares = np.zeros(self.steps)
        shares[first:] = 1 / (self.steps - first)
        return shares

    def modes(self) -> Modes:
        """Directions that stand for all: all of the problem, or fewer where many have the same kurtosis.

        Above 64 eigenvalues about 3 of an octave of rates up to ½ are left, and 16 more, by Gauss's rule.  Then sums
        over eigenvalues have a relative error below 1e-10.

        Returns
        -------
        Modes
        """
        every = self._directions()
        if every.counts.size <= MAX_EXACT_MODES or np.ndim(self.problem.kurtosis):
            return every
        slow = every.rates <= _MAX_SLOW_RATE
        different, often = np.unique(every.eigenvalues[slow], return_counts=True)
        places, counts = condensed(different, often.astype(np.float64))
        eigenvalues = np.concatenate([places, every.eigenvalues[~slow]])
        kurtosis = every.kurtosis[: eigenvalues.size]
        counts = np.concatenate([counts, every.counts[~slow]])
        return Modes(self.problem.learning_rate * eigenvalues, eigenvalues, counts, kurtosis)

    def _directions(self) -> Modes:
        eigenvalues = self.problem.eigenvalues
        kurtosis = np.broadcast_to(self.problem.kurtosis, eigenvalues.size).astype(np.float64)
        return Modes(self.problem.rates, eigenvalues, np.ones(eigenvalues.size), kurtosis)

    def _adjoints(self, modes: Modes) -> Array:
        """a^{(0)}, …, a^{(T)}."""
        adjoints = np.empty((self.steps + 1, modes.rates.size))
        self._adjoint_moments(modes, adjoints=adjoints)
        return adjoints

    def _gains(self, modes: Modes) -> Array:
        """The gains n w^{(0)}, …, n w^{(T−1)}, where n is how many directions a mode stands for."""
        gains = np.empty((self.steps, modes.rates.size))
        self._adjoint_moments(modes, gains=gains)
        return gains

    def _adjoint_moments(self, modes: Modes, adjoints: Array = _NO_ROWS, gains: Array = _NO_ROWS) -> Array:
        """M a^{(0)}."""
        from corrnoise.theory.recursion_kernels import adjoint_moments  # numba takes a second to import

        rate, batch_size = self.problem.learning_rate, float(self.batch_size)
        first = adjoint_moments(tuple(modes), rate, batch_size, self.step_weights(), adjoints, gains)
        if not np.isfinite(first).all():
            raise OverflowError(f"the errors of {self.problem!r} after {self.steps} steps exceed the range of floats")
        return np.asarray(first)

    def weight_matrix(self) -> Array:
        """W, shape (steps, steps), symmetric and positive semidefinite; O(T² d) for d modes.

        Its entries have a relative error below T × 1e-15.

        Returns
        -------
        array of float
        """
        modes = self.modes()
        adjoints = self._adjoints(modes)
        steps = np.arange(self.steps)
        with np.errstate(under="ignore"):
            decays = (1 - modes.rates[:, np.newaxis]) ** steps
        later = np.maximum.outer(steps, steps)
        lags = np.abs(np.subtract.outer(steps, steps))
        return np.asarray(((modes.counts * adjoints[: self.steps]) @ decays)[later, lags])

    @property
    def groups(self) -> int:
        """Number of groups of the linear system, without computing it."""
        return self.modes().counts.size

    def recursion(self) -> Recursion:
        """The linear system with the squared error tr(W N Nᵀ): v_j ← (1 − x_j) v_j + y_t, w_{t,j} = n_j w_j^{(t)}.

        Returns
        -------
        Recursion
        """
        modes = self.modes()
        kept = (1 - modes.rates)[np.newaxis, :, np.newaxis, np.newaxis]
        return Recursion(kept, np.ones((1, kept.size, 1)), checks.frozen(self._gains(modes)))

    def error(self, square: float) -> float:
        """The cost of privacy at ρ = 1 and clip norm 1, for a squared error γ² tr(W N Nᵀ)."""
        return self.problem.learning_rate**2 / 2 * UNIT_BUDGET.unit_variance / self.batch_size**2 * square

    def privacy_error(self, mechanism: Mechanism, participation: Participation, budget: Budget = UNIT_BUDGET) -> float:
        """The cost of privacy: ½ η² σ² tr(W N Nᵀ), σ = G γ/(m sqrt(2ρ)), γ the upper bound of the sensitivity.

        Parameters
        ----------
        mechanism : Mechanism
            Endless noise, or noise of ``steps`` steps.
        participation : Participation
            The data order or sampling of the run.
        budget : Budget, optional
            Privacy budget, clipping norm and adjacency.

        Returns
        -------
        float
        """
        unit = budget.unit_variance / self.batch_size**2
        gamma = mechanism.sensitivity_upper_bound(self._of_this_run(participation))
        return self.problem.learning_rate**2 / 2 * unit * gamma**2 * mechanism.squared_error(self)

    def privacy_curve(self, mechanism: Mechanism, participation: Participation, budget: Budget = UNIT_BUDGET) -> Array:
        """The cost of privacy at every step, E F(θ_t) − F* without the parts of data and start, shape (steps + 1,).

        The objective is the sum of its entries 1, …, T with the weights ϖ.  It takes O(T² d + T³).

        Parameters
        ----------
        mechanism : Mechanism
            Endless noise, or noise of ``steps`` steps.
        participation : Participation
            The data order or sampling of the run.
        budget : Budget, optional
            Privacy budget, clipping norm and adjacency.

        Returns
        -------
        array of float
        """
        noising = mechanism.noising_matrix(self.steps)
        covariance = noising @ noising.T
        problem = self.problem
        m = self.batch_size
        rates, eigenvalues, counts, kurtosis = self.modes()
        gamma = mechanism.sensitivity_upper_bound(self._of_this_run(participation))
        unit = budget.unit_variance * (gamma / m) ** 2
        contraction = (1 - rates) ** 2 + (kurtosis - 2) * rates**2 / m
        with np.errstate(under="ignore"):
            decays = (1 - rates) ** np.arange(self.steps)[:, np.newaxis]
        sources = np.empty((self.steps, rates.size))
        for t in range(self.steps):
            earlier = covariance[t, :t][::-1]  # by lag, from 1 on
            sources[t] = covariance[t, t] + 2 * (earlier @ decays[1 : t + 1])
        moments = np.zeros(rates.size)
        curve = np.zeros(self.steps + 1)
        for t in range(self.steps):
            spread = problem.learning_rate**2 / m * eigenvalues * float(counts @ (eigenvalues * moments))
            moments = contraction * moments + spread + problem.learning_rate**2 * unit * sources[t]
            curve[t + 1] = float(counts @ (eigenvalues * moments)) / 2
        return curve

    def sampling_error(self) -> float:
        """The cost of the residuals of the data, ½ (η² s²/m) Σ_t λ·a^{(t)}; the same for every noise.

        Returns
        -------
        float
        """
        modes = self.modes()
        adjoints = self._adjoints(modes)
        total = float((adjoints[: self.steps] @ (modes.counts * modes.eigenvalues)).sum())
        return (self.problem.learning_rate * self.problem.residual_std) ** 2 / (2 * self.batch_size) * total

    def initial_error(self, initial_offset: ArrayLike) -> float:
        """The cost of the start, ½ Σ (M a^{(0)})_j (θ_0 − θ*)_j²; the same for every noise.

        ``initial_offset`` is θ_0 − θ* in the eigenbasis, a scalar or shape (d,).

        Parameters
        ----------
        initial_offset : array_like
            θ_0 − θ* in the eigenbasis, a scalar or shape (d,).

        Returns
        -------
        float
        """
        offset = checks.scalar_or_vector(
            "initial_offset", initial_offset, _SIZE_INTERVAL, self.problem.eigenvalues.size
        )
        modes = self.modes()
        each = self._directions()._replace(counts=np.zeros(self.problem.eigenvalues.size))
        both = Modes(*(np.concatenate(pair) for pair in zip(modes, each, strict=True)))
        first = self._adjoint_moments(both)[modes.counts.size :]
        return float((first * np.square(offset)).sum()) / 2
