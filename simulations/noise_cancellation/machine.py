"""A machine of the simulator: its data and its noise.

A machine uses its examples in order, one a participation, and never again.  Its noise is drawn anew for every
participation from a secret seed, the number of the machine and the participation, so a run can be
repeated.

**Dropping out.**  A message is kept until the server acknowledges it, and sent again with the next one.  A machine that
is asked twice in a round sends the same message twice, and the server counts it once.

Noise from a seed is for simulations alone: ``federation`` has clients whose noise is fresh after every crash.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corrnoise.simulations.noise_cancellation import messages
from corrnoise.simulations.noise_cancellation.protocol import Message, Protocol, Refusal, Request
from corrnoise.simulations.run.guard import Guarded
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array


@dataclass(frozen=True, eq=False)
class MachineState:
    """All that a machine must keep, secret, between its participations; arrays and messages are never changed."""

    #: whose state it is
    run: str
    machine: int
    secret: str  #: what all noise of the machine is drawn from
    participations: int  #: the number of examples used
    #: how many rounds the machine had been asked for, and the last one that it answered
    asked: int
    last_round: int
    #: what the next noise needs, at unit scale: ``messages.vectors`` says how many vectors, shape (vectors, d)
    noise: Array
    outbox: tuple[Message, ...] = ()  #: messages that the server has not acknowledged
    #: of the algorithm ``"delayed"``: the round and query point of the last participation, and q_{t,i}
    own_round: int = 0
    own_point: Array | None = None
    own_sum: Array | None = None


class Machine(Guarded):
    """One machine of a run.

    Parameters
    ----------
    protocol : the public parameters
    index : the number of the machine, 0 <= index < M
    features, targets : its data, shapes (n, k) and (n,); machines may have different n
    seed : the secret of the machine, an integer >= 0 or a sequence of such; None draws one from the operating system
    state : where to continue; None for the beginning
    """

    def __init__(
        self,
        protocol: Protocol,
        index: int,
        features: Array,
        targets: Array,
        *,
        seed: int | Sequence[int] | None = None,
        state: MachineState | None = None,
    ) -> None:
        super().__init__()
        self.protocol = checks.instance("protocol", protocol, Protocol)
        self.index = checks.integer("index", index, 0)
        if index >= protocol.machines:
            raise ValueError(f"index must be below the number of machines, {protocol.machines}, got {index}")
        self._features, self._targets = protocol.loss.checked_examples(features, targets)
        self._secret = json.dumps(np.random.SeedSequence(seed).entropy)
        self.state = self._beginning() if state is None else self._own(state)

    def _own(self, state: MachineState) -> MachineState:
        """``state``, if it is one of this machine in this run."""
        checks.instance("state", state, MachineState)
        for name, theirs, ours in (
            ("run", state.run, self.protocol.run),
            ("machine", state.machine, self.index),
            ("dimension", state.noise.shape[1], self.protocol.loss.dimension),
            ("memory", state.noise.shape[0], self._kept(state.participations)),
        ):
            if theirs != ours:
                raise ValueError(f"state must be of {name} {ours!r}, got a state of {name} {theirs!r}")
        return state

    def _kept(self, participations: int) -> int:
        """The vectors of noise in a state after so many participations."""
        protocol = self.protocol
        if protocol.noise is None:
            return 0
        silent = protocol.std == 0.0 or protocol.algorithm in ("trusted", "gradients")
        return messages.vectors(protocol.noise, 0 if silent else participations)

    def _beginning(self) -> MachineState:
        return MachineState(
            run=self.protocol.run,
            machine=self.index,
            secret=self._secret,
            participations=0,
            asked=0,
            last_round=0,
            noise=self._first_noise(),
        )

    def _first_noise(self) -> Array:
        """The memory before the first participation."""
        protocol = self.protocol
        d = protocol.loss.dimension
        return np.zeros((0, d)) if protocol.noise is None else messages.start(protocol.noise, d)

    @property
    def remaining(self) -> int:
        """Participations that are left: by the cap and by the data."""
        return min(self.protocol.uses, len(self._targets)) - self.state.participations

    # -- one round -----------------------------------------------------------------------------------------------------

    def reply(self, request: Request) -> tuple[Message, ...] | Refusal:
        """All messages that the server has not acknowledged, the one of this round the last; or a refusal.

        The state of the machine has changed when this returns: save it before the messages leave.
        Raises ``ValueError`` where the request is of another run, or of a round before the last one that was answered
        or after the run.
        """
        with self._alone():
            return self._reply(request)

    def _reply(self, request: Request) -> tuple[Message, ...] | Refusal:
        """The reply, while no other thread uses the machine."""
        if request.run != self.protocol.run:
            raise ValueError(f"request must be of run {self.protocol.run!r}, got one of run {request.run!r}")
        state = self.state
        first, last = max(1, state.last_round), self.protocol.rounds
        if not first <= request.round <= last:
            raise ValueError(f"request must be of a round in [{first}, {last}], got {request.round}")
        if request.round == state.last_round:
            return state.outbox
        if self.remaining <= 0:
            self.state = replace(state, asked=request.asked)  # so that the state stays up to date
            return Refusal(self.protocol.run, self.index, request.round)
        correction, own = self._correction(request)
        k = state.participations + 1
        with self._making():
            noise, kept = self._noise(k)
        message = Message(self.protocol.run, self.index, k, request.round, correction + noise)
        message.correction.setflags(write=False)
        unacknowledged = tuple(m for m in state.outbox if m.number > request.acknowledged)
        self.state = replace(
            state,
            participations=k,
            asked=request.asked,
            last_round=request.round,
            noise=kept,
            outbox=(*unacknowledged, message),
            **own,
        )
        return self.state.outbox

    def _correction(self, request: Request) -> tuple[Array, dict[str, Any]]:
        """The guarded message of the machine without noise, from its next example, and the part of it that is kept."""
        state, protocol = self.state, self.protocol
        a = self._features[state.participations]
        y = float(self._targets[state.participations])
        gradient = protocol.loss.gradients
        if protocol.algorithm == "gradients":
            return protocol.guarded(gradient(request.current, a, y), request), {}
        t = request.round
        if protocol.algorithm == "delayed":
            own = t * gradient(request.current, a, y)
            if state.own_point is not None and state.own_sum is not None:
                own = state.own_sum + own - state.own_round * gradient(state.own_point, a, y)
            return own, {"own_round": t, "own_point": request.current.copy(), "own_sum": own}
        before = (t - 1) * gradient(request.previous, a, y) if t > 1 else 0.0
        return protocol.guarded(t * gradient(request.current, a, y) - before, request), {}

    def _fresh(self, participation: int) -> Array:
        key = (self.index, 0, participation)
        sequence = np.random.SeedSequence(json.loads(self.state.secret), spawn_key=key)
        return np.random.Generator(np.random.PCG64(sequence)).standard_normal(self.protocol.loss.dimension)

    def _noise(self, participation: int) -> tuple[Array, Array]:
        """The noise of the next message, and the vectors to keep."""
        protocol = self.protocol
        kept = self.state.noise
        if protocol.noise is None or protocol.std == 0.0 or protocol.algorithm == "trusted":
            return np.zeros(protocol.loss.dimension), kept
        if protocol.algorithm == "gradients":
            return protocol.std * self._fresh(participation), kept
        noise, kept = messages.step(protocol.noise, kept, self._fresh(participation), participation)
        return protocol.std * noise, kept
