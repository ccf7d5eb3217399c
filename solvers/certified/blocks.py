"""Blocks of steps as linear systems, joined in linear time: all compiled code of the floors of long runs.

A block of a recursion (``theory.recursion``) has q inputs, the ways of noise into its steps.  It is given,
for each group, by Φ of shape (m, m) and Γ of shape (m, q), which give its last state Φ v + Γ y, and by the Gram
matrix Q of its errors, shape (m + q, m + q): the sum of the squared errors of its steps is (v, y)ᵀ Q (v, y).
"""

from __future__ import annotations

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.inlined import copy, dot, inlined

_CANCELLATION_SHARE = 1e-15  # share of a squared response that is left by rounding when others are taken off


@kernel
def _pivots(gram: Array, pivots: Array) -> None:
    """Eliminate below the diagonal in place; a pivot that is left by rounding is 0, and explains nothing."""
    m = gram.shape[0]
    for s in range(m):
        before = pivots[s] = gram[s, s]
        for r in range(s):
            before += gram[s, r] * gram[s, r] / pivots[r] if pivots[r] > 0.0 else 0.0
        if not pivots[s] > _CANCELLATION_SHARE * before:
            pivots[s] = 0.0
            continue
        for i in range(s + 1, m):
            for j in range(s + 1, i + 1):
                gram[i, j] -= gram[i, s] * gram[j, s] / pivots[s]


@inlined
def _add(row, factor, other):  # type: ignore[no-untyped-def]
    for i in range(row.size):
        row[i] += factor * other[i]


@inlined
def _add_two(row, one_factor, one, other_factor, other):  # type: ignore[no-untyped-def]
    for i in range(row.size):
        row[i] += one_factor * one[i] + other_factor * other[i]


@inlined
def _add_product(left, right, product):  # type: ignore[no-untyped-def]
    """Add the product of two small matrices."""
    for i in range(left.shape[0]):
        for j in range(left.shape[1]):
            _add(product[i], left[i, j], right[j])


@kernel
def _shown_later(transition, gram, later):  # type: ignore[no-untyped-def]
    """Fill the errors of a state before a part in it and later parts, shape (c + 1, m, m), the last one 0."""
    for c in range(transition.shape[0] - 1, -1, -1):
        copy(gram[c, : later.shape[1], : later.shape[1]], later[c])
        ahead = np.zeros(later.shape[1:])
        _add_product(later[c + 1], transition[c], ahead)
        _add_product(transition[c].T, ahead, later[c])


@inlined
def _move(transition, states, moved):  # type: ignore[no-untyped-def]
    """Fill the states after a part without inputs."""
    for x in range(transition.shape[0]):
        for i in range(moved.shape[1]):
            moved[x, i] = transition[x, 0] * states[0, i]
        for z in range(1, transition.shape[0]):
            _add(moved[x], transition[x, z], states[z])


@inlined
def _add_responses(row, across, states, first, pivots, shares, columns):  # type: ignore[no-untyped-def]
    """Add to the row of an input its products with earlier inputs; the first state explains a part of them.

    ``across`` is its errors times the state, ``first`` the errors of the first state, after elimination, ``columns``
    are the responses to the first state times those to the inputs so far; the last is filled.
    """
    m = pivots.size
    for s in range(m):
        response = dot(across, states[:, s])
        for r in range(s):
            response -= shares[r] * first[s, r]
        shares[s] = response / pivots[s] if pivots[s] > 0.0 else 0.0
        columns[s, row.size - 1] = response
    for s in range(m):
        _add_two(row, across[s], states[s, m:], -shares[s], columns[s])


@kernel
def joined(
    transition: Array, inputs: Array, gram: Array, basis: Array, free: bool
) -> tuple[Array, Array, Array, Array]:
    """Join c blocks that follow on each other, in O(G (c q)² m).

    Parameters
    ----------
    transition, inputs, gram : array of float
        Φ, Γ, Q of the blocks; shapes (c, G, m, m), (c, G, m, q), (c, G, m + q, m + q).
    basis : array of float
        Inputs of the joined block in the inputs of its parts, shape (c q, p).
    free : bool
        Whether responses are orthogonal to all that follow from the first state; if not, the first state is 0.

    Returns
    -------
    (array of float, array of float, array of float, array of float)
        The Gram matrix of the responses to all c q inputs, shape (c q, c q), and Φ, Γ, Q of the joined block.
    """
    count, groups, m, q = inputs.shape
    size, p = basis.shape
    total = np.zeros((size, size))
    states = np.zeros((m, m + size))  # of the first state and the inputs
    moved = np.zeros((m, m + size))
    later = np.zeros((count + 1, m, m))
    ahead = np.zeros((m, m + q))
    own = np.zeros((q, q))
    across, shares, pivots = np.zeros(m), np.zeros(m), np.zeros(m)
    columns = np.zeros((m, size))  # the responses to the first state times those to the inputs
    following = np.zeros((groups, m, m + p))  # Φ and Γ of the joined block
    shown = np.zeros((groups, m + p, m + p))
    entering = np.zeros((m + q, m + p))  # the state before a part and its inputs, in terms of the joined block
    seen = np.zeros((m + q, m + p))
    for g in range(groups):
        _shown_later(transition[:, g], gram[:, g], later)
        if free:
            _pivots(later[0], pivots)
        states[:] = 0.0
        moved[:] = 0.0
        for x in range(m):
            states[x, x] = 1.0
            following[g, x, x] = 1.0
        for c in range(count):
            first = m + c * q
            ahead[:] = 0.0
            _add_product(later[c + 1], inputs[c, g], ahead[:, m:])
            copy(gram[c, g, m:, m:], own)
            _add_product(inputs[c, g].T, ahead[:, m:], own)
            for y in range(q):
                for x in range(m):
                    across[x] = gram[c, g, x, m + y] + dot(transition[c, g, :, x], ahead[:, m + y])
                row = total[c * q + y, : c * q + y + 1]
                _add(row[c * q :], 1.0, own[y])
                _add_responses(row, across, states, later[0], pivots, shares, columns)
            _move(transition[c, g], states[:, :first], moved[:, :first])
            copy(inputs[c, g], moved[:, first : first + q])
            states, moved = moved, states
            copy(following[g], entering[:m])
            copy(basis[c * q : (c + 1) * q], entering[m:, m:])
            seen[:] = 0.0
            _add_product(gram[c, g], entering, seen)
            _add_product(entering.T, seen, shown[g])
            following[g] = 0.0
            _add_product(transition[c, g], entering[:m], following[g])
            _add_product(inputs[c, g], entering[m:], following[g])
    for i in range(size):
        for j in range(i):
            total[j, i] = total[i, j]
    return total, following[:, :, :m].copy(), following[:, :, m:].copy(), shown
