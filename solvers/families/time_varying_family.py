"""Time-varying buffers as a family."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.families.time_varying import MAX_BUFFERS, best_time_varying, time_varying_buffers
from corrnoise.support.kernels import is_kept
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.time_varying_gains import class_sums
from corrnoise.theory.objectives.base import LARGEST_MATRIX

USUAL_BUFFERS = 4  #: that are tried, where no number is asked for
MAX_SYSTEM = 60_000_000  #: steps times groups of a linear system, at about 20 bytes and a microsecond for each


class TimeVarying(Family):
    """Buffers whose numbers depend on the step: 1 to 16 buffers, for linear systems."""

    name = "time-varying buffers"
    needs = "an objective that is a linear system, and at least two steps"
    look = "C1"

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        return buffer_counts(run, memory)

    def most(self, run: Problem) -> int:
        return MAX_BUFFERS

    def make(self, run: Problem, size: int) -> Mechanism:
        return best_time_varying(run.objective, run.who, size, run.replays)

    def members(self, run: Problem, sizes: Sequence[int], progress: Callable[[str], None]) -> Iterator[Mechanism]:
        """The members from one search: each number of buffers starts from the results for fewer."""
        what = f"mechanisms: {self.name} with up to {sizes[-1]}"
        progress(what if is_kept(class_sums) else f"{what}: compiling for the first use")
        return time_varying_buffers(run.objective, run.who, sizes, lambda far: progress(f"{what}: {far}"), run.replays)


def buffer_counts(run: Problem, memory: float | None) -> list[int]:
    """The numbers of time-varying buffers that are tried.

    Parameters
    ----------
    run : Problem
        The run.
    memory : float, optional
        The number of buffers that was asked for; ``math.inf`` for any.

    Returns
    -------
    list of int
        1 to 4 and the number that was asked for.  In runs of more than 4096 steps only the largest of them, if a number
        was asked for.  Nothing where the objective is not a linear system, or one of too many numbers.
    """
    most = int(min(USUAL_BUFFERS if memory is None or math.isinf(memory) else memory, MAX_BUFFERS, run.steps - 1))
    if run.steps * run.objective.groups > MAX_SYSTEM or run.coarse.system is None:
        return []
    usual = range(1, USUAL_BUFFERS + 1) if memory is None or run.steps <= LARGEST_MATRIX else [USUAL_BUFFERS]
    return sorted({*(count for count in usual if count <= most), most} - {0})
