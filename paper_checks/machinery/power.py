"""Power: how the mutants of a claim fared, as numbers, from ``mutants.csv``.

Mutants are changes of the formulas of a claim by machine; ``python -m tools.mutation claims --record`` tries them.  A
claim that has changed since is not listed.

Ratios of the smaller to the larger side of an inequality are recorded with them.  The largest one says how far the
statement is from an equality, also for each entry of the sides, and for each value of an argument that has few of them.
The median says how loose it is in most of its domain.  A check that finds other ratios disagrees with the record.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

FILE = "mutants.csv"
#: The fates of a mutant.
FATES = {
    "killed": "the check finds it to be false",
    "alive": "it says more than the claim, or something else, and the check does not find it to be false",
    "weaker": "no margin is smaller than that of the claim, or it is a case of the claim",
    "equal": "no margin differs from that of the claim",
    "undefined": "it has no value at most points of the domain, or takes too long",
}


_COMPARED_CHANGE = 0.003  #: relative change of a ratio beyond rounding and the spread of searches
_MAX_SPREAD = 0.03  #: with the spread; where searches differ more, the largest ratio is not compared
_RATIO_DIGITS = 5  #: of a recorded ratio
_RATIO_ROUNDING = 1e-9  #: of ratios near 0


@dataclass(frozen=True)
class Ratios:
    """Ratios of the smaller to the larger side, to five digits.

    ``largest`` is the largest that the search finds, and ``spread`` its relative change between searches that differ by
    rounding; 0 where they end at the same place.  The others are of the first sample of the search, whose points are
    always the same: the largest of each entry of the sides in each case, and the median, see ``search.Worst``.
    """

    largest: float
    spread: float = 0.0
    in_cases: tuple[float, ...] = ()
    medians: tuple[float, ...] = ()


@dataclass(frozen=True)
class Power:
    """The numbers of mutants of each fate, in a sample of the ``of`` mutants that there are.

    An identity has no ``ratios``.
    """

    killed: int = 0
    alive: int = 0
    weaker: int = 0
    equal: int = 0
    undefined: int = 0
    of: int = 0
    ratios: Ratios | None = None

    def __add__(self, other: "Power") -> "Power":
        return Power(**{name: getattr(self, name) + getattr(other, name) for name in COUNTS})

    @property
    def drawn(self) -> int:
        """The number of mutants that were compared with the claim."""
        return self.telling + self.weaker + self.equal + self.undefined

    @property
    def telling(self) -> int:
        """The number of mutants that say more than the claim, or something else."""
        return self.killed + self.alive

    @property
    def kill_rate(self) -> float | None:
        """The share of the telling mutants that is killed; None if there are none."""
        return self.killed / self.telling if self.telling else None

    @property
    def blindness(self) -> float | None:
        """The share of the mutants drawn that are equal to the claim or have no value; None if none was drawn."""
        return (self.equal + self.undefined) / self.drawn if self.drawn else None

    def __str__(self) -> str:
        if self.kill_rate is None or self.blindness is None:
            return f"no telling mutant among {self.drawn}"
        return (
            f"of {self.telling} telling mutants {self.killed} killed ({self.kill_rate:.0%}); "
            f"blindness {self.blindness:.0%}"
        )


COUNTS = (*FATES, "of")
_RATIO_FIELDS = tuple(field.name for field in fields(Ratios))


def ratio(margin: float) -> float:
    """The ratio of the smaller to the larger side, by the margin, as it is recorded.

    Of sides that are not positive it is 1 less the margin.
    """
    return float(f"{1 - margin:.{_RATIO_DIGITS}g}")


def moved(
    margin: float,
    smallest: Sequence[float],
    medians: Sequence[float],
    ratios: Ratios | None,
    thorough: bool = False,
) -> str:
    """Which of the smallest margins, of all and in cases, and of the medians differs from the record; empty if none.

    Without a record none is compared, nor the largest ratio of all if searches spread too much to find it again.  A
    ``thorough`` search may find a larger one, and its first sample is another one.
    """
    if ratios is None:
        return ""
    allowed = _COMPARED_CHANGE + 2 * ratios.spread
    allowed = allowed if allowed <= _MAX_SPREAD else math.inf
    if _differs(margin, ratios.largest, allowed, math.inf if thorough else allowed):
        return f"the record moved: the largest ratio of the sides is {1 - margin:.4g}, recorded is {ratios.largest:.4g}"
    if thorough:
        return ""
    in_cases = _different("largest", smallest, ratios.in_cases)
    return in_cases or _different("median", medians, ratios.medians)


def _different(name: str, margins: Sequence[float], recorded: Sequence[float]) -> str:
    if len(margins) != len(recorded):
        return f"the record moved: there are {len(margins)} cases, recorded are {len(recorded)}"
    for margin, known in zip(margins, recorded, strict=True):
        if _differs(margin, known, _COMPARED_CHANGE, _COMPARED_CHANGE):
            return f"the record moved: the {name} ratio of the sides in one case is {1 - margin:.4g}, recorded is {known:.4g}"
    return ""


def _differs(margin: float, recorded: float, below: float, above: float) -> bool:
    """Whether the ratio of a margin lies outside of an interval around that recorded, whose ends are relative."""
    change = 1 - margin - recorded
    return not (-below * abs(recorded) - _RATIO_ROUNDING <= change <= above * abs(recorded) + _RATIO_ROUNDING)


def written(powers: Mapping[str, Power]) -> str:
    """Numbers by claim as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["claim", *COUNTS, *_RATIO_FIELDS])
    for claim, power in powers.items():
        counts = (getattr(power, name) for name in COUNTS)
        values = [""] * len(_RATIO_FIELDS) if power.ratios is None else vars(power.ratios).values()
        ratios = (" ".join(map(str, value)) if isinstance(value, tuple) else value for value in values)
        table.writerow([claim, *counts, *ratios])
    return text.getvalue()


def _ratios(row: Mapping[str, str]) -> Ratios:
    in_cases, medians = (tuple(map(float, row[name].split())) for name in ("in_cases", "medians"))
    return Ratios(float(row["largest"]), float(row["spread"]), in_cases, medians)


@cache
def powers() -> Mapping[str, Power]:
    """The recorded numbers by the identifiers of claims."""
    text = (files("corrnoise.paper_checks") / FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text))
    return {
        row["claim"]: Power(
            **{name: int(row[name]) for name in COUNTS}, ratios=_ratios(row) if row["largest"] else None
        )
        for row in rows
    }
