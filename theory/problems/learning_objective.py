"""The exact error of a finite run on a quadratic problem, as a function of any noise: what to minimise for learning.

A run of T steps has, on a quadratic problem, with weights ϖ_1, …, ϖ_T >= 0,

    Σ ϖ_s E(F(θ_s) − F*) = ½ [ Σ_j (M a^{(0)})_j (θ_0 − θ*)_j² + (η² s²/m) Σ_t λ·a^{(t)} + η² σ² tr(W N Nᵀ) ],
    W_tr = Σ_j a_j^{(max(t, r))} (1 − x_j)^{|t − r|},    a^{(T)} = 0,    a^{(t)} = ϖ_{t+1} λ + M a^{(t+1)},
    M = diag((1 − x_j)² + (k_j − 2) x_j²/m) + (η²/m) λ λᵀ.

The privacy part is of the same form as the mean squared error of a workload, with W in place of AᵀA/n, for every
noising matrix N, and whatever optimises the one optimises the other.  With Toeplitz noise the last term is Σ_j Σ_s
Ω_{s,j} y_{s,j}², y_s = (1 − x_j) y_{s−1} + β_s, in O(T d).  Proof: L1 and L2 of docs/finite-runs-proofs.md.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.learning_recursions import adjoint_moments, filtered_power
from corrnoise.theory.problems.quadratic import QuadraticProblem, checked_quadratic
from corrnoise.theory.recursion import Recursion

_SIZE = "[-1e100, 1e100]"  # squares of these stay finite

When = Literal["last", "second half"]


@record
class LearningObjective(Record):
    """A weighted mean of the errors F(θ_s) − F* of a run, exact for any noise.

    Parameters
    ----------
    problem : ``MeanEstimation`` or ``LinearRegression``
    steps : T >= 1
    weights : ϖ_s >= 0 of the errors after the steps s = 1, …, T, shape (steps,), not all 0; or ``"last"`` for the last
        one, or ``"second half"`` for the mean over s > T/2
    batch_size : m >= 1: examples a step; None for that of the problem

    Examples
    --------
    >>> from corrnoise.theory.mechanisms.product import NuFTRL
    >>> from corrnoise.theory.problems.quadratic import LinearRegression
    >>> problem = LinearRegression([1.0, 0.5, 0.1], learning_rate=0.1)
    >>> once = Participation.single(100)
    >>> error = LearningObjective(problem, 100).privacy_error(NuFTRL(0.01), once)
    >>> curve = problem.learning_curve(NuFTRL(0.01), 100, participation=once)
    >>> bool(abs(error / curve[-1] - 1) < 1e-9)
    True
    """

    problem: QuadraticProblem
    steps: int
    weights: Array | When = "last"
    batch_size: int = 1

    def __init__(
        self,
        problem: QuadraticProblem,
        steps: int,
        *,
        weights: ArrayLike | When = "last",
        batch_size: int | None = None,
    ) -> None:
        of_problem = checked_quadratic(problem).batch_size
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
        """ϖ_1, …, ϖ_T, shape (steps,)."""
        if not isinstance(self.weights, str):
            return self.weights
        first = self.steps - 1 if self.weights == "last" else self.steps // 2
        shares = np.zeros(self.steps)
        shares[first:] = 1 / (self.steps - first)
        return shares

    def _recursion(self) -> tuple[Array, Array, Array]:
        """a^{(0)}, …, a^{(T)}; w^{(0)}, …, w^{(T−1)}; and M a^{(0)}."""
        problem = self.problem
        d = problem.eigenvalues.size
        adjoints, gains = np.empty((self.steps + 1, d)), np.empty((self.steps, d))
        first = adjoint_moments(
            problem.rates,
            problem.eigenvalues,
            np.broadcast_to(problem.kurtosis, d).astype(np.float64),
            problem.learning_rate,
            float(self.batch_size),
            self.step_weights(),
            adjoints,
            gains,
        )
        if not np.isfinite(adjoints).all():
            raise OverflowError(f"the errors of {problem!r} after {self.steps} steps exceed the range of floats")
        return adjoints, gains, first

    def weight_matrix(self) -> Array:
        """W, shape (steps, steps), symmetric and positive semidefinite; O(T² d).

        Its entries have a relative error below T × 1e-15.
        """
        adjoints, _, _ = self._recursion()
        steps = np.arange(self.steps)
        with np.errstate(under="ignore"):
            decays = (1 - self.problem.rates[:, np.newaxis]) ** steps
        later = np.maximum.outer(steps, steps)
        lags = np.abs(np.subtract.outer(steps, steps))
        return np.asarray((adjoints[: self.steps] @ decays)[later, lags])

    def recursion(self) -> Recursion:
        """The linear system with the squared error tr(W N Nᵀ): v_j ← (1 − x_j) v_j + y_t, w_{t,j} = w_j^{(t)}."""
        _, gains, _ = self._recursion()
        kept = (1 - self.problem.rates)[np.newaxis, :, np.newaxis, np.newaxis]
        return Recursion(kept, np.ones((1, kept.size, 1)), np.maximum(gains, 0.0))  # below 0 by rounding

    def tail_weights(self) -> Array:
        """Ω_{s,j} = Σ_{t>=s} w_j^{(t)}, shape (steps, d): the weights of y_{s,j}² for Toeplitz noise."""
        _, gains, _ = self._recursion()
        # The y of coefficient s is seen in the steps r + s, for each step r < T − s in which a draw is made.
        return np.asarray(np.cumsum(gains[::-1], axis=0)[::-1])

    def power(self, mechanism: Mechanism) -> float:
        """tr(W N Nᵀ), to which the cost of privacy is proportional at equal sensitivity.

        It takes O(T d) for endless noise and time-varying buffers, and O(T³) for other noise of ``steps`` steps.
        """
        self._checked(mechanism)
        if isinstance(mechanism, ToeplitzNoise):
            coefficients = mechanism.coefficients(self.steps)
            return float(filtered_power(self.problem.rates, coefficients, self.tail_weights()))
        if isinstance(mechanism, TimeVaryingBuffers):
            return mechanism.squared_error(self.recursion())
        noising = mechanism.noising_matrix(self.steps)
        return float((noising * (self.weight_matrix() @ noising)).sum())

    def _checked(self, mechanism: Mechanism) -> Mechanism:
        checks.instance("mechanism", mechanism, Mechanism)  # type: ignore[type-abstract]
        if mechanism.steps not in (None, self.steps):
            raise ValueError(f"mechanism must have steps={self.steps} as the objective has, got {mechanism.steps}")
        return mechanism

    def _of_this_run(self, participation: Participation) -> Participation:
        if checks.instance("participation", participation, Participation).steps != self.steps:
            raise ValueError(
                f"participation must have steps={self.steps} as the objective has, got {participation.steps}"
            )
        return participation

    def privacy_error(self, mechanism: Mechanism, participation: Participation, budget: Budget = UNIT_BUDGET) -> float:
        """The cost of privacy: ½ η² σ² tr(W N Nᵀ), σ = G γ/(m sqrt(2ρ)), γ the upper bound of the sensitivity."""
        unit = budget.unit_variance / self.batch_size**2
        gamma = mechanism.sensitivity_upper_bound(self._of_this_run(participation))
        return self.problem.learning_rate**2 / 2 * unit * gamma**2 * self.power(mechanism)

    def privacy_curve(self, mechanism: Mechanism, participation: Participation, budget: Budget = UNIT_BUDGET) -> Array:
        """The cost of privacy at every step, E F(θ_t) − F* without the parts of data and start, shape (steps + 1,).

        The objective is the sum of its entries 1, …, T with the weights ϖ.  It takes O(T² d + T³).
        """
        noising = self._checked(mechanism).noising_matrix(self.steps)
        covariance = noising @ noising.T
        problem = self.problem
        m = self.batch_size
        rates = problem.rates
        eigenvalues = problem.eigenvalues
        kurtosis = np.broadcast_to(problem.kurtosis, rates.size)
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
            spread = problem.learning_rate**2 / m * eigenvalues * float(eigenvalues @ moments)
            moments = contraction * moments + spread + problem.learning_rate**2 * unit * sources[t]
            curve[t + 1] = float(eigenvalues @ moments) / 2
        return curve

    def sampling_error(self) -> float:
        """The cost of the residuals of the data, ½ (η² s²/m) Σ_t λ·a^{(t)}; the same for every noise."""
        adjoints, _, _ = self._recursion()
        total = float((adjoints[: self.steps] @ self.problem.eigenvalues).sum())
        return (self.problem.learning_rate * self.problem.residual_std) ** 2 / (2 * self.batch_size) * total

    def initial_error(self, initial_offset: ArrayLike) -> float:
        """The cost of the start, ½ Σ (M a^{(0)})_j (θ_0 − θ*)_j²; the same for every noise.

        ``initial_offset`` is θ_0 − θ* in the eigenbasis, a scalar or shape (d,).
        """
        _, _, first = self._recursion()
        offset = checks.scalar_or_vector("initial_offset", initial_offset, _SIZE, first.size)
        return float((first * np.square(offset)).sum()) / 2
