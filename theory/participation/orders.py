r"""The four orders.  A relation R with period b is a part of one with period b' exactly in these cases, for b < n:

=============  ============  ====================================================  ============
R \ R'         ``MinSep``    ``FixedEpochs``                                       ``Reshuffled``
=============  ============  ====================================================  ============
MinSep         b >= b'       b' = 1, or n = b + 1 and b' divides b                 b >= b'
FixedEpochs    b >= b'       b' divides b                                          b >= b'
Reshuffled     b' = 1        b' = 1                                                b' divides b
=============  ============  ====================================================  ============

*Proof.*  MinSep has the differences b, …, n − 1.  All are multiples of b' if b' = 1, or if b is the only one and b'
divides it, since two consecutive multiples force b' = 1.  If b >= b', the steps of one block differ by less than b; if
b < b', the related pair (0, b) lies in the first block.  FixedEpochs has the multiples of b as differences, and the
least of them decides.  Reshuffled relates b − 1 and b, so that the first two columns need b' = 1, which relates all
steps.  In the last column b − 1 and b lie in different blocks of b' steps, so that b' divides b; then every block of
b' steps lies in a block of b steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, InitVar, field

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import record
from corrnoise.theory.participation.base import Indices, Order, Unit


@record
class Single(Order, door="single"):
    """At most one step uses an example.

    Parameters
    ----------
    steps : int, optional
        n >= 1: length of the run; None for any length.
    unit : {"example", "user"}, optional
        Whose participation is stated, and whose privacy is meant.
    members : int, optional
        c >= 1: a user holds at most c examples, which are clipped one by one; 1 where the sum of a user is clipped.
    """

    steps: int | None = None
    _: KW_ONLY
    unit: Unit = "example"
    members: int = 1

    label = "single"
    period = 1
    count = 1
    secret = False

    def __post_init__(self) -> None:
        self._check(steps=1)
        self._check_shared()

    def related(self, first: int, second: int) -> bool:
        return False

    def within(self, other: Order) -> bool:
        return True

    def patterns(self) -> Iterator[Indices]:
        return iter(np.arange(self.length, dtype=np.intp)[:, np.newaxis])

    def number_of_patterns(self, most: int | None = None) -> int:
        return self.length

    def largest_sum(self, values: NDArray[np.float64]) -> float:
        return float(values.max())


ANY_LENGTH = Single()  #: single participation in a run of any length


@record
class MinSep(Order, door="min_sep"):
    """At most ``count`` steps use an example, any two of them at least ``period`` apart (1: any steps).

    Parameters
    ----------
    steps : int
        n >= 1: length of the run.
    period : int, optional
        b >= 1: the separation.
    count : int, optional
        k >= 1; None for ceil(n/b), as many as fit.  A larger number does not bind.
    unit : {"example", "user"}, default "example"
        As for ``Single``.
    members : int, default 1
        As for ``Single``.
    """

    steps: int
    period: int = 1
    count: int = None  # type: ignore[assignment]  # a number after __post_init__
    _: KW_ONLY
    unit: Unit = "example"
    members: int = 1

    label = "min-sep"
    secret = False

    def __post_init__(self) -> None:
        self._check_shared()
        _set_epochs(self, self.period, None, self.count)

    def related(self, first: int, second: int) -> bool:
        return abs(first - second) >= self.period

    def within(self, other: Order) -> bool:
        if isinstance(other, FixedEpochs):
            one_difference = self.length == self.period + 1
            return other.period == 1 or (one_difference and self.period % other.period == 0)
        return self.period >= other.period

    def patterns(self) -> Iterator[Indices]:
        """All maximal patterns, in lexicographic order.

        A pattern of fewer than k steps is maximal if no step fits before, between or after its steps.

        Examples
        --------
        >>> import corrnoise as cn
        >>> [list(map(int, steps)) for steps in cn.Participation.min_sep(4, 2).patterns()]
        [[0, 2], [0, 3], [1, 3]]
        """
        n, b, k = self.length, self.period, self.count

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

        return extended([], False)

    def number_of_patterns(self, most: int | None = None) -> int:
        n, b, k = self.length, self.period, self.count
        total = math.comb(n - (k - 1) * (b - 1), k)
        ways = [int(step < b) for step in range(n)]  # maximal beginnings, by their last step
        for _ in range(1, k):
            total += sum(ways[-b:])
            if most is not None and total > most:
                break
            sums = [0, *itertools.accumulate(ways)]
            ways = [sums[max(step - b + 1, 0)] - sums[max(step - 2 * b + 1, 0)] for step in range(n)]
        return total

    def largest_sum(self, values: NDArray[np.float64]) -> float:
        from corrnoise.theory.participation import pattern_sums

        return float(values[pattern_sums.best_pattern(values, self.period, self.count)].sum())

    def _when(self) -> str:
        apart = f"at least {self.period} steps apart" if self.period > 1 else "in any of them"
        return f"in at most {self.count} steps, {apart}"


@record
class FixedEpochs(Order, door="fixed_epochs"):
    """Each epoch uses an example once, with the same order in every epoch.

    Parameters
    ----------
    steps : int
        n >= 1: length of the run.
    period, epochs : int, optional
        b >= 1, the number of steps of an epoch, or the number of epochs, a divisor of ``steps``: one of them.  With
        ``period`` the last epoch may be shorter.
    secret : bool, optional
        Whether the order is uniform and unknown to everyone.
    unit : {"example", "user"}, default "example"
        As for ``Single``.
    members : int, default 1
        As for ``Single``.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.Participation.fixed_epochs(12, epochs=3).period
    4
    """

    steps: int
    _: KW_ONLY
    period: int = None  # type: ignore[assignment]  # a number after __post_init__
    epochs: InitVar[int | None] = None
    secret: bool = False
    unit: Unit = "example"
    members: int = 1
    count: int = field(init=False)

    label = "fixed epochs"

    def __post_init__(self, epochs: int | None) -> None:
        self._check_shared()
        _set_epochs(self, self.period, epochs, None)

    def related(self, first: int, second: int) -> bool:
        return (first - second) % self.period == 0

    def within(self, other: Order) -> bool:
        return self.period % other.period == 0 if isinstance(other, FixedEpochs) else self.period >= other.period

    def patterns(self) -> Iterator[Indices]:
        return iter(self.residue_classes())

    def number_of_patterns(self, most: int | None = None) -> int:
        return min(self.period, self.length)

    def largest_sum(self, values: NDArray[np.float64]) -> float:
        return max(float(values[steps].sum()) for steps in self.residue_classes())

    def _when(self) -> str:
        order = "the same order, which is secret" if self.secret else "the same order"
        return f"{epochs_in_words(self.count, self.period)}, in {order}"


@record
class Reshuffled(Order, door="reshuffled"):
    """Each epoch uses an example at most once, in an order that is drawn for every epoch.

    Parameters
    ----------
    steps, period, epochs, members : int
        As for ``FixedEpochs``.
    secret : bool, default False
        As for ``FixedEpochs``.
    unit : {"example", "user"}, default "example"
        As for ``FixedEpochs``.
    count : int, optional
        k >= 1: the largest number of epochs that use an example; None for all.
    """

    steps: int
    _: KW_ONLY
    period: int = None  # type: ignore[assignment]  # a number after __post_init__
    epochs: InitVar[int | None] = None
    count: int = None  # type: ignore[assignment]  # a number after __post_init__
    secret: bool = False
    unit: Unit = "example"
    members: int = 1

    label = "reshuffled"

    def __post_init__(self, epochs: int | None) -> None:
        self._check_shared()
        _set_epochs(self, self.period, epochs, self.count)

    def related(self, first: int, second: int) -> bool:
        return first // self.period != second // self.period

    def within(self, other: Order) -> bool:
        return self.period % other.period == 0 if isinstance(other, Reshuffled) else other.period == 1

    def patterns(self) -> Iterator[Indices]:
        for chosen in itertools.combinations(self.blocks(), self.count):
            for steps in itertools.product(*(block.tolist() for block in chosen)):
                yield np.array(steps, dtype=np.intp)

    def number_of_patterns(self, most: int | None = None) -> int:
        """The elementary symmetric polynomial of degree k in the sizes of the blocks."""
        ways = [1] + [0] * self.count
        for block in self.blocks():
            for chosen in range(self.count, 0, -1):
                ways[chosen] += ways[chosen - 1] * block.size
        return ways[self.count]

    def largest_sum(self, values: NDArray[np.float64]) -> float:
        most = np.maximum.reduceat(values, np.arange(0, values.size, self.period))
        return float(np.sort(most)[-self.count :].sum())

    def _when(self) -> str:
        return f"{epochs_in_words(self.count, self.period)}, in any order"


def epochs_in_words(count: int, period: int) -> str:
    """How often an example is used in epochs."""
    return f"once in each of {count} epochs of {period} steps"


def _set_epochs(who: Order, period: int | None, epochs: int | None, count: int | None) -> None:
    """Set the steps, the period and the count of an order with epochs or a separation."""
    n = checks.integer("steps", who.steps, 1)
    if (period is None) == (epochs is None):
        raise ValueError(f"period or epochs must be given, one of them, got period={period!r} and epochs={epochs!r}")
    if epochs is not None and n % checks.integer("epochs", epochs, 1):
        raise ValueError(f"steps must be a multiple of epochs={epochs}, got {n}; period= allows a shorter last epoch")
    b = n // epochs if epochs is not None else checks.integer("period", period, 1)
    fit = -(-n // b)
    who._set(steps=n, period=b, count=fit if count is None else min(checks.integer("count", count, 1), fit))
