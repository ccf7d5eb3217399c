"""How far one noise vector can move a run: the coupling behind the corrected Theorem 5.2.

The repaired proof compares the run with the same run where the noise y of one participation is zero
(docs/noise-cancellation.md).  Until the next participation of the machine the two are after n steps at most (η/m) ‖y‖
u_n apart, with

    u_0 = 0,   u_{n+1} = u_n + 1 + 2ηL Σ_{k<=n} (A_k + A_{k−1}),   A_k = u_0 + … + u_k,   A_{−1} = 0.

Without smoothness u_n = n.  The machine is absent for a geometric number of rounds of rate p = m/M, so noise of
variance v_k in participation k contributes at most

    (η d/(m p)) Σ_{s<=T} p E[v_k | the k-th participation is in round s] Σ_{n<=T−s+1} u_n (1−p)^{n−1}.

For v_k = c k this is Φ η c d T(T+1)/(2mp), for v_k = v it is Φ' η v d T/(m p²), and Φ, Φ' <= 1 where L = 0.  With
another step of the proof, which needs η <= 1/(8LT), 1/p takes the place of Φ.

Source: Reshef and Levy, ICML 2025: Theorem 5.2, term (C) of Appendix E.2.
"""

from __future__ import annotations

import numpy as np

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array


def displacements(steps: int, step_smoothness: float) -> Array:
    """u_0, …, u_n for n = ``steps`` and ηL = ``step_smoothness`` >= 0, shape (n + 1,); ``inf`` where it overflows."""
    steps = checks.integer("steps", steps, 1)
    rate = 2 * checks.real("step_smoothness", step_smoothness, "[0, 1e100]")
    u = np.zeros(steps + 1)
    total = 0.0  # A_n
    before = 0.0  # A_{n−1}
    fed_back = 0.0  # Σ_{k<=n} (A_k + A_{k−1})
    with np.errstate(over="ignore"):
        for n in range(steps):
            u[n + 1] = u[n] + 1 + (rate * fed_back if rate else 0.0)
            before = total
            total += u[n + 1]
            fed_back += total + before
    return u


def held_displacements(rounds: int, probability: float, step_smoothness: float) -> Array:
    """Σ_{n<=r} u_n (1−p)^{n−1} for r = 1, …, T, shape (T,): expected displacement over the rest of a holding time.

    Relative error about 1e-13; ``inf`` where it overflows.
    """
    p = checks.real("probability", probability, "(0, 1]")
    u = displacements(rounds, step_smoothness)[1:]
    absent = (1 - p) ** np.arange(u.size)
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.where(absent > 0, u * absent, np.where(np.isinf(u), np.inf, 0.0))
        return np.cumsum(terms)


def growing_noise_factor(rounds: int, probability: float, step_smoothness: float) -> float:
    """Φ(T, p, ηL): how much larger the term of noise with v_k = c k is than η c d T(T+1)/(2mp).

    Its third argument is ηL, at most 1/(8T) for the published learning rates.
    """
    held = held_displacements(rounds, probability, step_smoothness)
    expected = 1 + probability * np.arange(rounds)  # E[k | a participation in round s] = 1 + p(s − 1)
    return float(2 / (rounds * (rounds + 1.0)) * (probability * expected * held[::-1]).sum())


def constant_noise_factor(rounds: int, probability: float, step_smoothness: float) -> float:
    """Φ'(T, p, ηL): how much larger the term of noise with v_k = v is than η v d T/(m p²)."""
    held = held_displacements(rounds, probability, step_smoothness)
    return float(probability**2 * held.mean())
