"""A whole run in one process: the server and its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.noise_cancellation.machine import Machine
from corrnoise.simulations.noise_cancellation.protocol import Message, Protocol, Refusal, Request
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

Examples = tuple[Array, Array]  #: features and targets of one machine


class MachineHost:
    """Machines in the memory of one process, from the beginning of a run; each by its number has features and targets.

    All draw their noise from the ``seed``, or with None from the operating system.
    """

    def __init__(self, protocol: Protocol, examples: Mapping[int, Examples], *, seed: int | None) -> None:
        secret = np.random.SeedSequence(seed).entropy
        self.machines = {index: Machine(protocol, index, *held, seed=secret) for index, held in examples.items()}

    def answer(self, requests: Mapping[int, Request]) -> dict[int, tuple[Message, ...] | Refusal]:
        """The replies of the machines that are asked."""
        return {index: self.machines[index].reply(request) for index, request in requests.items()}


@dataclass(frozen=True, eq=False)
class FederatedResult:
    """The result of a run."""

    point: Array  #: x_T, shape (d,); the average of the iterates of projected SGD
    refusals: int  #: how often a machine was asked that takes part no more
    participations: NDArray[np.int64]  #: messages of each machine that the server has received, shape (M,)


def split_examples(features: Array, targets: Array, machines: int) -> list[Examples]:
    """Deal examples out to machines in turn: machine i has the examples i, i + M, i + 2M, …, of at least M in all."""
    machines = checks.integer("machines", machines, 1)
    if len(targets) < machines:
        raise ValueError(f"targets must have at least one example a machine, {machines}, got {len(targets)}")
    return [(features[i::machines], targets[i::machines]) for i in range(machines)]


def check_examples(protocol: Protocol, examples: Sequence[Examples]) -> None:
    """Refuse data that leave a machine without an example, or another number of machines."""
    if len(examples) != protocol.machines:
        raise ValueError(f"examples must be of {protocol.machines} machines, got {len(examples)}")
    empty = [index for index, (_, targets) in enumerate(examples) if len(targets) == 0]
    if empty:
        raise ValueError(f"examples must have at least one example of each machine, got none of machine {empty[0]}")


def result_of(server: Server) -> FederatedResult:
    """The result of the run of a server that has finished."""
    return FederatedResult(
        point=server.output.copy(),
        refusals=server.refused,
        participations=server.received.copy(),
    )


def simulate_federation(
    protocol: Protocol,
    examples: Sequence[Examples],
    *,
    seed: int,
    start: Array | None = None,
) -> FederatedResult:
    """Run a protocol on data.

    Raises ``ValueError`` where a machine has no example, or an example is beyond the bounds of the loss.

    Parameters
    ----------
    protocol : the public parameters
    examples : features and targets of each machine; machines may have different numbers of them
    seed : of the schedule and of all noise, an integer >= 0.  A simulation: a run whose noise has a known seed is not
        private.
    start : x_1, in the ball; None for 0
    """
    check_examples(protocol, examples)
    server = Server(protocol, seed=[checks.seed("seed", seed), 0], start=start)
    host = MachineHost(protocol, dict(enumerate(examples)), seed=seed)
    while not server.finished:
        for reply in host.answer(server.requests()).values():
            server.receive(reply)
        server.finish_round()
    return result_of(server)
