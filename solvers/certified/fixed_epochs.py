"""The best strategy of any form for fixed epochs, between two bounds.

An example is used in the steps of one class {r, r + b, …}.  The columns of C in a class may be taken orthogonal
without loss, and the optimum is the maximum over R = ⊕_r R_r >= 0 of

    (tr (R^½ G R^½)^½)² / Σ_r μ_r,    μ_r = max diag R_r,    G = AᵀA.

With R_r = L_r L_rᵀ the trace is |A L|_* = max ⟨Y, A L⟩ over ‖Y‖_2 <= 1, and the plain step maximises over Y and over L
in turn.  The matrix X = R^{−½} (R^½ G R^½)^½ R^{−½} is also a strategy: its squared error is tr S, and its squared
sensitivity at most the largest sum of the absolute values of a block X_rr.  Proof: docs/certified-optimum.md.

For prefix sums the blocks X_rr come from a sum of resolvents of block cyclic tridiagonal matrices, in O(b k³) each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.solvers.certified.certificates import nuclear_norm_below, product_with_uncertainty
from corrnoise.solvers.certified.fixed_point import Bracket, Evaluation, bracket_optimum
from corrnoise.solvers.certified.selected_inverses import ring_root
from corrnoise.solvers.objectives import dense_size, full_rank_matrix
from corrnoise.solvers.optimum import Certificate
from corrnoise.theory.mechanisms.matrix import MatrixNoise, causal_strategy
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.inverse_square_root import inverse_square_root
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.participation import FixedEpochs, Order, Participation

LARGEST_CERTIFIED = 2048  #: the most steps with a lower bound that includes rounding errors
_TINY_DENOMINATOR = 1e-300  # in place of 0
_LEAST_LOGARITHM = -46.0


Places = NDArray[np.intp]


class EpochFactors(NamedTuple):
    """L_r L_rᵀ = R_r: rows of length sqrt(μ_r), shape (b, k, k); 0 where no step is."""

    blocks: Array

    @classmethod
    def of(cls, logarithms: Array, directions: Array, inside: NDArray[np.bool_]) -> EpochFactors:
        budgets = np.exp(np.maximum(logarithms - logarithms.max(), _LEAST_LOGARITHM))
        lengths = np.linalg.norm(directions, axis=2, keepdims=True)
        rows = (
            np.sqrt(budgets / budgets.sum())[:, np.newaxis, np.newaxis]
            * directions
            / np.maximum(lengths, _TINY_DENOMINATOR)
        )
        return cls(rows * inside[:, :, np.newaxis])

    def weights(self) -> Array:
        return self.blocks @ self.blocks.transpose(0, 2, 1)

    def budget(self) -> float:
        """Σ_r max diag R_r, rounded up."""
        longest = np.square(self.blocks).sum(axis=2).max(axis=1)
        return math.fsum(longest) * (1 + (self.blocks.shape[1] + 4) * UNIT_ROUNDOFF)

    def matrix(self, places: Places) -> Array:
        """L as a matrix in the order of the steps."""
        b, k = places.shape
        full = np.zeros((b * k, b * k))
        for place, block in zip(places, self.blocks, strict=True):
            full[np.ix_(place, place)] = block
        return full


class StepRing(NamedTuple):
    """(AᵀA)⁻¹ of prefix sums in class order, for ``ring_root``.

    It is 2 on the diagonal, 1 at step 0, and −1 next to it in the order of the steps: class r is linked to class r + 1
    in the same epoch, and the last class to class 0 in the next epoch.  Places without a step have a 1.
    """

    diagonal: Array
    links: Array
    borders: Array

    @classmethod
    def of(cls, places: Places, steps: int) -> StepRing:
        b, k = places.shape
        inside = (places < steps).astype(np.float64)
        diagonal = (1 + inside)[:, :, np.newaxis] * np.eye(k)
        diagonal[0, 0, 0] = 1.0
        links, borders = np.zeros((b, k)), np.zeros((b, k, k))
        links[:-1] = inside[1:]
        to_next_epoch = np.eye(k, k=1)
        if b == 1:
            diagonal[0] -= to_next_epoch + to_next_epoch.T
        else:
            borders[1] -= np.diag(inside[1])
            borders[-1] -= to_next_epoch
        return cls(diagonal, links, borders)


class Roots(NamedTuple):
    """Tr S and the blocks X_rr."""

    trace: float
    blocks: Array


def _roots_of_prefix_sums(ring: StepRing, factors: EpochFactors, places: Places, steps: int) -> Roots:
    weights = factors.weights()
    gram = np.maximum(steps - np.maximum(places[:, :, np.newaxis], places[:, np.newaxis, :]), 0)
    least = np.linalg.eigvalsh(weights + np.where(gram == 0, 1.0, 0.0) * np.eye(places.shape[1]))[:, 0].min()
    low, high = 1 / float((weights * gram).sum()), 4 / max(float(least), 1e-14 * float(weights.max()))
    poles = inverse_square_root(low / 1.001, max(high, low) * 1.001)
    blocks = ring_root(*ring, weights, poles.poles, poles.weights)
    return Roots(float((weights * blocks).sum()), blocks)


def _roots_of_matrix(matrix: Array, factors: EpochFactors, places: Places) -> Roots:
    n = matrix.shape[1]
    left, values, right = np.linalg.svd(matrix @ factors.matrix(places)[:n, :n], full_matrices=False)
    gradient = matrix.T @ (left @ right)
    b, k = places.shape
    blocks = np.zeros((b, k, k))
    for r, place in enumerate(places):
        real = place[place < n]
        size = real.size
        inner = np.linalg.solve(factors.blocks[r, :size, :size].T, gradient[np.ix_(real, real)].T)
        blocks[r, :size, :size] = (inner + inner.T) / 2
    return Roots(math.fsum(values), blocks)


def in_fixed_epochs(participation: Participation) -> Order:
    """Fixed epochs whose patterns are patterns of this participation."""
    n = participation.length
    b = n if participation.once else max(participation.worst.period, -(-n // participation.worst.count))
    return Participation.fixed_epochs(n, period=b)


def places_of(participation: Participation) -> Places:
    """The step e b + r of place (r, e), shape (b, k); numbers from n on are no steps."""
    b = participation.length if participation.once else min(participation.worst.period, participation.length)
    return np.arange(b)[:, np.newaxis] + b * np.arange(participation.worst.count)


def ascend(
    roots_of: Callable[[EpochFactors], Roots], inside: NDArray[np.bool_], *, tolerance: float, max_iterations: int
) -> Bracket[EpochFactors]:
    """Maximise (tr S)²/Σ_r μ_r from all R_r = 1, for places ``inside`` the run, shape (b, k).

    ``roots_of`` gives the trace, which must be concave in R, and its derivative, the blocks X_rr.
    """
    b, k = inside.shape

    def evaluate(state: Array) -> Evaluation[EpochFactors]:
        logarithms = np.maximum(state[:b] - state[:b].max(), _LEAST_LOGARITHM)
        factors = EpochFactors.of(logarithms, state[b:].reshape(b, k, k), inside)
        trace, blocks = roots_of(factors)
        both = inside[:, :, np.newaxis] & inside[:, np.newaxis, :]
        upper = trace * float(np.abs(np.where(both, blocks, 0.0)).sum(axis=(1, 2)).max())
        step = blocks @ factors.blocks
        lengths = np.linalg.norm(step, axis=2)
        budgets = np.square(np.where(inside, lengths, 0.0).sum(axis=1))
        directions = np.where(
            inside[:, :, np.newaxis], step / np.maximum(lengths, _TINY_DENOMINATOR)[:, :, np.newaxis], 0.0
        )
        plain = np.concatenate([np.log(np.maximum(budgets / budgets.sum(), _TINY_DENOMINATOR)), directions.ravel()])
        return Evaluation(trace**2 / factors.budget(), upper, plain, factors)

    start = np.concatenate([np.zeros(b), np.tile(np.eye(k), (b, 1, 1)).ravel()])
    return bracket_optimum(evaluate, start, tolerance=2 * tolerance, max_iterations=max_iterations)


def fixed_epochs_bounds(
    objective: Objective, participation: Participation, *, tolerance: float = 1e-6, max_iterations: int = 500
) -> Certificate:
    """The least root mean squared error of any strategy for fixed epochs, and a strategy that attains it.

    Up to 2048 steps the lower bound is rigorous.  Its array holds L_r of the strategy, shape (b, k, k), in the order of
    the epochs; 0 where no step is.  ``PrefixSums`` takes O(n k²) an iteration, any other objective O(n³), up
    to 4096 steps.  The iteration ends when ``gap`` is at most the tolerance, or after ``max_iterations``; the bounds
    hold all the same.

    Raises
    ------
    ValueError
        If the kind of the participation is another one, the numbers of steps differ, the columns of A are dependent, or
        A is too large.
    """
    checks.instance("objective", objective, Objective)
    checks.instance("participation", participation, Participation)
    tolerance = checks.real("tolerance", tolerance, "[1e-12, 1]")
    max_iterations = checks.integer("max_iterations", max_iterations, 1)
    if not isinstance(participation, FixedEpochs) and not participation.once:
        raise ValueError(f"participation must be for fixed epochs, got {participation!r}")
    if participation.steps != objective.steps:
        raise ValueError(f"participation must have the {objective.steps} steps of the objective, got {participation!r}")
    fast = objective.precise
    n = objective.steps
    matrix = np.empty((n, 0)) if fast else full_rank_matrix(objective)
    rows = matrix.shape[0]
    places = places_of(participation)
    inside = places < n
    ring = StepRing.of(places, n)

    def roots_of(factors: EpochFactors) -> Roots:
        if fast:
            return _roots_of_prefix_sums(ring, factors, places, n)
        return _roots_of_matrix(matrix, factors, places)

    found = ascend(roots_of, inside, tolerance=tolerance, max_iterations=max_iterations)
    lower = found.low.lower / rows
    rigorous = n <= LARGEST_CERTIFIED
    if rigorous:
        lower = _lower_bound(objective.matrix(), found.low.point, places)
    return Certificate(
        value=math.sqrt(found.high.upper / rows),
        lower_bound=math.sqrt(lower) * (1 - 2 * UNIT_ROUNDOFF),
        rigorous=rigorous,
        iterations=found.iterations,
        arrays=(found.high.point.blocks,),
    )


def fixed_epochs_strategy(objective: Objective, participation: Participation, certificate: Certificate) -> MatrixNoise:
    """The noise of the strategy C with CᵀC = X, scaled so that the largest Σ|X_ij| of a class is 1.

    Its sensitivity is 1 up to rounding, for fixed epochs only: under min-sep participation it is larger, as it will
    say.
    """
    n = dense_size(objective)
    places = places_of(participation)
    factor = EpochFactors(np.asarray(certificate.arrays[0])).matrix(places)[:n, :n]
    _, values, right = np.linalg.svd(objective.matrix() @ factor, full_matrices=False)
    half = np.linalg.solve(factor.T, right.T * np.sqrt(values))
    gram = half @ half.T
    classes = [place[place < n] for place in places]
    largest = max(np.abs(gram[np.ix_(steps, steps)]).sum() for steps in classes)
    return MatrixNoise(causal_strategy(gram / largest))


def _lower_bound(matrix: Array, factors: EpochFactors, places: Places) -> float:
    """(tr S)²/(budget × rows), rounding errors included, for the floats A and L."""
    rows, n = matrix.shape
    product, uncertainty = product_with_uncertainty(matrix, factors.matrix(places)[:n, :n])
    left, _, right = np.linalg.svd(product, full_matrices=False)
    return (
        nuclear_norm_below(product, uncertainty, left @ right) ** 2
        / (factors.budget() * rows)
        * (1 - 8 * UNIT_ROUNDOFF)
    )
