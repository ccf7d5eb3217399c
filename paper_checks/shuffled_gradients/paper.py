"""The paper whose claims this package holds, and the numbers of its statements."""

from corrnoise.paper_checks.ledger import Paper

PAPER = Paper(
    "shuffled-gradients",
    source="arXiv 2502.03652",
    title="Improving the Convergence of Private Shuffled Gradient Methods with Public Data",
    authors="Jiang, Sharma, Wu, Joshi",
)

#: Every numbered statement that makes a claim (definitions and assumptions make none, algorithms are what is run), and
#: those of the running text.  Figures 3 to 6 repeat Figure 2 in other settings.
NUMBERS = (
    "Section 3.2",
    "Assumption 3.6",
    "Theorem 3.7",
    "Section 4",
    "Corollary 4.1",
    "Lemma 4.2",
    "Section 5.2",
    "Section 6",
    *(f"Table {k}" for k in range(1, 7)),
    "Figure 2",
    "Proposition C.4",
    "Proposition C.5",
    "Remark C.7",
    "Theorem C.9",
    *(f"Lemma D.{k}" for k in range(3, 14)),
    "Theorem D.14",
    "Corollary D.15",
    "Corollary E.1",
    "Lemma E.2",
    "Appendix E.2",
    "Lemma E.3",
    "Appendix E.3",
    "Corollary F.1",
    "Lemma F.2",
    "Appendix F.3",
    "Lemma G.2",
    "Theorem G.3",
    "Corollary G.4",
    "Lemma G.5",
    "Lemma G.6",
    "Theorem G.7",
    "Corollary G.8",
    "Appendix H.2",
)
