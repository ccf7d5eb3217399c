"""A test bench: a federation on one machine, or over the workers of a Dask cluster that see one folder.

It is no deployment, because whoever starts it holds the data of all clients.  The clients are as in a deployment:
each has a folder of its own, and a task answers one request from the folder of one client.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from corrnoise.simulations.federation.client import FederatedClient, enrol, linear_contribution
from corrnoise.simulations.federation.messages import Refusal, Reply, Request
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.server import FederatedServer
from corrnoise.support.cluster import client_of, require_scheduler
from corrnoise.support.reading import LARGE
from corrnoise.support.serialise import load, save
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

Examples = tuple[Array, Array]  #: features and targets of one client
_DATA_FILE = "data.npz"


def _answer(plan: Plan, name: str, folder: Path, request: Request) -> tuple[Reply | Refusal, str | None]:
    """The answer of a client from its folder, and its signature."""
    features, targets = load(folder / _DATA_FILE, most_bytes=LARGE)
    loss = checks.instance("model", plan.model, LinearLoss)
    client = FederatedClient(plan, name, folder, linear_contribution(loss, features, targets))
    answer = client.reply(request)
    return answer, client.signature(answer)


def _enrolled(plan: Plan, examples: Sequence[Examples], home: Path, *, begun: bool) -> dict[str, Path]:
    """The folders of all clients; missing ones are made unless the run has ``begun``."""
    folders = {}
    for number, (features, targets) in enumerate(examples):
        name = f"client-{number}"
        folders[name] = home / name
        data = folders[name] / _DATA_FILE
        if not folders[name].exists():
            if begun:
                raise ValueError(f"folder must have all clients of its run, got none at {folders[name]}")
            enrol(plan, name, folders[name], examples=len(targets))
        if not data.exists():
            save((features, targets), data, most_bytes=LARGE, secret=True)
        held = load(data, most_bytes=LARGE)
        if not all(np.array_equal(one, other) for one, other in zip(held, (features, targets), strict=True)):
            raise ValueError(f"folder must be new or of the same data, got other data in {folders[name]}")
    return folders


def run_bench(
    plan: Plan,
    examples: Sequence[Examples],
    folder: str | os.PathLike[str],
    *,
    cluster: str | None = None,
    after_round: Callable[[FederatedServer], None] | None = None,
) -> FederatedServer:
    """Run all rounds of a plan with a linear loss, or the remaining ones in the folder of the same run.

    ``examples`` are features and targets of each client, at least ``batch`` × ``per_pass`` of them.  The folder gets a
    folder for each client and one for the server.  ``cluster`` is the address of a Dask scheduler whose workers see it;
    None answers in this process.
    """
    if cluster is not None:
        require_scheduler(cluster)  # before anything is written
    home = Path(folder)
    names = [f"client-{number}" for number in range(len(examples))]
    begun = (home / "server").exists()
    if not begun and len(names) < plan.participants:
        raise ValueError(f"participants must be at most machines, got {plan.participants} of {len(names)}")
    folders = _enrolled(plan, examples, home, begun=begun)
    server = FederatedServer(plan, names, home / "server")
    try:
        with nullcontext() if cluster is None else client_of(cluster) as workers:
            while not server.finished:
                tasks = [(name, (plan, name, folders[name], asked)) for name, asked in server.requests().items()]
                if workers is None:
                    answers = [_answer(*task) for _, task in tasks]
                else:
                    sent = [workers.submit(_answer, *task, pure=False) for _, task in tasks]
                    answers = [one.result() for one in sent]
                for (name, _), (answer, signature) in zip(tasks, answers, strict=True):
                    server.receive(name, answer, signature)
                server.finish_round()
                if after_round is not None:
                    after_round(server)
    finally:
        server.close()
    return server
