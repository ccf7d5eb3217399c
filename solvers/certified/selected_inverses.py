"""Parts of the inverses of banded matrices, in linear time: all compiled code of the certified optimum.

``bidiagonal_root`` and ``bidiagonal_root_matrix`` take a bidiagonal L by the squares of its entries, d_i = L_ii² and
e_i = L_{i+1,i}², and return parts of (L Lᵀ)^{−½} = Σ_j w_j (L Lᵀ + c_j)⁻¹.  They only add, multiply and divide positive
numbers:

    s_0 = c,  s_{i+1} = c + r_{i+1},  r_{i+1} = e_i s_i/(d_i + s_i);
    p_{n−1} = c + d_{n−1},  p_i = c + d_i p_{i+1}/(e_i + p_{i+1});
    [(L Lᵀ + c)⁻¹]_ii = 1/(p_i + r_i),  r_0 = 0.

A relative error δ of s_i becomes δ d_i/(d_i + s_i) < δ of r_{i+1}, so errors do not grow: a step adds four roundings
and, where d and e carry two each, eight.  So the relative error of a diagonal entry is at most the error of 8 n +
m roundings.  The same holds for p.
"""

from __future__ import annotations

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.checks import Array

_POLE_LANES = 8  # poles that run through the recursions side by side


@kernel
def bidiagonal_root(d: Array, e: Array, poles: Array, weights: Array) -> Array:
    """The diagonal of Σ_j w_j (L Lᵀ + c_j)⁻¹, shape (n,), in O(n m)."""
    n = d.size
    diagonal = np.zeros(n)
    above = np.zeros((n, _POLE_LANES))
    for first in range(0, poles.size, _POLE_LANES):
        c = np.ones(_POLE_LANES)
        w = np.zeros(_POLE_LANES)
        for j in range(min(_POLE_LANES, poles.size - first)):
            c[j] = poles[first + j]
            w[j] = weights[first + j]
        for i in range(n - 1):
            for j in range(_POLE_LANES):
                s = c[j] + above[i, j]
                above[i + 1, j] = e[i] * s / (d[i] + s)
        p = c + d[n - 1]
        for i in range(n - 1, -1, -1):
            total = 0.0
            for j in range(_POLE_LANES):
                total += w[j] / (p[j] + above[i, j])
            diagonal[i] += total
            if i > 0:
                for j in range(_POLE_LANES):
                    p[j] = c[j] + d[i - 1] * p[j] / (e[i - 1] + p[j])
    return diagonal


@kernel
def bidiagonal_root_matrix(d: Array, e: Array, poles: Array, weights: Array) -> Array:
    """Σ_j w_j (L Lᵀ + c_j)⁻¹ for L with positive diagonal and negative other entries, shape (n, n), in O(n² m).

    The column k of the inverse falls from its diagonal entry upwards by the factors sqrt(d_i e_i)/(d_i + s_i).
    """
    n = d.size
    m = poles.size
    root = np.zeros((n, n))
    above = np.zeros((n, m))
    below = np.zeros((n, m))
    for j in range(m):
        for i in range(n - 1):
            s = poles[j] + above[i, j]
            above[i + 1, j] = e[i] * s / (d[i] + s)
        below[n - 1, j] = poles[j] + d[n - 1]
        for i in range(n - 2, -1, -1):
            below[i, j] = poles[j] + d[i] * below[i + 1, j] / (e[i] + below[i + 1, j])
    rows = np.zeros((m, n))
    for i in range(n - 1, -1, -1):
        for j in range(m):
            if i < n - 1:
                factor = np.sqrt(d[i] * e[i]) / (d[i] + poles[j] + above[i, j])
                for k in range(i + 1, n):
                    rows[j, k] *= factor
            rows[j, i] = weights[j] / (below[i, j] + above[i, j])
            for k in range(i, n):
                root[i, k] += rows[j, k]
        for k in range(i + 1, n):
            root[k, i] = root[i, k]
    return root


@kernel
def banded_root(bands: Array, poles: Array, weights: Array) -> Array:
    """The diagonal of Σ_j w_j (K + c_j)⁻¹ for a symmetric positive definite band matrix K, shape (n,), in O(n p² m).

    Entry (i, t) of ``bands``, shape (p, n), is K_{t+i,t}; what lies outside of K is 0.  K + c = T D Tᵀ with a
    unit lower triangular T is followed by the part Z of the inverse within the band (Takahashi's equations),
    Z_jj = 1/D_j − Σ_m Z_{j+m,j} T_{j+m,j} and Z_{j+i,j} = −Σ_m Z_{j+i,j+m} T_{j+m,j}.
    """
    p, n = bands.shape
    diagonal = np.zeros(n)
    pivots = np.zeros(n)
    factor = np.zeros((p, n))
    inverse = np.zeros((p, n))
    for k in range(poles.size):
        for j in range(n):
            pivot = bands[0, j] + poles[k]
            for m in range(1, min(p, j + 1)):
                pivot -= factor[m, j - m] ** 2 * pivots[j - m]
            pivots[j] = pivot
            for i in range(1, min(p, n - j)):
                entry = bands[i, j]
                for m in range(1, min(p - i, j + 1)):
                    entry -= factor[m + i, j - m] * factor[m, j - m] * pivots[j - m]
                factor[i, j] = entry / pivot
        for j in range(n - 1, -1, -1):
            last = min(p, n - j)
            for i in range(1, last):
                total = 0.0
                for m in range(1, last):
                    total += inverse[abs(i - m), j + min(i, m)] * factor[m, j]
                inverse[i, j] = -total
            total = 1 / pivots[j]
            for m in range(1, last):
                total -= inverse[m, j] * factor[m, j]
            inverse[0, j] = total
            diagonal[j] += weights[k] * total
    return diagonal


@kernel
def _inverse(matrix: Array) -> Array:
    """The inverse of a symmetric positive definite matrix, by Gauss-Jordan elimination."""
    inverse = matrix.copy()
    k = matrix.shape[0]
    for pivot in range(k):
        reciprocal = 1 / inverse[pivot, pivot]
        inverse[pivot, pivot] = 1.0
        for j in range(k):
            inverse[pivot, j] *= reciprocal
        for i in range(k):
            if i != pivot:
                factor = inverse[i, pivot]
                inverse[i, pivot] = 0.0
                for j in range(k):
                    inverse[i, j] -= factor * inverse[pivot, j]
    return inverse


@kernel
def _times(left: Array, right: Array) -> Array:
    """The product of small matrices."""
    k = left.shape[0]
    result = np.zeros((k, k))
    for i in range(k):
        for s in range(k):
            for j in range(k):
                result[i, j] += left[i, s] * right[s, j]
    return result


@kernel
def _subtract(target: Array, left: Array, right: Array) -> None:
    """Subtract left · rightᵀ from ``target``."""
    k = left.shape[0]
    for i in range(k):
        for j in range(k):
            for s in range(k):
                target[i, j] -= left[i, s] * right[j, s]


@kernel
def _copy(target: Array, matrix: Array) -> None:
    k = matrix.shape[0]
    for i in range(k):
        for j in range(k):
            target[i, j] = matrix[i, j]


@kernel
def _add(target: Array, weight: float, matrix: Array) -> None:
    """Add weight · matrix to ``target``, by loops because array expressions take ten times as long to compile."""
    k = matrix.shape[0]
    for i in range(k):
        for j in range(k):
            target[i, j] += weight * matrix[i, j]


@kernel
def _transposed(matrix: Array) -> Array:
    k = matrix.shape[0]
    result = np.zeros((k, k))
    for i in range(k):
        for j in range(k):
            result[i, j] = matrix[j, i]
    return result


@kernel
def _scaled(rows: Array, matrix: Array, columns: Array) -> Array:
    """Diag ``rows`` · matrix · diag ``columns``."""
    k = matrix.shape[0]
    result = np.zeros((k, k))
    for i in range(k):
        for j in range(k):
            result[i, j] = rows[i] * matrix[i, j] * columns[j]
    return result


@kernel
def ring_root(diagonal: Array, links: Array, borders: Array, weighted: Array, poles: Array, weights: Array) -> Array:
    """The diagonal blocks of Σ_j w_j (K + c_j R)⁻¹ for K block tridiagonal but for its corners, in O(b k³ m).

    Block r of K is ``diagonal[r]``, block (r, r + 1) is −diag ``links[r]`` for 1 <= r < b − 1, and block (r, 0) is
    ``borders[r]``, which is not 0 for r = 1 and r = b − 1.  R is block diagonal with the blocks ``weighted``.  All have
    shape (b, k, k), links (b, k) with ``links[b - 1]`` = 0.  Blocks 1, …, b − 1 are eliminated in this order, block 0
    last; then the blocks (r, r), (r, r + 1) and (r, 0) of the inverse follow from the blocks of r + 1.
    """
    b, k, _ = diagonal.shape
    ones = np.ones(k)
    roots = np.zeros((b, k, k))
    inverses = np.zeros((b, k, k))
    filled = np.zeros((b, k, k))  # block (r, 0) when block r is eliminated
    first, block = np.empty((k, k)), np.empty((k, k))
    for j in range(poles.size):
        _copy(first, diagonal[0])
        _add(first, poles[j], weighted[0])
        for r in range(1, b):
            _copy(block, diagonal[r])
            _add(block, poles[j], weighted[r])
            _copy(filled[r], borders[r])
            if r > 1:
                _add(block, -1.0, _scaled(links[r - 1], inverses[r - 1], links[r - 1]))
                _add(filled[r], 1.0, _scaled(links[r - 1], _times(inverses[r - 1], filled[r - 1]), ones))
            _copy(inverses[r], _inverse(block))
            across = _transposed(filled[r])
            _subtract(first, _times(across, inverses[r]), across)
        corner = _inverse(first)
        _add(roots[0], weights[j], corner)
        _add(block, -1.0, block)
        to_first = np.zeros((k, k))
        for r in range(b - 1, 0, -1):
            right = _scaled(links[r], block, ones)  # 0 for the last r
            _subtract(right, filled[r], to_first)
            to_next = _times(inverses[r], right)
            right = _scaled(links[r], to_first, ones)
            _subtract(right, filled[r], corner)
            to_first = _times(inverses[r], right)
            left = _scaled(ones, to_next, links[r])
            _subtract(left, to_first, filled[r])
            _copy(block, inverses[r])
            _add(block, 1.0, _times(left, inverses[r]))
            _add(roots[r], weights[j], block)
    return roots
