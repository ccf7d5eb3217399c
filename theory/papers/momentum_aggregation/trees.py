"""Dyadic nodes: the sums that tree aggregation releases with noise, and the parts of a momentum.

Steps are counted from 1.  A *node* [s 2^b + 1, (s + 1) 2^b] holds a sum over 2^b steps.  An interval is the disjoint
union of few nodes (Algorithm 3, COMPOSE).  An interval that starts at step 1 uses *prefix nodes* only, those with even
s, one for each binary digit 1 of its length.

The momentum m_t = (1 − α) m_{t−1} + α g_t is α times a sum over [1, t] with the weights (1 − α)^{t−τ}.  A node that
ends at step z is released with the weights (1 − α)^{z−τ}, and enters m_t with the factor (1 − α)^{t−z}.

Source: H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Algorithm 3, Lemma 12,
Propositions 16 and 18.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from corrnoise.theory.mechanisms.tree_orders import powers
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array


class Node(NamedTuple):
    """The steps ``first`` to ``last``, both included."""

    first: int
    last: int


def compose(first: int, last: int) -> tuple[Node, ...]:
    """The nodes whose disjoint union is the interval [``first``, ``last``], ``first`` >= 1: Algorithm 3.

    They are in order of time, none if ``last`` < ``first``, and at most floor(log2(n + 1)) + floor(log2(n/2 + 1)) for n
    >= 2 steps.
    """
    first = checks.integer("first", first, 1)
    last = checks.integer("last", last, 0)
    nodes = []
    while first <= last:
        aligned = (first - 1) & -(first - 1) if first > 1 else 1 << last.bit_length()
        size = min(aligned, 1 << (last - first + 1).bit_length() - 1)
        nodes.append(Node(first, first + size - 1))
        first += size
    return tuple(nodes)


def levels(steps: int) -> int:
    """The number of sizes of nodes in ``steps`` steps: R of Algorithm 1 must be at least this, floor(log2 T) + 1."""
    return checks.integer("steps", steps, 1).bit_length()


def decoder_variance(steps: int, alpha: float) -> Array:
    """F(1), …, F(T), the variances of the noise in the sums behind a momentum for unit noise in nodes, shape (steps,).

    F(t) = Σ (1 − α)^{2(t − z)} over the nodes of [1, t], z their last steps.  The noise of the momentum is α times the
    noise of the sum, 0 < α <= 1.  Relative error below 1e-13.  F(t) <= 1 + Σ_{i>=1} (1 − α)^{2(2^i − 1)}, and <= log2(t
    + 1): corrected Lemma 12 and Proposition 16.
    """
    steps = checks.integer("steps", steps, 1)
    alpha = checks.real("alpha", alpha, "(0, 1]")
    t = np.arange(1, steps + 1)
    variances = np.zeros(steps)
    for level in range(levels(steps)):
        used = (t >> level) & 1 == 1
        gaps = t[used] & ((1 << level) - 1)
        variances[used] += powers(alpha, 2 * gaps)
    return variances


def largest_decoder_variance(steps: int, alpha: float) -> float:
    """An upper bound of F(1), …, F(T): 1 + Σ_{i=1}^R (1 − α)^{2(2^i − 1)}, R = floor(log2 T) (Proposition 16).

    It is attained at t = 2^{R+1} − 1.
    """
    height = levels(steps) - 1
    alpha = checks.real("alpha", alpha, "(0, 1]")
    gaps = 2.0 ** np.arange(1, height + 1) - 1
    return float(1 + powers(alpha, 2 * gaps).sum())
