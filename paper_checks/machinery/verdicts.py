"""The words of the ledger: verdicts, kinds of evidence and relations, with their meaning."""

from typing import Literal

Evidence = Literal["machine-checked", "proved", "certified", "cited", "exact", "computed", "searched", "simulated"]
Undecided = Literal["open", "no data", "vacuous"]
Relation = Literal["<=", "="]

HOLDS = "holds"
CORRECTED = "holds corrected"
FALSE = "false"
OPEN: Undecided = "open"
NO_DATA: Undecided = "no data"
VACUOUS: Undecided = "vacuous"
UNDECIDED = (OPEN, NO_DATA, VACUOUS)
ERROR = "error"  #: the verdict of a check that could not be carried out
INEQUALITY: Relation = "<="
IDENTITY: Relation = "="

#: The verdicts and their meaning.
VERDICTS = {
    HOLDS: "true as printed; a root or fraction bar that only an electronic copy lost is restored first, and noted",
    CORRECTED: "false as printed, with a counterexample; a repair that keeps its purpose is true",
    FALSE: "the purpose for which it was printed fails too",
    OPEN: "neither proved nor refuted; the note says which statement was checked instead",
    NO_DATA: "the paper does not give the constants or settings that decide it; another statement was checked instead",
    VACUOUS: "nothing satisfies its hypotheses, or it draws from a false statement; another was checked instead",
}
#: The kinds of evidence and their meaning, strongest first.
EVIDENCE: dict[Evidence, str] = {
    "machine-checked": "Coq has checked the proof, and whether the theorem is the one that the record states",
    "proved": "a proof is written down in the place named; a search over the domain found nothing against it",
    "certified": "proved over the stated domain by ball arithmetic; the note gives the argument outside of it",
    "cited": "a published theorem, which is named with its number; a search found nothing against it",
    "exact": "an identity or an enumeration, to rounding",
    "computed": "both sides were computed at each point of a finite domain",
    "searched": "a search for the worst case over the domain found no violation",
    "simulated": "the smaller side is a confidence limit; the note states the rate of false alarms",
}
#: The kinds of evidence that a proof may rest on.
PROOFS: tuple[Evidence, ...] = ("machine-checked", "proved", "certified", "cited")
#: The kinds of evidence whose share is the headline of ``corrnoise check``: what this project itself proves or finds exactly.
STRONG: tuple[Evidence, ...] = ("machine-checked", "proved", "certified", "exact")
