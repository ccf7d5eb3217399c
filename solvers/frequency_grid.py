"""Quadrature over frequencies for the strongly convex bound: Gauss's rule on panels that are graded to the features.

The gain has features of the width of ημ at ω = 0 and of 2 − ηL at ω = π, and its optimum has kinks where
1 − cos ω = ημ or ηL; the noise may have features anywhere.  Panels shrink geometrically towards both ends, have the
kinks at their ends, and are halved where Gauss's rule on the halves differs from the rule on the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from corrnoise.theory.checks import Array
from corrnoise.theory.quadrature import averages
from corrnoise.theory.toeplitz_noise import ToeplitzNoise

_POINTS = 8
_WIDEST = 0.25  # of a panel: four lags of 20 to a node
_FIRST = 0.05  # of a panel, in units of the feature
_ROUNDS = 200
_MOST_PANELS = 2**15
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_POINTS)


def _ladder(smallest: float) -> Array:
    """0 and the edges of panels that double from ``smallest`` until they are wide enough, as far as π/2."""
    rungs = math.ceil(math.log2(max(_WIDEST / smallest, 1.0)))
    doubling = smallest * 2.0 ** np.arange(rungs + 1)
    rest = np.linspace(doubling[-1], math.pi / 2, 1 + math.ceil((math.pi / 2 - doubling[-1]) / _WIDEST))
    return np.concatenate([[0.0], doubling[:-1], rest])


def graded_edges(slow: float, fast: float) -> Array:
    """Edges of panels from 0 to π for the gains at m = ``slow``, l = ``fast``."""
    up = _ladder(_FIRST * min(slow, 1.0))
    down = math.pi - _ladder(_FIRST * min(2 - fast, 1.0))
    kinks = 2 * np.arcsin(np.sqrt(np.array([slow, fast]) / 2))
    edges = np.sort(np.concatenate([up, down, kinks]))
    edges = edges[np.append(True, np.diff(edges) > 1e-12)]
    edges[-1] = math.pi
    return edges


def nodes(edges: Array) -> tuple[Array, Array]:
    """Nodes in (0, π) and weights of (1/2π) ∫_{−π}^{π} f dω for even f, both of shape (panels, points)."""
    half = np.diff(edges)[:, np.newaxis] / 2
    return edges[:-1, np.newaxis] + half * (1 + _NODES), half * _WEIGHTS / math.pi


def halved(edges: Array) -> Array:
    """Edges of panels of half the width."""
    return np.unique(np.concatenate([edges, (edges[:-1] + edges[1:]) / 2]))


def refined(edges: Array, f: Callable[[Array], Array], tolerance: float) -> tuple[Array, float, float]:
    """Halve panels until (1/2π) ∫ f dω is settled.

    Returns
    -------
    The new edges, the mean of f by the rule on the halves of their panels, and the sum over the panels of the
    differences between rule and rule on halves: much more than the error of the mean, by experience, not by proof.
    The halving stops when this sum is below ``tolerance`` times the mean, or cannot be brought there.
    """

    def means(low: Array, high: Array) -> tuple[Array, Array]:
        """By the rule on [low, high], and on its halves."""
        middle = (low + high) / 2
        parts = []
        for left, right in ((low, high), (low, middle), (middle, high)):
            half = (right - left)[:, np.newaxis] / 2
            values = f((left[:, np.newaxis] + half * (1 + _NODES)).ravel()).reshape(-1, _POINTS)
            parts.append((half * _WEIGHTS / math.pi * values).sum(axis=1))
        return parts[0], parts[1] + parts[2]

    low, high = edges[:-1], edges[1:]
    coarse, fine = means(low, high)
    for _ in range(_ROUNDS):
        gaps, mean = np.abs(fine - coarse), float(fine.sum())
        rough = gaps > tolerance * mean / (2 * low.size) if math.isfinite(mean) else ~np.isfinite(gaps)
        if gaps.sum() <= tolerance * mean or not rough.any() or low.size > _MOST_PANELS:
            break
        middle = (low[rough] + high[rough]) / 2
        left, right = means(low[rough], middle), means(middle, high[rough])
        low, high, coarse, fine = (
            np.concatenate([old[~rough], *new])
            for old, new in (
                (low, (low[rough], middle)),
                (high, (middle, high[rough])),
                (coarse, (left[0], right[0])),
                (fine, (left[1], right[1])),
            )
        )
    return np.append(np.sort(low), math.pi), float(fine.sum()), float(np.abs(fine - coarse).sum())


def edges_for(noise: ToeplitzNoise, edges: Array, rates: Array) -> Array:
    """Halve all panels until the grid gives the noise's own averaged variances b(x) at ``rates``, to 1e-9.

    It catches features that lie between all nodes, of which the comparison of panels with their halves knows nothing.

    Raises
    ------
    ArithmeticError
        It never does: the spectrum has features too narrow for any grid.
    """
    exact = noise.averaged_variance(rates)
    while edges.size < _MOST_PANELS:
        omega, weights = (part.ravel() for part in nodes(edges))
        c, s = np.cos(omega / 2), np.sin(omega / 2)
        found = averages(rates, c, s, weights * noise.power_spectrum(omega))
        if (np.abs(found - exact) <= 1e-9 * exact).all():
            return edges
        edges = halved(edges)
    raise ArithmeticError(f"noise must have a spectrum that some {_MOST_PANELS} panels resolve, got {noise!r}")
