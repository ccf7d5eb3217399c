"""The ledger against the inventories that were extracted from the papers' texts: nothing numbered is overlooked."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import corrnoise.paper_checks as ledgers
from corrnoise.paper_checks.machinery.inventory import EQUATION, Entry, inventory_of
from corrnoise.paper_checks.machinery.quotations import Quotation, place, quotation_of

PUBLISHED = [name for name in ledgers.NAMES if name != "corrnoise"]
#: How many statements, tables, figures and algorithms, and how many equations a reader counts in each paper.
NUMBERS = {
    "correlated-noise": (76, 103),
    "shuffled-gradients": (64, 87),
    "momentum-aggregation": (24, 9),
    "noise-cancellation": (23, 15),
}


def overlooked(paper, inventory):
    """The entries about which there is neither a claim nor a word why not.

    An equation in a statement, or between it and the next one in its section, stands with that statement.
    """
    said = {*paper.numbers, *paper.no_claims}
    return [
        entry.label
        for entry in inventory
        if not (entry.label in said or entry.word or (entry.kind == EQUATION and entry.after in said))
    ]


@pytest.mark.parametrize("name", PUBLISHED)
def test_everything_numbered_is_a_claim_or_says_why_not(name):
    inventory = inventory_of(f"corrnoise.paper_checks.{name.replace('-', '_')}")
    equations = sum(entry.kind == EQUATION for entry in inventory)
    assert (len(inventory) - equations, equations) == NUMBERS[name]
    assert overlooked(ledgers.paper_ledger(name), inventory) == []


@pytest.mark.parametrize("name", PUBLISHED)
def test_words_are_about_what_is_no_claim_and_begin_in_lower_case(name):
    for entry in inventory_of(f"corrnoise.paper_checks.{name.replace('-', '_')}"):
        assert not entry.word or (entry.word[0].islower() and not entry.word.endswith("."))


def test_an_overlooked_statement_and_an_overlooked_equation_are_found():
    paper = ledgers.paper_ledger("correlated-noise")
    inventory = inventory_of("corrnoise.paper_checks.correlated_noise")
    numbers = [number for number in paper.numbers if number != "Lemma C.21"]
    left_out = SimpleNamespace(numbers=numbers, no_claims=paper.no_claims)
    found = overlooked(
        left_out, [*inventory, Entry("Equation (104)", "F.6"), Entry("Equation (105)", "F.6", "Lemma F.22")]
    )
    assert found[0] == "Lemma C.21"
    assert found[-1] == "Equation (104)"


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_the_ledger_calls_numbered_is_numbered_in_the_paper(name):
    """Only of the kinds that the extraction knows, apart from captions that the texts lost."""
    inventory = {entry.label for entry in inventory_of(f"corrnoise.paper_checks.{name.replace('-', '_')}")}
    kinds = {label.partition(" ")[0] for label in inventory} - {"Table", "Figure"}
    paper = ledgers.paper_ledger(name)
    named = {number for number in (*paper.numbers, *paper.no_claims) if number.partition(" ")[0] in kinds}
    assert named - inventory == set()


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_claim_quotes_the_paper_word_for_word_or_says_why_not(name):
    """The digests were written when the quotations were found in the paper's text."""
    for claim in ledgers.paper_ledger(name).claims:
        known = quotation_of(claim)
        assert known is not None, f"{claim.name}: the quotation has changed since it was looked for"
        assert (known.digest and known.place) or known.word, claim.name
        assert place(claim)


def test_a_changed_quotation_is_noticed():
    claim = ledgers.paper_ledger("correlated-noise").claims[1]
    assert isinstance(quotation_of(claim), Quotation)
    changed = replace(claim, printed=claim.printed.replace("/(2", "/(3"))
    assert changed.printed != claim.printed
    assert quotation_of(changed) is None
