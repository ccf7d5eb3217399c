"""The exact δ of two bins, for comparison with claims about balls in bins."""

import math

import numpy as np
import pytest

from corrnoise.paper_checks.own_results.oracles import delta_of_two, gram_of_two
from corrnoise.theory.privacy import gaussian_deltas

Z = np.linspace(-9, 9, 901)
MASS = np.exp(-(Z**2) / 2) * (Z[1] - Z[0]) / math.sqrt(2 * math.pi)


def by_two_integrals(gram, epsilon, direction):
    """E (Λ − e^ε)₊ or E (1 − e^ε Λ)₊ over both variables, Λ the mean of exp(X_i − V_ii/2)."""
    root = np.linalg.cholesky(gram)
    x = root[0, 0] * Z[:, None] + 0 * Z
    y = root[1, 0] * Z[:, None] + root[1, 1] * Z
    ratio = (np.exp(x - gram[0, 0] / 2) + np.exp(y - gram[1, 1] / 2)) / 2
    gain = ratio - math.exp(epsilon) if direction == "remove" else 1 - math.exp(epsilon) * ratio
    return float(MASS @ np.maximum(gain, 0) @ MASS)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.6])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_delta_of_two_bins_is_that_of_two_integrals(direction, correlation, epsilon):
    gram = gram_of_two(np.array([1.3, 0.6]), correlation)
    found = delta_of_two(gram, epsilon, direction)
    assert found == pytest.approx(by_two_integrals(gram, epsilon, direction), rel=2e-4, abs=1e-7)
    assert found != pytest.approx(by_two_integrals(1.02 * gram, epsilon, direction), rel=2e-3)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_two_equal_bins_are_one_normal_variable(direction):
    gram = gram_of_two(np.array([0.8, 0.8]), 1 - 1e-9)
    assert delta_of_two(gram, 0.5, direction) == pytest.approx(float(gaussian_deltas(np.array(0.4), 0.5)), rel=1e-4)
