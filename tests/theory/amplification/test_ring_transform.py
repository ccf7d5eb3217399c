"""The transform of a ring: its errors against finer lattices, more modes and direct sums."""

import math

import numpy as np
import pytest

from corrnoise.theory.amplification import ring_transform
from corrnoise.theory.amplification.ring_transform import Sites, Transfer, excursions, tail_integral, walk_norms


@pytest.mark.parametrize("b", [3, 4, 7, 12, 25, 40])
def test_excursions_bound_the_trace(b):
    """Lemma E for random complex symmetric matrices; the bound is close for weak leaks."""
    rng = np.random.default_rng(b)
    ratios = []
    for leak in (0.02, 0.2, 1.0):
        a = rng.standard_normal((12, 12)) + 1j * rng.standard_normal((12, 12))
        scale = np.where(np.arange(12) < 7, 1.0, 0.4 * leak)
        a = (a + a.T) * np.sqrt(np.outer(scale, scale)) / 9
        s, out, t = a[:7, :7], a[7:, :7], a[7:, 7:]
        powers = [np.linalg.matrix_power(s, j) for j in range(b)]
        leaks = np.array([np.linalg.svd(out @ power @ out.T, compute_uv=False).sum() for power in powers])
        mu = float(np.linalg.norm(t, 2))
        bound = excursions(b, mu, leaks) + mu ** (b - 2) * np.linalg.norm(t) ** 2
        error = abs(np.trace(np.linalg.matrix_power(a, b)) - np.trace(np.linalg.matrix_power(s, b)))
        assert error <= bound * (1 + 1e-9) + 1e-13
        ratios.append(error / bound)
    assert max(ratios) > 0.02


def test_the_norms_of_walks_inside_are_above_trace_norms():
    rng = np.random.default_rng(4)
    for _ in range(50):
        root = rng.standard_normal((5, 5)) + 1j * rng.standard_normal((5, 5))
        s = root + root.T
        s *= rng.random() / np.linalg.norm(s, 2)
        leak = rng.standard_normal((3, 5))
        powers = [np.linalg.matrix_power(s, j) for j in range(9)]
        bounds = walk_norms(np.array([np.linalg.norm(leak @ power) for power in powers]))
        norms = [np.linalg.svd(leak @ power @ leak.T, compute_uv=False).sum() for power in powers]
        assert (np.array(norms) <= bounds * (1 + 1e-12)).all()


@pytest.mark.parametrize("sites", [Sites(33, 0.3, (0.5, 0.4), (0.6, 0.91)), Sites(64, 0.2, (0.8,), (0.95,))])
def test_traces_of_few_modes_are_within_their_errors(sites):
    fine = Transfer(sites, 1e-7)
    for u in (0.4, 0.4 + 6j, 0.4 + 25j):
        truth = fine.transform(u)
        last = np.inf
        for smallest in (1e-1, 1e-2, 1e-3, 1e-5):
            value, error = Transfer(sites, smallest).enclosed(*sites.factors(u))
            assert abs(value - truth) <= error + 1e-9
            assert error <= last * 1.001
            last = error
        assert last < 1e-5


def test_coarse_lattices_are_within_their_errors(monkeypatch):
    """Large α²/D, where the step of the lattice must follow τ' and not τ."""
    ring = 6, 0.05, (1.5,), (0.3,)
    truth = {u: Transfer(Sites(*ring), 0.0).transform(u) for u in (0.5, 1 + 8j, 1 + 30j)}
    for level in (4.0, 6.0, 9.0):
        monkeypatch.setattr(ring_transform, "LATTICE_LEVEL", level)
        for u, exact_value in truth.items():
            sites = Sites(*ring)
            value, error = Transfer(sites, 0.0).enclosed(*sites.factors(u))
            assert abs(value - exact_value) <= error
        assert error < 100 * math.exp(-level)


@pytest.mark.parametrize("own", [0.1, 0.8, 3.0])
def test_site_factors(own, monkeypatch):
    """φ at x = 0 against a fine sum on the real line, and the bound of its falling modulus."""
    step = 2.0**-10
    z = np.arange(-12 * 1024, 12 * 1024 + 1) * step
    for u in (0.7, 2 + 3j, 0.5 + 40j):
        truth = (
            np.sum(np.exp(-z * z / 2 - u / 5 * np.exp(math.sqrt(own) * z - own / 2))) * step / math.sqrt(2 * math.pi)
        )
        for level in (5.0, 12.0, 40.0):
            monkeypatch.setattr(ring_transform, "LATTICE_LEVEL", level)
            sites = Sites(5, own)
            value, error = sites.factors(u)
            assert abs(value.ravel()[0] - truth) <= error + 1e-13
            assert abs(truth) <= sites.falling(u.real, u.imag * 0.9)[0, 0]
        assert error < 1e-11


def test_the_tail_of_a_table_is_bounded_on_intervals():
    """At least lower sums over 40 points; one bound for the whole tail is more than twice as large."""
    transfer = Transfer(Sites(16, 0.3, (0.2,), (0.8,)), 1e-6)
    starts = 30.0 * 1.1 ** np.arange(41)
    bounds = [sum(np.abs(transfer.enclosed(transfer.sites.falling(0.3, float(u)), 0.0))) for u in starts]
    found = tail_integral(transfer, 0.3, 30.0)
    assert np.array(bounds)[1:] @ -np.diff(1 / starts) < found < bounds[0] / 30.0 / 2
