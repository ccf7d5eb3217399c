"""Smooth strongly convex losses: what a frequency at a time tells about the error of correlated noise.

F is μ-strongly convex and L-smooth, its stochastic gradients are G-Lipschitz losses' (so nothing is clipped), and

    θ_{t+1} = θ_t − η (∇F(θ_t) + ŵ_t + Σ_τ β_τ w_{t−τ}),    w_t ~ N(0, σ² I_d),   σ² = G² γ_∞²/(2ρ),

with E ‖ŵ_t‖² <= σ_sgd² given the past.  With m = ημ, l = ηL, δ = l − m everything else is free of units.

**The bound** (Theorem 3.1 of the paper, corrected).  Take a multiplier Λ(ω) = c_0 + Σ_{τ≠0} c_τ (1 − e^{−iωτ}) with all
c >= 0 and Σ c_τ finite, write Λ = a + ib and, with x = 1 − cos ω, s = sin ω, β = x − l − is and ε = 0 or 1,

    slack  u = 2 (R a + δ s b) + ε |β|² − l δ,    R = x (2 − m − l) + m l,
    gain   ξ = (δ |Λ|² + l (2a + ε))/u.

If u > 0 at all ω, then

    lim sup_T (1/T) Σ_{t<T} E F(θ_t) − F*  <=  (η/2) (1/2π) ∫ (d σ² |B(ω)|² + σ_sgd²) ξ(ω) dω.

ε = 0 is the paper's criterion ``"distance"`` (it bounds L ‖θ − θ*‖²/2 >= F − F*); ε = 1, ``"objective"``, starts from
F − F* <= L ‖θ − θ*‖²/2 − ‖L(θ − θ*) − ∇F‖²/(2(L − μ)) and is tighter, never looser.  The proof, the errata of the
printed theorem with counterexamples, and what is slack stand in ``docs/strongly-convex-bound.md``; the search for the
best multiplier in ``corrnoise.solvers.strongly_convex_bound``.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Theorems 3.1 and E.1, equations (10), (89)–(93), Figure 3.
G. Zames and P. L. Falb, Stability conditions for systems with monotone and slope-restricted nonlinearities, 1968.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corrnoise.theory import checks
from corrnoise.theory.checks import Array, ArrayLike
from corrnoise.theory.records import Record, record
from corrnoise.theory.toeplitz_noise import ToeplitzNoise, noise_variance, unit_variance

CRITERIA = ("distance", "objective")


@dataclass(frozen=True)
class FrequencyCondition:
    """Slack and gain at given frequencies, as functions of the multiplier Λ = a + ib there; arrays of one shape.

    In the cone form the condition u > 0, ξ >= (δ |Λ|² + l (2a + ε))/u reads ‖(2 X₁, 2 X₂, u − v)‖ <= u + v with
    v = δ ξ + 2a + ε, X₁ = (2x − m − l) a + ε (x − l) and X₂ = 2 s a + δ b + ε s.
    """

    slow: float  #: m = ημ
    fast: float  #: l = ηL
    epsilon: float  #: 0 for "distance", 1 for "objective"
    cosine: Array  #: cos(ω/2)
    x: Array  #: 1 − cos ω
    s: Array  #: sin ω
    r: Array  #: R, a sum of positive terms
    offset: Array  #: ε |β|² − l δ

    @property
    def width(self) -> float:
        """δ = l − m."""
        return self.fast - self.slow

    def slack(self, a: Array, b: Array) -> Array:
        """The slack u."""
        return np.asarray(2 * (self.r * a + self.width * self.s * b) + self.offset)

    def gain(self, a: Array, b: Array) -> Array:
        """ξ; ``inf`` where the slack is not positive."""
        u = self.slack(a, b)
        above = self.width * (a * a + b * b) + self.fast * (2 * a + self.epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(u > 0, above / u, np.inf)

    def cone(self, a: Array, b: Array) -> tuple[Array, Array]:
        """X₁ and X₂; affine in a and b, whatever holds them."""
        first = (2 * self.x - self.slow - self.fast) * a + self.epsilon * (self.x - self.fast)
        return first, 2 * self.s * a + self.width * b + self.epsilon * self.s

    def envelope(self) -> Array:
        """The largest gain of a quadratic, max over h in [m, l] of (l or h)/|1 − h − e^{iω}|²: no ξ can be below.

        ``"distance"`` has l in the numerator, ``"objective"`` h.
        """
        h = np.clip(np.sqrt(2 * self.x) if self.epsilon else self.x, self.slow, self.fast)
        distance = (h * self.cosine) ** 2 + (2 - h) ** 2 * self.x / 2
        return np.asarray((h if self.epsilon else self.fast) / distance)


def frequency_condition(slow: float, fast: float, frequencies: Array, criterion: str) -> FrequencyCondition:
    """The condition at ``frequencies`` in [0, π] for m = ``slow``, l = ``fast`` (0 < m <= l < 2)."""
    c, s = np.cos(frequencies / 2), np.sin(frequencies / 2)
    epsilon = float(checks.choice("criterion", criterion, CRITERIA) == "objective")
    r = slow * fast * c * c + (2 - slow) * (2 - fast) * s * s
    x = 2 * s * s
    # |β|² = l² + 2x (1 − l), so that nothing cancels near frequency 0.
    offset = slow * fast + 2 * x * (1 - fast) if epsilon else np.full_like(x, -fast * (fast - slow))
    return FrequencyCondition(slow, fast, epsilon, c, x, 2 * s * c, r, offset)


def circle_multiplier(slow: float, fast: float, criterion: str) -> tuple[float, float]:
    """The best constant multiplier for independent noise, and its mean gain (1/2π) ∫ ξ dω, in closed form.

    With Λ = c the slack is affine in cos ω, p + 2rc at ω = 0 and q + 2sc at ω = π, so the mean of ξ is
    (δ c² + l (2c + ε))/sqrt((p + 2rc)(q + 2sc)).  Its derivative vanishes at a root of a cubic, from which a factor δ
    is taken out by hand: nothing cancels as κ → 1.  In units of the paper's (90), ``"distance"``, the mean of ψ/η⁴ is
    this by l.
    """
    delta, end = fast - slow, frequency_condition(slow, fast, np.array([0.0, math.pi]), criterion)
    if delta == 0:
        return 1.0, 1 / (2 - fast)
    (p, q), (r, s) = end.offset.tolist(), end.r.tolist()
    if end.epsilon:
        lowest, low = -4 * fast**2 * slow, -8 * fast**2 * slow
    else:
        lowest, low = 4 * fast**3 * delta, -4 * fast**2 * (r + s)
    roots = np.polynomial.Polynomial([lowest, low + 4 * p * q, 6 * (p * s + q * r), 8 * r * s]).roots()
    c = roots.real[(np.abs(roots.imag) <= 1e-6 * np.abs(roots)) & (roots.real > 0)]
    slacks = np.array([p + 2 * r * c, q + 2 * s * c])
    c, slacks = c[(slacks > 0).all(axis=0)], slacks[:, (slacks > 0).all(axis=0)]
    with np.errstate(over="ignore"):
        means = (c / np.sqrt(slacks[0])) * ((delta * c + 2 * fast + fast * end.epsilon / c) / np.sqrt(slacks[1]))
    best = int(np.argmin(means))
    return float(c[best]), float(means[best])


@record
class StronglyConvex(Record):
    """Private optimisation of a smooth strongly convex loss in d dimensions, whose error is only bounded.

    Parameters
    ----------
    strong_convexity
        μ > 0.
    smoothness
        L >= μ.
    learning_rate
        η > 0, stable below 2/L; beyond, bounds are ``inf``.
    dimension
        d, an integer >= 1.
    gradient_noise_std
        σ_sgd >= 0: E ‖ŵ_t‖² <= σ_sgd² for the noise of the stochastic gradients (of the whole vector).

    Notes
    -----
    Section 3 and Appendix E of arXiv 2310.06771.  Privacy needs the losses to be G-Lipschitz, G = ``clip_norm``.
    """

    strong_convexity: float
    smoothness: float
    learning_rate: float
    dimension: int
    gradient_noise_std: float

    def __init__(
        self,
        strong_convexity: float,
        smoothness: float,
        learning_rate: float,
        *,
        dimension: int = 1,
        gradient_noise_std: float = 0.0,
    ) -> None:
        mu = checks.real("strong_convexity", strong_convexity, "(0, inf)")
        eta = checks.real("learning_rate", learning_rate, "(0, inf)")
        self._set(
            strong_convexity=mu,
            smoothness=checks.real("smoothness", smoothness, f"[{mu!r}, inf)"),
            learning_rate=eta,
            dimension=int(checks.real("dimension", checks.integer("dimension", dimension, 1), "[1, 1e300]")),
            gradient_noise_std=checks.real("gradient_noise_std", gradient_noise_std, "[0, 1e100]"),
        )
        checks.real("learning_rate × strong_convexity", eta * mu, "[1e-300, 1e300]")
        checks.real("learning_rate × smoothness", eta * self.smoothness, "[1e-300, 1e300]")

    @property
    def condition_number(self) -> float:
        """κ = L/μ."""
        return self.smoothness / self.strong_convexity

    @property
    def rates(self) -> tuple[float, float]:
        """(m, l) = (ημ, ηL): the slowest and the fastest contraction a step."""
        slow = self.learning_rate * self.strong_convexity
        return slow, max(self.learning_rate * self.smoothness, slow)

    @property
    def stable(self) -> bool:
        """ηL < 2."""
        return self.rates[1] < 2

    def frequency_condition(self, frequencies: ArrayLike, criterion: str = "distance") -> FrequencyCondition:
        """Slack and gain at ``frequencies`` in [0, π], in radians a step; for stable learning rates."""
        if not self.stable:
            raise ValueError(f"learning_rate must lie in (0, {2 / self.smoothness!r}), got {self.learning_rate!r}")
        omega = checks.reals("frequencies", frequencies, f"[0, {math.pi!r}]")
        return frequency_condition(*self.rates, omega, criterion)

    # -- closed forms --------------------------------------------------------------------------------------------------

    def circle_criterion_bound(self, *, rho: float = 1.0, clip_norm: float = 1.0, criterion: str = "distance") -> float:
        """Upper bound for independent noise from constant multipliers alone (the circle criterion), in closed form.

        Relative error below 1e-12, divided by 2 − ηL.  ``strongly_convex_bound`` is tighter.
        """
        variance = self._drive(unit_variance(rho, clip_norm))
        criterion = checks.choice("criterion", criterion, CRITERIA)
        return (
            self.learning_rate / 2 * variance * circle_multiplier(*self.rates, criterion)[1] if self.stable else np.inf
        )

    def independent_noise_upper_bound(self, *, rho: float = 1.0, clip_norm: float = 1.0) -> float:
        """η (σ² d + σ_sgd²)/(2 min(1, 2 − ηL)), an upper bound for independent noise (DP-SGD), free of κ.

        Stationarity of ‖θ_t − θ*‖² gives 2 E⟨∇F, θ − θ*⟩ = η (E ‖∇F‖² + σ² d + σ_sgd²); then
        F − F* <= ⟨∇F, θ − θ*⟩ − ‖∇F‖²/(2L) if ηL <= 1, and also ‖∇F‖² <= 2L (F − F*) if ηL > 1.  For ηL >= 1 it is
        exactly the error of the quadratic with curvature L, hence the worst case over the class; below it is less than
        a factor 2 − ηL above that.  It rests on E⟨θ_t, w̃_t⟩ = 0 and so says nothing of correlated noise.
        """
        variance = self._drive(unit_variance(rho, clip_norm))
        return self.learning_rate * variance / (2 * min(1.0, 2 - self.rates[1])) if self.stable else math.inf

    # -- the worst quadratic -------------------------------------------------------------------------------------------

    def worst_quadratic_error(self, noise: ToeplitzNoise, *, rho: float = 1.0, clip_norm: float = 1.0) -> float:
        """Exact largest stationary error over all quadratics with curvatures in [μ, L]: a lower bound of any bound.

        In an eigendirection of curvature λ, x = ηλ, the error is (η/2) (σ² b(x) + s)/(2 − x), where b is the averaged
        variance of the noise and s the variance of the gradient noise there.  Its maximum over x in [m, l] is convex
        in s, so the worst case has all gradient noise in one direction.

        The maximum is searched on 257 points, equidistant in log(x/(2 − x)), and refined around the best; relative
        error 1e-12 where the error has a single maximum between neighbours.
        """
        variance = noise_variance(noise, rho, clip_norm)
        if not self.stable or math.isinf(variance):
            return math.inf
        total = self._largest_share(noise, variance, self.gradient_noise_std**2)
        if self.dimension > 1:
            total += (self.dimension - 1) * self._largest_share(noise, variance, 0.0)
        return self.learning_rate / 2 * total

    def _largest_share(self, noise: ToeplitzNoise, variance: float, extra: float) -> float:
        """Max over x in [m, l] of (variance × b(x) + extra)/(2 − x)."""
        ends = np.array(self.rates)
        low, high = np.log(ends) - np.log(2 - ends)
        largest = 0.0
        for points in (257, 33, 33, 33, 33, 33):
            place = np.linspace(low, high, points)
            x = np.clip(2 / (1 + np.exp(-place)), *ends)
            shares = (variance * noise.averaged_variance(x) + extra) / (2 - x)
            best = int(np.argmax(shares))
            largest = max(largest, float(shares[best]))
            low, high = place[max(best - 1, 0)], place[min(best + 1, points - 1)]
        return largest

    def _drive(self, variance: float) -> float:
        """E ‖ζ_t‖² of independent noise of ``variance`` in each coordinate."""
        return self.dimension * variance + self.gradient_noise_std**2
