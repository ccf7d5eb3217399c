"""The noise of Algorithms 1 and 2 for a privacy budget.

**Algorithm 1** releases, at every step t, a momentum that is read from nodes with weights α (1 − α)^{z−t}.  Two
neighbouring data sets change a gradient by at most c G, with c = 2 for replace-one and c = 1 for zero-out adjacency.
With the sensitivity sqrt(U) of ``BinaryTree(T, decoder="binary", decay=α)`` the standard deviation in each node is

    s = c G α sqrt(U)/sqrt(2ρ).

**Algorithm 2** reads three trees: of gradients at the points where epochs start (first two epochs), of the combined
leaves H = (1 − γ) D + γ G of later epochs, and of the remainders r.  Their leaves change by at most c G,
c ((1 − γ) L η N + γ G) and c L η (N − 1), because a step has length η and every loss is L-smooth.  The budget is
divided so that the mean variance of the noise in the momentum is smallest.

The published calibration of Algorithm 1, ``published_node_std``, is here for comparison.

Source: H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Algorithms 1 and 2,
Theorems 4 and 8.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.mechanisms.tree_orders import power, powers
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.momentum_aggregation.reconstruction import window_weights
from corrnoise.theory.papers.momentum_aggregation.sensitivity import ReleasedNodes, printed_node_count, squared_weights
from corrnoise.theory.papers.momentum_aggregation.trees import decoder_variance, levels
from corrnoise.theory.participation import FixedEpochs, Participation, Reshuffled
from corrnoise.theory.privacy import ADJACENCIES, Budget


@usual_float_errors
def node_std(budget: Budget, participation: Participation, *, alpha: float) -> float:
    """Standard deviation of the noise in each node of Algorithm 1, rounded up.

    Only nodes of prefixes are released, since the momentum reads no others.

    Parameters
    ----------
    budget : Budget
        The privacy budget of the run.
    participation : Participation
        The data order, with a number of steps.
    alpha : float
        The momentum, in (0, 1].

    Returns
    -------
    float
    """
    rate = checks.real("alpha", alpha, "(0, 1]")
    steps = checks.instance("participation", participation, Participation).length
    tree = BinaryTree(steps, decoder="binary", decay=rate)
    scale = checks.instance("budget", budget, Budget).scale(tree.sensitivity_upper_bound(participation))
    return rate * scale * (1 + 1e-15)


@usual_float_errors
def published_node_std(
    budget: Budget, participation: Participation, *, alpha: float, height: int | None = None
) -> float:
    """Standard deviation of ``node_std`` as published: s² = 16 α² G² σ² V with σ = 2 sqrt(ln(1/δ))/ε.

    For zero-out adjacency half the noise, since a gradient changes by G, not 2 G.

    Parameters
    ----------
    budget : Budget
        The privacy budget of the run.
    participation : Participation
        The data order, with a number of steps.
    alpha : float
        The momentum, in (0, 1].
    height : int, optional
        R of Algorithm 1, at least floor(log2 T) + 1, which is the default.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the calculation is not sound: N does not divide T, α < 1/N, δ > e^{−ε}, R is too small, or the budget is not
        given by ε and δ.
    """
    steps, examples = whole_epochs(participation)
    alpha = checks.real("alpha", alpha, "(0, 1]")
    if alpha < 1 / examples:
        raise ValueError(f"alpha must lie in [1/N, 1] = [{1 / examples!r}, 1] for the published noise, got {alpha!r}")
    epsilon, delta = published_budget(budget)
    if math.log(delta) > -epsilon:
        raise ValueError(f"delta must lie in (0, exp(-epsilon)] for the published noise, got {delta!r}")
    least = levels(steps)
    height = least if height is None else checks.integer("height", height, 0)
    if height < least:
        raise ValueError(f"height must be at least floor(log2(T)) + 1 = {least}, got {height}")
    sigma = 2 * math.sqrt(-math.log(delta)) / epsilon
    change = 2 * ADJACENCIES[budget.adjacency] * budget.clip_norm
    return change * alpha * sigma * math.sqrt(printed_node_count(steps, examples, height))


def published_budget(budget: Budget) -> tuple[float, float]:
    """ε > 0 and 0 < δ < 1 of a budget that is given by them, as the published noise needs it.

    Raises
    ------
    ValueError
        If the budget is given by ρ, or ε is 0.
    """
    if checks.instance("budget", budget, Budget).epsilon is None or budget.delta is None:
        raise ValueError(f"budget must be given by epsilon and delta for the published noise, got {budget!r}")
    return checks.real("epsilon", budget.epsilon, "(0, inf)"), budget.delta


def whole_epochs(participation: Participation) -> tuple[int, int]:
    """T and N of a run of whole epochs, in one order or in any orders, as the published noise needs it.

    Raises
    ------
    ValueError
        If N does not divide T, or examples are not used once an epoch.
    """
    who = checks.instance("participation", participation, Participation).worst
    if not isinstance(who, FixedEpochs | Reshuffled) or who.length % who.period:
        raise ValueError(f"participation must be in whole epochs for the published noise, got {who!r}")
    return who.length, who.period


# -- Algorithm 2 -------------------------------------------------------------------------------------------------------


@record
class ReducedNoise(Record):
    """Standard deviations of the noise in the nodes of the three trees of Algorithm 2.

    A tree that is never read has an infinite standard deviation: its nodes must not be released.
    """

    gradients: float  #: of the gradients at the starts of epochs, in the first two epochs
    combined: float  #: of (1 − γ) D + γ G, in later epochs
    remainders: float  #: of the remainders r


def reduced_noise(
    budget: Budget,
    participation: Participation,
    *,
    alpha: float,
    gamma: float,
    learning_rate: float,
    smoothness: float,
) -> ReducedNoise:
    """The noise of Algorithm 2 for a budget, divided between the trees for the smallest mean variance; rounded up.

    Every step has the length ``learning_rate``, and every loss the ``smoothness`` L.  (The paper leaves L out, which is
    not private for L above about 2.)  0 <= γ < 1, N >= 2.
    """
    who = checks.instance("participation", participation, Participation).worst
    if not isinstance(who, FixedEpochs | Reshuffled):
        raise ValueError(f"participation must be in epochs, got {who!r}")
    steps = who.length
    examples = checks.integer("period", who.period, 2)
    alpha = checks.real("alpha", alpha, "(0, 1]")
    gamma = checks.real("gamma", gamma, "[0, 1)")
    length = checks.real("learning_rate", learning_rate, "(0, inf)")
    drift = checks.real("smoothness", smoothness, "(0, inf)") * length
    unit = checks.instance("budget", budget, Budget).multiplier(1.0)
    bound = budget.clip_norm
    largest = 1 << (examples.bit_length() - 1)
    prefixes = BinaryTree(steps, decoder="binary", decay=alpha)
    norms = [
        bound * math.sqrt(squared_weights(who, alpha, ReleasedNodes(largest, last=2 * examples))),
        ((1 - gamma) * drift * examples + gamma * bound)
        * math.sqrt(squared_weights(who, alpha, ReleasedNodes(largest, first=examples + 1))),
        drift * (examples - 1) * prefixes.sensitivity_upper_bound(who),
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

    The three are for the trees of gradients, combined leaves and remainders.  The momentum is α times M_t plus the
    remainders.  T >= 1 steps, and N >= 2 steps an epoch.
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
