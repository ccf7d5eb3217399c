"""Power: how the mutants of a claim fared, as numbers, from ``mutants.csv``.

Mutants are changes of the formulas of a claim by machine; ``python -m tools.mutation claims --record`` tries them.  A
claim that has changed since is not listed.

The largest ratio of the smaller to the larger side of an inequality, which the search finds, is recorded with them.  It
says how far the statement is from an equality, and a check that finds another ratio disagrees with the record.
"""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files

FILE = "mutants.csv"
#: What may become of a mutant.
FATES = {
    "killed": "the check finds it to be false",
    "noticed": "it is true as far as is searched, and the check disagrees with what is recorded of the claim",
    "elsewhere": "its check finds nothing, and that of an identity that runs the same formula finds it to be false",
    "survived": "it says more than the claim, or something else, and the check finds nothing against it",
    "weaker": "no margin is smaller than that of the claim, or it is a case of the claim",
    "equal": "no margin differs from that of the claim",
    "undefined": "it has no value at most points of the domain, or takes too long",
}


_MOVED = 0.003  #: relative change of a ratio that is noticed, beyond the spread of searches
_MOST = 0.03  #: relative change that is noticed, whatever the spread
_DIGITS = 5  #: of a recorded ratio


@dataclass(frozen=True)
class Power:
    """The numbers of mutants of each fate; ``of`` counts all that there are, of which a sample was drawn.

    ``ratio`` is the largest ratio of the smaller to the larger side; None for an identity.  ``spread`` is its relative
    change between searches that differ by rounding; 0 where a search ends at the same place.
    """

    killed: int = 0
    noticed: int = 0
    elsewhere: int = 0
    survived: int = 0
    weaker: int = 0
    equal: int = 0
    undefined: int = 0
    of: int = 0
    ratio: float | None = None
    spread: float = 0.0

    def __add__(self, other: "Power") -> "Power":
        return Power(**{name: getattr(self, name) + getattr(other, name) for name in COUNTS})

    @property
    def drawn(self) -> int:
        """The number of mutants that were compared with the claim."""
        return self.telling + self.weaker + self.equal + self.undefined

    @property
    def telling(self) -> int:
        """The number of mutants that say more than the claim, or something else."""
        return self.killed + self.noticed + self.elsewhere + self.survived

    @property
    def kill_rate(self) -> float | None:
        """The share of the telling mutants that is killed; None if there are none."""
        return self.killed / self.telling if self.telling else None

    @property
    def found_rate(self) -> float | None:
        """The share of the telling mutants that does not survive: killed or noticed, here or elsewhere; None without any."""
        return 1 - self.survived / self.telling if self.telling else None

    @property
    def blindness(self) -> float | None:
        """The share of the mutants drawn that are equal to the claim or have no value; None if none was drawn."""
        return (self.equal + self.undefined) / self.drawn if self.drawn else None

    def __str__(self) -> str:
        if self.kill_rate is None or self.found_rate is None or self.blindness is None:
            return f"no telling mutant among {self.drawn}"
        return (
            f"of {self.telling} telling mutants {self.killed} killed ({self.kill_rate:.0%}), "
            f"{self.telling - self.survived} killed or noticed ({self.found_rate:.0%}); blindness {self.blindness:.0%}"
        )


COUNTS = (*FATES, "of")


def largest_ratio(margin: float) -> float | None:
    """The largest ratio of the smaller to the larger side, by the smallest margin, as it is recorded; None without one.

    Of sides that are not positive it is 1 less the margin.
    """
    return None if math.isnan(margin) else float(f"{1 - margin:.{_DIGITS}g}")


def has_moved(margin: float, ratio: float | None, spread: float = 0.0, thorough: bool = False) -> bool:
    """Whether the smallest margin is not that of the recorded ratio; a ``thorough`` search may find a larger ratio."""
    if ratio is None:
        return False
    change = 1 - margin - ratio
    allowed = min(_MOVED + 2 * spread, _MOST) * abs(ratio) + 10.0**-_DIGITS
    return not (change >= -allowed and (thorough or change <= allowed))


def written(powers: Mapping[str, Power]) -> str:
    """Numbers by claim as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["claim", *(field.name for field in fields(Power))])
    table.writerows([claim, *asdict(power).values()] for claim, power in powers.items())
    return text.getvalue()


@cache
def powers() -> Mapping[str, Power]:
    """The recorded numbers by the identifiers of claims."""
    text = (files("corrnoise.paper_checks") / FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text))
    return {
        row["claim"]: Power(
            **{name: int(row[name]) for name in COUNTS},
            ratio=float(row["ratio"]) if row["ratio"] else None,
            spread=float(row["spread"]),
        )
        for row in rows
    }
