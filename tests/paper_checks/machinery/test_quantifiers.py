"""Quantifiers: one rule decides which statements about constants are true and which are refuted."""

import pytest

from corrnoise.paper_checks.machinery.domains import linear, log_scale
from corrnoise.paper_checks.machinery.quantifiers import CHOICES, choices
from corrnoise.paper_checks.machinery.verdicts import FALSE, HOLDS
from tests.small_claims import claim as small_claim
from tests.small_claims import small

WIDE = {"x": log_scale(1e-30, 1e30)}


def squared(x, c=1.0):
    """x² <= c x fails for every c at x = 2c."""
    return x * x, c * x


def bounded(x, c=1.0):
    """x/(1 + x) <= c holds for c = 1."""
    return x / (1 + x), c


def claim(function, **fields):
    return small_claim(function, **{"domain": WIDE, **fields})


@pytest.mark.parametrize("quantifier", ["existential", "unspecified"])
def test_one_choice_that_works_makes_a_statement_true(quantifier):
    outcome = claim(bounded, constants={"c": quantifier}).check()
    assert (outcome.verdict, outcome.agrees) == (HOLDS, True)


@pytest.mark.parametrize("quantifier", ["existential", "unspecified"])
def test_a_family_that_survives_every_choice_refutes(quantifier):
    outcome = claim(squared, constants={"c": quantifier}, counterexample=lambda c: {"x": 2 * c}).check()
    assert (outcome.verdict, outcome.agrees) == (FALSE, True)
    assert outcome.counterexample.margin == pytest.approx(-0.5)
    assert outcome.counterexample.choice.keys() == {"c"}


def test_a_family_that_a_choice_survives_does_not_refute():
    """A single point refutes small constants only."""
    outcome = claim(squared, constants={"c": "unspecified"}, counterexample=lambda c: {"x": 100.0}).check()
    assert not outcome.agrees
    assert outcome.counterexample.choice["c"] >= 100
    outcome = claim(bounded, constants={"c": "unspecified"}, counterexample=lambda c: {"x": 2 * c}).check()
    assert (outcome.verdict, outcome.agrees) == (HOLDS, False)


def test_several_constants_are_chosen_together():
    def affine(x, c=1.0, k=1.0):
        """x² <= c x + k fails at x = 2 (c + k + 1)."""
        return x * x, c * x + k

    both = {"c": "existential", "k": "unspecified"}
    outcome = claim(affine, constants=both, counterexample=lambda c, k: {"x": 2 * (c + k + 1)}).check()
    assert outcome.agrees
    assert len(list(choices(both))) == len(CHOICES) ** 2
    assert not claim(affine, constants=both, counterexample=lambda c, k: {"x": 2 * c}).check().agrees


def test_a_universal_constant_is_an_argument_and_one_point_refutes():
    def scaled(x, c, one=1.0):
        """x² <= c x fails at x = 2, c = 1."""
        return x * x, one * c * x

    domain = {**WIDE, "c": linear(1, 2)}
    fields = {"domain": domain, "mutants": [{"one": 2.0}], "counterexample": {"x": 2.0, "c": 1.0}}
    assert claim(scaled, constants={"c": "universal"}, **fields).check().agrees


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"constants": {"c": "some"}}, "constants must be universal, existential, unspecified, got c: 'some'"),
        ({"constants": {"c": "universal"}}, "the universal constant c must be an argument of the domain"),
        ({"constants": {"x": "existential"}}, "the existential constant x must be a keyword whose default"),
        (
            {"constants": {"c": "unspecified"}, "counterexample": {"x": 2.0}},
            "a counterexample must survive every choice of c: it is a function of them",
        ),
        ({"counterexample": lambda: {"x": 2.0}}, "a family of counterexamples needs existential or unspecified"),
    ],
)
def test_what_contradicts_the_rule_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        claim(squared, **fields)


# -- definitions -------------------------------------------------------------------------------------------------------

PRINTED = {"F": {"whole": "in (1)", "half": "in (2)"}}


def loss(x, F="whole", factor=1.0):
    """F(x) <= factor · x², F with or without ½."""
    return {"whole": 1.0, "half": 0.5}[F] * x * x, factor * x * x


def defined(true=("whole",), **fields):
    return claim(
        loss, definitions={"F": true}, paper=small(definitions=PRINTED), **{"mutants": [{"factor": 0.1}], **fields}
    )


def test_the_record_says_under_which_definitions_a_statement_is_true():
    outcome = defined(("whole", "half")).check()
    assert (outcome.verdict, outcome.agrees, outcome.elsewhere) == (HOLDS, True, (("F", "half", True),))
    assert defined().check().reason == "with F = half it is true, which is not what is recorded"

    def double(x, F="half", factor=1.0):
        return loss(x, F, factor / 2)

    fields = {
        "definitions": {"F": ("half", "whole")},
        "paper": small(definitions=PRINTED),
        "mutants": [{"factor": 0.1}],
    }
    assert claim(double, **fields).check().reason == "with F = whole it is false, which is not what is recorded"


def test_a_refutation_survives_every_definition():
    """The factor 0.7 is too small for one meaning only, 0.3 for both."""
    fields = {"repair": "with 1 for the factor", "counterexample": {"x": 1.0}, "true": ("whole", "half")}
    assert defined(as_printed={"factor": 0.3}, **fields).check().agrees
    outcome = defined(as_printed={"factor": 0.7}, **fields).check()
    assert not outcome.agrees
    assert outcome.counterexample.choice == {"F": "half"}
    assert defined(as_printed={"factor": 0.3}, **{**fields, "counterexample": lambda F: {"x": 1.0}}).check().agrees


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ({"F": ("double",)}, r"definitions must be meanings of which the paper has several, got F: \('double',\)"),
        ({"G": ("whole",)}, "definitions must be meanings of which the paper has several, got G"),
        ({"F": ("half",)}, "F must be a keyword whose default is the first of its meanings"),
        ({"F": ()}, "F must be a keyword whose default is the first of its meanings"),
    ],
)
def test_definitions_that_the_paper_does_not_have_are_refused(definitions, message):
    with pytest.raises(ValueError, match=message):
        claim(loss, definitions=definitions, paper=small(definitions=PRINTED), mutants=[{"factor": 0.1}])
