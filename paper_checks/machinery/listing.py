"""The list of a paper's claims: what is known of a claim before its module is imported.

``claims.csv`` beside the paper has a row for each claim, in the order of the paper.  ``python -m tools.claims`` writes
it from the claims, and a test compares the two.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from typing import Any, Protocol, cast

from corrnoise.paper_checks.machinery.names import spelled
from corrnoise.paper_checks.machinery.verdicts import Evidence

FILE = "claims.csv"
COLUMNS = ("module", "number", "part", "recorded", "evidence")


class Named:
    """The names of a claim, from its paper, the number of its statement and its part."""

    paper: str
    number: str
    part: str

    @property
    def name(self) -> str:
        """Number and part, as in ``Lemma C.21 (i)``."""
        return f"{self.number} {self.part}".strip()

    @property
    def identifier(self) -> str:
        """Paper and name in letters, digits, dots and dashes, for links and file names."""
        return f"{self.paper}-{re.sub(r'[^a-z0-9.]+', '-', spelled(self.name)).strip('-')}"


class Holder(Protocol):
    """The paper of a listed claim; see ``papers.Paper``."""

    name: str
    source: str
    package: str | None

    @property
    def listed(self) -> tuple[ListedClaim, ...]:
        """All claims of the paper."""
        ...

    def claim(self, module: str, number: str, part: str) -> Any:
        """The claim itself."""
        ...


@dataclass(frozen=True)
class ListedClaim(Named):
    """A claim as it is listed; ``claim``, ``check()`` and every field of ``Claim`` that is not listed import its module.

    Attributes
    ----------
    paper, source
        The short name of the paper, and its reference.
    number, part
        The number of the statement, and the part in parentheses.
    module
        The module that holds the claim.
    recorded
        The verdict as recorded, one of ``VERDICTS``.
    evidence
        One of ``EVIDENCE``.
    """

    paper: str
    source: str
    number: str
    part: str
    module: str
    recorded: str
    evidence: Evidence
    holder: Holder = field(repr=False, compare=False)

    @property
    def claim(self) -> Any:
        """The ``Claim`` itself."""
        return self.holder.claim(self.module, self.number, self.part)

    def check(self, thorough: bool = False) -> Any:
        """Check the claim, and return an ``Outcome``; see ``Claim.check``."""
        return self.claim.check(thorough)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what copying and printing look for
            raise AttributeError(name)
        return getattr(self.claim, name)

    def __reduce__(self) -> tuple[Callable[[str, str, str], ListedClaim], tuple[str, str, str]]:
        return _find, (f"{self.holder.package}.paper", self.number, self.part)


def read_list(holder: Holder) -> tuple[ListedClaim, ...]:
    """The list in the package of a paper; empty if there is none."""
    path = files(str(holder.package)) / FILE
    if not path.is_file():
        return ()
    return tuple(
        ListedClaim(
            paper=holder.name,
            source=holder.source,
            number=row["number"],
            part=row["part"],
            module=f"{holder.package}.{row['module']}",
            recorded=row["recorded"],
            evidence=cast(Evidence, row["evidence"]),
            holder=holder,
        )
        for row in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    )


def written(claims: Iterable[ListedClaim]) -> str:
    """A list as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for one in claims:
        table.writerow([one.module.rpartition(".")[2], one.number, one.part, one.recorded, one.evidence])
    return text.getvalue()


def _find(module: str, number: str, part: str) -> ListedClaim:
    """The listed claim with this number and part of the paper that a module declares."""
    paper: Holder = import_module(module).PAPER
    return next(one for one in paper.listed if (one.number, one.part) == (number, part))
