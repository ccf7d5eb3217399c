"""Where machines live: in the memory of one process, or as folders on disks that any process can go on from.

The simulator has a ``MachineHost``.  A distributed run has a folder for each group of machines, with their examples and
their states.  ``answer_from_folder`` reads a state, answers, and writes the state before any message leaves.  So it may
be killed at any moment and called again, here or elsewhere, with the same requests: a machine that had answered them
answers the same, one that had not answers now, and one whose state is gone begins a new segment of noise.

The folder is the machines' own.  It holds their data and secrets in the clear, and the server must not read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from corrnoise.simulations.noise_cancellation.machine import Machine
from corrnoise.simulations.noise_cancellation.protocol import Message, Protocol, Refusal, Request
from corrnoise.simulations.noise_cancellation.storage import read_state, write_states
from corrnoise.support.files import whole_files
from corrnoise.support.reading import LARGE, archive, array, guarded, read_bytes
from corrnoise.theory.numerics.checks import Array

Examples = tuple[Array, Array]  # features and targets of one machine
Replies = dict[int, "tuple[Message, ...] | Refusal"]


class MachineHost:
    """Machines in the memory of one process, from the beginning of a run; each by its number has features and targets.

    All draw their noise from the ``seed``, or with None from the operating system.
    """

    def __init__(self, protocol: Protocol, examples: Mapping[int, Examples], *, seed: int | None) -> None:
        secret = np.random.SeedSequence(seed).entropy
        self.machines = {index: Machine(protocol, index, *held, seed=secret) for index, held in examples.items()}

    def answer(self, requests: Mapping[int, Request]) -> Replies:
        """The replies of the machines that are asked."""
        return {index: self.machines[index].reply(request) for index, request in requests.items()}


# -- folders -----------------------------------------------------------------------------------------------------------


def _examples(folder: Path, machine: int) -> Examples:
    path = folder / f"examples-{machine}.npz"
    data = read_bytes(path, LARGE)
    with guarded(path):
        members = archive(data)
        return array(members["features.npy"]), array(members["targets.npy"])


def prepare_folder(
    folder: str | Path, protocol: Protocol, examples: Mapping[int, Examples], *, seed: int | None
) -> None:
    """Write the examples and the first states of a group of machines to ``folder``, which is made.

    Raises ``ValueError`` where the folder has states already: to begin again would repeat noise.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if found := sorted(folder.glob("machine-*.npz")):
        raise ValueError(f"folder must have no states of machines, got {found[0]}")
    host = MachineHost(protocol, examples, seed=seed)
    with whole_files(folder, secret=True) as staging:
        for index, (features, targets) in examples.items():
            np.savez(staging / f"examples-{index}.npz", features=features, targets=targets)
    write_states(folder, [machine.state for machine in host.machines.values()])


def answer_from_folder(folder: str | Path, protocol: Protocol, requests: Mapping[int, Request]) -> Replies:
    """The replies of machines whose data and states are in ``folder``; their states are on disk when this returns."""
    folder = Path(folder)
    machines = {
        index: Machine.restored(
            protocol,
            index,
            *_examples(folder, index),
            state=read_state(folder, index),
            asked=request.asked,
            unanswered=True,
        )
        for index, request in requests.items()
    }
    replies: Replies = {index: machines[index].reply(request) for index, request in requests.items()}
    write_states(folder, [machine.state for machine in machines.values()])
    return replies
