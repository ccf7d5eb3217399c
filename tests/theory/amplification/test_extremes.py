"""Budgets at the ends of their ranges, against closed forms with 60 digits."""

from __future__ import annotations

import mpmath
import pytest

from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import DIRECTIONS, Direction, epsilon_of
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget


def curve(*factors: Factor) -> PoissonCurve:
    return PoissonCurve(factors, factors, True, "a product")


def one_step(q: float, sigma: float, epsilon: float, direction: Direction) -> mpmath.mpf:
    """δ of one step: A = 1 − q + q e^{rx − r²/2} grows, so that A crosses a level at one x."""
    with mpmath.workdps(60):
        q, r, e = mpmath.mpf(q), 1 / mpmath.mpf(sigma), mpmath.mpf(epsilon)
        sign = 1 if direction == "remove" else -1
        level = (mpmath.exp(sign * e) - 1 + q) / q
        if level <= 0:
            return mpmath.mpf(0)
        edge = mpmath.log(level) / r + r / 2
        used = (1 - q) * mpmath.ncdf(-sign * edge) + q * mpmath.ncdf(sign * (r - edge))
        unused = mpmath.ncdf(-sign * edge)
        return used - mpmath.exp(e) * unused if sign > 0 else unused - mpmath.exp(e) * used


@pytest.mark.parametrize("rate", [1.0, 0.5, 1e-6])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-8, 1e-30), (1e-8, 1e-8), (1e-3, 1e-12), (50.0, 1e-30), (1e-8, 1e-3), (50.0, 1e-3)]
)
def test_one_step_at_the_ends_of_the_range(rate: float, epsilon: float, delta: float) -> None:
    program = DPSGD().program(Participation.poisson(1, rate))
    if rate < delta:
        with pytest.raises(ValueError, match="budget must need noise"):
            program.multiplier(Budget(epsilon=epsilon, delta=delta))
        return
    sigma = program.multiplier(Budget(epsilon=epsilon, delta=delta))
    assert max(one_step(rate, sigma, epsilon, direction) for direction in DIRECTIONS) <= delta
    assert max(one_step(rate, sigma * (1 - 1e-6), epsilon, direction) for direction in DIRECTIONS) > delta
    assert program.profile(sigma).epsilon_at(delta) <= epsilon
    for direction in DIRECTIONS:
        ends = epsilon_of(curve(Factor(rate, 1.0, 1)), delta, sigma, direction)
        assert one_step(rate, sigma, ends.upper, direction) <= delta
        assert ends.lower == 0 or one_step(rate, sigma, ends.lower, direction) >= delta
        assert ends.upper - ends.lower <= 1e-5 * ends.upper
