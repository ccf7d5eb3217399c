"""Gradient norms after T steps of normalised descent with momentum: published bounds and corrected ones.

Setting: F = (1/N) Σ f(·, x_i), every f(·, x) is G-Lipschitz and L-smooth, F(w_1) − inf F <= R.  A step has length η:
w_{t+1} = w_t − η m̂_t/‖m̂_t‖, and m̂_t is the momentum with noise.  The bound is for E ‖∇F(ŵ)‖ for ŵ drawn uniformly
from w_1, …, w_T.

``published=True`` gives a statement as printed.  The others are true; docs/momentum-aggregation.md says where the two
differ, and has the proofs.  Theorem 9 needs the smoothness L in the noise.

All logarithms are natural unless they say log2.

Source: H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Lemmas 5, 7, 11,
Theorems 6, 9.
"""

from __future__ import annotations

import math

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.momentum_aggregation.calibration import published_budget
from corrnoise.theory.papers.momentum_aggregation.reconstruction import defect_bound
from corrnoise.theory.privacy import Budget

_MOST_EXAMPLES = 10**30  #: for the theorems, whose rates cross beyond all data sets


def descent_upper_bound(
    *, decrease: float, smoothness: float, learning_rate: float, steps: int, mean_error: float, published: bool = False
) -> float:
    """Lemma 5: E ‖∇F(ŵ)‖ for momenta with the ``mean_error`` (1/T) Σ E ‖m̂_t − ∇F(w_t)‖.

    E[F(w_1) − F(w_{T+1})]/(η T) + L η/2 + 2 · mean error; as published with the factors 3/2, 3/2 and 3/2 more.  The
    ``decrease`` E[F(w_1) − F(w_{T+1})] is at most R.
    """
    length = checks.real("learning_rate", learning_rate, "(0, inf)")
    smooth = checks.real("smoothness", smoothness, "[0, inf)")
    error = checks.real("mean_error", mean_error, "[0, inf)")
    steps = checks.integer("steps", steps, 1)
    bound = checks.real("decrease", decrease) / (length * steps) + smooth * length / 2 + 2 * error
    return 1.5 * bound if checks.boolean("published", published) else bound


def momentum_error_upper_bound(
    step: int,
    *,
    examples: int,
    alpha: float,
    learning_rate: float,
    lipschitz: float,
    smoothness: float,
    published: bool = False,
) -> float:
    """Lemma 11: E ‖m_t − ∇F(w_t)‖ of the momentum without noise, for a new random order in every epoch.

    G sqrt(α/(2 − α)) + 2 η (N − 1) L + η L (1 − α)/α + (1 − α)^t G for t >= 1 and N >= 2; printed is
    2 G sqrt(α) + 2 η N L + η L/α, which is false for small t.
    """
    step = checks.integer("step", step, 1)
    n = checks.integer("examples", examples, 2)
    alpha = checks.real("alpha", alpha, "(0, 1]")
    length = checks.real("learning_rate", learning_rate, "[0, inf)")
    g = checks.real("lipschitz", lipschitz, "[0, inf)")
    smooth = checks.real("smoothness", smoothness, "[0, inf)")
    if checks.boolean("published", published):
        return 2 * g * math.sqrt(alpha) + 2 * length * n * smooth + length * smooth / alpha
    initial = 0.0 if alpha == 1.0 else math.exp(step * math.log1p(-alpha)) * g
    drift = 2 * length * (n - 1) * smooth + length * smooth * (1 - alpha) / alpha
    return g * math.sqrt(alpha / (2 - alpha)) + drift + initial


@record
class BoundedTask(Record):
    """The task of a bound: F has N examples, and every loss is G-Lipschitz and L-smooth."""

    examples: int  #: N >= 2
    dimension: int  #: d >= 1
    budget: Budget  #: of a run; its clip norm is G.  The theorems need ε > 0 and δ, and are for replace-one adjacency.
    smoothness: float = 1.0  #: L > 0
    initial_error: float = 1.0  #: R > 0, at least F(w_1) − inf F

    def __post_init__(self) -> None:
        self._check(budget=Budget, dimension=1, smoothness="(0, inf)", initial_error="(0, inf)")
        self._set(examples=checks.integer("examples", self.examples, 2, largest=_MOST_EXAMPLES))

    @property
    def lipschitz(self) -> float:
        """G."""
        return self.budget.clip_norm

    def lemma_7(self, *, steps: int, alpha: float, learning_rate: float, published: bool = False) -> float:
        """Lemma 7: E ‖m̂_t − m_t‖ of the noise of Algorithm 2 at γ = η N <= 1, 1/N <= α and T >= N, with L restored.

        192 G α log2 T sqrt(d ln(1/δ))/ε + (128 G + 64 L) α sqrt(η d T ln(1/δ)) log2 T/ε
        + 16 η L α log2 T sqrt(3 d T N ln(1/δ))/ε; printed, for T >= 1, is 128 (G + 2 L) in the second term.  For new
        orders in every epoch it bounds the noise alone, not the defect of Lemma 17.
        """
        n, d = self.examples, self.dimension
        steps = checks.integer("steps", steps, 1 if published else n, largest=_MOST_EXAMPLES**3)
        alpha = checks.real("alpha", alpha, f"[{1 / n!r}, 1]")
        length = checks.real("learning_rate", learning_rate, f"(0, {1 / n!r}]")
        epsilon, log = self._promise()
        g, smooth = self.lipschitz, self.smoothness
        unit = alpha * math.log2(steps) * math.sqrt(log) / epsilon
        middle = 128 * (g + 2 * smooth) if checks.boolean("published", published) else 128 * g + 64 * smooth
        last = 16 * length * smooth * math.sqrt(3 * d * steps * n)
        return unit * (192 * g * math.sqrt(d) + middle * math.sqrt(length * d * steps) + last)

    def theorem_6_steps(self) -> float:
        """T of Theorem 6, the real solution of T log2 T = ε N²/sqrt(d ln(1/δ))."""
        epsilon, log = self._promise()
        right = epsilon * self.examples**2 / math.sqrt(self.dimension * log)
        steps = max(right, 2.0)
        for _ in range(60):  # Newton for T log T = c, convex: from above, downwards
            steps = (right * math.log(2) + steps) / (math.log(steps) + 1)
        return steps

    def theorem_6(self, *, published: bool = False) -> float:
        """Theorem 6: E ‖∇F(ŵ)‖ of Algorithm 1 with its published parameters, α = 1/N and η = 1/sqrt(N T), δ <= e^{−ε}.

        (R + 6 L + 32 G sqrt(log2(T + 1)/log2 T)) sqrt(N/T) + L/(2 sqrt(N T)) + 2 G/sqrt(N) + 2 G N/T, with the
        constants of the corrected lemmas.  ``published`` returns the bound as printed, which is false: on a ramp in one
        dimension with N = 10⁵, ε = 1 and δ = 1e-5 it is 0.651, and the truth is 1.
        """
        n, d, g = self.examples, self.dimension, self.lipschitz
        smooth, r = self.smoothness, self.initial_error
        t = self.theorem_6_steps()
        epsilon, log = self._promise()
        if checks.boolean("published", published):
            rate = d**0.25 / math.sqrt(epsilon * n)
            logs = math.sqrt(math.log2(t) * log)
            first = (1.5 * r + 6 * smooth * logs + 12 * g * math.sqrt(math.log2(t)) * log**0.25) * rate
            last = 6 * g * math.log2(t) * math.sqrt(d * log) / (epsilon * n)
            return first + 6 * g / math.sqrt(n) + 3 * smooth / (4 * math.sqrt(n * t)) + last
        if log < epsilon:
            raise ValueError(f"delta must lie in (0, exp(-epsilon)], got {self.budget.delta!r}")
        noise = 32 * g * math.sqrt(math.log2(t + 1) / math.log2(t))
        main = (r + 6 * smooth + noise) * math.sqrt(n / t)
        return main + smooth / (2 * math.sqrt(n * t)) + 2 * g / math.sqrt(n) + 2 * g * n / t

    def theorem_9_steps(self) -> float:
        """T = N^{7/3} ε^{4/3}/d^{2/3} of Theorem 9, a real number."""
        epsilon, _ = self._promise()
        return self.examples ** (7 / 3) * epsilon ** (4 / 3) / self.dimension ** (2 / 3)

    def theorem_9(self, *, published: bool = False) -> float:
        """Theorem 9: E ‖∇F(ŵ)‖ of Algorithm 2 with its published parameters, α = 1/N, γ = η N = sqrt(N/T).

        The printed bound plus 3 G N/T for the initial momentum and 3 Ξ/sqrt(N) for new orders in every epoch.
        """
        n, g, smooth = self.examples, self.lipschitz, self.smoothness
        epsilon, log = self._promise()
        t = self.theorem_9_steps()
        k = 16 * math.log2(t) * log
        scale = math.sqrt(self.dimension) / (epsilon * n)
        bound = (1.5 * self.initial_error + 24 * k * (g + 2 * smooth) + 12 * smooth) * scale ** (2 / 3)
        bound += 6 * g / math.sqrt(n) + (36 * g + 9 * smooth) * k * scale
        if checks.boolean("published", published):
            return bound
        gamma = math.sqrt(n / t)
        if gamma > 1:
            raise ValueError(f"examples must be so large that T >= examples, got {n} with T = {t!r}")
        length = 1 / math.sqrt(n * t)
        defect = defect_bound(
            examples=n, alpha=1 / n, gamma=gamma, lipschitz=g, smoothness=smooth, learning_rate=length
        )
        return bound + 3 * g * n / t + 3 * defect / math.sqrt(n)

    def _promise(self) -> tuple[float, float]:
        """ε and ln(1/δ)."""
        epsilon, delta = published_budget(self.budget)
        return epsilon, -math.log(delta)
