"""The paper of this package: its modules in order, and the statements without a claim."""

from corrnoise.paper_checks.machinery.papers import Paper, numbered

PAPER = Paper(
    "shuffled-gradients",
    source="arXiv 2502.03652",
    title="Improving the Convergence of Private Shuffled Gradient Methods with Public Data",
    authors="Jiang, Sharma, Wu, Joshi",
    package=__package__,
    modules=(
        "sections_3_to_6",
        "c4_to_f2",
        "d3_to_d6",
        "d7_to_d12",
        "d13_to_f3",
        "proof_steps",
        "rates",
        "public_records",
        "appendix_g",
    ),
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
