"""Finite runs on linear regression: Section 2.3 and Appendix D of the correlated-noise paper.

Noisy-FTRL does not clip gradients and so is not private.  DP-FTRL clips them to the norm G, and is ρ-zCDP.  Let ℰ be
the event that no gradient of a run has a norm above G.  On ℰ the two runs are the same.  So a bound of the gradients of
Noisy-FTRL that holds with probability 1 − p turns its error after t steps into a guarantee for DP-FTRL.

Write F(θ) − F* = ½ ‖θ − θ*‖²_H, μ and L for the smallest and largest eigenvalue of H, κ = L/μ, R² for
``problem.moment_bound``, s² for the residual variance, T for the number of steps.  The paper does not give its
universal constants.  They are keyword arguments without a default, and results are only as good as the constants
supplied.  Probabilities enter as ℓ = max{1, log(T/p)}: where p exceeds T/e, it is replaced by T/e.

Appendix D assumes independent sub-Gaussian coordinates of H^{−1/2} x and sub-Gaussian residuals.  Gaussian inputs and
residuals satisfy this.

Source: Choquette-Choo et al., arXiv 2310.06771: Section 2.3, Definition D.3, Theorems D.4, D.11 and D.13, Corollaries
D.14 and D.15.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import ADJACENCIES, UNIT_BUDGET, Budget
from corrnoise.theory.problems.quadratic import LinearRegression, QuadraticProblem, single_examples

# -- the decay of noise coefficients -----------------------------------------------------------------------------------


def absolute_sum(noise: ToeplitzNoise, steps: int | None = None) -> float:
    """‖β‖₁ = Σ |β_t| over the first ``steps`` coefficients, or over all for ``steps=None``.

    For ν-DP-FTRL with 0 <= ν <= 1 the sum over all is 2 − sqrt(ν), so ‖β‖₁² <= 4.  (The sum of squares of any noise is
    ``noise.averaged_variance(1.0)``.)

    Raises
    ------
    ValueError
        If ``steps`` is None, and the noise neither ends nor is ``NuFTRL``.
    """
    return _weighted_sum(noise, 0.0, steps)


def half_expo_constant(noise: ToeplitzNoise, nu: float, steps: int | None = None) -> float:
    """The smallest C of Half-Expo Decay with parameter ν: sup over τ of Σ_{k<=τ} |β_k| (1 − ν)^{(τ−k)/2}/(1 − ν)^{τ/2}.

    Returns Σ |β_k| (1 − ν)^{−k/2} with relative error 1e-12, or ``inf`` if the sum diverges.  For ν-DP-FTRL with its
    own ν the constant is 2 − sqrt(1 − sqrt(1 − ν)) <= 2.  With a parameter ν' <= ν (2 − ν) it is at most 2, and with a
    larger ν' it is infinite.  For independent noise it is 1, for anti-PGD with damping a it is 1 + |1 − a|/sqrt(1 − ν).

    Definition D.3.  The sum for τ is the sum for τ − 1 plus a term >= 0, so the last τ < ``steps`` attains the
    supremum.

    Raises
    ------
    ValueError
        If ``steps`` is None, and the noise neither ends nor is ``NuFTRL``.
    """
    return _weighted_sum(noise, checks.real("nu", nu, "[0, 1)"), steps)


def _weighted_sum(noise: ToeplitzNoise, nu: float, steps: int | None) -> float:
    """Σ |β_k| (1 − ν)^{−k/2}."""
    if steps is None and isinstance(noise, NuFTRL):
        # 2 − sqrt(1 − z) at z = (1 − gap)/sqrt(1 − ν), because |β_k| = |C(½, k)| (1 − gap)^k.
        gap = min(noise.nu, 2 - noise.nu)
        root = math.sqrt(1 - nu)
        excess = gap * (2 - gap) - nu
        return 2 - math.sqrt(excess / (root * (root + 1 - gap))) if excess >= 0 else math.inf
    checked_noise(noise)
    length = _length(noise)
    if steps is None and length is None:
        raise ValueError(f"steps must be an integer >= 1 for noise that never ends, got None for {noise!r}")
    steps = checks.integer("steps", length if steps is None else steps, 1)
    terms = _weighted_coefficients(noise, -math.log1p(-nu) / 2, min(steps, length or steps))
    total = float(np.abs(terms).sum())
    return total if math.isfinite(total) else math.inf


def _weighted_coefficients(noise: ToeplitzNoise, growth: float, steps: int) -> Array:
    """β_k e^{growth k}; not finite beyond the range of floats."""
    from corrnoise.theory.numerics import double_double_series

    if isinstance(noise, ProductNoise):
        # The product at z e^growth: its small coefficients do not underflow before they are weighted.
        gaps = noise.gaps * math.exp(growth) - math.expm1(growth)
        terms = np.empty(steps)
        double_double_series.product_series(gaps, noise.exponents, terms)
        return terms
    beta = noise.coefficients(steps)
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(np.exp(np.log(np.abs(beta)) + growth * np.arange(steps)))


def _length(noise: ToeplitzNoise) -> int | None:
    """The number of coefficients up to the last one that is not 0; None for infinitely many."""
    if isinstance(noise, FiniteNoise):
        return noise.values.size
    if isinstance(noise, ProductNoise) and ((noise.exponents >= 0) & (noise.exponents % 1 == 0)).all():
        return int(noise.exponents.sum()) + 1
    return None


# -- expected error ----------------------------------------------------------------------------------------------------


def theorem_d11_upper_bound(
    problem: QuadraticProblem,
    noise: ToeplitzNoise,
    times: ArrayLike,
    initial_error: float,
    *,
    budget: Budget = UNIT_BUDGET,
    printed: bool = False,
) -> Array:
    """Theorem D.11 for Noisy-FTRL: E F(θ_t) − F* <= κ e^{−ημt} (F(θ_0) − F*) + F_∞, for η R² < 1.

    The array has the shape of ``times``; ``inf`` unless η R² < 1.  ``printed=True`` returns the published bound
    (sqrt(first term) + sqrt(F_∞))².  It is true and up to twice the sharper bound: the paths of the initial error and
    of the noise are uncorrelated, so the triangle inequality is not needed.  (Some electronic copies lack the roots;
    that statement is false.)

    Theorem D.13 (c) says the same of E [(F(θ_t) − F*) 1(ℰ)] for DP-FTRL, printed with a needless factor 2.  ℰ has
    probability at least 1 − p if the clip norm is ``FiniteRun.theorem_d13_clip_norm`` and the learning rate is at most
    ``FiniteRun.theorem_d13_learning_rate_limit``.
    """
    t = checks.reals("times", times, "[0, inf)")
    start = checks.real("initial_error", initial_error, "[0, inf)")
    single_examples(problem)
    stationary = problem.stationary_error(noise, budget=budget)
    if not problem.learning_rate * problem.moment_bound < 1 or math.isinf(stationary):
        return np.full(t.shape, math.inf)
    transient = float(problem.rates.max() / problem.rates.min()) * start * np.exp(-problem.rates.min() * t)
    if printed:
        return np.asarray((np.sqrt(transient) + math.sqrt(stationary)) ** 2)
    return np.asarray(transient + stationary)


# -- a run of T steps with high probability ----------------------------------------------------------------------------


@record
class FiniteRun(Record):
    """A run of T steps that clips some gradient with probability p at most."""

    problem: LinearRegression  #: linear regression
    steps: int  #: T >= 1
    failure_probability: float  #: 0 < p < 1
    initial_offset: float | Array  #: θ_0 − θ* in the eigenbasis, a scalar or shape (d,)
    #: ρ and adjacency; its clipping norm G sets the noise in ``theorem_d4_bounds`` and nothing else
    budget: Budget = UNIT_BUDGET

    def __post_init__(self) -> None:
        if not isinstance(self.problem, LinearRegression):
            raise TypeError(f"problem must be LinearRegression, got {self.problem!r}")
        single_examples(self.problem)
        size = self.problem.eigenvalues.size
        offset = checks.scalar_or_vector("initial_offset", self.initial_offset, "(-inf, inf)", size)
        self._check(failure_probability="(0, 1)", budget=Budget)
        self._set(
            steps=checks.integer("steps", self.steps, 1, largest=10**300),  # the bounds hold far beyond runs
            initial_offset=offset if offset.ndim else float(offset),
        )

    # -- derived quantities --------------------------------------------------------------------------------------------

    @property
    def initial_error(self) -> float:
        """F(θ_0) − F* = ½ ‖θ_0 − θ*‖²_H."""
        return float((self.problem.eigenvalues * np.square(self.initial_offset)).sum() / 2)

    @property
    def initial_distance(self) -> float:
        """D = ‖θ_0 − θ*‖₂."""
        return float(np.linalg.norm(np.broadcast_to(self.initial_offset, self.problem.eigenvalues.shape)))

    @property
    def log_factor(self) -> float:
        """ℓ = max{1, log(T/p)}."""
        return max(1.0, math.log(self.steps) - math.log(self.failure_probability))

    @property
    def participation(self) -> Participation:
        """Single participation in the T steps."""
        return Participation.single(self.steps)

    def budget_at(self, norm: float) -> Budget:
        """The budget of the run with another clipping norm, in [1e-100, 1e100]."""
        return Budget(**{**self.budget.arguments(), "clip_norm": norm})

    @property
    def _rho(self) -> float:
        """ρ, or a quarter of it for replace-one adjacency."""
        return self.budget.gaussian_rho / ADJACENCIES[self.budget.adjacency] ** 2

    @property
    def _mu(self) -> float:
        return float(self.problem.eigenvalues.min())

    @property
    def _kappa_d_eff(self) -> float:
        """κ d_eff = Tr H/μ."""
        return float((self.problem.eigenvalues / self._mu).sum())

    # -- Theorems D.4 and D.13 -----------------------------------------------------------------------------------------

    def theorem_d4_bounds(self, noise: ToeplitzNoise, *, constant: float) -> tuple[float, float]:
        """Theorem D.4: with probability 1 − p, Noisy-FTRL has max ‖θ_t − θ*‖² and max ‖g_t‖² over t < T of at most

            C (D² + η R² s²/μ + η σ² d ‖β‖₁²/μ) ℓ³  and  C R⁴ (D² + η R² s²/μ + s²/R² + η σ² d ‖β‖₁²/μ) ℓ⁵.

        Returns both bounds; ``inf`` unless η <= 1/(C R² ℓ).  The noise satisfies Half-Expo Decay with parameter ημ (see
        ``half_expo_constant``), and C >= 1.
        """
        c = checks.real("constant", constant, "[1, inf)")
        r2 = self.problem.moment_bound
        eta = self.problem.learning_rate
        s2 = self.problem.residual_std**2
        variance = checked_noise(noise).variance(self.budget)
        if not eta * c * r2 * self.log_factor <= 1:
            return math.inf, math.inf
        privacy = variance * self.problem.eigenvalues.size * self._absolute_sum(noise) ** 2
        iterate = self.initial_distance**2 + eta / self._mu * (r2 * s2 + privacy)
        return c * iterate * self.log_factor**3, c * r2 * (r2 * iterate + s2) * self.log_factor**5

    def theorem_d13_clip_norm(self, *, constant: float) -> float:
        """Theorem D.13: the clipping norm G = c R² max{D, sqrt(η R² s²/μ), s/R} ℓ^{5/2}, where ``constant`` is c > 0.

        With this clip norm and a learning rate of at most ``theorem_d13_learning_rate_limit``, no gradient is clipped
        with probability 1 − p.  The proof takes c = 4 C.
        """
        c = checks.real("constant", constant, "(0, inf)")
        r = math.sqrt(self.problem.moment_bound)
        s = self.problem.residual_std
        eta = self.problem.learning_rate
        return c * r**2 * max(self.initial_distance, math.sqrt(eta / self._mu) * r * s, s / r) * self.log_factor**2.5

    def theorem_d13_learning_rate_limit(self, noise: ToeplitzNoise, *, constant: float) -> float:
        """Theorem D.13: the largest learning rate, min{1/(C R² ℓ), μρ/(8 C² R⁴ d γ_∞² ‖β‖₁² ℓ⁵)}.

        The theorem covers the run if ``problem.learning_rate`` is at most this limit, which does not depend on it, and
        ``noise`` satisfies Half-Expo Decay with parameter ημ (the theorem's ν̃ = μ).  The limit is 0 for noise whose
        sensitivity diverges.  ``constant`` is C >= 1.
        """
        c = checks.real("constant", constant, "[1, inf)")
        r2 = self.problem.moment_bound
        log = self.log_factor
        gamma = checked_noise(noise).limiting_sensitivity()
        seen = self.problem.eigenvalues.size * gamma**2 * self._absolute_sum(noise) ** 2
        return min(1 / (c * r2 * log), self._mu * self._rho / (8 * (c * r2) ** 2 * seen * log**5))

    def _absolute_sum(self, noise: ToeplitzNoise) -> float:
        """‖β‖₁ of all coefficients if that is known, otherwise of the first T."""
        known = isinstance(noise, NuFTRL) or _length(noise) is not None
        return absolute_sum(noise, None if known else self.steps)

    # -- error rates at the best learning rate; the learning rate of ``problem`` is not used from here on --------------

    def dp_sgd_rate(self) -> float:
        """Section 2.3 (b) for DP-SGD: κ d_eff (d Tr H D²/(ρT) + d s²/(ρT) + s²/T).

        The rate of E [(F(θ_T) − F*) 1(ℰ)] without logarithms and without the transient, for T well above κ² d_eff² d/ρ.
        """
        return self._rate(self.problem.eigenvalues.size)

    def nu_dp_ftrl_rate(self) -> float:
        """Section 2.3 (b) for ν-DP-FTRL: the rate of DP-SGD with κ d_eff/T in place of the dimension d."""
        return self._rate(self._kappa_d_eff / self.steps)

    def _rate(self, dimension: float) -> float:
        s2 = self.problem.residual_std**2
        clipped = float(self.problem.eigenvalues.sum()) * self.initial_distance**2 + s2
        return self._kappa_d_eff * (dimension * clipped / self._rho + s2) / self.steps

    def corollary_d14_rate(self, *, constant: float, polylog: float, printed: bool = False) -> float:
        """Corollary D.14, DP-SGD: κ (F(θ_0) − F*) e^{−T/(cN)} + polylog(T) × ``dp_sgd_rate``; ``inf`` for T < c N.

        N = max{κ d_eff ℓ, Y ℓ⁵}, Y = κ² d_eff² d/ρ.  The first length comes from the learning rate that is admissible
        without privacy.  Without it the statement would imply convergence in any number of steps as ρ → ∞.

        The published rate (``printed=True``) lacks the factor F(θ_0) − F*, so its units are wrong, and has N = Y ℓ⁵.
        """
        length = self._private_length * self.log_factor**5
        return self._corollary(length, length, self.dp_sgd_rate(), constant, polylog, printed)

    def corollary_d15_rate(self, *, constant: float, polylog: float, printed: bool = False) -> float:
        """Corollary D.15, ν-DP-FTRL: κ (F(θ_0) − F*) e^{−T/(cN)} + polylog(T) × ``nu_dp_ftrl_rate``.

        This is ``corollary_d14_rate`` with N = max{κ d_eff ℓ, Y ℓ⁷ max{1, log Y}}.  It is ``inf`` already for
        T < c Y ℓ⁷ log(c Y).  (The last display of the proof prints R⁴ s²/(ρ μ² T²) instead of R⁴ s²/(ρ μ T).)
        ``printed=True`` takes the published N = Y ℓ⁷ log Y, which gives ``inf`` for Y <= 1.
        """
        y = self._private_length
        c = checks.real("constant", constant, "(0, inf)")
        least = -math.inf if printed else 1.0
        length, shortest = (y * self.log_factor**7 * max(least, math.log(z)) for z in (y, c * y))
        return self._corollary(length, shortest, self.nu_dp_ftrl_rate(), constant, polylog, printed)

    def corollary_d15_learning_rate_limit(self, *, constant: float) -> float:
        """The largest learning rate of Corollary D.15, min{1/(c R² ℓ), 1/(c μ y ℓ⁷ max{1, log y})}, y = R⁴ d/(μ² ρ).

        For T >= c y ℓ⁷ max{1, log(c y)} it satisfies η log²(1/(ημ)) <= μρ/(c R⁴ d ℓ⁵) (published with η for μ and R²
        for R⁴), and with c >= 16 C² the condition of Theorem D.13 for ``NuFTRL(ημ)``.  ``constant`` is c >= 1.
        """
        c = checks.real("constant", constant, "[1, inf)")
        r2 = self.problem.moment_bound
        log = self.log_factor
        y = (r2 / self._mu) ** 2 * self.problem.eigenvalues.size / self._rho
        return min(1 / (c * r2 * log), 1 / (c * self._mu * y * log**7 * max(1.0, math.log(y))))

    @property
    def _private_length(self) -> float:
        """Y = κ² d_eff² d/ρ."""
        return self._kappa_d_eff**2 * self.problem.eigenvalues.size / self._rho

    def _corollary(
        self, length: float, shortest: float, rate: float, constant: float, polylog: float, printed: bool
    ) -> float:
        c = checks.real("constant", constant, "(0, inf)")
        polylog = checks.real("polylog", polylog, "[0, inf)")
        if not printed:
            length, shortest = (max(self._kappa_d_eff * self.log_factor, n) for n in (length, shortest))
        if self.steps < c * shortest or length <= 0:
            return math.inf
        kappa = float(self.problem.eigenvalues.max()) / self._mu
        return kappa * (1.0 if printed else self.initial_error) * math.exp(-self.steps / (c * length)) + polylog * rate
