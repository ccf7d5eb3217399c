"""Every claim of every paper: its verdict is the recorded one, its mutants are rejected, and its text can be read.

The point of a claim that a property-based test draws is a point of the cube in which the check itself searches.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latex2mathml.converter import convert

import corrnoise.paper_checks as ledgers
from corrnoise.paper_checks.machinery.lints import names_it, proof_in
from corrnoise.paper_checks.machinery.verdicts import CORRECTED, FALSE, HOLDS
from corrnoise.paper_checks.machinery.wording import definitions
from corrnoise.support.mathematics import plain

DOCS = Path(__file__).parents[2]
CLAIMS = ledgers.claims()
LARGEST_FALSE_ALARM_RATE = 1e-7
#: Claims that are true by search or simulation alone, with a margin above one half; the notes say why.
FAR_FROM_EQUALITY = {"correlated-noise-theorem-e.1"}


#: Claims whose check takes more than a second.
LONG = {
    "correlated-noise-equation-22-convention-of-f",
    "correlated-noise-equation-51",
    "correlated-noise-figure-3-optimized",
    "correlated-noise-lemma-c.21-ii-proof",
    "correlated-noise-proposition-c.11",
    "correlated-noise-proposition-c.13",
    "correlated-noise-remark-f.7-sum",
    "correlated-noise-theorem-3.1-cone-constraints",
    "correlated-noise-theorem-c.14",
    "corrnoise-a1",
    "corrnoise-a1-others",
    "corrnoise-a5",
    "corrnoise-a6-interval",
    "corrnoise-l2",
    "corrnoise-n3-sharpened-one-direction",
    "corrnoise-p4",
    "corrnoise-s3",
    "corrnoise-s4",
    "corrnoise-theorem-2",
    "corrnoise-tv2",
    "momentum-aggregation-theorem-4-rdp",
    "momentum-aggregation-theorem-8-rdp",
    "noise-cancellation-section-5-growing-noise",
    "noise-cancellation-theorem-5.2-bound",
    "noise-cancellation-theorem-5.2-quadratic-runs",
    "shuffled-gradients-appendix-e.2-reshuffling",
    "shuffled-gradients-corollary-d.15",
    "shuffled-gradients-lemma-d.12",
    "shuffled-gradients-lemma-d.13",
    "shuffled-gradients-lemma-d.5",
    "shuffled-gradients-lemma-d.8",
    "shuffled-gradients-lemma-d.9",
    "shuffled-gradients-theorem-d.14",
    "shuffled-gradients-theorem-d.14-public-records",
    "shuffled-gradients-theorem-g.7-public-records",
}


def of(claims, long=frozenset()):
    """Parametrise a test over ``claims``, one by one."""
    marked = [pytest.param(each, marks=[pytest.mark.slow] * (each.identifier in long)) for each in claims]
    return pytest.mark.parametrize("claim", marked, ids=[each.identifier for each in claims])


of_each_paper = pytest.mark.parametrize("paper", ledgers.papers(), ids=ledgers.NAMES)


# -- what is claimed ---------------------------------------------------------------------------------------------------


@of(CLAIMS, LONG)
def test_the_check_finds_what_is_recorded(claim):
    """The verdict; every mutant is rejected; and the stated constant is on the true side of the sharp one.

    A claim is checked here only, once a run.  At the sharp constant the worst case found is an equality, and a
    thousandth beyond it the statement fails.
    """
    outcome = claim.check()
    claim = claim.claim
    assert outcome.agrees, outcome.reason
    assert outcome.verdict == claim.recorded
    assert outcome.mutants
    assert all(rejected for _, rejected in outcome.mutants)
    assert (outcome.counterexample is not None) == (claim.recorded in (CORRECTED, FALSE))
    if outcome.counterexample is not None:
        assert outcome.counterexample.margin < -claim.tolerance
    if claim.recorded in (HOLDS, CORRECTED):
        assert outcome.margin >= -claim.tolerance
    searched = claim.recorded in (HOLDS, CORRECTED) and claim.checked_evidence in ("searched", "simulated")
    assert (searched and outcome.margin > 0.5) == (claim.identifier in FAR_FROM_EQUALITY)
    assert outcome.claim is claim, "a certificate proves it, so its evidence is at least certified"
    assert outcome.certificate is not None or claim.checked_evidence != "certified"
    assert (outcome.sharp is not None) == (claim.sharp is not None)
    if outcome.sharp is not None:
        assert outcome.interval.low <= outcome.interval.high
        worst = claim.margin(outcome.worst, **claim.constant(outcome.sharp))
        assert abs(worst) < 1e-6
        sides = [claim.margin(outcome.worst, **claim.constant(outcome.sharp * (1 + step))) for step in (-1e-3, 1e-3)]
        assert min(sides) < 0 < max(sides)


#: Steps of proofs: arguments with which the margin has no scale, others, and a false neighbour.
STEPS = {
    "Equation (27)": (
        {"start": 1.0, "gradient": 1.0, "size": 0.2, "z": 0.5},
        {"rate": 0.5, "convexity": 1.0},
        {"factor": 1.01},
    ),
    "Equation (64)": ({"points": np.linspace(-1, 1, 6), "best": 0.3}, {}, {"share": 0.999}),
    "Equation (70)": ({"points": np.linspace(-1, 0.8, 7), "best": 0.3}, {"curvature": 0.0}, {"shift": 1}),
    "Equation (71)": ({"divergences": np.linspace(0.1, 1, 8)}, {}, {"first": 0}),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_proofs_have_no_scale(name):
    """Small sides are compared with their terms: what is added to both would hide a false neighbour."""
    scaled, others, mutant = STEPS[name]
    [listed] = ledgers.claims("shuffled-gradients", name=name)
    small = {key: value * 1e-9 for key, value in scaled.items()}
    large, small = (listed.claim.margin({**arguments, **others}, **mutant) for arguments in (scaled, small))
    assert small == pytest.approx(large, rel=1e-6)
    assert small < -1e-5


@of([claim for claim in CLAIMS if claim.recorded != FALSE])
def test_the_statement_holds_at_points_of_its_domain(claim):
    """As many points as a short search has; what is false as printed is checked as corrected."""
    claim = claim.claim
    coordinate = st.floats(0, 1).map(lambda u: round(u * 2**53) / 2**53)

    @settings(max_examples=min(20, max(2, claim.evaluations // 16)))
    @given(st.lists(coordinate, min_size=claim.domain.size, max_size=claim.domain.size).map(np.array))
    def holds(point):
        assert claim.holds_at(point), claim.domain.arguments(point)

    holds()


# -- names -------------------------------------------------------------------------------------------------------------


def test_identifiers_tell_claims_apart():
    assert len({claim.identifier for claim in CLAIMS}) == len(CLAIMS) > 100
    for claim in CLAIMS:
        assert re.fullmatch(r"[a-z0-9.\-]+", claim.identifier), claim.identifier


# -- what is said ------------------------------------------------------------------------------------------------------


def texts(claim):
    fields = ("printed", "reading", "repair", "transcription", "outside", "independent", "note")
    said = {field: text for field in fields if (text := getattr(claim, field))}
    said |= {f"hypothesis {k}": text for k, text in enumerate(claim.hypotheses)}
    said |= {"undecided": claim.undecided[1]} if claim.undecided else {}
    return said | ({"definitions": definitions(claim)} if claim.definitions else {})


@of_each_paper
def test_mathematics_can_be_typeset_and_read(paper):
    for name, field, text in ((claim.name, *said) for claim in paper.claims for said in texts(claim).items()):
        parts = text.split("$")
        assert len(parts) % 2 == 1, f"{name}, {field}: a dollar sign has no partner"
        for latex in parts[1::2]:
            assert latex.strip(), f"{name}, {field}: empty mathematics"
            assert _balanced(latex), f"{name}, {field}: braces of {latex}"
            typeset = convert(latex)
            assert "\\" not in typeset, f"{name}, {field}: {latex} becomes {typeset}"
        for prose in parts[0::2]:
            assert "\\" not in prose, f"{name}, {field}: LaTeX outside dollar signs: {prose}"
        shown = plain(text)
        assert "\\" not in shown
        assert "$" not in shown


def _balanced(latex):
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


@pytest.mark.parametrize("wrong", ["a}{", "{a", "\\frac{1}{2}}"])
def test_braces_out_of_balance_are_noticed(wrong):
    assert not _balanced(wrong)
    assert _balanced(r"\{ \frac{a}{b}")


@of_each_paper
def test_proofs_are_where_they_are_said_to_be(paper):
    for claim in paper.claims:
        if claim.proof and claim.proof.startswith("docs/"):
            text = proof_in(claim.proof)
            assert claim.checked_evidence != "proved" or names_it(text, claim), (
                f"{claim.proof} does not name {claim.name}"
            )
        if claim.disproof:
            assert names_it(proof_in(claim.disproof), claim), f"{claim.disproof} does not name {claim.name}"


def test_a_text_that_does_not_name_the_part_of_a_claim_does_not_prove_it():
    [claim] = ledgers.claims("correlated-noise", name="Lemma C.21 (i)")
    assert names_it("**Lemma C.21 (i).** It falls.", claim)
    assert names_it("Lemma C.21: (i) and (ii) follow.", claim)
    assert not names_it("**Lemma C.21 (ii).** It falls.", claim)
    assert not names_it("**Lemma C.2 (i).** It falls.", claim)


@of([claim for claim in CLAIMS if "simulated" in (claim.evidence, claim.repair_evidence)])
def test_simulated_claims_state_a_small_rate_of_false_alarms(claim):
    if claim.probability:
        return  # the statement itself has the rate
    stated = re.search(r"false alarm\D*(\d[\d.e−-]*\d)", claim.note)
    assert stated, claim.note
    assert float(stated[1].replace("−", "-")) <= LARGEST_FALSE_ALARM_RATE


@pytest.mark.parametrize("arguments", [{"paper": 1.5}, {"name": ["Lemma C.21"]}, {"paper": b"corrnoise"}], ids=repr)
def test_names_that_are_no_strings_are_refused(arguments):
    [name] = arguments
    with pytest.raises(TypeError, match=rf"^{name} must be a string or None, got"):
        ledgers.claims(**arguments)
