"""Federated learning over Flower, with clients that own their data and their noise, and any server."""

from corrnoise.simulations.adapters.flower import CorrelatedNoise, client_app, server_app, strategy
from corrnoise.simulations.adapters.torch_client import module_contribution
from corrnoise.simulations.federation.client import FederatedClient, enrol, linear_contribution
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.server import FederatedServer

__all__ = [
    "CorrelatedNoise",
    "FederatedClient",
    "FederatedServer",
    "Plan",
    "client_app",
    "enrol",
    "linear_contribution",
    "module_contribution",
    "server_app",
    "strategy",
]
