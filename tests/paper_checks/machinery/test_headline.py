"""The headline: a matrix, one sentence, and no open statement among the decided ones."""

import pytest

from corrnoise.paper_checks import claims
from corrnoise.paper_checks.machinery.headline import headline
from tests.small_claims import below, claim

FALSE = {"as_printed": {"c": 0.5}, "counterexample": {"x": 0.75}}
CASES = {
    "true, machine-checked": ({"theorem": ("theorem_in_coq", "0")}, "proved"),
    "true, proved": ({"proof": "docs/elsewhere.md"}, "proved"),
    "true, cited": ({"proof": "Someone 2000, Theorem 1"}, "proved"),
    "true, searched": ({}, "decided"),
    "false, computed": (FALSE, "decided"),
    "false, counterexample": ({**FALSE, "evidence": "counterexample"}, "proved"),
    "open, proved": ({"undecided": ("open", "?"), "proof": "docs/elsewhere.md"}, "undecided"),
}


@pytest.mark.parametrize(("fields", "place"), CASES.values(), ids=CASES)
def test_a_claim_is_counted_once_where_it_belongs(fields, place):
    written = claim(below, **fields)
    found = headline([written])
    assert found.table == {(written.truth, written.evidence): 1}
    assert written in getattr(found, place)
    assert (written in found.decided) == (place != "undecided") != (written in found.undecided)
    assert (written in found.proved) == (place == "proved")


def test_the_sentence_and_the_matrix_of_the_whole_ledger():
    found = headline(claims())
    assert len(found.decided) + len(found.undecided) == len(claims()) == sum(found.table.values())
    assert sum(sum(counts) for _, counts in found.rows) == len(claims())
    assert "%" not in found.sentence
    assert found.sentence.startswith(f"Of {len(found.decided)} decided statements, ")
