"""The identity behind Algorithm 2, on random gradients and random orders, against the definition of the sum."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.papers.momentum_aggregation.reconstruction import (
    defect_bound,
    lemma_17,
    lemma_17_defect,
    weighted_sum,
    window_weights,
)

RUNS = st.tuples(st.integers(1, 5), st.integers(1, 24), st.integers(0, 10**6))


def leaves(gradients, orders, steps):
    """G, D and δ; ``gradients[q][x]`` is the gradient of example x at the start of epoch q."""
    examples = len(orders[0])
    rows = []
    for t in range(steps):
        q, p = divmod(t, examples)
        x = orders[q][p]
        here = gradients[q][x]
        before = gradients[q - 1][x] if q else 0.0
        other = gradients[q - 1][orders[q - 1][p]] if q else 0.0
        rows.append((here, here - before if q else 0.0, before - other if q else 0.0))
    return np.array(rows).T


def drawn(run):
    examples, steps, seed = run
    rng = np.random.default_rng(seed)
    epochs = -(-steps // examples)
    gradients = rng.normal(size=(epochs, examples))
    orders = [rng.permutation(examples) for _ in range(epochs)]
    return gradients, orders, rng.uniform(0.05, 1), rng.uniform()


@given(RUNS)
def test_the_identity_needs_the_same_order_or_the_defect(run):
    examples, steps, _ = run
    gradients, orders, alpha, gamma = drawn(run)
    setting = {"examples": examples, "alpha": alpha, "gamma": gamma}
    private, differences, changes = leaves(gradients, orders, steps)
    exact = weighted_sum(private, 1, steps, alpha)
    repaired = lemma_17(private, differences, steps, **setting) + lemma_17_defect(changes, steps, **setting)
    assert repaired == pytest.approx(exact, abs=1e-12)
    private, differences, changes = leaves(gradients, orders[:1] * len(orders), steps)
    assert not changes.any()
    assert lemma_17(private, differences, steps, **setting) == pytest.approx(
        weighted_sum(private, 1, steps, alpha), abs=1e-12
    )


@given(st.fractions(0, Fraction(99, 100)), st.fractions(0, 1), st.integers(0, 12))
def test_weights_of_windows(decay, gamma, count):
    exact = [sum(((1 - gamma) ** j * decay ** (i - 1 - j) for j in range(i)), Fraction()) for i in range(count + 1)]
    found = window_weights(count, epoch_decay=float(decay), gamma=float(gamma))
    assert found == pytest.approx(np.array([float(x) for x in exact]), rel=1e-12)
    assert (found <= 1 / (1 - float(decay)) * (1 + 1e-12)).all()
    if gamma > 0:
        bound = 1 / (float(gamma) * (2 - float(gamma)) * (1 - float(decay)) ** 2)
        assert (found**2).sum() <= bound * (1 + 1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"examples": 1}, "examples"),
        ({"gamma": 0.0}, "gamma"),
        ({"alpha": 0.0}, "alpha"),
        ({"lipschitz": -1.0}, "lipschitz"),
    ],
)
def test_bad_input(change, message):
    good = {"examples": 5, "alpha": 0.2, "gamma": 0.5, "lipschitz": 1.0, "smoothness": 1.0, "learning_rate": 0.1}
    with pytest.raises((TypeError, ValueError), match=f"^{message} must"):
        defect_bound(**good | change)
