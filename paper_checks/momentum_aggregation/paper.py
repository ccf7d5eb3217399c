"""The paper of this package: its modules in order, and the statements without a claim."""

from corrnoise.paper_checks.machinery.papers import Paper

PAPER = Paper(
    "momentum-aggregation",
    source="arXiv 2210.06328",
    title="Momentum Aggregation for Private Non-convex ERM",
    authors="Tran, Cutkosky",
    package=__package__,
    modules=("theorems_4_and_8", "lemmas_5_to_12", "theorems_6_and_9", "lemma_17", "propositions_13_to_18"),
    definitions={
        "delta_r": {
            "2ηNL": r"$\delta_r$ and $\delta_\Delta$ in the proofs of Theorem 8 and Lemma 7",
            "2ηN": "in Algorithm 2",
        }
    },
    no_claims={
        "Definition 1": r"it defines $(\epsilon, \delta)$-differential privacy",
        "Definition 2": "it defines the sensitivity of a function",
        "Definition 3": "it defines Rényi differential privacy",
        "Section 1": "its noise is that of the claim Lemma 12 (count), and its rates are those of Theorem 6 and Section 5 (rate); "
        "that a rate is the best known is no statement about the algorithm",
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
