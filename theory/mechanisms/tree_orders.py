"""The worst orders: when an example has to occur in each epoch so that it changes the nodes of a tree most.

The example occurs once in each epoch, at any step.  An occurrence at step t has the weight (1 − α)^{z − t} in every
node that holds it and ends at z.  A dynamic program over epochs finds the largest sum of squared weights of all nodes.

Nodes within one epoch depend on that epoch only.  A node that crosses the end of an epoch is *open* there: its weight
so far, w, is all that the future needs to know, since an addition x to it adds 2 w x + x² to the sum.  A state
therefore holds the weights of the open nodes, at most one a level, and the sum of squares so far, S.

*Few states matter.*  Let x_k be the largest addition that open node k can still receive.  Whatever follows state B can
follow state A instead, and then gains at most Σ_k 2 (w_k(B) − w_k(A))⁺ x_k less.  So dropping B in favour of A costs at
most the *deficit* S(B) − S(A) + Σ_k 2 (w_k(B) − w_k(A))⁺ x_k, and nothing if it is negative.  Among the steps of an
epoch that lie in the same open nodes only the last one matters, and earlier ones that count more in nodes within the
epoch.  In all cases computed fewer than 20 states remain, and the result is exact.  If more than ``STATES`` do, the
largest deficit of the dropped states is added to the result, which then is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics.checks import Array, ArrayLike

STATES = 256  #: states that are kept after an epoch

OpenNode = tuple[int, int]  #: level, and number of the node in it


def largest_squared_weights(steps: int, examples: int, alpha: float, released: Sequence[range]) -> float:
    """The largest sum of squared weights over all nodes, for any order of every epoch.

    Returns the maximum, up to rounding errors; an upper bound if some epoch leaves more than ``STATES`` states.

    Parameters
    ----------
    steps, examples : int
        T >= 1 and N >= 1.
    alpha : float
        0 < α <= 1.
    released : sequence of range
        For each level b the numbers s of the nodes [s 2^b + 1, (s + 1) 2^b] that are released.
    """
    opened: list[OpenNode] = []
    weights = np.zeros((1, 0))
    totals = np.zeros(1)
    missed = 0.0  # what all states that were dropped could have added
    for start in range(0, steps, examples):
        end = min(start + examples, steps)
        following = _open_nodes(end, released) if end < steps else []
        crossing = list(dict.fromkeys([*opened, *following]))
        added, own = _occurrences(start, end, alpha, released, crossing)

        before = np.zeros((totals.size, 1, len(crossing)))
        before[:, 0, [crossing.index(node) for node in opened]] = weights
        after = before + added
        sums = totals[:, None] + own + (after**2 - before**2).sum(axis=2)
        staying = [crossing.index(node) for node in following]
        remaining = np.array([_remaining(node, end, steps, examples, alpha) for node in following])

        weights, totals, cost = _needed(after.reshape(sums.size, -1)[:, staying], sums.ravel(), remaining)
        missed += cost
        opened = following
    return float(totals.max()) + missed


def _open_nodes(step: int, released: Sequence[range]) -> list[OpenNode]:
    """The released nodes that hold this step and the next one."""
    return [
        (level, step >> level)
        for level, numbers in enumerate(released)
        if step % (1 << level) and step >> level in numbers
    ]


def _occurrences(
    start: int, end: int, alpha: float, released: Sequence[range], crossing: Sequence[OpenNode]
) -> tuple[Array, Array]:
    """The weights that each step that matters adds to ``crossing``, and the sum of its squared weights elsewhere."""
    t: NDArray[np.int64] = np.arange(start + 1, end + 1)
    added = np.zeros((t.size, len(crossing)))
    for column, (level, number) in enumerate(crossing):
        inside = (t - 1) >> level == number
        added[inside, column] = powers(alpha, ((number + 1) << level) - t[inside])
    own = np.zeros(t.size)
    for level, numbers in enumerate(released):
        numbered = (t - 1) >> level
        inside = (numbered >= numbers.start) & (numbered < numbers.stop)
        inside &= (numbered - numbers.start) % numbers.step == 0
        for open_level, open_number in crossing:
            if open_level == level:
                inside &= numbered != open_number
        own[inside] += powers(alpha, 2 * (((numbered[inside] + 1) << level) - t[inside]))
    held = added > 0
    ends = np.flatnonzero((held[1:] != held[:-1]).any(axis=1)) + 1  # of the runs of steps in the same open nodes
    matters = []
    for first, last in zip([0, *ends], [*ends, t.size], strict=True):
        later = own[first:last][::-1]
        best_after = np.maximum.accumulate(np.concatenate([[-1.0], later]))[:-1]
        matters.append(last - 1 - np.flatnonzero(later > best_after))
    chosen = np.concatenate(matters)
    return added[chosen], own[chosen]


def _remaining(node: OpenNode, step: int, steps: int, examples: int, alpha: float) -> float:
    """The largest weight that a node can still receive in the epochs after ``step``."""
    level, number = node
    last = (number + 1) << level
    return math.fsum(power(alpha, last - min(end + examples, steps, last)) for end in range(step, last, examples))


def _needed(weights: Array, totals: Array, remaining: Array) -> tuple[Array, Array, float]:
    """Prune dominated states, and bound the amount that they could add."""
    order = np.argsort(-(totals + 2 * weights @ remaining), kind="stable")
    weights = weights[order]
    totals = totals[order]
    deficits = np.full(totals.size, math.inf)
    kept: list[int] = []
    while len(kept) < STATES:
        left = np.flatnonzero(deficits > 1e-15 * totals)
        if not left.size:
            break
        best = left[0]
        kept.append(int(best))
        more = 2 * np.maximum(weights[left] - weights[best], 0.0) @ remaining
        deficits[left] = np.minimum(deficits[left], totals[left] - totals[best] + more)
    dropped = np.delete(deficits, kept)
    return weights[kept], totals[kept], float(dropped.max(initial=0.0))


def powers(alpha: float, exponents: ArrayLike) -> Array:
    """(1 − α)^k for k >= 0; relative error below 1e-13 where the result is above 1e-290."""
    exponents = np.asarray(exponents, dtype=float)
    if alpha == 1.0:
        return np.where(exponents == 0, 1.0, 0.0)
    return np.asarray(np.exp(exponents * np.log1p(-alpha)))


def power(alpha: float, exponent: int) -> float:
    """(1 − α)^k for one k >= 0."""
    return float(powers(alpha, exponent))
