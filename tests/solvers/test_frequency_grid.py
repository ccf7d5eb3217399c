"""Graded panels: exact on polynomials, fine where the features are, and honest about what they do not resolve."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from strategies import log_uniform

from corrnoise.solvers.frequency_grid import edges_for, graded_edges, halved, nodes, refined
from corrnoise.theory.finite_noise import FiniteNoise
from corrnoise.theory.product_noise import DPSGD, AntiPGD, NuFTRL


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


@given(log_uniform(1e-6, 1.0))
def test_refined_against_the_closed_form(gap):
    """(1/2π) ∫ dω/|1 − (1 − a)e^{iω}|² = 1/(a (2 − a)), from panels that know nothing of it."""
    edges, mean, difference = refined(
        graded_edges(0.5, 1.0), lambda w: 1 / ((gap * np.cos(w / 2)) ** 2 + ((2 - gap) * np.sin(w / 2)) ** 2), 1e-12
    )
    exact = 1 / (gap * (2 - gap))
    assert mean == pytest.approx(exact, rel=1e-12)
    assert difference <= 1e-12 * mean
    assert edges[0] == 0
    assert edges[-1] == math.pi
    assert (np.diff(edges) > 0).all()


def test_refined_stops_where_nothing_converges():
    _, mean, difference = refined(graded_edges(0.5, 1.0), lambda w: 1 / w**1.5, 1e-10)
    assert not difference <= 1e-10 * mean
    _, mean, _ = refined(np.array([0.0, 1.0, math.pi]), lambda w: w**-0.5, 1e-10)
    assert mean == pytest.approx(float(2 * mp.sqrt(mp.pi) / mp.pi), rel=1e-9)


@pytest.mark.parametrize("noise", [DPSGD(), NuFTRL(1e-8), AntiPGD(1e-6)])
def test_grid_that_suffices_is_left_alone(noise):
    edges = graded_edges(1e-6, 1.0)
    assert edges_for(noise, edges, np.array([1e-6, 1.0])) is edges


def test_grid_is_halved_for_features_between_all_nodes():
    """A noise of 300 coefficients oscillates within every panel."""
    beta = np.zeros(301)
    beta[[0, 300]] = 1, -0.5
    edges = graded_edges(0.1, 1.0)
    finer = edges_for(FiniteNoise(beta), edges, np.array([0.1, 1.0]))
    assert finer.size > 4 * edges.size


def test_what_no_grid_resolves_is_refused():
    class Comb(DPSGD):
        def averaged_variance(self, rates):
            return np.full(np.shape(rates), 2.0)

    with pytest.raises(ArithmeticError, match="resolve"):
        edges_for(Comb(), graded_edges(0.5, 1.0), np.array([0.5]))
