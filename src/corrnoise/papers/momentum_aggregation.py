"""Momentum aggregation (NeurIPS 2022): private non-convex training along a momentum."""

from corrnoise.simulations.papers.momentum_aggregation.data import momentum_risk
from corrnoise.simulations.papers.momentum_aggregation.methods import (
    GradientDescent,
    Momentum,
    PoissonDescent,
    PublishedMomentum,
    PublishedReducedMomentum,
    ReducedMomentum,
)
from corrnoise.simulations.papers.momentum_aggregation.runs import momentum_run
from corrnoise.theory.papers.momentum_aggregation.calibration import node_std, published_node_std
from corrnoise.theory.papers.momentum_aggregation.least_noise import noise_lower_bound

__all__ = [
    "GradientDescent",
    "Momentum",
    "PoissonDescent",
    "PublishedMomentum",
    "PublishedReducedMomentum",
    "ReducedMomentum",
    "momentum_risk",
    "momentum_run",
    "node_std",
    "noise_lower_bound",
    "published_node_std",
]
