"""Laws of the ratio: they contain the exact values, keep the mean, refine, and count their rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.amplification.bins import redrawn_law
from corrnoise.theory.amplification.laws import (
    Law,
    combined,
    lognormal,
    lognormal_price,
    mean,
    nodes_of_mean,
    power,
    split,
)
from corrnoise.theory.privacy import gaussian_delta
from tests.theory.amplification.bins_oracle import MANY, REFERENCES, exact


def bins(variance, number, count, upper):
    excess = math.expm1(variance)
    one = lognormal(variance, count, upper)
    return mean(one, number, lambda k: nodes_of_mean(count, 1 + excess / k, variance, k))


CASES = [(v, 2, epsilon, *values) for v, epsilon, *values in REFERENCES] + MANY


@pytest.mark.parametrize(("v", "b", "epsilon", "remove", "add"), CASES)
def test_independent_bins_of_the_reference(v, b, epsilon, remove, add):
    lower, upper = (bins(v, b, 600, up) for up in (False, True))
    for direction, truth in (("remove", remove), ("add", add)):
        low, high = (law.delta(epsilon, direction) for law in (lower, upper))
        assert low * (1 - 1e-9) <= truth <= high * (1 + 1e-9)
        assert high - low <= 0.02 * truth


def test_the_oracle_has_the_references():
    for v, epsilon, remove, add in REFERENCES:
        assert math.isclose(exact(v * np.eye(2), epsilon, "remove"), remove, rel_tol=2e-7)
        assert math.isclose(exact(v * np.eye(2), epsilon, "add"), add, rel_tol=2e-7)
    assert math.isclose(exact(np.eye(3), 1.0, "remove"), 0.03350075, rel_tol=1e-6)
    assert math.isclose(exact(np.eye(3), 1.0, "add"), 0.02383871, rel_tol=1e-6)


@pytest.mark.parametrize("shared", [0.0, 0.3])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_one_lognormal_is_a_gaussian_mechanism(shared, direction):
    truth = gaussian_delta((0.7 + shared) / 2, 1.2)
    low, high = (lognormal(0.7, 400, up).delta(1.2, direction, shared) for up in (False, True))
    assert low < truth < high < 1.002 * low


@given(st.floats(0.05, 6), st.integers(1, 9), st.integers(20, 60))
def test_laws_keep_mass_and_mean(variance, number, count):
    for upper in (False, True):
        law = bins(variance, number, count, upper)
        assert math.isclose(float(law.masses.sum()), 1, rel_tol=1e-10)
        assert math.isclose(float(law.masses @ law.positions) + law.singular, 1, rel_tol=1e-10)
        assert (np.diff(law.positions) > 0).all()


@given(st.floats(0.1, 4), st.floats(0, 3), st.integers(8, 40))
def test_upper_laws_are_nested_under_refinement(variance, epsilon, count):
    """On more points, among them the old ones, an upper law is smaller in both directions."""
    points = nodes_of_mean(count, math.exp(variance), variance, 1)
    finer = np.sort(np.concatenate((points, (points[1:] + points[:-1]) / 2)))
    for direction in ("remove", "add"):
        coarse, fine = (Law(p, *split(lognormal_price(variance), p), 0.0, True) for p in (points, finer))
        truth = gaussian_delta(variance / 2, epsilon)
        assert truth <= fine.delta(epsilon, direction) <= coarse.delta(epsilon, direction) * (1 + 1e-12)


def test_a_split_that_keeps_the_mean_of_the_logarithm_is_no_upper_law_for_add():
    points = nodes_of_mean(12, math.e, 1.0, 1)
    law = lognormal(1.0, 2000, True)
    logs, grid = np.log(law.positions[1:]), np.log(points[1:])
    k = np.clip(np.searchsorted(grid, logs) - 1, 0, grid.size - 2)
    share = np.clip((logs - grid[k]) / (grid[k + 1] - grid[k]), 0, 1)
    masses = np.zeros(points.size)
    np.add.at(masses, k + 1, law.masses[1:] * (1 - share))
    np.add.at(masses, k + 2, law.masses[1:] * share)
    wrong = Law(points, masses, 0.0, 0.0, True)
    truth = gaussian_delta(0.5, 1.0)
    right = Law(points, *split(lognormal_price(1.0), points), 0.0, True)
    assert min(wrong.delta(e, "add") / gaussian_delta(0.5, e) for e in np.linspace(0.1, 2, 39)) < 1
    assert all(right.delta(e, "add") >= gaussian_delta(0.5, e) for e in np.linspace(0.1, 2, 39))
    assert right.delta(1.0, "add") > truth


def test_dropped_cells_are_missed():
    """Atoms above the nodes go to the mass of P where Q has none; without them δ is too small."""
    points = nodes_of_mean(200, math.exp(1.0), 1.0, 1)
    points = points[points < 4.0]
    masses, beyond = split(lognormal_price(1.0), points)
    truth = gaussian_delta(0.5, 1.3)
    assert Law(points, masses, beyond, 0.0, True).delta(1.3, "remove") > truth
    assert Law(points, masses, 0.0, 0.0, True).delta(1.3, "remove") < truth


atoms = st.lists(st.tuples(st.floats(0.01, 4), st.floats(1e-3, 1)), min_size=1, max_size=6)


@given(atoms, atoms, st.booleans(), st.booleans(), st.floats(-1, 2))
def test_rounding_is_counted(first, second, multiply, upper, epsilon):
    """Combinations in floats bound those in rational arithmetic, from above and from below."""

    def law(pairs):
        positions, masses = (np.array(x) for x in zip(*sorted(dict(pairs).items()), strict=True))
        return Law(positions, masses / masses.sum() / 1.01, 0.0, 0.0, upper)

    one, other = law(first), law(second)
    points = np.array([0.0, 0.3, 0.9, 1.1, 2.0, 5.0])
    found = combined(one, other, points, multiply=multiply, weights=(1, 1) if multiply else (0.25, 0.75))
    strike = Fraction(math.exp(epsilon))
    pairs = [
        (x * y if multiply else x / 4 + y * 3 / 4, p * q)
        for x, p in zip(map(Fraction, one.positions), map(Fraction, one.masses), strict=True)
        for y, q in zip(map(Fraction, other.positions), map(Fraction, other.masses), strict=True)
    ]
    remove = float(sum(q * max(z - strike, 0) for z, q in pairs))
    add = float(sum(q * max(1 - strike * z, 0) for z, q in pairs))
    for direction, truth in (("remove", remove), ("add", add)):
        bound = found.delta(epsilon, direction)
        assert bound >= min(truth, 1) * (1 - 1e-14) if upper else bound <= truth * (1 + 1e-14)
    assert found.rounding >= 8 * 2.0**-53


def test_products_of_one_bin_are_a_gaussian_mechanism():
    for upper in (False, True):
        law = power(lognormal(0.2, 500, upper), 5, lambda k: nodes_of_mean(500, math.exp(0.2 * k), 0.2 * k, 1))
        for direction in ("remove", "add"):
            assert (law.delta(1.0, direction) >= gaussian_delta(0.5, 1.0)) == upper
            assert math.isclose(law.delta(1.0, direction), gaussian_delta(0.5, 1.0), rel_tol=0.01)


def test_redrawn_bins_with_a_short_last_epoch():
    """Two bins and three steps: an example is in the last step with probability ½."""
    low, high = (redrawn_law(0.5, 3, 2, 500, upper=up) for up in (False, True))
    axis, step = np.linspace(-11, 13, 2401, retstep=True)
    weight = np.exp(-axis * axis / 2) * step / math.sqrt(2 * math.pi)
    ratio = 0.5 + 0.5 * np.exp(axis * math.sqrt(0.5) - 0.25)
    truth = sum(
        w * exact(0.5 * np.eye(2), 1.0 - math.log(x), "remove", 2001) * x
        for x, w in zip(ratio, weight, strict=True)
        if w > 1e-12
    )
    assert low.delta(1.0, "remove") <= truth <= high.delta(1.0, "remove") * (1 + 1e-7)
    assert high.delta(1.0, "remove") < 1.005 * truth


def test_a_law_beyond_the_range_of_floats_says_nothing():
    for upper in (False, True):
        law = Law(np.array([0.0, 2.0]), np.array([0.5, math.nan]), 0.0, 0.0, upper)
        assert law.delta(1.0, "remove") == law.delta(1.0, "add") == float(upper)
