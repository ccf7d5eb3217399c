"""Domains: every axis stays in its range, reaches both ends, and gives balls that enclose what floats give."""

from itertools import product

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.paper_checks.machinery import domains
from corrnoise.paper_checks.machinery.domains import (
    Domain,
    gaps,
    integers,
    linear,
    log_scale,
    one_of,
    symmetric,
    vector,
)

UNIT = st.floats(0, 1)


def scalar(axis, u):
    return axis.value([u], {})


@pytest.mark.parametrize(
    ("axis", "low", "high", "middle"),
    [
        (linear(-1, 3), -1, 3, 1),
        (linear("0.1", "0.7"), 0.1, 0.7, 0.4),
        (log_scale("1e-300", "1"), 1e-300, 1, 1e-150),
        (log_scale(2, 8), 2, 8, 4),
        (integers(1, 5), 1, 5, 3),
        (integers(1, 99, log=True), 1, 99, 10),
        (gaps(1e-9), 1e-9, 2 - 1e-9, 1),
        (one_of("a", "b", "c"), "a", "c", "b"),
    ],
)
def test_both_ends_are_met_exactly_and_the_middle_is_where_the_scale_says(axis, low, high, middle):
    assert (scalar(axis, 0.0), scalar(axis, 1.0)) == (low, high)
    assert scalar(axis, 0.5) == (middle if isinstance(middle, str) else pytest.approx(middle, rel=1e-12))


@given(UNIT)
def test_axes_stay_in_their_range(u):
    assert 0.1 <= scalar(linear("0.1", "0.7"), u) <= 0.7
    assert 1e-9 <= scalar(log_scale(1e-9, 0.3), u) <= 0.3
    assert scalar(integers(3, 7), u) in range(3, 8)
    assert scalar(integers(3, 1000, log=True), u) in range(3, 1001)
    assert 1e-6 <= scalar(gaps(1e-6), u) <= 2 - 1e-6
    assert scalar(one_of(0.5, 1.0), u) in (0.5, 1.0)


def test_rounding_does_not_leave_the_range():
    for low, high in np.random.default_rng(0).uniform(0.1, 1, (200, 2)):
        for u in (np.nextafter(0, 1), np.nextafter(1, 0)):
            for axis in (linear(low, low + high), log_scale(low, low + high)):
                assert low <= scalar(axis, float(u)) <= low + high


def test_all_integers_and_choices_are_met():
    grid = np.linspace(0, 1, 1001)
    drawn = [scalar(integers(3, 7), u) for u in grid]
    assert [round(drawn.count(k) / len(drawn), 2) for k in range(3, 8)] == [0.2] * 5
    drawn = [scalar(integers(1, 3, log=True), u) for u in grid]
    assert [round(drawn.count(k) / len(drawn), 2) for k in (1, 2, 3)] == [0.5, 0.29, 0.21]
    assert {scalar(integers(1, 20, log=True), u) for u in grid} == set(range(1, 21))
    assert {scalar(one_of(*"abc"), u) for u in grid} == set("abc")


@given(st.lists(UNIT, min_size=2, max_size=2))
def test_bounds_may_depend_on_earlier_arguments(point):
    domain = Domain({"b": log_scale("1e-9", "0.25"), "a": log_scale("1e-12", "b")})
    found = domain.arguments(point)
    assert 1e-12 <= found["a"] <= found["b"] <= 0.25
    assert domain.size == 2


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"a": linear(0, "b")}, r"bounds of a must be numbers or arguments before it \(there is none\), got 'b'"),
        ({"c": linear(0, 1), "a": linear("b", 1)}, r"arguments before it \(c\), got 'b'"),
        ({"a": linear(0, "b"), "b": linear(0, 1)}, "bounds of a"),  # b comes later
        ({"b": linear(0, 1), "v": vector(log_scale(1, "a"), 2)}, "bounds of v"),
        ({"a": integers(1, "a")}, "bounds of a"),
    ],
)
def test_a_bound_that_is_no_earlier_argument_is_refused(axes, message):
    with pytest.raises(ValueError, match=message):
        Domain(axes)


@given(st.floats(0, 0.49), st.floats(0.5, 1), st.lists(UNIT, min_size=2, max_size=2))
def test_balls_enclose_the_numbers_of_their_box(low, high, shares):
    """At 200 bits, so that the value of a point is known far better than that of a float."""
    domain = Domain({"b": log_scale("1e-9", "0.25"), "a": linear("-0.1", "b")})
    with ctx.workprec(200):
        balls = domain.arguments([arb(low).union(arb(high))] * 2)
        point = [arb(low) + arb(share) * (arb(high) - arb(low)) for share in shares]
        exact = domain.arguments(point)
        for name in ("b", "a"):
            assert balls[name].overlaps(exact[name])
            assert balls[name].rad() > exact[name].rad()


def test_decimal_bounds_are_exact_in_ball_arithmetic():
    with ctx.workprec(200):
        at_the_end = scalar(linear("0.1", 1), arb(0))
        assert at_the_end.overlaps(arb(1) / 10)
        assert not scalar(linear(0.1, 1), arb(0)).overlaps(arb(1) / 10)  # the float is another number


@given(st.lists(UNIT, min_size=12, max_size=12))
def test_symmetric_matrices_have_eigenvalues_in_their_range(u):
    matrices = symmetric(0.5, 2, size=3, count=2).value(u, {})
    assert matrices.shape == (2, 3, 3)
    for matrix in matrices:
        np.testing.assert_allclose(matrix, matrix.T, rtol=0, atol=1e-14)
        values = np.linalg.eigvalsh(matrix)
        assert 0.5 - 1e-12 <= values.min() <= values.max() <= 2 + 1e-12
    np.testing.assert_allclose(symmetric(0.5, 2, size=3, count=1).value([0.0] * 6, {})[0], 0.5 * np.eye(3), atol=1e-14)
    ends = symmetric(0.5, 2, size=2, count=1).value([0.0, 1.0, 0.4], {})[0]
    assert abs(ends[0, 1]) > 0.1
    np.testing.assert_allclose(np.linalg.eigvalsh(ends), [0.5, 2])


def test_vectors_have_entries_of_one_axis():
    axis = vector(linear(-1, 1), 4)
    assert axis.size == 4
    np.testing.assert_allclose(axis.value([0, 0.25, 0.5, 1], {}), [-1, -0.5, 0, 1])
    with pytest.raises(ValueError, match="entry must take one coordinate, got 2"):
        vector(domains.mean_estimations(), 2)


CUBE = st.lists(UNIT, min_size=8, max_size=8)


@given(CUBE)
def test_regressions_are_stable_and_as_stated(u):
    problem = domains.regressions(6, largest=0.9, kurtosis=1.8).value(u, {})
    share = problem.learning_rate * problem.moment_bound / 0.9
    assert 1e-6 * (1 - 1e-9) <= share <= 1 + 1e-9
    assert problem.kurtosis == 1.8
    assert problem.residual_std == 0 or 1e-3 * (1 - 1e-9) <= problem.residual_std <= 1e3 * (1 + 1e-9)
    assert domains.regressions(6, residual_std=0.5).value(u, {}).residual_std == 0.5


def test_dimensions_and_kurtosis_reach_their_ends():
    axis = domains.regressions(4, kurtosis=(1.0, 100.0), multiplicity=10_000, norms=(1.0,))
    assert axis.size == 9
    smallest, largest = (axis.value([u] * 9, {}) for u in (0.0, 1.0))
    assert (smallest.eigenvalues.size, largest.eigenvalues.size) == (1, 10_003)
    assert (smallest.kurtosis, largest.kurtosis) == (1.0, 100.0)
    assert largest.learning_rate * largest.moment_bound == pytest.approx(0.999, rel=1e-12)
    assert "d <= 10003" in axis.range
    assert "kurtosis in [1.0, 100.0]" in axis.range


def test_spectra_have_three_scales_unless_they_are_given() -> None:
    """With one scale alone a bound whose sides have different units would pass."""
    axis = domains.spectra(2)
    assert [axis.value([0.9, 0.5, u], {}).max() for u in (0.0, 0.5, 1.0)] == list(domains.NORMS) == [1e-4, 1.0, 1e4]
    assert domains.regressions(2).range.startswith("linear regression, spectra with d <= 2 and condition <= 1e+06, ‖H‖")


@given(CUBE)
def test_noises_have_finite_sensitivity(u):
    noise = domains.noises(1e-6).value(u[:5], {})
    assert noise.coefficients(1)[0] == 1.0
    assert 1 - 1e-14 <= noise.limiting_sensitivity() < np.inf


def test_every_kind_of_noise_is_met():
    kinds = {type(domains.noises().value([u, 0.3, 0.4, 0.6, 0.7], {})).__name__ for u in np.linspace(0, 1, 41)}
    assert kinds == {"DPSGD", "NuFTRL", "AntiPGD", "ProductNoise", "FiniteNoise", "BandedStrategyNoise"}


def test_finitely_many_arguments_are_all_reached():
    domain = Domain({"n": integers(-1, 2), "name": one_of("a", "b", "c")})
    found = [tuple(domain.arguments(point).values()) for point in domain.all_points(12)]
    assert sorted(found) == sorted(product((-1, 0, 1, 2), "abc"))


def test_arguments_with_few_values_tell_cases_apart():
    """One case for each value of each of them; intervals, and arguments with one value or many, have none."""
    axes = {"x": linear(0, 1), "n": integers(1, 3), "one": one_of(7), "many": integers(0, 6), "name": one_of("a", "b")}
    domain = Domain(axes)
    for point in ([0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0.5, 0.34, 0.5, 0.9, 0.49]):
        arguments = domain.arguments(point)
        expected = [arguments["n"] == n for n in (1, 2, 3)] + [arguments["name"] == name for name in "ab"]
        assert domain.cases(point).tolist() == expected
    assert Domain({"x": vector(linear(0, 1), 2), "n": integers(0, 1)}).cases([0, 0, 1]).tolist() == [False, True]
    assert Domain({"x": linear(0, 1)}).cases([0.5]).tolist() == [True]


@pytest.mark.parametrize(
    "axes",
    [
        {"n": integers(0, 9), "m": integers(0, 9)},
        {"n": integers(1, 9, log=True)},
        {"n": integers(1, 3), "m": integers(1, "n")},
        {"n": integers(1, 3), "x": linear(0, 1)},
        {},
    ],
)
def test_other_domains_are_searched(axes):
    assert Domain(axes).all_points(99) is None
