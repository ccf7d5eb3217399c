"""Power: how the mutants of a claim fared, as numbers, from ``mutants.csv``.

Mutants are changes of the formulas of a claim by machine; ``python -m tools.mutation claims --record`` tries them.  A
claim that has changed since is not listed.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from functools import cache
from importlib.resources import files

FILE = "mutants.csv"
#: What may become of a mutant.
FATES = {
    "killed": "the check finds it to be false",
    "survived": "it says more than the claim, or something else, and the check finds nothing against it",
    "weaker": "no margin is smaller than that of the claim",
    "equal": "no margin differs from that of the claim",
    "undefined": "it has no value at most points of the domain, or takes too long",
}


@dataclass(frozen=True)
class Power:
    """The numbers of mutants of each fate; ``of`` counts all that there are, of which a sample was drawn."""

    killed: int = 0
    survived: int = 0
    weaker: int = 0
    equal: int = 0
    undefined: int = 0
    of: int = 0

    def __add__(self, other: "Power") -> "Power":
        return Power(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    @property
    def drawn(self) -> int:
        """The number of mutants that were compared with the claim."""
        return self.killed + self.survived + self.weaker + self.equal + self.undefined

    @property
    def telling(self) -> int:
        """The number of mutants that say more than the claim, or something else."""
        return self.killed + self.survived

    @property
    def kill_rate(self) -> float | None:
        """The killed share of the telling mutants; None if there are none."""
        return self.killed / self.telling if self.telling else None

    @property
    def blindness(self) -> float | None:
        """The share of the mutants drawn that are equal to the claim or have no value; None if none was drawn."""
        return (self.equal + self.undefined) / self.drawn if self.drawn else None

    def __str__(self) -> str:
        if self.kill_rate is None or self.blindness is None:
            return f"no telling mutant among {self.drawn}"
        return f"{self.killed} of {self.telling} telling mutants killed ({self.kill_rate:.0%}), blindness {self.blindness:.0%}"


def written(powers: Mapping[str, Power]) -> str:
    """Numbers by claim as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["claim", *(field.name for field in fields(Power))])
    table.writerows([claim, *astuple(power)] for claim, power in powers.items())
    return text.getvalue()


@cache
def powers() -> Mapping[str, Power]:
    """The recorded numbers by the identifiers of claims."""
    text = (files("corrnoise.paper_checks") / FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text))
    return {row.pop("claim"): Power(**{name: int(count) for name, count in row.items()}) for row in rows}
