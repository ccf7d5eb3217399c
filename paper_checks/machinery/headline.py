"""The headline of the ledger: how many statements there are of each truth, with each kind of evidence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.papers import ListedClaim
from corrnoise.paper_checks.machinery.verdicts import (
    ESTABLISHED,
    EVIDENCE,
    REFUTED,
    UNDECIDED,
    Evidence,
    Truth,
)


@dataclass(frozen=True)
class Headline:
    """Claims by truth and evidence.

    ``table`` has the numbers.  An undecided statement is in no other tuple; its evidence is of what is checked instead.
    """

    table: Mapping[tuple[Truth, Evidence], int]
    decided: tuple[Claim | ListedClaim, ...]
    undecided: tuple[Claim | ListedClaim, ...]
    proved: tuple[Claim | ListedClaim, ...]  #: decided by a proof, a certificate, a counterexample or a family

    @property
    def columns(self) -> tuple[Evidence, ...]:
        """The kinds of evidence that occur, strongest first."""
        found = {evidence for _, evidence in self.table}
        return tuple(evidence for evidence in EVIDENCE if evidence in found)

    @property
    def rows(self) -> Iterator[tuple[Truth, tuple[int, ...]]]:
        """Each truth that occurs, and its numbers by ``columns``."""
        for truth in get_args(Truth):
            if any(found == truth for found, _ in self.table):
                yield truth, tuple(self.table.get((truth, evidence), 0) for evidence in self.columns)

    @property
    def sentence(self) -> str:
        """The whole headline in one sentence."""
        exact = sum(claim.evidence == "exact" for claim in self.proved)
        refuted = sum(claim.evidence in REFUTED for claim in self.proved)
        return (
            f"Of {len(self.decided)} decided statements, {len(self.proved) - exact - refuted} are proved, cited, certified "
            f"or machine-checked, {exact} exact by proof, and {refuted} refuted by a counterexample or a family; "
            f"{len(self.undecided)} are undecided."
        )


def headline(claims: Iterable[Claim | ListedClaim]) -> Headline:
    """The headline of claims as recorded."""
    found = tuple(claims)
    decided = tuple(claim for claim in found if claim.truth not in UNDECIDED)
    return Headline(
        table=Counter((claim.truth, claim.evidence) for claim in found),
        decided=decided,
        undecided=tuple(claim for claim in found if claim.truth in UNDECIDED),
        proved=tuple(claim for claim in decided if claim.evidence in (*ESTABLISHED, *REFUTED)),
    )
