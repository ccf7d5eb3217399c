"""Small federations for the tests: data, protocols, and a server and its machines."""

from typing import Any

import numpy as np

from corrnoise.simulations.noise_cancellation.protocol import Protocol
from corrnoise.simulations.noise_cancellation.run import Examples, MachineHost, split_examples
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.privacy import Budget

LOSS = LinearLoss("squares", 3, 1.0, 1.0)


def budget(rho: float = 2.0, clip_norm: float = 1.0) -> Budget:
    """The budget of one machine."""
    return Budget(rho, clip_norm=clip_norm, adjacency="replace-one")


def protocol(**changes: Any) -> Protocol:
    """Least squares in three dimensions, four machines of which two take part, twelve rounds."""
    fields: dict[str, Any] = {
        "run": "test",
        "loss": LOSS,
        "diameter": 2.0,
        "machines": 4,
        "participants": 2,
        "rounds": 12,
        "learning_rate": 0.01,
        "budget": budget(),
    }
    return Protocol(**{**fields, **changes})


def examples(machines: int, each: int, seed: int = 0) -> list[Examples]:
    """``each`` examples for every machine."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((machines * each, LOSS.features))
    a /= np.linalg.norm(a, axis=1)[:, np.newaxis]
    y = np.clip(a @ np.array([0.4, -0.3, 0.2]) + 0.1 * rng.standard_normal(len(a)), -1, 1)
    return split_examples(a, y, machines)


def federation(chosen: Protocol, *, seed: int = 1, each: int = 12, **options: Any) -> tuple[Server, MachineHost]:
    """A server and a host with all machines, as ``simulate_federation`` makes them."""
    host = MachineHost(chosen, dict(enumerate(examples(chosen.machines, each))), seed=seed, **options)
    return Server(chosen, seed=[seed, 0]), host
