"""Hosts: processes that hold machines, keep their states on disk, and answer the server's requests.

The simulator has one host in its own process, a distributed run has many.  A host writes the states of its machines to
its own folder before any message leaves it.  If it is killed, another host with the same folder goes on: a machine that
had answered a round answers it with the same message, and a machine whose state is gone begins a new segment of noise.

The folder is the machines' own.  It holds their secrets in the clear, and the server must not read it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from corrnoise.simulations.noise_cancellation.machine import Machine, MachineState
from corrnoise.simulations.noise_cancellation.protocol import Message, Protocol, Refusal, Request
from corrnoise.support.files import whole_files
from corrnoise.theory.numerics.checks import Array

Examples = tuple[Array, Array]  # features and targets of one machine
Replies = dict[int, "tuple[Message, ...] | Refusal"]


def write_states(folder: str | Path, states: Sequence[MachineState]) -> None:
    """Write machine states to ``folder``, one file a machine, each whole or not at all."""
    with whole_files(folder) as staging:
        for state in states:
            values: dict[str, Any] = {f.name: getattr(state, f.name) for f in fields(state) if f.name != "outbox"}
            values = {name: value for name, value in values.items() if value is not None}
            values["outbox_numbers"] = np.array([[m.number, m.round] for m in state.outbox], dtype=np.int64)
            values["outbox_corrections"] = np.array([m.correction for m in state.outbox])
            np.savez(staging / _name(state.machine), **values)


def _name(machine: int) -> str:
    return f"machine-{machine}.npz"


def read_state(folder: str | Path, machine: int) -> MachineState | None:
    """The state of a machine as it was written last; None where there is none.

    Raises
    ------
    ValueError
        The file is damaged.
    """
    path = Path(folder, _name(machine))
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as held:
            values = {name: held[name] for name in held.files}
        numbers, corrections = values.pop("outbox_numbers"), values.pop("outbox_corrections")
        run, secret = str(values.pop("run")), str(values.pop("secret"))
        given: dict[str, Any] = {name: int(value) if value.ndim == 0 else value for name, value in values.items()}
        outbox = tuple(
            Message(run, given["machine"], int(number), int(t), correction)
            for (number, t), correction in zip(numbers.reshape(-1, 2), corrections, strict=True)
        )
        return MachineState(run=run, secret=secret, outbox=outbox, **given)
    except Exception as error:
        raise ValueError(f"state must be one that write_states wrote, got the damaged file {path}") from error


class MachineHost:
    """The machines of one process.

    Parameters
    ----------
    protocol
        The public parameters.
    examples
        The features and targets of each machine, by its number.
    seed
        The secret that all machines of this host derive their noise from; None draws one from the operating system.
    folder
        Where their states are kept; None keeps them in memory only.
    asked
        For how many rounds the server has asked each machine, by its number; None at the beginning of a run.
    unanswered
        The machines whose last request the server will repeat, having no answer.
    """

    def __init__(
        self,
        protocol: Protocol,
        examples: Mapping[int, Examples],
        *,
        seed: int | None,
        folder: str | Path | None = None,
        asked: Mapping[int, int] | None = None,
        unanswered: Collection[int] = (),
    ) -> None:
        self._folder = None if folder is None else Path(folder)
        secret = np.random.SeedSequence(seed).entropy
        self.machines: dict[int, Machine] = {}
        for index, (features, targets) in examples.items():
            if asked is None:
                self.machines[index] = Machine(protocol, index, features, targets, seed=secret)
                continue
            self.machines[index] = Machine.restored(
                protocol,
                index,
                features,
                targets,
                seed=secret,
                state=None if self._folder is None else read_state(self._folder, index),
                asked=asked[index],
                unanswered=index in unanswered,
            )

    def answer(self, requests: Mapping[int, Request]) -> Replies:
        """The replies of the machines, whose states are on disk when this returns."""
        replies: Replies = {index: self.machines[index].reply(request) for index, request in requests.items()}
        if self._folder is not None:
            write_states(self._folder, [self.machines[index].state for index in requests])
        return replies
