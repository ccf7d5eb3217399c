"""Factors for each step: weights of epochs beat equal ones, random ones, and are known where epochs do not meet."""

import numpy as np
import pytest

from corrnoise.solvers.families.scaled import epoch_weights


def test_epoch_weights_beat_equal_ones_and_random_ones() -> None:
    rng = np.random.default_rng(1)
    for size in (2, 3, 7):
        factor = rng.normal(size=(size, size))
        powers = factor @ factor.T + np.diag(np.arange(1.0, size + 1) ** 3)

        def value(weights: np.ndarray, powers: np.ndarray = powers) -> float:
            u = weights**-0.5
            return float(u @ powers @ u)

        best = epoch_weights(powers)
        assert best.sum() == pytest.approx(1)
        others = [np.full(size, 1 / size), *rng.dirichlet(np.ones(size), 200)]
        assert value(best) <= min(map(value, others)) * (1 + 1e-9)
        diagonal = np.diag(np.diag(powers))  # then p_e is proportional to the root of Q_ee
        roots = np.sqrt(np.diag(powers))
        assert epoch_weights(diagonal) == pytest.approx(roots / roots.sum(), rel=1e-3)
