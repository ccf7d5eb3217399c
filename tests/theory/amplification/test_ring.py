"""The ring law against exact quadrature and values of other code."""

import math

import numpy as np
import pytest

from corrnoise.theory.amplification import ring as ring_module
from corrnoise.theory.amplification.ring import RingLaw, Sites, Transfer, excursions, walk_norms
from corrnoise.theory.amplification.ring_fit import largest_entries, ring_above, ring_shape
from tests.theory.amplification.bins_oracle import MANY, exact

DIRECTIONS = ("remove", "add")
#: Rings, ε, and δ for remove and add, from independent code; the last ring has two components.
VALUES = [
    (RingLaw(16, 0.05, 0.3, (0.2,), (0.8,)), 0.4, 0.0488659107, 0.0486414908),
    (RingLaw(40, 0.02, 0.8, (0.3,), (0.5,)), 0.6, 0.00348090341, 0.00207273139),
    (RingLaw(100, 0.01, 0.3, (0.5,), (0.85,)), 1.1, 1.44746e-05, 6.097080e-06),
    (RingLaw(48, 0.0, 0.3, (0.3, 0.3), (0.6, 0.93)), 1.0, 0.0038752, 0.00363501),
]


def matrix(ring):
    """The Gram matrix of a ring, from its definition."""
    i = np.arange(ring.bins)
    d = np.abs(i[:, np.newaxis] - i)
    waves = sum(a * (rate**d + rate ** (ring.bins - d)) for a, rate in zip(ring.amplitudes, ring.rates, strict=True))
    return ring.shared + ring.own * np.eye(ring.bins) + waves


@pytest.mark.parametrize(("ring", "epsilon", "remove", "add"), VALUES)
def test_known_values(ring, epsilon, remove, add):
    """The law of the shared factor and the first alias make an estimate larger by less than 3e-4."""
    assert -1e-5 < ring.estimate(epsilon, "remove") / remove - 1 < 3e-4
    assert -1e-5 < ring.estimate(epsilon, "add") / add - 1 < 3e-4


@pytest.mark.parametrize("ring", [RingLaw(2, 0.1, 0.5, (0.3,), (0.4,)), RingLaw(3, 0.0, 0.6, (0.3, 0.2), (0.2, 0.7))])
def test_few_bins_against_quadrature(ring):
    """With large δ the first alias is larger."""
    for direction in DIRECTIONS:
        assert -1e-6 < ring.estimate(0.7, direction) / exact(matrix(ring), 0.7, direction) - 1 < 3e-3


@pytest.mark.parametrize(("v", "b", "epsilon", "remove", "add"), MANY)
def test_without_components_bins_are_independent(v, b, epsilon, remove, add):
    for direction, truth in (("remove", remove), ("add", add)):
        assert -1e-6 < RingLaw(b, 0.0, v).estimate(epsilon, direction) / truth - 1 < 1e-3


def test_a_component_without_correlation_is_part_of_d():
    for direction in DIRECTIONS:
        mixed = RingLaw(20, 0.0, 0.4, (0.2,), (0.0,)).estimate(0.5, direction)
        assert np.isclose(mixed, RingLaw(20, 0.0, 0.6).estimate(0.5, direction), rtol=1e-6)


def test_rows_and_scales():
    ring = RingLaw(7, 0.1, 0.5, (0.3, 0.1), (0.4, 0.8))
    assert np.allclose(ring.row(), matrix(ring)[0], rtol=1e-14)
    assert np.allclose(ring.scaled(3.0).row(), 3 * ring.row(), rtol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bins": 1}, "bins"),
        ({"own": 0.0}, "own"),
        ({"rates": (0.5,)}, "equally many"),
        ({"amplitudes": (1.0,), "rates": (1.0,)}, "rates in"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        RingLaw(**{"bins": 4, "shared": 0.0, "own": 1.0, **arguments})


# -- the certificate ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ring", "epsilon", "remove", "add"), VALUES[:3])
def test_certified_ends_are_above_and_close(ring, epsilon, remove, add):
    for direction, truth in (("remove", remove), ("add", add)):
        assert 1 - 1e-6 < ring.upper(epsilon, direction) / truth < 1.03


def test_certified_ends_of_three_bins():
    """An odd number of bins and two components against quadrature."""
    ring = RingLaw(3, 0.05, 0.6, (0.3, 0.2), (0.2, 0.7))
    for direction in DIRECTIONS:
        assert 1 - 1e-6 < ring.upper(0.7, direction) / exact(matrix(ring), 0.7, direction) < 1.03


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ring", "epsilon"),
    [
        (RingLaw(16, 0.12, 0.116, (1.14,), (0.7,)), 4.0),  # small strikes, whose terms fall late
        (RingLaw(64, 0.0, 0.0112, (0.1354, 0.0), (0.5, 0.84)), 0.35),  # a rate without an amplitude, a long tail
        (RingLaw(128, 0.0025, 0.0355, (0.0376, 0.044), (0.6, 0.935)), 0.41),  # many modes at far nodes
    ],
)
def test_estimates_are_close_to_certified_ends(ring, epsilon):
    assert 0.96 < ring.estimate(epsilon, "remove") / ring.upper(epsilon, "remove") < 1.02


@pytest.mark.slow
def test_turns_with_an_overflowing_weight_are_left_out():
    """The largest turn of a small D has the weight e^1557."""
    ring = RingLaw(16, 2e-5, 4.7e-4, (0.0021, 0.0065), (0.2, 0.88))
    assert ring.estimate(0.356, "remove") < ring.upper(0.356, "remove") < 1e-4


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


@pytest.mark.parametrize(
    "ring", [RingLaw(33, 0.0, 0.3, (0.5, 0.4), (0.6, 0.91)), RingLaw(64, 0.0, 0.2, (0.8,), (0.95,))]
)
def test_traces_of_few_modes_are_within_their_errors(ring):
    sites = Sites(ring)
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
    ring = RingLaw(6, 0.0, 0.05, (1.5,), (0.3,))
    truth = {u: Transfer(Sites(ring), 0.0).transform(u) for u in (0.5, 1 + 8j, 1 + 30j)}
    for level in (4.0, 6.0, 9.0):
        monkeypatch.setattr(ring_module, "LATTICE_LEVEL", level)
        for u, exact_value in truth.items():
            sites = Sites(ring)
            value, error = Transfer(sites, 0.0).enclosed(*sites.factors(u))
            assert abs(value - exact_value) <= error
        assert error < 100 * math.exp(-level)


@pytest.mark.parametrize("own", [0.1, 0.8, 3.0])
def test_site_factors(own, monkeypatch):
    """φ at x = 0 against a fine sum on the real line, and the bound of its falling modulus."""
    ring = RingLaw(5, 0.0, own)
    step = 2.0**-10
    z = np.arange(-12 * 1024, 12 * 1024 + 1) * step
    for u in (0.7, 2 + 3j, 0.5 + 40j):
        truth = (
            np.sum(np.exp(-z * z / 2 - u / 5 * np.exp(math.sqrt(own) * z - own / 2))) * step / math.sqrt(2 * math.pi)
        )
        for level in (5.0, 12.0, 40.0):
            monkeypatch.setattr(ring_module, "LATTICE_LEVEL", level)
            sites = Sites(ring)
            value, error = sites.factors(u)
            assert abs(value.ravel()[0] - truth) <= error + 1e-13
            assert abs(truth) <= sites.falling(u.real, u.imag * 0.9)[0, 0]
        assert error < 1e-11


# -- rings above a Gram matrix -----------------------------------------------------------------------------------------


def test_the_tail_of_a_table_is_bounded_on_intervals():
    """At least lower sums over 40 points; one bound for the whole tail is more than twice as large."""
    transfer = Transfer(Sites(RingLaw(16, 0.0, 0.3, (0.2,), (0.8,))), 1e-6)
    starts = 30.0 * 1.1 ** np.arange(41)
    bounds = [sum(np.abs(transfer.enclosed(transfer.sites.falling(0.3, float(u)), 0.0))) for u in starts]
    found = ring_module.tail_integral(transfer, 0.3, 30.0)
    assert np.array(bounds)[1:] @ -np.diff(1 / starts) < found < bounds[0] / 30.0 / 2


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


def test_errors_of_the_transform_count(monkeypatch):
    """A transform that is too small by its stated error leaves the bound above δ."""
    ring, epsilon, remove, add = VALUES[1]
    whole = Transfer.enclosed

    def smaller(self, factors, eta):
        value, error = whole(self, factors, eta)
        return value - 1e-3, error + 1e-3

    monkeypatch.setattr(Transfer, "enclosed", smaller)
    ring_module.certified_bound.cache_clear()
    assert remove <= ring.upper(epsilon, "remove")
    assert add <= ring.upper(epsilon, "add")
    ring_module.certified_bound.cache_clear()
