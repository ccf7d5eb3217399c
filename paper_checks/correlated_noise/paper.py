"""The paper of this package: its modules in order, and the statements without a claim."""

from corrnoise.paper_checks.machinery.papers import Paper

SHORT = "docs/short-proofs.md"

PAPER = Paper(
    "correlated-noise",
    source="arXiv 2310.06771",
    title="Correlated Noise Provably Beats Independent Noise for Differentially Private Learning",
    authors="Choquette-Choo, Dvijotham, Pillutla, Ganesh, Steinke, Guha Thakurta",
    package=__package__,
    modules=(
        "sections_1_and_2",
        "appendix_a",
        "tables_1_to_4",
        "figures_1_and_2",
        "c3_to_c13",
        "c14_to_c20",
        "c21_to_c24",
        "d2_to_d10",
        "d11_to_d15",
        "section_2_3",
        "section_3_and_e1",
        "f2_to_f11",
        "f12_to_f22",
    ),
    definitions={
        "F": {
            "whole": r"$\|\theta - \theta_\star\|_H^2$ in (22) and (46), $E[\delta^2]$ in Appendix B",
            "half": "half of that in (6), (8) and (86)",
        },
        "inputs": {
            "(16)": r"$z_t - E[z]$ and $\sigma_{dp} G w_t$, as the transfer function takes them",
            "(14)": r"$u_t = (z_t - E[z])/\sigma_{sgd}$ and $w_t$, with the factors $\sigma_{sgd}$ and $\sigma_{dp} G$ before them",
        },
    },
    no_claims={
        "Equation (86)": "it is half of (85), which is checked",
        "Equation (102)": "it is the last term of (101), which is checked with it",
        "Equation (52)": "it is the statement of Remark C.23, which is checked",
        "Algorithm 1": "it defines the algorithms that the theorems are about",
        "Assumption C.2": r"it states a hypothesis: inputs of mean 0 with $E \|x\|^2 x x^\top \preceq R^2 H$ and bounded "
        r"kurtosis, and independent residuals with $E \xi^2 \le \sigma_{sgd}^2$",
        "Assumption C.17": r"it states a hypothesis: Assumption C.2 with $E \xi^2 = \sigma_{sgd}^2$",
        "Assumption D.1": r"it states a hypothesis: $H^{-1/2} x$ has independent sub-Gaussian entries, and the residual is "
        "sub-Gaussian",
        "Definition F.1": "it defines linear time-invariant systems",
        "Definition F.4": "it defines sub-Gaussian and strictly sub-Gaussian variables",
        "Figure 4": "it reports training runs on two data sets, which are not repeated here",
    },
)
