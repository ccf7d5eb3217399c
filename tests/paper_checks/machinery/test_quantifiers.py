"""Quantifiers: one rule decides which statements about constants are true and which are refuted."""

import pytest

from corrnoise.paper_checks.machinery.domains import linear, log_scale
from corrnoise.paper_checks.machinery.quantifiers import CHOICES, choices
from corrnoise.paper_checks.machinery.verdicts import FALSE, HOLDS
from tests.small_claims import claim as small_claim

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
