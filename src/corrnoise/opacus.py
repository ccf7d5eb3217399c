"""Private training with Opacus: its clipping and its loop, with the batches and the noise of a crash-safe run."""

from corrnoise.simulations.adapters.opacus import CorrelatedNoise, RunLoader, make_private, optimizer_class

__all__ = ["CorrelatedNoise", "RunLoader", "make_private", "optimizer_class"]
