"""Sums of poles for 1/√x: the stated error covers the true one, which is close to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf, sqrt, workdps

from corrnoise.theory.numerics.inverse_square_root import inverse_square_root
from tests.strategies import log_uniform


@workdps(40)
def error_at(sums, x):
    """|√x Q(x) − 1| of the floats, in 40 digits."""
    terms = zip(sums.weights.tolist(), sums.poles.tolist(), strict=True)
    return abs(sqrt(mpf(x)) * mp.fsum(mpf(w) / (mpf(x) + mpf(c)) for w, c in terms) - 1)


@given(low=log_uniform(1e-30, 1e30), ratio=log_uniform(1.0, 1e40), place=st.floats(0, 1), digits=st.floats(2, 15))
def test_stated_error_covers_the_true_one(low, ratio, place, digits):
    high = low * ratio
    sums = inverse_square_root(low, high, tolerance=10**-digits)
    assert sums.error < 10**-digits + 2e-15
    assert error_at(sums, np.clip(low * ratio**place, low, high)) <= sums.error


def test_the_bound_is_sharp_and_one_pole_less_would_break_it():
    for digits in (4, 8, 12):
        sums = inverse_square_root(1.0, 4.0**20, tolerance=10.0**-digits)
        worst = max(error_at(sums, x) for x in np.geomspace(1, 4.0**20, 201))
        assert 0.5 * sums.error < worst <= sums.error
        wrong = type(sums)(sums.poles[1:], sums.weights[1:], sums.error)
        assert max(error_at(wrong, x) for x in np.geomspace(1, 4.0**20, 201)) > sums.error


def test_number_of_poles():
    assert inverse_square_root(1.0, 1e12, tolerance=1e-15).poles.size <= 60


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0.0, 1.0), "low"), ((1.0, 0.5), "high"), ((1.0, float("nan")), "high"), ((1e-149, 1e149), "high")]
    + [((1.0, 2.0, bad), "tolerance") for bad in (0.0, 1.0, float("nan"))],
)
def test_bad_input(arguments, name):
    with pytest.raises(ValueError, match=name):
        inverse_square_root(*arguments[:2], **dict(zip(["tolerance"], arguments[2:], strict=False)))
