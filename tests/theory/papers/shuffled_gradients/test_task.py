"""Regularisers of tasks: proximal maps minimise."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.papers.shuffled_gradients.task import Regulariser

vectors = st.lists(st.floats(-5, 5), min_size=3, max_size=3).map(np.array)


@given(vectors, st.sampled_from(["none", "ridge", "lasso", "ball"]), st.floats(0.1, 3), st.floats(0.1, 3), vectors)
def test_proximal_maps_minimise(v, name, strength, step, direction):
    psi = Regulariser(name, strength)
    x = psi.prox(v, step)
    best = step * psi.value(x) + np.square(x - v).sum() / 2
    for scale in (1.0, 1e-2, -1e-2, -1.0):
        other = x + scale * direction
        assert best <= step * psi.value(other) + np.square(other - v).sum() / 2 + 1e-12
    assert psi.strong_convexity == (strength if name == "ridge" else 0.0)
