"""Zeros of sums over poles, at 40 digits."""

import numpy as np
import pytest
from mpmath import mp

from corrnoise.theory.mechanisms.pole_sums import interlacing_zeros


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
