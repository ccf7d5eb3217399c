"""The paper whose claims this package holds, and the numbers of all its statements."""

from corrnoise.paper_checks.ledger import Paper

PAPER = Paper(
    "correlated-noise",
    source="arXiv 2310.06771",
    title="Correlated Noise Provably Beats Independent Noise for Differentially Private Learning",
    authors="Choquette-Choo, Dvijotham, Pillutla, Ganesh, Steinke, Guha Thakurta",
)

NO_PRIVACY = 1e30  #: a budget ρ so large that the privacy noise is lost in rounding


def _numbers(kind: str, *labels: str) -> tuple[str, ...]:
    return tuple(f"{kind} {label}" for label in labels)


#: Every numbered statement that makes a claim.  (Table 3 lists mechanisms, and follows with them.)
NUMBERS = (
    *_numbers("Theorem", "1.1", "2.1", "2.2", "3.1", "C.14", "C.15", "C.18", "D.4", "D.11", "D.13", "E.1"),
    *_numbers("Equation", "(5)", "(18)", "(19)", "(20)", "(21)", "(81)", "(82)", "(83)"),
    *_numbers("Table", "1", "2", "3", "4"),
    *_numbers("Figure", "1", "2", "3"),
    *_numbers("Property", "C.1", "C.3", "C.7", "C.8", "C.9", "D.2"),
    *_numbers("Lemma", "C.4", "C.6", "C.12", "C.21", "D.9", "D.10", "D.12"),
    *_numbers("Corollary", "C.5", "D.14", "D.15"),
    *_numbers("Proposition", "C.10", "C.11", "C.13", "C.19", "C.20", "C.22", "C.24", "D.5", "D.6", "D.7", "D.8"),
    *_numbers("Definition", "D.3"),
    *_numbers("Remark", "1.2", "C.16", "C.23"),
    *_numbers("Theorem", "F.2", "F.3"),
    *_numbers("Property", "F.5", "F.8", "F.9", "F.10", "F.11"),
    *_numbers("Remark", "F.7"),
    *_numbers("Lemma", "F.6", *(f"F.{k}" for k in range(12, 23))),
)
