"""Buffered linear Toeplitz noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from corrnoise.solvers.families.base import LONG_STEPS, Family
from corrnoise.solvers.families.buffers import MAX_BUFFERS, best_buffers
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.objectives.base import LARGEST_MATRIX

USUAL_BUFFERS = 6  #: that are tried
USUAL_LONG_BUFFERS = 4  #: the same in long runs without closed forms
MAX_TRIED_BUFFERS = 8  #: however many are asked for in a comparison


class BLT(Family):
    """Buffers with constant numbers, whose zeros and poles interlace: 1 to 16 buffers."""

    name = "BLT"
    aliases = ("buffers",)
    source = "arXiv 2404.16706"
    needs = "at least two steps"
    look = "C0"

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        finite = memory is not None and math.isfinite(memory)
        usual = USUAL_BUFFERS if run.objective.precise or run.steps <= LARGEST_MATRIX else USUAL_LONG_BUFFERS
        most = min(max(int(memory or 0), usual), MAX_TRIED_BUFFERS) if finite else usual
        most = min(most, run.steps // 2)
        slow = run.steps > LONG_STEPS and not run.objective.precise
        return sorted({1, most}) if slow else list(range(1, most + 1))

    def most(self, run: Problem) -> int:
        return min(MAX_BUFFERS, run.steps // 2)

    def make(self, run: Problem, size: int) -> Mechanism:
        return best_buffers(run.coarse, run.start, size)

    def members(self, run: Problem, sizes: Sequence[int], progress: Callable[[str], None]) -> Iterator[Mechanism]:
        """The members until further buffers do not help."""
        for size, noise in zip(sizes, super().members(run, sizes, progress), strict=True):
            if size > sizes[0] and noise.memory(run.steps) < size:
                return
            yield noise
