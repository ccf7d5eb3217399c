"""The runs that claims are about."""

from typing import Any

import numpy as np

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import Budget
from corrnoise.theory.shuffled_gradients.convergence import ConvergenceConstants
from corrnoise.theory.shuffled_gradients.exact_runs import noise_variance
from corrnoise.theory.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.shuffled_gradients.schedules import ORDERS, Schedule


def nonexpansive_run(schedule: Schedule, order: str = "given", learning_rate: float = 1.0) -> ShuffledGradients:
    """A run with convex losses and L = 1, nothing clipped, of which the last iterate is released."""
    return ShuffledGradients(
        Budget(1.0, adjacency="replace-one"),
        ORDERS[order](schedule.samples, schedule.epochs),
        private=schedule.private,
        placement=schedule.placement,
        learning_rate=learning_rate,
        smoothness=1.0,
        clipping="none",
        convex=True,
        released="last iterate",
    )


def noise_only(
    samples: int,
    epochs: int,
    learning_rate: float,
    smoothness: float,
    *,
    noise: float | Array = 1.0,
    dimension: int = 1,
    largest: float | None = None,
    **others: Any,
) -> ConvergenceConstants:
    """Constants of losses L ‖x‖²/2, from x_1 = x* = 0: all of the risk is due to the noise; L* is ``largest``, or L."""
    return ConvergenceConstants(
        samples=samples,
        epochs=epochs,
        dimension=dimension,
        learning_rate=learning_rate,
        distance=0.0,
        deviation=0.0,
        noise=noise,
        smoothness=smoothness,
        largest_smoothness=smoothness if largest is None else largest,
        **others,
    )


def noise_risk(run: ConvergenceConstants, ridge: float = 0.0) -> float:
    """The exact excess risk of ``noise_only`` with ψ = (μ/2) ‖x‖²."""
    smoothness = np.asarray(run.smoothness).item()
    sigma = np.asarray(run.noise).item()
    variance = sigma**2 * noise_variance(run.samples, run.epochs, run.learning_rate, smoothness, ridge=ridge)
    return run.dimension / 2 * (smoothness + ridge) * variance
