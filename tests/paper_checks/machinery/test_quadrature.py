"""The quadrature on the circle against exact values."""

import math

import numpy as np
import pytest

from corrnoise.paper_checks.machinery.quadrature import circle_integral, modulus_at


@pytest.mark.parametrize("gap", [1e-12, 1e-3, 0.5, 1.0, 1.9])
def test_integrals_of_the_poisson_kernel_are_exact(gap):
    """∫ dω/|1 − a − e^{iω}|² = 2π/(a (2 − a)), Lemma F.12."""
    exact = 2 * math.pi / (gap * (2 - gap))
    value = circle_integral(lambda cosine, sine: 1 / modulus_at(gap, cosine, sine) ** 2)
    assert value == pytest.approx(exact, rel=1e-12)
    assert value != pytest.approx(exact * (1 + 1e-9), rel=1e-12)


def test_the_modulus_is_that_of_complex_numbers():
    omega = np.linspace(-3, 3, 7)
    found = modulus_at(0.3, np.cos(omega / 2), np.sin(omega / 2))
    assert np.allclose(found, np.abs(0.7 - np.exp(1j * omega)), rtol=1e-14)
