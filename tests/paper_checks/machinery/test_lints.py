"""Lints: the ledger has no fault, and each rule finds a planted one."""

import math
from dataclasses import replace

import pytest

import corrnoise.paper_checks.machinery.lints as machinery
from corrnoise import paper_checks as ledgers
from corrnoise.paper_checks import papers
from corrnoise.paper_checks.machinery.domains import linear, log_scale
from corrnoise.paper_checks.machinery.lints import conditions, faults, lint, order_symbol, unnamed
from corrnoise.paper_checks.machinery.papers import Paper
from corrnoise.paper_checks.machinery.quotations import Quotation
from tests.small_claims import below, small
from tests.small_claims import claim as small_claim


def claim(function, outside="There it is false.", **fields):
    return small_claim(function, outside=outside, **fields)


FALSE = {"as_printed": {"c": 0.5}, "counterexample": {"x": 0.75}}


@pytest.mark.slow
def test_the_ledger_has_no_fault():
    assert lint(papers()) == ()


@pytest.mark.parametrize(
    "printed",
    [r"$x = \mathcal{O}(y)$", r"$f = \Theta(1)$", r"$x \lesssim y$", r"$x \approx y$", "The slopes are nearly equal."],
)
def test_a_refuted_rate_needs_unspecified_constants(printed):
    [fault] = faults(claim(below, printed=printed, **FALSE))
    assert (fault.claim, fault.rule) == ("small-lemma-1", "R1")
    [fault] = faults(claim(below, reading="up to constants", **FALSE))
    assert fault.rule == "R1"
    assert not list(faults(claim(below, printed=printed)))

    def family(c):
        return {"x": 1 / (1 + c)}

    free = claim(
        lambda x, c=1.0: (x, c * x * x), constants={"c": "unspecified"}, counterexample=family, printed=printed
    )
    assert not list(faults(free))


def test_a_number_of_the_ledgers_own_choice_is_noticed():
    def bounded(x, limit=300.0, published=False):
        """300 refutes it, 30 does not."""
        return (limit / 2 if published else 0.0), 100.0

    fields = {"counterexample": {"x": 0.5}, "mutants": [{"limit": 299.0}]}
    [fault] = faults(claim(bounded, **fields))
    assert (fault.rule, fault.text) == ("R2", "limit = 300 decides the counterexample, and is not printed")
    assert not list(faults(claim(bounded, printed="at most $300$", **fields)))


@pytest.mark.parametrize("condition", ["R3: when", "R4: \\mathcal{O}"])
def test_a_condition_that_is_left_out_is_a_fault_until_a_word_explains_it(monkeypatch, condition):
    found = Quotation("small-lemma-1", condition=condition)
    monkeypatch.setattr(machinery, "quotation_of", lambda claim: found)
    [fault] = faults(claim(below))
    assert (fault.rule, fault.text) == tuple(condition.split(": "))
    monkeypatch.setattr(machinery, "quotation_of", lambda claim: replace(found, word="a definition"))
    assert not list(faults(claim(below)))


def test_conditions_and_order_symbols_are_found_in_a_text():
    assert conditions("When n is small, it holds. If not, suppose so.") == ("when", "is small", "if", "suppose")
    assert conditions("It is different.") == ()
    assert order_symbol("omitting log factors") == "omitting log"
    assert order_symbol("$K = 3$, more or less") == ""


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"domain": {"x": log_scale(1e-3, 0.7)}}, "it fails where x is beyond 0.7, which is not printed"),
        ({"domain": {"x": log_scale(1e-3, 1)}, "mutants": [{"c": 0.5}]}, "it fails where x is beyond 1, which is not"),
        (
            {"domain": {"x": linear("0.1", "1")}, "printed": "$x \\le 1$", "evidence": "certified"},
            "x ends at 0.1, which is not printed, and so does the certificate",
        ),
    ],
)
def test_an_end_that_is_not_printed_needs_a_word_about_what_lies_beyond(fields, rule):
    """The sides cross at 0.75, or at 1; an end that is printed is a hypothesis."""
    limit = 1.0 if "mutants" in fields or "evidence" in fields else 0.75

    def crossing(x, c=1.0):
        return x * x, c * limit * x

    [fault] = faults(small_claim(crossing, **fields))
    assert (fault.rule, fault.text[: len(rule)]) == ("R5", rule)
    assert not list(faults(claim(crossing, **fields)))
    assert not list(faults(small_claim(crossing, **fields | {"printed": r"$\frac{7}{10} \ge x$, 1e-3, 0.1 to 1"})))


def test_ends_beyond_which_it_is_true_or_nothing_is_said_need_no_word():
    assert not list(faults(small_claim(below, domain={"x": linear(0.25, 0.5)})))
    assert not list(faults(small_claim(lambda x, c=1.0: (math.sqrt(1 - x), c * 2), domain={"x": linear(0, 1)})))


def test_a_foundation_that_is_left_out_is_noticed():
    [claim] = ledgers.claims("corrnoise", name="P4")
    text = "*P4.* By P2 and the bound of P1 it is so. ∎ P5 follows. *P5.* By P3. ∎"
    numbers = ("P1", "P2", "P3", "P4", "P5")
    assert list(unnamed(replace(claim.claim, rests_on=()), numbers, text)) == ["P2"]
    assert list(unnamed(claim.claim, numbers, text)) == []


def test_proofs_are_read_for_foundations(monkeypatch):
    """``lint`` reads the section that the claim names; without the reference it finds the fault."""
    [listed] = [one for one in papers()[-1].listed if one.name == "P4"]
    paper = small()
    paper.registered.append(replace(listed.claim, rests_on=()))
    monkeypatch.setattr(Paper, "numbers", ("P1", "P2", "P4"))
    assert {(fault.rule, fault.claim) for fault in lint([paper])} == {("R6", "corrnoise-p4")}
