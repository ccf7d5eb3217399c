"""The states of machines and of a server on disk: each file is whole or not there, and a damaged one is refused.

A state of a machine is as secret as its data.  A state of the server holds nothing that the server has not seen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from corrnoise.simulations.noise_cancellation.machine import MachineState
from corrnoise.simulations.noise_cancellation.protocol import Message
from corrnoise.simulations.noise_cancellation.server import ServerState
from corrnoise.support.files import whole_files

SERVER_FILE = "server.npz"


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


def _read(path: Path) -> dict[str, Any]:
    with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


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
        values = _read(path)
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


def write_server(folder: str | Path, state: ServerState) -> None:
    """Write the state of a server to ``folder``, whole or not at all."""
    values = {f.name: getattr(state, f.name) for f in fields(state)}
    values["generators"] = json.dumps(state.generators)
    with whole_files(folder) as staging:
        np.savez(staging / SERVER_FILE, **values)


def read_server(folder: str | Path) -> ServerState | None:
    """The state of a server as it was written last; None where there is none.

    Raises
    ------
    ValueError
        The file is damaged.
    """
    path = Path(folder, SERVER_FILE)
    if not path.exists():
        return None
    try:
        values = _read(path)
        first, second = json.loads(str(values.pop("generators")))
        values |= {name: int(values[name]) for name in ("round", "refused")} | {"run": str(values["run"])}
        return ServerState(generators=(first, second), **values)
    except Exception as error:
        raise ValueError(f"state must be one that write_server wrote, got the damaged file {path}") from error
