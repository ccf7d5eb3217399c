"""The paper of this package: its modules in order, and the statements without a claim."""

from corrnoise.paper_checks.machinery.papers import Paper, numbered

PAPER = Paper(
    "noise-cancellation",
    source="ICML 2025, PMLR 267",
    title="Privacy-Preserving Federated Convex Optimization: Balancing Partial-Participation and Efficiency via Noise "
    "Cancellation",
    authors="Reshef, Levy",
    package=__package__,
    modules=("gradients", "privacy_claims", "lemmas_on_noise", "appendix_a", "convergence"),
    no_claims={
        **dict.fromkeys(
            numbered("Algorithm", "1", "2"),
            r"it defines an algorithm; $x_{t-1}$ must be sent too, to machines that were absent, and $\alpha_0 = 0$",
        ),
        "Definition 2.2": "it defines the Rényi divergence",
        "Definition 2.4": r"it defines $(\epsilon, \delta)$-differential privacy",
        "Definition 2.5": "it defines Rényi differential privacy",
        "Definition 2.7": "it defines zero-concentrated differential privacy",
        "Lemma A.3": "it quotes the composition of Bun and Steinke, which holds also for adaptive choices",
        "Lemma A.4": "it quotes the data processing inequality of van Erven and Harremoës",
        "Section 6": "it repeats the abstract; the rate is the claim Section 5.2 (rate)",
        "Section 2.3": "it quotes lower bounds of other papers, without constants",
        **dict.fromkeys(
            numbered("Table", "1", "2"),
            "it reports accuracies without the learning rates; a figure repeats the experiment, on bundled digits or on MNIST",
        ),
    },
)
