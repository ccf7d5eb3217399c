"""Rings above a Gram matrix: the copositive order, and fits of matrices that are rings."""

import numpy as np
import pytest

from corrnoise.theory.amplification.ring import RingLaw
from corrnoise.theory.amplification.ring_fit import largest_entries, ring_above, ring_shape
from tests.theory.amplification.test_ring import matrix


@pytest.mark.parametrize("b", [3, 4, 7, 8, 11])
def test_rings_are_above_in_the_copositive_order(b):
    """For matrices far from circulant, and with waves so weak that entries are missing."""
    rng = np.random.default_rng(b)
    for _ in range(20):
        root = rng.random((b, 4)) * rng.random((b, 1))
        v = root @ root.T + 0.05 * np.diag(rng.random(b))
        entries = largest_entries(v)
        amplitudes = tuple(float(x) for x in rng.random(2) * rng.random() * entries.max() / 2)
        shape = RingLaw(b, float(rng.random() * entries.min()), 1.0, amplitudes, (0.3, 0.8))
        difference = matrix(ring_above(entries, b, shape)) - v
        for weights in (*np.eye(b), *rng.random((50, b)) ** 4, *np.maximum(rng.standard_normal((50, b)), 0)):
            assert weights @ difference @ weights >= -1e-12
        assert np.linalg.eigvalsh(np.where(np.eye(b), difference, np.minimum(difference, 0.0)))[0] >= -1e-12


@pytest.mark.parametrize("b", [7, 8])
def test_missing_entries_raise_the_diagonal_on_both_sides(b):
    v = matrix(RingLaw(b, 0.1, 0.5, (0.3,), (0.6,)))
    above = ring_above(largest_entries(v), b, RingLaw(b, 0.05, 1.0))
    assert matrix(above).sum() >= v.sum()
    assert above.own < 1.0001 * (v[0].sum() - b * 0.05)


def test_fitted_rings_follow_circulant_matrices():
    """Far corners are near: V_{0, b−1} is compared at the distance 1."""
    ring = RingLaw(30, 0.01, 0.2, (0.3, 0.2), (0.5, 0.84))
    found = ring_shape(matrix(ring), 1.0)
    assert np.allclose(found.row(), ring.row(), rtol=1e-6)
    corner = np.eye(6) + 0.1
    corner[0, 5] = corner[5, 0] = 0.6
    assert np.allclose(largest_entries(corner), [1.1, 0.6, 0.1, 0.1])


def test_weak_waves_are_left_out_of_a_fit():
    """The lattices of a wave with the amplitude 1e-17 would not fit into memory."""
    v = 0.3 + np.diag(np.full(24, 0.5)) + 1e-16 * np.random.default_rng(0).random((24, 24))
    v = (v + v.T) / 2
    ring = ring_shape(v, 0.5)
    assert all(a == 0 or a > 1e-4 for a in ring.amplitudes)
    assert 0 < ring.estimate(0.5, "remove") <= ring.upper(0.5, "remove") < 1
