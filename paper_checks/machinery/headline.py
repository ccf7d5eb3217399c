"""The headline of the ledger: how many statements there are of each truth, with each kind of evidence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.papers import ListedClaim
from corrnoise.paper_checks.machinery.verdicts import ESTABLISHED, EVIDENCE, REFUTED, UNDECIDED, Evidence, Truth


@dataclass(frozen=True)
class Headline:
    """Claims by truth and evidence.

    Parameters
    ----------
    table : dict
        The number of claims for each pair of truth and evidence.  The evidence of an undecided statement is of the one
        that is checked instead.
    decided, undecided : tuple of Claim
        Each claim is in one of them.
    proved : tuple of Claim
        The decided claims with a proof, a certificate, a counterexample or a family.
    """

    table: Mapping[tuple[Truth, Evidence], int]
    decided: tuple[Claim | ListedClaim, ...]
    undecided: tuple[Claim | ListedClaim, ...]
    proved: tuple[Claim | ListedClaim, ...]

    @property
    def columns(self) -> tuple[Evidence, ...]:
        """The kinds of evidence that occur, strongest first.

        Returns
        -------
        tuple of str
        """
        found = {evidence for _, evidence in self.table}
        return tuple(evidence for evidence in EVIDENCE if evidence in found)

    @property
    def rows(self) -> Iterator[tuple[Truth, tuple[int, ...]]]:
        """The rows of the matrix: each truth that occurs, and its numbers by ``columns``.

        Returns
        -------
        iterator
        """
        for truth in get_args(Truth):
            if any(found == truth for found, _ in self.table):
                yield truth, tuple(self.table.get((truth, evidence), 0) for evidence in self.columns)

    @property
    def sentence(self) -> str:
        """The headline in one sentence.

        Returns
        -------
        str
        """
        exact = sum(claim.evidence == "exact" for claim in self.proved)
        refuted = sum(claim.evidence in REFUTED for claim in self.proved)
        return (
            f"Of {len(self.decided)} decided statements, {len(self.proved) - exact - refuted} are proved, cited, certified "
            f"or machine-checked, {exact} exact by proof, and {refuted} refuted by a counterexample or a family; "
            f"{len(self.undecided)} are undecided."
        )


def headline(claims: Iterable[Claim | ListedClaim]) -> Headline:
    """Count claims by truth and evidence, as recorded.

    Parameters
    ----------
    claims : iterable of Claim
        As ``cn.claims`` has them.

    Returns
    -------
    Headline
    """
    found = tuple(claims)
    decided = tuple(claim for claim in found if claim.truth not in UNDECIDED)
    return Headline(
        table=Counter((claim.truth, claim.evidence) for claim in found),
        decided=decided,
        undecided=tuple(claim for claim in found if claim.truth in UNDECIDED),
        proved=tuple(claim for claim in decided if claim.evidence in (*ESTABLISHED, *REFUTED)),
    )
