"""Kernels against sums over their lags, and the proof of positive slack against finer and finer grids."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nbinom
from strategies import log_uniform

from corrnoise.solvers.multipliers import Kernels, Multiplier, further_kernels, rich_kernels, taps

rows = st.tuples(
    st.integers(1, 9), st.integers(1, 3), log_uniform(0.01, 1.0), st.integers(0, 6), st.sampled_from([1, -1])
)


@given(st.lists(rows, min_size=1, max_size=4))
def test_transforms_are_sums_over_lags(several):
    omega = np.array([0.0, 1e-6, 0.01, 0.7, math.pi / 2, 2.9, math.pi])
    found = Kernels.of(several).transforms(omega)
    lags = np.arange(8000)
    for (shift, step, gap, power, side), values in zip(several, found.T, strict=True):
        probability = nbinom.pmf(lags, power, gap) if power else (lags == 0).astype(float)
        phases = np.exp(-1j * side * np.outer(omega, shift + step * lags))
        np.testing.assert_allclose(values, phases @ probability, atol=1e-11)


def test_taps():
    omega = np.array([0.3, 1.0])
    found = taps(2).transforms(omega)
    np.testing.assert_allclose(found, np.exp(-1j * np.outer(omega, [1, 2, -1, -2])), rtol=1e-14)


@pytest.mark.parametrize("pair", [(0.1, 1.0), (1e-4, 0.01), (0.3, 1.9), (1.9, 1.99)])
@pytest.mark.parametrize("family", [rich_kernels, further_kernels])
def test_kernels_are_distributions_on_nonzero_lags(pair, family):
    kernels = family(*pair)
    assert (kernels.shifts >= 1).all()
    assert ((kernels.gaps > 0) & (kernels.gaps <= 1)).all()
    np.testing.assert_allclose(kernels.transforms(np.zeros(1)), 1, rtol=1e-13)
    assert np.abs(kernels.transforms(np.linspace(0, math.pi, 50))).max() <= 1 + 1e-12


@given(rows, st.floats(0, 3.1), log_uniform(1e-4, 0.5))
def test_derivative_bounds(row, low, width):
    """Against differences on a grid, to the error of the differences; and they are not idle."""
    high = min(low + width, math.pi)
    omega = np.linspace(low, high, 401)
    values = Kernels.of([row]).transforms(omega)[:, 0]
    bounds = [float(b[0, 0]) for b in Kernels.of([row]).derivative_bounds(np.array([low]), np.array([high]))]
    step = omega[1] - omega[0]
    first, second = np.abs(np.diff(values)) / step, np.abs(np.diff(values, 2)) / step**2
    assert np.abs(1 - values).max() <= bounds[0] + 1e-12
    assert first.max() <= bounds[1] * (1 + 1e-9) + 1e-13 / step
    assert second.max() <= bounds[2] * (1 + 1e-9) + 1e-13 / step**2


def test_derivative_bounds_are_attained_by_taps():
    size, slope, bend = taps(3).derivative_bounds(np.array([1.0]), np.array([2.0]))
    np.testing.assert_allclose(slope[0], [1, 2, 3] * 2)
    np.testing.assert_allclose(bend[0], [1, 4, 9] * 2)
    assert (size <= 2).all()


EDGES = np.linspace(0, math.pi, 17)


def constant(size, pair=(0.1, 1.0), criterion="distance"):
    return Multiplier(*pair, criterion, size, np.empty(0), Kernels.of([]))


def test_least_slack_of_constants():
    """The slack is affine in cos ω: u(0) = 2mlc − lδ."""
    for size in (4.51, 5.0, 100.0):
        exact = 2 * 0.1 * size - 0.9
        assert exact / 2 <= constant(size).least_slack(EDGES) <= exact * (1 + 1e-12)
    for size in (4.5, 4.49, 0.0):
        assert constant(size).least_slack(EDGES) == -math.inf


@given(st.lists(st.tuples(rows, log_uniform(1e-3, 3.0)), min_size=1, max_size=4), log_uniform(4.6, 20.0))
def test_least_slack_is_a_lower_bound(several, size):
    kernels = Kernels.of([row for row, _ in several])
    multiplier = Multiplier(0.1, 1.0, "distance", size, np.array([weight for _, weight in several]), kernels)
    omega = np.linspace(0, math.pi, 20_001)
    smallest = float(multiplier.condition(omega).slack(*multiplier.at(omega)).min())
    proved = multiplier.least_slack(EDGES)
    if smallest <= 0:
        assert proved == -math.inf
    else:
        assert proved <= smallest * (1 + 1e-9)
    if smallest > 1e-3:
        assert proved >= smallest / 4


def test_least_slack_sees_between_the_nodes():
    """A lag of 64 has a whole number of periods on each of 32 panels: at all ends it seems to be nothing."""
    edges = np.linspace(0, math.pi, 33)
    weights = np.array([1e3])
    multiplier = Multiplier(0.1, 1.0, "distance", 5.0, weights, Kernels.of([(64, 1, 1, 0, -1)]))
    at_ends = multiplier.condition(edges).slack(*multiplier.at(edges))
    assert at_ends.min() > 0.05
    assert multiplier.least_slack(edges) == -math.inf


def test_gain_keeps_shapes_and_is_infinite_without_slack():
    multiplier = constant(5.0)
    assert multiplier.gain(np.full((2, 3), 0.3)).shape == (2, 3)
    assert multiplier.gain(np.empty(0)).shape == (0,)
    assert constant(4.0).gain(np.array([0.0]))[0] == math.inf


def test_negligible_weights_are_dropped():
    kernels = taps(2)
    multiplier = Multiplier(0.1, 1.0, "distance", 5.0, np.array([1.0, 1e-12, 0.0, 2.0]), kernels)
    simpler = multiplier.without_negligible()
    assert list(simpler.weights) == [1, 2]
    assert list(simpler.kernels.shifts * simpler.kernels.sides) == [1, -2]
    assert simpler != multiplier
    assert simpler == Multiplier(**simpler.arguments())
    assert hash(simpler) == hash(Multiplier(**simpler.arguments()))
