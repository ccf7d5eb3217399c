"""The identity behind Algorithm 2, on random gradients and random orders, against the definition of the sum."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.momentum_aggregation.reconstruction import (
    defect_bound,
    lemma_17,
    lemma_17_defect,
    momentum_sums,
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


def test_the_printed_identity_is_false_for_new_orders():
    gradients = [[q + 1 + 10 * x for x in (0, 1)] for q in range(4)]
    setting = {"examples": 2, "alpha": 0.5, "gamma": 0.5}
    private, differences, _ = leaves(gradients, [[0, 1]] * 4, 7)
    assert (weighted_sum(private, 1, 7, 0.5), lemma_17(private, differences, 7, **setting)) == (13.234375, 13.234375)
    private, differences, _ = leaves(gradients, [[0, 1], [1, 0]] * 2, 7)
    assert (weighted_sum(private, 1, 7, 0.5), lemma_17(private, differences, 7, **setting)) == (22.609375, 20.734375)


@given(RUNS)
def test_the_recursion_over_epochs_is_the_identity(run):
    examples, steps, _ = run
    gradients, orders, alpha, gamma = drawn(run)
    private, differences, _ = leaves(gradients, orders, steps)
    combined = (1 - gamma) * differences + gamma * private

    def windows(values, first, last):
        return np.array([weighted_sum(values, t - examples + 1, t, alpha) for t in range(first, last + 1)])

    found = momentum_sums(
        windows(private, examples, min(steps, 2 * examples - 1)),
        windows(combined, 2 * examples, steps),
        np.array([weighted_sum(private, 1, t, alpha) for t in range(1, min(steps, examples - 1) + 1)]),
        examples=examples,
        alpha=alpha,
        gamma=gamma,
    )
    setting = {"examples": examples, "alpha": alpha, "gamma": gamma}
    expected = [lemma_17(private, differences, t, **setting) for t in range(1, steps + 1)]
    assert found == pytest.approx(np.array(expected), abs=1e-12)


@given(st.fractions(0, Fraction(99, 100)), st.fractions(0, 1), st.integers(0, 12))
def test_weights_of_windows(decay, gamma, count):
    exact = [sum(((1 - gamma) ** j * decay ** (i - 1 - j) for j in range(i)), Fraction()) for i in range(count + 1)]
    found = window_weights(count, epoch_decay=float(decay), gamma=float(gamma))
    assert found == pytest.approx(np.array([float(x) for x in exact]), rel=1e-12)
    assert (found <= 1 / (1 - float(decay)) * (1 + 1e-12)).all()
    if gamma > 0:
        bound = 1 / (float(gamma) * (2 - float(gamma)) * (1 - float(decay)) ** 2)
        assert (found**2).sum() <= bound * (1 + 1e-12)


def test_the_bound_of_the_defect_covers_linear_losses():
    """Gradients that never change, in a new random order in each epoch: 4000 runs, six standard errors."""
    rng = np.random.default_rng(5)
    examples, epochs, alpha, gamma = 6, 8, 0.2, 0.3
    gradients = np.sign(rng.normal(size=examples))
    steps = examples * epochs
    squares = []
    for _ in range(4000):
        orders = [rng.permutation(examples) for _ in range(epochs)]
        _, _, changes = leaves([gradients] * epochs, orders, steps)
        squares.append((alpha * lemma_17_defect(changes, steps, examples=examples, alpha=alpha, gamma=gamma)) ** 2)
    setting = {"examples": examples, "alpha": alpha, "gamma": gamma, "smoothness": 0.0, "learning_rate": 0.1}
    bound = alpha * defect_bound(**setting, lipschitz=1.0) ** 2
    assert 0 < np.mean(squares) + 6 * np.std(squares) / np.sqrt(4000) <= bound


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
