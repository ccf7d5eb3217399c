"""The arithmetic of a round: the message of a client before its noise, and the move of the server; nothing is kept."""

from __future__ import annotations

import numpy as np

from corrnoise.simulations.federation.plan import Plan
from corrnoise.theory.numerics.checks import Array


def clipped(vectors: Array, norm: float) -> Array:
    """The nearest vectors of at most this norm, along the last axis; 0 for one that is not finite, or has no norm."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    factors = np.divide(norm, lengths, out=np.ones_like(lengths), where=lengths > norm)
    return np.where(np.isfinite(lengths), vectors, 0.0) * factors


def guarded(plan: Plan, corrections: Array, t: int, current: Array, previous: Array) -> Array:
    """The contributions of clients in round t, shape (…, d), from the corrections of their examples, shape (…, b, d).

    One unit moves a contribution by at most the clip norm of ``plan.noise_budget``, or twice that if it is replaced.
    """
    if plan.unit == "client":
        return clipped(corrections.mean(axis=-2), plan.budget.clip_norm)
    if plan.guard == "norm":
        return np.asarray(clipped(corrections, plan.budget.clip_norm).mean(axis=-2))
    centre = plan.family.smoothness / 2 * (t - 1) * (current - previous)
    radius = float(plan.family.correction_radius(t))
    return np.asarray((centre + clipped(corrections - centre, radius)).mean(axis=-2))


def moved(plan: Plan, t: int, current: Array, iterate: Array, estimate: Array) -> tuple[Array, Array]:
    """w_{t+1} and x_{t+1} from x_t, w_t and the estimate of t ∇f(x_t)."""
    after = clipped(iterate - plan.learning_rate * estimate, plan.radius)
    return after, current + 2 / (t + 2) * (after - current)
