"""How much one example changes the nodes of a tree, over all epochs and all nodes together.

Step t uses one example.  Every epoch of N steps uses each of the N examples once: in the same order in every epoch, or
in a new order in each.  If the leaf of a step changes by at most 1, a node that ends at z changes by at most its
*weight*, the sum of (1 − α)^{z − t} over the steps t of the example in it.  The noise that covers all
released nodes follows from

    U = max over the occurrences of one example of Σ_nodes weight².

With independent noise of variance s² in every node and leaf sensitivity D the release of all nodes has ρ = D² U/(2 s²),
for adaptive gradients (Theorem 10 of the paper, with weights of each node).  For a fixed order U is a maximum over the
positions of the example, for reshuffled orders a dynamic program over epochs (``theory.mechanisms.tree_orders``).  Both
are exact.

Here are the nodes of Algorithm 2, which reads windows, and all nodes of a tree, the basis of the published noise.
Algorithm 1 reads the nodes of prefixes alone: these are ``BinaryTree(T, decoder="binary", decay=α)``, whose squared
sensitivity is their U.

Source: H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Theorems 4 and 10.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.mechanisms.tree_orders import largest_squared_weights, powers
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.momentum_aggregation.trees import levels
from corrnoise.theory.participation import MinSep, Participation, Reshuffled, Single

_RELATIVE_ROUNDING = 1e-11  #: relative error of a sum of weights, with room to spare


@record
class ReleasedNodes(Record):
    """Which nodes are released."""

    largest: int | None = None  #: largest size of a node; None for no limit
    first: int = 1  #: nodes start at this step or later
    last: int | None = None  #: nodes end at this step or earlier; None for the end of the run

    def __post_init__(self) -> None:
        if self.largest is not None:
            checks.integer("largest", self.largest, 1)
        self._check(first=1)
        if self.last is not None:
            checks.integer("last", self.last, 0)

    def of_level(self, level: int, steps: int) -> range:
        """The numbers s of the nodes [s 2^level + 1, (s + 1) 2^level] that are released in ``steps`` steps."""
        size = 1 << level
        if self.largest is not None and size > self.largest:
            return range(0)
        start = -(-(self.first - 1) // size)
        stop = min(steps, steps if self.last is None else self.last) // size
        return range(start, max(start, stop))


ALL_NODES = ReleasedNodes()


def squared_weights(participation: Participation, alpha: float, nodes: ReleasedNodes = ALL_NODES) -> float:
    """U: the largest sum of squared weights that one example can have, rounded up.

    It is exact up to 1e-11 (but see ``tree_orders``); 0 if no node is released.  Time and memory O(T log T), and about
    a millisecond for each epoch of reshuffled orders.
    """
    who = checks.instance("participation", participation, Participation).worst
    if isinstance(who, MinSep) or (isinstance(who, Reshuffled) and not who.saturated):
        raise ValueError(f"participation must be single, of fixed epochs or reshuffled in every epoch, got {who!r}")
    steps = who.length
    period = steps if isinstance(who, Single) else who.period
    alpha = checks.real("alpha", alpha, "(0, 1]")
    checks.instance("nodes", nodes, ReleasedNodes)
    released = [nodes.of_level(level, steps) for level in range(levels(steps))]
    if isinstance(who, Reshuffled) and period > 1:
        found = largest_squared_weights(steps, period, alpha, released)
    else:
        totals = np.zeros(period)
        for level, numbers in enumerate(released):
            totals += _fixed_level(level, numbers, period, alpha)
        found = float(totals.max())
    return found * (1 + _RELATIVE_ROUNDING)


def _fixed_level(level: int, numbers: range, examples: int, alpha: float) -> Array:
    """Sum of squared weights over the nodes of a level, for the example at each position of an epoch."""
    totals = np.zeros(examples)
    if not numbers:
        return totals
    size = 1 << level
    ends = (np.array(numbers) + 1) * size
    if size <= examples:  # an example occurs at most once
        gaps = np.arange(size)
        positions = (ends[:, None] - gaps - 1) % examples
        squares = np.broadcast_to(powers(alpha, 2 * gaps), positions.shape)
        return np.bincount(positions.ravel(), squares.ravel(), minlength=examples).astype(float)
    positions = np.arange(examples)
    gaps = (ends[:, None] - 1 - positions) % examples  # from the last occurrence to the end of the node
    occurrences = (size - 1 - gaps) // examples + 1
    weights = powers(alpha, gaps) * _geometric_sum(occurrences, alpha, examples)
    return np.asarray((weights**2).sum(axis=0))


def _geometric_sum(terms: NDArray[np.int64], alpha: float, examples: int) -> Array:
    """1 + a + … + a^{n−1} for a = (1 − α)^N."""
    if alpha == 1.0:
        return np.ones(np.shape(terms))
    log = examples * math.log1p(-alpha)
    return np.asarray(np.expm1(terms * log) / math.expm1(log))


# -- the number of nodes -----------------------------------------------------------------------------------------------


def node_count(steps: int, examples: int) -> int:
    """The largest number of different nodes that hold occurrences of one example, for any order of the epochs.

    It is what V of Theorem 4 bounds, for T >= 1 steps and N >= 1 examples.
    """
    steps = checks.integer("steps", steps, 1)
    examples = checks.integer("examples", examples, 1)
    last = np.zeros(1, dtype=np.int64)  # the last occurrence; 0 without one
    counts = np.zeros(1, dtype=np.int64)
    for start in range(0, steps, examples):
        t = np.arange(start + 1, min(start + examples, steps) + 1)
        found = (counts + _new_nodes(t[:, None], last, steps)).max(axis=1)
        if t.size < examples:  # the run may end before the example occurs again
            t = np.append(t, last)
            found = np.append(found, counts)
        last = t
        counts = found
    return int(counts.max())


def _new_nodes(t: NDArray[np.int64], last: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """The number of nodes that hold step t but not the earlier step ``last``; 0 for ``last`` without one."""
    complete = np.zeros_like(t)
    for level in range(levels(steps)):
        complete += (((t - 1) >> level) + 1) << level <= steps
    shared = np.where(last == 0, 0, complete - np.frexp((t - 1) ^ np.maximum(last - 1, 0))[1])
    return np.asarray(complete - np.maximum(shared, 0))


def printed_node_count(steps: int, examples: int, height: int) -> float:
    """V of Theorem 4 as printed: (min(R, floor(log2 N)) + 1) T/N + Σ_{j = floor(log2 N)+1}^R floor(T/2^j), R >= 0.

    It bounds ``node_count`` if N divides T and R >= floor(log2 T); with T/N not rounded up it is otherwise too small.
    """
    steps = checks.integer("steps", steps, 1)
    examples = checks.integer("examples", examples, 1)
    height = checks.integer("height", height, 0)
    low = examples.bit_length() - 1
    high = sum(steps >> level for level in range(low + 1, height + 1))
    return (min(height, low) + 1) * steps / examples + high
