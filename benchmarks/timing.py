"""Time two callables against each other.

The two run in turns, A B A B, so a machine that slows down or is shared slows both.  The CPU time of the process is
measured, over all its threads, so the time spent waiting for other processes does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Side:
    """One way to compute a result.

    Parameters
    ----------
    name : name in the table
    run : the call, without arguments
    items : number of items (values, steps) that divide the time of one call.  If the time per item grows with
        the size of the problem, a smaller run counts for fewer items than it returns, and ``name`` says so.
    """

    name: str
    run: Callable[[], Any]
    items: float


@dataclass(frozen=True)
class Timing:
    """Seconds of CPU time an item, one entry a turn, of the two sides."""

    ours: tuple[float, ...]
    other: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Time of the other side over ours, one entry a turn."""
        return [b / a for a, b in zip(self.ours, self.other, strict=True)]

    @property
    def ratio(self) -> float:
        """Median over the turns; above 1, ours is faster."""
        return median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest ratio of a turn."""
        return min(self.ratios), max(self.ratios)


def _seconds_an_item(side: Side, shortest: float) -> float:
    calls = 0
    elapsed = 0.0
    start = time.process_time()
    while calls == 0 or elapsed <= shortest:
        side.run()
        calls += 1
        elapsed = time.process_time() - start
    return elapsed / (calls * side.items)


def measure(ours: Side, other: Side, *, turns: int, shortest: float) -> Timing:
    """Time the sides in ``turns`` turns, repeating calls in each until ``shortest`` seconds (> 0) have passed.

    The caller calls both sides once before, for example to compile.
    """
    pairs = [(_seconds_an_item(ours, shortest), _seconds_an_item(other, shortest)) for _ in range(turns)]
    return Timing(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
