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


def test_canaries_and_idle_coordinates_are_everywhere() -> None:
    """Neighbouring groups from the first four to the last four; spread ones in all quarters; idle ones between."""
    layout = AuditLayout(312, 1000)
    used = layout.gradients(np.arange(312), np.ones(312)) != 0
    places = np.array([np.flatnonzero(row) for row in used])
    near = layout.group(np.arange(312)) < layout.neighbouring
    assert (np.diff(places[near], axis=1) == 1).all()
    assert (places[near].min(), places[near].max()) == (0, 1311)
    assert (places[~near] // 328 == np.arange(4)).all()
    for quarter in range(4):
        assert np.isin(np.arange(328 * quarter, 328 * (quarter + 1)), layout.idle_places).sum() > 200
