"""How often one example takes part in a run, on which the privacy of a design rests."""

from __future__ import annotations

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record


@record
class Participation(Record):
    """The steps of a run in which one example can take part.

    Parameters
    ----------
    min_sep
        b >= 1: two participations at the steps i and j have |i − j| >= b (1: every step).  Without effect on a single
        participation.
    max_participations
        k >= 1: the largest number of participations of one example.

    Raises
    ------
    ValueError
        More than one participation, which designs do not cover.
    """

    min_sep: int = 1
    max_participations: int = 1

    def __post_init__(self) -> None:
        self._set(
            min_sep=checks.integer("min_sep", self.min_sep, 1),
            max_participations=checks.integer("max_participations", self.max_participations, 1),
        )
        if not self.single:
            raise ValueError(
                "max_participations must be 1, because the noise multipliers of a design cover runs in which each "
                f"example takes part in at most one step, got {self.max_participations}"
            )

    @property
    def single(self) -> bool:
        """Whether an example takes part at most once."""
        return self.max_participations == 1

    def in_words(self) -> str:
        """The promise as it stands in reports."""
        return "each example in at most one step"
