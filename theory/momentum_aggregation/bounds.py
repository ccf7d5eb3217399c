"""Gradient norms after T steps of normalised descent with momentum: published bounds and corrected ones.

Setting: F = (1/N) Σ f(·, x_i), every f(·, x) is G-Lipschitz and L-smooth, F(w_1) − inf F <= R.  A step has length η:
w_{t+1} = w_t − η m̂_t/‖m̂_t‖, and m̂_t is the momentum with noise.  What is bounded is E ‖∇F(ŵ)‖ for ŵ drawn uniformly
from w_1, …, w_T.

``published=True`` gives a statement as printed.  The others are true:

* Lemma 5 holds with (1, ½, 2) in place of (3/2, 3/4, 3), because ⟨g, m/‖m‖⟩ >= ‖g‖ − 2‖m − g‖.
* Lemma 11 lacks the initial term (1 − α)^t G, as the momentum starts at 0; and G may stand for 2G.
* Theorem 6 as printed is false.  Its proof gives R sqrt(log2 T) ln(1/δ)^{1/4} in place of R, and 48 G for 12 G.
* Theorem 9 lacks the initial term, and for new orders in every epoch the defect of Lemma 17
  (``reconstruction.defect_bound``).  It needs the smoothness L in the noise.

All logarithms are natural unless they say log2.

Source: H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Lemmas 5, 7, 11,
Theorems 6, 9.
"""

from __future__ import annotations

import math

from corrnoise.theory.momentum_aggregation.reconstruction import defect_bound
from corrnoise.theory.numerics import checks

_MOST_EXAMPLES = 10**30  #: for the theorems, whose rates cross beyond all data sets


def descent_upper_bound(
    *, decrease: float, smoothness: float, learning_rate: float, steps: int, mean_error: float, published: bool = False
) -> float:
    """Lemma 5: E ‖∇F(ŵ)‖ for momenta with a mean error (1/T) Σ E ‖m̂_t − ∇F(w_t)‖.

    E[F(w_1) − F(w_{T+1})]/(η T) + L η/2 + 2 · mean error; as published with the factors 3/2, 3/2 and 3/2 more.

    Parameters
    ----------
    decrease : E[F(w_1) − F(w_{T+1})], at most R
    smoothness, learning_rate : L >= 0 and η > 0
    steps : T >= 1
    mean_error : the mean error of the momenta, >= 0
    published : whether to return the bound as printed
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

    G sqrt(α/(2 − α)) + 2 η (N − 1) L + η L (1 − α)/α + (1 − α)^t G; printed is 2 G sqrt(α) + 2 η N L + η L/α, which
    is false for small t.

    Parameters
    ----------
    step : t >= 1
    examples : N >= 2
    alpha : 0 < α <= 1
    learning_rate, lipschitz, smoothness : η, G and L, >= 0
    published : whether to return the bound as printed
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


def reduced_noise_upper_bound(
    *,
    steps: int,
    examples: int,
    alpha: float,
    learning_rate: float,
    lipschitz: float,
    smoothness: float,
    dimension: int,
    epsilon: float,
    delta: float,
    published: bool = False,
) -> float:
    """Lemma 7: E ‖m̂_t − m_t‖ of the noise of Algorithm 2 at γ = η N, with the published noise (L restored).

    192 G α log2 T sqrt(d ln(1/δ))/ε + (128 G + 64 L) α sqrt(η d T ln(1/δ)) log2 T/ε
    + 16 η L α log2 T sqrt(3 d T N ln(1/δ))/ε; printed is 128 (G + 2 L) in the second term.  For new orders in every
    epoch it bounds the noise alone, not the defect of Lemma 17.

    Parameters
    ----------
    steps, examples : T >= N and N >= 2
        (The printed bound is given for T >= 1; at T = 1 it is 0, and the noise is not.)
    alpha : α in [1/N, 1]
    learning_rate : η > 0 with γ = η N <= 1
    lipschitz, smoothness, dimension : G, L >= 0 and d >= 1
    epsilon, delta : ε > 0 and 0 < δ < 1
    published : whether to return the bound as printed
    """
    n = checks.integer("examples", examples, 2, largest=_MOST_EXAMPLES)
    steps = checks.integer("steps", steps, 1 if published else n, largest=_MOST_EXAMPLES**3)
    alpha = checks.real("alpha", alpha, f"[{1 / n!r}, 1]")
    length = checks.real("learning_rate", learning_rate, f"(0, {1 / n!r}]")
    g = checks.real("lipschitz", lipschitz, "[0, inf)")
    smooth = checks.real("smoothness", smoothness, "[0, inf)")
    d = checks.integer("dimension", dimension, 1)
    budget = math.log2(steps) * math.sqrt(-math.log(checks.real("delta", delta, "(0, 1)")))
    unit = alpha * budget / checks.real("epsilon", epsilon, "(0, inf)")
    middle = 128 * (g + 2 * smooth) if checks.boolean("published", published) else 128 * g + 64 * smooth
    first = 192 * g * math.sqrt(d)
    last = 16 * length * smooth * math.sqrt(3 * d * steps * n)
    return unit * (first + middle * math.sqrt(length * d * steps) + last)


def theorem_6_steps(*, examples: int, dimension: int, epsilon: float, delta: float) -> float:
    """T of Theorem 6, the real solution of T log2 T = ε N²/sqrt(d ln(1/δ)), for N, d >= 1, ε > 0 and 0 < δ < 1."""
    n = checks.integer("examples", examples, 1, largest=_MOST_EXAMPLES)
    d = checks.integer("dimension", dimension, 1)
    log = -math.log(checks.real("delta", delta, "(0, 1)"))
    right = checks.real("epsilon", epsilon, "(0, inf)") * n**2 / math.sqrt(d * log)
    steps = max(right, 2.0)
    for _ in range(60):  # Newton for T log T = c, convex: from above, downwards
        steps = (right * math.log(2) + steps) / (math.log(steps) + 1)
    return steps


def theorem_6_upper_bound(
    *,
    examples: int,
    dimension: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smoothness: float,
    initial_error: float,
    published: bool = False,
) -> float:
    """Theorem 6: E ‖∇F(ŵ)‖ of Algorithm 1 with its published parameters, α = 1/N and η = 1/sqrt(N T).

    (R + 6 L + 32 G sqrt(log2(T + 1)/log2 T)) sqrt(N/T) + L/(2 sqrt(N T)) + 2 G/sqrt(N) + 2 G N/T, with the constants of
    the corrected lemmas.

    Parameters
    ----------
    examples, dimension, epsilon, delta : as for ``theorem_6_steps``, δ <= e^{−ε}; ``examples`` >= 2
    lipschitz, smoothness : G and L, >= 0
    initial_error : R >= 0
    published
        Whether to return the bound as printed, which is false: on a ramp in one dimension with N = 10⁵, ε = 1 and
        δ = 1e-5 it is 0.651, and the truth is 1.
    """
    n = checks.integer("examples", examples, 2, largest=_MOST_EXAMPLES)
    epsilon = checks.real("epsilon", epsilon, "(0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    g = checks.real("lipschitz", lipschitz, "[0, inf)")
    smooth = checks.real("smoothness", smoothness, "[0, inf)")
    r = checks.real("initial_error", initial_error, "[0, inf)")
    t = theorem_6_steps(examples=n, dimension=dimension, epsilon=epsilon, delta=delta)
    log = -math.log(delta)
    if checks.boolean("published", published):
        rate = dimension**0.25 / math.sqrt(epsilon * n)
        logs = math.sqrt(math.log2(t) * log)
        first = (1.5 * r + 6 * smooth * logs + 12 * g * math.sqrt(math.log2(t)) * log**0.25) * rate
        last = 6 * g * math.log2(t) * math.sqrt(dimension * log) / (epsilon * n)
        return first + 6 * g / math.sqrt(n) + 3 * smooth / (4 * math.sqrt(n * t)) + last
    if log < epsilon:
        raise ValueError(f"delta must lie in (0, exp(-epsilon)], got {delta!r}")
    noise = 32 * g * math.sqrt(math.log2(t + 1) / math.log2(t))
    main = (r + 6 * smooth + noise) * math.sqrt(n / t)
    return main + smooth / (2 * math.sqrt(n * t)) + 2 * g / math.sqrt(n) + 2 * g * n / t


def theorem_9_steps(*, examples: int, dimension: int, epsilon: float) -> float:
    """T = N^{7/3} ε^{4/3}/d^{2/3} of Theorem 9, a real number, for N, d >= 1 and ε > 0."""
    n = checks.integer("examples", examples, 1, largest=_MOST_EXAMPLES)
    d = checks.integer("dimension", dimension, 1)
    return n ** (7 / 3) * checks.real("epsilon", epsilon, "(0, inf)") ** (4 / 3) / d ** (2 / 3)


def theorem_9_upper_bound(
    *,
    examples: int,
    dimension: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smoothness: float,
    initial_error: float,
    published: bool = False,
) -> float:
    """Theorem 9: E ‖∇F(ŵ)‖ of Algorithm 2 with its published parameters, α = 1/N, γ = η N = sqrt(N/T).

    The printed bound plus 3 G N/T for the initial momentum and 3 Ξ/sqrt(N) for new orders in every epoch.  Arguments as
    for ``theorem_6_upper_bound``.
    """
    n = checks.integer("examples", examples, 2, largest=_MOST_EXAMPLES)
    epsilon = checks.real("epsilon", epsilon, "(0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    g = checks.real("lipschitz", lipschitz, "[0, inf)")
    smooth = checks.real("smoothness", smoothness, "[0, inf)")
    r = checks.real("initial_error", initial_error, "[0, inf)")
    t = theorem_9_steps(examples=n, dimension=dimension, epsilon=epsilon)
    k = -16 * math.log2(t) * math.log(delta)
    scale = math.sqrt(dimension) / (epsilon * n)
    bound = (1.5 * r + 24 * k * (g + 2 * smooth) + 12 * smooth) * scale ** (2 / 3)
    bound += 6 * g / math.sqrt(n) + (36 * g + 9 * smooth) * k * scale
    if checks.boolean("published", published):
        return bound
    gamma = math.sqrt(n / t)
    if gamma > 1:
        raise ValueError(f"examples must be so large that T >= examples, got {n} with T = {t!r}")
    defect = defect_bound(
        examples=n, alpha=1 / n, gamma=gamma, lipschitz=g, smoothness=smooth, learning_rate=1 / math.sqrt(n * t)
    )
    return bound + 3 * g * n / t + 3 * defect / math.sqrt(n)
