"""Quadratic problems, whose error with correlated noise is known exactly: mean estimation and linear regression.

With noise coefficients β, learning rate η and stochastic gradients g_t, a run makes the steps

    θ_{t+1} = θ_t − η (g_t + Σ_τ β_τ w_{t−τ}),    w_t ~ N(0, σ² I),   σ² = G² γ²/(2ρ).

with batches of one example.  No gradient is clipped (the paper calls this Noisy-FTRL), and F(θ) − F* = ½ ‖θ − θ*‖²_H.
We work in the eigenbasis of the Hessian H with eigenvalues λ_j, write x_j = η λ_j, and assume inputs of independent
coordinates with kurtosis k_j.  Then the error depends on the noise only through γ and the averaged variances
b_j = b(x_j).  Let s² be the residual variance, g_j = 1/(1 − (k_j − 1) x_j/2) and A = (η/2) Σ λ_j g_j.  The stationary
error is given by

    E1   q (1 − A) = (η/2) Σ (s² λ_j + σ² b_j) g_j,   lim E F(θ_t) − F* = q/2.

If γ is finite, it is finite if and only if A < 1 and (k_j − 1) x_j < 2 for all j.  Gaussian inputs have k_j = 3.

With batches of m examples g_t is the *mean* of their gradients, and the noise is added to the *sum*.  In all formulas
s² becomes s²/m, σ² becomes σ²/m², k_j − 2 becomes (k_j − 2)/m, and A becomes (η/(2m)) Σ λ_j g_j.

``learning_curve`` (formula E2) is the recursion whose limit is E1.  Minimising E1 over all noise gives
``optimal_error`` (formula E3).  Mean estimation is the case d = 1, λ = k = 1.  Proofs: docs/exact-errors.md.  The
published bounds of the same quantities are in ``corrnoise.theory.papers.correlated_noise.published_bounds``.
"""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import field
from typing import Any

import numpy as np

from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.quadrature import root_spectrum_mean
from corrnoise.theory.numerics.records import record
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.learning_objective import LearningObjective, Quadratic

_STD_INTERVAL = "[0, 1e100]"  # squares of these stay finite
_SIZE_INTERVAL = "[-1e100, 1e100]"


def power_law(dimension: int, decay: float) -> Array:
    """Eigenvalues k^{−decay}, k = 1, …, ``dimension``, shape (dimension,); −10 <= decay <= 10."""
    k = np.arange(1.0, checks.integer("dimension", dimension, 1) + 1)
    return np.asarray(k ** -checks.real("decay", decay, "[-10, 10]"))


class QuadraticProblem(Quadratic, ABC):
    """A quadratic loss whose stochastic gradients have independent coordinates in the eigenbasis of its Hessian.

    All errors are F − F* with the factor ½, in the units of λ θ².  The clipping norm G of a budget has the units of a
    gradient; the errors due to privacy scale with G²/ρ.  The error is ``inf`` for an unstable learning rate, and for
    noise whose sensitivity diverges.

    Accuracy: 1e-13 relative, divided by the distances 1 − A and min_j (1 − (k_j − 1) x_j/2) to instability.
    """

    def arguments(self) -> dict[str, Any]:
        """The arguments that rebuild this problem; a batch of one example, the default, is left out."""
        found = super().arguments()
        if self.batch_size == 1:
            del found["batch_size"]
        return found

    # -- derived quantities --------------------------------------------------------------------------------------------

    def for_run(self, participation: Participation) -> Objective | QuadraticProblem:
        """The objective of a run: what privacy adds in the mean over its second half; itself in a run of any length.

        Parameters
        ----------
        participation : Participation
            The order of the data.

        Returns
        -------
        Objective or QuadraticProblem
        """
        if participation.steps is None:
            return self
        return LearningObjective(self, participation.steps, weights="second half")

    @property
    def trace(self) -> float:
        """Tr H = Σ λ_j."""
        return float(self.eigenvalues.sum())

    @property
    def moment_bound(self) -> float:
        """The smallest R² with E ‖x‖² x xᵀ ⪯ R² H: Tr H + max_j (k_j − 1) λ_j (Property C.3, made exact)."""
        excess = (np.asarray(self.kurtosis) - 1) * self.eigenvalues
        return float(self.trace + excess.max())

    def effective_dimension(self) -> float:
        """d_eff = Tr H/‖H‖₂, between 1 and d.

        Returns
        -------
        float
        """
        return float((self.eigenvalues / self.eigenvalues.max()).sum())

    def instability(self) -> float:
        """A, the gain of the feedback of the error on itself: second moments converge if and only if A < 1.

        ``inf`` where an eigendirection is unstable by itself, (1 + (k_j − 2)/m) x_j >= 2 with batches of m examples.

        Returns
        -------
        float
        """
        damping = self._damping()
        return float((self.rates / damping).sum() / (2 * self.batch_size)) if (damping > 0).all() else math.inf

    def _damping(self) -> Array:
        return 1 - (1 + (np.asarray(self.kurtosis) - 2) / self.batch_size) * self.rates / 2

    @property
    def gains(self) -> Array:
        """g_j = 1/(1 − (1 + (k_j − 2)/m) x_j/2), the weights of the eigendirections where A < 1, shape (d,)."""
        return 1 / self._damping()

    def drive(self, noise: ToeplitzNoise, variance: float) -> Array:
        """s² λ_j/m + σ² b_j/m² with σ² = ``variance``, the second moments that a step adds, shape (d,).

        Parameters
        ----------
        noise : ToeplitzNoise
            Correlated noise.
        variance : float
            σ², the variance of w_t in the sum over a batch.

        Returns
        -------
        array of float
        """
        rates, place = np.unique(self.rates, return_inverse=True)  # equal eigenvalues are common and cost nothing
        privacy = variance / self.batch_size**2 * noise.averaged_variance(rates)[place]
        return self._residual_variance * self.eigenvalues + privacy

    @property
    def _residual_variance(self) -> float:
        """s²/m, of the mean over a batch."""
        return self.residual_std**2 / self.batch_size

    def _root_spectrum_mean(self, weights: Array) -> float:
        """(1/2π) ∫ sqrt(Σ_j weights_j x_j/|1 − x_j − e^{iω}|²) dω; equal rates are merged."""
        order = np.argsort(self.rates)
        rates, starts = np.unique(self.rates[order], return_index=True)
        total = (
            [part.sum() for part in np.split(weights[order], starts[1:])] if rates.size < order.size else weights[order]
        )
        return root_spectrum_mean(rates, np.asarray(total))

    # -- exact errors --------------------------------------------------------------------------------------------------

    def contributions(self, noise: ToeplitzNoise, *, budget: Budget = UNIT_BUDGET) -> Array:
        """The contribution of each eigendirection to ``stationary_error``, shape (d,): ½ λ_j lim E (θ_t − θ*)_j².

        Remarks C.16 and C.23 of arXiv 2310.06771 estimate these shares up to constants; here they are exact.  Each
        includes its part of the gradient noise that the error itself causes.

        Parameters
        ----------
        noise : ToeplitzNoise
            Correlated noise, with the σ² of its γ_∞.
        budget : Budget, optional
            ρ, clipping norm G and adjacency.

        Returns
        -------
        array of float
        """
        variance = checked_noise(noise).variance(budget)
        if not self.instability() < 1 or math.isinf(variance):
            return np.full(self.eigenvalues.size, math.inf)
        weighted = self.learning_rate / 2 * self.drive(noise, variance) * self.gains
        feedback = self.rates / (2 * self.batch_size) * self.gains
        return (weighted + feedback * (weighted.sum() / (1 - self.instability()))) / 2

    def stationary_error(
        self, noise: ToeplitzNoise, *, budget: Budget = UNIT_BUDGET, participation: Participation = ANY_LENGTH
    ) -> float:
        """Exact lim E F(θ_t) − F* under ``noise`` (formula E1).

        Parameters
        ----------
        noise : ToeplitzNoise
            Correlated noise.
        budget : Budget, optional
            ρ, clipping norm G and adjacency.
        participation : Participation, optional
            The run whose γ sets σ²; by default any length, γ_∞.  The limit is for an endless run with this σ²,
            which is private only for the steps of ``participation``.

        Returns
        -------
        float
        """
        variance = checked_noise(noise).variance(budget, participation)
        if not self.instability() < 1 or math.isinf(variance):
            return math.inf
        total = float((self.drive(noise, variance) * self.gains).sum())
        return self.learning_rate * total / (4 * (1 - self.instability()))

    def optimal_error(self, *, budget: Budget = UNIT_BUDGET) -> float:
        """Exact minimum of ``stationary_error`` over all noise coefficients (formula E3).

        [(η/2) s² Σ λ_j g_j + (η² G²/(4ρ)) J²]/(2 (1 − A)) with J = (1/2π) ∫ sqrt(h̃), h̃(ω) = Σ λ_j (2 − x_j) g_j /
        |1 − x_j − e^{iω}|².  The noise with |B|² = h̃^{−1/2} attains it.

        Parameters
        ----------
        budget : Budget, optional
            ρ, clipping norm G and adjacency.

        Returns
        -------
        float
        """
        if not self.instability() < 1:
            return math.inf
        residual = self.learning_rate / 2 * self._residual_variance * float((self.eigenvalues * self.gains).sum())
        spectrum = self._root_spectrum_mean((2 - self.rates) * self.gains)
        privacy = self.learning_rate * budget.unit_variance / (2 * self.batch_size**2) * spectrum**2
        return (residual + privacy) / (2 * (1 - self.instability()))

    def learning_curve(
        self,
        noise: ToeplitzNoise,
        steps: int,
        *,
        budget: Budget = UNIT_BUDGET,
        participation: Participation = ANY_LENGTH,
        initial_offset: ArrayLike = 0.0,
    ) -> Array:
        """Exact E F(θ_t) − F* for t = 0, …, ``steps``, shape (steps + 1,) (formula E2).

        O(d × steps).  Valid at every learning rate; entries beyond the range of floats are ``inf``.

        Parameters
        ----------
        noise : ToeplitzNoise
            Correlated noise; its coefficients start with the run.
        steps : int
            Number of steps, >= 0, at most those of ``participation``.
        budget : Budget, optional
            ρ, clipping norm G and adjacency.
        participation : Participation, optional
            The run whose γ sets σ²; by default any length, γ_∞.
        initial_offset : array_like, default 0.0
            θ_0 − θ* in the eigenbasis, a scalar or shape (d,).

        Returns
        -------
        array of float
        """
        from corrnoise.theory.problems import second_moments

        steps = checks.integer("steps", steps, 0)
        length = checks.instance("participation", participation, Participation).steps
        if length is not None and steps > length:
            raise ValueError(f"steps must be at most the {length} of participation, got {steps}: no more are private")
        offset = checks.scalar_or_vector("initial_offset", initial_offset, _SIZE_INTERVAL, self.eigenvalues.size)
        errors = np.full(steps + 1, math.inf)
        initial = self.eigenvalues * np.broadcast_to(offset, self.eigenvalues.shape) ** 2
        variance = checked_noise(noise).variance(budget, participation)
        second_moments.second_moments(
            self.rates,
            np.broadcast_to(self.kurtosis, self.eigenvalues.shape).astype(np.float64),
            noise.coefficients(max(steps, 1)),
            float(self.batch_size),
            self.learning_rate * variance / self.batch_size**2 if math.isfinite(variance) else 0.0,
            self.residual_std**2,
            initial,
            errors if math.isfinite(variance) else errors[:1],
        )
        return errors

    # -- bounds --------------------------------------------------------------------------------------------------------

    def lower_bound(self, noise: ToeplitzNoise | None = None, *, budget: Budget = UNIT_BUDGET) -> float:
        """A lower bound of ``stationary_error``, for all noise or for one noise.

        Both are the error that remains when x xᵀ is replaced by its mean H.  The rest of the iterate is uncorrelated
        with this linear (LTI) part (Property C.7 and Proposition C.19).  For one noise the part is
        (η/2) Σ (s² λ_j + σ² b_j)/(2 − x_j), and the error is at most 2/(2 − η R²) times it.  For ``noise=None`` it is
        bounded over all noise by the corrected Theorem C.18, (η/4) s² Tr H + (η²G²/(16π²ρ)) (∫ sqrt(h))² with
        h(ω) = Σ λ_j/|1 − x_j − e^{iω}|².  The bound is ``inf`` if the linear part is unstable.

        Parameters
        ----------
        noise : ToeplitzNoise, optional
            Correlated noise, with the σ² of its γ_∞; None for the bound over all noise.
        budget : Budget, optional
            ρ, clipping norm G and adjacency.

        Returns
        -------
        float
        """
        if noise is None:
            unit = budget.unit_variance / self.batch_size**2
            if not (self.rates < 2).all():
                return math.inf
            root = self._root_spectrum_mean(np.ones_like(self.rates))
            return self.learning_rate * (self._residual_variance * self.trace / 4 + unit / 2 * root**2)
        variance = checked_noise(noise).variance(budget)
        if math.isinf(variance) or not (self.rates < 2).all():
            return math.inf
        return float(self.learning_rate / 2 * (self.drive(noise, variance) / (2 - self.rates)).sum())

    def upper_bound(
        self,
        noise: ToeplitzNoise,
        *,
        budget: Budget = UNIT_BUDGET,
        moment_bound: float | None = None,
    ) -> float:
        """N1, an upper bound of the stationary error: η (s² Tr H + σ² Σ b_j)/(2 (2 − η R²)), ``inf`` unless η R² < 2.

        It holds for any inputs with E ‖x‖² x xᵀ ⪯ R² H, dependent coordinates included.  Neither the kurtosis constant
        nor the series of Theorem C.14 is needed.  The proof takes the trace of the stationary second-moment equation.
        It is an equality for isotropic Gaussian inputs.  R² is ``moment_bound``, by default of the problem.  With
        batches of m examples R² becomes (R² + (m − 1) max λ)/m.

        Parameters
        ----------
        noise : ToeplitzNoise
            Correlated noise, with the σ² of its γ_∞.
        budget : Budget, optional
            ρ, clipping norm G and adjacency.
        moment_bound : float, optional
            R² > 0; None for the ``moment_bound`` of the problem.

        Returns
        -------
        float
        """
        variance = checked_noise(noise).variance(budget)
        r2 = self.moment_bound if moment_bound is None else checks.real("moment_bound", moment_bound, "(0, inf)")
        r2 = r2 / self.batch_size + (1 - 1 / self.batch_size) * float(self.eigenvalues.max())
        eta = self.learning_rate
        if math.isinf(variance) or not eta * r2 < 2 or not (self.rates < 2).all():
            return math.inf
        return float(eta * self.drive(noise, variance).sum() / (2 * (2 - eta * r2)))


def problem_of(objective: object) -> QuadraticProblem | None:
    """Return the quadratic problem that an objective of learning has, or that is the objective; None for others."""
    held = getattr(objective, "problem", objective)
    return held if isinstance(held, QuadraticProblem) else None


def single_examples(problem: QuadraticProblem) -> None:
    """Refuse batches of several examples, for results that are known for one example a step only."""
    if problem.batch_size != 1:
        raise ValueError(f"problem must have batch_size=1, as the proof assumes, got {problem.batch_size}")


def checked_quadratic(problem: object) -> QuadraticProblem:
    """Return ``problem``; raise ``TypeError`` unless it is a quadratic problem."""
    if not isinstance(problem, QuadraticProblem):
        raise TypeError(f"problem must be MeanEstimation or LinearRegression, got {problem!r}")
    return problem


def _checked_rates(eigenvalues: Array, learning_rate: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        checks.reals("learning_rate × eigenvalues", learning_rate * eigenvalues, "[1e-300, 1e300]")


@record
class MeanEstimation(QuadraticProblem):
    """Private estimation of a mean in one dimension, F(θ) = ½ E (θ − z)².

    Section 2.1 and Theorem 2.1 of arXiv 2310.06771 (Appendix B drops the ½).

    Parameters
    ----------
    learning_rate : float
        η > 0, stable below 2.
    sample_std : float, default 0.0
        Standard deviation of z, >= 0.
    batch_size : int, optional
        m >= 1, the examples of a step: their mean gradient is used, and the noise is added to their sum.

    Examples
    --------
    >>> import corrnoise as cn
    >>> problem = cn.MeanEstimation(0.1)
    >>> round(problem.stationary_error(cn.mechanisms.DPSGD()), 5)
    0.01316
    >>> round(problem.stationary_error(cn.mechanisms.NuFTRL(0.1)), 5)
    0.00527
    >>> round(problem.optimal_error(), 5)
    0.00527
    """

    learning_rate: float
    sample_std: float = 0.0
    batch_size: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        self._check(learning_rate="(0, inf)", sample_std=_STD_INTERVAL, batch_size=1)
        _checked_rates(self.eigenvalues, self.learning_rate)

    @property
    def eigenvalues(self) -> Array:  # type: ignore[override]
        """The one eigenvalue of the Hessian, 1."""
        return np.ones(1)

    @property
    def residual_std(self) -> float:  # type: ignore[override]
        """The standard deviation of a sample: the gradient is θ − θ* minus an independent z − θ*."""
        return self.sample_std

    @property
    def kurtosis(self) -> float:  # type: ignore[override]
        """1: the Hessian of a sample is constant."""
        return 1.0


@record
class LinearRegression(QuadraticProblem):
    """Private linear regression, F(θ) = ½ E (y − ⟨θ, x⟩)², with E x = 0, E x xᵀ = H and y = ⟨θ*, x⟩ + ξ.

    Section 2.2 and Appendix C of arXiv 2310.06771.

    Parameters
    ----------
    eigenvalues : array_like
        λ_j > 0 of H, shape (d,), in any order.
    learning_rate : float
        η > 0.
    residual_std : float, default 0.0
        Standard deviation of ξ, which is independent of x, >= 0.
    kurtosis : array_like, default 3.0
        k_j = E x_j⁴/λ_j² >= 1 of the independent coordinates of x in the eigenbasis, a scalar or shape (d,): 3 for
        Gaussian inputs, 1 for signs, 1.8 for uniform ones.
    batch_size : int, default 1
        m >= 1, the examples of a step: their mean gradient is used, and the noise is added to their sum.

    Examples
    --------
    >>> import corrnoise as cn
    >>> problem = cn.LinearRegression([1.0, 0.5, 0.1], learning_rate=0.1)
    >>> noise = cn.mechanisms.NuFTRL(0.01)
    >>> round(problem.stationary_error(noise), 5)
    0.0136
    >>> round(problem.optimal_error(), 5)
    0.01176
    >>> problem.contributions(noise).round(5)
    array([0.00799, 0.00439, 0.00122])
    >>> problem.learning_curve(noise, 1000, initial_offset=1.0)[[0, 10, 1000]].round(4)
    array([0.8   , 0.2405, 0.0136])
    >>> round(problem.lower_bound(noise), 5), round(problem.upper_bound(noise), 5)
    (0.01193, 0.014)
    >>> round(cn.LinearRegression([1.0, 0.5, 0.1], 0.1, batch_size=8).stationary_error(noise), 7)
    0.0001892
    """

    eigenvalues: Array
    learning_rate: float
    residual_std: float = 0.0
    kurtosis: float | Array = 3.0
    batch_size: int = 1

    def __init__(
        self,
        eigenvalues: ArrayLike,
        learning_rate: float,
        residual_std: float = 0.0,
        *,
        kurtosis: ArrayLike = 3.0,
        batch_size: int = 1,
    ) -> None:
        spectrum = checks.reals("eigenvalues", eigenvalues, "(0, 1e300]", ndim=1)
        k = checks.scalar_or_vector("kurtosis", kurtosis, "[1, 1e6]", spectrum.size)
        self._set(
            eigenvalues=spectrum,
            learning_rate=checks.real("learning_rate", learning_rate, "(0, inf)"),
            residual_std=checks.real("residual_std", residual_std, _STD_INTERVAL),
            kurtosis=k if k.ndim else float(k),
            batch_size=checks.integer("batch_size", batch_size, 1),
        )
        _checked_rates(spectrum, self.learning_rate)
