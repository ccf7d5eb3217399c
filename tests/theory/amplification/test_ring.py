"""The ring law against exact quadrature and values of other code."""

import numpy as np
import pytest

from corrnoise.theory.amplification.ring import RingLaw
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
