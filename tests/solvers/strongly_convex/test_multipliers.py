"""Kernels against sums over their lags; bounds on discs of complex frequencies and of rounding against mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nbinom

from corrnoise.solvers.strongly_convex.multipliers import Kernels, Multiplier, further_kernels, rich_kernels, taps
from corrnoise.theory.problems.strongly_convex import CRITERIA
from tests.strategies import log_uniform

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


# -- complex frequencies and rounding ----------------------------------------------------------------------------------


def kernel(row, z):
    """K(z) by its formula, in mpmath's precision."""
    shift, step, gap, power, side = (float(field) for field in row)
    gap = mp.mpf(gap)
    return mp.exp(-1j * side * shift * z) * (gap / (1 - (1 - gap) * mp.exp(-1j * side * step * z))) ** power


def raw(multiplier, z):
    """Λ(z), slack and gain by the formulas of the theorem, in mpmath's precision; z may be complex."""
    m, ell, epsilon = mp.mpf(multiplier.slow), mp.mpf(multiplier.fast), int(multiplier.criterion == "objective")
    k = multiplier.kernels
    rows = list(zip(k.shifts, k.steps, k.gaps, k.powers, k.sides, strict=True))

    def lam(z):
        both = zip(multiplier.weights, rows, strict=True)
        return mp.mpf(multiplier.constant) + mp.fsum(mp.mpf(float(w)) * (1 - kernel(row, z)) for w, row in both)

    a, b = (lam(z) + lam(-z)) / 2, (lam(z) - lam(-z)) / 2j
    x, s = 1 - mp.cos(z), mp.sin(z)
    u = 2 * ((x * (2 - m - ell) + m * ell) * a + (ell - m) * s * b) - ell * (ell - m)
    u += epsilon * ((x - ell) ** 2 + s**2)
    return lam(z), u, ((ell - m) * (a**2 + b**2) + ell * (2 * a + epsilon)) / u


@given(rows, st.floats(1e-6, 3.1) | log_uniform(1e-9, 1e-3), log_uniform(1e-9, 0.3), st.floats(0, 2))
def test_changes_on_discs(row, omega, radius, angle):
    change, even = (c[0, 0] for c in Kernels.of([row]).changes(np.array([omega]), np.array([radius])))
    assert even <= change
    with mp.workdps(40):
        z = mp.mpf(omega) + mp.mpf(radius) * mp.expjpi(angle)
        ahead, behind, here, mirrored = (kernel(row, w) for w in (z, -z, mp.mpf(omega), -mp.mpf(omega)))
        if math.isfinite(change):
            assert abs(ahead - here) <= change * (1 + 1e-9) + 1e-15 * radius
            assert abs(behind - mirrored) <= change * (1 + 1e-9) + 1e-15 * radius
            assert abs(ahead + behind - here - mirrored) / 2 <= even * (1 + 1e-9) + 1e-15 * radius


@pytest.mark.parametrize("lag", [1, 7])
def test_changes_of_taps_are_close(lag):
    """|e^{−iτz} − e^{−iτω}| is at most e^{τr} − 1, and cos τz changes by r (ω + r/2) τ² near ω = 0."""
    omega = np.array([0.7, 1e-6])
    radii = np.array([1e-3, 1e-6])
    change, even = taps(lag).chosen(np.array([lag - 1])).changes(omega, radii)
    np.testing.assert_allclose(change[:, 0], np.expm1(lag * radii), rtol=1e-9)
    assert even[0, 0] == change[0, 0]
    assert even[1, 0] == pytest.approx(1.5e-12 * lag**2, rel=1e-4)


def test_changes_are_infinite_near_poles():
    tail = Kernels.of([(1, 1, 1e-3, 1, 1)])
    assert np.isinf(tail.changes(np.array([1e-9]), np.array([2e-3]))[0])
    assert np.isfinite(tail.changes(np.array([0.1]), np.array([2e-3]))[0])


weighted = st.lists(st.tuples(rows, log_uniform(1e-3, 1e3)), min_size=1, max_size=4)


def mixture(several, size, criterion="distance", pair=(0.1, 1.0)):
    kernels = Kernels.of([row for row, _ in several])
    return Multiplier(*pair, criterion, size, np.array([weight for _, weight in several]), kernels)


@given(weighted, log_uniform(4.6, 1e3), st.sampled_from(CRITERIA), st.floats(0, math.pi) | log_uniform(1e-9, 1.0))
def test_gains_are_rounded_up(several, size, criterion, omega):
    multiplier = mixture(several, size, criterion)
    frequencies = np.array([omega])
    gain, upper = (float(part[0]) for part in multiplier.rounded_gain(frequencies))
    a, b = (float(part[0]) for part in multiplier.at(frequencies))
    with mp.workdps(40):
        lam, u, exact = raw(multiplier, mp.mpf(omega))
        slack = u.real
        assert abs(mp.mpc(a, b) - lam) <= multiplier._error()
        if math.isfinite(upper):
            assert slack > 0
            assert exact.real <= upper
            assert abs(exact - mp.mpf(gain)) <= mp.mpf(upper) - mp.mpf(gain)
        if slack > 1e-6 * size:
            assert upper <= gain * (1 + 1e-6)


def test_allowances_for_rounding_are_needed():
    """Some computed gains lie below the exact ones: without the allowance the test above would fail."""
    multiplier = mixture([((1, 1, 0.1, 1, 1), 3.0), ((2, 1, 0.3, 4, 1), 5.0)], 12.0)
    omega = np.linspace(0.1, 3, 60)
    with mp.workdps(40):
        below = sum(g < raw(multiplier, mp.mpf(w))[2].real for g, w in zip(multiplier.gain(omega), omega, strict=True))
    assert below > 10


@given(weighted, log_uniform(4.6, 1e3), st.sampled_from(CRITERIA), st.floats(1e-6, 3.1), log_uniform(1e-7, 0.1))
def test_gain_and_slack_on_discs(several, size, criterion, omega, radius):
    multiplier = mixture(several, size, criterion)
    found = multiplier.on_discs(np.array([omega]), np.array([radius]))
    with mp.workdps(30):
        _, slack, _ = raw(multiplier, mp.mpf(omega))
        assert found.slack[0] == pytest.approx(float(slack.real), rel=1e-6, abs=1e-9 * size)
        for angle in np.linspace(0, 2, 12):
            _, u, xi = raw(multiplier, mp.mpf(omega) + mp.mpf(radius) * mp.expjpi(angle))
            if found.least_slack[0] > 0:
                assert abs(u) >= found.least_slack[0] * (1 - 1e-12)
                assert abs(xi) <= found.largest_gain[0] * (1 + 1e-12)
            else:
                assert found.largest_gain[0] == math.inf


def test_bounds_on_discs_are_not_idle():
    """On a small disc they are close to the values at its middle, so that a wrong constant would show."""
    multiplier = mixture([((1, 1, 0.1, 1, 1), 3.0), ((2, 1, 0.3, 4, 1), 5.0)], 12.0)
    omega = np.array([1e-4, 0.3, 1.0, 3.0])
    found = multiplier.on_discs(omega, np.full(4, 1e-4))
    assert (found.least_slack >= 0.98 * found.slack).all()
    assert (found.largest_gain <= 1.03 * found.gain).all()
    assert (found.largest_gain > found.gain).all()


def constant(size, pair=(0.1, 1.0), criterion="distance"):
    return Multiplier(*pair, criterion, size, np.empty(0), Kernels.of([]))


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
