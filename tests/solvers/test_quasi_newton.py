"""The BFGS search finds minima, stops when told to, and ends where its line search fails, whatever the filters."""

import warnings
from typing import Literal

import numpy as np
import pytest

from corrnoise.solvers.quasi_newton import bfgs


def bowl(x: np.ndarray) -> tuple[float, np.ndarray]:
    return float(x @ x), 2 * x


def kinked(x: np.ndarray) -> tuple[float, np.ndarray]:
    """A loss whose stated gradient leads upwards near its kink, where no line search succeeds."""
    return float(np.abs(x).sum() + 1e-3 * x @ x), -np.sign(x) if np.abs(x).max() < 1 else np.sign(x)


def test_the_minimum_of_a_bowl_is_found() -> None:
    assert np.abs(bfgs(bowl, np.array([3.0, -2.0]), {})).max() < 1e-5


def test_the_search_stops_at_the_first_iterate_that_says_so() -> None:
    seen: list[np.ndarray] = []

    def stop(point: np.ndarray) -> bool:
        seen.append(point)
        return True

    found = bfgs(bowl, np.array([3.0, -2.0]), {}, stop)
    assert len(seen) == 1
    np.testing.assert_array_equal(found, seen[0])


@pytest.mark.parametrize("action", ["error", "always"])
def test_a_failing_line_search_ends_the_search(action: Literal["error", "always"]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(action)  # SciPy's own filter is set aside below, as another thread may do
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(warnings, "simplefilter", lambda *_, **__: None)
            if action == "always":
                with pytest.warns(RuntimeWarning):
                    found = bfgs(kinked, np.array([3.0, -2.5]), {})
            else:
                found = bfgs(kinked, np.array([3.0, -2.5]), {})
    assert kinked(found)[0] <= kinked(np.array([3.0, -2.5]))[0]


def test_other_warnings_are_errors_of_the_loss() -> None:
    def warns(x: np.ndarray) -> tuple[float, np.ndarray]:
        raise RuntimeWarning("invalid value")

    with pytest.raises(RuntimeWarning, match="invalid value"):
        bfgs(warns, np.ones(2), {})
