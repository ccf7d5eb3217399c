"""Correlated noise (arXiv 2310.06771): best noise of stationary problems, bounds for strongly convex losses."""

from typing import Any

from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.tuning import best_learning_rate, stationary_damping, stationary_noise, stationary_nu
from corrnoise.support.deprecation import deprecated
from corrnoise.theory.problems.learning_objective import LearningObjective

__all__ = [
    "LearningObjective",
    "best_learning_rate",
    "optimal_noise",
    "stationary_damping",
    "stationary_noise",
    "stationary_nu",
    "strongly_convex_certificate",
]


@deprecated("0.2", instead="cn.papers.correlated_noise.strongly_convex_certificate(…).value")
def strongly_convex_bound(*args: Any, **options: Any) -> float:
    """The bound without its evidence."""
    return strongly_convex_certificate(*args, **options).value
