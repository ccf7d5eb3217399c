"""Federated learning over Flower: clients that own data and noise, or any strategy with a trusted server."""

from corrnoise.simulations.adapters.flower import CorrelatedNoise, client_app, server_app, strategy
from corrnoise.simulations.adapters.flower_private import PrivateStrategy, named_client, private_strategy
from corrnoise.simulations.adapters.torch_client import module_contribution
from corrnoise.simulations.federation.client import FederatedClient, enrol, linear_contribution
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.server import FederatedServer

__all__ = [
    "CorrelatedNoise",
    "FederatedClient",
    "FederatedServer",
    "Plan",
    "PrivateStrategy",
    "client_app",
    "enrol",
    "linear_contribution",
    "module_contribution",
    "named_client",
    "private_strategy",
    "server_app",
    "strategy",
]
