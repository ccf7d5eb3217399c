"""The figure of excess losses: simulated runs are at the exact values, and both below the bounds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from corrnoise.figures.noise_cancellation import excess as figure
from corrnoise.theory.privacy import Budget
from tests.figure_entries import check_entry


def test_curves_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "BASE", replace(figure.BASE, rounds=40))
    drawn = figure.data((5, 20), (16.0,), (1, 32), runs=4)
    check_entry(figure.FIGURE, drawn)
    assert len(figure.draw(drawn).axes) == 3
    curves = {(s.panel, s.method, s.kind): s for s in drawn}
    for panel in ("rounds", "budget"):
        for method in figure.METHODS:
            exact = curves[panel, method, "exact"].y
            assert (exact < curves[panel, method, "published bound"].y / 5).all()
            assert (curves[panel, method, "measured"].y > 0).all()
        corrected = curves[panel, figure.METHODS[0], "corrected bound"].y
        assert (corrected < curves[panel, figure.METHODS[0], "published bound"].y).all()
    assert curves["ratio", figure.METHODS[0], "published, beyond its proof"].x.tolist() == [32.0]
    assert "published, beyond its proof" in figure.report(drawn)


@pytest.mark.parametrize("trusted", [False, True])
def test_measured_is_exact(trusted: bool) -> None:
    """x_T is nearly Gaussian about a known mean, so that the mean of n squares is within 6 of its standard errors."""
    runs = 100
    run = replace(figure.BASE, rounds=12, budget=Budget(2048.0, adjacency="replace-one"))
    exact = figure.values(run, trusted, 2)["exact"]
    mean, _ = figure.measured(run, trusted, runs)
    error = exact * math.sqrt(2 / runs)  # of a square of mean 0; less with another mean
    assert abs(mean - exact) < 6 * error
    assert np.isfinite(mean)
    assert not abs(2 * mean - exact) < 6 * error
