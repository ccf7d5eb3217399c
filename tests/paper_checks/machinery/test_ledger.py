"""The ledger's machinery: verdicts, mutants, sharp constants, and that nothing wrong passes unnoticed."""

import inspect
import math
import re
from fractions import Fraction
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest
from flint import arb

import corrnoise.paper_checks.machinery.ledger as machinery
from corrnoise.paper_checks import claims
from corrnoise.paper_checks.machinery.domains import integers, linear, noises, regressions
from corrnoise.paper_checks.machinery.verdicts import CORRECTED, ERROR, FALSE, HOLDS, OPEN, VACUOUS
from tests.small_claims import below, claim, small

NAN = math.nan


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_a_true_statement_holds():
    outcome = claim(below, mutants=[{"c": 0.99}, {"c": 0.5}]).check()
    assert (outcome.verdict, outcome.agrees, outcome.reason) == (HOLDS, True, "")
    assert outcome.margin == 0.0
    assert outcome.worst == {"x": 0.0} or outcome.worst == {"x": 1.0}
    assert outcome.mutants == (("c = 0.99", True), ("c = 0.5", True))
    assert outcome.tried == outcome.accepted > 300
    assert outcome.counterexample is outcome.sharp is None
    assert outcome.certificate.answer == "open"  # the sides meet at 0
    assert outcome.seconds > 0


REPAIR = {"repair": "$x^2 \\le x$", "as_printed": {"c": 0.5}, "counterexample": {"x": 0.75}}


def test_a_false_statement_with_a_repair_holds_corrected():
    outcome = claim(below, **REPAIR).check()
    assert (outcome.verdict, outcome.agrees) == (CORRECTED, True)
    assert outcome.counterexample is not None
    assert outcome.counterexample.sides == (0.5625, 0.375)
    assert outcome.counterexample.margin == pytest.approx(-1 / 3)


def test_a_false_statement_without_a_repair_is_false():
    outcome = claim(lambda x, c=0.5: (x * x, float(c) * x), counterexample={"x": 0.75}, sharp="c").check()
    assert (outcome.verdict, outcome.agrees) == (FALSE, True)
    assert outcome.sharp is None
    assert outcome.tried < 5  # the first violation is enough
    outcome = claim(below, as_printed={"c": 0.5}, counterexample={"x": 0.75}).check()
    assert (outcome.verdict, outcome.agrees) == (FALSE, True)


UNDECIDED = {"undecided": ("open", "Constants are open.")}
NONE = {"as_printed": {"c": 0.5}, "counterexample": {"x": 0.4}}


@pytest.mark.parametrize(
    ("constant", "fields", "verdict", "reason"),
    [
        (0.9, REPAIR, FALSE, "the verdict is 'false', recorded is 'holds corrected' (a certificate"),
        (1.0, NONE, HOLDS, "the verdict is 'holds', recorded is 'false'"),
        (1.0, {**NONE, "repair": "better"}, HOLDS, "the verdict is 'holds', recorded is 'holds corrected'"),
        (1.0, {**NONE, "as_printed": {"c": NAN}}, HOLDS, "the verdict is 'holds', recorded is 'false'"),
        (1.0, UNDECIDED, OPEN, ""),
        (0.9, UNDECIDED, OPEN, "what is checked instead fails (margin -"),
    ],
)
def test_what_disagrees_with_the_record(constant, fields, verdict, reason):
    outcome = claim(lambda x, c=constant: (x * x, c * x), **fields).check()
    assert (outcome.verdict, outcome.agrees) == (verdict, not reason)
    assert outcome.reason.startswith(reason)


@pytest.mark.parametrize("violation", [1e-9, 1e-12])
def test_the_tolerance_is_for_rounding_only(violation):
    assert claim(lambda x, c=1.0: (c * (1 + violation), 1.0), mutants=[{"c": 2}]).check().agrees == (violation < 1e-11)
    assert claim(lambda x, c=1.0: (c * (1 + violation), 1.0), "identity").check().agrees == (violation < 1e-11)


def test_a_statement_without_arguments_is_one_evaluation():
    outcome = claim(lambda c=1.0: (1.0, 2.0 * float(c)), domain={}, sharp="c").check()
    assert (outcome.agrees, outcome.tried, outcome.margin, outcome.sharp) == (True, 1, 0.5, 0.5)
    assert not claim(lambda c=1.0: (3.0, 2.0 * c), domain={}).check().agrees


# -- mutants and non-vacuity -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", [{"c": 1.0}, {"c": 2.0}, {"c": NAN}])
def test_a_mutant_that_is_true_or_undefined_disagrees(mutant):
    outcome = claim(below, mutants=[{"c": 0.5}, mutant]).check()
    assert not outcome.agrees
    assert outcome.verdict == HOLDS
    assert outcome.reason == f"accepts the mutant c = {mutant['c']}"
    assert [rejected for _, rejected in outcome.mutants] == [True, False]


def test_mutants_are_rejected_away_from_the_worst_case_too():
    """The worst case is at x = 1; the mutant fails only near x = 0.3."""
    outcome = claim(lambda x, c=0.0: (0.9 * x - c * np.exp(-1e3 * (x - 0.3) ** 2), x - 0 * x), mutants=[{"c": -1.0}])
    assert outcome.check().mutants == (("c = -1.0", True),)


def test_mutants_are_tried_at_the_worst_case_first():
    calls = []

    def counted(x, c=1.0):
        calls.append(c)
        return 1 - abs(x - 0.123), c

    assert claim(counted, mutants=[{"c": 1 - 1e-6}, {"c": 1 - 1e-5}]).check().agrees
    assert (calls.count(1 - 1e-6), calls.count(1 - 1e-5)) == (1, 1)


def test_identities_have_a_mutant_of_their_own():
    outcome = claim(lambda x: (x + 1, 1 + x), "identity").check()
    assert outcome.agrees
    assert outcome.mutants == (("one side × (1 + 1e-06)", True),)
    for vacuous in (claim(lambda x: (0 * x, 0 * x), "identity"), claim(lambda x: (1, 1), "identity", tolerance=1e-3)):
        outcome = vacuous.check()
        assert (outcome.verdict, outcome.agrees) == (HOLDS, False)
        assert outcome.reason == "accepts the mutant one side × (1 + 1e-06)"


@pytest.mark.parametrize(("share", "agrees"), [(0.5, True), (0.01, False), (-1.0, False)])
def test_a_check_of_hardly_any_point_disagrees(share, agrees):
    outcome = claim(lambda x, c=1.0: (x - 2, c) if x <= share else (NAN, NAN), mutants=[{"c": -5.0}]).check()
    assert outcome.agrees == agrees
    found = re.fullmatch(r"only (0|0\.0\d+) of the points drawn lie in the domain", outcome.reason)
    assert agrees or (found and float(found[1]) <= max(2 * share, 0))


def test_undefined_points_are_outside_the_domain():
    sides = claim(lambda x, c=1.0: (NAN, NAN) if x > 0.5 else below(x, c))
    assert sides.holds_at([0.9])
    assert math.isnan(sides.margin_at([0.9]))
    assert not sides.holds_at([0.5], c=0.1)


# -- sharp constants ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1e-12])
@pytest.mark.parametrize(
    ("function", "sharp"),
    [
        (lambda x, c=5.0: (1 + x, float(c)), 2.0),  # a factor of the larger side
        (lambda x, c=5.0: (1 + x, float(c) * (1 + x) ** 2), 1.0),
        (lambda x, c=0.3: (float(c) * (1 + x), 1.0), 0.5),  # of the smaller side
        (lambda x, c=2.0: (0.5 ** float(c), 0.5 + 0 * x), 1.0),  # an exponent
        (lambda x, c=5.0: (np.array([1.0, 2 + x]), float(c) * np.array([1.0, 1.0])), 3.0),  # of arrays
    ],
)
def test_sharp_constants(function, sharp, scale):
    def scaled(x, c=function.__defaults__[0]):
        return tuple(scale * np.asarray(side) for side in function(x, c))

    outcome = claim(scaled, sharp="c", mutants=[{"c": 1e-9 if sharp > 0.5 else 1e9}]).check()
    assert outcome.agrees
    assert outcome.sharp == pytest.approx(sharp, rel=1e-9)


def test_the_constant_is_given_in_the_form_of_its_default():
    """So that a claim needs no conversions: a float where the default is one, a decimal string where that is one."""
    given = set()

    def watched(x, c):
        given.add(type(c))
        return 1 + x, float(c)

    assert claim(lambda x, c=5.0: watched(x, c), sharp="c", mutants=[{"c": 1.99}]).check().sharp == pytest.approx(2)
    assert given == {float}
    given.clear()
    assert claim(lambda x, c="5": watched(x, c), sharp="c", mutants=[{"c": "1.99"}]).check().sharp == pytest.approx(2)
    assert given == {str}


@pytest.mark.parametrize(
    ("right", "domain", "agrees"),
    [
        (lambda x, n: n * (n + 1) // 2, {"x": integers(1, 9)}, True),
        (lambda x, n: Fraction(n * n + n, 2), {"x": integers(1, 9)}, True),
        (lambda x, n: n * (n + 1) / 2, {"x": integers(1, 9)}, False),  # a float
        (lambda x, n: n * (n + 1) // 2, {"x": linear(1, 9)}, False),  # no finite domain
    ],
)
def test_an_identity_is_exact_by_enumeration_of_rational_numbers(right, domain, agrees):
    def triangular(x):
        return sum(range(int(x) + 1)), right(x, int(x))

    outcome = claim(triangular, "identity", domain=domain, identity_proof="enumeration").check()
    assert (outcome.agrees, outcome.claim.evidence) == (agrees, "exact")
    assert agrees or outcome.reason == "the sides are not equal rational numbers at every point of a finite domain"


# -- certified claims --------------------------------------------------------------------------------------------------


def gap(x, c="1"):
    return x * x, type(x)(c) * x + type(x)("0.001")


def two_faced(x, c=0.0):
    """The floats of the search say otherwise than the balls."""
    return (x + 2, x * 0 + 1) if isinstance(x, arb) else (0 * float(x) + c, 1.0)


def sharp_at_an_end(x, c=1):
    """The search finds nothing wrong, but sides that touch at an end are not proved by balls."""
    return x * (2 - x), 1 + 0 * x if c == 1 else x - c


@pytest.mark.parametrize(
    ("function", "fields", "verdict", "agrees", "answer"),
    [
        (gap, {"mutants": [{"c": "0.9"}]}, HOLDS, True, "proved"),
        (sharp_at_an_end, {"mutants": [{"c": 2}]}, HOLDS, False, "open"),
        (two_faced, {"mutants": [{"c": 2.0}]}, FALSE, False, "refuted"),
    ],
)
def test_certified_claims(function, fields, verdict, agrees, answer):
    outcome = claim(function, evidence="certified", **fields).check()
    assert (outcome.verdict, outcome.agrees, outcome.certificate.answer) == (verdict, agrees, answer)
    assert answer == "refuted" or outcome.certificate.boxes > 1
    assert answer != "open" or outcome.reason == f"the certificate is open after {outcome.certificate.boxes} boxes"


def test_a_certified_claim_that_leaves_ball_arithmetic_is_an_error():
    outcome = claim(lambda x, c=2.0: (float(x), c), evidence="certified").check()
    assert (outcome.verdict, outcome.agrees) == (ERROR, False)
    assert outcome.reason.startswith("TypeError: sides must be balls")


# -- errors ------------------------------------------------------------------------------------------------------------


def test_an_exception_is_an_outcome_that_says_where():
    def fragile(x, c=1.0):
        if x == 1.0:
            raise ZeroDivisionError("division by zero")
        return x, c

    outcome = claim(fragile).check()
    assert (outcome.verdict, outcome.agrees) == (ERROR, False)
    assert outcome.reason == "ZeroDivisionError: division by zero; x = 1.0"
    assert math.isnan(outcome.margin)
    assert outcome.mutants == ()


def test_an_exception_in_a_mutant_or_a_counterexample_is_an_outcome():
    def fragile(x, c=1.0):
        return 0.0, math.sqrt(c)

    assert claim(fragile).check().reason.startswith("ValueError: math domain error; x = ")
    outcome = claim(fragile, as_printed={"c": -1.0}, counterexample={"x": 0.5}, mutants=[{"c": 0}]).check()
    assert outcome.reason == "ValueError: math domain error; x = 0.5, c = -1.0"


def test_an_interrupt_is_not_an_outcome():
    def interrupted(x, c=1.0):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        claim(interrupted).check()


# -- how claims are written --------------------------------------------------------------------------------------------


def test_names_and_what_is_recorded():
    def noted(x, c=1.0):
        """First.

        Second.
        """
        return x, c

    written = claim(noted, name="Lemma C.21 (ii, proof)", paper=small("small-paper"))
    assert (written.name, written.identifier) == ("Lemma C.21 (ii, proof)", "small-paper-lemma-c.21-ii-proof")
    assert written.note == "First.\n\nSecond."
    assert written.relation == "<="
    assert written.evidence == "searched"
    assert claim(below, "identity").evidence == "computed"
    assert claim(below, "identity", identity_proof="enumeration").evidence == "exact"
    assert claim(below, proof="Appendix F").evidence == "cited"
    repaired = claim(below, **REPAIR, proof="docs/accuracy.md")
    assert (repaired.truth, repaired.evidence, repaired.repair_evidence) == ("false", "computed", "proved")
    assert (repaired.support, repaired.checked_evidence) == ("computed; repair proved", "proved")
    assert claim(below, **REPAIR).support == "computed; repair proposed (searched)"
    assert claim(below, **REPAIR, disproof="docs/accuracy.md").evidence == "proved"
    assert claim(below, proof="docs/accuracy.md").evidence == "proved"
    assert claim(below, "identity", proof="docs/accuracy.md").evidence == "proved"
    assert claim(below, proof="docs/accuracy.md", evidence="searched").evidence == "searched"
    assert claim(below, proof="docs/accuracy.md", theorem=("t", "0")).evidence == "machine-checked"
    assert claim(below, domain={"x": integers(0, 1)}).evidence == "computed"
    assert claim(below, domain={"x": integers(0, 100)}).evidence == "searched"
    for fields, recorded in (
        ({}, HOLDS),
        (REPAIR, CORRECTED),
        ({"counterexample": {"x": 0.5}}, FALSE),
        (UNDECIDED, OPEN),
        ({"undecided": (VACUOUS, "Constants are open.")}, VACUOUS),
    ):
        assert claim(below, **fields).recorded == recorded


def test_a_check_repeats_itself():
    written = claim(
        lambda problem, noise, c=1.1: (float(c) * 1e-3, problem.stationary_error(noise) + 1),
        domain={"problem": regressions(3), "noise": noises()},
        evaluations=64,
        mutants=[{"c": 1e9}],
    )
    first, second = written.check(), written.check()
    assert (first.margin, first.tried, first.worst) == (second.margin, second.tried, second.worst)
    assert first.worst.keys() == {"problem", "noise"}


def test_a_thorough_check_looks_longer_and_finds_more():
    def needle(x, y, c=1.0):
        return (2.0 if abs(x - 0.123) + abs(y - 0.777) < 0.02 else 0.5), c

    written = claim(needle, domain={"x": linear(0, 1), "y": linear(0, 1)}, mutants=[{"c": 0.1}])
    assert written.check().agrees
    assert written.check(thorough=True).verdict == FALSE
    assert written.check(thorough=True).worst["x"] == pytest.approx(0.123, abs=0.02)


def test_examples_of_how_a_claim_is_written_are_claims():
    source = {written.name: inspect.getsource(written.function) for written in claims("correlated-noise")}
    page = Path(__file__).parents[3] / "docs/ledger.md"
    assert source["Property F.10 (upper)"] in page.read_text(encoding="utf-8")
    assert indent(source["Lemma C.21 (i)"], " " * 4).replace('"""', "'''") in machinery.__doc__
