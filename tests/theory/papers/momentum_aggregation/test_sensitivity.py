"""Sums of squared weights and numbers of nodes, against enumeration of all occurrences of an example."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.theory.mechanisms import tree_orders
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.papers.momentum_aggregation.sensitivity import (
    ALL_NODES,
    ReleasedNodes,
    node_count,
    printed_node_count,
    squared_weights,
)
from corrnoise.theory.participation import Participation


def released(steps, nodes):
    """Nodes by level."""
    found = []
    for level in range(steps.bit_length()):
        size = 2**level
        if nodes.largest is not None and size > nodes.largest:
            break
        last = steps if nodes.last is None else min(steps, nodes.last)
        numbers = range(steps // size)
        found.append(
            [(s * size + 1, (s + 1) * size) for s in numbers if s * size + 1 >= nodes.first and (s + 1) * size <= last]
        )
    return found


def occurrences(steps, examples, order):
    epochs = -(-steps // examples)
    patterns = (
        product(range(examples), repeat=epochs) if order == "reshuffled" else ((p,) * epochs for p in range(examples))
    )
    for pattern in patterns:
        yield [e * examples + p + 1 for e, p in enumerate(pattern) if e * examples + p + 1 <= steps]


def squares(level, times, alpha):
    return sum(sum((1 - alpha) ** (z - t) for t in times if y <= t <= z) ** 2 for y, z in level)


WRONG: Any = "all"
KINDS = st.sampled_from([ALL_NODES, ReleasedNodes(largest=4), ReleasedNodes(first=4), ReleasedNodes(largest=2, last=9)])
CASES = st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, 4 * n)))


@given(CASES, st.sampled_from([0.05, 0.3, 1.0]), KINDS)
def test_against_enumeration(case, alpha, nodes):
    examples, steps = case
    tree = released(steps, nodes)
    fixed = max(sum(squares(level, t, alpha) for level in tree) for t in occurrences(steps, examples, "fixed"))
    one_order = Participation.fixed_epochs(steps, period=examples)
    assert squared_weights(one_order, alpha, nodes) == pytest.approx(fixed, rel=1e-10)
    patterns = occurrences(steps, examples, "reshuffled")
    truth = max(sum(squares(level, t, alpha) for level in tree) for t in patterns)
    found = squared_weights(Participation.reshuffled(steps, period=examples), alpha, nodes)
    assert truth <= found <= truth * (1 + 1e-10)
    if steps <= examples:
        assert squared_weights(Participation.single(steps), alpha, nodes) == pytest.approx(fixed, rel=1e-10)


@given(CASES, st.sampled_from([0.05, 0.3, 1.0]), st.sampled_from(["fixed", "reshuffled"]))
def test_the_tree_of_the_project_has_the_weights_of_the_nodes_of_prefixes(case, alpha, order):
    examples, steps = case
    tree = [level[::2] for level in released(steps, ALL_NODES)]
    truth = max(sum(squares(level, t, alpha) for level in tree) for t in occurrences(steps, examples, order))
    who = {"fixed": Participation.fixed_epochs, "reshuffled": Participation.reshuffled}[order](steps, period=examples)
    found = BinaryTree(steps, decoder="binary", decay=alpha).sensitivity(who) ** 2
    assert found == pytest.approx(truth, rel=1e-10)


@settings(max_examples=10)
@given(st.integers(5, 9), st.integers(1, 3), st.integers(0, 8), st.floats(0.001, 0.5), KINDS)
def test_long_epochs_against_enumeration(examples, epochs, short, alpha, nodes):
    steps = max(1, examples * epochs - short)
    tree = released(steps, nodes)
    patterns = occurrences(steps, examples, "reshuffled")
    truth = max(sum(squares(level, t, alpha) for level in tree) for t in patterns)
    who = Participation.reshuffled(steps, period=examples)
    assert squared_weights(who, alpha, nodes) == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize("most", [1, 2, 4])
def test_with_few_states_the_sum_is_an_upper_bound(monkeypatch, most):
    """And not far from the truth, which needs 13 states here."""
    who = Participation.reshuffled(1000, period=100)
    exact = squared_weights(who, 0.01)
    monkeypatch.setattr(tree_orders, "STATES", most)
    assert exact <= squared_weights(who, 0.01) < 3 * exact


@given(st.integers(10, 60), st.integers(2, 8), st.floats(0.3, 3), KINDS, st.integers(0, 2**32 - 1))
def test_no_order_that_a_search_finds_is_worse(examples, epochs, load, nodes, seed):
    """Coordinate ascent over the positions of the example, one epoch after the other."""
    steps = examples * epochs
    alpha = load / examples
    tree = [node for level in released(steps, nodes) for node in level]
    first, last = np.array(tree).T if tree else np.zeros((2, 1))
    positions = np.random.default_rng(seed).integers(examples, size=epochs)

    def weights(t):
        return np.where((first <= t) & (t <= last), (1 - alpha) ** np.maximum(last - t, 0), 0.0)

    held = np.array([weights(e * examples + p + 1) for e, p in enumerate(positions)])
    for e in [*range(epochs)] * 2:
        others = held.sum(axis=0) - held[e]
        choices = np.array([weights(e * examples + p + 1) for p in range(examples)])
        held[e] = choices[((others + choices) ** 2).sum(axis=1).argmax()]
    best = (held.sum(axis=0) ** 2).sum()
    assert best <= squared_weights(Participation.reshuffled(steps, period=examples), alpha, nodes)


def test_known_values():
    fixed = Participation.fixed_epochs(256, period=64)
    assert squared_weights(fixed, 1 / 64) == pytest.approx(34.1190391352, rel=1e-10)
    tree = BinaryTree(256, decoder="binary", decay=1 / 64)
    assert tree.sensitivity(fixed) ** 2 == pytest.approx(19.584459440602, rel=1e-12)
    assert squared_weights(Participation.reshuffled(20, period=5), 0.2) == pytest.approx(24.1498546542, rel=1e-10)
    one, any_order = Participation.fixed_epochs(512, period=32), Participation.reshuffled(512, period=32)
    assert squared_weights(one, 0.02) == pytest.approx(squared_weights(any_order, 0.02), rel=1e-9)  # N is a power of 2


def count(steps, examples):
    tree = [node for level in released(steps, ALL_NODES) for node in level]
    return max(
        sum(any(y <= t <= z for t in times) for y, z in tree) for times in occurrences(steps, examples, "reshuffled")
    )


def test_numbers_of_nodes():
    for examples in range(1, 5):
        for steps in range(1, 4 * examples + 1):
            assert node_count(steps, examples) == count(steps, examples), (steps, examples)
    assert [node_count(2 * n, n) for n in range(1, 10)] == [3, 5, 5, 7, 7, 7, 7, 9, 9]
    assert (node_count(256, 64), printed_node_count(256, 64, 9)) == (31, 31.0)
    assert (node_count(24, 23), printed_node_count(24, 23, 5)) == (9, pytest.approx(5.2174, abs=5e-5))
    for examples in range(1, 13):
        for epochs in range(1, 5):
            steps = examples * epochs
            assert node_count(steps, examples) <= printed_node_count(steps, examples, steps.bit_length() - 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: squared_weights(Participation.single(5), np.nan), r"alpha must lie in \(0, 1\]"),
        (lambda: squared_weights(Participation.min_sep(5, 2), 0.1), "participation must be single, of fixed epochs or"),
        (lambda: squared_weights(Participation.single(5), 0.1, WRONG), "nodes must be a ReleasedNodes"),
        (lambda: ReleasedNodes(largest=0), "largest must be an integer >= 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
