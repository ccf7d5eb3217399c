"""Foundations: the graph of claims, and the effect of a broken foundation."""

from dataclasses import replace

import pytest

import corrnoise.paper_checks as ledgers
from corrnoise.paper_checks.machinery.foundations import Foundations
from tests.small_claims import below, claim, small


def paper(name, **written):
    """A paper with the claims ``written``: each name with its other fields."""
    found = small(name)
    for number, fields in written.items():
        claim(below, name=number, paper=found, **{"mutants": [{"c": 0.5}], **fields})
    return found


def proved(*rests_on):
    return {"rests_on": rests_on, "proof": "docs/accuracy.md"}


FIRST = paper("first", A=proved(), B=proved("A"), C=proved("B", "second: D"))
SECOND = paper("second", D=proved(), E=proved("first: A"))
GRAPH = Foundations([FIRST, SECOND])


def names(claims):
    return [claim.name for claim in claims]


def test_the_graph():
    a, b, c = FIRST.claims
    d, e = SECOND.claims
    assert GRAPH.of(c) == (b, d)
    assert GRAPH.of(e) == (a,)
    assert set(GRAPH.below([c])) == {a, b, c, d}
    assert names(GRAPH.below([b])) == ["A", "B"]
    assert GRAPH.above == {a: (b, e), b: (c,), d: (c,)}


def test_a_broken_foundation_shows_in_everything_above_it():
    outcomes = {claim: claim.check() for claim in (*FIRST.claims, *SECOND.claims)}
    a, b, c = FIRST.claims
    d, e = SECOND.claims
    assert all(outcome.agrees for outcome in GRAPH.applied(outcomes.values()))
    outcomes[a] = replace(outcomes[a], agrees=False, reason="fails")
    found = {outcome.claim: outcome for outcome in GRAPH.applied(outcomes.values())}
    assert [found[claim].agrees for claim in (a, b, c, d, e)] == [False, False, False, True, False]
    assert found[b].reason == "rests on A (first): fails"
    assert found[c].reason == "rests on B (first): rests on A (first): fails"
    assert list(found) == list(outcomes)


def test_names_that_are_no_claims_and_circles_are_refused():
    for name in ("Z", "third: A", "second: A", "B "):
        [claim] = paper("small", A=proved(name)).claims
        with pytest.raises(ValueError, match="rests_on of A must be names of claims, got"):
            Foundations([FIRST, SECOND]).of(claim)
    circle = paper("circle", A=proved("B"), B=proved("A"))
    with pytest.raises(ValueError, match="cycle"):
        Foundations([circle]).below(circle.claims)


@pytest.mark.parametrize(
    ("foundation", "fault"),
    [
        ({"counterexample": {"x": 0.75}}, "X rests on A, which is false"),
        ({"undecided": ("open", "No proof.")}, "X rests on A, which is open"),
        ({}, "X is proved and rests on A, which is searched"),
        (proved(), None),
        ({"evidence": "certified"}, None),
        ({"theorem": ("t", "0")}, None),
        ({"evidence": "cited", "proof": "Nobody 2000, Theorem 1"}, None),
    ],
)
def test_what_cannot_bear_a_proof(foundation, fault):
    small = paper("small", A=foundation, X=proved("A"))
    faults = list(Foundations([small]).faults(small.claims[1]))
    assert (fault in faults) if fault else not faults


# -- the graph of the ledger -------------------------------------------------------------------------------------------


def test_the_foundations_of_the_ledger_bear_what_rests_on_them():
    graph = Foundations(ledgers.papers())
    claims = [one.claim for one in ledgers.claims()]
    assert set(graph.below(claims)) == set(claims)
    assert [fault for claim in claims for fault in graph.faults(claim)] == []
