"""Discrete measures with many places on the positive axis, replaced by measures with few."""

from __future__ import annotations

import math

import numpy as np

from corrnoise.theory.numerics.checks import Array

_RULE_OCTAVES = 16.0  # octaves of one rule
_RULE_NODES = 16  # of a rule
_IN_OCTAVE = 2.5  # more of them for each octave


def condensed(places: Array, weights: Array) -> tuple[Array, Array]:
    """Fewer places s and weights with the same Σ weights/(s + t) at any t with Re t >= 0, to rounding.

    The places are cut into parts of equal logarithmic length, of at most 16 octaves.  In each the nodes of Gauss's rule
    for the measure of log s are left.  The kernel is analytic for |Im log s| < π/2.  So the error of n nodes in a part
    of the logarithmic length l falls like ρ^{−2n}, ρ = exp(arsinh(π/l)).  The same holds for 1/(s² + t) with t >= 0 and
    for exp(−t s).  Σ weights (1 − s)^t with places up to ½ keeps a relative error below 1e-10.
    """
    if places.size == 0:
        return places, weights
    logarithms = np.log(places)
    lowest, length = float(logarithms.min()), float(np.ptp(logarithms)) / math.log(2)
    parts = max(math.ceil(length / _RULE_OCTAVES), 1)
    count = _RULE_NODES + math.ceil(_IN_OCTAVE * length / parts)
    edges = lowest + length * math.log(2) * np.arange(parts + 1) / parts
    part = np.searchsorted(edges[1:-1], logarithms, side="right")
    new: list[tuple[Array, Array]] = []
    for p in range(parts):
        s = places[part == p]
        w = weights[part == p]
        if s.size > count:
            middle = (edges[p] + edges[p + 1]) / 2
            nodes, w = _gauss(logarithms[part == p] - middle, w, count)
            s = np.exp(middle + nodes)
        new.append((s, w))
    return np.concatenate([s for s, _ in new]), np.concatenate([w for _, w in new])


def _gauss(places: Array, weights: Array, points: int) -> tuple[Array, Array]:
    """Gauss's rule for the measure of ``weights`` at ``places``, by Lanczos's process with full orthogonalisation."""
    basis = np.sqrt(weights / weights.sum())[np.newaxis]
    jacobi = np.zeros((points, points))
    for k in range(points):
        image = places * basis[k]
        for _ in range(2):
            share = basis @ image
            image -= share @ basis
            jacobi[k, : k + 1] += share
        length = float(np.linalg.norm(image))
        if length <= 1e-14:  # to rounding there are only k + 1 places
            break
        basis = np.vstack([basis, image / length])
    nodes, vectors = np.linalg.eigh(jacobi[: k + 1, : k + 1])
    shares = vectors[0] ** 2
    return nodes[shares > 0], weights.sum() * shares[shares > 0]  # some may be 0 to rounding
