"""Small federations for tests: a plan, enrolled clients on random data, and rounds with a rule for what arrives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from corrnoise.simulations.federation.client import FederatedClient, enrol, linear_contribution
from corrnoise.simulations.federation.messages import Reply
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.server import FederatedServer
from corrnoise.support.serialise import digest, plain
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.privacy import Budget

LOSS = LinearLoss("squares", 3, 1.0, 1.0)


def plan_of(**settings: Any) -> Plan:
    """A plan of three parameters, eight participations of two examples in two passes.

    Settings of its budget are given beside the others.
    """
    given: dict[str, Any] = {
        "run": "test",
        "model": LOSS,
        "rounds": 20,
        "participants": 2,
        "batch": 2,
        "per_pass": 4,
        "passes": 2,
        "radius": 1.0,
        "learning_rate": 0.01,
        "unit": "example",
        "noise": PoleNoise([0.0], [0.3]),
    }
    promised: dict[str, Any] = {
        name: settings.pop(name) for name in ("epsilon", "delta", "clip_norm") if name in settings
    }
    promised["adjacency"] = settings.pop("adjacency", "replace-one")
    if "epsilon" not in promised:
        promised["rho"] = settings.pop("rho", 2.0)
    return Plan(**(given | {"budget": Budget(**promised)} | settings))


def client_of(plan: Plan, name: str, folder: Path, *, enrolled: bool = True) -> FederatedClient:
    """A client with its own random examples."""
    rng = np.random.default_rng([len(name), *name.encode()])
    features = rng.uniform(-0.5, 0.5, (10, 3))
    targets = rng.uniform(-1, 1, 10)
    if enrolled:
        enrol(plan, name, folder, examples=10)
    return FederatedClient(plan, name, folder, linear_contribution(LOSS, features, targets))


def run_rounds(
    server: FederatedServer,
    clients: dict[str, FederatedClient],
    rounds: int,
    arrives: Callable[[str], bool] = lambda _: True,
) -> list[Reply]:
    """Rounds in which replies arrive by a rule; returns all replies that clients made, arrived or not."""
    made = []
    for _ in range(rounds):
        for name, request in server.requests().items():
            reply = clients[name].reply(request)
            if isinstance(reply, Reply):
                made.append(reply)
            if arrives(name):
                server.receive(name, reply, clients[name].signature(reply))
        server.finish_round()
    return made


def check_damage(path: Path, read: Callable[[Path], Any], *, times: int = 300) -> None:
    """A file with flipped, lost, doubled or foreign bytes is refused in words, or is read as what was written."""
    good = path.read_bytes()
    written = digest(plain(vars(read(path))))
    rng = np.random.default_rng(len(good))
    refused = 0
    for _ in range(times):
        first, last = sorted(rng.integers(0, len(good), 2).tolist())
        flipped = bytes([good[first] ^ 1 << int(rng.integers(8))])
        path.write_bytes(
            (
                good[:first] + flipped + good[first + 1 :],
                good[:first] + good[last:],
                good[:last] + good[first:],
                good[:first] + rng.bytes(last - first) + good[last:],
            )[int(rng.integers(4))]
        )
        try:
            found = vars(read(path))
        except (ValueError, TypeError):
            refused += 1
        else:
            assert digest(plain(found)) == written
    path.write_bytes(good)
    assert refused > times / 2
