"""Spectral factorisation against closed forms: products, binomial coefficients, known cepstra; and its refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.solvers import spectral_factorisation
from corrnoise.solvers.spectral_factorisation import noise_from_power_spectrum
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.numerics.quadrature import root_spectrum_mean
from tests import oracles
from tests.strategies import exponents, log_uniform

# Frequencies outside of all grids, also of the check that the factorisation makes itself.
FREQUENCIES = np.concatenate([np.geomspace(1.1e-9, 0.9999 * np.pi, 997), np.pi - np.geomspace(1.3e-4, 1.0, 313)])


def of(product):
    """A spectrum that does not tell where it comes from, at a scale of its own."""
    return lambda frequencies: 7 * product.power_spectrum(frequencies)


def deviation(noise, power, frequencies=FREQUENCIES) -> float:
    """How far |B|² is from a constant times ``power``."""
    ratio = noise.power_spectrum(frequencies) / power(frequencies)
    return float(ratio.max() / ratio.min() - 1)


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [1e-6, 1e-4, 0.05, 1.0, 1.5, 2 - 1e-4])
def test_nu_ftrl(nu):
    noise = noise_from_power_spectrum(of(NuFTRL(nu)))
    assert isinstance(noise, CepstralNoise)
    assert noise.cepstrum.size < 2**15
    assert deviation(noise, of(NuFTRL(nu))) < 2e-12 * max(1, 1e-2 / (2 - nu))
    beta = noise.coefficients(1000)
    for t in (0, 1, 2, 10, 100, 999):
        assert abs(beta[t] - oracles.binomial_coefficient(nu, 0.5, t)) < 1e-13
    with workdps(40):
        gamma = 1 / mp.sqrt(mp.agm(mpf(nu), 2 - mpf(nu)))
    assert oracles.relative_error(noise.limiting_sensitivity(), gamma) < 1e-13
    assert oracles.relative_error(NuFTRL(nu * (1 + 1e-6)).limiting_sensitivity(), gamma) > 1e-12 or nu == 1
    rates = np.geomspace(1e-9, 1.0, 30)
    assert np.allclose(noise.averaged_variance(rates), NuFTRL(nu).averaged_variance(rates), rtol=1e-11, atol=0)


def graded_products() -> st.SearchStrategy[ProductNoise]:
    """Features of all widths at 0, or wider ones at π; the two together when they are wide."""

    def factors(gap):
        return st.lists(st.tuples(gap, exponents()), min_size=1, max_size=4)

    at_zero, at_pi = log_uniform(1e-6, 1.0), log_uniform(1e-4, 1.0).map(lambda a: 2 - a)
    both = log_uniform(1e-2, 1.0) | log_uniform(1e-2, 1.0).map(lambda a: 2 - a)
    drawn = factors(at_zero) | factors(at_pi) | factors(both)
    return drawn.map(lambda fs: ProductNoise([a for a, _ in fs], [e for _, e in fs]))


@given(graded_products())
def test_products(product):
    noise = noise_from_power_spectrum(of(product))
    assert deviation(noise, product.power_spectrum) < 1e-10
    gamma = product.limiting_sensitivity()
    assert noise.limiting_sensitivity() == pytest.approx(gamma, rel=1e-10)
    rates = np.geomspace(1e-7, 1.9, 20)
    assert np.allclose(noise.averaged_variance(rates), product.averaged_variance(rates), rtol=1e-10, atol=0)
    inverse = product.inverse_coefficients(50)
    assert np.linalg.norm(noise.inverse_coefficients(50) - inverse) < 1e-9 * gamma


@given(st.lists(st.floats(-0.5, 0.5), max_size=30))
def test_trigonometric_logarithms_have_the_cepstrum_they_are_made_of(cepstrum):
    made = CepstralNoise(cepstrum)
    noise = noise_from_power_spectrum(
        lambda w: 3 * np.exp(2 * np.cos(np.outer(w, np.arange(1, len(cepstrum) + 1))) @ cepstrum)
    )
    assert deviation(noise, made.power_spectrum) < 1e-12
    assert np.allclose(
        noise.coefficients(60), made.coefficients(60), rtol=0, atol=1e-13 * np.linalg.norm(made.coefficients(60))
    )


def bump(centre, width, height):
    return lambda w: 1 + height / (1 + (2 * np.sin((w - centre) / 2) * np.sin((w + centre) / 2) / width) ** 2)


@given(log_uniform(1e-2, 3.0), log_uniform(1e-2, 1.0), log_uniform(1e-2, 100.0))
def test_bumps_between_the_ends(centre, relative_width, height):
    power = bump(centre, centre * math.sin(centre) * relative_width, height)
    noise = noise_from_power_spectrum(power)
    near = centre * (1 + relative_width * np.linspace(-3, 3, 501))
    assert deviation(noise, power, np.concatenate([FREQUENCIES, np.abs(near)])) < 1e-10
    beta, inverse = noise.coefficients(40), noise.inverse_coefficients(40)
    assert np.allclose(np.convolve(beta, inverse)[:40], np.arange(40) == 0, atol=1e-12)


def test_narrow_bump_that_a_coarse_grid_does_not_see():
    power = bump(1.0, 1e-3, 10.0)
    assert deviation(noise_from_power_spectrum(power), power, 1 + np.linspace(-5e-3, 5e-3, 1001)) < 1e-10


def test_the_other_phase_of_a_polynomial():
    """|1 − 2z|² = |2 − z|²: zeros move out of the unit disk, and β_0 = 1."""
    noise = noise_from_power_spectrum(FiniteNoise([1, -2]).power_spectrum)
    assert np.allclose(noise.coefficients(5), [1, -0.5, 0, 0, 0], rtol=0, atol=1e-15)
    assert noise.limiting_sensitivity() == pytest.approx(math.sqrt(4 / 3), rel=1e-14)


@pytest.mark.parametrize("modes", [1, 10, 200])
def test_optimal_noise_for_many_modes(modes):
    """|B|² = h^{−1/2} attains the lower bound of Cauchy and Schwarz, γ_∞² Σ g b(x) = ((1/2π) ∫ sqrt h)²."""
    rng = np.random.default_rng(3)
    rates = np.geomspace(1e-5, 0.5, modes) if modes > 1 else np.array([0.01])
    weights = rng.uniform(0.1, 1.0, modes)

    def h(w):
        s, x = np.sin(w[:, np.newaxis] / 2), rates
        return (weights * x * (2 - x) / (x**2 + 4 * (1 - x) * s**2)).sum(axis=1)

    noise = noise_from_power_spectrum(lambda w: h(w) ** -0.5)
    error = noise.limiting_sensitivity() ** 2 * float(weights @ noise.averaged_variance(rates))
    assert error == pytest.approx(root_spectrum_mean(rates, weights * (2 - rates)) ** 2, rel=1e-12)
    mutant = CepstralNoise(noise.cepstrum * 1.01, noise.warp)
    assert mutant.limiting_sensitivity() ** 2 * float(weights @ mutant.averaged_variance(rates)) > error * (1 + 1e-6)


@pytest.mark.parametrize(
    "noise", [NuFTRL(0), AntiPGD(0), ProductNoise([0.1, 2.0], [0.5, 1]), CepstralNoise([0.5], 0.5)]
)
def test_spectra_that_say_where_they_come_from(noise):
    assert noise_from_power_spectrum(noise.power_spectrum) is noise


def test_other_methods_of_noise_are_functions_like_any():
    class Rooted(NuFTRL):
        def root(self, frequencies):
            return np.sqrt(self.power_spectrum(frequencies))

    found = noise_from_power_spectrum(Rooted(0.1).root).coefficients(50)
    assert np.allclose(found, ProductNoise([0.1], [0.25]).coefficients(50), rtol=0, atol=1e-14)


# -- the check rejects false neighbours --------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 5, 20])
def test_a_cepstrum_that_is_off_by_a_millionth_is_rejected(place):
    power = of(NuFTRL(0.01))
    checked = np.log(power(spectral_factorisation.CHECKED_FREQUENCIES))
    noise = noise_from_power_spectrum(power)
    assert spectral_factorisation.deviation_of(noise, checked) < 1e-12
    c = noise.cepstrum.copy()
    c[place] *= 1 + 1e-6
    mutant = CepstralNoise(c, noise.warp)
    assert spectral_factorisation.deviation_of(mutant, checked) > spectral_factorisation.MAX_RELATIVE_ERROR
    assert deviation(mutant, power) > 1e-10


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("power", "words"),
    [
        (lambda w: 1 - w, "power must be positive and finite"),
        (lambda w: np.where(w > 3, np.nan, 1.0), "got nan"),
        (lambda w: np.where(w > 3, np.inf, 1.0), "got inf"),
        (lambda w: np.zeros_like(w), "got 0.0 at 1e-09"),
        (lambda w: 1.0, "in the shape of its argument"),
        (lambda w: np.ones((w.size, 2)), "in the shape of its argument"),
        (lambda w: np.exp(1j * w), "complex128"),
    ],
)
def test_values_that_are_no_power_spectrum(power, words):
    with pytest.raises(ValueError, match=words):
        noise_from_power_spectrum(power)


def test_no_function():
    with pytest.raises(TypeError, match="power must be a function"):
        noise_from_power_spectrum([1.0, 2.0])


@pytest.mark.parametrize(
    "power",
    [
        of(NuFTRL(0)),
        of(AntiPGD(0)),
        of(NuFTRL(1e-9)),
        of(ProductNoise([1e-6, 2 - 1e-6], [0.5, 0.5])),
        lambda w: np.where(w < 1, 1.0, 2.0),
        lambda w: 1e-20 + (1 - np.cos(w)),
        lambda w: np.exp(1e-6 * np.random.default_rng(0).normal(size=w.size)),
    ],
    ids=["zero", "double zero", "too narrow", "narrow at both ends", "jump", "cancellation", "random errors"],
)
def test_what_does_not_settle(power):
    with pytest.raises(ArithmeticError, match="power is not resolved by 262144 frequencies"):
        noise_from_power_spectrum(power)


def test_callables_that_work_in_place_do_no_harm():
    def careless(omega):
        omega *= 1e-3
        return np.full_like(omega, 1.1)

    before = noise_from_power_spectrum(lambda omega: 1.5 + np.cos(omega))
    assert noise_from_power_spectrum(careless).cepstrum.size == 0
    assert noise_from_power_spectrum(lambda omega: 1.5 + np.cos(omega)) == before
