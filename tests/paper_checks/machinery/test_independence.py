"""Independence: claims that compare what they compute with itself are found."""

import numpy as np
import pytest

from corrnoise.paper_checks.machinery import wording
from corrnoise.paper_checks.machinery.independence import shared
from tests.small_claims import claim


def error(x):
    return x


def bound(x):
    return 2 * x


def pair(x):
    return x, 2 * x


def same(x, c=1.0):
    """The error is computed once and compared with itself."""
    found = error(x)
    scaled = c * found
    return found, scaled + np.sqrt(found)


def same_entries(x, c=1.0):
    """The second entry compares the bound with itself."""
    return np.array([error(x), c * bound(x)]), np.array([bound(x), bound(x) + 1])


def other(x, c=1.0):
    """An error and its bound."""
    return error(x), c * bound(x)


def two_sided(x, c=1.0):
    """An error between two bounds, which do without calls."""
    found = error(x)
    return np.array([0.5 * x, found]), np.array([found, c * 2 * x])


def parts(x, c=1.0):
    """One call that returns two different things."""
    small, large = pair(x)
    return small, c * large


def elementary(x, c=1.0):
    """No call of the project."""
    return np.exp(-x), c * np.exp(0 * x)


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (same, {"error(x)"}),
        (same_entries, {"bound(x)"}),
        (other, set()),
        (two_sided, set()),
        (parts, set()),
        (elementary, set()),
    ],
)
def test_sides_from_the_same_calls_are_found(function, calls):
    assert shared(claim(function, independent="an example")) == calls


def test_a_claim_that_compares_a_call_with_itself_is_refused_or_says_why():
    with pytest.raises(ValueError, match=r"both sides come from error\(x\)"):
        claim(same)
    explained = claim(same, independent="it holds for any error")
    assert dict(wording.check(explained.check()))["independent"] == "it holds for any error"
    assert dict(wording.check(claim(other).check()))["independent"] == ""
