"""The batch whose gradients an adapter gets."""

from __future__ import annotations

from corrnoise.simulations.run.batches import Batches
from corrnoise.simulations.run.private import PrivateRun


def batches_of(run: PrivateRun) -> Batches:
    """The batches of a run; ``ValueError`` for one that has none."""
    if run.batches is None:
        raise ValueError("run must have batches here, got one without")
    return run.batches


def due(run: PrivateRun) -> int:
    """The number of examples of the batch whose noise comes next; ``RuntimeError`` after the last step."""
    batches = batches_of(run)
    if run.position == batches.steps:
        raise RuntimeError(f"the run has made its {run.steps} steps: a further step is not covered by its noise")
    return batches.batch(run.position).size
