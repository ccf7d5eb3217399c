"""The chain law against exact values, and the terms without which it would be too small."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from corrnoise.theory.amplification.chain import Chain, chain_law, chains_above, decreasing, promising, states
from corrnoise.theory.amplification.orders import Exchangeable, certainly_semidefinite
from tests.theory.amplification.bins_oracle import REFERENCES, exact

DIRECTIONS = ("remove", "add")
FINE = {"sums": 500, "states": 192}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "chain", [Chain(2, 0.1, 0.5, 0.6, 0.3), Chain(3, 0.0, 1.0, 0.8, 0.05), Chain(3, 0.2, 0.3, 0.0, 0.5)]
)
def test_chains_are_above_the_truth_and_close(chain, direction):
    truth = exact(toeplitz(chain.matrix_row()), 1.0, direction)
    bounds = [chain.delta(1.0, direction, sums=n, states=n // 2) for n in (50, 100, 200, 400)]
    assert all(bound >= truth * (1 - 2e-6) for bound in bounds)
    excess = np.diff([truth, *bounds[::-1]])
    assert bounds[-1] < 1.03 * truth
    assert (excess > 0).all()  # finer grids give less


@pytest.mark.parametrize(("v", "epsilon", "remove", "add"), REFERENCES[2:7])
def test_independent_bins(v, epsilon, remove, add):
    for direction, truth in (("remove", remove), ("add", add)):
        bound = Chain(2, 0.0, v / 2, 0.0, v / 2).delta(epsilon, direction, **FINE)
        assert truth <= bound < (1.05 if epsilon < 3 else 1.15) * truth


def test_clamping_from_above_costs_kappa():
    """A chain of four bins whose grid ends 1.5 standard deviations above 0: the law alone is too small."""
    truth = 0.0170966
    law = chain_law(4, 1.0, 0.9, 0.01, "remove", 400, 96, 0.5)
    with_cost = law.delta(2.0, "remove", 0.05)
    assert with_cost >= truth
    assert with_cost - law.singular < 0.0126 * 1.05 < truth
    wide = chain_law(4, 1.0, 0.9, 0.01, "remove", 500, 192)
    assert truth <= wide.delta(2.0, "remove", 0.05) < 1.02 * truth
    assert wide.singular < 1e-9


def test_the_cost_is_the_mean_of_the_excess():
    """κ of the first state against quadrature of (R(x) − R(top))₊."""
    length, variance, correlation, top = 5, 0.7, 0.8, 0.4
    grid = states(length, variance, correlation, "remove", 64, top)
    end = variance + top * math.sqrt(variance)
    x, step = np.linspace(end, 12, 200001, retstep=True)
    decays = correlation ** np.arange(length)

    def rest(at):
        return np.exp(np.multiply.outer(at, decays) - variance * decays**2 / 2).sum(axis=-1) / length

    density = np.exp(-x * x / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    found = float(((rest(x) - rest(end)) * density).sum() * step)
    assert found * (1 - 1e-6) <= grid.first_excess < 1.01 * found


def test_the_grid_keeps_masses_and_raises_means():
    for direction in DIRECTIONS:
        grid = states(3, 0.6, 0.7, direction, 48, 8.0)
        assert math.isclose(float(grid.start.sum()), 1, rel_tol=1e-12)
        assert np.allclose(grid.transitions.sum(axis=1), 1, rtol=1e-12)
        mean = float(grid.start @ grid.factors) * math.exp(-0.3)
        assert mean >= 1 - 1e-9 if direction == "remove" else abs(mean - 1) < 1e-6


@st.composite
def grams(draw):
    b = draw(st.integers(2, 6))
    vectors = np.array(draw(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=b, max_size=b)))
    return vectors @ vectors.T + 0.05 * np.eye(b)


@given(grams())
def test_chains_above_are_above(gram):
    """The difference is non-negative and semidefinite parts together, in every window without a gap."""
    entries = decreasing(gram, 0)
    above = toeplitz(entries)
    assert (above >= gram).all()
    for chain in chains_above(entries):
        difference = toeplitz(chain.matrix_row()) - above + 1e-9 * np.eye(entries.size)
        negative = np.where(np.eye(entries.size), difference, np.minimum(difference, 0))
        assert certainly_semidefinite(difference) or certainly_semidefinite(negative)


@settings(max_examples=5)
@given(grams().filter(lambda gram: gram.shape[0] == 3), st.sampled_from(DIRECTIONS), st.sampled_from((0, 1)))
def test_promising_chains_bound_the_truth(gram, direction, gap):
    truth = exact(gram, 0.7, direction, 301)
    chains = promising(chains_above(decreasing(gram, gap)), 1.0, 0.7, direction, 3)
    assert all(chain.delta(0.7, direction, sums=100, states=32) >= truth * (1 - 1e-4) - 1e-12 for chain in chains)


def test_a_window_has_fewer_bins():
    """After a gap the mean is over b − w bins; over all b bins the far corner would be left out."""
    cyclic = np.array([[1.0, 0.45, 0.0, 0.45], [0.45, 1.0, 0.45, 0.0], [0.0, 0.45, 1.0, 0.45], [0.45, 0.0, 0.45, 1.0]])
    entries = decreasing(cyclic, 1)
    assert entries.tolist() == [1.0, 0.45, 0.0]
    equal = np.array([[1.0, 0.4, 0.4], [0.4, 1.0, 0.4], [0.4, 0.4, 1.0]])
    assert decreasing(equal, 1).tolist() == [1.0, 0.4]
    truth = Exchangeable(0.4, np.full(3, 0.6), np.full(3, 1 / 3), "exact").delta(1.0, "remove", upper=False, count=500)
    assert Chain(2, 0.0, 0.8, 0.5, 0.2).delta(1.0, "remove", **FINE) > truth
    assert Chain(3, 0.0, 0.8, 0.5, 0.2).delta(1.0, "remove", **FINE) < truth
