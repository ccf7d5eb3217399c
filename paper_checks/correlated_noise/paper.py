"""The paper of this package and its inventory: where the claims about each statement stand, or why there are none."""

from corrnoise.paper_checks.machinery.papers import Paper, numbered

SHORT = "docs/short-proofs.md"
NO_PRIVACY = 1e30  #: a budget ρ so large that the privacy noise is lost in rounding

PAPER = Paper(
    "correlated-noise",
    source="arXiv 2310.06771",
    title="Correlated Noise Provably Beats Independent Noise for Differentially Private Learning",
    authors="Choquette-Choo, Dvijotham, Pillutla, Ganesh, Steinke, Guha Thakurta",
    package=__package__,
    statements={
        "sections_1_and_2": (
            *numbered("Theorem", "1.1", "2.1", "2.2"),
            "Remark 1.2",
            *numbered("Equation", "(3)", "(5)", "(18)", "(19)", "(20)", "(21)"),
            "Property C.1",
        ),
        "appendix_a": ("Section A.1", "Section A.2", *numbered("Equation", "(12)", "(13)", "(17)")),
        "tables_1_to_4": numbered("Table", "1", "2", "3", "4"),
        "figures_1_and_2": numbered("Figure", "1", "2"),
        "c3_to_c13": (
            *numbered("Property", "C.3", "C.7", "C.8", "C.9"),
            *numbered("Lemma", "C.4", "C.6", "C.12"),
            "Corollary C.5",
            *numbered("Equation", "(42)", "(43)", "(54)", "(55)"),
            *numbered("Proposition", "C.10", "C.11", "C.13"),
        ),
        "c14_to_c20": (
            *numbered("Theorem", "C.14", "C.15", "C.18"),
            "Equation (47)",
            "Remark C.16",
            *numbered("Proposition", "C.19", "C.20"),
        ),
        "c21_to_c24": (
            "Lemma C.21",
            *numbered("Proposition", "C.22", "C.24"),
            "Remark C.23",
            *numbered("Equation", "(50)", "(51)", "(53)"),
            "Section C.6",
        ),
        "d2_to_d10": (
            "Property D.2",
            "Definition D.3",
            "Theorem D.4",
            *numbered("Proposition", "D.5", "D.6", "D.7", "D.8"),
            *numbered("Lemma", "D.9", "D.10"),
        ),
        "d11_to_d15": (
            *numbered("Theorem", "D.11", "D.13"),
            "Lemma D.12",
            *numbered("Equation", "(81)", "(82)", "(83)"),
            *numbered("Corollary", "D.14", "D.15"),
        ),
        "section_2_3": ("Section 2.3", *numbered("Equation", "(9)", "(74)", "(84)", "(85)", "(87)")),
        "section_3_and_e1": (*numbered("Theorem", "E.1", "3.1"), "Figure 3"),
        "f2_to_f11": (
            *numbered("Theorem", "F.2", "F.3"),
            *numbered("Property", "F.5", "F.8", "F.9", "F.10", "F.11"),
            "Lemma F.6",
            "Remark F.7",
        ),
        "f12_to_f22": (
            *numbered("Lemma", *(f"F.{k}" for k in range(12, 23))),
            *numbered("Equation", "(101)", "(103)"),
        ),
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
