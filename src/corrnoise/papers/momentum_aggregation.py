"""Momentum aggregation (NeurIPS 2022): private non-convex training along a momentum."""

from corrnoise.simulations.papers.momentum_aggregation.baselines import private_gradient_descent, private_sgd
from corrnoise.simulations.papers.momentum_aggregation.private import (
    private_momentum,
    private_reduced_momentum,
    published_momentum,
)

__all__ = [
    "private_gradient_descent",
    "private_momentum",
    "private_reduced_momentum",
    "private_sgd",
    "published_momentum",
]
