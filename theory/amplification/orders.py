"""Comparisons of balls in bins with laws that are simple, from below and from above.

The ratio of a Gram matrix V is Λ_V = Σ_i p_i exp(X_i − V_ii/2), X ~ N(0, V).  By Theorem 2 of
``docs/amplification-proofs.md`` δ grows with V in the *copositive* order: H >= V where πᵀ(H − V)π >= 0 for all π >= 0,
as for a difference that is the sum of an entrywise non-negative and a positive semidefinite matrix.  An
``Exchangeable`` H = diag(c) + s J gives e^G Σ_i p_i L_i with independent lognormal L_i, which engine B of ``laws``
integrates.

From below, with s J + diag(c) <= V:
    K: s the smallest of all entries, c_i = V_ii − s.
    L: c < λ_min(V), s = 1/(1ᵀ(V − c)⁻¹1).
    M: bins in a block share one mean: M = (A V⁻¹ Aᵀ)⁻¹ with the membership A, since V >= AᵀMA; then K or L of M.
    θK + (1 − θ)L.
From above:
    K': s the largest entry off the diagonal, c_i = max(V_ii, s) − s.
    the worst case: the mean over the bins of the Gaussian curve at V_ii (joint convexity).
    Hölder, for remove: E Λ^α <= Π_{k<α} max_i mean_j e^{k V_ij} for integers α >= 2.
    AM–GM, for add: Λ >= e^{m − v/2} with m ~ N(0, pᵀVp), v = Σ p_i V_ii.

All of these hold in spite of rounding: semidefinite differences are verified by a Cholesky factor of a matrix that is
smaller by more than the rounding errors of the factorisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.amplification.laws import Law, combined, lognormal, mean, nodes_of_mean
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.privacy import gaussian_deltas

_MAX_LEVELS = 6  #: different variances of a law at most
_HOELDER_ORDERS = 400  #: of Hölder's inequality
_RELATIVE_SLACK = 1e-9  #: relative, of semidefinite comparisons


@record
class Exchangeable(Record):
    """The matrix diag(c) + s J with the probabilities p of its indices.

    Parameters
    ----------
    shared : float
        s >= 0.
    own : array of float
        c >= 0, shape (k,).
    weights : array of float
        p > 0 with the sum 1, shape (k,).
    name : str
        In words.
    """

    shared: float
    own: Array
    weights: Array
    name: str

    def scaled(self, factor: float) -> Exchangeable:
        """The matrix times ``factor``."""
        return Exchangeable(self.shared * factor, self.own * factor, self.weights, self.name)

    def delta(self, epsilon: float, direction: Direction, *, upper: bool, count: int) -> float:
        """A bound of δ(ε) by a law with about ``count`` nodes."""
        return self.law(upper, count).delta(epsilon, direction, self.shared)

    def law(self, upper: bool, count: int) -> Law:
        """The law of Σ p_i L_i; the variances become a few different ones on the safe side."""
        found: Law | None = None
        total = moment = 0.0
        own = _levels(self.own, upper)
        for variance, weight, times in sorted(_groups(own, self.weights)):
            one = lognormal(variance, count, upper)
            excess = math.expm1(min(variance, 600.0))
            copies = mean(one, times, partial(_nodes_of_copies, count, excess, max(variance, 1e-12)))
            mass = weight * times
            share = mass / (total + mass)
            moment = moment * (1 - share) ** 2 + excess / times * share**2
            if found is not None:
                points = nodes_of_mean(count, 1 + moment, max(float(own.max()), 1e-12), 1 / float(self.weights.max()))
                found = combined(found, copies, points, multiply=False, weights=(1 - share, share))
            else:
                found = copies
            total += mass
        assert found is not None
        return found


def _nodes_of_copies(count: int, excess: float, variance: float, copies: int) -> Array:
    return nodes_of_mean(count, 1 + excess / copies, variance, copies)


def _levels(own: Array, upper: bool) -> Array:
    """At most a few different numbers, none smaller (larger) than those of ``own`` for an upper (lower) law."""
    if np.unique(own).size <= _MAX_LEVELS:
        return own
    order = np.argsort(own)
    result = np.empty_like(own)
    for part in np.array_split(order, _MAX_LEVELS):
        result[part] = own[part].max() if upper else own[part].min()
    return result


def _groups(own: Array, weights: Array) -> Iterator[tuple[float, float, int]]:
    pairs, times = np.unique(np.stack([own, weights]), axis=1, return_counts=True)
    for variance, weight, number in zip(*pairs, times, strict=True):
        yield float(variance), float(weight), int(number)


# -- from below --------------------------------------------------------------------------------------------------------


def certainly_semidefinite(matrix: Array) -> bool:
    """Whether a symmetric matrix is certainly positive semidefinite.

    If the Cholesky factorisation of A − c 1 in floats ends, c >= (n + 2) u tr(A)/(1 − (n + 2) u), then A is positive
    semidefinite (S. M. Rump, Verification of positive definiteness, BIT 2006).
    """
    n = matrix.shape[0]
    shift = 4 * (n + 2) * UNIT_ROUNDOFF * float(np.abs(np.diagonal(matrix)).sum()) + 1e-290
    try:
        np.linalg.cholesky(matrix - shift * np.eye(n))
    except np.linalg.LinAlgError:
        return False
    return True


def smallest_entry(gram: Array, weights: Array, name: str = "K") -> Exchangeable:
    """K: s is the smallest of all entries, the diagonal included."""
    shared = float(gram.min()) * (1 - _RELATIVE_SLACK)
    return Exchangeable(shared, (np.diagonal(gram) - shared) * (1 - _RELATIVE_SLACK), weights, name)


def semidefinite_part(gram: Array, weights: Array, share: float, name: str = "L") -> Exchangeable | None:
    """L: c = ``share`` times the smallest eigenvalue and the largest s with c + s J <= V; None if not verified."""
    least = float(np.linalg.eigvalsh(gram)[0])
    if least <= 1e-8 * float(gram.max()):
        return None
    own = share * least
    try:
        inverse = np.linalg.solve(gram - own * np.eye(gram.shape[0]), np.ones(gram.shape[0]))
    except np.linalg.LinAlgError:
        return None
    total = float(inverse.sum())
    shared = (1 - 1e-6) / total if total > 0 else 0.0
    if not certainly_semidefinite(gram - own * np.eye(gram.shape[0]) - shared):
        return None
    return Exchangeable(shared, np.full(gram.shape[0], own), weights, name)


def mixed(first: Exchangeable, second: Exchangeable, share: float) -> Exchangeable:
    """θ times the first and 1 − θ times the second of two comparisons of one matrix."""
    name = f"{share:g} {first.name} + {1 - share:g} {second.name}"
    shared, own = (
        (1 - 4 * UNIT_ROUNDOFF) * (share * one + (1 - share) * other)
        for one, other in ((first.shared, second.shared), (first.own, second.own))
    )
    return Exchangeable(float(shared), np.asarray(own), first.weights, name)


def in_blocks(gram: Array, width: int) -> tuple[Array, Array] | None:
    """M: blocks of ``width`` neighbouring bins share one mean; its matrix and the shares of the blocks."""
    b = gram.shape[0]
    member = np.zeros((-(-b // width), b))
    member[np.arange(b) // width, np.arange(b)] = 1.0
    try:
        matrix = np.linalg.inv(member @ np.linalg.solve(gram, member.T))
    except np.linalg.LinAlgError:
        return None
    matrix = (1 - 1e-6) * (matrix + matrix.T) / 2
    if not certainly_semidefinite(gram - member.T @ matrix @ member):
        return None
    return matrix, member.sum(axis=1) / b


def from_below(gram: Array) -> list[Exchangeable]:
    """Comparisons that are valid from below for bins of equal probability; the best depends on ε and the direction."""
    b = gram.shape[0]
    found: list[Exchangeable] = []
    for width in (w for w in (1, 8, 32, 64) if w == 1 or 2 * w <= b):
        blocks = (gram, np.full(b, 1 / b)) if width == 1 else in_blocks(gram, width)
        if blocks is None:
            continue
        matrix, weights = blocks
        suffix = "" if width == 1 else f" of blocks of {width}"
        if matrix.min() >= 0:
            found.append(smallest_entry(matrix, weights, "K" + suffix))
        part = semidefinite_part(matrix, weights, 0.9, "L" + suffix)
        if part is not None:
            found += [part, *(mixed(one, part, 0.5) for one in found[-1:] if one.own.size == part.own.size)]
    return found


# -- from above --------------------------------------------------------------------------------------------------------


def largest_entry(gram: Array) -> Exchangeable:
    """K': s is the largest entry off the diagonal."""
    b = gram.shape[0]
    diagonal = np.diagonal(gram)
    shared = float((gram - np.diag(diagonal)).max()) if b > 1 else 0.0
    own = np.maximum(diagonal - shared, 0.0) * (1 + 4 * UNIT_ROUNDOFF)
    return Exchangeable(shared, own, np.full(b, 1 / b), "K'")


def worst_case(gram: Array, epsilon: float) -> float:
    """δ(ε) <= the mean over the bins of the Gaussian curve, in both directions."""
    return min(float(gaussian_deltas(np.diagonal(gram) / 2, epsilon).mean()) * (1 + 1e-12), 1.0)


def holder(gram: Array, epsilon: float) -> float:
    """δ_remove(ε) <= E Λ^α e^{−(α−1)ε} (1 − 1/α)^α/(α − 1) at the best integer order α >= 2.

    E Λ^α is the mean of exp(Σ_{k<l} V_{i_k i_l}) over indices i_1, …, i_α.  The mean over the last index has a product
    of α − 1 functions.  Hölder's inequality applies to it, and so on down.
    """
    b = gram.shape[0]
    largest = float(gram.max())
    logarithm, best = 0.0, 0.0
    for order in range(2, _HOELDER_ORDERS):
        k = order - 1
        row = np.exp(k * (gram - largest)).mean(axis=1).max()
        step = k * largest + math.log(row)
        logarithm += step + UNIT_ROUNDOFF * (4 * k * largest + 8 * abs(step) + b + 16)
        bound = logarithm - k * epsilon + order * math.log1p(-1 / order) - math.log(k)
        if bound > best + 20:
            break
        best = min(best, bound)
    return math.exp(best) * (1 + 1e-12)


def mean_of_logarithms(gram: Array, epsilon: float) -> float:
    """δ_add(ε) <= E(1 − e^{ε + m − v/2})₊ by the inequality of the arithmetic and the geometric mean."""
    mean_variance = float(np.diagonal(gram).mean())
    variance = float(gram.mean())
    # With G = m − V̄/2, of mean 1, it is the Gaussian curve of ρ = V̄/2 at ε − (v − V̄)/2.
    at = epsilon - (mean_variance - variance) / 2 - 1e-12 * mean_variance
    return float(gaussian_deltas(np.array(variance * (1 + 1e-12) / 2), at))
