"""Axes of errors over memory: enough labels to see the scale, and hollow markers that are explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from corrnoise.designs import memory_figure
from corrnoise.figures.memory_axes import HOLLOW, scale_errors, scale_memory
from corrnoise.figures.publication import Series


def labels(axis: Any) -> list[str]:
    """The labels of an axis within its limits."""
    axis.figure.draw_without_rendering()
    low, high = sorted(axis.get_view_interval())
    pairs = zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True)
    return [text.get_text() for text, place in pairs if low <= place <= high]


@pytest.mark.parametrize(("low", "high"), [(5.2, 13.0), (0.9, 1.1), (1e-3, 1e3), (2.0, 2.0)])
def test_a_logarithmic_axis_has_three_labels(low: float, high: float) -> None:
    ax = Figure().subplots()
    ax.plot([0, 1], [low, high])
    scale_errors(ax)
    found = labels(ax.yaxis)
    assert len(found) == len(set(found)) >= 3
    assert np.all(np.diff(np.array(found, dtype=float)) > 0)


def test_few_buffers_have_a_label_each() -> None:
    for most, expected in ((2, "0 1 2"), (0, "0"), (100, "0 1 10 100")):
        ax = Figure().subplots()
        scale_memory(ax, most)
        assert " ".join(labels(ax.xaxis)) == expected


@pytest.mark.parametrize("kind", ["exact", "upper bound"])
def test_hollow_markers_are_explained(kind: str) -> None:
    data = (Series("memory", "BLT", kind, np.array([1.0, 2.0]), np.array([6.0, 5.5])),)
    figure = memory_figure.draw(data, {"BLT": {"color": "C0", "marker": "s"}})
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["BLT", *([HOLLOW] * (kind == "upper bound"))]
