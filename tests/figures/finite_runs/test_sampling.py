"""Errors over ε for each way of sampling: the order of the curves, and a drawing of them."""

import numpy as np
import pytest

from corrnoise.figures import COMPANIONS
from corrnoise.figures.finite_runs import sampling as figure
from tests.figure_entries import rendered


def test_the_entry_is_a_companion_with_one_colour_for_each_method() -> None:
    assert figure.FIGURE.name in COMPANIONS
    assert set(figure.FIGURE.panels) == {figure.panel(count) for count in figure.EPOCHS}
    assert len({look["color"] for look in figure.LOOKS.values()}) == len(figure.LOOKS)


@pytest.mark.slow
def test_the_curves_of_a_short_epoch() -> None:
    data = figure.data(8, (1, 2), (0.5, 6.0))
    found = {(s.panel, s.method): s.y for s in data}
    for name in ("1 epoch", "2 epochs"):
        assert (found[name, figure.POISSON] == 1).all()
        assert found[name, figure.FIXED][0] > 1 > found[name, figure.FIXED][1]
        bins, estimate = found[name, figure.BINS], found[name, figure.ESTIMATE]
        assert (estimate < 1.02 * bins).all()
        assert (bins < 1.3 * estimate).all()
        assert all(np.diff(found[name, method])[0] < 0 for method in figure.LOOKS if method != figure.POISSON)
    assert "epsilon 6" in figure.report(data)
    rendered(figure.FIGURE, data)
