"""Largest sums over patterns of participation, compiled.

A pattern here is a set of steps that are at least b apart, at most k of them.  Nothing here checks its arguments.  All
compiled functions of this subject live in this file, because numba's cache does not notice a change of a callee in
another one.
"""

from __future__ import annotations

import numpy as np

from corrnoise.support.kernels import kernel


@kernel
def best_pattern(values, min_sep, count):  # type: ignore[no-untyped-def]
    """The pattern with the largest sum of ``values`` >= 0: its steps.

    f_a(i) = max(f_a(i + 1), x_i + f_{a−1}(i + b)) is the largest sum of a steps at most, from step i on.
    """
    n = values.size
    best = np.zeros((count + 1, n + 1))
    for a in range(1, count + 1):
        for i in range(n - 1, -1, -1):
            best[a, i] = max(best[a, i + 1], values[i] + best[a - 1, min(i + min_sep, n)])
    pattern = np.empty(count, dtype=np.intp)
    size, i = 0, 0
    while size < count and i < n:
        a = count - size
        if best[a, i + 1] > values[i] + best[a - 1, min(i + min_sep, n)]:
            i += 1
        else:
            pattern[size] = i
            size += 1
            i += min_sep
    return pattern[:size].copy()


@kernel
def row_bounds(sizes, min_sep, count, saturated):  # type: ignore[no-untyped-def]
    """v_i, the largest sum of ``sizes[i, j]`` >= 0 over the steps j of a pattern that contains i, for each i.

    The part before i and the part after it share k − 1 steps.  Where the separation alone limits their number
    (``saturated``) it is not counted.
    """
    n = sizes.shape[0]
    result = np.empty(n)
    states = 1 if saturated else count  # parts of at most 0, 1, …, k − 1 steps
    before = np.zeros((states, n + 1))  # [a, j]: from the steps < j
    after = np.zeros((states, n + 1))  # [a, j]: from the steps >= j
    for i in range(n):
        for a in range(states):
            if a == 0 and not saturated:
                continue  # stays 0
            fewer = a if saturated else a - 1
            for j in range(max(i - min_sep + 1, 0)):
                before[a, j + 1] = max(before[a, j], sizes[i, j] + before[fewer, max(j + 1 - min_sep, 0)])
            for j in range(n - 1, i + min_sep - 1, -1):
                after[a, j] = max(after[a, j + 1], sizes[i, j] + after[fewer, min(j + min_sep, n)])
        first = max(i - min_sep + 1, 0)
        last = min(i + min_sep, n)
        best = 0.0
        for a in range(states):
            best = max(best, before[a, first] + after[states - 1 - a, last])
        result[i] = sizes[i, i] + best
    return result
