"""Federated learning where each client owns its data, its noise and its state, with any server."""
