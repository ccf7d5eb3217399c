"""Federated learning in which each client owns its data, its noise and its state, with any server."""
