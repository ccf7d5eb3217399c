"""Patterns: the sets of steps that may use one example, and the number of maximal ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from corrnoise.theory.participation import Indices, Participation


def patterns(participation: Participation) -> Iterator[Indices]:
    """All maximal patterns of ``participation.worst``, in lexicographic order.

    A pattern of fewer than k steps is maximal if no step fits before, between or after its steps.

    Parameters
    ----------
    participation : Participation
        The data order.

    Examples
    --------
    >>> [list(map(int, steps)) for steps in patterns(Participation.min_sep(4, 2))]
    [[0, 2], [0, 3], [1, 3]]
    >>> [list(map(int, steps)) for steps in patterns(Participation.fixed_epochs(4, epochs=2))]
    [[0, 2], [1, 3]]
    """
    who = participation.worst
    n, b, k = who.length, who.period, who.count
    if who.kind == "fixed epochs":
        yield from who.residue_classes()
        return
    if who.kind == "reshuffled":
        for chosen in itertools.combinations(who.blocks(), k):
            for steps in itertools.product(*(block.tolist() for block in chosen)):
                yield np.array(steps, dtype=np.intp)
        return

    def extended(pattern: list[int], roomy: bool) -> Iterator[Indices]:
        first = pattern[-1] + b if pattern else 0
        if len(pattern) == k or (first >= n and not roomy):
            yield np.array(pattern, dtype=np.intp)
            return
        for step in range(first, n):
            leaves_room = roomy or step >= first + b  # then only k steps make it maximal
            if leaves_room and step + (k - len(pattern) - 1) * b >= n:
                return
            yield from extended([*pattern, step], leaves_room)

    yield from extended([], False)


def number_of_patterns(participation: Participation, most: int | None = None) -> int:
    """How many maximal patterns there are, in O(n k).

    Parameters
    ----------
    participation : Participation
        The data order.
    most : int, optional
        Counting stops above this number; None to count them all.
    """
    who = participation.worst
    n, b, k = who.length, who.period, who.count
    if who.kind == "fixed epochs":
        return min(b, n)
    if who.kind == "reshuffled":
        return _elementary([block.size for block in who.blocks()], k)
    total = math.comb(n - (k - 1) * (b - 1), k)
    ways = [int(step < b) for step in range(n)]  # maximal beginnings, by their last step
    for _ in range(1, k):
        total += sum(ways[-b:])
        if most is not None and total > most:
            break
        sums = [0, *itertools.accumulate(ways)]
        ways = [sums[max(step - b + 1, 0)] - sums[max(step - 2 * b + 1, 0)] for step in range(n)]
    return total


def _elementary(sizes: list[int], degree: int) -> int:
    """The elementary symmetric polynomial: the number of ways to take one of each of ``degree`` blocks."""
    ways = [1] + [0] * degree
    for size in sizes:
        for chosen in range(degree, 0, -1):
            ways[chosen] += ways[chosen - 1] * size
    return ways[degree]
