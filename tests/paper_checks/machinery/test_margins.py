"""Margins: signs, zeros, infinities, undefined values, arrays, and exact confidence limits of probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from corrnoise.paper_checks.machinery.domains import linear
from corrnoise.paper_checks.machinery.margins import (
    LEVEL,
    agreements,
    least,
    least_probability,
    margin_of_runs,
    margins,
    sums,
    twice,
)
from tests.small_claims import claim

INF, NAN = math.inf, math.nan


def margin(smaller, larger, tolerance=0.0):
    return least(margins(smaller, larger), tolerance)


def agreement(left, right, tolerance=0.0):
    return least(agreements(left, right), tolerance)


@pytest.mark.parametrize(
    ("smaller", "larger", "expected"),
    [
        (1, 2, 0.5),
        (2, 1, -0.5),
        (-2, -1, 0.5),
        (-1, -2, -0.5),
        (-1, 1, 2),
        (1, -1, -2),
        (0, 0, 0),
        (0.0, -0.0, 0),
        (0, 1e-300, 1),
        (1e-300, 0, -1),
        (0, -1e-300, -1),
        (5e-324, 1e-323, 0.5),
        (-1e308, 1e308, 2),
        (1e308, -1e308, -2),
        (INF, INF, 0),
        (-INF, -INF, 0),
        (1, INF, 1),
        (INF, 1, -1),
        (-INF, INF, 1),
        (INF, -INF, -1),
        (-INF, -1, 1),
        (-1, -INF, -1),
        (NAN, 1, NAN),
        (1, NAN, NAN),
        (NAN, INF, NAN),
        ([1, 2], [2, 4], 0.5),
        ([1, 3], 2, -1 / 3),
        ([[1, 1], [1, 1.9]], [2, 2], 0.05),
        ([1, NAN], [2, 1], NAN),
        ([3, NAN], [2, 1], -1 / 3),  # what is undefined does not hide a violation
        ([1, INF], [2, INF], 0),
    ],
)
def test_margins_of_inequalities(smaller, larger, expected):
    assert margin(smaller, larger) == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1, 0),
        (0, 0, 0),
        (2, 1, -0.5),
        (-1, 1, -2),
        (1e308, -1e308, -2),
        (0, 1e-300, -1),
        (INF, INF, 0),
        (-INF, INF, -1),
        (INF, 1, -1),
        (NAN, NAN, NAN),
        (NAN, INF, NAN),
        ([4, 1], [4, 2], -0.25),  # relative to the largest entry
        ([INF, 1], [INF, 1], 0),
        ([INF, 1], [INF, 2], -0.5),
        ([INF, 1], [1, INF], -1),
        ([1, NAN], [1, NAN], NAN),
        ([1, NAN], [2, 1], -0.5),
    ],
)
def test_agreement_of_identities(left, right, expected):
    assert agreement(left, right) == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert agreement(right, left) == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_rounding_beside_an_undefined_entry_is_no_violation():
    assert math.isnan(agreement([1, NAN], [1 + 1e-15, 1], tolerance=1e-11))
    assert math.isnan(margin([1 + 1e-15, NAN], [1, 1], tolerance=1e-11))
    assert margin([1 + 1e-9, NAN], [1, 1], tolerance=1e-11) < -1e-11


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_sums_that_cancel_are_compared_with_their_terms(scale):
    """A difference of 1e-9 beside terms of 3 counts, at any scale; rounding does not."""
    terms = scale * np.array([1.0, -1.0, 0.5])
    assert agreement(*sums(terms, [scale * 0.5])) == 0
    assert agreement(*sums(terms, [scale * (0.5 + 1e-9)])) == pytest.approx(-1e-9 / 3.5, rel=1e-5)
    assert margin(*sums(terms, [scale * (0.5 - 1e-9)])) == pytest.approx(-1e-9 / 3.5, rel=1e-5)
    assert agreement(*sums([scale * 0.1, scale * 0.2], [scale * 0.3])) > -1e-15
    assert sums([0.0], [0.0]) == (0.0, 0.0)


def test_what_is_found_twice_must_agree():
    assert twice(0.3, 0.1 + 0.2) == 0.3
    assert twice(0.0, 1e-10) == 0.0
    assert math.isinf(twice(0.3, 0.3 + 1e-8))
    assert margin(twice(0.3, 0.31), 1.0) < 0


@pytest.mark.parametrize("compare", [margin, agreement])
def test_empty_sides_are_refused(compare):
    with pytest.raises(ValueError, match="sides must have entries"):
        compare([], [])


@given(st.floats(1e-290, 1e290), st.floats(1e-290, 1e290), st.floats(1e-9, 1e9))
def test_margins_have_no_scale(smaller, larger, scale):
    assert margin(scale * smaller, scale * larger) == pytest.approx(margin(smaller, larger), rel=1e-9, abs=1e-15)
    assert margin(-larger, -smaller) == pytest.approx(margin(smaller, larger), rel=1e-12)
    assert (margin(smaller, larger) < 0) == (smaller > larger)


# -- statements with a probability -------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [50, 1000])
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_the_limit_is_that_of_clopper_and_pearson(runs, share):
    """At the limit so many violations or more have exactly the probability ``LEVEL``."""
    seen = int(share * runs)
    assert binom.sf(seen - 1, runs, least_probability(seen, runs)) == pytest.approx(LEVEL, rel=1e-6)
    assert least_probability(0, runs) == 0.0


def test_a_run_violates_a_statement_if_any_entry_does():
    runs = np.zeros((100, 3))
    runs[:60, 1] = 2.0
    runs[60, 0] = np.nan
    expected = least_probability(61, 100)
    assert margin_of_runs(runs, 1.0, 0.01, 0.0) == pytest.approx(0.01 / expected - 1)
    assert margin_of_runs(np.zeros((100, 3)), 1.0, 0.5, 0.0) == 1.0


def test_too_few_runs_are_refused():
    with pytest.raises(ValueError, match=r"^5 runs cannot show a probability above 0\.05"):
        margin_of_runs(np.zeros(5), 1.0, 0.05, 0.0)


def normal_quantile(p, seed, factor=1.0):
    """|x| <= factor sqrt(2 log(2/p)) with probability 1 − p for a standard normal x."""
    rng = np.random.default_rng(int(1e6 * seed))
    return np.abs(rng.standard_normal(4000)), factor * np.sqrt(2 * np.log(2 / p))


def simulated(**fields):
    domain = {"p": linear(0.01, 0.2), "seed": linear(0, 1)}
    mutants = [{"factor": 0.5}]
    return claim(normal_quantile, domain=domain, mutants=mutants, evaluations=16, evidence="simulated", **fields)


def test_a_statement_with_probability_is_checked_as_one():
    outcome = simulated(probability="p").check()
    assert outcome.agrees, outcome.reason
    assert not simulated().check().agrees  # without the probability a single run refutes


def test_what_is_refused():
    with pytest.raises(ValueError, match="probability must be an argument"):
        simulated(probability="factor")
