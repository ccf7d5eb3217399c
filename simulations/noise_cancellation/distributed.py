"""The same run over processes, on this machine or on a cluster, by Dask: ``corrnoise federate``.

The server is this process.  The machines are in groups, each with a folder, and in every round each group that is asked
is a task: read the states, answer, write the states.  Tasks and not actors, because a task of this kind can be
repeated: Dask itself runs the tasks of a killed worker again elsewhere, and they give the same messages.  An actor
would be lost with its worker, and with it the noise of its machines.  The folders must be visible to all workers.

The server is written to disk after every round.  A run that was killed goes on from there: it repeats the requests of
the round that was cut off, and machines that had answered them answer the same.

For equal seeds the result is that of ``simulate_federation``, bit by bit among processors of one kind.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from corrnoise.simulations.noise_cancellation.hosts import Examples, answer_from_folder, prepare_folder
from corrnoise.simulations.noise_cancellation.protocol import Protocol
from corrnoise.simulations.noise_cancellation.run import FederatedResult, check_examples, result_of
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.simulations.noise_cancellation.storage import SERVER_FILE, read_server, read_state, write_server
from corrnoise.support.cluster import client_of, require_scheduler
from corrnoise.support.files import sync_folder, unfinished_folder, write_whole
from corrnoise.support.reading import json_value, read_bytes
from corrnoise.support.serialise import digest, plain
from corrnoise.theory.numerics import checks

_KILLS = 100  # workers that may die under one task before it counts as failed
_MACHINES = "machines"
_RECORD = "run.json"


@contextmanager
def _connected(cluster: str | None, workers: int) -> Iterator[Any]:
    """A Dask client, of the scheduler at an address or of processes on this machine."""
    if cluster is not None:
        with client_of(cluster) as client:
            yield client
        return
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "a distributed run needs Dask, which the extra brings: pip install 'corrnoise[cluster]'"
        ) from error
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": _KILLS}),
        LocalCluster(
            workers,
            threads_per_worker=1,
            silence_logs=logging.CRITICAL,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any free port, for two runs at once
        ) as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


# -- the folder of a run -----------------------------------------------------------------------------------------------


def _fingerprint(protocol: Protocol, examples: Sequence[Examples], seed: int | None) -> str:
    """A digest that tells one run from another: of protocol, data and seed."""
    arrays = [np.ascontiguousarray(one, dtype=float) for both in examples for one in both]
    return digest([plain(protocol), seed, [digest(one.tobytes()) for one in arrays]])


def _homes(folder: Path, count: int) -> list[Path]:
    return [folder / _MACHINES / f"group-{group}" for group in range(count)]


def _prepare(folder: Path, protocol: Protocol, examples: Sequence[Examples], seed: int | None, count: int) -> None:
    """Make the folders of all groups; they appear together, when they are complete."""
    with unfinished_folder(folder) as staging:
        for group, home in enumerate(_homes(staging, count)):
            prepare_folder(home, protocol, {i: examples[i] for i in range(group, protocol.machines, count)}, seed=seed)
        record = {"fingerprint": _fingerprint(protocol, examples, seed), "groups": count}
        write_whole(staging / _MACHINES / _RECORD, json.dumps(record) + "\n")
        (staging / _MACHINES).chmod(0o700)
        (staging / _MACHINES).rename(folder / _MACHINES)
        sync_folder(folder)


def _opened(
    folder: Path, protocol: Protocol, examples: Sequence[Examples], seed: int | None, count: int
) -> tuple[list[Path], Server]:
    """The groups of a run and its server, new or as they were when the run was stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    held = read_server(folder)
    if not (folder / _MACHINES).exists():
        if held is not None:
            raise ValueError(f"folder must have the machines of its run, got {folder} with {SERVER_FILE} alone")
        _prepare(folder, protocol, examples, seed, count)
    try:
        record = json_value(read_bytes(folder / _MACHINES / _RECORD))
        fingerprint, count = str(record["fingerprint"]), int(record["groups"])
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"folder must be new or that of a run, got {folder} with other files") from error
    if fingerprint != _fingerprint(protocol, examples, seed):
        raise ValueError(
            f"folder must be new or of the same protocol, data and seed, got that of another run, {folder}"
        )
    homes = _homes(folder, count)
    if held is not None:
        return homes, Server.restored(protocol, held)
    states = [read_state(home, i) for group, home in enumerate(homes) for i in range(group, protocol.machines, count)]
    if any(state is None or state.asked for state in states):
        raise ValueError(
            f"folder must have the {SERVER_FILE} of its run once a machine has answered, got {folder} without it:"
            " to begin again would use examples again"
        )
    server = Server(protocol, seed=None if seed is None else [seed, 0])
    write_server(folder, server.state())  # before the first request, which a run that is cut off must repeat
    return homes, server


# -- the run -----------------------------------------------------------------------------------------------------------


def run_distributed(
    protocol: Protocol,
    examples: Sequence[Examples],
    *,
    seed: int | None,
    folder: str | Path | None = None,
    cluster: str | None = None,
    workers: int = 2,
    groups: int | None = None,
    after_round: Callable[[Server, Any], None] | None = None,
) -> FederatedResult:
    """Run a protocol on data, with the machines in other processes, or go on with such a run.

    Raises ``ValueError`` where the folder is that of another run, or the data are refused as by
    ``simulate_federation``.  Raises ``OSError`` where the scheduler does not answer or has no workers, or too many
    workers died; finished rounds are kept.

    Parameters
    ----------
    protocol, examples : as in ``simulate_federation``
    seed : of the schedule and of all noise, an integer >= 0, which makes the run a simulation: who knows it can take
        the noise off.  None draws both from the operating system.
    folder : where the groups keep their data and states and the server its own, visible to all workers: a new one, or
        that of the same run, which goes on after its last finished round.  None for a temporary folder of this machine.
    cluster : the address of a Dask scheduler; None starts ``workers`` processes on this machine
    workers : processes to start, >= 1
    groups : groups of machines, each one task a round, >= 1; None for as many as ``workers``.  A run that goes on keeps
        those that it has.
    after_round : called with the server and the Dask client after each round

    Returns a result equal to that of ``simulate_federation`` with the same seed.
    """
    check_examples(protocol, examples)
    workers = checks.integer("workers", workers, 1)
    count = min(protocol.machines, workers if groups is None else checks.integer("groups", groups, 1))
    seed = None if seed is None else checks.seed("seed", seed)
    if cluster is not None and folder is None:
        raise ValueError(f"folder must be one that all workers of the cluster can see, got None with {cluster!r}")
    if cluster is not None:
        require_scheduler(cluster)  # before anything is written
    with TemporaryDirectory() as temporary:
        home = Path(temporary if folder is None else folder).resolve()
        homes, server = _opened(home, protocol, examples, seed, count)
        if not server.finished:
            with _connected(cluster, workers) as client:
                while not server.finished:
                    _round(server, homes, client)
                    write_server(home, server.state())
                    if after_round is not None:
                        after_round(server, client)
    return result_of(server)


def _round(server: Server, homes: Sequence[Path], client: Any) -> None:
    """One round: a task for each group that is asked."""
    from distributed import KilledWorker

    requests = server.requests()
    tasks = [
        client.submit(answer_from_folder, home, server.protocol, asked, pure=False)
        for group, home in enumerate(homes)
        if (asked := {index: request for index, request in requests.items() if index % len(homes) == group})
    ]
    try:
        answered = [task.result() for task in tasks]  # an interrupted ``gather`` would print a traceback
    except KilledWorker as error:
        raise OSError(f"round {server.round} has no answer, because too many workers died: {error}") from error
    replies = {index: reply for group in answered for index, reply in group.items()}
    for index in requests:
        server.receive(replies[index])
    server.finish_round()
