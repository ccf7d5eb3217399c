"""An exact audit of clipped sums: the change that one example makes, through the model and the loss, without noise.

A sum of clipped gradients has three properties.  The sum of one example alone is at most one clipping norm long.  An
example moves the sum of a batch by this sum, whatever the other examples are.  The order does not count.  So an audit
compares the sum of eight examples, the sum without one example, and the sum of this example alone.  The example is used
as it is and with unusual contents.  Without noise nothing is random: a longer move refutes the claim with certainty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from corrnoise.support.wording import summary_html, summary_text
from corrnoise.theory.auditing.findings import Verdict
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

BATCH_EXAMPLES = 8
SUM_TOLERANCE = 1e-3  #: clipping norms, of rounding errors
HALF_TOLERANCE = 2e-2  #: clipping norms, where a model computes in half precision


@record
class SumAudit(Record):
    """Whether the clipped sums of a run are as claimed; ``run.audit_sums()`` makes it.

    Attributes
    ----------
    verdict : str
        ``"nothing found"``, ``"noise not as claimed"`` (examples change each other) or ``"not private as claimed"``.
    cause : str
        Why, in plain words; empty if nothing was found.
    move : float
        The greatest move of a sum by one example, in clipping norms.
    influence : float
        The greatest change of the other examples' contribution, in clipping norms.
    sums : int
        Number of sums.
    refused : int
        How often the model or the loss raised an error for unusual contents, which then are not audited.
    """

    verdict: Verdict
    cause: str
    move: float
    influence: float
    sums: int
    refused: int

    def __str__(self) -> str:
        return summary_text(self._opening, self._facts())

    def _repr_html_(self) -> str:
        return summary_html(self._opening, self._facts())

    @property
    def _opening(self) -> str:
        if self.verdict == "nothing found":
            return "Nothing found: an audit can refute a claim and cannot prove one."
        return f"{self.verdict.capitalize()}: {self.cause}."

    def _facts(self) -> dict[str, str]:
        return {
            "Move": f"at most {self.move:.4g} clipping norms by one example; the claim is 1",
            "Influence": f"at most {self.influence:.2g} clipping norms on other examples; the claim is 0",
            "Sums": f"{self.sums}, without noise",
            "Refused": f"{self.refused} times unusual contents, by the model or the loss",
        }


class Example(NamedTuple):
    """An example: its number, and a batch with this example alone."""

    number: int
    row: Any


class SumChange(NamedTuple):
    """The length of a vector in clipping norms, and the example that makes it."""

    size: float
    where: str


class SumChanges(NamedTuple):
    """The sum of one example alone, its move of the sum of a batch, and the change of the others' contribution."""

    alone: SumChange
    move: SumChange
    influence: SumChange


NO_CHANGE = SumChange(0.0, "")
Total = Callable[[Sequence[Example]], Array]


def _contents(example: Example, other: Example, mapped: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Unusual contents of an example, with their names."""
    row = example.row

    def scaled(factor: float) -> Any:
        return mapped(lambda leaf: leaf * factor if "float" in str(leaf.dtype) else leaf, row)

    return [
        ("floats x 1000", scaled(1000.0)),
        ("floats 0", scaled(0.0)),
        ("floats not a number", scaled(float("nan"))),
        (f"a copy of example {other.number}", other.row),
        (f"the target of example {other.number}", _with_last(row, other.row)),
    ]


def _with_last(row: Any, other: Any) -> Any:
    """A row with the last part of another one: its target, in a pair."""
    if isinstance(row, Mapping):
        last = list(row)[-1]
        return {**row, last: other[last]}
    if isinstance(row, tuple):
        return (*row[:-1], other[-1]) if len(row) > 1 else (_with_last(row[0], other[0]),)
    return other


def changes(total: Total, examples: Sequence[Example], mapped: Callable[..., Any]) -> Iterator[SumChanges | None]:
    """Changes of the sum by each example, as it is and with one kind of unusual contents; None if these are refused."""
    for first in range(0, len(examples), BATCH_EXAMPLES):
        batch = examples[first : first + BATCH_EXAMPLES]
        backwards = SumChange(
            _length(total(batch) - total(batch[::-1])), f"examples from {batch[0].number} on, reversed"
        )
        yield SumChanges(NO_CHANGE, NO_CHANGE, backwards)
        for place, example in enumerate(batch):
            before, after = batch[:place], batch[place + 1 :]
            others = total([*before, *after])
            contents = _contents(example, batch[place - 1], mapped)
            for words, row in (("as it is", example.row), contents[(first + place) % len(contents)]):
                changed = example._replace(row=row)
                try:
                    alone, whole = total([changed]), total([*before, changed, *after])
                except Exception:  # of any kind, from the user's code, which may not take such contents
                    if row is example.row:
                        raise
                    yield None
                    continue
                vectors = alone, whole - others, whole - others - alone
                yield SumChanges(*(SumChange(_length(each), f"example {example.number}, {words}") for each in vectors))


def _length(vector: Array) -> float:
    """The norm, or infinity for a vector that is not finite."""
    found = float(np.linalg.norm(vector))
    return found if np.isfinite(found) else float("inf")


def judged_sums(found: Sequence[SumChanges | None], sums: int, tolerance: float) -> SumAudit:
    """The verdict of some changes."""
    known = [each for each in found if each is not None]
    alone, move, influence = (max(each) for each in zip(*known, strict=True))
    longest = max(alone, move)
    verdict: Verdict = "nothing found"
    cause = ""
    if influence.size > tolerance:
        verdict = "noise not as claimed"
        size = f"{influence.size:.4g} clipping norms"
        cause = f"an example changes what the others contribute by {size} ({influence.where})"
    if longest.size > 1 + tolerance:
        verdict = "not private as claimed"
        if alone.size > 1 + tolerance or not cause:
            cause = f"an example moves the sum by {longest.size:.4g} clipping norms ({longest.where})"
    return SumAudit(verdict, cause, longest.size, influence.size, sums, len(found) - len(known))
