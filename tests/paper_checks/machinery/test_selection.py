"""Selection: the claims that names mean, and that no more is imported than those claims need."""

import json
import random
import subprocess
import sys

import pytest

from corrnoise.paper_checks import claims, papers
from corrnoise.paper_checks.machinery.names import words
from corrnoise.paper_checks.machinery.selection import papers_called, select
from tests.small_claims import below, claim, small


def paper(name, numbers, **fields):
    """A paper with claims of these names."""
    made = small(name, **{"source": "arXiv 1234.56789", "title": "On Noise", "authors": "Ada, Bell", **fields})
    for number in numbers:
        claim(below, name=number, paper=made)
    return made


ONE = paper("one-paper", ["Theorem 1.1", "Lemma C.2 (i)", "Lemma C.2 (ii)", "Lemma C.21", "Equation (5)", "γ (upper)"])
OTHER = paper(
    "other-paper",
    ["Theorem 1.1", "Table 2", "Figure 1 (η → 0)", "Property C.3 (R²)"],
    source="arXiv 9876.54321",
    title="Data and Shuffling",
    authors="Cole",
    no_claims={"Assumption C.2": "it states a hypothesis: $x < 1$"},
)
PAPERS = (ONE, OTHER)


def names(*typed):
    return [claim.name if claim.paper == "one-paper" else f"+{claim.name}" for claim in select(PAPERS, typed).claims]


ALL = [claim.name for claim in ONE.claims]
OTHERS = [f"+{claim.name}" for claim in OTHER.claims]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ((), ALL + OTHERS),
        # claims
        (("Lemma C.2",), ["Lemma C.2 (i)", "Lemma C.2 (ii)"]),  # not C.21
        (("lemma c21",), ["Lemma C.21"]),
        (("c.2 (II)",), ["Lemma C.2 (ii)"]),
        (("Thm 1.1",), ["Theorem 1.1", "+Theorem 1.1"]),
        (("Eq. (5)",), ["Equation (5)"]),
        (("equation 5",), ["Equation (5)"]),
        (("(5)",), ["Equation (5)"]),
        (("Fig. 1",), ["+Figure 1 (η → 0)"]),
        (("figure 1 eta",), ["+Figure 1 (η → 0)"]),
        (("gamma",), ["γ (upper)"]),
        (("Γ upper",), ["γ (upper)"]),
        (("prop c3",), ["+Property C.3 (R²)"]),
        (("property c.3 r2",), ["+Property C.3 (R²)"]),
        (("C",), ["Lemma C.2 (i)", "Lemma C.2 (ii)", "Lemma C.21", "+Property C.3 (R²)"]),
        # papers
        (("one-paper",), ALL),
        (("One Paper",), ALL),
        (("one",), ALL),
        (("1234.56789",), ALL),
        (("arXiv:9876.54321",), OTHERS),
        (("data and",), OTHERS),
        (("Ada",), ALL),
        (("othe",), OTHERS),
        (("one-paper", "9876.54321"), ALL + OTHERS),
        # papers restrict claims
        (("one-paper", "Theorem 1.1"), ["Theorem 1.1"]),
        (("Theorem 1.1", "9876.54321"), ["+Theorem 1.1"]),
        (("other-paper Theorem",), ["+Theorem 1.1"]),
        (("other-paper-theorem-1.1",), ["+Theorem 1.1"]),
        (("one-paper", "other-paper", "Theorem 1.1"), ["Theorem 1.1", "+Theorem 1.1"]),
        (("one-paper", "Theorem 1.1", "Lemma C.21"), ["Theorem 1.1", "Lemma C.21"]),
        # one name in several arguments
        (("Lemma", "C.21"), ["Lemma C.21"]),
        (("lemma", "c", "2", "ii"), ["Lemma C.2 (ii)"]),
        (("Lemma", "C.21", "Eq.", "(5)", "fig", "1"), ["Lemma C.21", "Equation (5)", "+Figure 1 (η → 0)"]),
        (("other", "paper", "Theorem", "1.1"), ["+Theorem 1.1"]),
        (("Theorem", "1.1", "one-paper"), ["Theorem 1.1"]),
        (("Lemma", "one-paper"), ["Lemma C.2 (i)", "Lemma C.2 (ii)", "Lemma C.21"]),
        (("Lemma", "Theorem", "1.1"), ["Theorem 1.1", "Lemma C.2 (i)", "Lemma C.2 (ii)", "Lemma C.21", "+Theorem 1.1"]),
        (("Table 2", "Lemma C.21", "Table"), ["Lemma C.21", "+Table 2"]),  # in the order of the papers, once
    ],
)
def test_names_mean(typed, expected):
    assert names(*typed) == expected


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("Lemma C.3",), "there is no paper or claim 'Lemma C.3'; close are Lemma C.2"),
        (("Lemma C.2 (iii)",), r"close are Lemma C.2 \(ii\), Lemma C.2 \(i\)"),
        (("one-papr",), "close are one-paper"),
        (("xyzzy",), "there is no paper or claim 'xyzzy'; corrnoise check --list shows all"),
        (("Theorem 1.1", "xyzzy"), "there is no paper or claim 'xyzzy'"),
        (("",), "there is no paper or claim ''"),
        (("…",), "there is no paper or claim '…'"),
        (("one-paper", "Table 2"), "there is no claim 'Table 2' in one-paper, but there is one in another paper"),
        (("Assumption C.2",), "there is no claim about Assumption C.2 of other-paper: it states a hypothesis"),
        (("C.2", "other-paper"), "there is no claim about Assumption C.2 of other-paper: it states a hypothesis"),
        # a kind and what follows it are one name, also where there is no such claim
        (
            ("Assumption", "C.2"),
            r"there is no claim about Assumption C.2 of other-paper: it states a hypothesis: x < 1",
        ),
        (("Lemma", "C.3"), "there is no paper or claim 'Lemma C.3'"),
        (("Figure", "4"), "there is no paper or claim 'Figure 4'"),
        (("thm", "11"), "there is no paper or claim 'thm 11'; close are Theorem 1.1"),
        (("Lemma", "c", "3"), "there is no paper or claim 'Lemma c 3'"),
        (("Theorem", "1.1", "Eq.", "6"), "there is no paper or claim 'Eq. 6'"),
    ],
)
def test_names_without_meaning_are_explained(typed, message):
    with pytest.raises(ValueError, match=message):
        select(PAPERS, typed)


@pytest.mark.parametrize(
    ("typed", "remarks"),
    [
        (("Lemma",), ["'Lemma' means 3 claims; with a number, as in 'Lemma C.2 (i)', it means one"]),
        (("theo",), ["'theo' means 2 claims"]),
        (("Lemma", "C.2"), []),  # several parts of one statement
        (("gamma",), []),
        (("Theorem 1.1",), []),
        (("one-paper", "C"), ["'C' means 3 claims"]),
        (("one-paper",), []),
        ((), []),
    ],
)
def test_a_name_without_a_number_that_means_many_is_remarked_on(typed, remarks):
    found = select(PAPERS, typed).remarks
    assert len(found) == len(remarks)
    assert all(got.startswith(start) for got, start in zip(found, remarks, strict=True))


def test_papers_are_called():
    assert papers_called(PAPERS, "1234.56789") == (ONE,)
    assert papers_called(PAPERS, "O") == PAPERS
    with pytest.raises(ValueError, match=r"paper must be one of one-paper, other-paper, got 'Lemma C\.21'"):
        papers_called(PAPERS, "Lemma C.21")


def test_whole_names_mean_the_same_in_any_order():
    every, rng = papers(), random.Random(0)
    numbers = [number for paper in every for number in paper.numbers]
    for pair in [("Appendix G", "N1"), *(rng.sample(numbers, 2) for _ in range(100))]:
        assert select(every, pair).claims == select(every, pair[::-1]).claims, pair


# -- the ledger --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_claim_is_meant_by_its_name_and_by_its_identifier():
    every = papers()
    for one in claims():
        for typed in (f"{one.paper} {one.name}", one.identifier, f"{one.source} {one.name.lower()}"):
            if words(typed):
                found = select(every, [typed]).claims
                assert one in found, typed
                assert all(words(other.name)[: len(words(one.name))] == words(one.name) for other in found), typed


PROBE = """
import json, sys
before = set(sys.modules)
from corrnoise.paper_checks import papers
from corrnoise.paper_checks.machinery.selection import select
for found in select(papers(), {names}).claims:
    found.check() if {names} else (found.name, found.identifier, found.recorded, found.evidence)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def imported(*typed):
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(names=list(typed))], capture_output=True, text=True, timeout=300, check=True
    )
    return set(json.loads(done.stdout))


def test_claims_are_listed_without_importing_them_or_what_they_compute_with():
    found = imported()
    assert len([name for name in found if name.startswith("corrnoise")]) < 25
    assert not {"numpy", "scipy", "numba", "flint"} & found


@pytest.mark.slow
def test_only_the_modules_of_the_claims_meant_are_imported():
    found = imported("Lemma", "C.21")
    sections = {name.partition("paper_checks.")[2] for name in found if name.startswith("corrnoise.paper_checks.")}
    papers_imported = {name for name in sections if not name.startswith("machinery") and name.count(".")}
    assert papers_imported == {
        "correlated_noise.c21_to_c24",
        "correlated_noise.oracles",
        "correlated_noise.paper",
        "shuffled_gradients.paper",
        "noise_cancellation.paper",
        "momentum_aggregation.paper",
        "own_results.paper",
    }
    slow = {"scipy.stats", "scipy.optimize", "joblib", "matplotlib", "cvxpy", "jinja2", "latex2mathml"}
    assert not found & slow


def test_a_quoted_name_is_not_joined_with_the_next():
    """An appendix without a number of its own looks like the beginning of a name."""
    two = paper("third-paper", ["Appendix G", "N1"])
    for names in (["Appendix G", "N1"], ["N1", "Appendix G"]):
        assert [one.name for one in select([two], names).claims] == ["Appendix G", "N1"]
    with pytest.raises(ValueError, match="there is no paper or claim 'Appendix N1'"):
        select([two], ["Appendix", "N1"])
