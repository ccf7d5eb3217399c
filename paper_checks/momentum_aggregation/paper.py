"""The paper of this package and its inventory: where the claims about each statement stand, or why there are none."""

from corrnoise.paper_checks.machinery.papers import Paper, numbered
from corrnoise.theory.participation import Participation

#: Participation by the name of its order, as domains have it.
ORDERS = {"fixed": Participation.fixed_epochs, "reshuffled": Participation.reshuffled}

PAPER = Paper(
    "momentum-aggregation",
    source="arXiv 2210.06328",
    title="Momentum Aggregation for Private Non-convex ERM",
    authors="Tran, Cutkosky",
    package=__package__,
    statements={
        "theorems_4_and_8": numbered("Theorem", "4", "8", "10"),
        "lemmas_5_to_12": numbered("Lemma", "5", "7", "11", "12"),
        "theorems_6_and_9": numbered("Theorem", "6", "9"),
        "lemma_17": ("Lemma 17", "Algorithm 4"),
        "propositions_13_to_18": (
            *numbered("Proposition", "13", "14"),
            "Corollary 15",
            *numbered("Proposition", "16", "18"),
        ),
    },
    no_claims={
        "Definition 1": r"it defines $(\epsilon, \delta)$-differential privacy",
        "Definition 2": "it defines the sensitivity of a function",
        "Definition 3": "it defines Rényi differential privacy",
        "Figure 1": "it draws the tree",
        "Algorithm 1": r"it defines an algorithm; the tree needs $R \ge \lfloor \log_2 T \rfloor + 1$ levels",
        "Algorithm 2": "it defines an algorithm; its loops have to run over t = 1, …, T, with the epoch of each leaf, and Theorem 8 "
        "has the missing L",
        "Algorithm 3": "it defines an algorithm, and Proposition 18 says what it returns",
        "Algorithm 5": "it defines an algorithm",
        "Equation (2)": "it defines the leaves r, whose sum with the leaves G is the momentum",
        "Equation (3)": "it repeats Lemma 17",
    },
)
