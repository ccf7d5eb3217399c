"""Runs for tests of accountants: a schedule and the facts that matter, in one line."""

from typing import Any

import numpy as np

from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.papers.shuffled_gradients.schedules import ORDERS, Schedule
from corrnoise.theory.privacy import Budget


def described(
    schedule: Schedule,
    learning_rate: float = 1.0,
    smoothness: float = 1.0,
    *,
    order: Any = "given",
    clipping: Any = "none",
    convex: bool = True,
    released: Any = "last iterate",
    **others: Any,
) -> ShuffledGradients:
    """The run that follows ``schedule``."""
    return ShuffledGradients(
        Budget(1.0, adjacency="replace-one"),
        ORDERS[order](schedule.samples, schedule.epochs),
        private=np.asarray(schedule.private),
        placement=schedule.placement,
        learning_rate=learning_rate,
        smoothness=smoothness,
        clipping=clipping,
        convex=convex,
        released=released,
        **others,
    )
