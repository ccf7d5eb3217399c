"""Canaries have orthogonal gradients in coordinates far apart; all coordinates are used once."""

import numpy as np
import pytest

from corrnoise.simulations.auditing.layout import AuditLayout


@pytest.mark.slow
@pytest.mark.parametrize(("canaries", "idle"), [(4, 16), (100, 200), (2244, 1000)])
def test_scores_undo_gradients(canaries: int, idle: int) -> None:
    layout = AuditLayout(canaries, idle)
    size = canaries + idle
    assert sorted(layout.place.tolist()) == list(range(size))
    lengths = np.arange(1.0, canaries + 1)
    gradients = layout.gradients(np.arange(canaries), lengths)
    assert gradients.shape == (canaries, size)
    assert np.allclose(gradients @ gradients.T, np.diag(lengths**2))
    assert not gradients[:, layout.idle_places].any()
    assert np.allclose(layout.scores(gradients[:, layout.place[:canaries]]), np.diag(lengths))
    assert np.allclose(layout.scores(np.ones((2, 3, canaries))), 1)


def test_a_canary_and_idle_coordinates_are_in_all_parts() -> None:
    """The mutant with all canaries in front hides a layer of its own; one coordinate hides clipping by layers."""
    layout = AuditLayout(1024, 1024)
    used = layout.gradients(np.arange(1024), np.ones(1024)) != 0
    for half in (np.s_[:1024], np.s_[1024:]):
        assert (used[:, half].sum(axis=1) == 2).all()
        assert np.isin(np.arange(2048)[half], layout.idle_places).sum() == 512
