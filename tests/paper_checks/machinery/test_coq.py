"""Statements in Coq: the text of the theorem follows from the formula, and the plan changes the proof only."""

import pytest

from corrnoise.paper_checks.machinery.coq import PLANS, theorem
from corrnoise.paper_checks.machinery.expressions import statement


def stated(inequality, ranges):
    """The theorem, from its name to the end of its statement."""
    text = statement(inequality, ranges).coq("lemma")
    return " ".join(text[text.index("Theorem lemma") : text.index("Proof.\n  intros x")].split())


@pytest.mark.parametrize(
    ("inequality", "ranges", "text"),
    [
        ("0.1*x <= 1/3", "-1 <= x <= 1", "forall x : R, (- 1) <= x <= (1) -> ((1 / 10) * x) <= ((1) / (3))."),
        ("x < 2", "0 < x <= 1", "forall x : R, (1 / 10 ^ 300) <= x <= (1) -> x < (2)."),
        (
            "min(x, y) <= max(abs(x), y)",
            "0 <= x <= 1, x <= y <= 2",
            "forall x y : R, (0) <= x <= (1) -> x <= y <= (2) -> "
            "((x + y - Rabs (x - y)) / 2) <= (((Rabs x) + y + Rabs ((Rabs x) - y)) / 2).",
        ),
        (
            "log1p(x) + expm1(x) >= -pi*x^-2 - sin(x)^3",
            "1 <= x <= 2",
            "forall x : R, (1) <= x <= (2) -> "
            "(((- PI) * (/ (x ^ 2))) - ((sin x) ^ 3)) <= ((ln (1 + x)) + (exp x - 1)).",
        ),
        (
            "agm(x, 2) <= agm(2, x)",
            "1 <= x <= 2",
            "forall x M0 M1 : R, (1) <= x <= (2) -> is_agm x (2) M0 -> is_agm (2) x M1 -> M0 <= M1.",
        ),
    ],
)
def test_the_theorem_is_the_formula(inequality, ranges, text):
    assert stated(inequality, ranges) == f"Theorem lemma : {text}"


def test_plans_change_the_proof_only():
    formula = statement("agm(x, 2) <= 2", "0 < x <= 2")
    texts = [theorem(formula, "lemma", plan) for plan in PLANS]
    assert len(set(texts)) == len(PLANS)
    statements = {text[text.index("Theorem lemma") : text.index("Proof.\n  intros x")] for text in texts}
    assert len(statements) == 1
    assert not any(word in text for text in texts for word in ("Admitted", "Axiom", "Hypothesis"))
