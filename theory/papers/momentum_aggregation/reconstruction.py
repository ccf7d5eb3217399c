"""The identity behind Algorithm 2: a momentum from sums over windows of one epoch.

Epochs have N steps.  Step t belongs to epoch q_t = floor((t − 1)/N) and uses the example x_t.  With the point u_q at
the start of epoch q the leaves of Algorithm 2 are

    G_t = ∇f(u_q, x_t),    D_t = ∇f(u_q, x_t) − ∇f(u_{q−1}, x_t),    r_t = ∇f(w_t, x_t) − ∇f(u_q, x_t),

and X_[y, z] = Σ_{t=y}^z (1 − α)^{z−t} X_t.  With T = q N + r, a = (1 − α)^N and

    K_i = Σ_{j<i} (1 − γ)^j a^{i−1−j},

Lemma 17 says that G_[1, T] equals

    (1 − α)^{qN} G_[1, r] + K_q G_[r+1, r+N] + Σ_{i=1}^{q−1} K_i ((1 − γ) D_{W_i} + γ G_{W_i}),

with the windows W_i = [T − iN + 1, T − (i − 1)N].

This is true if all epochs have the same order.  With a new order in each epoch ``lemma_17_defect`` must be
added to the right side.  One tree of the combined leaves (1 − γ) D + γ G is enough, and the right side obeys a
recursion over epochs (``momentum_sums``), which needs O(log N) nodes a step.

Source: H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Lemma 17, Algorithms 2 and
4.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.theory.mechanisms.tree_orders import power, powers
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array


def window_weights(count: int, *, epoch_decay: float, gamma: float) -> Array:
    """K_0, …, K_count of Lemma 17 for a = ``epoch_decay`` in [0, 1), shape (count + 1,).

    K_i <= 1/(1 − a), and Σ K_i² <= 1/(γ (2 − γ) (1 − a)²) for γ > 0.
    """
    count = checks.integer("count", count, 0)
    decay = checks.real("epoch_decay", epoch_decay, "[0, 1)")
    keep = 1 - checks.real("gamma", gamma, "[0, 1]")
    weights = np.zeros(count + 1)
    power = 1.0
    for i in range(1, count + 1):
        weights[i] = decay * weights[i - 1] + power
        power *= keep
    return weights


def weighted_sum(leaves: Array, first: int, last: int, alpha: float) -> Array:
    """X_[first, last] = Σ (1 − α)^{last − t} X_t, steps counted from 1, of leaves of shape (steps, …)."""
    leaves = np.asarray(leaves, dtype=float)
    alpha = checks.real("alpha", alpha, "(0, 1]")
    weights = powers(alpha, np.arange(max(last - first, -1), -1, -1))
    return np.asarray(np.tensordot(weights, leaves[first - 1 : max(last, first - 1)], axes=1))


def lemma_17(private: Array, differences: Array, steps: int, *, examples: int, alpha: float, gamma: float) -> Array:
    """The right side of Lemma 17, as Algorithm 4 computes it, in the shape of one leaf.

    The leaves ``private`` are G_1, …, G_T and the ``differences`` D_1, …, D_T, shape (T, …); those of the first epoch
    are not read.
    """
    steps = checks.integer("steps", steps, 1)
    examples = checks.integer("examples", examples, 1)
    gamma = checks.real("gamma", gamma, "[0, 1]")
    epochs, rest = divmod(steps, examples)
    decay = power(alpha, examples)
    total = power(alpha, epochs * examples) * weighted_sum(private, 1, rest, alpha)
    if epochs == 0:
        return total
    base = weighted_sum(private, rest + 1, rest + examples, alpha)
    weights = window_weights(epochs, epoch_decay=decay, gamma=gamma)
    total = total + weights[epochs] * base
    combined = (1 - gamma) * np.asarray(differences, dtype=float) + gamma * np.asarray(private, dtype=float)
    for i in range(1, epochs):
        last = steps - (i - 1) * examples
        total = total + weights[i] * weighted_sum(combined, last - examples + 1, last, alpha)
    return np.asarray(total)


def lemma_17_defect(changes: Array, steps: int, *, examples: int, alpha: float, gamma: float) -> Array:
    """The term that the right side of Lemma 17 lacks for new orders in every epoch: Σ_{i=1}^{q−1} (1 − γ) K_i δ_{W_i}.

    The ``changes`` are the leaves δ_t = ∇f(u_{q_t − 1}, x_t) − ∇f(u_{q_t − 1}, x_{t−N}), shape (T, …).  Those of the
    first epoch are not read, and all are 0 if the order is the same in every epoch.
    """
    steps = checks.integer("steps", steps, 1)
    examples = checks.integer("examples", examples, 1)
    gamma = checks.real("gamma", gamma, "[0, 1]")
    epochs = steps // examples
    decay = power(alpha, examples)
    weights = window_weights(max(epochs, 1), epoch_decay=decay, gamma=gamma)
    total = np.zeros(np.asarray(changes).shape[1:])
    for i in range(1, epochs):
        last = steps - (i - 1) * examples
        total = total + (1 - gamma) * weights[i] * weighted_sum(changes, last - examples + 1, last, alpha)
    return np.asarray(total)


def momentum_sums(
    windows: Array, combined: Array, prefixes: Array, *, examples: int, alpha: float, gamma: float
) -> Array:
    """The sums M_t = G_[1, t] of Lemma 17 for all t, by a recursion over epochs.

        t < N:         M_t = G_[1, t]
        N <= t < 2N:   H_t = G_[t−N+1, t]
        t >= 2N:       H_t = (1 − γ) H_{t−N} + combined window [t−N+1, t]
        t >= N:        M_t = a M_{t−N} + H_t,    M_0 = 0.

    The ``windows`` are G_[t−N+1, t] for t = N, …, min(T, 2N − 1), ``combined`` those of the leaves (1 − γ) D + γ G for
    t = 2N, …, T, and ``prefixes`` G_[1, t] for t = 1, …, min(T, N − 1), one row each.  With noisy windows M_1, …, M_T
    are the noisy sums of Algorithm 2.
    """
    examples = checks.integer("examples", examples, 1)
    decay = power(checks.real("alpha", alpha, "(0, 1]"), examples)
    keep = 1 - checks.real("gamma", gamma, "[0, 1]")
    steps = len(prefixes) + len(windows) + len(combined)
    shape = np.shape(prefixes if len(prefixes) else windows)[1:]
    sums = np.zeros((steps + 1, *shape))
    held = np.zeros((steps + 1, *shape))
    for t in range(1, steps + 1):
        if t < examples:
            sums[t] = prefixes[t - 1]
            continue
        if t < 2 * examples:
            held[t] = windows[t - examples]
        else:
            held[t] = keep * held[t - examples] + combined[t - 2 * examples]
        sums[t] = decay * sums[t - examples] + held[t]
    return sums[1:]


def defect_bound(
    *, examples: int, alpha: float, gamma: float, lipschitz: float, smoothness: float, learning_rate: float
) -> float:
    """Ξ: the root mean square of α times the defect is at most sqrt(α) Ξ for a new random order in every epoch.

    Ξ² = N/(N−1) · 2/(2−α) · { (L η N)²/(γ (2−γ) (1−a)²) + G² [2/(1−a²) + (1 + 2γ/(2−γ))/(1−a)²] }
    """
    n = checks.integer("examples", examples, 2, largest=10**30)
    alpha = checks.real("alpha", alpha, "(0, 1]")
    gamma = checks.real("gamma", gamma, "(0, 1]")
    g = checks.real("lipschitz", lipschitz, "[0, inf)")
    drift = (
        checks.real("smoothness", smoothness, "[0, inf)") * checks.real("learning_rate", learning_rate, "[0, inf)") * n
    )
    forgotten = 1.0 if alpha == 1.0 else -math.expm1(n * math.log1p(-alpha))  # 1 − a
    smooth = drift**2 / (gamma * (2 - gamma) * forgotten**2)
    rough = g**2 * (2 / (forgotten * (2 - forgotten)) + (1 + 2 * gamma / (2 - gamma)) / forgotten**2)
    return math.sqrt(n / (n - 1) * 2 / (2 - alpha) * (smooth + rough))
