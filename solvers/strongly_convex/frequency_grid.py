"""Frequencies for the search of the strongly convex bound: Gauss's rule on panels that are graded to the features.

The gain has features of the width of ημ at ω = 0 and of 2 − ηL at ω = π, and its optimum has kinks where
1 − cos ω = ημ or ηL.  Panels shrink geometrically towards both ends and have the kinks at their ends.  The proof of a
bound starts from the same panels and halves them where it has to (``multiplier_proof``).
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.theory.mechanisms.spectra import PowerSpectrum
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.quadrature import DISC

_PANEL_POINTS = 8
_MAX_WIDTH = 0.25  # width of the widest panel, which resolves lags of 20
_FIRST_WIDTH = 0.05  # width of the first panel, in units of the feature
_MIN_WIDTH = 1e-9  # least width of a panel, relative to the finest panel of the gain
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(_PANEL_POINTS)


def _ladder(smallest: float) -> Array:
    """Edges from 0 to π/2 of panels that double in width from ``smallest`` up to the widest."""
    rungs = math.ceil(math.log2(max(_MAX_WIDTH / smallest, 1.0)))
    doubling = smallest * 2.0 ** np.arange(rungs + 1)
    rest = np.linspace(doubling[-1], math.pi / 2, 1 + math.ceil((math.pi / 2 - doubling[-1]) / _MAX_WIDTH))
    return np.concatenate([[0.0], doubling[:-1], rest])


def graded_edges(slow: float, fast: float) -> Array:
    """Edges of panels from 0 to π for the gains at m = ``slow``, l = ``fast``."""
    up = _ladder(_FIRST_WIDTH * min(slow, 1.0))
    down = math.pi - _ladder(_FIRST_WIDTH * min(2 - fast, 1.0))
    kinks = 2 * np.arcsin(np.sqrt(np.array([slow, fast]) / 2))
    edges = np.sort(np.concatenate([up, down, kinks]))
    edges = edges[np.append(True, np.diff(edges) > 1e-11)]
    edges[-1] = math.pi
    return edges


def nodes(edges: Array) -> tuple[Array, Array]:
    """Nodes in (0, π) and weights of (1/2π) ∫_{−π}^{π} f dω for even f, both of shape (panels, points)."""
    half = np.diff(edges)[:, np.newaxis] / 2
    return edges[:-1, np.newaxis] + half * (1 + _PANEL_NODES), half * _PANEL_WEIGHTS / math.pi


def halved(edges: Array) -> Array:
    """Edges of panels of half the width."""
    return np.unique(np.concatenate([edges, (edges[:-1] + edges[1:]) / 2]))


def clear_edges(edges: Array, spectrum: PowerSpectrum) -> Array:
    """Halve panels until their distance from the singularities of ``spectrum`` exceeds their width."""
    finest = _MIN_WIDTH * float(np.diff(edges).min())
    while True:
        middle = (edges[:-1] + edges[1:]) / 2
        half = np.diff(edges) / 2
        close = (spectrum.reach(middle) < DISC * half) & (half > finest)
        if not close.any():
            return edges
        edges = np.sort(np.concatenate([edges, middle[close]]))
