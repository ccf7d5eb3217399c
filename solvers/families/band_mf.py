"""BandMF."""

from __future__ import annotations

from collections.abc import Sequence

from corrnoise.solvers.certified.fixed_epochs import in_fixed_epochs
from corrnoise.solvers.families.banded import best_bands
from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.objectives.base import LARGEST_MATRIX
from corrnoise.theory.participation import Participation

USUAL_SIZE = 16  #: buffers, if no number is asked for


class BandMF(Family):
    """The best strategy with few bands of any form, for min-sep participation: p − 1 buffers for p bands."""

    name = "BandMF"
    aliases = ("any bands",)
    source = "arXiv 2306.08153"
    needs = f"a longer epoch, and at most {LARGEST_MATRIX} steps"
    look = "gold"

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        size = min(USUAL_SIZE, self.most(run))
        return [size] if size >= 1 and run.steps <= LARGEST_MATRIX else []

    def most(self, run: Problem) -> int:
        return in_fixed_epochs(run.who).period - 1

    def make(self, run: Problem, size: int) -> Mechanism:
        apart = Participation.min_sep(run.steps, in_fixed_epochs(run.who).period)
        return best_bands(run.objective, apart, bands=min(size + 1, apart.period), tolerance=1e-4)[0]
