"""The runs that the claims on privacy are about."""

from corrnoise.theory.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.shuffled_gradients.schedules import Order, Schedule


def nonexpansive_run(schedule: Schedule, order: Order = "given") -> ShuffledGradients:
    """A run with convex losses and η = 1/L, nothing clipped, of which the last iterate is released."""
    return ShuffledGradients(
        samples=schedule.samples,
        epochs=schedule.epochs,
        private=schedule.private,
        placement=schedule.placement,
        order=order,
        learning_rate=1.0,
        smoothness=1.0,
        clipping="none",
        convex=True,
        released="last iterate",
    )
