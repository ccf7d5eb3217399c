"""Refutations at one point, in exact arithmetic or with balls."""

import math
from fractions import Fraction

import numpy as np
import pytest

from corrnoise.paper_checks.machinery.refutations import certainly_apart
from corrnoise.paper_checks.machinery.terms import Untraceable
from corrnoise.paper_checks.machinery.verdicts import CORRECTED
from tests.small_claims import below, claim


@pytest.mark.parametrize(
    ("function", "relation", "apart"),
    [
        (lambda x: (x * x, x * 0.5), "<=", True),
        (lambda x: (x * 0.5, x * x), "<=", False),
        (lambda x: (x * x, x * 0.75), "<=", False),  # equal
        (lambda x: (x * x, x * 0.75), "=", False),
        (lambda x: (x * x, x), "=", True),
        (lambda x: (2, Fraction(3, 2)), "<=", True),
        (lambda x: (np.sqrt(2 + 0 * x) ** 2, 2), "=", False),  # the balls overlap
        (lambda x: (np.exp(x) * x.number_system.pi, 2 * np.exp(x)), "<=", True),
        (lambda x: (np.array([1, x]), np.array([1, x * x])), "<=", True),  # one entry is enough
        (lambda x: (np.array([1, 2]), np.array([2, 1])), "=", True),
        (lambda x: (math.sqrt(x), 0 * x), "<=", False),
        (lambda x: (x if x > 0 else 0 * x, 0 * x), "<=", True),
        (lambda x: (x if np.sqrt(x) ** 2 >= x else 0 * x, 0 * x), "<=", False),  # the condition is not certain
        (lambda x: (2.0, 1), "<=", False),  # a float may have been rounded
        (lambda x: (float(x), x / 2), "<=", False),
        (lambda x: (np.array([2.0]), 1), "<=", False),
    ],
)
def test_only_sides_without_rounding_refute(function, relation, apart):
    assert (certainly_apart(function, {"x": 0.75}, {}, relation) is not None) == apart


def test_a_function_of_floats_is_computed_only():
    def rounded(x, c=1.0):
        return float(x), c * x

    assert not certainly_apart(rounded, {"x": 0.75}, {"c": 0.5}, "<=")


def test_a_claim_whose_sides_have_no_exact_form_is_no_counterexample():
    fields = {"repair": "better", "as_printed": {"c": 0.5}, "counterexample": {"x": 0.75}, "evidence": "counterexample"}
    assert claim(below, **fields).check().verdict == CORRECTED
    assert claim(below, **fields).check().agrees
    outcome = claim(lambda x, c=1.0: (float(x) ** 2.0, c * float(x)), **fields).check()
    assert not outcome.agrees
    assert outcome.reason.startswith("exact arithmetic does not show that the counterexample violates")


def test_what_is_refuted_is_a_formula_between_numbers():
    """Coq proves it; a branch and an integer part are decided where they are certain."""

    def sides(x, c=1.0):
        return (x * x if x > 0 else x) * int(4 * x), c * x

    fields = {"repair": "better", "as_printed": {"c": 0.5}, "counterexample": {"x": 0.75}}
    stated = claim(sides, evidence="counterexample", **fields).negation().coq("lemma")
    assert "Theorem lemma :\n  ((1 / 2) * (3 / 4)) < (((3 / 4) * (3 / 4)) * (3)).\n" in stated
    with pytest.raises(Untraceable, match="formulas at one counterexample"):
        claim(sides, **fields).negation()  # computed
    with pytest.raises(Untraceable, match="formulas at one counterexample"):
        claim(lambda x, c=1.0: (2, 1), evidence="counterexample", **fields).negation()


@pytest.mark.parametrize(
    ("function", "apart"),
    [
        (lambda x: (int(4 * x), 2), True),
        (lambda x: (round(x), 0), True),
        (lambda x: (-int(-4 * x), 2), True),
        (lambda x: (int(np.sqrt(x) ** 2 * 4 / 3), 0), False),  # 0 or 1
        (lambda x: (round(x - 0.25), -1), False),  # halfway
    ],
)
def test_an_integer_part_must_be_certain(function, apart):
    assert (certainly_apart(function, {"x": 0.75}, {}, "<=") is not None) == apart
