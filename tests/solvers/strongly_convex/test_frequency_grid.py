"""Graded panels: exact on polynomials, fine where the features of problem and noise are."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.strongly_convex.frequency_grid import clear_edges, graded_edges, halved, nodes
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.spectra import spectrum_of
from tests.strategies import log_uniform


@pytest.mark.parametrize("pair", [(0.1, 1.0), (1e-9, 1e-3), (0.3, 1.7), (1.9, 1.9999), (1.0, 1.0), (1e-6, 1.5)])
def test_panels_cover_the_circle_and_have_the_kinks_at_their_ends(pair):
    edges = graded_edges(*pair)
    assert edges[0] == 0
    assert edges[-1] == math.pi
    widths = np.diff(edges)
    assert (widths > 0).all()
    assert widths.max() <= 0.2501
    assert widths[0] <= 0.051 * min(pair[0], 1)
    if pair[1] > 1:
        assert widths[-1] <= 0.051 * (2 - pair[1])
    for rate in pair:
        assert np.abs(edges - math.acos(1 - rate)).min() <= 1e-7
    omega, weights = nodes(edges)
    assert weights.sum() == pytest.approx(1, rel=1e-13)
    assert ((omega > 0) & (omega < math.pi)).all()
    np.testing.assert_allclose((weights * np.cos(omega)).sum(), 0, atol=1e-13)
    assert halved(edges).size == 2 * edges.size - 1


def test_halved():
    np.testing.assert_allclose(halved(np.array([0.0, 1.0, 2.0])), [0, 0.5, 1, 1.5, 2])


@given(log_uniform(1e-6, 1.0), st.sampled_from([-1.0, -0.5, 0.5]))
def test_panels_clear_of_singularities_integrate_well(gap, exponent):
    """(1/2π) ∫ |1 − (1 − a) e^{iω}|^{2e} dω by the rule of the search, from panels that know nothing of it."""
    noise = ProductNoise([gap], [exponent])
    edges = clear_edges(graded_edges(0.5, 1.0), spectrum_of(noise))
    omega, weights = (part.ravel() for part in nodes(edges))
    exact = float(mp.hyp2f1(-exponent, -exponent, 1, (1 - mp.mpf(gap)) ** 2))
    assert (weights * noise.power_spectrum(omega)).sum() == pytest.approx(exact, rel=1e-6)
    assert edges[0] == 0
    assert edges[-1] == math.pi
    assert (np.diff(edges) > 0).all()


def test_without_clearing_a_narrow_peak_is_missed():
    """So that the test above can fail."""
    omega, weights = (part.ravel() for part in nodes(graded_edges(0.5, 1.0)))
    noise = ProductNoise([1e-6], [-1.0])
    assert (weights * noise.power_spectrum(omega)).sum() < 0.5 * noise.averaged_variance(1.0)


@pytest.mark.parametrize("noise", [DPSGD(), NuFTRL(1e-5), AntiPGD(0.1), FiniteNoise([1, -0.5]), CepstralNoise([0.3])])
def test_grid_that_suffices_is_left_alone(noise):
    edges = graded_edges(1e-5, 1.0)
    assert clear_edges(edges, spectrum_of(noise)) is edges


@pytest.mark.parametrize("noise", [ProductNoise([0.0], [-0.25]), ProductNoise([2.0], [0.25]), NuFTRL(1e-12)])
def test_singular_noise_is_approached_as_far_as_it_pays(noise):
    edges = graded_edges(0.1, 1.0)
    finer = clear_edges(edges, spectrum_of(noise))
    assert edges.size < finer.size < edges.size + 60
