"""Blocks of steps as linear systems, joined in linear time: all compiled code of the floors of long runs.

A block of a recursion (``theory.recursion``) has q inputs, each a way in which noise enters its steps.  It is given,
for each group, by Φ of shape (m, m) and Γ of shape (m, q), with which its last state is Φ v + Γ y, and by the Gram
matrix Q of what it shows, shape (m + q, m + q): the sum of the squared errors of its steps is (v, y)ᵀ Q (v, y).
"""

from __future__ import annotations

import numba
import numpy as np

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.inlined import inlined

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")
_LOST = 1e-15  # share of a squared response that is left by rounding when others are taken off


@_jit
def _subtract_projection(gram: Array, states: int) -> None:
    """Take off what the first ``states`` responses explain of the others, in place, below the diagonal."""
    size = gram.shape[0]
    column = np.empty(size)
    for s in range(states):
        pivot = gram[s, s]
        before = pivot
        for r in range(s):
            before += gram[s, r] * gram[s, r] / gram[r, r] if gram[r, r] > 0.0 else 0.0
        if not pivot > _LOST * before:
            gram[s, s] = 0.0
            continue
        column[:] = gram[:, s]
        for i in range(s + 1, size):
            _add(gram[i, s + 1 : i + 1], -column[i] / pivot, column[s + 1 : i + 1])


@inlined
def _add(row, factor, other):  # type: ignore[no-untyped-def]
    for i in range(row.size):
        row[i] += factor * other[i]


@inlined
def _add_product(left, right, product):  # type: ignore[no-untyped-def]
    """Add the product of two small matrices."""
    for i in range(left.shape[0]):
        for j in range(left.shape[1]):
            _add(product[i], left[i, j], right[j])


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
    moved = np.zeros((m, m + size))
    later = np.zeros((count + 1, m, m))
    ahead = np.zeros((m, m + q))
    following = np.zeros((groups, m, m + p))  # Φ and Γ of the joined block
    shown = np.zeros((groups, m + p, m + p))
    entering = np.zeros((m + q, m + p))  # the state before a part and its inputs, in those of the joined block
    seen = np.zeros((m + q, m + p))
    for g in range(groups):
        for c in range(count - 1, -1, -1):
            later[c] = gram[c, g, :m, :m]
            ahead[:] = 0.0
            _add_product(later[c + 1], transition[c, g], ahead[:, :m])
            _add_product(transition[c, g].T, ahead[:, :m], later[c])
        states[:] = 0.0
        whole[:] = 0.0
        whole[:m, :m] = later[0]
        for x in range(m):
            states[x, x] = 1.0
            following[g, x, x] = 1.0
        for c in range(count):
            first = m + c * q
            ahead[:] = 0.0
            _add_product(later[c + 1], inputs[c, g], ahead[:, m:])
            own = whole[first : first + q, first : first + q]
            own[:] = gram[c, g, m:, m:]
            _add_product(inputs[c, g].T, ahead[:, m:], own)
            for x in range(m):  # what the inputs cause across, times what earlier ones leave
                for y in range(q):
                    across = gram[c, g, x, m + y]
                    for z in range(m):
                        across += transition[c, g, z, x] * ahead[z, m + y]
                    _add(whole[first + y, :first], across, states[x, :first])
            moved[:, :first] = 0.0
            _add_product(transition[c, g], states[:, :first], moved[:, :first])
            moved[:, first : first + q] = inputs[c, g]
            states[:, : first + q] = moved[:, : first + q]
            entering[:m] = following[g]
            entering[m:, m:] = basis[c * q : (c + 1) * q]
            seen[:] = 0.0
            _add_product(gram[c, g], entering, seen)
            _add_product(entering.T, seen, shown[g])
            following[g] = 0.0
            _add_product(transition[c, g], entering[:m], following[g])
            _add_product(inputs[c, g], entering[m:], following[g])
        if free:
            _subtract_projection(whole, m)
        for i in range(size):
            _add(total[i, : i + 1], 1.0, whole[m + i, m : m + i + 1])
    for i in range(size):
        for j in range(i):
            total[j, i] = total[i, j]
    return total, following[:, :, :m].copy(), following[:, :, m:].copy(), shown
