"""Noise cancellation (ICML 2025): federated learning in which each machine cancels its own past noise."""

from corrnoise.simulations.noise_cancellation.protocol import Protocol
from corrnoise.simulations.noise_cancellation.run import simulate_federation
from corrnoise.theory.noise_cancellation.bounds import FederatedRun
from corrnoise.theory.noise_cancellation.machines import cancelling_noise

__all__ = ["FederatedRun", "Protocol", "cancelling_noise", "simulate_federation"]
