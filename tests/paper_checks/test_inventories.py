"""The ledger against the inventories that were extracted from the papers' texts: nothing numbered is overlooked."""

import re
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
    """The entries about which there is neither a claim nor a word why not."""
    said = {*paper.numbers, *paper.no_claims}
    return [entry.label for entry in inventory if not (entry.label in said or entry.word)]


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


def unknown(paper, inventory):
    """What words name that is neither a claim nor a statement, table or figure of the paper."""
    claims = tuple(claim.name for claim in paper.listed)
    said = {*paper.numbers, *paper.no_claims, *(entry.label for entry in inventory)}
    for entry in inventory:
        for rest in re.findall(r"the claim (.*)", entry.word):
            if not rest.startswith(claims):
                yield f"{entry.label}: {rest}"
        for name in re.findall(
            r"(?:Theorem|Lemma|Corollary|Proposition|Property|Definition|Remark) (?:\w\.)?\d[\d.]*", entry.word
        ):
            if name not in said:
                yield f"{entry.label}: {name}"


@pytest.mark.parametrize("name", PUBLISHED)
def test_words_name_claims_and_statements_that_there_are(name):
    inventory = inventory_of(f"corrnoise.paper_checks.{name.replace('-', '_')}")
    paper = ledgers.paper_ledger(name)
    assert list(unknown(paper, inventory)) == []
    wrong = [Entry("Equation (999)", "1", "", "by Lemma Z.7 it is the claim Lemma 99 (i)"), *inventory]
    assert list(unknown(paper, wrong)) == [
        f"Equation (999): {what}" for what in ("Lemma 99 (i)", "Lemma Z.7", "Lemma 99")
    ]


def test_an_overlooked_statement_and_an_overlooked_equation_are_found():
    paper = ledgers.paper_ledger("correlated-noise")
    inventory = inventory_of("corrnoise.paper_checks.correlated_noise")
    numbers = [number for number in paper.numbers if number != "Lemma C.21"]
    left_out = SimpleNamespace(numbers=numbers, no_claims=paper.no_claims)
    found = overlooked(
        left_out, [*inventory, Entry("Equation (104)", "F.6"), Entry("Equation (105)", "F.6", "Lemma F.22")]
    )
    assert found == ["Lemma C.21", "Equation (104)", "Equation (105)"]


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
