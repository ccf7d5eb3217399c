"""The server: it draws the machines of a round, adds up what they send, and moves the query point.

It is honest but curious: everything that it sees are ``Message`` objects.  Machines are drawn uniformly without
replacement, independently of the data, which is what makes the rounds of participation public.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corrnoise.simulations.noise_cancellation.protocol import Message, Protocol, Refusal, Request
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array


class Server:
    """The server of a run, between the rounds t = 1, …, T.

    ``seed`` is that of the schedule, and of the noise of a trusted server; None for one of the operating system.  x_1 =
    w_1 is ``start``, in the ball; None for 0.
    """

    def __init__(self, protocol: Protocol, *, seed: int | Sequence[int] | None, start: Array | None = None) -> None:
        self.protocol = checks.instance("protocol", protocol, Protocol)
        d = protocol.loss.dimension
        first = np.zeros(d) if start is None else checks.shaped("start", start, (d,))
        if np.linalg.norm(first) > protocol.diameter / 2 * (1 + 1e-12):
            raise ValueError(f"start must have a norm in [0, {protocol.diameter / 2!r}], got {np.linalg.norm(first)!r}")
        self._rng, self._noise_rng = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
        self.round = 1
        self.current = first.copy()
        self.previous = first.copy()
        self.iterate = first.copy()
        self.estimate = np.zeros(d)
        self.asked = np.zeros(protocol.machines, dtype=np.int64)
        self.acknowledged = np.zeros(protocol.machines, dtype=np.int64)
        self.received = np.zeros(protocol.machines, dtype=np.int64)
        self.refused = 0
        self._sum = np.zeros(d)
        self.average = np.zeros(d)

    # -- one round -----------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all T rounds are over."""
        return self.round > self.protocol.rounds

    def requests(self) -> dict[int, Request]:
        """The request to each machine of the round, drawn or of the schedule, by the number of the machine."""
        protocol = self.protocol
        if self.finished:
            raise ValueError(f"round must lie in [1, {protocol.rounds}], got {self.round}: the run is over")
        if protocol.schedule is None:
            chosen = np.sort(self._rng.choice(protocol.machines, protocol.participants, replace=False))
        else:
            chosen = np.array(protocol.schedule[self.round - 1])
        self.asked[chosen] += 1
        return {int(machine): self._request(int(machine)) for machine in chosen}

    def _request(self, machine: int) -> Request:
        return Request(
            self.protocol.run,
            self.round,
            self.current,
            self.previous,
            int(self.asked[machine]),
            int(self.acknowledged[machine]),
        )

    def receive(self, reply: tuple[Message, ...] | Refusal) -> None:
        """Take what a machine sent: new messages into the sum of this round, those that were seen before not at all.

        Raises ``ValueError`` where a message is of another run, from a machine that was not asked, or for a round that
        is yet to come.
        """
        if isinstance(reply, Refusal):
            self.refused += 1
            return
        for message in reply:
            if message.run != self.protocol.run:
                raise ValueError(f"message must be of run {self.protocol.run!r}, got one of run {message.run!r}")
            if not 0 <= message.machine < self.protocol.machines or self.asked[message.machine] == 0:
                raise ValueError(f"message must come from a machine that was asked, got one from {message.machine}")
            if message.round > self.round:
                raise ValueError(f"message must be of a round in [1, {self.round}], got {message.round}")
            if message.number > self.acknowledged[message.machine]:
                self._sum += checks.shaped("correction", message.correction, self._sum.shape)
                self.acknowledged[message.machine] = message.number
                self.received[message.machine] += 1

    def finish_round(self) -> None:
        """Move w and x by what has arrived; machines that dropped out are missing from the sum."""
        protocol, t = self.protocol, self.round
        mean = self._sum / protocol.participants
        self._sum = np.zeros_like(mean)
        if protocol.algorithm in ("gradients", "delayed"):
            self.estimate = mean
        else:
            self.estimate = self.estimate + mean
        seen = self.estimate
        if protocol.algorithm == "trusted" and protocol.std > 0:
            seen = seen + protocol.std * self._noise_rng.standard_normal(mean.size)
        self.iterate = protocol.projected(self.iterate - protocol.learning_rate * seen)
        self.round = t + 1
        if self.finished and protocol.algorithm != "gradients":
            return  # the output is x_T
        self.previous = self.current
        if protocol.algorithm == "gradients":
            self.average += (self.current - self.average) / t
            self.current = self.iterate
        else:
            self.current = self.current + 2 / (t + 2) * (self.iterate - self.current)

    @property
    def output(self) -> Array:
        """x_T, or the average of all iterates of projected SGD."""
        return self.average if self.protocol.algorithm == "gradients" else self.current
