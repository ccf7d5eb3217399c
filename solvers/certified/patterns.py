r"""A lower bound for every strategy under any order, for the mean and for the largest error.

A pattern π is a set of at most k steps that may use one example: any two of them are related.  Take weights
μ_π >= 0 of sum 1, and matrices F_π with rows of norm at most 1 for the steps of π and rows of 0 elsewhere.  With
R = Σ_π μ_π F_π F_πᵀ = L Lᵀ and Σ s_t² = 1 every strategy of sensitivity γ has

    γ² max_t (A X⁻¹ Aᵀ)_tt  >=  |diag(s) A L|_*²,

and s_t = rows^{−½} bounds the mean error (docs/certified-optimum.md, "Other orders").  With K = diag(s) A and
S = (K R Kᵀ)^½ the matrix X = Kᵀ S⁻¹ K is a strategy.  Each of three steps raises the bound: rows of F_π take the
directions of the rows of Y_π = √μ_π X_ππ F_π, √μ_π becomes proportional to the sum of their lengths, and s_t to
S_tt/s_t.  Then patterns of high sensitivity under X are added.

The search merges blocks of B steps of an epoch: L has the row L_c[β]/√B in each step of block β, in columns that belong
to the place of the step in its block.  Blocks are related if all pairs of steps at one place are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.solvers.certified.certificates import (
    gamma,
    nuclear_norm_below,
    product_with_uncertainty,
    sum_of_squares_above,
)
from corrnoise.solvers.certified.fixed_point import Evaluation, bracket_optimum
from corrnoise.solvers.objectives import full_rank_matrix
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.objectives.base import REGULARISATION, Objective
from corrnoise.theory.participation import Order

MERGED_STEPS = 64  #: about the most steps of a search
_TOLERANCE = 1e-2  # relative excess of a squared sensitivity under X that is accepted
_MAX_ROUNDS, _ROUND_ITERATIONS = 40, 25
_MAX_OPERATIONS = 3e8  # of all rounds but the last: k³ for each pattern and iteration
_MAX_CUBES = 2e9  # cubes of the steps of a merged run, in its last iterations
_MAX_ADDED, _ADDED_WEIGHT = 64, 0.1  # patterns in a round, and the sum of their weights
_LEAST_WEIGHT = 1e-7  # of a pattern that is kept, relative to the largest
_LEAST_LOGARITHM = -46.0
_LEAST_EIGENVALUE = 1e-14  # relative to the largest
_TINY_DENOMINATOR = 1e-300  # in place of 0
_MAX_SWEEPS = 20

Places = NDArray[np.intp]
Relation = NDArray[np.bool_]


class MergedRun(NamedTuple):
    """The block of each step, its place in the block, and which blocks are related."""

    block: Places
    place: Places
    related: Relation
    most: int

    @classmethod
    def of(cls, order: Order) -> MergedRun:
        n = order.length
        b = n if order.once else min(order.period, n)
        together = min(-(-n // MERGED_STEPS), b)
        steps = np.arange(n)
        block = steps // b * -(-b // together) + steps % b // together
        place = steps % b % together
        size = int(block[-1]) + 1
        related = ~np.eye(size, dtype=bool)
        for p in range(together):
            one = steps[place == p]
            pairs = np.broadcast_to(order.related(one[:, np.newaxis], one), (one.size, one.size))
            related[np.ix_(block[one], block[one])] &= pairs
        return cls(block, place, related, order.count)

    @property
    def together(self) -> int:
        """B."""
        return int(self.place.max()) + 1

    def alone(self) -> MergedRun:
        """The run whose steps are the blocks."""
        blocks = np.arange(len(self.related))
        return MergedRun(blocks, 0 * blocks, self.related, self.most)

    def columns(self) -> Array:
        """The blocks as columns of norm at most 1 of a matrix, shape (n, blocks)."""
        return np.equal.outer(self.block, np.arange(len(self.related))) / math.sqrt(self.together)

    def widened(self, factor: Array) -> Array:
        """L of the run from L_c, shape (n, blocks · B)."""
        rows = np.zeros((self.block.size, self.together, factor.shape[1]))
        rows[np.arange(self.block.size), self.place] = factor[self.block] / math.sqrt(self.together)
        return rows.reshape(self.block.size, -1)

    def spread(self, whole: Array) -> Array:
        """R of the run from R of the blocks."""
        same = np.equal.outer(self.place, self.place)
        return np.where(same, whole[np.ix_(self.block, self.block)], 0.0) / self.together

    def merged(self, strategy: Array) -> Array:
        """The mean of X over the places of blocks, the adjoint of ``spread``."""
        found = np.zeros(self.related.shape)
        for p in range(self.together):
            one = np.flatnonzero(self.place == p)
            found[np.ix_(self.block[one], self.block[one])] += strategy[np.ix_(one, one)] / self.together
        return found


class WeightedPatterns(NamedTuple):
    """Patterns as rows of places, filled up with the number of blocks, their weights, and the rows of F."""

    patterns: Places  # shape (m, k)
    weights: Array  # shape (m,)
    rows: Array  # shape (m, k, k)

    def matrix(self, size: int) -> Array:
        """R."""
        k = self.patterns.shape[1]
        grams = self.weights[:, np.newaxis, np.newaxis] * (self.rows @ self.rows.transpose(0, 2, 1))
        whole = np.zeros((size + 1, size + 1))
        first = np.repeat(self.patterns, k, axis=1).ravel()
        np.add.at(whole, (first, np.tile(self.patterns, k).ravel()), grams.ravel())
        return whole[:size, :size]

    def budget(self) -> float:
        """Σ_π μ_π max_i |F_π,i|², rounded up."""
        longest = np.square(self.rows).sum(axis=2).max(axis=1)
        return math.fsum(self.weights * longest) * (1 + gamma(self.rows.shape[2] + 4))


class DualPoint(NamedTuple):
    """Weighted patterns, the weights s of the errors, X in terms of the blocks, and tr S."""

    dual: WeightedPatterns
    shares: Array
    strategy: Array
    trace: float


def blocks_of(strategy: Array, patterns: Places) -> Array:
    """The matrices X_ππ, shape (m, k, k); 0 in places that are filled up."""
    padded = np.pad(strategy, (0, 1))
    return np.asarray(padded[patterns[:, :, np.newaxis], patterns[:, np.newaxis, :]])


def directions_of(vectors: Array) -> tuple[Array, Array]:
    """Vectors divided by their lengths, and the lengths."""
    lengths = np.linalg.norm(vectors, axis=-1)
    return vectors / np.maximum(lengths, _TINY_DENOMINATOR)[..., np.newaxis], lengths


def sensitivities(blocks: Array) -> tuple[Array, Array]:
    """Squared sensitivities on patterns, and the unit vectors that attain them: a coordinate ascent, from below."""
    k = blocks.shape[1]
    diagonal = np.einsum("mii->mi", blocks)
    rows = directions_of(blocks + 1e-3 * diagonal.max(initial=0.0) * np.eye(k))[0]
    for _ in range(_MAX_SWEEPS):
        for i in range(k):
            pull = np.einsum("mj,mjc->mc", blocks[:, i], rows) - diagonal[:, i, np.newaxis] * rows[:, i]
            turned, length = directions_of(pull)
            rows[:, i] = np.where(length[:, np.newaxis] > 0, turned, rows[:, i])
    return np.einsum("mij,mic,mjc->m", blocks, rows, rows), rows


def improved(sizes: Array, related: Relation, patterns: Places, first: int = 0) -> Places:
    """Patterns whose places from ``first`` on hold, in turn, the step that adds most to the sum of sizes."""
    n = len(sizes)
    padded, unrelated = np.pad(sizes, (0, 1)), np.pad(~related, (0, 1)).astype(np.intp)
    found = patterns.copy()
    for i in range(first, found.shape[1]):
        found[:, i] = n
        gain = np.diagonal(sizes) + 2 * padded[found, :n].sum(axis=1)
        gain[unrelated[found, :n].any(axis=1)] = -1.0
        best = gain.argmax(axis=1)
        found[:, i] = np.where(gain[np.arange(len(found)), best] >= 0, best, n)
    return found


def large_patterns(sizes: Array, related: Relation, patterns: Places) -> Places:
    """Patterns with large sums of ``sizes``: exchanges of single steps, from given patterns and from each step."""
    found = [np.concatenate([patterns, improved(sizes, related, seeds(len(sizes), patterns.shape[1]), 1)])]
    while len(found) < _MAX_SWEEPS:
        found.append(improved(sizes, related, found[-1]))
        if (found[-1] == found[-2]).all():
            break
    return np.unique(np.sort(np.concatenate(found), axis=1), axis=0)


def seeds(size: int, count: int) -> Places:
    """A pattern of each step alone."""
    found = np.full((size, count), size)
    found[:, 0] = np.arange(size)
    return found


class PatternSearch:
    """The search for the weighted patterns of a run with the workload ``matrix``."""

    def __init__(self, matrix: Array, run: MergedRun, *, largest: bool) -> None:
        self.matrix, self.run, self.largest = matrix, run, largest
        self.rows, self.size = len(matrix), len(run.related)
        self.root: Array = np.asarray(np.linalg.qr(matrix / math.sqrt(self.rows), mode="r"))

    def point(self, dual: WeightedPatterns, shares: Array) -> tuple[DualPoint, Array]:
        """The strategy of a dual point, and S_tt/s_t², the squared errors of its rows."""
        root = self.root
        if self.largest:
            root = np.asarray(np.linalg.qr(shares[:, np.newaxis] * self.matrix, mode="r"))
        values, vectors = np.linalg.eigh(root @ self.run.spread(dual.matrix(self.size)) @ root.T)
        roots = np.sqrt(np.maximum(values, _LEAST_EIGENVALUE * values[-1]))
        half = root.T @ (vectors / np.sqrt(roots))
        errors = np.ones(self.rows)
        if self.largest:
            seen = np.linalg.solve(root.T, self.matrix.T).T @ (vectors * np.sqrt(roots))
            errors = np.square(seen).sum(axis=1)
        return DualPoint(dual, shares, self.run.merged(half @ half.T), float(roots.sum())), errors

    def ascend(self, dual: WeightedPatterns, shares: Array, iterations: int = _ROUND_ITERATIONS) -> DualPoint:
        """Raise the bound over these patterns."""
        m, k = dual.patterns.shape

        def evaluate(state: Array) -> Evaluation[DualPoint]:
            logarithms = np.maximum(state[:m] - state[:m].max(), _LEAST_LOGARITHM)
            weights = np.exp(logarithms) / np.exp(logarithms).sum()
            rows = directions_of(state[m : m + m * k * k].reshape(m, k, k))[0]
            share = np.exp(np.maximum(state[m + m * k * k :] - state[m + m * k * k :].max(), _LEAST_LOGARITHM / 2))
            share /= np.linalg.norm(share)
            point, errors = self.point(WeightedPatterns(dual.patterns, weights, rows), share)
            turned, lengths = directions_of(blocks_of(point.strategy, dual.patterns) @ rows)
            sums = lengths.sum(axis=1)
            plain = [np.log(weights) + 2 * np.log(sums), turned.ravel(), np.log(share * errors)]
            upper = point.trace * float(sums.max()) * float(errors.max() / point.trace if self.largest else 1.0)
            return Evaluation(point.trace**2, upper, np.concatenate(plain), point)

        start = np.concatenate([np.log(dual.weights), dual.rows.ravel(), np.log(shares)])
        found = bracket_optimum(evaluate, start, tolerance=_TOLERANCE / 4, max_iterations=iterations)
        return found.low.point

    def best(self) -> DualPoint:
        """The best point that was found."""
        related, n, k = self.run.related, self.size, min(self.run.most, self.size)
        near = 1 / (1.0 + np.abs(np.subtract.outer(np.arange(n), np.arange(n))))
        patterns = np.unique(np.sort(improved(near, related, seeds(n, k), 1), axis=1), axis=0)
        rows = np.tile(np.eye(k), (len(patterns), 1, 1))
        dual = WeightedPatterns(patterns, np.full(len(patterns), 1 / len(patterns)), rows)
        best = point = self.ascend(dual, np.full(self.rows, self.rows**-0.5))
        operations = 0.0
        for _ in range(_MAX_ROUNDS):
            dual = point.dual
            candidates = large_patterns(np.abs(point.strategy), related, dual.patterns)
            known = {row.tobytes() for row in dual.patterns}
            candidates = candidates[[row.tobytes() not in known for row in candidates]]
            squares, turned = sensitivities(blocks_of(point.strategy, candidates))
            order = np.argsort(-squares)[:_MAX_ADDED]
            new = order[squares[order] > point.trace * (1 + _TOLERANCE)]
            operations += _ROUND_ITERATIONS * (len(dual.patterns) + new.size) * k**3
            if new.size == 0 or operations > _MAX_OPERATIONS:
                break
            kept = dual.weights > _LEAST_WEIGHT * dual.weights.max()
            old = dual.weights[kept]
            weights = np.append((1 - _ADDED_WEIGHT) / old.sum() * old, np.full(new.size, _ADDED_WEIGHT / new.size))
            patterns = np.concatenate([dual.patterns[kept], candidates[new]])
            dual = WeightedPatterns(patterns, weights, np.concatenate([dual.rows[kept], turned[new]]))
            point = self.ascend(dual, point.shares)
            best = max(best, point, key=lambda one: one.trace)
        return best


def pattern_lower_bound(objective: Objective, order: Order) -> float:
    """A lower bound of the squared error of all strategies, rounding errors included.

    It is within 1 percent of the optimum (root mean squared errors) in the cases of the page, up to about 64 steps, and
    takes a search in O(m k³) an iteration for m patterns, then one singular value decomposition of the run.

    Parameters
    ----------
    objective : Objective
        At most 4096 steps.
    order : Order
        The patterns that count; each example is used in at most about 32 steps.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the columns of A are dependent, or A is too large.
    """
    matrix, run = full_rank_matrix(objective), MergedRun.of(order)
    largest = objective.aggregate == "max"
    found = PatternSearch(matrix @ run.columns(), run.alone(), largest=largest).best()
    if run.together > 1:
        most = max(2, min(_ROUND_ITERATIONS, int(_MAX_CUBES / run.block.size**3)))
        found = PatternSearch(matrix, run, largest=largest).ascend(found.dual, found.shares, most)
    shares = found.shares if largest else np.ones(len(matrix))
    factor, budget = factor_with_budget(found.dual, len(run.related))
    scaled = shares[:, np.newaxis] * matrix
    product, uncertainty = product_with_uncertainty(scaled, run.widened(factor))
    uncertainty = 2 * uncertainty  # for the rounding errors of ``scaled``
    if product.shape[0] < product.shape[1]:
        product, uncertainty = product.T, uncertainty.T
    left, _, right = np.linalg.svd(product, full_matrices=False)
    trace = nuclear_norm_below(product, uncertainty, left @ right)
    lower = trace / math.sqrt(budget * sum_of_squares_above(shares)) * (1 - 8 * UNIT_ROUNDOFF)
    if objective.regularised:  # as in ``regularised_floor``
        lower -= math.sqrt(REGULARISATION * order.count * float(np.trace(objective.form))) * (1 + 1e-9)
    return max(0.0, lower) ** 2 * (1 - 4 * UNIT_ROUNDOFF)


def factor_with_budget(dual: WeightedPatterns, size: int) -> tuple[Array, float]:
    """L, and an upper bound of ⟨L Lᵀ, X⟩ for strategies of sensitivity 1, rounded up.

    L Lᵀ differs from R by rounding errors, and |X_ij| <= 1 because one step alone is a part of a pattern.
    """
    whole = dual.matrix(size)
    values, vectors = np.linalg.eigh(whole)
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    products = np.abs(factor) @ np.abs(factor).T
    k = dual.patterns.shape[1]
    apart = float(np.abs(factor @ factor.T - whole).sum()) + gamma(2 * size + 16) * float(products.sum())
    budget = dual.budget()
    return factor, budget * (1 + gamma(len(dual.weights) + 2 * k + 8) * k * k) + 1.01 * apart
