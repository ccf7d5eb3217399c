"""Comparisons of Gram matrices from below and from above, against exact quadrature for two and three bins."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.theory.amplification.orders import (
    Exchangeable,
    certainly_semidefinite,
    from_below,
    holder,
    in_blocks,
    largest_entry,
    mean_of_logarithms,
    mixed,
    semidefinite_part,
    smallest_entry,
    worst_case,
)
from corrnoise.theory.privacy import gaussian_delta
from tests.theory.amplification.bins_oracle import PAIR, PAIR_REFERENCES, exact

EXACT = 2e-6  #: relative error of the oracle
DIRECTIONS = ("remove", "add")


@st.composite
def grams(draw, bins=(2, 3)):
    """Gram matrices of non-negative vectors, not too close to singular."""
    b = draw(st.sampled_from(bins))
    entries = st.floats(0, 1.2)
    vectors = np.array(draw(st.lists(st.lists(entries, min_size=4, max_size=4), min_size=b, max_size=b)))
    return vectors @ vectors.T + 0.1 * np.eye(b)


def above(gram, epsilon, direction):
    simple = holder(gram, epsilon) if direction == "remove" else mean_of_logarithms(gram, epsilon)
    return [simple, worst_case(gram, epsilon), largest_entry(gram).delta(epsilon, direction, upper=True, count=150)]


@settings(max_examples=20)
@given(grams(), st.floats(0, 2.5), st.sampled_from(DIRECTIONS))
def test_all_comparisons_bracket_the_truth(gram, epsilon, direction):
    truth = exact(gram, epsilon, direction, 1201 if gram.shape[0] == 2 else 301)
    slack = 1e-4 * truth + 1e-12  # of the coarser quadrature
    for one in from_below(gram):
        assert one.delta(epsilon, direction, upper=False, count=150) <= truth + slack, one.name
    assert all(bound >= truth - slack for bound in above(gram, epsilon, direction))


@pytest.mark.parametrize(("epsilon", "remove", "add"), PAIR_REFERENCES)
def test_two_correlated_bins(epsilon, remove, add):
    for direction, truth in (("remove", remove), ("add", add)):
        lower = max(one.delta(epsilon, direction, upper=False, count=600) for one in from_below(PAIR))
        upper = min(above(PAIR, epsilon, direction))
        assert lower <= truth <= upper
        assert lower > 0.999 * truth  # K and K' have the same entry off the diagonal


def test_the_smallest_entry_is_that_of_all():
    """For columns (1, 1.5), (0, 1) the smallest entry off the diagonal is above an entry of the diagonal."""
    gram = np.array([[3.25, 1.5], [1.5, 1.0]]) / 2.25
    for direction, truth, wrong in (("remove", 0.1012203, 0.1088801), ("add", 0.0759816, 0.0953430)):
        assert math.isclose(exact(gram, 1.0, direction), truth, rel_tol=1e-5)
        right = smallest_entry(gram, np.full(2, 0.5)).delta(1.0, direction, upper=False, count=600)
        assert right <= truth
        own = np.maximum(np.diagonal(gram) - gram[0, 1], 0.0)
        mutant = Exchangeable(float(gram[0, 1]), own, np.full(2, 0.5), "wrong")
        found = mutant.delta(1.0, direction, upper=False, count=600)
        assert math.isclose(found, wrong, rel_tol=2e-3)
        assert found > truth
    right = smallest_entry(gram, np.full(2, 0.5)).delta(1.0, "remove", upper=False, count=600)
    assert math.isclose(right, 0.0858672, rel_tol=1e-3)


def test_block_averages_are_no_lower_bound():
    gram = np.array([[3.25, 1.5], [1.5, 1.0]]) / 2.25
    truth = exact(gram, 1.0, "add")
    matrix, weights = in_blocks(gram, 2)
    assert smallest_entry(matrix, weights).delta(1.0, "add", upper=False, count=300) <= truth
    average = Exchangeable(float(gram.mean()), np.zeros(1), np.ones(1), "wrong")
    assert average.delta(1.0, "add", upper=False, count=300) > truth


def test_a_scaled_and_a_mixed_comparison_lie_below():
    gram = np.array([[1.0, 0.6, 0.5], [0.6, 1.1, 0.6], [0.5, 0.6, 0.9]])
    weights = np.full(3, 1 / 3)
    first, second = smallest_entry(gram, weights), semidefinite_part(gram, weights, 0.9)
    for one in (first, second, mixed(first, second, 0.3)):
        difference = gram - np.diag(one.own) - one.shared
        smallest = np.linalg.eigvalsh(np.minimum(difference, 0) + np.diag(np.maximum(np.diagonal(difference), 0)))[0]
        assert (difference >= 0).all() or smallest >= -1e-12 or one.name.startswith("0.3")
        assert one.delta(0.5, "remove", upper=False, count=300) <= exact(gram, 0.5, "remove")
        assert one.scaled(0.5).delta(0.5, "add", upper=False, count=300) <= exact(gram / 2, 0.5, "add")


@given(st.integers(1, 12), st.integers(0, 2**32))
def test_semidefinite_matrices_are_verified(n, seed):
    root = np.random.default_rng(seed).normal(size=(n, n))
    matrix = root @ root.T
    least = float(np.linalg.eigvalsh(matrix)[0])
    eye = np.eye(n)
    assert certainly_semidefinite(matrix + (1e-9 * np.trace(matrix) - least) * eye)
    assert not certainly_semidefinite(matrix - (least + 1e-9 * np.trace(matrix)) * eye)


@given(grams((2, 3, 4)), st.integers(2, 4))
def test_moments_by_enumeration(gram, order):
    """E Λ^α over all indices is at most the product; with the means in place of the maxima it can be exceeded."""
    b = gram.shape[0]
    moment = np.mean(
        [
            math.exp(sum(gram[i, j] for i, j in itertools.combinations(indices, 2)))
            for indices in itertools.product(range(b), repeat=order)
        ]
    )
    product = math.prod(float(np.exp(k * gram).mean(axis=1).max()) for k in range(1, order))
    assert moment <= product * (1 + 1e-12)


def test_the_mean_in_place_of_the_maximum_is_no_bound():
    gram = np.diag([4.0, 0.1])
    moment = np.mean(
        [math.exp(gram[i, j] + gram[i, k] + gram[j, k]) for i, j, k in itertools.product((0, 1), repeat=3)]
    )
    assert moment > math.prod(float(np.exp(k * gram).mean()) for k in (1, 2))
    assert moment <= math.prod(float(np.exp(k * gram).mean(axis=1).max()) for k in (1, 2))


def test_one_bin_is_a_gaussian_mechanism():
    gram = np.array([[0.8]])
    truth = gaussian_delta(0.4, 1.0)
    assert math.isclose(worst_case(gram, 1.0), truth, rel_tol=1e-9)
    assert math.isclose(mean_of_logarithms(gram, 1.0), truth, rel_tol=1e-9)
    assert worst_case(gram, 1.0) >= truth
    assert mean_of_logarithms(gram, 1.0) >= truth
    assert truth <= holder(gram, 1.0) < 3 * truth
