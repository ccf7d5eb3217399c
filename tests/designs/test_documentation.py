"""``docs/spectrum.md``: its numbers are right."""

from pathlib import Path

import numpy as np
import pytest

from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.tuning import best_learning_rate
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression

TEXT = (Path(__file__).parents[2] / "docs/spectrum.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_gain_after_100_000_steps() -> None:
    problem = LinearRegression(1 / np.arange(1.0, 129), 0.02)
    budget = Budget(epsilon=2.0, delta=1e-6)
    who = Participation.single(100_000)
    errors = [
        best_learning_rate(problem, who, noise, initial_offset=0.3, budget=budget).error
        for noise in (DPSGD(), optimal_noise)
    ]
    assert errors[0] / errors[1] == pytest.approx(49.5, abs=0.05)
    assert "49.5 times after 100 000" in TEXT.replace("\n   ", " ")
