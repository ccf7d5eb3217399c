"""Private training with Opacus: its clipping and its loop, with the batches and the noise of a run."""

from corrnoise.simulations.adapters.opacus import CorrelatedNoise, RunLoader, optimizer_class, private

__all__ = ["CorrelatedNoise", "RunLoader", "optimizer_class", "private"]
