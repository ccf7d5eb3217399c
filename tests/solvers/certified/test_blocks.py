"""Blocks that are joined, against the matrix of all that they show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.certified.blocks import joined


def parts(seed, count, groups, states, inputs):
    """Φ, Γ and Q of random blocks, and factors F with Q = Fᵀ F."""
    rng = np.random.default_rng(seed)
    transition = 0.5 * rng.normal(size=(count, groups, states, states))
    entry = rng.normal(size=(count, groups, states, inputs))
    factors = rng.normal(size=(count, groups, states + inputs + 1, states + inputs))
    return transition, entry, factors.swapaxes(2, 3) @ factors, factors


def dense(transition, entry, factors, group):
    """What is shown, and the last state, by the first state and all inputs."""
    count, _, states, inputs = entry.shape
    state = np.eye(states, states + count * inputs)
    shown = []
    for c in range(count):
        own = np.eye(inputs, states + count * inputs, states + c * inputs)
        shown.append(factors[c, group] @ np.vstack([state, own]))
        state = transition[c, group] @ state + entry[c, group] @ own
    return np.vstack(shown), state


def gram_of(shown, states, *, free, share=1.0):
    """The Gram matrix of the responses to inputs, less ``share`` of what those to the first state explain."""
    first, later = shown[:, :states], shown[:, states:]
    explained = first @ np.linalg.lstsq(first, later, rcond=None)[0]
    return later.T @ later - (share * explained.T @ explained if free else 0.0)


@given(st.integers(0, 2**32), *(st.integers(1, most) for most in (6, 3, 3, 3)), st.booleans())
def test_joined_blocks_show_what_their_parts_show(seed, count, groups, states, inputs, free):
    transition, entry, gram, factors = parts(seed, count, groups, states, inputs)
    basis = np.random.default_rng(seed + 1).normal(size=(count * inputs, 2))
    total, new_transition, new_inputs, new_gram = joined(transition, entry, gram, basis, free)
    matrices = [dense(transition, entry, factors, group) for group in range(groups)]
    exact = sum(gram_of(shown, states, free=free) for shown, _ in matrices)
    size = max(np.abs(shown.T @ shown).max() for shown, _ in matrices)
    np.testing.assert_allclose(total, exact, atol=1e-10 * size, rtol=0)
    for group, (shown, state) in enumerate(matrices):
        by_basis = np.hstack([shown[:, :states], shown[:, states:] @ basis])
        last = np.hstack([new_transition[group], new_inputs[group]])
        exact_last = np.hstack([state[:, :states], state[:, states:] @ basis])
        np.testing.assert_allclose(new_gram[group], by_basis.T @ by_basis, atol=1e-10 * size * count**2, rtol=1e-10)
        np.testing.assert_allclose(last, exact_last, atol=1e-10 * np.abs(state).max() * count, rtol=1e-10)


@pytest.mark.parametrize("share", [0.9, 0.0])
def test_a_projection_on_less_is_another_one(share):
    """It would make a floor too high."""
    transition, entry, gram, factors = parts(0, 4, 1, 2, 2)
    total = joined(transition, entry, gram, np.zeros((8, 0)), True)[0]
    shown, _ = dense(transition, entry, factors, 0)
    assert np.abs(total - gram_of(shown, 2, free=True, share=share)).max() > 1e-3 * np.abs(total).max()
