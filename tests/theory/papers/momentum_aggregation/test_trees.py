"""Dyadic nodes and the noise that a momentum reads from them, against exhaustive search and exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.papers.momentum_aggregation.trees import (
    compose,
    decoder_variance,
    largest_decoder_variance,
    levels,
)


@given(st.integers(1, 3000), st.integers(0, 3000))
def test_nodes_are_dyadic_disjoint_and_cover(first, length):
    nodes = compose(first, first + length - 1)
    assert [t for node in nodes for t in range(node.first, node.last + 1)] == list(range(first, first + length))
    for node in nodes:
        size = node.last - node.first + 1
        assert size & (size - 1) == 0
        assert (node.first - 1) % size == 0
    if length >= 2:
        assert len(nodes) <= (length + 1).bit_length() - 1 + ((length + 2) // 2).bit_length() - 1


def test_every_step_is_greedy():
    """The definition: the largest aligned node that fits."""
    for first in range(1, 40):
        for last in range(first - 1, 70):
            expected, a = [], first
            while a <= last:
                k = max(k for k in range(8) if (a - 1) % 2**k == 0 and a + 2**k - 1 <= last)
                expected.append((a, a + 2**k - 1))
                a += 2**k
            assert [tuple(node) for node in compose(first, last)] == expected


@pytest.mark.parametrize("alpha", [1.0, 0.3, 1e-3, 1e-12])
def test_variance_of_the_noise_in_a_momentum(alpha):
    steps = 100
    exact = [
        float(sum((1 - Fraction(alpha)) ** (2 * (t - node.last)) for node in compose(1, t)))
        for t in range(1, steps + 1)
    ]
    found = decoder_variance(steps, alpha)
    assert found == pytest.approx(exact, rel=1e-13)
    assert found.max() <= largest_decoder_variance(steps, alpha)
    assert (found <= np.log2(np.arange(2, steps + 2)) * (1 + 1e-12)).all()


def test_known_values_and_where_the_bound_is_attained():
    assert decoder_variance(11, 0.1)[-1] == pytest.approx(2.341441, rel=1e-12)
    assert largest_decoder_variance(11, 0.1) == pytest.approx(2.5702089245, rel=1e-10)
    assert decoder_variance(15, 0.1)[-1] == pytest.approx(largest_decoder_variance(15, 0.1), rel=1e-14)
    found = decoder_variance(4096, 1 / 256)
    assert (found.max(), found.mean()) == (pytest.approx(6.7247, abs=5e-5), pytest.approx(4.0403, abs=5e-5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compose(0, 3), "first must be an integer >= 1"),
        (lambda: compose(1, -1), "last must be an integer >= 0"),
        (lambda: decoder_variance(0, 0.1), "steps must be an integer >= 1"),
        (lambda: decoder_variance(3, 0.0), r"alpha must lie in \(0, 1\]"),
        (lambda: levels(True), "steps must be an integer"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
