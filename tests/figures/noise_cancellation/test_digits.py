"""The tables in miniature, at a smaller size: every algorithm is run, and none is at chance level."""

import pytest

from corrnoise.figures.noise_cancellation import digits as figure
from tests.figure_entries import check_entry


def test_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "RATES", (1.0,))
    monkeypatch.setattr(figure, "CLIP_NORMS", (3.0,))
    shown = {name: figure.LOOKS[name] for name in ("published", "best share", "noisy SGD")}
    monkeypatch.setattr(figure, "LOOKS", shown)
    drawn = figure.data(machines=10, budgets=(12.0,), participants=(5,), repetitions=2)
    check_entry(figure.FIGURE, drawn)
    assert len(figure.draw(drawn).axes) == 2
    accuracies = {(s.panel, s.method): s.y[0] for s in drawn if s.kind == "mean test accuracy"}
    assert set(accuracies) == {(panel, method) for panel in ("budget", "participation") for method in figure.LOOKS}
    assert min(accuracies.values()) > 0.3
    assert max(accuracies.values()) < 1.0
    assert "best share" in figure.report(drawn)
