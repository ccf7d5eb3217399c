"""The server of a federated run: it takes whole replies or nothing, and goes on from its folder after a crash.

It holds nothing that clients must trust, unless the plan says ``trust="central"``: then it adds the noise itself.  Its
state is on the disk before the next requests leave, and only participations that are on the disk are acknowledged, so
a message that a crash loses comes again, merged into the next replies.  Whatever is lost, late, repeated or rejected,
the noise in its sum belongs to the acknowledged prefixes: no noise waits for its counterpart.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

from corrnoise.simulations.federation import keys
from corrnoise.simulations.federation.client import fresh_noise
from corrnoise.simulations.federation.messages import Refusal, Reply, Request, well_formed
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.rounds import moved
from corrnoise.simulations.run import owned
from corrnoise.simulations.run.engines import engine
from corrnoise.support.reading import LARGE
from corrnoise.support.serialise import by_name, load, save
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

STATE = "server.npz"
HONEST = 1e-9  #: probability that the norm of an honest reply is refused
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class ServerState:
    """All that a server must keep between two rounds; counts of clients are by name."""

    plan: str  #: identity of the plan
    round: int  #: t, the round that is open
    #: x_t, x_{t−1}, w_t and the estimate of t ∇f(x_t), shape (d,)
    current: Array
    previous: Array
    iterate: Array
    estimate: Array
    noise: Array  #: with central trust the memory of the noise, shape (rows, d)
    acknowledged: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)  #: the last round with a request to each client
    exhausted: dict[str, int] = field(default_factory=dict)  #: the round when a client had used up its participations
    refused: int = 0  #: refusals of clients
    rejected: int = 0  #: replies that were not taken


STATE_KINDS = by_name(ServerState)


class FederatedServer:
    """The server of a run, between the rounds t = 1, …, T.

    Parameters
    ----------
    plan : Plan
        The public settings.
    roster : sequence of str or dict of str to str or None
        The clients: names, or a mapping from names to public keys; replies of a client with a key must be signed.
    folder : path
        Of this server, made if it is new; a folder with a state goes on from it.  Other processes are kept out.
    start : array of float, optional
        x_1, in the ball; None for 0.
    rng : Generator, optional
        Of the schedule, which must not depend on data; None for the operating system.
    """

    def __init__(
        self,
        plan: Plan,
        roster: Sequence[str] | Mapping[str, str | None],
        folder: str | os.PathLike[str],
        *,
        start: Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.plan = checks.instance("plan", plan, Plan)
        self.roster = dict(roster) if isinstance(roster, Mapping) else dict.fromkeys(roster)
        if len(self.roster) < plan.participants:
            raise ValueError(f"roster must have at least {plan.participants} clients, got {len(self.roster)}")
        self.folder = Path(folder)
        owned.make_folder(self.folder)
        owned.check_folder(self.folder)
        try:
            self._lock = owned.locked(self.folder / "lock", "")
        except BlockingIOError as error:
            raise RuntimeError(f"folder must not be in use by another server, got {self.folder}") from error
        try:
            path = self.folder / STATE
            if path.exists():
                owned.check_file(path)
            held = load(path, STATE_KINDS, most_bytes=LARGE, check=self._checked) if path.exists() else None
            self.state = self._beginning(start) if held is None else held
        except BaseException:
            self._lock.release()
            raise
        self._rng = np.random.default_rng() if rng is None else rng
        self._open: set[str] = set()  # who was asked in this round, by this process
        self._taken: dict[str, Reply] = {}
        self._answered: set[str] = set()

    def _beginning(self, start: Array | None) -> ServerState:
        d = self.plan.dimension
        first = np.zeros(d) if start is None else checks.shaped("start", start, (d,)).copy()
        if (length := float(np.linalg.norm(first))) > self.plan.radius * (1 + 1e-12):
            raise ValueError(f"start must have a norm in [0, {self.plan.radius!r}], got {length!r}")
        central = self.plan.trust == "central"
        memory = engine(self.plan.program, d).memory if central else np.zeros((0, d))
        return ServerState(self.plan.identity(), 1, first, first, first, np.zeros(d), memory)

    def _checked(self, state: object) -> ServerState:
        """Refuse a state that no server of this plan has written."""
        own = checks.instance("state", state, ServerState)
        if own.plan != self.plan.identity():
            raise ValueError("state must be of this plan, got one of another plan")
        checks.integer("round", own.round, 1, largest=self.plan.rounds + 1)
        for name in ("current", "previous", "iterate", "estimate"):
            checks.shaped(name, getattr(own, name), (self.plan.dimension,))
        for name in ("acknowledged", "asked", "exhausted"):
            for number in getattr(own, name).values():
                checks.integer(name, number, 0, largest=max(self.plan.rounds, self.plan.participations))
        return own

    def _save(self, state: ServerState) -> None:
        """Write a state, which becomes the state of the server once it is on the disk."""
        save(state, self.folder / STATE, STATE_KINDS, most_bytes=LARGE, secret=True)
        self.state = state

    def close(self) -> None:
        """Let another process use the folder."""
        self._lock.release()

    # -- one round -----------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all rounds are over."""
        return self.state.round > self.plan.rounds

    def requests(self, available: Sequence[str] | None = None) -> dict[str, Request]:
        """The requests of the round to clients drawn from the ``available`` ones, None for the whole roster.

        Fewer than m are asked where fewer can be: clients that are exhausted or, with central trust, were asked less
        than ``separation`` rounds ago are left out.  The state is on the disk when this returns.

        Parameters
        ----------
        available : sequence of str, optional
            The clients that can be asked; None for the whole roster.

        Returns
        -------
        dict of str to Request
        """
        state, plan = self.state, self.plan
        if self.finished:
            raise ValueError(f"round must lie in [1, {plan.rounds}], got {state.round}: the run is over")
        if self._open:
            raise ValueError(f"round {state.round} must be finished before the next requests")
        able = sorted(
            name
            for name in set(self.roster if available is None else available) & self.roster.keys()
            if name not in state.exhausted
            and (state.round - state.asked.get(name, -plan.separation) >= plan.separation or self._again(name))
        )
        chosen = [able[i] for i in self._rng.permutation(len(able))[: plan.participants]]
        self._save(replace(state, asked=state.asked | dict.fromkeys(chosen, state.round)))
        self._open = set(chosen)
        return {
            name: Request(
                plan.run, state.round, state.current.copy(), state.previous.copy(), state.acknowledged.get(name, 0)
            )
            for name in sorted(chosen)
        }

    def _again(self, name: str) -> bool:
        """Whether a client was asked in this round by a process that was killed."""
        return self.state.asked.get(name) == self.state.round

    def receive(self, sender: str, answer: Any, signature: str | None = None) -> bool:
        """Take a reply whole, or not at all; returns whether it was taken.

        ``sender`` is the client that the transport has authenticated; a client with a key in the roster is
        authenticated by the signature.  Other answers are counted and logged, and change nothing else.

        Parameters
        ----------
        sender : str
            The client that the transport has authenticated.
        answer : object
            A ``Reply`` or ``Refusal``; anything else is rejected.
        signature : str, optional
            The signature, which a client with a key in the roster needs.

        Returns
        -------
        bool
        """
        flaw = self._flaw(sender, answer, signature)
        if flaw is not None:
            self.state.rejected += 1
            _log.warning("round %d: the reply of %.80r is not taken: %s", self.state.round, sender, flaw)
            return False
        self._answered.add(sender)
        if isinstance(answer, Refusal):
            self.state.refused += 1
            if answer.exhausted:
                self.state.exhausted[sender] = self.state.round
            _log.info("round %d: %.80r refuses: %.200s", self.state.round, sender, answer.reason)
            return False
        self._taken[sender] = answer
        return True

    def _flaw(self, sender: str, answer: Any, signature: str | None) -> str | None:
        """Why an answer is not taken; None if it is."""
        plan, t = self.plan, self.state.round
        if not isinstance(answer, Reply | Refusal) or not well_formed(answer):
            return f"it is a {type(answer).__name__}, or has fields of other types"
        if sender not in self._open or answer.name != sender:
            return "its sender was not asked in this round, or is not the client that it names"
        if sender in self._answered:
            return "its sender has answered"
        if answer.run != plan.run or answer.round != t:
            return "it is of another run or round"
        if isinstance(answer, Reply) and (flaw := self._vector_flaw(answer)) is not None:
            return flaw
        public = self.roster[sender]
        if public is not None and not keys.signed(public, answer.statement(), signature):
            return "its signature is not that of the key in the roster"
        return None

    def _vector_flaw(self, reply: Reply) -> str | None:
        plan, t = self.plan, self.state.round
        before = self.state.acknowledged.get(reply.name, 0)
        if not before < reply.first <= reply.last <= min(plan.participations, t):
            return f"its participations {reply.first} to {reply.last} do not follow {before} within the run"
        if plan.trust == "local" and reply.first != before + 1:
            return f"its first participation {reply.first} is not {before + 1}"
        if plan.trust == "central" and reply.first != reply.last:
            return "late messages are not merged where the server adds the noise"
        vector = reply.vector
        if vector.dtype != float or vector.shape != (plan.dimension,):
            return "its vector has another shape or type"
        if not np.isfinite(vector).all():
            return "its vector is not finite"
        if (length := float(np.linalg.norm(vector))) > (most := self.longest(reply.first, reply.last)):
            return f"its vector has the norm {length:.4g}, more than {most:.4g}"
        return None

    def longest(self, first: int, last: int) -> float:
        """The largest norm of a reply that is taken; an honest one is longer with the probability ``HONEST``.

        Parameters
        ----------
        first : int
            The first participation in the reply, >= 1.
        last : int
            The last participation in the reply.

        Returns
        -------
        float
        """
        plan = self.plan
        reach = plan.reach * (last - first + 1) * (1 + 1e-9)
        if plan.trust == "central":
            return reach
        spread = float(np.linalg.norm(plan.prefixes[last] - plan.prefixes[first - 1]))
        return reach + plan.noise_std * spread * math.sqrt(float(chi2.isf(HONEST, plan.dimension)))

    def finish_round(self) -> None:
        """Move w and x by what has arrived, and write the state; clients that did not answer are missing."""
        state, plan, t = self.state, self.plan, self.state.round
        if self.finished:
            raise ValueError(f"round must lie in [1, {plan.rounds}], got {t}: the run is over")
        mean = sum((reply.vector for reply in self._taken.values()), np.zeros(plan.dimension)) / plan.participants
        memory = state.noise
        if plan.trust == "central":
            noise, memory = fresh_noise(plan, t - 1, memory)
            mean = mean + noise
        estimate = state.estimate + mean
        iterate, current = moved(plan, t, state.current, state.iterate, estimate)
        new: dict[str, Any] = {
            "round": t + 1,
            "noise": memory,
            "estimate": estimate,
            "iterate": iterate,
            "previous": state.current,
            "current": current,
            "acknowledged": state.acknowledged | {name: reply.last for name, reply in self._taken.items()},
            "exhausted": state.exhausted
            | {name: t for name, reply in self._taken.items() if reply.last == plan.participations},
        }
        self._save(ServerState(**(vars(state) | new)))
        self._open, self._taken, self._answered = set(), {}, set()

    @property
    def output(self) -> Array:
        """x_t, the model after the rounds that are over."""
        return self.state.current
