"""Parts of the inverses of banded matrices, in linear time: all compiled code of the certified optimum.

``bidiagonal_root`` and ``bidiagonal_root_matrix`` take a bidiagonal L by the squares of its entries, d_i = L_ii² and
e_i = L_{i+1,i}², and return parts of (L Lᵀ)^{−½} = Σ_j w_j (L Lᵀ + c_j)⁻¹.  They only add, multiply and divide positive
numbers:

    s_0 = c,  s_{i+1} = c + r_{i+1},  r_{i+1} = e_i s_i/(d_i + s_i);
    p_{n−1} = c + d_{n−1},  p_i = c + d_i p_{i+1}/(e_i + p_{i+1});
    [(L Lᵀ + c)⁻¹]_ii = 1/(p_i + r_i),  r_0 = 0.

A relative error δ of s_i becomes δ d_i/(d_i + s_i) < δ of r_{i+1}, so errors do not grow: a step adds four roundings
and, where d and e carry two each, eight.  So the relative error of a diagonal entry is at most that of 8 n + m
roundings.  The same holds for p.
"""

from __future__ import annotations

import numba
import numpy as np

from corrnoise.theory.numerics.checks import Array

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")
_LANES = 8  # poles that run through the recursions side by side


@_jit
def bidiagonal_root(d: Array, e: Array, poles: Array, weights: Array) -> Array:
    """The diagonal of Σ_j w_j (L Lᵀ + c_j)⁻¹, shape (n,), in O(n m)."""
    n = d.size
    diagonal = np.zeros(n)
    above = np.zeros((n, _LANES))
    for first in range(0, poles.size, _LANES):
        c = np.ones(_LANES)
        w = np.zeros(_LANES)
        for j in range(min(_LANES, poles.size - first)):
            c[j] = poles[first + j]
            w[j] = weights[first + j]
        for i in range(n - 1):
            for j in range(_LANES):
                s = c[j] + above[i, j]
                above[i + 1, j] = e[i] * s / (d[i] + s)
        p = c + d[n - 1]
        for i in range(n - 1, -1, -1):
            total = 0.0
            for j in range(_LANES):
                total += w[j] / (p[j] + above[i, j])
            diagonal[i] += total
            if i > 0:
                for j in range(_LANES):
                    p[j] = c[j] + d[i - 1] * p[j] / (e[i - 1] + p[j])
    return diagonal


@_jit
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
