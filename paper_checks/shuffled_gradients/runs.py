"""The runs that claims are about."""

from corrnoise.theory.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.shuffled_gradients.schedules import Order, Schedule


def nonexpansive_run(schedule: Schedule, order: Order = "given", learning_rate: float = 1.0) -> ShuffledGradients:
    """A run with convex losses and L = 1, nothing clipped, of which the last iterate is released."""
    return ShuffledGradients(
        samples=schedule.samples,
        epochs=schedule.epochs,
        private=schedule.private,
        placement=schedule.placement,
        order=order,
        learning_rate=learning_rate,
        smoothness=1.0,
        clipping="none",
        convex=True,
        released="last iterate",
    )
