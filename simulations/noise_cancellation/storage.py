"""The states of machines and of a server on disk: each file is whole or not there, and a damaged one is refused.

A state of a machine is as secret as its data.  A state of the server holds nothing that the server has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from corrnoise.simulations.noise_cancellation.machine import MachineState
from corrnoise.simulations.noise_cancellation.protocol import Message
from corrnoise.simulations.noise_cancellation.server import ServerState
from corrnoise.support.files import whole_files
from corrnoise.support.serialise import by_name, load, save

SERVER_FILE = "server.npz"

_KINDS = by_name(MachineState, Message, ServerState)
_LIMITS: dict[str, Any] = {"most_bytes": 2**33, "most_entries": 2**30}  # of models with 10⁸ parameters
State = TypeVar("State", MachineState, ServerState)


def write_states(folder: str | Path, states: Sequence[MachineState]) -> None:
    """Write machine states to ``folder``, one file a machine, each whole or not at all."""
    with whole_files(folder) as staging:
        for state in states:
            save(state, staging / _name(state.machine), _KINDS, **_LIMITS)


def _name(machine: int) -> str:
    return f"machine-{machine}.npz"


def _read(path: Path, kind: type[State]) -> State | None:
    if not path.exists():
        return None
    state = load(path, _KINDS, **_LIMITS)
    if not isinstance(state, kind):
        raise ValueError(f"{path} must hold a {kind.__name__}, got {type(state).__name__}")
    return state


def read_state(folder: str | Path, machine: int) -> MachineState | None:
    """The state of a machine as it was written last; None where there is none.

    Raises ``ValueError`` where the file is damaged.
    """
    return _read(Path(folder, _name(machine)), MachineState)


def write_server(folder: str | Path, state: ServerState) -> None:
    """Write the state of a server to ``folder``, whole or not at all."""
    save(state, Path(folder, SERVER_FILE), _KINDS, **_LIMITS)


def read_server(folder: str | Path) -> ServerState | None:
    """The state of a server as it was written last; None where there is none.

    Raises ``ValueError`` where the file is damaged.
    """
    return _read(Path(folder, SERVER_FILE), ServerState)
