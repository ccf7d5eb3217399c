"""The smallest minimum, where the grid alone shows another one."""

import numpy as np
import pytest

from corrnoise.solvers.grid_minimum import smallest_minimum


def test_the_smaller_of_two_minima_is_found():
    """Also where the grid sees the other one as smaller."""

    def function(x: float) -> float:
        return min(1 + (x - 0.5) ** 2, 0.99 + 2 * (x - 6.27) ** 2)

    points = np.arange(0.0, 10.0, 0.5)
    values = np.array([function(x) for x in points])
    assert points[values.argmin()] == 0.5
    place, least = smallest_minimum(function, points, values, 1e-9)
    assert place == pytest.approx(6.27, abs=1e-6)
    assert least == pytest.approx(0.99, rel=1e-12)
    assert smallest_minimum(lambda x: x, points, points, 1e-9)[0] == 0
    assert smallest_minimum(lambda x: -x, points, -points, 1e-9)[0] == pytest.approx(9.5)
