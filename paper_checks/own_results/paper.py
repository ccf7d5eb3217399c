"""The results of this project, as a paper among the others."""

from corrnoise.paper_checks.machinery.papers import Paper

PAPER = Paper(
    "corrnoise",
    source="docs/exact-errors.md",
    title="Exact errors, the optimum and sharper bounds",
    authors="The corrnoise developers",
    package=__package__,
    modules=(
        "exact_errors",
        "bounds",
        "momentum",
        "finite_runs",
        "time_varying",
        "amplification",
        "bins",
        "federation",
    ),
)
