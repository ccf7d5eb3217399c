"""Noise cancellation (ICML 2025): federated learning where each machine cancels its own past noise."""

from corrnoise.simulations.federation.simulate import simulate_federation
from corrnoise.theory.papers.noise_cancellation.bounds import FederatedRun
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise

__all__ = ["FederatedRun", "cancelling_noise", "simulate_federation"]
