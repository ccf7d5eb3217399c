"""Laws of the likelihood ratio Λ = dP/dQ under Q, as atoms that bound δ from above or from below.

δ_remove(ε) = E_Q(Λ − e^ε)₊ and δ_add(ε) = E_Q(1 − e^ε Λ)₊ are expectations of convex functions of Λ.

*Upper law.*  Each atom is split to the two nodes around it, with the same mean.  An atom of mass q at x above all nodes
goes to the top node, and q (x − top) to the mass of P where Q has none, ``singular``.
*Lower law.*  The atoms of a cell are merged into their mean (Jensen).

Both orders are preserved by means and products with independent non-negative factors, so that laws are combined step by
step on new nodes.  The errors are of second order in the distance of the nodes.

*Rounding.*  Every number is a sum of products of non-negative floats.  So each atom is exactly split (merged) from
atoms whose masses and positions are off by a factor within e^{±r}: a combination adds the r of its laws, 8u for its
products, and k u for the node that received the largest number k of terms, which is counted.  Then
δ <= e^{2r} δ̂(ε − r) for upper laws and δ >= e^{−2r} δ̂(ε + r) for lower ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx

from corrnoise.support.kernels import kernel
from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF, rounded_up
from corrnoise.theory.privacy import gaussian_deltas

_PRICE_BITS = 256  # of differences of prices, which cancel
_UNDERFLOW_MASS = 1e-180  # more than N² 2⁻¹⁰⁷⁴ e²³⁰, the loss of all products of masses and positions
_MAX_LOG_NODE = 230.0  # the largest logarithm of a node
_NODE_DEVIATIONS = 9.0  # standard deviations of the logarithm inside of the nodes


@record
class Law(Record):
    """Atoms of Λ under Q.

    Parameters
    ----------
    positions, masses : array of float
        Atoms x >= 0 in increasing order and their masses, shape (N,).
    singular : float
        The mass of P where Q has none; 0 for lower laws.
    rounding : float
        r of the module's docstring.
    upper : bool
        Whether the law bounds from above.
    """

    positions: Array
    masses: Array
    singular: float
    rounding: float
    upper: bool

    def delta(self, epsilon: float, direction: Direction, shared: float = 0.0) -> float:
        """An upper (lower) bound of δ(ε) for the law times e^G, G ~ N(−s/2, s) independent.

        Parameters
        ----------
        epsilon : float
            Any real number.
        shared : float, default 0.0
            s >= 0: the variance of G, which is integrated exactly.
        """
        sign = 1 if self.upper else -1
        r = self.rounding + (self.positions.size + 8) * UNIT_ROUNDOFF
        log = np.log(np.maximum(self.positions, 1e-300))
        argument = epsilon - sign * r + (-log if direction == "remove" else log)  # log of K/x, or of K x
        argument = argument - sign * 4 * UNIT_ROUNDOFF * (np.abs(log) + abs(epsilon) + 1)
        if shared > 0:
            values = gaussian_deltas(np.array(shared / 2), argument, upper=self.upper)
        else:
            values = -np.expm1(np.minimum(argument, 0.0))
        values = values * self.positions if direction == "remove" else np.where(self.positions > 0, values, 1.0)
        total = float(self.masses @ values) + (self.singular if direction == "remove" else 0.0)
        if math.isnan(total):  # beyond the range of floats
            return 1.0 if self.upper else 0.0
        return min(total * math.exp(sign * 2 * r) + (_UNDERFLOW_MASS if self.upper else 0.0), 1.0)


# -- nodes and the laws of one factor ----------------------------------------------------------------------------------


def nodes(count: int, variance: float, low: float, high: float) -> Array:
    """0 and ``count`` points around 1, close to it and far apart elsewhere: exp(w sinh t) for equidistant t.

    w is the standard deviation of the logarithm, sqrt(``variance``), and the points go from e^low to e^high.
    """
    width = math.sqrt(variance)
    t = np.linspace(math.asinh(low / width), math.asinh(high / width), count)
    return np.concatenate(([0.0], np.exp(width * np.sinh(t))))


def nodes_of_mean(count: int, second_moment: float, single: float, terms: float) -> Array:
    """Nodes for the mean of ``terms`` ratios, with E Λ² = ``second_moment``.

    ``single`` is the variance of one logarithm.  The upper end also holds one large term among small ones.
    """
    variance = max(math.log(second_moment), 1e-12)
    reach = variance / 2 + _NODE_DEVIATIONS * math.sqrt(variance)
    alone = single / 2 + _NODE_DEVIATIONS * math.sqrt(single)
    large = math.log1p(math.exp(alone) / terms) if alone < 600 else alone - math.log(terms)
    return nodes(count, variance, -min(reach, _MAX_LOG_NODE), min(max(reach, large), _MAX_LOG_NODE))


def split(price: Callable[[arb], arb], points: Array) -> tuple[Array, float]:
    """The masses of an upper law on ``points``, and E(X − top)₊, from the function ``price`` k → E(X − k)₊.

    Masses are second differences of the price, which becomes linear between points; they are rounded up.  Values of X
    below the first point are raised to it.
    """
    with ctx.workprec(_PRICE_BITS):
        at = [arb(float(point)) for point in points]
        prices = [price(point) for point in at]
        slopes = [arb(1), *((p - q) / (y - x) for p, q, x, y in zip(prices, prices[1:], at, at[1:], strict=False))]
        masses = np.array([max(rounded_up(p - q), 0.0) for p, q in zip(slopes, [*slopes[1:], arb(0)], strict=True)])
        return masses, max(rounded_up(prices[-1]), 0.0)


def lognormal_price(variance: float) -> Callable[[arb], arb]:
    """Prices E(L − k)₊ of the lognormal L of mean 1 whose logarithm has this variance."""

    def price(k: arb) -> arb:
        if not k > 0:
            return arb(1)
        v = arb(variance)
        d = (-k.log() + v / 2) / v.sqrt()
        return _normal(d) - k * _normal(d - v.sqrt())

    return price


def _normal(x: arb) -> arb:
    """Φ(x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


@lru_cache(maxsize=64)
def lognormal(variance: float, count: int, upper: bool) -> Law:
    """The law of one Gaussian: L of mean 1, whose logarithm has this variance."""
    if variance <= 0:
        return Law(np.array([1.0]), np.array([1.0]), 0.0, 0.0, upper)
    points = nodes_of_mean(count, math.exp(min(variance, 600.0)), variance, 1.0)
    if upper:
        masses, beyond = split(lognormal_price(variance), points)
        return Law(points, masses, beyond, 0.0, True)
    with ctx.workprec(_PRICE_BITS):
        root = arb(variance).sqrt()
        d = [(arb(float(x)).log() + arb(variance) / 2) / root for x in points[1:]]
        masses_below = [arb(0), *(_normal(x) for x in d), arb(1)]
        moments_below = [arb(0), *(_normal(x - root) for x in d), arb(1)]
        pairs = [
            (q - p, n - m)
            for p, q, m, n in zip(masses_below, masses_below[1:], moments_below, moments_below[1:], strict=False)
        ]
        kept = [(q, m / q) for q, m in pairs if q > 1e-60 and m > 1e-60]
        masses = np.array([-rounded_up(-q) for q, _ in kept])
        positions = np.array([float(x) for _, x in kept])
    return Law(positions, masses, 0.0, 8 * UNIT_ROUNDOFF, False)


# -- combinations ------------------------------------------------------------------------------------------------------


@kernel
def _combined(x, p, y, q, multiply, points, upper):  # type: ignore[no-untyped-def]
    """Masses, first moments and numbers of terms of nodes (cells), and the mass above the nodes, for x y or x + y."""
    size = points.size
    masses = np.zeros(size)
    moments = np.zeros(size)
    terms = np.zeros(size, dtype=np.int64)
    singular = 0.0
    for i in range(x.size):
        k = 0  # points[k] <= z, and z grows with j
        for j in range(y.size):
            z = x[i] * y[j] if multiply else x[i] + y[j]
            weight = p[i] * q[j]
            if weight == 0.0:
                continue
            while k + 1 < size and points[k + 1] <= z:
                k += 1
            terms[k] += 1
            if not upper:
                masses[k] += weight
                moments[k] += weight * z
            elif k + 1 == size:
                masses[k] += weight
                singular += weight * (z - points[k])
            else:
                terms[k + 1] += 1
                gap = points[k + 1] - points[k]
                masses[k] += weight * ((points[k + 1] - z) / gap)
                masses[k + 1] += weight * ((z - points[k]) / gap)
    return masses, moments, terms.max(), singular


def combined(first: Law, second: Law, points: Array, *, multiply: bool, weights: tuple[float, float] = (1, 1)) -> Law:
    """The law of the product, or of the weighted sum, of two independent ratios, on new nodes or cells.

    The weights of a sum have the sum 1, so that its mean is 1 again.
    """
    a, b = weights
    upper = first.upper
    masses, moments, terms, beyond = _combined(
        first.positions * a, first.masses, second.positions * b, second.masses, multiply, points, upper
    )
    r = first.rounding + second.rounding + (int(terms) + 8) * UNIT_ROUNDOFF
    if upper:
        one, other = first.singular, second.singular
        singular = one + other if multiply else a * one + b * other
        return Law(points, masses, singular + float(beyond), r, True)
    kept = masses > 1e-290
    return Law(moments[kept] / masses[kept], masses[kept], 0.0, r, False)


def power(law: Law, times: int, next_nodes: Callable[[int], Array]) -> Law:
    """The law of the product of independent copies, by squaring; ``next_nodes(k)`` are the nodes for k factors."""
    return _repeated(law, times, lambda one, i, two, j: combined(one, two, next_nodes(i + j), multiply=True))


def mean(law: Law, times: int, next_nodes: Callable[[int], Array]) -> Law:
    """The law of the mean of independent copies, by binary splitting; ``next_nodes(k)`` are the nodes for k copies."""

    def joined(one: Law, i: int, two: Law, j: int) -> Law:
        return combined(one, two, next_nodes(i + j), multiply=False, weights=(i / (i + j), j / (i + j)))

    return _repeated(law, times, joined)


def _repeated(law: Law, times: int, joined: Any) -> Law:
    """``times`` copies of the law, joined by doubling: joined(law of i copies, i, law of j copies, j)."""
    found = law
    size = 1
    for digit in f"{times:b}"[1:]:
        found, size = joined(found, size, found, size), 2 * size
        if digit == "1":
            found, size = joined(found, size, law, 1), size + 1
    return found
