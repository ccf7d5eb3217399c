"""Noise with a banded strategy: autoregressive processes against the polynomial noise they invert."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given

from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.participation import Participation
from tests.strategies import minimum_phase_coefficients, rates


@given(minimum_phase_coefficients())
def test_it_is_the_inverse_of_finite_noise(strategy):
    noise, inverse = BandedStrategyNoise(strategy), FiniteNoise(strategy)
    np.testing.assert_array_equal(noise.inverse_coefficients(20), inverse.coefficients(20))
    np.testing.assert_allclose(noise.coefficients(20), inverse.inverse_coefficients(20), rtol=1e-14)
    omega = np.linspace(0, math.pi, 7)
    np.testing.assert_allclose(noise.power_spectrum(omega) * inverse.power_spectrum(omega), 1, rtol=1e-13)
    norm = np.linalg.norm(strategy)
    assert noise.limiting_sensitivity() == pytest.approx(norm, rel=1e-15)
    assert norm * (1 - 1e-15) <= noise.sensitivity_upper_bound(Participation.single(20)) <= norm * (1 + 1e-13)


def averaged_variance(strategy: np.ndarray, x: float):
    """b(x) = x (2 − x) ‖1/D‖² of D = C (1 − (1 − x) z), from the Yule–Walker equations Σ_j d_j r_{|i−j|} = δ_i0/d_0."""
    with mpmath.workdps(60):
        c = [mpmath.mpf(float(value)) for value in strategy]
        s = 1 - mpmath.mpf(x)
        d = [a - s * b for a, b in zip([*c, 0], [0, *c], strict=True)]
        matrix = mpmath.zeros(len(d))
        for i in range(len(d)):
            for j in range(len(d)):
                matrix[i, abs(i - j)] += d[j]
        covariances = mpmath.lu_solve(matrix, mpmath.matrix([1 / d[0]] + [0] * (len(d) - 1)))
        return float(x * (1 + s) * covariances[0])


@pytest.mark.parametrize("strategy", [[2.0, 0.8, 0.3, -0.1], [1.0, 0.5, 0.375, 0.3125], [1.0, -0.99], [3.0]])
@pytest.mark.parametrize("x", [1e-9, 1e-3, 0.3, 1.3, 1.999])
def test_averaged_variance_has_all_digits(strategy, x):
    noise = BandedStrategyNoise(strategy)
    assert noise.averaged_variance(x) == pytest.approx(averaged_variance(noise.values, x), rel=1e-14)


@given(strategy=minimum_phase_coefficients(4), x=rates(1e-6))
def test_averaged_variance_lies_between_the_ends_of_the_spectrum(strategy, x):
    noise = BandedStrategyNoise(strategy)
    power = noise.power_spectrum(np.linspace(0, math.pi, 4001))
    assert power.min() * (1 - 1e-12) <= noise.averaged_variance(x) <= power.max() * 1.01


def test_noise_that_grows_has_no_stationary_variance():
    noise = BandedStrategyNoise([1.0, -2.0])
    assert noise.averaged_variance([0.1, 0.2]).tolist() == [math.inf, math.inf]
    assert noise.limiting_sensitivity() == pytest.approx(math.sqrt(5))


def test_bad_coefficients_are_refused():
    for bad, match in (([], "non-empty"), ([0.0, 1.0], r"\[0\] must not be 0"), ([1.0, math.nan], "lie in")):
        with pytest.raises(ValueError, match=match):
            BandedStrategyNoise(bad)
    assert BandedStrategyNoise([1.0, 0.5, 0.0]) == BandedStrategyNoise([1.0, 0.5])
