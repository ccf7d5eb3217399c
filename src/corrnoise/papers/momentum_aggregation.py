"""Momentum aggregation (NeurIPS 2022): private non-convex training along a momentum."""

from typing import Any

from corrnoise.simulations.papers.momentum_aggregation.data import momentum_risk
from corrnoise.simulations.papers.momentum_aggregation.descent import Trajectories
from corrnoise.simulations.papers.momentum_aggregation.methods import (
    GradientDescent,
    Momentum,
    PoissonDescent,
    PublishedMomentum,
    PublishedReducedMomentum,
    ReducedMomentum,
)
from corrnoise.simulations.papers.momentum_aggregation.runs import momentum_run
from corrnoise.support.deprecation import deprecated
from corrnoise.theory.papers.momentum_aggregation.calibration import node_std, published_node_std
from corrnoise.theory.papers.momentum_aggregation.least_noise import noise_lower_bound
from corrnoise.theory.participation import Participation

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

_DOOR = "cn.papers.momentum_aggregation.momentum_run(…, method={})"


@deprecated("0.2", instead=_DOOR.format("Momentum(alpha, mechanism)"))
def private_momentum(*args: Any, alpha: float, mechanism: Any = None, **options: Any) -> Trajectories:
    """Algorithm 1 with tree noise or any other mechanism."""
    return momentum_run(*args, method=Momentum(alpha, mechanism), **options)


@deprecated("0.2", instead=_DOOR.format("PublishedMomentum(alpha, height)"))
def published_momentum(*args: Any, alpha: float, height: int | None = None, **options: Any) -> Trajectories:
    """Algorithm 1 with its published noise."""
    return momentum_run(*args, method=PublishedMomentum(alpha, height), **options)


@deprecated("0.2", instead=_DOOR.format("ReducedMomentum(alpha, gamma)"))
def private_reduced_momentum(*args: Any, alpha: float, gamma: Any, **options: Any) -> Trajectories:
    """Algorithm 2 in its private form."""
    return momentum_run(*args, method=ReducedMomentum(alpha, gamma), **options)


@deprecated("0.2", instead=_DOOR.format("GradientDescent(normalised)"))
def private_gradient_descent(
    risk: Any, budget: Any, *, steps: int, normalised: bool = False, **options: Any
) -> Trajectories:
    """Full-batch descent."""
    method = GradientDescent(normalised=normalised)
    return momentum_run(risk, budget, Participation.min_sep(steps, 1), method=method, **options)


@deprecated("0.2", instead=_DOOR.format("PoissonDescent(normalised)"))
def private_sgd(*args: Any, normalised: bool = False, **options: Any) -> Trajectories:
    """Descent with Poisson sampling."""
    return momentum_run(*args, method=PoissonDescent(normalised=normalised), **options)
