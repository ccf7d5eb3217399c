"""The chain law: an upper law of Λ for Gram matrices H = D 1 + s J + a λ^{|i−j|} (Theorem 4).

Λ = e^G (1/m) Σ_{j<m} e^{x_j − a/2} L_j with a stationary autoregressive x of variance a and correlation λ, independent
lognormal L_j of mean 1 whose logarithms have the variance D, and G ~ N(−s/2, s).  The partial sum S and the state x go
forward on a grid.  Each step makes δ larger:

*remove*.  The value E F(S + rest) is convex and increasing in S, in L and in x, hence S and L are split to the nodes
around them with the same mean, and so are the innovations of x and then x itself.  Values of x below the grid are
raised.  Values above it are lowered; since F is 1-Lipschitz this costs at most κ, the mean of
(R(x') − R(top))₊ with R(x) = (1/m) Σ_k exp(λ^k x − a λ^{2k}/2), the mean of the rest.  κ, and the mass above the grid
of S times its distance, are added to the mass of P where Q has none.

*add*.  The value is decreasing and jointly convex in S and w = e^x, because the rest is a sum of concave powers of w.
S, L and w are split with the same mean, the node w = 0 is absorbing, and values above the grids are lowered, which
makes F larger.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from flint import arb
from scipy.linalg import toeplitz
from scipy.special import ndtr

from corrnoise.support.kernels import kernel
from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.amplification.laws import Law, lognormal, lognormal_price, nodes, nodes_of_mean, split
from corrnoise.theory.amplification.orders import certainly_semidefinite
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.privacy import gaussian_deltas

_NEGLIGIBLE_MASS = 1e-27  # masses that go to 0
_CORRELATION_GRID = (0.5, 0.7, 0.8, 0.87, 0.92, 0.95, 0.975, 0.99)  #: λ
_QUANTILE_LEVELS = (0.0, 0.15, 0.35, 0.7)  #: quantiles of the entries that are tried as s
_ENTRY_SHARES = (0.75, 0.9, 1.0, 1.1)  #: a λ over the nearest entry
_HOELDER_ORDERS = 48  #: of Hölder's inequality, in the choice of a chain
_INNOVATION_ATOMS = 400  #: atoms of an innovation
_MAX_DEVIATIONS = 9.0  #: the largest of them, in standard deviations
_FACTOR_ATOMS = (24, 96)  #: atoms of L, in long and in short chains
_GRID_DEVIATIONS = 8.0  #: standard deviations of x inside of its grid


@record
class Chain(Record):
    """The matrix D 1 + s J + a λ^{|i−j|} of ``length`` bins.

    Parameters
    ----------
    length : int
        m >= 1.
    shared, variance, own : float
        s, a and D, all >= 0.
    correlation : float
        λ in [0, 1).
    """

    length: int
    shared: float
    variance: float
    correlation: float
    own: float

    def matrix_row(self) -> Array:
        """The entries at the distances 0, …, m − 1."""
        row = self.shared + self.variance * self.correlation ** np.arange(self.length)
        row[0] += self.own
        return np.asarray(row)

    def scaled(self, factor: float) -> Chain:
        """The matrix times ``factor``."""
        return Chain(self.length, self.shared * factor, self.variance * factor, self.correlation, self.own * factor)

    def delta(self, epsilon: float, direction: Direction, *, sums: int = 500, states: int = 80) -> float:
        """An upper bound of δ(ε).

        Parameters
        ----------
        epsilon : float
            ε >= 0.
        direction : {"remove", "add"}
            ``"remove"`` or ``"add"``.
        sums : int, default 500
            Numbers of nodes of S and of x.
        states : int, default 80
            Numbers of nodes of S and of x.
        """
        found = chain_law(self.length, self.variance, self.correlation, self.own, direction, sums, states)
        return found.delta(epsilon, direction, self.shared)


# -- the states --------------------------------------------------------------------------------------------------------


def _split_to(values: Array, masses: Array, points: Array) -> Array:
    """The masses of atoms, split to increasing points with the same mean and clamped."""
    inside = np.clip(values, points[0], points[-1])
    k = np.clip(np.searchsorted(points, inside, side="right") - 1, 0, points.size - 2)
    gap = points[k + 1] - points[k]
    found = np.zeros(points.size)
    np.add.at(found, k, masses * ((points[k + 1] - inside) / gap))
    np.add.at(found, k + 1, masses * ((inside - points[k]) / gap))
    return found


def _normal_price(deviation: float):  # type: ignore[no-untyped-def]
    """Prices E(σ Z − k)₊ of a normal variable."""

    def price(k: arb) -> arb:
        y = k / arb(deviation)
        density = (-y * y / 2).exp() / (2 * arb.pi()).sqrt()
        return arb(deviation) * (density - y * (y / arb(2).sqrt()).erfc() / 2)

    return price


@record
class States(Record):
    """A grid of the state: the first masses, the transitions, and the cost of values above the grid.

    Parameters
    ----------
    factors : array of float
        w = e^x at the nodes, shape (n,).
    start : array of float
        Masses of the first state, shape (n,).
    transitions : array of float
        Masses of the next state, in rows, shape (n, n).
    excess : array of float
        κ of one step by the number of terms of the rest, shape (m + 1, n); 0 for add.
    first_excess : float
        The same for the first state and m terms.
    """

    factors: Array
    start: Array
    transitions: Array
    excess: Array
    first_excess: float


def states(length: int, variance: float, correlation: float, direction: Direction, count: int, top: float) -> States:
    """The grid of x up to ``top`` standard deviations above its mean under P, and of w = e^x for add."""
    deviation = math.sqrt(variance)
    innovation = deviation * math.sqrt((1 - correlation) * (1 + correlation))
    if direction == "remove":
        points = _around(variance / 2, variance, -_GRID_DEVIATIONS * deviation, variance + top * deviation, count)
        return _rising(length, variance, correlation, innovation, points)
    points = _around(-variance / 2, variance, -variance - _GRID_DEVIATIONS * deviation, top * deviation, count)
    w = np.concatenate(([0.0], np.exp(points)))
    start, _ = split(lognormal_price(variance), w / math.exp(variance / 2))
    steps = nodes(_INNOVATION_ATOMS, innovation**2, -9 * innovation - innovation**2, 9 * innovation + innovation**2)
    masses, _ = split(lognormal_price(innovation**2), steps)
    transitions = np.zeros((w.size, w.size))
    transitions[0, 0] = 1.0
    mean = math.exp(innovation**2 / 2)
    for i in range(1, w.size):
        transitions[i] = _split_to(w[i] ** correlation * mean * steps, masses, w)
    return States(w, start, transitions, np.zeros((length + 1, w.size)), 0.0)


def _around(centre: float, variance: float, low: float, high: float, count: int) -> Array:
    """Points from ``low`` to ``high``, closer to each other around the centre."""
    width = 1.5 * math.sqrt(variance) + variance / 2
    t = np.linspace(math.asinh((low - centre) / width), math.asinh((high - centre) / width), count)
    return np.asarray(centre + width * np.sinh(t))


def _rising(length: int, variance: float, correlation: float, innovation: float, points: Array) -> States:
    """The grid for remove, which splits x itself."""
    deviation = math.sqrt(variance)
    z = np.linspace(-_MAX_DEVIATIONS, _MAX_DEVIATIONS, _INNOVATION_ATOMS)
    noise, _ = split(_normal_price(1.0), z)
    start, _ = split(_normal_price(deviation), points)
    transitions = np.zeros((points.size, points.size))
    decays = correlation ** np.arange(length)

    def cost(mean: float, spread: float) -> Array:
        """Bounds of E(R(X) − R(top))₊ for X ~ N(mean, spread²) and rests of 0, 1, …, m terms, times m.

        By the atoms of Z, and exactly, term by term, for what Z has above them.
        """
        above = mean + spread * z - points[-1]
        over = above > 0
        heights = np.exp(decays * points[-1] - variance * decays**2 / 2)[:, np.newaxis]
        terms = (heights * np.expm1(decays[:, np.newaxis] * above[over])) @ noise[over]
        shift = decays * spread
        terms += np.exp(decays * mean - variance * decays**2 / 2 + shift**2 / 2) * ndtr(shift - _MAX_DEVIATIONS)
        return np.concatenate(([0.0], np.cumsum(terms))) * (1 + 1e-10)

    excess = np.empty((length + 1, points.size))
    for i, x in enumerate(points):
        transitions[i] = _split_to(correlation * x + innovation * z, noise, points)
        excess[:, i] = cost(correlation * x, innovation)
    return States(np.exp(points), start, transitions, excess / length, float(cost(0.0, deviation)[-1]) / length)


# -- the sums ----------------------------------------------------------------------------------------------------------


@kernel
def _added(mass, sums, increments, weights, points):  # type: ignore[no-untyped-def]
    """The masses of (state, S + increment) on new nodes of S, the mass above them, and the most terms of a node.

    A mass q at S that is too small to matter becomes q at 0 and q S where Q has none.
    """
    count, size = mass.shape[0], points.size
    found = np.zeros((count, size))
    terms = np.zeros(size, dtype=np.int64)
    inverse = 1 / (points[1:] - points[:-1])
    singular = 0.0
    most = 0
    for i in range(count):
        terms[:] = 0
        for l in range(weights.size):
            k = 0
            for j in range(sums.size):
                weight = mass[i, j] * weights[l]
                z = sums[j] + increments[i, l]
                if weight * (1 + z) < _NEGLIGIBLE_MASS:
                    found[i, 0] += weight
                    terms[0] += 1
                    singular += weight * z
                    continue
                while k + 1 < size and points[k + 1] <= z:
                    k += 1
                terms[k] += 1
                if k + 1 == size:
                    found[i, k] += weight
                    singular += weight * (z - points[k])
                else:
                    terms[k + 1] += 1
                    found[i, k] += weight * ((points[k + 1] - z) * inverse[k])
                    found[i, k + 1] += weight * ((z - points[k]) * inverse[k])
        most = max(most, terms.max())
    return found, singular, most


@lru_cache(maxsize=32)
def chain_law(
    length: int,
    variance: float,
    correlation: float,
    own: float,
    direction: Direction,
    sums: int,
    count: int,
    top: float = _GRID_DEVIATIONS,
) -> Law:
    """The law of (1/m) Σ e^{x_j − a/2} L_j from above; ``top`` is that of ``states``."""
    grid = states(length, variance, correlation, direction, count, top)
    few, many = _FACTOR_ATOMS
    factor = lognormal(own, max(few, min(many, 64 * few // length)), True)
    increments = np.outer(grid.factors * math.exp(-variance / 2) / length, factor.positions)
    moment = _second_moments(length, variance, correlation, own)
    mass = grid.start[:, np.newaxis].copy()
    points = np.zeros(1)
    singular = grid.first_excess
    # Exponentials and powers of floats below e^100, and their products: positions.
    rounding = length * 64 * UNIT_ROUNDOFF * (1 + float(np.abs(np.log(grid.factors[-1:])).max()) + variance)
    for j in range(length):
        latent = mass.sum(axis=1)
        after = nodes_of_mean(sums, moment[j], variance + own, j + 1) * ((j + 1) / length)
        # What L has above its nodes is lost by S; F is 1-Lipschitz.
        singular += float(latent @ grid.factors) * math.exp(-variance / 2) / length * factor.singular
        mass, beyond, terms = _added(mass, points, increments, factor.masses, after)
        points = after
        singular += beyond
        rounding += (int(terms) + 8) * UNIT_ROUNDOFF
        if j + 1 < length:
            singular += float(latent @ grid.excess[length - 1 - j])
            with np.errstate(over="ignore", invalid="ignore"):  # beyond the range of floats the law says nothing
                mass = grid.transitions.T @ mass
            rounding += (_INNOVATION_ATOMS + count + 16) * UNIT_ROUNDOFF
    return Law(points, mass.sum(axis=0), singular, rounding + count * UNIT_ROUNDOFF, True)


def _second_moments(length: int, variance: float, correlation: float, own: float) -> Array:
    """E of the square of the mean of the first 1, 2, …, m terms, capped for the choice of nodes."""
    apart = np.exp(np.minimum(variance * correlation ** np.arange(length), 300.0))
    inner = np.cumsum(apart)
    total = 0.0
    found = np.empty(length)
    for j in range(length):
        total += 2 * inner[j] - apart[0]
        k = j + 1
        found[j] = (total + k * apart[0] * math.expm1(min(own, 300.0))) / k**2
    return found


# -- chains above a Gram matrix ----------------------------------------------------------------------------------------


def decreasing(gram: Array, gap: int) -> Array:
    """The largest entries at the distances 0, …, m − 1 of a window of m = b − ``gap`` neighbouring bins.

    Without a gap bins 0 and b − 1 are b − 1 apart.  With one, the window starts at a uniform bin and is cyclic; who
    sees the window has at least as much as who does not (joint convexity), so that δ is at most the mean over windows.
    """
    b = gram.shape[0]
    if gap == 0:
        return np.array([np.diagonal(gram, d).max() for d in range(b)])
    i = np.arange(b)
    return np.array([gram[i, (i + d) % b].max() for d in range(b - gap)])


def chains_above(entries: Array) -> list[Chain]:
    """Chains with H >= V in the copositive order, given the largest entries f of V at each distance.

    D makes up for what s J + a λ^{|i−j|} lacks, in one of two ways: it is at least the largest eigenvalue of the
    Toeplitz matrix of f − s − a λ^d; or the entries that are too large, a symmetric matrix N >= 0 without diagonal,
    have row sums of at most r, so that N <= r 1, and D = f(0) − s − a + r.
    """
    m = entries.size
    apart = np.arange(m)
    found = [Chain(m, 0.0, 0.0, 0.0, float(entries[0]))] if m == 1 else []
    tiny = 1e-9 * float(entries[0])
    for shared in np.unique([0.0, *np.quantile(entries[1:], _QUANTILE_LEVELS)]) if m > 1 else ():
        for correlation in _CORRELATION_GRID:
            powers = np.maximum(correlation**apart, 1e-300)
            ratio = np.maximum(entries - shared, 0.0) / powers
            for variance in {*(share * float(ratio[1]) for share in _ENTRY_SHARES), float(ratio[1:].max())}:
                residual = entries - shared - variance * powers
                if 0 < variance <= entries[0]:
                    over = np.cumsum(np.maximum(residual, 0.0) * (apart > 0))
                    own = max(float(residual[0]), 0.0) + float((over + over[::-1]).max())
                    matrix = toeplitz(residual)
                    least = max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0) + tiny
                    if least < own and certainly_semidefinite(least * np.eye(m) - matrix):
                        own = least
                    found.append(Chain(m, float(shared) + tiny, variance + tiny, correlation, own + tiny))
    return found


def promising(chains: list[Chain], factor: float, epsilon: float, direction: Direction, number: int) -> list[Chain]:
    """A few of the chains, times ``factor``, that are likely to give small δ by estimates with simple inequalities.

    They are geometric means of two: D on the diagonal counts as it is, and as the variance of a mean over neighbours.
    """
    scores = np.zeros(len(chains))
    for length in {chain.length for chain in chains}:
        which = [i for i, chain in enumerate(chains) if chain.length == length]
        s, a, far, own = (
            np.array([getattr(chains[i], name) for i in which])[:, np.newaxis]
            for name in ("shared", "variance", "correlation", "own")
        )
        averaged = a + np.expm1(np.minimum(factor * own, 30.0)) / factor * (1 - far) / (1 + far)
        for x, y in ((a, own), (averaged, 0 * own)):
            rows = np.asarray(factor * (s + x * far ** np.arange(length)))
            scores[which] += _score(rows, np.asarray(factor * y[:, 0]), epsilon, direction)
    return [chains[i].scaled(factor) for i in np.argsort(scores, kind="stable")[:number]]


def _score(rows: Array, own: Array, epsilon: float, direction: Direction) -> Array:
    """Logarithms of simple bounds for matrices with the entries ``rows`` at each distance and D = ``own``."""
    length = rows.shape[1]
    if direction == "remove":
        central = rows[:, np.abs(np.arange(length) - length // 2)]
        central[:, length // 2] += own
        return _order_bound(central, epsilon)
    weights = 2.0 * (length - np.arange(length))
    weights[0] = length
    mean = rows @ weights / length**2 + own / length
    bound = gaussian_deltas(mean / 2, epsilon - (rows[:, 0] + own - mean) / 2)
    return np.asarray(np.log(np.maximum(bound, 1e-300)))


def _order_bound(rows: Array, epsilon: float) -> Array:
    """Logarithms of Hölder's bound for matrices with these central rows, which are the largest."""
    logarithm, best = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
    top = rows.max(axis=1)
    for k in range(1, _HOELDER_ORDERS):
        logarithm += k * top + np.log(np.exp(k * (rows - top[:, np.newaxis])).mean(axis=1))
        best = np.minimum(best, logarithm - k * epsilon + (k + 1) * math.log1p(-1 / (k + 1)) - math.log(k))
    return best
