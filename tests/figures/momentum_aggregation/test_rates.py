"""The figure of rates: bounds of the theory, and where they cross."""

import math

import numpy as np
import pytest

from corrnoise.figures.momentum_aggregation import rates
from corrnoise.figures.publication import Data
from tests.figure_entries import check_entry


@pytest.fixture(scope="module")
def drawn() -> Data:
    return rates.data(log2_examples=(10, 18), points=12)


def test_the_entry_fits_and_is_drawn(drawn: Data) -> None:
    check_entry(rates.FIGURE, drawn)
    assert [len(axes.lines) for axes in rates.draw(drawn).axes] == [5, 7]
    assert max(map(len, rates.report(drawn).splitlines())) <= 120


def test_the_published_bounds_cross_beyond_all_data_sets(drawn: Data) -> None:
    curves = {(s.method, s.kind): s for s in drawn if s.panel == rates.OWN}
    one, two = curves["Algorithm 1", "published"], curves["Algorithm 2", "published"]
    assert rates.crossing(one.x, one.y, two.y) == pytest.approx(5e22, rel=0.05)  # that of the bounds themselves
    assert rates.theorem("Algorithm 2", 4e22, published=True) > rates.theorem("Algorithm 1", 4e22, published=True)
    assert rates.theorem("Algorithm 2", 6e22, published=True) < rates.theorem("Algorithm 1", 6e22, published=True)


def test_crossings() -> None:
    x = np.array([1.0, 10.0, 100.0])
    assert rates.crossing(x, np.array([1.0, 1.0, 1.0]), np.array([10.0, 1.0, 0.1])) == pytest.approx(10.0)
    assert rates.crossing(x, np.array([1.0, 1.0, 1.0]), np.array([10.0, 10.0, 0.1])) == pytest.approx(10**1.5)
    assert rates.crossing(x, np.ones(3), np.full(3, 0.5)) == 1.0
    assert rates.crossing(x, np.ones(3), np.full(3, 2.0)) == math.inf
