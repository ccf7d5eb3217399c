"""Discrete measures with many places on the positive axis, replaced by measures with few."""

from __future__ import annotations

import numpy as np

from corrnoise.theory.numerics.checks import Array

_GAUSS = 12  # points of the rule for an octave


def condensed(places: Array, weights: Array, points: int = _GAUSS) -> tuple[Array, Array]:
    """Fewer places s and weights with the same Σ weights/(s + t) at any t with Re t >= 0, to rounding.

    At most ``points`` are left in an octave: the nodes of Gauss's rule for the measure of its places.  The error of n
    nodes falls like (3 − sqrt(8))^{2n}, because −t is outside the ellipse through 0 with the foci 1 and 2.  The same
    holds for 1/(s² + t) with t >= 0.  Σ weights (1 − s)^t with places up to ½ keeps a relative error below 1e-10.
    """
    octaves = np.floor(np.log2(places))
    new: list[tuple[Array, Array]] = []
    for octave in np.unique(octaves):
        s = places[octaves == octave]
        w = weights[octaves == octave]
        if s.size > points:
            nodes, w = _gauss(s / 2.0**octave, w, points)
            s = 2.0**octave * nodes
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
    return nodes, weights.sum() * vectors[0] ** 2
