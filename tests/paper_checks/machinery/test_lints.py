"""Lints: the ledger has no fault, and each rule finds a planted one."""

from dataclasses import replace

import pytest

import corrnoise.paper_checks.machinery.lints as machinery
from corrnoise.paper_checks import papers
from corrnoise.paper_checks.machinery.lints import conditions, faults, lint, order_symbol
from corrnoise.paper_checks.machinery.quotations import Quotation
from tests.small_claims import below, claim

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
