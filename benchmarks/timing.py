"""Time two callables against each other.

The two run in turns, A B A B, so that a machine that slows down or is shared slows both alike, and what counts is the
CPU time of the process (all its threads), so that waiting for other processes does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Side:
    """One way to a result.

    Parameters
    ----------
    name
        What it is, for the table.
    run
        The call, without arguments.
    items
        For how many items (values, steps) one call pays.  Where the cost of an item grows with the size of the
        problem, a smaller run pays for fewer items than it returns: say so in ``name``.
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
    calls, elapsed, start = 0, 0.0, time.process_time()
    while calls == 0 or elapsed <= shortest:
        side.run()
        calls, elapsed = calls + 1, time.process_time() - start
    return elapsed / (calls * side.items)


def measure(ours: Side, other: Side, *, turns: int, shortest: float) -> Timing:
    """Time the sides in ``turns`` turns, repeating calls in each until ``shortest`` seconds (> 0) have passed.

    Nothing is warmed up here: call both sides once before.
    """
    pairs = [(_seconds_an_item(ours, shortest), _seconds_an_item(other, shortest)) for _ in range(turns)]
    return Timing(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
