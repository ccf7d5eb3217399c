"""What goes beyond the papers, under the project's own name: exact errors, the exact optimum, sharper bounds.

Proofs are in ``docs/exact-errors.md``.
"""

from corrnoise.paper_checks.ledger import Paper

PAPER = Paper(
    "corrnoise",
    source="docs/exact-errors.md",
    title="Exact errors, the optimum and sharper bounds",
    authors="The corrnoise developers",
)
