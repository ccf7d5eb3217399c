r"""How far a run comes: the published bounds of the excess loss, and corrected ones.

For η <= 1/(4LT) the run of Algorithm 1 with M machines, m of them in each of T rounds, p = m/M, has

    R_T <= 2D²/(ηT(T+1)) + 4DG*/(T+1) + 4D sqrt(V/m) Σ_t sqrt(t)/(T(T+1)) + 4(C)/(T(T+1)),

V = σ̃² + ξ̃² (M−m)/(M−1), with the term (C) = E Σ_t ⟨Y_t, x* − w_{t+1}⟩ of the noise.  Three bounds of (C):

* independent prefix noise of variance c k (published) or v: the coupling, with the factors of ``coupling``;
* any noise of a machine, by Cauchy and Schwarz: D T sqrt(M d max_k Var y_k)/m.  With square-root noise this has the
  published rate in d, M, T and m, but log N in place of sqrt(1 + log T), for every M/m and with η = 1/(4LT), which
  depends on neither the budget nor the dimension.

The published Theorem 5.2 follows, with its learning rate, wherever Φ(T, p, 1/(8T)) <= 2 or p >= 1/2; beyond that it is
neither proved nor refuted.  A.6 in its proof needs losses that are convex and L-smooth on the whole space (or far
enough beyond the set), not on the set only.

The lower bounds of Section 2.3 are orders without constants: ``lower_bound_order``.

Source: Reshef and Levy, ICML 2025: Theorems 5.2 and F.2, Lemmas 2.1, 4.2, 4.3.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.stats import binom

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_parameters
from corrnoise.theory.papers.noise_cancellation.coupling import constant_noise_factor, growing_noise_factor
from corrnoise.theory.papers.noise_cancellation.privacy import calibrated_scale, of_machine, published_scale
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass, Losses
from corrnoise.theory.privacy import Budget

_NONNEGATIVE_INTERVAL = "[0, 1e100]"
Method = Literal["coupling", "cauchy-schwarz"]
METHODS = ("coupling", "cauchy-schwarz")


def sampling_variance(deviation: float, heterogeneity: float, *, machines: int, participants: int) -> float:
    """(σ² + ξ² (M−m)/(M−1))/m, the bound of Lemma 2.1; with the mean variance and ξ² at a point, its exact value.

    One machine alone has ξ = 0.
    """
    big = checks.integer("machines", machines, 1)
    m = checks.integer("participants", participants, 1)
    if m > big:
        raise ValueError(f"participants must be at most machines, got {m} of {big}")
    absent = (big - m) / (big - 1) if big > 1 else 0.0
    sigma = checks.real("deviation", deviation, _NONNEGATIVE_INTERVAL)
    xi = checks.real("heterogeneity", heterogeneity, _NONNEGATIVE_INTERVAL)
    return (sigma**2 + absent * xi**2) / m


@record
class ExcessLossBound(Record):
    """A bound of the excess loss by its sources, which ``total`` adds up."""

    #: contributions of the distance and the gradient at the optimum, of the samples and of the noise
    optimisation: float
    sampling: float
    noise: float
    learning_rate: float  #: the η that it is for
    factor: float = 1.0  #: Φ or Φ' of the coupling, 1 without coupling

    @property
    def total(self) -> float:
        """The bound."""
        return self.optimisation + self.sampling + self.noise


@record
class FederatedRun(Record):
    """A run, by the constants that the bounds need.

    Parameters
    ----------
    budget : Budget
        Of each machine, for replace-one adjacency; its clipping norm is not used.  The paper's ρ is sqrt(2 ρ) of
        zero-concentrated differential privacy.
    family : LossClass
        G, L and D.
    machines, participants, rounds, dimension : int
        M >= m >= 1, T >= 1 and d >= 1.
    deviation, heterogeneity : float, optional
        σ̃ = σ + 2σ_L D and ξ̃ = ξ + 2ξ_L D, >= 0; None for the worst case, where sqrt(σ̃² + ξ̃²) is 2S as printed
        and G + LD as corrected (the variance of s_t about its mean over examples and machines is at most R_t²).
    optimum_gradient : float, optional
        G* = ‖∇f(x*)‖ in [0, G]; None for G.

    Examples
    --------
    >>> import corrnoise as cn
    >>> from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
    >>> digits = LossClass(1570**0.5, 392.5, 0.1)
    >>> budget = cn.Budget(32.0, adjacency="replace-one")
    >>> run = cn.papers.noise_cancellation.FederatedRun(
    ...     budget, digits, machines=100, participants=50, rounds=1200, dimension=7850
    ... )
    >>> round(run.published_upper_bound().total, 3), round(run.noisy_sgd_upper_bound().total, 3)
    (1.04, 0.376)
    """

    budget: Budget
    family: LossClass
    machines: int
    participants: int
    rounds: int
    dimension: int
    deviation: float | None = None
    heterogeneity: float | None = None
    optimum_gradient: float | None = None

    def __post_init__(self) -> None:
        of_machine(self.budget)
        self._check(family=LossClass, machines=1, participants=1, rounds=1, dimension=1)
        if self.participants > self.machines:
            raise ValueError(f"participants must be at most machines, got {self.participants} of {self.machines}")
        if (self.deviation is None) != (self.heterogeneity is None):
            raise ValueError("deviation and heterogeneity must both be numbers in [0, inf) or both be None")
        if self.deviation is not None:
            self._set(
                deviation=checks.real("deviation", self.deviation, _NONNEGATIVE_INTERVAL),
                heterogeneity=checks.real("heterogeneity", self.heterogeneity, _NONNEGATIVE_INTERVAL),
            )
        if self.optimum_gradient is not None:
            interval = f"[0, {self.family.lipschitz!r}]"
            self._set(optimum_gradient=checks.real("optimum_gradient", self.optimum_gradient, interval))

    # -- parts of all bounds -------------------------------------------------------------------------------------------

    @property
    def probability(self) -> float:
        """P = m/M, the probability that a machine is in a round."""
        return self.participants / self.machines

    @property
    def _mu(self) -> float:
        return math.sqrt(2 * self.budget.gaussian_rho)

    @property
    def _gradient(self) -> float:
        return self.family.lipschitz if self.optimum_gradient is None else self.optimum_gradient

    def _published_deviation(self) -> float:
        """sqrt(σ̃² + ξ̃²); in the worst case σ̃ = ξ̃ = S."""
        if self.deviation is None or self.heterogeneity is None:
            return math.sqrt(2) * self.family.published_norm
        return math.hypot(self.deviation, self.heterogeneity)

    def _corrected_variance(self) -> float:
        """V/m, the variance of one correction about its mean."""
        if self.deviation is None or self.heterogeneity is None:
            return self.family.radius**2 / self.participants
        return sampling_variance(
            self.deviation, self.heterogeneity, machines=self.machines, participants=self.participants
        )

    # -- as published --------------------------------------------------------------------------------------------------

    def published_learning_rate(self) -> float:
        """η = min(ρDm/(2ST sqrt(2Md(1 + log T))), 1/(8LT)) of Theorem 5.2.

        Returns
        -------
        float
        """
        return min(self._private_rate(2.0 * (1 + math.log(self.rounds)) * self.machines), self._smooth_rate(8))

    def _private_rate(self, factor: float) -> float:
        m = self.participants
        t = self.rounds
        s = self.family.published_norm
        return self._mu * self.family.diameter * m / (2 * s * t * math.sqrt(factor * self.dimension))

    def _smooth_rate(self, factor: float) -> float:
        return 1 / (factor * self.family.smoothness * self.rounds)

    def _simplified(self, smooth: float, noise: float, learning_rate: float) -> ExcessLossBound:
        family, t = self.family, self.rounds
        return ExcessLossBound(
            optimisation=4 * family.diameter * (self._gradient + smooth * family.smoothness * family.diameter) / t,
            sampling=4 * family.diameter * self._published_deviation() / math.sqrt(self.participants * t),
            noise=8 * family.diameter * family.published_norm * noise / (self._mu * self.participants * t),
            learning_rate=learning_rate,
        )

    def published_upper_bound(self) -> ExcessLossBound:
        """Theorem 5.2 as printed; ``published_is_proved`` says whether it follows from the corrected proof.

        Returns
        -------
        float, int or str
        """
        noise = math.sqrt(2 * self.machines * self.dimension * (1 + math.log(self.rounds)))
        return self._simplified(4, noise, self.published_learning_rate())

    def published_is_proved(self) -> bool:
        """Whether Theorem 5.2 as printed follows from the corrected proof: Φ(T, p, 1/(8T)) <= 2 or p >= 1/2.

        Returns
        -------
        bool
        """
        p = self.probability
        return p >= 0.5 or growing_noise_factor(self.rounds, p, 1 / (8 * self.rounds)) <= 2

    def trusted_upper_bound(self) -> ExcessLossBound:
        """Theorem F.2, of Algorithm 2 with a trusted server; true as printed under the assumptions of A.6.

        Returns
        -------
        float, int or str
        """
        learning_rate = min(self._private_rate(1.0), self._smooth_rate(4))
        return self._simplified(2, math.sqrt(self.dimension), learning_rate)

    def trusted_std(self) -> float:
        """σ_t = 2S sqrt(T)/(ρ m), the server's noise of Theorem F.2.

        Returns
        -------
        float
        """
        return 2 * self.family.published_norm * math.sqrt(self.rounds) / (self._mu * self.participants) * (1 + 1e-12)

    def noisy_sgd_upper_bound(self) -> ExcessLossBound:
        """Projected SGD with fresh noise of half sensitivity G, uniform average: D sqrt((G² + 4G²d/(ρ²m))/T).

        With η = D/sqrt(T(G² + 4G²d/(ρ²m))).  The noise is what exceeds D G/sqrt(T).

        Returns
        -------
        float, int or str
        """
        g, diameter = self.family.lipschitz, self.family.diameter
        second_moment = g**2 * (1 + 4 * self.dimension / (self._mu**2 * self.participants))
        total = diameter * math.sqrt(second_moment / self.rounds)
        quiet = diameter * g / math.sqrt(self.rounds)
        return ExcessLossBound(
            optimisation=quiet,
            sampling=0.0,
            noise=total - quiet,
            learning_rate=diameter / math.sqrt(self.rounds * second_moment),
        )

    # -- as corrected --------------------------------------------------------------------------------------------------

    def server_variances(self, noise: Mechanism, scale: float, *, cap: int | None = None) -> Array:
        """E ‖Y_t‖²/d for t = 1, …, T, shape (T,): the variance of the noise in the server's estimate q̃_t.

        (M/m²) σ² E Var y_N with N ~ Bin(t, p), the participations of a machine until t; y_0 = 0.  For the published
        noise it is c t/m for every schedule.  After ``cap`` participations a machine refuses, and its last noise stays.

        Parameters
        ----------
        noise : Mechanism
            The noise of a machine over its participations.
        scale : float
            σ, the standard deviation of a draw, in [0, 1e100].
        cap : int, optional
            The participations after which a machine refuses; None for T.

        Returns
        -------
        array of float
        """
        scale = checks.real("scale", scale, "[0, 1e100]")
        cap = self.rounds if cap is None else min(self.rounds, checks.integer("cap", cap, 1))
        counts = np.arange(self.rounds + 1)
        variances = np.concatenate([[0.0], noise.leading(cap).errors(PrefixSums(cap))])[np.minimum(counts, cap)]
        mean = [binom.pmf(counts[: t + 1], t, self.probability) @ variances[: t + 1] for t in counts[1:]]
        return np.array(mean) * (scale**2 * self.machines / self.participants**2)

    def participation_cap(self, deviations: float = 4.0) -> int:
        """N = ceil(pT + 4 sqrt(pT(1−p))), at most T, which a machine rarely reaches.

        Parameters
        ----------
        deviations : float, default 4.0
            Margin in standard deviations, in [0, 100].

        Returns
        -------
        int
        """
        expected = self.probability * self.rounds
        margin = checks.real("deviations", deviations, "[0, 100]") * math.sqrt(expected * (1 - self.probability))
        return min(self.rounds, max(1, math.ceil(expected + margin)))

    def refusals(self, cap: int) -> float:
        """M P(Bin(T, p) > N), a bound of the probability that some machine reaches its cap N and is asked again.

        Parameters
        ----------
        cap : int
            N >= 1.

        Returns
        -------
        float
        """
        return float(min(1.0, self.machines * binom.sf(checks.integer("cap", cap, 1), self.rounds, self.probability)))

    def upper_bound(
        self,
        noise: Mechanism,
        *,
        losses: Losses,
        cap: int | None = None,
        learning_rate: float | None = None,
        method: Method = "coupling",
    ) -> ExcessLossBound:
        """The corrected bound, for every M/m.

        It does without the simplifications of the published one, so that it compares noises, not forms.

        Parameters
        ----------
        noise : Mechanism
            The noise of each machine: ``cancelling_noise(T, growth=1)`` is the published one and gets the published
            scale (with S, or R of convex losses), any other noise is calibrated to ``cap`` participations.
        losses : {"convex", "smooth"}
            ``"convex"`` or ``"smooth"``: which sensitivity the noise is for.  The bound itself is for convex losses.
        cap : int, optional
            The number of participations after which a machine refuses; None for T.  Refusals cost G D times their
            probability.
        learning_rate : float, optional
            η in (0, 1/(4LT)]; None for the best of a few: the largest ones, and minimisers of the bound with the
            factor Φ held fixed.
        method : {"coupling", "cauchy-schwarz"}, default "coupling"
            ``"coupling"``, for ``cancelling_noise`` with share 1 and growth 0 or 1, or ``"cauchy-schwarz"``, for any
            noise.

        Returns
        -------
        float, int or str

        Raises
        ------
        ValueError
            If the method does not cover the noise, or the learning rate is beyond 1/(4LT).
        """
        most = self._smooth_rate(4)
        rates = [] if learning_rate is None else [checks.real("learning_rate", learning_rate, f"(0, {most!r}]")]
        checks.choice("method", method, METHODS)
        cap = self.rounds if cap is None else checks.integer("cap", cap, 1)
        scale = self._noise_scale(noise, cap, losses)
        if method == "cauchy-schwarz":
            times = min(cap, self.rounds)
            variance = scale**2 * float(noise.leading(times).errors(PrefixSums(times)).max())
            constant = self.family.diameter * self.rounds * math.sqrt(self.machines * self.dimension * variance)
            return self._assembled((rates or [most])[0], constant / self.participants, 1.0, cap)
        if not rates:
            rates = [most, self._smooth_rate(8)]
            for start in rates[:]:  # with the factor held fixed, and once more with the factor found there
                for _ in range(2):
                    slope, _factor = self._coupled(noise, scale**2, start)
                    start = min(start, self.family.diameter / math.sqrt(2 * slope))
                    rates.append(start)
        bounds = []
        for rate in rates:
            slope, factor = self._coupled(noise, scale**2, rate)
            bounds.append(self._assembled(rate, slope * rate, factor, cap))
        return min(bounds, key=lambda bound: bound.total)

    def _noise_scale(self, noise: Mechanism, cap: int, losses: Losses) -> float:
        if _parameters(noise) == (1.0, 1.0):
            ratio = self.family.largest_shift(losses=losses) / (2 * self.family.published_norm)
            return ratio * published_scale(self.budget, self.family, self.rounds)
        return calibrated_scale(noise, self.budget, min(cap, self.rounds), self.family, losses=losses)

    def _coupled(self, noise: Mechanism, scale: float, learning_rate: float) -> tuple[float, float]:
        """(C)/η, and the factor: from the coupling, or 1/p where it is smaller and η <= 1/(8LT)."""
        p, t = self.probability, self.rounds
        step = learning_rate * self.family.smoothness
        other = 1 / p if learning_rate <= self._smooth_rate(8) else math.inf
        parameters = _parameters(noise)
        if parameters == (1.0, 1.0):
            factor = min(growing_noise_factor(t, p, step), other)
            unit = self.dimension * t * (t + 1) / (2 * self.participants * p)
        elif parameters == (1.0, 0.0):
            factor = min(constant_noise_factor(t, p, step), other)
            unit = self.dimension * t / (self.participants * p**2)
        else:
            raise ValueError(
                f"method must be 'cauchy-schwarz' for {noise!r}: the coupling is proved for independent prefix noise,"
                " cancelling_noise with share 1 and growth 0 or 1"
            )
        return unit * scale * factor, factor

    def _assembled(self, learning_rate: float, noise_term: float, factor: float, cap: int) -> ExcessLossBound:
        t = self.rounds
        diameter = self.family.diameter
        weight = t * (t + 1.0)
        refused = 0.0 if cap >= t else self.refusals(cap) * self.family.lipschitz * diameter
        distance = 2 * diameter**2 / (learning_rate * weight)
        at_optimum = 4 * diameter * self._gradient / (t + 1)
        roots = float(np.sqrt(np.arange(1, t + 1)).sum())
        return ExcessLossBound(
            optimisation=distance + at_optimum + refused,
            sampling=4 * diameter * math.sqrt(self._corrected_variance()) * roots / weight,
            noise=4 * noise_term / weight,
            learning_rate=learning_rate,
            factor=factor,
        )

    def lower_bound_order(self, *, trusted: bool) -> float:
        """1/sqrt(n) + sqrt(d)/(ρn), or sqrt(Md) for sqrt(d) with an untrusted server, n = mT: an order, not a bound.

        Section 2.3 quotes lower bounds in ε of this order for G = D = 1, whose constants are not stated, and has the
        paper's ρ, sqrt(2 ρ) of zCDP, for ε, which needs bounded ρ and a fixed δ.  For comparing how errors scale.

        Parameters
        ----------
        trusted : bool
            Whether the server is trusted.

        Returns
        -------
        float
        """
        n = self.participants * self.rounds
        held = self.dimension * (1 if checks.boolean("trusted", trusted) else self.machines)
        scale = self.family.lipschitz * self.family.diameter
        return scale * (1 / math.sqrt(n) + math.sqrt(held) / (self._mu * n))

    def break_even_rounds(self) -> float:
        """The T where the noise terms of Theorem 5.2 and of noisy SGD are equal: T/(1 + log T) = 32 (S/G)² M/m.

        Returns
        -------
        float
        """
        target = 32 * (self.family.published_norm / self.family.lipschitz) ** 2 / self.probability
        t = target
        for _ in range(200):
            t = target * (1 + math.log(t))
        return t


def _parameters(noise: Mechanism) -> tuple[float, float] | None:
    """Share and growth of noise that a machine takes back, None for other noise."""
    try:
        return cancelling_parameters(noise)
    except ValueError:
        return None
