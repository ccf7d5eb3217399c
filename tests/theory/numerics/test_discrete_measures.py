"""Measures with few places against the sums over all places."""

import numpy as np
import pytest
from mpmath import mp

from corrnoise.theory.numerics.discrete_measures import condensed


@pytest.mark.parametrize(
    "kernel", [lambda s, t: 1 / (s + t), lambda s, t: 1 / (s + 1j * t), lambda s, t: 1 / (s**2 + t)]
)
def test_condensed_sums(kernel):
    rng = np.random.default_rng(5)
    places = np.concatenate([10 ** rng.uniform(-9, 2, 700), 0.3 * (1 + 1e-13 * np.arange(50)), np.ones(20)])
    weights = 10 ** rng.uniform(-6, 0, places.size) * places
    s, w = condensed(places, weights)
    assert s.size <= 3 * (16 + 31)
    assert (s > 0).all()
    assert (w >= 0).all()
    for t in np.geomspace(1e-20, 1e6, 40):
        exact = sum(kernel(mp.mpf(float(x)), mp.mpf(t)) * float(v) for x, v in zip(places, weights, strict=True))
        assert abs(complex((w * kernel(s, t)).sum() / exact) - 1) < 1e-14
    assert w.sum() == pytest.approx(weights.sum(), rel=1e-14)
    assert (w * kernel(s * (1 + 1e-12), 1e-20)).sum() != pytest.approx((w * kernel(s, 1e-20)).sum(), rel=1e-14)


def test_few_places_are_kept():
    places, weights = np.geomspace(1e-3, 1, 41), np.ones(41)
    s, w = condensed(places, weights)
    np.testing.assert_array_equal(s, places)
    np.testing.assert_array_equal(w, weights)


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("steps", [1, 30, 1000, 10**6, 10**9])
def test_powers(steps, power):
    places = 10 ** np.random.default_rng(steps).uniform(-8, np.log10(0.5), 2000)
    weights = places**power
    s, w = condensed(places, weights)

    def total(s, w):
        return (w * np.exp(steps * np.log1p(-s))).sum()

    assert total(s, w) == pytest.approx(total(places, weights), rel=1e-11, abs=0)
    assert total(s * (1 + 1e-3), w) != pytest.approx(total(places, weights), rel=1e-6, abs=0)
