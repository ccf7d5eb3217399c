"""Noise for streams, out of a spectrum: its errors against closed forms, its size, and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings

from corrnoise.solvers.rational.spectrum import reduced_noise
from corrnoise.solvers.spectral_factorisation import noise_from_power_spectrum
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL, ProductNoise
from tests.strategies import log_uniform

# Products, what becomes of them and the most poles or coefficients it may take at a tolerance of 1e-6.
CASES = [
    (ProductNoise([], []), FiniteNoise, 1),
    (NuFTRL(0.3), FiniteNoise, 20),
    (AntiPGD(1e-3), FiniteNoise, 2),
    (NuFTRL(1e-2), PoleNoise, 9),
    (NuFTRL(1e-6), PoleNoise, 22),
    (NuFTRL(2 - 1e-3), PoleNoise, 16),
    (ProductNoise([1e-6, 1e-4, 1e-2], [0.5, -1.0, 0.7]), PoleNoise, 28),
    (ProductNoise([1e-2, 2 - 1e-2], [0.5, -0.5]), PoleNoise, 18),
]


def factorised(product: ProductNoise) -> CepstralNoise:
    noise = noise_from_power_spectrum(lambda w: product.power_spectrum(w))
    assert isinstance(noise, CepstralNoise)
    return noise


def worst_error(noise, exact) -> float:
    """Errors of γ_∞ and of b(x) at rates from the narrowest feature on, between those that the reduction looks at."""
    ends = np.concatenate([exact.gaps, 2 - exact.gaps, [0.5]])
    rates = np.geomspace(ends.min(), 1.0, 173)
    variances = noise.averaged_variance(rates) / exact.averaged_variance(rates)
    return float(np.abs(np.append(variances, noise.limiting_sensitivity() / exact.limiting_sensitivity()) - 1).max())


def size(noise) -> int:
    return noise.poles.size if isinstance(noise, PoleNoise) else noise.values.size


@pytest.mark.slow
@pytest.mark.parametrize(("product", "kind", "most"), CASES, ids=lambda case: repr(case)[:40])
def test_products(product, kind, most):
    reduced = reduced_noise(factorised(product), 1e-6)
    assert isinstance(reduced, kind)
    assert size(reduced) <= most
    assert (
        worst_error(reduced, product) < 1.2e-6
    )  # the narrowest feature is estimated, and between rates it may be more
    assert reduced.coefficients(1)[0] == 1


def test_a_false_neighbour_is_seen():
    product = NuFTRL(1e-3)
    reduced = reduced_noise(factorised(product), 1e-6)
    assert isinstance(reduced, PoleNoise)
    mutant = PoleNoise(reduced.zeros * (1 + 1e-4), reduced.poles)
    assert worst_error(reduced, product) < 1.2e-6 < 1e-5 < worst_error(mutant, product)


@pytest.mark.slow
@settings(max_examples=10)
@given(log_uniform(1e-5, 1e-1), log_uniform(1e-5, 1e-1), log_uniform(1e-4, 1e-1))
def test_staircases_of_any_steps(first, second, tolerance):
    product = ProductNoise([first, second], [0.5, -0.9])
    reduced = reduced_noise(factorised(product), tolerance)
    assert worst_error(reduced, product) < 1.2 * tolerance


def test_looser_tolerances_take_fewer_poles():
    noise = factorised(NuFTRL(1e-4))
    sizes = [size(reduced_noise(noise, tolerance)) for tolerance in (1e-1, 1e-2, 1e-4, 1e-6)]
    assert sizes == sorted(set(sizes))


def test_narrow_peaks_are_cut_off_in_time():
    """They take complex poles: coefficients instead, as few as will do to a quarter of an octave."""

    def power(w):
        return 1 + 3 / (1 + (2 * np.sin((w - 1) / 2) * np.sin((w + 1) / 2) / 0.01) ** 2)

    noise = noise_from_power_spectrum(power)
    reduced = reduced_noise(noise, 1e-3)
    assert isinstance(reduced, FiniteNoise)
    assert 32 < reduced.values.size < 512
    rates = np.geomspace(1e-2, 1.0, 50)
    assert np.allclose(reduced.averaged_variance(rates), noise.averaged_variance(rates), rtol=1.1e-3, atol=0)
    assert reduced.limiting_sensitivity() == pytest.approx(noise.limiting_sensitivity(), rel=1e-3)
    shorter = FiniteNoise(reduced.values[: int(0.8 * reduced.values.size)])
    assert not (
        np.allclose(shorter.averaged_variance(rates), noise.averaged_variance(rates), rtol=1e-3, atol=0)
        and abs(shorter.limiting_sensitivity() / noise.limiting_sensitivity() - 1) < 1e-3
    )


def test_what_is_refused():
    noise = CepstralNoise([0.5])
    with pytest.raises(TypeError, match="noise must be CepstralNoise"):
        reduced_noise(NuFTRL(0.1), 1e-3)
    for tolerance in (0.0, 1e-13, 1.0):
        with pytest.raises(ValueError, match=r"tolerance must lie in \[1e-12, 1\)"):
            reduced_noise(noise, tolerance)
    with pytest.raises(ValueError, match="tolerance must be larger"):
        reduced_noise(CepstralNoise([*np.zeros(20_000), 0.4]), 1e-6)
