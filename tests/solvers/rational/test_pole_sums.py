"""Sums over poles against the same sums in full, and their zeros at 40 digits."""

import numpy as np
import pytest
from mpmath import mp

from corrnoise.solvers.rational.pole_sums import condensed, interlacing_zeros


@pytest.mark.parametrize(
    "kernel", [lambda s, t: 1 / (s + t), lambda s, t: 1 / (s + 1j * t), lambda s, t: 1 / (s**2 + t)]
)
def test_condensed_sums(kernel):
    rng = np.random.default_rng(5)
    places = np.concatenate([10 ** rng.uniform(-9, 2, 700), 0.3 * (1 + 1e-13 * np.arange(50)), np.ones(20)])
    weights = 10 ** rng.uniform(-6, 0, places.size) * places
    s, w = condensed(places, weights)
    assert s.size <= 12 * 38
    assert (s > 0).all()
    assert (w >= 0).all()
    for t in np.geomspace(1e-20, 1e6, 40):
        exact = sum(kernel(mp.mpf(float(x)), mp.mpf(t)) * float(v) for x, v in zip(places, weights, strict=True))
        assert abs(complex((w * kernel(s, t)).sum() / exact) - 1) < 1e-14
    assert w.sum() == pytest.approx(weights.sum(), rel=1e-14)
    assert (w * kernel(s * (1 + 1e-12), 1e-20)).sum() != pytest.approx((w * kernel(s, 1e-20)).sum(), rel=1e-14)


def test_few_places_are_kept():
    places, weights = np.geomspace(1e-3, 1, 60), np.ones(60)
    s, w = condensed(places, weights)
    np.testing.assert_array_equal(s, places)
    np.testing.assert_array_equal(w, weights)


def zero_between(poles: list, weights: list, k: int, *, symmetric: bool) -> mp.mpf:
    """By bisection at 60 digits, between poles k and k + 1, on a logarithmic scale seen from either."""

    def value(a: mp.mpf) -> mp.mpf:
        return mp.fsum(w / ((q - a) * (q + a - q * a if symmetric else 1)) for q, w in zip(poles, weights, strict=True))

    low, high = mp.mpf(-100), mp.mpf(100)
    while high - low > mp.mpf(10) ** -25:
        middle = (low + high) / 2
        left = value(poles[k] + (poles[k + 1] - poles[k]) / (1 + mp.exp(-middle))) < 0
        low, high = (middle, high) if left else (low, middle)
    return poles[k] + (poles[k + 1] - poles[k]) / (1 + mp.exp(-low))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: 10 ** rng.uniform(-12, 0, 5),
        lambda rng: rng.uniform(0, 2, 4),
        lambda rng: 0.3 * (1 + 10 ** rng.uniform(-15, -1, 5)),
        lambda rng: np.array([3e-51, 0.3]),
    ],
    ids=["decades", "uniform", "cluster", "far apart"],
)
def test_interlacing_zeros(draw, symmetric):
    rng = np.random.default_rng(7)
    for _ in range(4):
        q = np.unique(draw(rng))
        w = 10 ** rng.uniform(-8, 8, q.size)
        zeros = interlacing_zeros(q, w, symmetric=symmetric)
        with mp.workdps(60):
            poles, weights = [mp.mpf(x) for x in q.tolist()], [mp.mpf(x) for x in w.tolist()]
            for k, zero in enumerate(zeros.tolist()):
                exact = zero_between(poles, weights, k, symmetric=symmetric)
                assert abs(zero / exact - 1) < 2e-15
                assert abs(zero * (1 + 4e-15) / exact - 1) > 2e-15
