"""Margins: signs, zeros, infinities, undefined values and arrays."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.paper_checks.machinery.margins import agreement, margin

INF, NAN = math.inf, math.nan


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


@pytest.mark.parametrize("compare", [margin, agreement])
def test_empty_sides_are_refused(compare):
    with pytest.raises(ValueError, match="sides must have entries"):
        compare([], [])


@given(st.floats(1e-290, 1e290), st.floats(1e-290, 1e290), st.floats(1e-9, 1e9))
def test_margins_have_no_scale(smaller, larger, scale):
    assert margin(scale * smaller, scale * larger) == pytest.approx(margin(smaller, larger), rel=1e-9, abs=1e-15)
    assert margin(-larger, -smaller) == pytest.approx(margin(smaller, larger), rel=1e-12)
    assert (margin(smaller, larger) < 0) == (smaller > larger)
