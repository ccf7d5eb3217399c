"""A client that owns its data, its noise and its state: its messages are private, whatever the server does.

``enrol`` makes the folder of a client, once.  ``FederatedClient.reply`` answers a request, under rule R:

* the noise of each participation is drawn from the operating system, and never from anything that is stored;
* under one exclusive lock the state is read, the answer is made, and the new state is on the disk before it returns;
* a client never makes a state for itself: where it is missing, the client refuses;
* a server that has acknowledged more than the client has sent proves that the state is outdated: the client refuses
  until its owner enrols it again.

So a client may be killed at any moment.  It saves each message before it sends it.  An older
state that is put back unnoticed r times makes everything that leaves (1 + r)ρ-zCDP, and no worse, because the noise is
fresh.  The folder is as secret as the data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.federation import keys
from corrnoise.simulations.federation.messages import Presence, Refusal, Reply, Request, well_formed
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.rounds import clipped, guarded
from corrnoise.simulations.run import draws, owned, spans
from corrnoise.simulations.run.engines import engine, step_scale
from corrnoise.simulations.run.secret import Secret
from corrnoise.support.files import sync_folder, unfinished_folder
from corrnoise.support.reading import LARGE
from corrnoise.support.serialise import by_name, digest, load, save
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

#: The corrections t ∇f(x_t; z) − (t − 1) ∇f(x_{t−1}; z) of the examples z with these numbers, shape (b, d), from t,
#: x_t and x_{t−1}; unguarded.
Contribution = Callable[[int, Array, Array, NDArray[np.int64]], Any]

STATE = "state.npz"
_LOCK_FILE = "lock"
_LOCK_SECONDS = 60.0  # seconds for another process that answers


@dataclass(frozen=True, eq=False)
class ClientState:
    """All that a client must keep, secret, between its participations."""

    plan: str  #: identity of the plan
    name: str
    order: NDArray[np.int64]  #: the private order of the examples of a pass
    participations: int  #: k, the answered ones
    last_round: int  #: the round of participation k
    noise: Array  #: the memory of the engine, shape (rows, d)
    outbox: Array  #: the messages of the participations that are not acknowledged, shape (k − a, d)
    data: str = ""  #: a digest of the examples of the first participation, if the contribution has one


STATE_KINDS = by_name(ClientState)


def linear_contribution(loss: LinearLoss, features: Array, targets: Array) -> Corrections:
    """The corrections of a linear loss on the data of a client, features of shape (n, k) and targets of shape (n,).

    Parameters
    ----------
    loss : LinearLoss
        The loss, with its bounds.
    features : array of float
        Shape (n, k).
    targets : array of float
        Shape (n,).

    Returns
    -------
    Corrections
    """
    features, targets = loss.checked_examples(features, targets)
    held = digest([[list(each.shape), digest(each.tobytes())] for each in (features, targets)])
    return Corrections(lambda x, examples: loss.gradients(x, features[examples], targets[examples]), held)


@dataclass(frozen=True)
class Corrections:
    """The contribution of a model, from its gradients."""

    gradients: Callable[[Array, NDArray[np.int64]], Array]  #: at a point for examples with these numbers, shape (b, d)
    data: str  #: a digest of all examples in their order; a client notices other data

    def __call__(self, t: int, current: Array, previous: Array, examples: NDArray[np.int64]) -> Array:
        """T ∇f(x_t) − (t − 1) ∇f(x_{t−1}) for each example."""
        now = t * self.gradients(current, examples)
        return now - (t - 1) * self.gradients(previous, examples) if t > 1 else now


def enrol(plan: Plan, name: str, folder: str | os.PathLike[str], *, examples: int) -> str | None:
    """Make the folder of a client: a secret order of its examples, an empty state and a key.

    Parameters
    ----------
    plan : Plan
        The run.
    name : str
        The client in the run, a word: other names could pass for lines of a roster.
    folder : path
        A new folder; it appears complete or not at all.
    examples : int
        The number of examples of the client, at least ``batch`` × ``per_pass``.

    Returns
    -------
    str or None
        The public key in hexadecimal digits; None without the library ``cryptography``.

    Raises
    ------
    FileExistsError
        If the folder exists.
    ValueError
        If there are too few examples, or the name is not a word.
    """
    checks.instance("plan", plan, Plan)
    if not isinstance(name, str) or not name.isprintable() or len(name.split()) != 1 or name != name.strip():
        raise ValueError(f"name must be one printable word, got {name!r:.80}")
    home = Path(folder)
    needed = plan.batch * plan.per_pass
    if checks.integer("examples", examples, 1) < needed:
        raise ValueError(f"examples must be at least batch × per_pass = {needed}, got {examples}")
    if home.exists():
        raise FileExistsError(f"folder must be new, got {home}: to enrol again spends the budget again")
    home.parent.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng().permutation(examples)[:needed].astype(np.int64)
    memory = engine(plan.program, plan.dimension).memory if plan.trust == "local" else np.zeros((0, plan.dimension))
    state = ClientState(plan.identity(), name, order, 0, 0, memory, np.zeros((0, plan.dimension)))
    with unfinished_folder(home.parent) as staging:
        made = staging / "client"
        made.mkdir(mode=0o700)
        save(state, made / STATE, STATE_KINDS, most_bytes=LARGE, secret=True)
        public = keys.make(made)
        made.rename(home)
        sync_folder(home.parent)
    return public


class FederatedClient:
    """One client of a run, which answers from its folder; objects of several processes may use one folder.

    Parameters
    ----------
    plan : Plan
        The public settings.
    name : str
        Of the client, as enrolled.
    folder : path
        Of this client alone, made by ``enrol``.
    contribution : callable
        The unguarded corrections of examples, shape (b, d), each from its own example alone.  It must not fail because
        of the data, as the server notices.  If it has an attribute ``data``, a string, then this must stay as in the
        first participation: data in another order would use examples twice.
    """

    def __init__(self, plan: Plan, name: str, folder: str | os.PathLike[str], contribution: Contribution) -> None:
        self.plan = checks.instance("plan", plan, Plan)
        self.name = checks.instance("name", name, str)
        self.folder = Path(folder)
        self._contribution = contribution
        self._identity = plan.identity()

    @contextmanager
    def _locked(self) -> Iterator[ClientState]:
        """The state, while no other object or process answers from this folder."""
        path = self.folder / STATE
        if not path.exists():
            raise FileNotFoundError(f"folder must have the state of a client that was enrolled, got {self.folder}")
        owned.check_folder(self.folder)
        lock = owned.locked(self.folder / _LOCK_FILE, f"{self.folder} is in use by another process", _LOCK_SECONDS)
        try:
            owned.check_file(path)
            yield load(path, STATE_KINDS, most_bytes=LARGE, check=self._checked)
        finally:
            lock.release()

    def _checked(self, state: object) -> ClientState:
        """Refuse a state that this client has not written."""
        own = checks.instance("state", state, ClientState)
        plan, d = self.plan, self.plan.dimension
        data = getattr(self._contribution, "data", "")
        if own.data and data != own.data:
            raise ValueError(f"contribution must have the data of the first participation, {own.data!r}, got {data!r}")
        if (own.plan, own.name) != (self._identity, self.name):
            raise ValueError(f"state must be of client {self.name!r} of this plan, got one of {own.name!r:.80}")
        k = checks.integer("participations", own.participations, 0, largest=plan.participations)
        checks.integer("last_round", own.last_round, k, largest=plan.rounds)
        checks.shaped("order", own.order, (plan.batch * plan.per_pass,), "[0, 1e15]")
        rows = engine(plan.program, 1).memory.shape[0] if plan.trust == "local" else 0
        checks.shaped("noise", own.noise, (rows, d))
        if own.outbox.ndim != 2 or len(own.outbox) > k:
            raise ValueError(f"outbox must have at most {k} messages, got shape {own.outbox.shape}")
        checks.shaped("outbox", own.outbox, (len(own.outbox), d))
        return own

    def reply(self, request: Request) -> Reply | Refusal:
        """The sum of the messages that the server has not acknowledged, this round included; or a refusal.

        A second request of a round has the same participation.  After an error nothing has left, and the state is as
        before.

        Parameters
        ----------
        request : Request
            The request of the server.

        Returns
        -------
        Reply or Refusal

        Raises
        ------
        FileNotFoundError
            If the folder has no state.
        ValueError
            If the state is damaged or belongs to another client.
        OSError
            If the state cannot be written.
        """
        with self._locked() as state:
            answer, new = self._answer(state, request)
            if new is not None:
                save(new, self.folder / STATE, STATE_KINDS, most_bytes=LARGE, secret=True)
            return answer

    def signature(self, answer: Reply | Refusal | Presence) -> str | None:
        """The signature of an answer by the key of the folder, in hexadecimal digits; None without a key.

        Parameters
        ----------
        answer : Reply, Refusal or Presence
            The answer to sign.

        Returns
        -------
        str or None
        """
        return keys.sign(self.folder, answer.statement())

    def _answer(self, state: ClientState, request: Request) -> tuple[Reply | Refusal, ClientState | None]:
        plan, k = self.plan, state.participations

        def refused(reason: str, exhausted: bool = False) -> tuple[Refusal, None]:
            return Refusal(plan.run, self.name, t, reason, exhausted), None

        t = request.round if type(request.round) is int else 0
        if not well_formed(request):
            return refused("the request has fields of other types")
        if request.run != plan.run:
            return refused("the request is of another run")
        if not max(1, state.last_round) <= t <= plan.rounds:
            return refused("the round is over, or not in the run")
        sent = k - len(state.outbox)
        if request.acknowledged > k:
            return refused("the server has more than was sent: the state of the client is outdated; enrol it anew")
        if plan.trust == "local" and request.acknowledged < sent:
            return refused("the server has lost what it had acknowledged")
        if t == state.last_round:
            if request.acknowledged == k:
                return refused("the round was answered")
            return self._reply(state, request), None
        points = [self._point(x) for x in (request.current, request.previous)]
        if points[0] is None or points[1] is None:
            return refused("the query points are no finite vectors of the model")
        if k >= plan.participations:
            if plan.trust == "local" and request.acknowledged < k:
                return self._reply(state, request), None  # no later one will carry a lost message
            return refused("all participations are used", exhausted=True)
        message, memory = self._message(state, request.round, points[0], points[1])
        held = state.outbox[request.acknowledged - sent :] if plan.trust == "local" else state.outbox[:0]
        new = replace(
            state,
            participations=k + 1,
            last_round=request.round,
            noise=memory,
            outbox=np.vstack([held, message]),
            data=getattr(self._contribution, "data", ""),
        )
        return self._reply(new, request), new

    def _reply(self, state: ClientState, request: Request) -> Reply:
        k = state.participations
        first = request.acknowledged + 1 if self.plan.trust == "local" else k
        vector = state.outbox[first - k - 1 :].sum(axis=0)
        return Reply(self.plan.run, self.name, request.round, first, k, vector)

    def _point(self, x: Array) -> Array | None:
        """The query point, projected onto the ball; None where it is not a finite vector of the model."""
        if x.shape != (self.plan.dimension,) or x.dtype.kind != "f":
            return None
        point = x.astype(float)
        return clipped(point, self.plan.radius) if np.isfinite(point).all() else None

    def _message(self, state: ClientState, t: int, current: Array, previous: Array) -> tuple[Array, Array]:
        """The guarded contribution with the noise of the next participation, and the memory of the noise after it."""
        plan, k = self.plan, state.participations
        first = k % plan.per_pass * plan.batch
        examples = state.order[first : first + plan.batch]
        corrections = np.array(self._contribution(t, current.copy(), previous.copy(), examples.copy()), dtype=float)
        if corrections.shape != (plan.batch, plan.dimension):
            raise ValueError(
                f"contribution must return the shape {(plan.batch, plan.dimension)}, got {corrections.shape}"
            )
        contribution = guarded(plan, corrections, t, current, previous)
        if plan.trust == "central":
            return contribution, state.noise
        noise, memory = fresh_noise(plan, k, state.noise)
        return contribution + noise, memory


def fresh_noise(plan: Plan, position: int, memory: Array) -> tuple[Array, Array]:
    """The noise of the step ``position`` from 0, with draws of the operating system, and the memory after it."""
    secret = Secret(draws.fresh(draws.KEY_BYTES))  # of the operating system, for this step alone

    def draw(values: NDArray[Any]) -> None:
        draws.filler(secret, 0, spans.checked(None, plan.dimension))(values)

    running = engine(plan.program, plan.dimension)
    running.memory = memory.copy()
    values = np.empty(plan.dimension)
    running.step(draw, values, position)
    return values * step_scale(plan.program, plan.noise_std, position), running.memory.copy()
