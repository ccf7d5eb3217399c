"""The noise of Algorithms 1 and 2 for a privacy budget.

**Algorithm 1** releases, at every step t, a momentum that is read from nodes with weights α (1 − α)^{z−t}.  Two
neighbouring data sets change a gradient by at most c G, with c = 2 for replace-one and c = 1 for zero-out adjacency.
With U from ``sensitivity`` the standard deviation in each node is

    s = c G α sqrt(U)/sqrt(2ρ).

**Algorithm 2** reads three trees: of gradients at the points where epochs start (first two epochs), of the combined
leaves H = (1 − γ) D + γ G of later epochs, and of the remainders r.  Their leaves change by at most c G,
c ((1 − γ) L η N + γ G) and c L η (N − 1), because a step has length η and every loss is L-smooth.  The budget is
divided so that the mean variance of the noise in the momentum is smallest.

The published calibration of Algorithm 1 is here for comparison, ``published_node_std``.  It is refused where it is not
sound: where N does not divide T, α < 1/N, or δ > e^{−ε} (the paper has this condition the other way round).

References
----------
H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Algorithms 1 and 2, Theorems 4
and 8.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.mechanisms.tree_orders import power, powers
from corrnoise.theory.momentum_aggregation.reconstruction import window_weights
from corrnoise.theory.momentum_aggregation.sensitivity import (
    PREFIX_NODES,
    Nodes,
    Order,
    printed_node_count,
    squared_weights,
)
from corrnoise.theory.momentum_aggregation.trees import decoder_variance, levels
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import safe_multiplier


def node_std(
    *, steps: int, examples: int, alpha: float, lipschitz: float, rho: float, order: Order, adjacency: str
) -> float:
    """Standard deviation of the noise in each node of Algorithm 1, rounded up.

    Only nodes of prefixes are released, since the momentum reads no others.

    Parameters
    ----------
    steps, examples
        T >= 1 steps, and N >= 1 steps an epoch.
    alpha
        Momentum parameter, 0 < α <= 1.
    lipschitz
        G > 0: gradients are at most this long, or clipped to it.
    rho
        Budget of the whole run (zCDP), in [1e-100, 1e100].
    order
        ``"fixed"`` if every epoch has the same order, ``"reshuffled"`` for any orders.
    adjacency
        ``"zero-out"`` or ``"replace-one"``.

    Examples
    --------
    >>> std = node_std(
    ...     steps=256, examples=64, alpha=1 / 64, lipschitz=1.0, rho=0.5, order="fixed", adjacency="replace-one"
    ... )
    >>> round(std, 6)  # 2 sqrt(19.584459)/64
    0.138295
    """
    alpha = checks.real("alpha", alpha, "(0, 1]")
    bound = checks.real("lipschitz", lipschitz, "(0, inf)")
    weights = squared_weights(steps, examples, alpha, order=order, nodes=PREFIX_NODES)
    return safe_multiplier(math.sqrt(weights) * (1 + 1e-15) * alpha * bound, rho, adjacency) * (1 + 1e-15)


def published_node_std(
    *,
    steps: int,
    examples: int,
    alpha: float,
    lipschitz: float,
    epsilon: float,
    delta: float,
    height: int | None = None,
) -> float:
    """The same as published: s² = 16 α² G² σ² V with σ = 2 sqrt(ln(1/δ))/ε, for replace-one adjacency.

    Parameters
    ----------
    steps, examples, alpha, lipschitz
        As for ``node_std``; the run is refused where the calculation is not sound.
    epsilon, delta
        The guarantee, ε > 0 and 0 < δ <= e^{−ε}.
    height
        R of Algorithm 1, at least floor(log2 T) + 1, which is the default.

    Raises
    ------
    ValueError
        N does not divide T, α < 1/N, δ > e^{−ε}, or R is too small.
    """
    steps = checks.integer("steps", steps, 1)
    examples = checks.integer("examples", examples, 1)
    if steps % examples:
        raise ValueError(f"steps must be a multiple of examples={examples} for the published noise, got {steps}")
    alpha = checks.real("alpha", alpha, "(0, 1]")
    if alpha < 1 / examples:
        raise ValueError(
            f"alpha must lie in [1/examples, 1] = [{1 / examples!r}, 1] for the published noise, got {alpha!r}"
        )
    bound = checks.real("lipschitz", lipschitz, "(0, inf)")
    epsilon = checks.real("epsilon", epsilon, "(0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    if math.log(delta) > -epsilon:
        raise ValueError(f"delta must lie in (0, exp(-epsilon)] for the published noise, got {delta!r}")
    least = levels(steps)
    height = least if height is None else checks.integer("height", height, 0)
    if height < least:
        raise ValueError(f"height must be at least floor(log2(steps)) + 1 = {least}, got {height}")
    sigma = 2 * math.sqrt(-math.log(delta)) / epsilon
    return 4 * alpha * bound * sigma * math.sqrt(printed_node_count(steps, examples, height))


# -- Algorithm 2 -------------------------------------------------------------------------------------------------------


@record
class ReducedNoise(Record):
    """Standard deviations of the noise in the nodes of the three trees of Algorithm 2.

    A tree that is never read has an infinite standard deviation: its nodes must not be released.

    Parameters
    ----------
    gradients
        Of the gradients at the starts of epochs, in the first two epochs.
    combined
        Of (1 − γ) D + γ G, in later epochs.
    remainders
        Of the remainders r.
    """

    gradients: float
    combined: float
    remainders: float


def reduced_noise(
    *,
    steps: int,
    examples: int,
    alpha: float,
    gamma: float,
    learning_rate: float,
    lipschitz: float,
    smoothness: float,
    rho: float,
    order: Order,
    adjacency: str,
) -> ReducedNoise:
    """The noise of Algorithm 2 for a budget, divided between the trees for the smallest mean variance; rounded up.

    Parameters
    ----------
    steps, examples
        T >= 1 steps, and N >= 2 steps an epoch.
    alpha, gamma
        0 < α <= 1 and 0 <= γ < 1.
    learning_rate
        η > 0: every step has this length.
    lipschitz, smoothness
        G > 0 and L > 0 of every loss.  (The paper leaves L out, which is not private for L above about 2.)
    rho, order, adjacency
        As for ``node_std``.
    """
    steps = checks.integer("steps", steps, 1)
    examples = checks.integer("examples", examples, 2)
    alpha = checks.real("alpha", alpha, "(0, 1]")
    gamma = checks.real("gamma", gamma, "[0, 1)")
    length = checks.real("learning_rate", learning_rate, "(0, inf)")
    bound = checks.real("lipschitz", lipschitz, "(0, inf)")
    drift = checks.real("smoothness", smoothness, "(0, inf)") * length
    unit = safe_multiplier(1.0, rho, adjacency)
    largest = 1 << (examples.bit_length() - 1)
    changes = (bound, (1 - gamma) * drift * examples + gamma * bound, drift * (examples - 1))
    trees = (Nodes(largest, last=2 * examples), Nodes(largest, first=examples + 1), PREFIX_NODES)
    norms = [
        change * math.sqrt(squared_weights(steps, examples, alpha, order=order, nodes=tree))
        for change, tree in zip(changes, trees, strict=True)
    ]
    variances = mean_variances(steps, examples, alpha, gamma)
    shares = np.array([norm * math.sqrt(variance) for norm, variance in zip(norms, variances, strict=True)])
    shares /= shares.sum()
    stds = [
        unit * norm / math.sqrt(share) * (1 + 1e-14) if share else math.inf
        for norm, share in zip(norms, shares, strict=True)
    ]
    return ReducedNoise(*stds)


def mean_variances(steps: int, examples: int, alpha: float, gamma: float) -> tuple[float, float, float]:
    """Mean over all steps of the variance in M_t that unit noise in the nodes of each tree of Algorithm 2 causes.

    Parameters
    ----------
    steps, examples, alpha, gamma
        As for ``reduced_noise``.

    Returns
    -------
    Of the trees of gradients, combined leaves and remainders.  The momentum is α times M_t plus the remainders.
    """
    epochs = steps // examples
    weights = window_weights(epochs, epoch_decay=power(alpha, examples), gamma=gamma)
    prefixes = decoder_variance(steps, alpha)
    t = np.arange(1, steps + 1)
    epoch, rest = np.divmod(t, examples)
    start = np.where(rest > 0, prefixes[np.maximum(rest, 1) - 1], 0.0)
    gradients = powers(alpha, 2.0 * epoch * examples) * start
    windows = window_variances(steps, examples, alpha)
    inside = epoch >= 1
    gradients[inside] += weights[epoch[inside]] ** 2 * windows[(rest + examples)[inside] - examples]
    combined = np.zeros(steps)
    for i in range(1, epochs):
        late = t[t >= (i + 1) * examples]
        combined[late - 1] += weights[i] ** 2 * windows[late - i * examples]
    return float(gradients.mean()), float(combined.mean()), float(prefixes.mean())


def window_variances(steps: int, examples: int, alpha: float) -> Array:
    """Σ (1 − α)^{2(t − z)} over the nodes of the window [t − N + 1, t], for t = N, …, T."""
    last: NDArray[np.int64] = np.arange(examples, steps + 1)
    first = last - examples + 1
    variances = np.zeros(last.shape)
    while (left := first <= last).any():
        aligned = np.where(first > 1, (first - 1) & -(first - 1), np.int64(1) << 62)
        room = np.int64(1) << (np.frexp(np.maximum(last - first + 1, 1).astype(float))[1] - 1)
        size = np.minimum(aligned, room)
        end = first + size - 1
        variances += np.where(left, powers(alpha, 2 * np.maximum(last - end, 0)), 0.0)
        first = np.where(left, first + size, first)
    return variances
