"""Blocks of steps as linear systems, joined in linear time: all compiled code of the floors of long runs.

A block of a recursion (``theory.recursion``) has q inputs, each a way in which noise enters its steps.  It is given,
for each group, by Φ of shape (m, m) and Γ of shape (m, q), with which its last state is Φ v + Γ y, and by the Gram
matrix Q of what it shows, shape (m + q, m + q): the sum of the squared errors of its steps is (v, y)ᵀ Q (v, y).
"""

from __future__ import annotations

import numba
import numpy as np

from corrnoise.theory.numerics.checks import Array

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")
_LOST = 1e-15  # share of a squared response that is left by rounding when others are taken off


@_jit
def _subtract_projection(gram: Array, states: int) -> None:
    """Take off what the first ``states`` responses explain of the others, in place."""
    size = gram.shape[0]
    for s in range(states):
        before = gram[s, s]
        for r in range(s):
            before += gram[r, s] * gram[r, s] / gram[r, r] if gram[r, r] > 0.0 else 0.0
        pivot = gram[s, s]
        if not pivot > _LOST * before:
            gram[s, s] = 0.0
            continue
        for i in range(s + 1, size):
            factor = gram[s, i] / pivot
            for j in range(i, size):
                gram[i, j] -= factor * gram[s, j]


@_jit
def _make_symmetric(matrix: Array) -> None:
    """Copy what is above the diagonal below it."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = matrix[j, i]


@_jit
def joined(
    transition: Array, inputs: Array, gram: Array, basis: Array, free: bool
) -> tuple[Array, Array, Array, Array]:
    """Join c blocks that follow on each other, in O(G (c q)² m).

    Parameters
    ----------
    transition, inputs, gram : Φ, Γ, Q of the blocks; shapes (c, G, m, m), (c, G, m, q), (c, G, m + q, m + q)
    basis : inputs of the joined block in those of its parts, shape (c q, p)
    free : whether responses are orthogonal to all that follow from the first state; if not, the first state is 0

    Returns
    -------
    The Gram matrix of the responses to all c q inputs, shape (c q, c q), and Φ, Γ, Q of the joined block.
    """
    count, groups, m, q = inputs.shape
    size, p = basis.shape
    total = np.zeros((size, size))
    whole = np.zeros((m + size, m + size))
    states = np.zeros((m, m + size))
    later = np.zeros((count + 1, m, m))
    new_transition = np.zeros((groups, m, m))
    new_inputs = np.zeros((groups, m, p))
    new_gram = np.zeros((groups, m + p, m + p))
    for g in range(groups):
        later[count] = 0.0
        for c in range(count - 1, -1, -1):
            later[c] = gram[c, g, :m, :m] + transition[c, g].T @ later[c + 1] @ transition[c, g]
        states[:] = 0.0
        whole[:] = 0.0
        states[:, :m] = np.eye(m)
        whole[:m, :m] = later[0]
        for c in range(count):
            first = m + c * q
            ahead = later[c + 1] @ np.ascontiguousarray(inputs[c, g])
            across = gram[c, g, :m, m:] + transition[c, g].T @ ahead
            whole[:first, first : first + q] = np.ascontiguousarray(states[:, :first]).T @ across
            own = gram[c, g, m:, m:] + np.ascontiguousarray(inputs[c, g]).T @ ahead
            whole[first : first + q, first : first + q] = own
            states[:, :first] = transition[c, g] @ np.ascontiguousarray(states[:, :first])
            states[:, first : first + q] = inputs[c, g]
        _make_symmetric(whole)
        if p > 0:
            new_transition[g] = states[:, :m]
            new_inputs[g] = np.ascontiguousarray(states[:, m:]) @ basis
            new_gram[g, :m, :m] = whole[:m, :m]
            new_gram[g, :m, m:] = np.ascontiguousarray(whole[:m, m:]) @ basis
            new_gram[g, m:, :m] = new_gram[g, :m, m:].T
            new_gram[g, m:, m:] = basis.T @ (np.ascontiguousarray(whole[m:, m:]) @ basis)
        if free:
            _subtract_projection(whole, m)
        for i in range(size):
            for j in range(i, size):
                total[i, j] += whole[m + i, m + j]
    _make_symmetric(total)
    return total, new_transition, new_inputs, new_gram
