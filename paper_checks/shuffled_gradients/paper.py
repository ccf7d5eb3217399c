"""The paper of this package and its inventory: where the claims about each statement stand, or why there are none."""

from corrnoise.paper_checks.machinery.papers import Paper, numbered

PAPER = Paper(
    "shuffled-gradients",
    source="arXiv 2502.03652",
    title="Improving the Convergence of Private Shuffled Gradient Methods with Public Data",
    authors="Jiang, Sharma, Wu, Joshi",
    package=__package__,
    statements={
        "sections_3_to_6": (
            *numbered("Section", "3.2", "5.2", "6"),
            "Assumption 3.6",
            *numbered("Table", "1", "2", "3", "5", "6"),
            "Figure 2",
            *numbered("Appendix", "F.3", "H.2"),
        ),
        "c4_to_f2": (
            *numbered("Proposition", "C.4", "C.5"),
            "Remark C.7",
            "Theorem C.9",
            "Section 4",
            *numbered("Lemma", "4.2", "E.2", "E.3", "F.2"),
            "Appendix E.2",
            "Table 4",
        ),
        "d3_to_d6": numbered("Lemma", *(f"D.{k}" for k in range(3, 7))),
        "d7_to_d12": numbered("Lemma", *(f"D.{k}" for k in range(7, 13))),
        "d13_to_f3": (
            *numbered("Theorem", "3.7", "D.14"),
            "Lemma D.13",
            *numbered("Corollary", "4.1", "D.15", "E.1", "F.1"),
            "Appendix F.3",
        ),
        "rates": ("Section 4", "Table 1", "Appendix E.3"),
        "public_records": ("Theorem D.14",),
        "appendix_g": (
            *numbered("Lemma", "G.2", "G.5", "G.6"),
            *numbered("Theorem", "G.3", "G.7"),
            *numbered("Corollary", "G.4", "G.8"),
        ),
    },
    no_claims={
        **dict.fromkeys(numbered("Algorithm", "1", "2", "3", "4", "5"), "it defines an algorithm"),
        "Assumption 3.1": "it states a hypothesis: losses are convex",
        "Assumption 3.2": "it states a hypothesis: losses are smooth",
        "Assumption 3.3": "it states a hypothesis: losses are Lipschitz continuous",
        "Assumption 3.4": "it states a hypothesis: the regulariser is smooth and may be strongly convex",
        "Assumption 3.5": r"it states a hypothesis: the difference $H^{(k)}$ of objectives is smooth",
        "Assumption D.1": "it states a hypothesis: losses are smooth, each with a constant of its own",
        "Assumption D.2": "it repeats Assumption 3.3",
        "Assumption G.1": r"it states a hypothesis: the regulariser is $\lambda \|x\|_1$, and $E \|x_{n+1}^{(k)} - \eta \lambda n 1\|_\infty \le B$",
        "Definition 2.1": r"it defines $(\epsilon, \delta)$-differential privacy",
        "Definition C.1": r"it defines $(\epsilon, \delta)$-differential privacy",
        "Definition C.2": "it defines the Rényi divergence",
        "Definition C.3": "it defines Rényi differential privacy",
        "Definition C.6": "it defines contractions",
        "Definition C.8": "it defines contractive noisy iterations",
        "Figure 1": "it draws the algorithms",
        **dict.fromkeys(numbered("Figure", "3", "4", "5", "6"), "it repeats Figure 2 in another setting"),
    },
)
