"""Smooth strongly convex losses: an upper bound of the error of correlated noise, as an integral over frequencies.

F is μ-strongly convex and L-smooth.  It is the mean of G-Lipschitz losses plus a regulariser: the gradient of an
example has norm G at most, so no gradient is clipped, and the strong convexity comes from the regulariser, whose
gradient depends on no example.  (A mean of G-Lipschitz losses alone is not strongly convex on all of ℝᵈ.)  The run is

    θ_{t+1} = θ_t − η (∇F(θ_t) + ŵ_t + Σ_τ β_τ w_{t−τ}),    w_t ~ N(0, σ² I_d),   σ² = G² γ_∞²/(2ρ),

with E ‖ŵ_t‖² <= σ_sgd² given the past.  In terms of m = ημ, l = ηL and δ = l − m all other quantities are free of
units.

**The bound** (Theorem 3.1 of the paper, corrected).  Take a multiplier Λ(ω) = c_0 + Σ_{τ≠0} c_τ (1 − e^{−iωτ}) with all
c >= 0 and Σ c_τ finite.  Write Λ = a + ib, x = 1 − cos ω, s = sin ω and β = x − l − is, and let ε be 0 or 1:

    slack  u = 2 (R a + δ s b) + ε |β|² − l δ,    R = x (2 − m − l) + m l,
    gain   ξ = (δ |Λ|² + l (2a + ε))/u.

If u > 0 at all ω, then

    lim sup_T (1/T) Σ_{t<T} E F(θ_t) − F*  <=  (η/2) (1/2π) ∫ (d σ² |B(ω)|² + σ_sgd²) ξ(ω) dω.

ε = 0 is the paper's criterion ``"distance"``, which bounds L ‖θ − θ*‖²/2 >= F − F*.  ε = 1, ``"objective"``, starts
from F − F* <= L ‖θ − θ*‖²/2 − ‖L(θ − θ*) − ∇F‖²/(2(L − μ)) and is never looser.  ``docs/strongly-convex-bound.md`` has
the proof, the errata of the printed theorem with counterexamples, and the places where the bound is loose.
``corrnoise.solvers.strongly_convex.bound`` searches for the best multiplier.

Sources: Choquette-Choo et al., arXiv 2310.06771: Theorems 3.1 and E.1, equations (10), (89)–(93), Figure 3; G. Zames
and P. L. Falb, Stability conditions for systems with monotone and slope-restricted nonlinearities, 1968.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import UNIT_BUDGET, Budget

Criterion = Literal["distance", "objective"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)

_RELATIVE_ROUNDING = 64 * UNIT_ROUNDOFF  # of a term of slack or gain, if elementary functions err by 8 units
_OUTWARD_FACTOR = 1 + 1e-9  # exceeds the rounding errors of a bound on a disc


class GainOnDiscs(NamedTuple):
    """Gain and slack at the centres of discs in the complex plane of frequencies, and their bounds on the discs."""

    gain: Array  #: ξ at the centres
    slack: Array  #: u at the centres
    largest_gain: Array  #: upper bound of |ξ| on the discs; inf where u may vanish
    least_slack: Array  #: lower bound of |u| on the discs; not positive where u may vanish


@dataclass(frozen=True)
class FrequencyCondition:
    """Slack and gain at given frequencies, as functions of the multiplier Λ = a + ib there.  All arrays have one shape.

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

    def _slack_error(self, a: Array, b: Array, error: float) -> Array:
        """Upper bound of |slack − u| if Λ is known within ``error``; rounding errors are included."""
        constants = self.epsilon * (self.slow * self.fast + 2 * self.x * abs(1 - self.fast))
        constants = constants + (1 - self.epsilon) * self.fast * self.width
        by_a = self.r * (error + _RELATIVE_ROUNDING * np.abs(a))
        by_b = self.width * self.s * (error + _RELATIVE_ROUNDING * np.abs(b))
        return np.asarray(2 * (by_a + by_b) + _RELATIVE_ROUNDING * constants)

    def upper_gain(self, a: Array, b: Array, error: float) -> Array:
        """Upper bound of ξ for every Λ with |Λ − (a + ib)| <= ``error``, rounding errors included.

        It is ``inf`` where the slack is not certainly positive.
        """
        u = self.slack(a, b) - self._slack_error(a, b, error)
        above = self.width * (np.hypot(a, b) + error) ** 2 + self.fast * (2 * (np.abs(a) + error) + self.epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(u > 0, (1 + _RELATIVE_ROUNDING) * above / u, np.inf)

    def on_discs(self, a: Array, b: Array, radii: Array, real_change: Array, change: Array) -> GainOnDiscs:
        """Bound gain and slack on the discs |z − ω| <= ``radii`` of complex frequencies.

        |sin z − sin ω| and |cos z − cos ω| are bounded by hyperbolic functions of the radius, which bounds the change
        of every term of u.  The numerator of ξ is δ Λ(z) Λ(−z) + l (2 a(z) + ε).

        ``real_change`` and ``change`` are upper bounds on the discs of |a(z) − a| and |b(z) − b|, where
        a(z) = (Λ(z) + Λ(−z))/2 and b(z) = (Λ(z) − Λ(−z))/2i; ``change`` is also one of |Λ(z) − Λ(ω)|.  They include the
        error of a and b.
        """
        cosine = np.abs(1 - self.x)
        odd = np.sinh(radii)
        even = 2 * np.sinh(radii / 2) ** 2
        x_change = self.s * odd + cosine * even
        s_change = cosine * odd + self.s * even
        slack = self.slack(a, b)
        by_a = abs(2 - self.slow - self.fast) * x_change * (np.abs(a) + real_change) + self.r * real_change
        by_b = self.width * (s_change * (np.abs(b) + change) + self.s * change)
        slack_change = 2 * (by_a + by_b + self.epsilon * abs(1 - self.fast) * x_change)
        least = slack - self._slack_error(a, b, 0.0) - _OUTWARD_FACTOR * slack_change
        above = self.width * (np.hypot(a, b) + change) ** 2
        above = above + self.fast * (2 * (np.abs(a) + real_change) + self.epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            largest = np.where(least > 0, _OUTWARD_FACTOR * above / least, np.inf)
        return GainOnDiscs(self.gain(a, b), slack, largest, least)

    def cone(self, a: Array, b: Array) -> tuple[Array, Array]:
        """X₁ and X₂, which are affine in a and b."""
        first = (2 * self.x - self.slow - self.fast) * a + self.epsilon * (self.x - self.fast)
        return first, 2 * self.s * a + self.width * b + self.epsilon * self.s

    def envelope(self) -> Array:
        """The largest gain of a quadratic loss, a lower bound of every ξ.

        It is the maximum over h in [m, l] of l/|1 − h − e^{iω}|² for ``"distance"``, and of h/|1 − h − e^{iω}|² for
        ``"objective"``.
        """
        h = np.clip(np.sqrt(2 * self.x) if self.epsilon else self.x, self.slow, self.fast)
        distance = (h * self.cosine) ** 2 + (2 - h) ** 2 * self.x / 2
        return np.asarray((h if self.epsilon else self.fast) / distance)


def frequency_condition(slow: float, fast: float, frequencies: Array, criterion: Criterion) -> FrequencyCondition:
    """The condition at ``frequencies`` in [0, π] for m = ``slow``, l = ``fast`` (0 < m <= l < 2)."""
    cosine = np.cos(frequencies / 2)
    sine = np.sin(frequencies / 2)
    checks.choice("criterion", criterion, CRITERIA)
    r = slow * fast * cosine * cosine + (2 - slow) * (2 - fast) * sine * sine
    x = 2 * sine * sine
    if criterion == "objective":
        offset = slow * fast + 2 * x * (1 - fast)  # |β|² = l² + 2x (1 − l): nothing cancels near frequency 0
        return FrequencyCondition(slow, fast, 1.0, cosine, x, 2 * sine * cosine, r, offset)
    offset = np.full_like(x, -fast * (fast - slow))
    return FrequencyCondition(slow, fast, 0.0, cosine, x, 2 * sine * cosine, r, offset)


def _stationary_constants(condition: FrequencyCondition) -> Array:
    """The positive roots of the cubic of ``docs/strongly-convex-bound-proofs.md``: the best constant multipliers."""
    slow, fast = condition.slow, condition.fast
    p, q = condition.offset.tolist()
    r, s = condition.r.tolist()
    if condition.epsilon:
        constant_term = -4 * fast**2 * slow
        linear_term = -8 * fast**2 * slow
    else:
        constant_term = 4 * fast**3 * condition.width
        linear_term = -4 * fast**2 * (r + s)
    cubic = [constant_term, linear_term + 4 * p * q, 6 * (p * s + q * r), 8 * r * s]
    roots = np.polynomial.Polynomial(cubic).roots()
    real = np.abs(roots.imag) <= 1e-6 * np.abs(roots)
    return np.asarray(roots.real[real & (roots.real > 0)])


def circle_multiplier(slow: float, fast: float, criterion: Criterion) -> tuple[float, float]:
    """The best constant multiplier for independent noise, and its mean gain (1/2π) ∫ ξ dω, in closed form.

    With Λ = c the slack is affine in cos ω, p + 2rc at ω = 0 and q + 2sc at ω = π, so the mean of ξ is
    (δ c² + l (2c + ε))/sqrt((p + 2rc)(q + 2sc)).  In units of the paper's (90), ``"distance"``, the mean of ψ/η⁴ is
    this divided by l.
    """
    if slow == fast:
        return 1.0, 1 / (2 - fast)
    ends = frequency_condition(slow, fast, np.array([0.0, math.pi]), criterion)
    c = _stationary_constants(ends)
    slacks = ends.offset[:, np.newaxis] + 2 * ends.r[:, np.newaxis] * c
    feasible = (slacks > 0).all(axis=0)
    c = c[feasible]
    at_zero, at_pi = slacks[:, feasible]
    with np.errstate(over="ignore"):
        numerator = ends.width * c + 2 * fast + fast * ends.epsilon / c
        means = (c / np.sqrt(at_zero)) * (numerator / np.sqrt(at_pi))
    best = int(np.argmin(means))
    return float(c[best]), float(means[best])


@record
class StronglyConvex(Record):
    """Private optimisation of a smooth strongly convex loss in d dimensions, whose error is only bounded.

    Section 3 and Appendix E of arXiv 2310.06771.  Privacy needs the gradient of every example to have norm
    G (the clipping norm) at most: the losses are G-Lipschitz, and the strong convexity comes from a regulariser, whose
    gradient depends on no example.

    Parameters
    ----------
    strong_convexity : float
        μ > 0.
    smoothness : float
        L >= μ.
    learning_rate : float
        η > 0, stable below 2/L; beyond, bounds are ``inf``.
    dimension : int, default 1
        d, an integer >= 1.
    gradient_noise_std : float, default 0.0
        σ_sgd >= 0: E ‖ŵ_t‖² <= σ_sgd² for the noise of the stochastic gradients (of the whole vector).

    Examples
    --------
    >>> import corrnoise as cn
    >>> losses = cn.StronglyConvex(strong_convexity=0.1, smoothness=1.0, learning_rate=0.5)
    >>> round(losses.worst_quadratic_error(cn.mechanisms.DPSGD()), 4)
    0.0833
    >>> round(losses.independent_noise_upper_bound(), 4)
    0.125
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
            dimension=int(
                checks.real("dimension", checks.integer("dimension", dimension, 1, largest=10**300), "[1, 1e300]")
            ),
            gradient_noise_std=checks.real("gradient_noise_std", gradient_noise_std, "[0, 1e100]"),
        )
        checks.real("learning_rate × strong_convexity", eta * mu, "[1e-300, 1e300]")
        checks.real("learning_rate × smoothness", eta * self.smoothness, "[1e-300, 1e300]")

    def for_run(self, participation: Participation) -> StronglyConvex:
        """Itself: the bound is for an endless run, whatever the participation.

        Parameters
        ----------
        participation : Participation
            The order of the data.

        Returns
        -------
        StronglyConvex
        """
        return self

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

    def frequency_condition(self, frequencies: ArrayLike, criterion: Criterion = "distance") -> FrequencyCondition:
        """Slack and gain at ``frequencies`` in [0, π], in radians a step; for stable learning rates.

        Parameters
        ----------
        frequencies : array_like
            ω in [0, π], in radians a step, of any shape.
        criterion : {"distance", "objective"}, default "distance"
            ``"distance"`` bounds L ‖θ − θ*‖²/2, ``"objective"`` F − F*.

        Returns
        -------
        FrequencyCondition
        """
        if not self.stable:
            raise ValueError(f"learning_rate must lie in (0, {2 / self.smoothness!r}), got {self.learning_rate!r}")
        omega = checks.reals("frequencies", frequencies, f"[0, {math.pi!r}]")
        return frequency_condition(*self.rates, omega, criterion)

    # -- closed forms --------------------------------------------------------------------------------------------------

    def independent_noise_upper_bound(self, *, budget: Budget = UNIT_BUDGET) -> float:
        """η (σ² d + σ_sgd²)/(2 min(1, 2 − ηL)), an upper bound for independent noise (DP-SGD), whatever κ.

        Stationarity of ‖θ_t − θ*‖² gives 2 E⟨∇F, θ − θ*⟩ = η (E ‖∇F‖² + σ² d + σ_sgd²).  Then
        F − F* <= ⟨∇F, θ − θ*⟩ − ‖∇F‖²/(2L) if ηL <= 1, and also ‖∇F‖² <= 2L (F − F*) if ηL > 1.  For ηL >= 1 the bound
        is exactly the error of the quadratic with curvature L, hence the worst case over the class.  For ηL < 1 it is
        less than a factor 2 − ηL above that.  The proof needs E⟨θ_t, w̃_t⟩ = 0, which correlated noise does not have.

        Parameters
        ----------
        budget : Budget, optional
            ρ, clipping norm G and adjacency.

        Returns
        -------
        float
        """
        variance = self._drive(budget.unit_variance)
        if not self.stable:
            return math.inf
        return self.learning_rate * variance / (2 * min(1.0, 2 - self.rates[1]))

    # -- the worst quadratic -------------------------------------------------------------------------------------------

    def worst_quadratic_error(self, noise: ToeplitzNoise, *, budget: Budget = UNIT_BUDGET) -> float:
        """Exact largest stationary error over all quadratics with curvatures in [μ, L]: a lower bound of any bound.

        In an eigendirection of curvature λ, x = ηλ, the error is (η/2) (σ² b(x) + s)/(2 − x), where b is the averaged
        variance of the noise and s the variance of the gradient noise there.  Its maximum over x in [m, l] is convex
        in s, so in the worst case all gradient noise lies in one direction.

        The maximum is searched on 257 points, equidistant in log(x/(2 − x)), and refined around the best one.  The
        relative error is 1e-12 if the error has a single maximum between neighbouring points.

        Parameters
        ----------
        noise : ToeplitzNoise
            Correlated noise, with the σ² of its γ_∞.
        budget : Budget, optional
            ρ, clipping norm G and adjacency.

        Returns
        -------
        float
        """
        variance = checked_noise(noise).variance(budget)
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
            low = place[max(best - 1, 0)]
            high = place[min(best + 1, points - 1)]
        return largest

    def _drive(self, variance: float) -> float:
        """E ‖ζ_t‖² of independent noise of ``variance`` in each coordinate."""
        return self.dimension * variance + self.gradient_noise_std**2
