"""Correlated noise (arXiv 2310.06771): best noise of stationary problems, bounds for strongly convex losses."""

from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.tuning import best_learning_rate, stationary_damping, stationary_noise, stationary_nu
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
