"""Designs that several tests look at, each made once."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from corrnoise.designs.comparison import Comparison
from corrnoise.designs.design import Design
from corrnoise.designs.make import design
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex

STEPS, EPOCHS = 48, 4
BUDGET = Budget(0.5)  # at ρ = ½ the multiplier is the sensitivity
EPOCHED = Participation.fixed_epochs(STEPS, epochs=EPOCHS)
ONCE = Participation.single(STEPS)
ENDLESS = Participation.single()
PROBLEM = LinearRegression([1.0, 0.3, 0.01], 0.05, 0.2)
CONVEX = StronglyConvex(1.0, 5.0, 0.1, dimension=4)

CASES: dict[str, tuple[Participation, Any, dict[str, Any]]] = {
    "usual": (EPOCHED, None, {}),
    "any memory": (EPOCHED, None, {"memory": math.inf}),
    "no memory": (EPOCHED, None, {"memory": 0}),
    "without factors": (EPOCHED, None, {"family": "buffers", "memory": 2}),
    "tree": (EPOCHED, None, {"family": "binary tree, online"}),
    "momentum and cool-down": (EPOCHED, SGD(momentum=0.9, cool_down=0.25, batch_size=8), {}),
    "reshuffled": (Participation.reshuffled(STEPS, epochs=EPOCHS), None, {"memory": 4}),
    "a problem": (EPOCHED, PROBLEM, {}),
    "the last step": (EPOCHED, LearningObjective(PROBLEM, STEPS, weights="last"), {"memory": math.inf}),
    "once": (ONCE, PROBLEM, {"family": "stationary optimum"}),
    "endless": (ENDLESS, PROBLEM, {}),
    "convex": (ENDLESS, CONVEX, {}),
}


@cache
def made(name: str, budget: Budget = BUDGET) -> Design:
    """The design of a case."""
    participation, objective, options = CASES[name]
    return design(budget, participation, objective, notes=("A sentence.",), **options)


@cache
def compared(found: Design, offset: float = 0.0) -> Comparison:
    """The comparison of a design with other noise."""
    return found.comparison(offset)


def unit_draws(steps: int) -> Any:
    """A source of draws that gives the unit vectors in their order: what is made of them is the noising matrix."""
    count = iter(range(steps))

    def draw(values: np.ndarray, number: int = 0) -> None:
        values[:] = 0
        values[next(count)] = 1

    return draw
