r"""A lower bound for every strategy in a run of any length, in linear time.

In fixed epochs of b steps every L with R = L Lᵀ = ⊕_r R_r, r < b, bounds the squared error from below by
|A L|_*²/Σ_r max diag R_r (docs/certified-optimum.md).  Here R_r is the same for all steps r of a block β of the epoch,
L = ⊕_β L_β ⊗ 1.  Let V_0 hold polynomials of low degree on each block (e, β) of each epoch e and V_1 its complement,
orthogonal to them on the block, and let P be the projection of the rows of A in a block on what neither the state at
its start nor a polynomial on it can cause.  Then

    |A L|_*  >=  |A L V_0|_* + Σ_β |diag_e(T_{e,β}) L_β|_*,    T_{e,β} = |P A V_1|_* in the block (e, β).

The first term belongs to a short run, whose steps are the polynomials.  T is bounded in the same way: a block is made
of smaller ones, down to a few steps.  The right side is concave in R, and is maximised as in ``fixed_epochs``.  Proof:
docs/certified-optimum.md, "Long runs".
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.solvers.certified.blocks import joined
from corrnoise.solvers.certified.fixed_epochs import EpochFactors, Roots, ascend, in_fixed_epochs
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.participation import Participation
from corrnoise.theory.recursion import Recursion

LEAF_STEPS = (128, 256)  # steps of the smallest blocks, in any run and in one with the same step everywhere
JOINED_BLOCKS = 24  # blocks that are joined to a larger one
MAX_DEGREE = 12  # polynomials on a block, at most
SHORT_STEPS = 512  # of the short run
MOST_EPOCHS = 512  # with rows of their own in L
EXACT_STEPS = 128  # the most steps that are all steps of the short run
WEIGHT_SHARE = 1e-3  # of weights that may be made smaller
_MAX_ITERATIONS = 20
_ROUNDING_FACTOR = 1 - 1e-7  # for the rounding errors of float64
_CANCELLATION_SHARE = 1e-15  # share of a squared response that is left by rounding when others are taken off

Parts = tuple[Array, Array, Array]  # Φ, Γ and Q of several blocks, see ``joined``


class Block(NamedTuple):
    """Φ, Γ and Q of a block of steps whose inputs are polynomials, and a bound of its T."""

    transition: Array
    inputs: Array
    gram: Array
    details: float


@lru_cache(maxsize=128)
def _polynomials(steps: int, count: int) -> Array:
    """An orthonormal basis of the polynomials of a degree below ``count`` on some steps, shape (steps, <= count)."""
    places = np.linspace(-1.0, 1.0, steps) if steps > 1 else np.zeros(1)
    return np.asarray(np.linalg.qr(np.polynomial.legendre.legvander(places, min(steps, count) - 1))[0])


@lru_cache(maxsize=128)
def _of_parts(sizes: tuple[int, ...], count: int) -> Array:
    """The polynomials on a block by those on its parts, which contain them, shape (parts · count, count)."""
    pieces = np.split(_polynomials(sum(sizes), count), np.cumsum(sizes)[:-1])
    return np.vstack([_polynomials(piece.shape[0], count).T @ piece for piece in pieces])


@lru_cache(maxsize=128)
def _others(sizes: tuple[int, ...], count: int) -> Array:
    """An orthonormal basis of the complement of the polynomials on a block."""
    basis = _of_parts(sizes, count)
    return np.asarray(np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :])


def _square_roots(values: Array) -> Array:
    """The square roots of eigenvalues, less what rounding may have added."""
    return np.sqrt(np.maximum(values - 8 * values.size * UNIT_ROUNDOFF * values[-1], 0.0))


def details_of(gram: Array, basis: Array, rest: Array) -> float:
    """|P A V_1|_* from the Gram matrix of a block without what its first state causes.

    V_0 is ``basis``, V_1 ``rest``.
    """
    if rest.shape[1] == 0 or not gram.any():
        return 0.0
    values, vectors = np.linalg.eigh(basis.T @ gram @ basis)
    seen = values > _CANCELLATION_SHARE * values[-1]
    explained = (rest.T @ gram @ basis) @ (vectors[:, seen] / np.sqrt(values[seen]))
    return float(_square_roots(np.linalg.eigvalsh(rest.T @ gram @ rest - explained @ explained.T)).sum())


def share_of(weights: Array, others: Array) -> float:
    """The largest c with ``weights`` >= c ``others``, if these are so but for ``WEIGHT_SHARE``; otherwise 0."""
    if ((others == 0) & (weights > 0)).any():
        return 0.0
    ratios = np.divide(weights, others, out=np.empty_like(weights), where=others > 0)[others > 0]
    least = float(ratios.min(initial=np.inf))
    return (1.0 if math.isinf(least) else least) if least >= (1 - WEIGHT_SHARE) * ratios.max(initial=0.0) else 0.0


class PolynomialBlocks:
    """The blocks of a run, with at most ``count`` polynomials each.

    In a run with the same step everywhere, a block whose weights are nearly proportional to earlier ones is the
    earlier block for smaller weights: the bound is not higher then.
    """

    def __init__(self, run: Recursion, count: int) -> None:
        self.run = run
        self.count = count
        self._steady = len(run.transition) == len(run.input) == 1
        self._leaf = LEAF_STEPS[self._steady]
        self._known: dict[int, tuple[Array, Block]] = {}  # the last that was made, and its weights, by its length

    def of(self, first: int, end: int) -> Block:
        """The steps first, …, end − 1."""
        weights = self.run.weights[first:end]
        if self._steady and end - first in self._known:
            others, block = self._known[end - first]
            share = share_of(weights, others)
            if share > 0:
                return block._replace(gram=share * block.gram, details=math.sqrt(share) * block.details)
        block = self._made(first, end)
        self._known[end - first] = weights, block
        return block

    def _made(self, first: int, end: int) -> Block:
        size = end - first
        if size <= self._leaf:
            sizes, parts, inner = (1,) * size, self._steps(first, end), 0.0
        else:
            number = min(JOINED_BLOCKS, -(-size // self._leaf))
            edges = [first + i * size // number for i in range(number + 1)]
            blocks = [self.of(start, stop) for start, stop in pairwise(edges)]
            sizes = tuple(stop - start for start, stop in pairwise(edges))
            parts, inner = stacked(blocks, self.count), math.fsum(block.details for block in blocks)
        basis = _of_parts(sizes, self.count)
        whole, transition, inputs, gram = joined(*parts, basis, True)
        return Block(transition, inputs, gram, inner + details_of(whole, basis, _others(sizes, self.count)))

    def _steps(self, first: int, end: int) -> Parts:
        """Steps as blocks, each with its noise as input."""
        run, weights = self.run, self.run.weights[first:end]
        transition, inputs = (a if len(a) == 1 else a[first:end] for a in (run.transition, run.input))
        transition = np.broadcast_to(transition, (*weights.shape, *transition.shape[2:])).copy()
        inputs = np.broadcast_to(inputs, (*weights.shape, inputs.shape[2])).copy()[..., np.newaxis]
        shown = np.concatenate([transition[:, :, 0], inputs[:, :, 0]], axis=2)
        gram = weights[..., np.newaxis, np.newaxis] * shown[..., np.newaxis] * shown[..., np.newaxis, :]
        return transition, inputs, gram


def stacked(blocks: list[Block], count: int) -> Parts:
    """The parts of a larger block, with inputs of 0 where one has fewer than ``count``."""
    groups, states, _ = blocks[0].inputs.shape
    inputs = np.zeros((len(blocks), groups, states, count))
    gram = np.zeros((len(blocks), groups, states + count, states + count))
    for i, block in enumerate(blocks):
        q = block.inputs.shape[2]
        inputs[i, :, :, :q] = block.inputs
        gram[i, :, : states + q, : states + q] = block.gram
    return np.stack([block.transition for block in blocks]), inputs, gram


class _ShortRun(NamedTuple):
    """The right side of the bound as a function of the L_β times the root of the number of steps of β."""

    gram: Array  # of the inputs, shape (size, size)
    details: Array  # T, shape (blocks, epochs)
    places: NDArray[np.intp]  # of the inputs, shape (blocks, epochs, polynomials)
    inside: NDArray[np.bool_]  # whether a block is in the run, shape (blocks, epochs)

    def roots(self, factors: EpochFactors) -> Roots:
        whole = np.zeros_like(self.gram)
        for block, places, inside in zip(factors.blocks, self.places, self.inside, strict=True):
            for place in places[inside].T:
                whole[np.ix_(place, place)] = block[np.ix_(inside, inside)]
        shown = self.gram @ whole
        values, vectors = np.linalg.eigh(whole.T @ shown)
        roots = _square_roots(values)
        used = roots > 0
        slope = (shown @ vectors[:, used] / roots[used]) @ vectors[:, used].T
        trace = float(roots.sum())
        blocks = np.zeros_like(factors.blocks)
        for r, (places, inside) in enumerate(zip(self.places, self.inside, strict=True)):
            own, details = factors.blocks[r][np.ix_(inside, inside)], self.details[r, inside, np.newaxis]
            gradient = sum(slope[np.ix_(place, place)] for place in places[inside].T)
            if details.any():
                left, values, right = np.linalg.svd(details * own)
                trace += float(values.sum())
                gradient = gradient + details * (left @ right)
            regular = own + 1e-14 * np.abs(own).max() * np.eye(len(own))
            inner = np.linalg.solve(regular.T, np.asarray(gradient).T)
            blocks[r][np.ix_(inside, inside)] = (inner + inner.T) / 2
        return Roots(trace, blocks)


def _edges(period: int, rest: int, number: int) -> NDArray[np.intp]:
    """Borders of about ``number`` blocks of an epoch, finer at its ends; one is where the last epoch ends."""
    if number >= period:
        return np.arange(period + 1)
    places = np.linspace(0.0, 1.0, number + 1)
    near = 2 * np.minimum(places, 1 - places) ** 2
    return np.unique(np.rint(np.append(period * np.where(places <= 0.5, near, 1 - near), rest)).astype(np.intp))


def long_run_lower_bound(run: Recursion, participation: Participation, *, tolerance: float = 2e-3) -> float:
    """A lower bound of the squared error tr(W N Nᵀ) of all strategies of sensitivity 1, in O(n) time and memory.

    In float64, with room for its rounding errors.  Up to 2 percent below the optimum (root mean squared errors) in
    all cases that were tried; the optimum but for the tolerance up to 128 steps.  More than 512
    epochs are merged to as many or fewer, with one row of L for each.

    Parameters
    ----------
    run : Recursion
        The objective as a linear system.
    participation : Participation
        The data order; the bound is for fixed epochs whose patterns it has.
    tolerance : float, default 0.002
        The search ends when another L could be better by at most this share.
    """
    epochs = in_fixed_epochs(participation)
    n, b, k = run.steps, min(epochs.period, run.steps), epochs.count
    together = -(-k // MOST_EPOCHS)  # epochs that share one row of L: then only constants enter, once an epoch
    k = -(-k // together)
    count = 1 if together > 1 or n <= EXACT_STEPS else max(1, min(MAX_DEGREE, SHORT_STEPS // (2 * k)))
    number = 1 if together > 1 else min(b, max(1, SHORT_STEPS // (count * k)) if n > EXACT_STEPS else b)
    length = b * together
    edges = np.array([0, length]) if together > 1 else _edges(b, n % b, number)
    starts = edges[:-1, np.newaxis] + length * np.arange(k)
    inside = starts < n
    details = np.zeros(inside.shape)
    places = np.zeros((*inside.shape, count), dtype=np.intp)
    shares: list[float] = []
    chosen = np.argwhere(inside.T)
    spans = [(int(starts[r, e]), int(min(starts[r, e] + edges[r + 1] - edges[r], n))) for e, r in chosen]
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda span: PolynomialBlocks(run, count).of(*span), spans))
    for i, (e, r) in enumerate(chosen):
        first, end = spans[i]
        steps = int(edges[r + 1] - edges[r]) // together  # that have this L_β
        places[r, e] = i * count + np.arange(count)
        shares += [math.sqrt((end - first) / steps / steps) if together > 1 else steps**-0.5] * count
        details[r, e] = 0.0 if together > 1 else made[i].details / math.sqrt(steps)
    size = len(made) * count
    gram = joined(*stacked(made, count), np.zeros((size, 0)), False)[0] * np.outer(shares, shares)
    short = _ShortRun(gram, details, places, inside)
    return ascend(short.roots, inside, tolerance=tolerance, max_iterations=_MAX_ITERATIONS).low.lower * _ROUNDING_FACTOR
