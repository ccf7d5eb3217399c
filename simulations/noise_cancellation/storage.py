"""The states of machines and of a server on disk: each file is whole or not there, and a damaged one is refused.

A state of a machine is as secret as its data.  A state of the server holds nothing that the server has not seen.  Only
the user may read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from corrnoise.simulations.noise_cancellation.machine import MachineState
from corrnoise.simulations.noise_cancellation.protocol import Message
from corrnoise.simulations.noise_cancellation.server import ServerState
from corrnoise.support.reading import LARGE, json_value
from corrnoise.support.serialise import by_name, load, save
from corrnoise.theory.numerics import checks

SERVER_FILE = "server.npz"

_KINDS = by_name(MachineState, Message, ServerState)
State = TypeVar("State", MachineState, ServerState)


def write_states(folder: str | Path, states: Sequence[MachineState]) -> None:
    """Write machine states to ``folder``, one file a machine, each whole or not at all."""
    for state in states:
        save(state, Path(folder, _name(state.machine)), _KINDS, most_bytes=LARGE, secret=True)


def _name(machine: int) -> str:
    return f"machine-{machine}.npz"


def _read(path: Path, kind: type[State]) -> State | None:
    if not path.exists():
        return None

    def check(state: object) -> State:
        if not isinstance(state, kind):
            raise ValueError(f"it must hold a {kind.__name__}, got {type(state).__name__}")
        if isinstance(state, MachineState):
            _check_machine(state)
        else:
            _check_server(state)
        return state

    found: State = load(path, _KINDS, most_bytes=LARGE, check=check)
    return found


def _check_counts(one: object, names: Sequence[str]) -> None:
    for name in names:
        checks.integer(name, getattr(one, name), 0, largest=2**62)


def _check_vectors(one: object, names: Sequence[str], axes: int) -> int:
    """Refuse arrays that are not finite floats with so many axes and one dimension d, which is returned."""
    dimensions = set()
    for name in names:
        value = getattr(one, name)
        if not isinstance(value, np.ndarray) or value.dtype != float or value.ndim != axes:
            raise ValueError(f"{name} must be an array of floats with {axes} axes, got {value!r:.80}")
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite")
        dimensions.add(value.shape[-1])
    if len(dimensions) > 1:
        raise ValueError(f"{', '.join(names)} must have one dimension, got {sorted(dimensions)}")
    return int(dimensions.pop())


def _check_machine(state: MachineState) -> None:
    """Refuse a state that no machine has written."""
    _check_counts(state, ("machine", "segment", "participations", "asked", "last_round", "own_round"))
    np.random.SeedSequence(json_value(checks.instance("secret", state.secret, str).encode()))
    checks.instance("run", state.run, str)
    d = _check_vectors(state, ("noise",), 2)
    if (state.own_point is None) != (state.own_sum is None):
        raise ValueError("own_point and own_sum must be there both or not at all")
    if state.own_point is not None and _check_vectors(state, ("own_point", "own_sum"), 1) != d:
        raise ValueError(f"own_point must have dimension {d}, got {state.own_point.size}")
    last = 0
    for message in checks.instance("outbox", state.outbox, tuple):
        _check_counts(checks.instance("message", message, Message), ("machine", "number", "round"))
        if (message.run, message.machine) != (state.run, state.machine) or message.round > state.last_round:
            raise ValueError("outbox must hold messages of this machine and run, of rounds that were answered")
        if _check_vectors(message, ("correction",), 1) != d or not last < message.number <= state.used:
            raise ValueError(f"outbox must hold messages of dimension {d} about examples that were used, in order")
        last = message.number


def _check_server(state: ServerState) -> None:
    """Refuse a state that no server has written."""
    checks.instance("run", state.run, str)
    _check_counts(state, ("round", "refused"))
    _check_vectors(state, ("current", "previous", "iterate", "estimate", "average"), 1)
    for name in ("asked", "acknowledged", "received"):
        value = getattr(state, name)
        if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.shape != state.asked.shape:
            raise ValueError(f"{name} must be an array of integers, one a machine, got {value!r:.80}")
        if value.ndim != 1 or (value < 0).any():
            raise ValueError(f"{name} must be a vector of numbers >= 0, got {value!r:.80}")
    first, second = state.generators
    for described in (first, second):
        _check_generator(described)


def _check_generator(described: Mapping[str, Any]) -> None:
    made: Any = np.random.PCG64(0)
    made.state = described
    if made.state != described:
        raise ValueError(f"generators must hold states of PCG64, got {described!r:.80}")


def read_state(folder: str | Path, machine: int) -> MachineState | None:
    """The state of a machine as it was written last; None where there is none.

    Raises ``ValueError`` where the file is damaged.
    """
    return _read(Path(folder, _name(machine)), MachineState)


def write_server(folder: str | Path, state: ServerState) -> None:
    """Write the state of a server to ``folder``, whole or not at all; in a trusted run it holds noise to come."""
    save(state, Path(folder, SERVER_FILE), _KINDS, most_bytes=LARGE, secret=True)


def read_server(folder: str | Path) -> ServerState | None:
    """The state of a server as it was written last; None where there is none.

    Raises ``ValueError`` where the file is damaged.
    """
    return _read(Path(folder, SERVER_FILE), ServerState)
