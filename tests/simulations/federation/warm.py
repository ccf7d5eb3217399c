"""Loads all that a client and a server need, by a round of a small federation; for processes that are to start fast."""

import tempfile
from pathlib import Path

import numpy as np

from corrnoise.simulations.federation.server import FederatedServer
from tests.simulations.federation.federations import client_of, plan_of, run_rounds

for _trust in ("local", "central"):
    with tempfile.TemporaryDirectory() as _folder:
        _plan = plan_of(trust=_trust)
        _clients = {name: client_of(_plan, name, Path(_folder) / name) for name in ("a", "b")}
        _server = FederatedServer(_plan, list(_clients), Path(_folder) / "server", rng=np.random.default_rng(0))
        run_rounds(_server, _clients, 1)
        _server.close()
