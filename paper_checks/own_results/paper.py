"""The results of this project, as a paper among the others, and its inventory."""

from corrnoise.paper_checks.machinery.papers import Paper

PAPER = Paper(
    "corrnoise",
    source="docs/exact-errors.md",
    title="Exact errors, the optimum and sharper bounds",
    authors="The corrnoise developers",
    package=__package__,
    statements={
        "exact_errors": ("E1", "E2", "E3", "Anti-PGD"),
        "bounds": ("N1", "N2", "N3", "N3, sharpened", "γ", "I(a, b)", "Theorem D.11, sharpened", "Conjecture"),
        "momentum": ("M1", "M2", "M3", "M4", "M5"),
        "finite_runs": ("S3", "S4", "P1", "P2", "P4", "P5", "T1", "Theorem 2", "L2", "S5", "S6", "Unit columns"),
    },
)
