"""Power: how the mutants of a claim fared, as numbers, from ``mutants.csv``.

Mutants are changes of the formulas of a claim by machine; ``python -m tools.mutation claims --record`` tries them.  A
claim that has changed since is not listed.

The ratio of the smaller to the larger side of an inequality is recorded with them, for each entry of the sides.  The
largest that the search finds says how far the statement is from an equality, the median over the first points of the
search how loose it is in most of its domain.  A check that finds another ratio disagrees with the record.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

FILE = "mutants.csv"
#: What may become of a mutant.
FATES = {
    "killed": "the check finds it to be false",
    "noticed": "it is true as far as is searched, and the check disagrees with what is recorded of the claim",
    "shifted": "the check finds nothing, and the median ratio of the sides is another one than recorded",
    "elsewhere": "its check finds nothing, and that of an identity that runs the same formula finds it to be false",
    "survived": "it says more than the claim, or something else, and the check finds nothing against it",
    "weaker": "no margin is smaller than that of the claim, or it is a case of the claim",
    "equal": "no margin differs from that of the claim",
    "undefined": "it has no value at most points of the domain, or takes too long",
}


_MOVED = 0.003  #: relative change of a ratio that is noticed, beyond the spread of searches
_MOST = 0.03  #: relative change that is noticed, whatever the spread
_DIGITS = 5  #: of a recorded ratio
_ROUNDING = 1e-9  #: of ratios near 0


class Ratio(NamedTuple):
    """The ratio of the smaller to the larger side: the largest that a search finds, and the median over its first sample.

    ``spread`` is the relative change of the largest between searches that differ by rounding; 0 where they end at the
    same place.
    """

    largest: float
    median: float
    spread: float = 0.0


@dataclass(frozen=True)
class Power:
    """The numbers of mutants of each fate; ``of`` counts all that there are, of which a sample was drawn.

    ``ratios`` are those of the smaller to the larger side, one for each entry of the sides, if their number is the same
    everywhere and small, or else one for all; none for an identity.
    """

    killed: int = 0
    noticed: int = 0
    shifted: int = 0
    elsewhere: int = 0
    survived: int = 0
    weaker: int = 0
    equal: int = 0
    undefined: int = 0
    of: int = 0
    ratios: tuple[Ratio, ...] = ()

    def __add__(self, other: "Power") -> "Power":
        return Power(**{name: getattr(self, name) + getattr(other, name) for name in COUNTS})

    @property
    def drawn(self) -> int:
        """The number of mutants that were compared with the claim."""
        return self.telling + self.weaker + self.equal + self.undefined

    @property
    def telling(self) -> int:
        """The number of mutants that say more than the claim, or something else."""
        return self.killed + self.noticed + self.shifted + self.elsewhere + self.survived

    @property
    def kill_rate(self) -> float | None:
        """The share of the telling mutants that is killed; None if there are none."""
        return self.killed / self.telling if self.telling else None

    @property
    def noticed_rate(self) -> float | None:
        """The share of the telling mutants that is killed or noticed; None if there are none."""
        return (self.killed + self.noticed) / self.telling if self.telling else None

    @property
    def found_rate(self) -> float | None:
        """The share of the telling mutants that does not survive; None if there are none."""
        return 1 - self.survived / self.telling if self.telling else None

    @property
    def blindness(self) -> float | None:
        """The share of the mutants drawn that are equal to the claim or have no value; None if none was drawn."""
        return (self.equal + self.undefined) / self.drawn if self.drawn else None

    def __str__(self) -> str:
        if self.kill_rate is None or self.noticed_rate is None or self.found_rate is None or self.blindness is None:
            return f"no telling mutant among {self.drawn}"
        return (
            f"of {self.telling} telling mutants {self.killed} killed ({self.kill_rate:.0%}), "
            f"{self.killed + self.noticed} killed or noticed ({self.noticed_rate:.0%}), "
            f"{self.telling - self.survived} found ({self.found_rate:.0%}); blindness {self.blindness:.0%}"
        )


COUNTS = (*FATES, "of")


def ratio(margin: float) -> float:
    """The ratio of the smaller to the larger side, by the margin, as it is recorded.

    Of sides that are not positive it is 1 less the margin.
    """
    return float(f"{1 - margin:.{_DIGITS}g}")


def moved(margins: Sequence[float], ratios: Sequence[Ratio], thorough: bool = False) -> str:
    """Which of the smallest margins is not that of the recorded largest ratio; empty if all are, or none is recorded.

    A ``thorough`` search may find a larger ratio.
    """
    if ratios and len(margins) != len(ratios):
        return f"{len(margins)} entries of the sides are compared, recorded are {len(ratios)}"
    for margin, known in zip(margins, ratios, strict=False):
        allowed = min(_MOVED + 2 * known.spread, _MOST)
        if _differs(margin, known.largest, allowed, math.inf if thorough else allowed):
            return f"the largest ratio of the sides is {1 - margin:.4g}, recorded is {known.largest:.4g}"
    return ""


def shifted(medians: Sequence[float], ratios: Sequence[Ratio]) -> str:
    """Which of the median margins is not that of the recorded ratio; empty if all are, or none is recorded."""
    for margin, known in zip(medians, ratios, strict=False):
        if _differs(margin, known.median, _MOVED, _MOVED):
            return f"the median ratio of the sides is {1 - margin:.4g}, recorded is {known.median:.4g}"
    return ""


def _differs(margin: float, recorded: float, below: float, above: float) -> bool:
    """Whether the ratio of a margin lies outside of an interval around that recorded, whose ends are relative."""
    change = 1 - margin - recorded
    return not (-below * abs(recorded) - _ROUNDING <= change <= above * abs(recorded) + _ROUNDING)


def written(powers: Mapping[str, Power]) -> str:
    """Numbers by claim as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["claim", *COUNTS, *Ratio._fields])
    for claim, power in powers.items():
        ratios = (" ".join(f"{getattr(ratio, name):g}" for ratio in power.ratios) for name in Ratio._fields)
        table.writerow([claim, *(getattr(power, name) for name in COUNTS), *ratios])
    return text.getvalue()


@cache
def powers() -> Mapping[str, Power]:
    """The recorded numbers by the identifiers of claims."""
    text = (files("corrnoise.paper_checks") / FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text))
    return {
        row["claim"]: Power(
            **{name: int(row[name]) for name in COUNTS},
            ratios=tuple(
                Ratio(*map(float, one)) for one in zip(*(row[name].split() for name in Ratio._fields), strict=True)
            ),
        )
        for row in rows
    }
