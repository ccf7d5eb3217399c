"""The ring law against exact quadrature and values of other code."""

import numpy as np
import pytest

from corrnoise.theory.amplification import ring as ring_module
from corrnoise.theory.amplification.ring import RingLaw
from corrnoise.theory.amplification.ring_transform import Transfer
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
