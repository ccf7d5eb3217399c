"""Why a design has its mechanism: what was judged, the alternatives, the floor, and what more memory would buy.

All of it is plain data, which is saved with the design.  ``designs.selected`` makes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from corrnoise.theory.numerics.records import Record, record

Cell = str | int | float | bool | None


@record
class Alternative(Record):
    """A mechanism that was compared.

    Parameters
    ----------
    family
        Its name.
    memory
        Arrays of the size of the gradient that a stream keeps.
    error
        At the budget of the design.
    exact
        Whether its sensitivity is known exactly; otherwise the error is an upper bound.
    offered
        Whether it could have been chosen; others are listed for comparison.
    """

    family: str
    memory: int
    error: float
    exact: bool = True
    offered: bool = True


@record
class Choice(Record):
    """What a design was chosen from.

    Parameters
    ----------
    judged
        The error that is compared, in words.
    limit
        The mechanisms that were allowed, in words.
    chosen
        The alternative that the design runs.
    alternatives
        All mechanisms that were compared, the chosen one included.
    floor
        An error that no mechanism is below; None where none is computed.
    floor_in_words
        What the floor is a bound of, or why there is none.
    """

    judged: str
    limit: str
    chosen: Alternative
    alternatives: tuple[Alternative, ...]
    floor: float | None
    floor_in_words: str

    def ratio(self, alternative: Alternative) -> float | None:
        """The error over the floor; None without a floor."""
        return None if self.floor is None else alternative.error / self.floor

    def best_of_families(self) -> list[Alternative]:
        """The alternative with the least error of each family, the best first; the last ones may need much memory."""
        best: dict[str, Alternative] = {}
        for one in self.alternatives:
            known = best.get(one.family)
            if known is None or one.error < known.error:
                best[one.family] = one
        return sorted(best.values(), key=lambda one: one.error)

    def gains(self) -> list[Alternative]:
        """What memory buys: with growing memory, each mechanism whose error is below that of all with less memory."""
        found: list[Alternative] = []
        least = math.inf
        for one in sorted(self.alternatives, key=lambda one: (one.memory, one.error)):
            if one.offered and one.error < least:
                found.append(one)
                least = one.error
        return found

    def description(self) -> dict[str, Any]:
        """Plain lists, strings and numbers."""
        return {
            "judged": self.judged,
            "limit": self.limit,
            "chosen": dict(self.chosen.arguments()),
            "alternatives": [dict(one.arguments()) for one in self.alternatives],
            "floor": self.floor,
            "floor_in_words": self.floor_in_words,
        }

    @classmethod
    def of_description(cls, described: Mapping[str, Any]) -> Choice:
        """The choice that ``description`` describes.

        Parameters
        ----------
        described
            As from ``description``.
        """
        rows = tuple(Alternative(**row) for row in described["alternatives"])
        return cls(**{**described, "chosen": Alternative(**described["chosen"]), "alternatives": rows})


def in_words(choice: Choice) -> str:
    """The choice as text: what was judged, the floor, the alternatives, and what more memory would buy."""
    lines = [
        f"Chosen: {_named(choice.chosen)}, which keeps {_arrays(choice.chosen.memory)}.",
        f"Judged: {choice.judged}.",
        f"Allowed: {choice.limit}.",
        f"Floor: {choice.floor_in_words}",
        "",
        *_table(choice, "what memory buys", sorted({*choice.gains(), choice.chosen}, key=lambda one: one.memory)),
        "",
        *_table(choice, "the best of each kind", choice.best_of_families()),
        "",
        "Memory: arrays of the size of the gradient that a stream keeps.  Errors are at the budget of this design.",
    ]
    if not all(one.exact for one in choice.alternatives):
        lines.append("<=: the sensitivity is only bounded, and so is the error; the multiplier covers the bound.")
    if not all(one.offered for one in choice.alternatives):
        lines.append("(…): for comparison; it is not offered as a design.")
    return "\n".join(lines)


def _named(one: Alternative) -> str:
    return one.family if one.offered else f"({one.family})"


def _arrays(count: int) -> str:
    return "no array" if count == 0 else "1 array" if count == 1 else f"{count} arrays"


def _table(choice: Choice, title: str, rows: list[Alternative]) -> list[str]:
    over = "" if choice.floor is None else f"{'over the floor':>18}"
    lines = [f"  {title:<34}{'memory':>8}{'error':>18}{over}"]
    for one in rows:
        error = f"{'' if one.exact else '<= '}{one.error:.6g}"
        ratio = choice.ratio(one)
        mark = "  <- this design" if one == choice.chosen else ""
        lines.append(
            f"  {_named(one):<34}{one.memory:>8}{error:>18}" + ("" if ratio is None else f"{ratio:>18.4f}") + mark
        )
    return lines
