"""How unlike public records are to the private ones they stand in for, in the gradients that an epoch sums.

If the first n_d steps of an epoch use private records and the others public ones, the sums

    v_i(z) = Σ_{j = n_d+1}^{i} (∇f(z; d_{π_j}) − ∇f(z; p_{j − n_d})),    n_d < i <= n,

bound the effect of the public records on the run: C_i² >= E ‖v_i(z)‖² (published with E ‖v_i‖, where the proofs need
the square).  Over a fresh permutation this is exact at every z: with m = i − n_d, the mean ḡ of the private gradients
and their variance, E ‖v_i‖² = ‖P_m − m ḡ‖² + m (n − m)/(n − 1) var, P_m the sum of the first m public gradients.

Source: Jiang, Sharma, Wu and Joshi, 2026: Assumption 3.6, Section 5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_MOST_IN_A_PLANE = 100


def reshuffled_dissimilarity(private_gradients: ArrayLike, public_gradients: ArrayLike) -> Array:
    """E ‖v_i(z)‖² over a uniform permutation, for i = n_d + 1, …, n, from the gradients at z.

    Shape (m,); the last entry is C_n² at z, and (1/n) times the sum of the others the partial dissimilarity.  The
    shapes of the gradients are (n, d) for all private records and (m, d), m = n − n_d, for the public ones in the order
    of use.
    """
    g, p = _gradients(private_gradients, public_gradients)
    n = len(g)
    m = np.arange(1.0, len(p) + 1)
    mean = g.mean(axis=0)
    variance = float(np.square(g - mean).sum()) / n
    bias = np.cumsum(p - mean, axis=0)
    return np.asarray(np.square(bias).sum(axis=1) + m * (n - m) / max(n - 1, 1) * variance)


def worst_order_dissimilarity_bounds(private_gradients: ArrayLike, public_gradients: ArrayLike) -> tuple[float, float]:
    """Lower and upper bound of max_π ‖v_n(z)‖, over all orders of the private records.

    The maximum over subsets S of m records of ‖P_m − Σ_S g‖ is a convex maximisation.  The best S holds the m smallest
    products with some direction: with all public records, in one dimension, and in two for up to 100 records, all such
    subsets are tried and both bounds are exact.  Otherwise, below: alternating between the subset that is best in a
    direction and the direction of its sum.  Above: the triangle inequality, with the m largest deviations, or the
    largest singular value of the centred gradients.  Arguments as for ``reshuffled_dissimilarity``.
    """
    g, p = _gradients(private_gradients, public_gradients)
    n, m = len(g), len(p)
    total = p.sum(axis=0)
    mean = g.mean(axis=0)
    if m == n:
        exact = float(np.linalg.norm(total - g.sum(axis=0)))
        return exact, exact
    directions = all_directions(g)
    if directions is not None:
        chosen = np.argpartition(g @ directions.T, m - 1, axis=0)[:m]
        exact = float(np.linalg.norm(total - g[chosen].sum(axis=0), axis=1).max())
        return exact, exact
    centred = g - mean
    deviations = np.sort(np.linalg.norm(centred, axis=1))[::-1]
    spread = min(
        float(deviations[: min(m, n - m)].sum()), float(np.linalg.norm(centred, 2)) * float(np.sqrt(m * (n - m) / n))
    )
    upper = float(np.linalg.norm(total - m * mean)) + spread
    lower = 0.0
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    for direction in (*axes[:4], *-axes[:4], total - m * mean):
        for _ in range(50):
            chosen = np.argsort(g @ direction)[:m]  # the smallest products leave the longest difference
            difference = total - g[chosen].sum(axis=0)
            length = float(np.linalg.norm(difference))
            if length <= lower * (1 + 1e-14):
                break
            lower, direction = length, difference
    return lower, upper


def all_directions(g: Array) -> Array | None:
    """Directions that sort the records in every order that a direction can give; None where there are too many."""
    n, d = g.shape
    if d == 1:
        return np.array([[1.0], [-1.0]])
    if d > 2 or n > _MOST_IN_A_PLANE:
        return None
    first, second = np.triu_indices(n, 1)
    gaps = g[first] - g[second]
    turns = np.arctan2(gaps[:, 1], gaps[:, 0]) + np.pi / 2  # where two records have the same product
    angles = np.sort(np.concatenate([turns, turns + np.pi]) % (2 * np.pi))
    if angles.size == 0:
        return np.array([[1.0, 0.0]])
    between = angles + np.diff(np.append(angles, angles[0] + 2 * np.pi)) / 2
    return np.column_stack([np.cos(between), np.sin(between)])


def _gradients(private: ArrayLike, public: ArrayLike) -> tuple[Array, Array]:
    g, p = checks.reals("private_gradients", private), checks.reals("public_gradients", public)
    if g.ndim != 2 or p.ndim != 2 or g.shape[1:] != p.shape[1:] or not 0 < len(p) <= len(g):
        raise ValueError(
            "private_gradients and public_gradients must have shapes (n, d) and (m, d) with 1 <= m <= n, "
            f"got {g.shape} and {p.shape}"
        )
    return g, p
