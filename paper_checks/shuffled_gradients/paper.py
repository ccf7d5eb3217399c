"""The paper whose claims this package holds, and the numbers of its statements."""

from corrnoise.paper_checks.ledger import Paper

PAPER = Paper(
    "shuffled-gradients",
    source="arXiv 2502.03652",
    title="Improving the Convergence of Private Shuffled Gradient Methods with Public Data",
    authors="Jiang, Sharma, Wu, Joshi",
)

#: Every numbered statement that makes a claim (definitions and assumptions make none), and two of the running text.
NUMBERS = (
    "Assumption 3.6",
    "Theorem 3.7",
    "Corollary 4.1",
    "Lemma 4.2",
    "Section 4",
    "Section 6",
    *(f"Table {k}" for k in (1, 4)),
    "Proposition C.4",
    "Proposition C.5",
    "Remark C.7",
    "Theorem C.9",
    *(f"Lemma D.{k}" for k in range(3, 14)),
    "Theorem D.14",
    "Corollary D.15",
    "Corollary E.1",
    "Lemma E.2",
    "Lemma E.3",
    "Corollary F.1",
    "Lemma F.2",
    "Lemma G.2",
    "Theorem G.3",
    "Corollary G.4",
    "Lemma G.5",
    "Lemma G.6",
    "Theorem G.7",
    "Corollary G.8",
)
