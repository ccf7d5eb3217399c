"""Noise cancellation (ICML 2025): federated learning where each machine cancels its own past noise."""

from corrnoise.simulations.federation.simulate import simulate_federation
from corrnoise.theory.papers.noise_cancellation.bounds import FederatedRun
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise
from corrnoise.theory.papers.noise_cancellation.privacy import published_scale
from corrnoise.theory.papers.noise_cancellation.quadratic_runs import cancelling_excess
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass

__all__ = [
    "FederatedRun",
    "LossClass",
    "cancelling_excess",
    "cancelling_noise",
    "published_scale",
    "simulate_federation",
]
