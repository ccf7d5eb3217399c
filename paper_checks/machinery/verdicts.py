"""The words of the ledger: truth, evidence, verdicts and relations, with their meaning.

A record has four fields: the truth of the statement as printed, the evidence of that truth, a repair where the statement
is false, and the evidence of the repair.  The verdict is one word for truth and repair.
"""

from typing import Literal

Truth = Literal["true", "false", "open", "no data", "vacuous"]
Undecided = Literal["open", "no data", "vacuous"]
Evidence = Literal[
    "machine-checked",
    "certified",
    "proved",
    "cited",
    "exact",
    "counterexample",
    "family",
    "computed",
    "searched",
    "simulated",
]
Relation = Literal["<=", "="]

TRUE: Truth = "true"
FALSE: Truth = "false"
OPEN: Undecided = "open"
NO_DATA: Undecided = "no data"
VACUOUS: Undecided = "vacuous"
UNDECIDED = (OPEN, NO_DATA, VACUOUS)
HOLDS = "holds"
CORRECTED = "holds corrected"
ERROR = "error"  #: the verdict of a check that could not be carried out
INEQUALITY: Relation = "<="
IDENTITY: Relation = "="

#: The verdicts and their meaning.
VERDICTS = {
    HOLDS: "true as printed; a root or fraction bar that only an electronic copy lost is restored first, and noted",
    CORRECTED: "false as printed; a repair that keeps its purpose is true, or proposed if it was only searched",
    FALSE: "false as printed, and no repair that keeps its purpose is known",
    OPEN: "neither proved nor refuted; the note says which statement was checked instead",
    NO_DATA: "the paper does not give the constants or settings that decide it; another statement was checked instead",
    VACUOUS: "nothing satisfies its hypotheses, or it draws from a false statement; another was checked instead",
}
#: The kinds of evidence and their meaning, strongest first.
EVIDENCE: dict[Evidence, str] = {
    "machine-checked": "Coq has checked the proof, and whether the theorem is the one that the record states",
    "certified": "proved over the stated domain by ball arithmetic; the note gives the argument outside of it",
    "proved": "a proof of this project is written down in the place named; a search found nothing against it",
    "cited": "a published theorem or the paper's own proof, named and read; a search found nothing against it",
    "exact": "both sides are equal rational numbers at every point of a finite domain",
    "counterexample": "both sides at one point, in exact arithmetic or as balls that do not overlap; no constant is free",
    "family": "for every choice of the constants there are arguments that violate it; proved in the place named",
    "computed": "both sides were computed in floating-point arithmetic, and agree or differ beyond rounding",
    "searched": "a search for the worst case over the domain found no violation",
    "simulated": "the smaller side is a confidence limit; the note states the rate of false alarms",
}
#: The kinds of evidence that establish a statement; those that establish only that one is false; the others find it.
ESTABLISHED: tuple[Evidence, ...] = ("machine-checked", "certified", "proved", "cited", "exact")
REFUTED: tuple[Evidence, ...] = ("counterexample", "family")
#: The kinds of evidence that a certificate replaces.
FOUND: tuple[Evidence, ...] = ("computed", "searched")
#: The kinds of evidence that a proof may rest on.
PROOFS: tuple[Evidence, ...] = ("machine-checked", "certified", "proved", "cited")


def verdict_of(truth: Truth, repair: str | None) -> str:
    """The verdict, one of ``VERDICTS``: one word for the truth of a statement and its repair."""
    if truth == TRUE:
        return HOLDS
    return CORRECTED if truth == FALSE and repair else truth


def support_of(evidence: Evidence, repair_evidence: Evidence | None) -> str:
    """The evidence of the truth and of the repair, in a few words.

    >>> support_of("family", "searched")
    'family; repair proposed (searched)'
    """
    if repair_evidence is None:
        return evidence
    return f"{evidence}; repair {'proposed (searched)' if repair_evidence == 'searched' else repair_evidence}"
