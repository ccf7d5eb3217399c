"""The same run over processes, on this machine or on a cluster, by Dask.

    python -m corrnoise.simulations.noise_cancellation.distributed
    python -m corrnoise.simulations.noise_cancellation.distributed --cluster tcp://address:8786 --folder /shared/folder

The server is this process.  The machines are in groups, each with a folder, and in every round each group that is asked
is a task: read the states, answer, write the states.  Tasks and not actors, because a task of this kind can be
repeated: Dask itself runs the tasks of a killed worker again elsewhere, and they give the same messages.  An actor
would be lost with its worker, and with it the noise of its machines.  The folders must be visible to all workers.

For equal seeds the result is that of ``simulate_federation``, bit by bit among processors of one kind.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corrnoise.simulations.noise_cancellation.hosts import Examples, answer_from_folder, prepare_folder
from corrnoise.simulations.noise_cancellation.protocol import Protocol
from corrnoise.simulations.noise_cancellation.run import FederatedResult, check_examples, result_of
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.theory.numerics import checks

_PATIENCE = 60.0  # seconds for a scheduler and its first worker to answer
_KILLS = 100  # workers that may die under one task before it counts as failed


@contextmanager
def _connected(cluster: str | None, workers: int) -> Iterator[Any]:
    """A Dask client, of the scheduler at an address or of processes on this machine."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "a distributed run needs Dask, which the extra brings: pip install 'corrnoise[cluster]'"
        ) from error
    with dask.config.set({"distributed.scheduler.allowed-failures": _KILLS}):
        if cluster is None:
            with (
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local,
                Client(local, set_as_default=False) as client,
            ):
                yield client
            return
        try:
            client = Client(cluster, timeout=_PATIENCE, set_as_default=False)
        except OSError as error:
            raise OSError(f"cluster must be the address of a Dask scheduler, none answers at {cluster!r}") from error
        with client:
            client.wait_for_workers(1, timeout=_PATIENCE)
            yield client


def run_distributed(
    protocol: Protocol,
    examples: Sequence[Examples],
    *,
    seed: int,
    folder: str | Path | None = None,
    cluster: str | None = None,
    workers: int = 2,
    groups: int | None = None,
    after_round: Callable[[Server, Any], None] | None = None,
) -> FederatedResult:
    """Run a protocol on data, with the machines in other processes.

    Parameters
    ----------
    protocol, examples, seed
        As in ``simulate_federation``.
    folder
        Where the groups keep their data and states, visible to all workers, without states of another run; None for a
        temporary folder of this machine.
    cluster
        The address of a Dask scheduler; None starts ``workers`` processes on this machine.
    workers
        Processes to start, >= 1.
    groups
        Groups of machines, each one task a round, >= 1; None for as many as ``workers``.
    after_round
        Called with the server and the Dask client after each round.

    Returns
    -------
    FederatedResult
        Equal to that of ``simulate_federation`` with the same seed.

    Raises
    ------
    ValueError
        The folder has states of another run, or the data are refused as by ``simulate_federation``.
    """
    check_examples(protocol, examples)
    workers = checks.integer("workers", workers, 1)
    count = min(protocol.machines, workers if groups is None else checks.integer("groups", groups, 1))
    server = Server(protocol, seed=[checks.seed("seed", seed), 0])
    with TemporaryDirectory() as temporary, _connected(cluster, workers) as client:
        homes = [Path(temporary if folder is None else folder, f"group-{group}") for group in range(count)]
        for group, home in enumerate(homes):
            prepare_folder(home, protocol, {i: examples[i] for i in range(group, protocol.machines, count)}, seed=seed)
        while not server.finished:
            requests = server.requests()
            tasks = [
                client.submit(answer_from_folder, home, protocol, asked, pure=False)
                for group, home in enumerate(homes)
                if (asked := {index: request for index, request in requests.items() if index % count == group})
            ]
            replies = {index: reply for answered in client.gather(tasks) for index, reply in answered.items()}
            for index in requests:
                server.receive(replies[index])
            server.finish_round()
            if after_round is not None:
                after_round(server, client)
    return result_of(server, ())


def main(arguments: Sequence[str] | None = None) -> None:
    """Train softmax regression on the digits of scikit-learn, with or without a cluster, and print its accuracy."""
    from corrnoise.simulations.noise_cancellation.digits import digits, digits_protocol

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cluster", help="address of a Dask scheduler; without it, processes on this machine")
    parser.add_argument("--folder", help="folder for the states of the machines, visible to all workers")
    parser.add_argument("--workers", type=int, default=2, help="processes to start without a cluster")
    parser.add_argument("--rho", type=float, default=8.0, help="budget of zero-concentrated differential privacy")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    data = digits(machines=20)
    protocol = digits_protocol(data, participants=10, rho=chosen.rho)
    result = run_distributed(
        protocol, data.training, seed=chosen.seed, folder=chosen.folder, cluster=chosen.cluster, workers=chosen.workers
    )
    print(f"accuracy {protocol.loss.accuracy(result.point, *data.test):.3f} after {protocol.rounds} rounds")


if __name__ == "__main__":
    main()
