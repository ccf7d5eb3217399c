"""The worst case by brute force, against a semidefinite programme and known values."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.solvers.worst_case import worst_case, worst_gradients
from corrnoise.theory.participation import Participation
from tests.strategies import participations


@settings(max_examples=8)
@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
def test_blocks_against_a_semidefinite_programme(size, seed):
    root = np.random.default_rng(seed).normal(size=(size, size))
    block = root @ root.T
    correlation = cp.Variable((size, size), PSD=True)
    programme = cp.Problem(cp.Maximize(cp.trace(block @ correlation)), [cp.diag(correlation) == 1])
    programme.solve(solver=cp.CLARABEL)
    value, upper, gradients = worst_gradients(block)
    assert value == pytest.approx(programme.value, rel=1e-6)
    assert value <= upper <= value * (1 + 1e-8)
    np.testing.assert_allclose(np.linalg.norm(gradients, axis=1), 1, rtol=1e-14)


@given(participations(), st.integers(0, 2**32 - 1))
def test_what_is_found_is_attained(who, seed):
    strategy = np.tril(np.random.default_rng(seed).normal(size=(who.steps, who.steps)))
    found = worst_case(strategy, who)
    moved = np.linalg.norm(strategy[:, found.pattern] @ found.gradients)
    assert moved == pytest.approx(found.value, rel=1e-12)
    assert found.value <= found.upper <= found.value * (1 + 1e-6)
    assert any(np.array_equal(found.pattern, pattern) for pattern in who.worst.patterns())


@pytest.mark.parametrize("entry", [8e-158, 1e-300, 5e-324])
def test_gradients_are_unit_vectors_where_squares_underflow(entry):
    value, upper, gradients = worst_gradients([[1, entry], [entry, 1]])
    np.testing.assert_allclose(np.linalg.norm(gradients, axis=1), 1, rtol=1e-14)
    assert 2 * (1 - 1e-15) <= value <= upper


def test_signs_alone_are_too_small():
    """The mutant: collinear gradients."""
    strategy = [[1, 0, 0], [-0.5, 1, 0], [-0.35, -0.5, 1]]
    block = np.transpose(strategy) @ strategy
    signs = max(np.array(s) @ block @ np.array(s) for s in ([1, 1, 1], [1, 1, -1], [1, -1, 1], [-1, 1, 1]))
    assert signs == pytest.approx(4.6725)
    found = worst_case(strategy, Participation.min_sep(3, 1, 3))
    assert found.value**2 == pytest.approx(4.852747253, rel=1e-9)
    assert found.gradients.shape[1] > 1


def test_refusals():
    with pytest.raises(ValueError, match="at most 100000 maximal patterns, got at least"):
        worst_case(np.eye(100), Participation.min_sep(100, 1, 5))
    with pytest.raises(ValueError, match=r"strategy must have shape \(rows, 3\)"):
        worst_case(np.eye(2), Participation.single(3))
    with pytest.raises(ValueError, match="block"):
        worst_gradients([[1.0, 2.0], [0.0, 1.0]])
