"""The least value of a function by L-BFGS."""

import numpy as np

from corrnoise.solvers.families import descent
from corrnoise.solvers.families.descent import Descent

VALUES = np.geomspace(1, 1e3, 12)


def form(x):
    return float(VALUES @ (x - 1) ** 2), 2 * VALUES * (x - 1)


def test_a_descent_finds_the_minimum_of_a_quadratic_form():
    found = Descent(form, np.zeros(12), np.ones(12)).go_on(100)
    np.testing.assert_allclose(found.at, 1.0, atol=1e-4)
    assert found.value < 1e-8


def test_a_descent_goes_on_where_it_has_stopped():
    """The mutant forgets the steps before, and is further away."""
    whole = Descent(form, np.zeros(12), np.ones(12)).go_on(24)
    parts = Descent(form, np.zeros(12), np.ones(12)).go_on(8).go_on(16)
    np.testing.assert_array_equal(whole.at, parts.at)
    assert whole.value == parts.value
    again = Descent(form, Descent(form, np.zeros(12), np.ones(12)).go_on(8).at, np.ones(12)).go_on(16)
    assert again.value > 3 * parts.value


def test_a_direction_that_overflows_is_minus_the_gradient():
    def steep(x):
        return float(-1e10 * x[0]), np.array([-1e10, 1e-290 * x[1]])

    found = Descent(steep, np.array([0.0, -1.0]), np.array([1.0, 1e300])).go_on(5)  # the second direction overflows
    assert np.isfinite(found.at).all()
    assert found.at[0] >= 2


def test_a_descent_ends_where_nothing_is_gained():
    calls = []

    def counted(x):
        calls.append(x)
        return form(x)

    found = Descent(counted, np.ones(12), np.ones(12)).go_on(5)
    assert found.value == 0.0
    assert len(calls) <= 1 + descent.MAX_HALVINGS
    found.go_on(100)
    assert len(calls) <= 1 + descent.MAX_HALVINGS


def test_scales_of_the_variables_are_where_a_descent_begins():
    """With those of the inverse Hessian the first direction leads to the minimum; the mutant has none."""
    wide = 1e8 ** np.linspace(0, 1, 12)

    def function(x):
        return float(wide @ (x - 1) ** 2), 2 * wide * (x - 1)

    found = [Descent(function, np.zeros(12), scales).go_on(12).value for scales in (1 / wide, np.ones(12))]
    assert found[0] < 1e-20
    assert found[1] > 1e-3
