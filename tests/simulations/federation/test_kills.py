"""Clients and a server in processes that are killed at random instants: nothing is used twice, and nothing is lost.

The parent carries the messages, as a transport does, and keeps all that ever left a process.  No assertion rests on
chance: whatever the instants are, the checks hold.
"""

import multiprocessing
import os
import shutil
import signal
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.federation import client as client_module
from corrnoise.simulations.federation import server as server_module
from corrnoise.simulations.federation.client import FederatedClient, enrol
from corrnoise.simulations.federation.messages import Reply, Request
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.server import FederatedServer
from corrnoise.simulations.run import draws
from corrnoise.theory.numerics.checks import Array
from tests.simulations.federation.federations import plan_of

NAMES = ("a", "b", "c")
USES = 150  #: participations of a client
MOST = 2000  #: rounds, of which about 250 suffice


def plan_for(trust: str) -> Plan:
    return plan_of(rounds=MOST, batch=1, per_pass=USES, passes=1, trust=trust, separation=1)


def contribution(name: str) -> Callable[..., Array]:
    """Corrections that depend on the examples alone, so that their sum does not depend on the schedule."""
    rows = np.random.default_rng(list(name.encode())).uniform(-0.4, 0.4, (USES, 3))
    return lambda t, x, y, examples: rows[examples]


def late_saves(module: Any, mutant: bool) -> list[Callable[[], None]]:
    """What a mutant has still to save, after its answer has left; the original saves at once."""
    waiting: list[Callable[[], None]] = []
    kept = module.save
    if mutant:
        module.save = lambda *arguments, **settings: waiting.append(lambda: kept(*arguments, **settings))
    return waiting


def serve_client(link: Connection, home: Path, name: str, plan: Plan, mutant: bool) -> None:
    """Answer requests until the end, and note each secret of the noise, with its participation, before it is used."""
    client = FederatedClient(plan, name, home / name, contribution(name))
    waiting = late_saves(client_module, mutant)
    fresh, noise = draws.fresh, client_module.fresh_noise

    def noted_noise(plan: Plan, position: int, memory: Array) -> tuple[Array, Array]:
        def noted(size: int) -> bytes:
            secret = fresh(size)
            with (home / f"{name}.log").open("a") as log:
                log.write(f"{position} {secret.hex()}\n")
            return secret

        draws.fresh = noted
        return noise(plan, position, memory)

    client_module.fresh_noise = noted_noise
    while True:
        link.send(client.reply(link.recv()))
        while waiting:
            waiting.pop(0)()


def serve_server(link: Connection, home: Path, name: str, plan: Plan, mutant: bool) -> None:
    """Give the requests of a round, or finish it with the answers that have arrived, in turn."""
    waiting = late_saves(server_module, mutant)
    server = FederatedServer(plan, NAMES, home / name)
    while True:
        answers = link.recv()
        if answers is None:
            link.send(server.requests())
        else:
            for sender, answer in answers.items():
                server.receive(sender, answer)
            server.finish_round()
            link.send((server.state.round, server.state.acknowledged, server.state.estimate, server.state.rejected))
        while waiting:
            waiting.pop(0)()


class Party:
    """A client or the server in a process of its own, which is started again whenever it is found dead."""

    def __init__(self, home: Path, name: str, plan: Plan, mutant: bool) -> None:
        self.arguments = (home, name, plan, mutant)
        self.target = serve_server if name == "server" else serve_client
        self.deaths = -1
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "tests.simulations.federation.warm"])
        self.link, end = context.Pipe()
        self.process = context.Process(target=self.target, args=(end, *self.arguments), daemon=True)
        self.process.start()
        end.close()
        self.deaths += 1

    def kill(self) -> None:
        with suppress(ProcessLookupError, TypeError):  # dead, or not yet born
            os.kill(self.process.pid, signal.SIGKILL)  # type: ignore[arg-type]

    def ask(self, question: Any) -> bool:
        """Send a question; returns whether it has left."""
        try:
            self.link.send(question)
        except OSError:
            self.revive()
            return False
        return True

    def answer(self) -> Any:
        """What it answers; None if it dies before."""
        try:
            return self.link.recv()
        except (EOFError, OSError):
            self.revive()
            return None

    def revive(self) -> None:
        self.link.close()
        self.process.join(timeout=30)
        self.start()


class Killer(threading.Thread):
    """Kill one of the parties after another, at random instants."""

    def __init__(self, parties: list[Party], pause: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.parties, self.pause, self.rng, self.over = parties, pause, np.random.default_rng(seed), threading.Event()

    def run(self) -> None:
        while not self.over.wait(self.rng.exponential(self.pause)):
            self.parties[int(self.rng.integers(len(self.parties)))].kill()


class Federation:
    """A run whose parties are killed, and all that has left them."""

    def __init__(self, home: Path, trust: str, *, pause: float, seed: int, mutant: str = "") -> None:
        self.plan = plan_for(trust)
        self.replies: dict[str, list[Reply]] = defaultdict(list)
        self.points: dict[int, set[bytes]] = defaultdict(set)
        self.ends: list[tuple[int, dict[str, int], Array, int]] = []
        for name in NAMES:
            enrol(self.plan, name, home / name, examples=USES)
            shutil.copytree(home / name, home / "unbroken" / name)
        self.parties = {name: Party(home, name, self.plan, mutant == name) for name in (*NAMES, "server")}
        self.killer = Killer(list(self.parties.values()), pause, seed)

    def round(self) -> None:
        server = self.parties["server"]
        requests: dict[str, Request] | None = server.answer() if server.ask(None) else None
        if requests is None:
            return
        for request in requests.values():
            self.points[request.round].add(request.current.tobytes())
        asked = [name for name, request in requests.items() if self.parties[name].ask(request)]
        answers = {name: self.parties[name].answer() for name in asked}
        arrived = {name: answer for name, answer in answers.items() if answer is not None}
        for name, answer in arrived.items():
            if isinstance(answer, Reply):
                self.replies[name].append(answer)
            else:
                assert answer.exhausted, answer  # not outdated, and not asked for what is lost
        if server.ask(arrived) and (end := server.answer()) is not None:
            self.ends.append(end)

    def run(self, enough: Callable[[], bool]) -> None:
        self.killer.start()
        try:
            for _ in range(MOST):
                if enough():
                    break
                self.round()
            assert enough(), self.ends[-1:]
        finally:
            self.killer.over.set()
            self.killer.join()
            for party in self.parties.values():
                party.kill()
                party.process.join(timeout=30)

    @property
    def deaths(self) -> dict[str, int]:
        return {name: party.deaths for name, party in self.parties.items()}

    # -- what is checked -----------------------------------------------------------------------------------------------

    def check_nothing_is_lost(self) -> None:
        """A round that is over stays over, and an acknowledged participation acknowledged; each round has one point."""
        for (before, had, *_), (after, has, *_) in pairwise(self.ends):
            assert after > before
            assert all(has.get(name, 0) >= count for name, count in had.items())
        assert all(len(points) == 1 for points in self.points.values())

    def check_noise_is_used_once(self, home: Path) -> None:
        """All that has left is made of the messages of one run without interruption, whose noise has these secrets."""
        secrets = {}
        for name in NAMES:
            lines = [line.split() for line in (home / f"{name}.log").read_text().splitlines()]
            secrets[name] = {int(position): bytes.fromhex(secret) for position, secret in lines}  # the last ones
            assert len({secret for _, secret in lines}) == len(lines)
        unbroken = FederatedServer(self.plan, NAMES, home / "unbroken" / "server", rng=np.random.default_rng(0))
        clients = {
            name: FederatedClient(self.plan, name, home / "unbroken" / name, contribution(name)) for name in NAMES
        }
        messages: dict[str, list[Array]] = {name: [np.zeros(3)] for name in NAMES}
        with pytest.MonkeyPatch.context() as patched:
            while len(unbroken.state.exhausted) < len(NAMES):
                for name, request in unbroken.requests().items():
                    secret = secrets[name][len(messages[name]) - 1]
                    patched.setattr(draws, "fresh", lambda _, secret=secret: secret)
                    reply = clients[name].reply(request)
                    assert isinstance(reply, Reply)
                    messages[name].append(reply.vector)
                    unbroken.receive(name, reply)
                unbroken.finish_round()
        for name in NAMES:
            prefix = np.cumsum(messages[name], axis=0)
            for reply in self.replies[name]:
                np.testing.assert_allclose(reply.vector, prefix[reply.last] - prefix[reply.first - 1], atol=1e-12)
        np.testing.assert_allclose(self.ends[-1][2], unbroken.state.estimate, atol=1e-12)


def check_local(home: Path, *, pause: float, seed: int, mutant: str = "") -> Federation:
    run = Federation(home, "local", pause=pause, seed=seed, mutant=mutant)
    run.run(lambda: bool(run.ends) and run.ends[-1][1] == dict.fromkeys(NAMES, USES))
    run.check_nothing_is_lost()
    run.check_noise_is_used_once(home)
    assert run.ends[-1][3] == 0  # of honest clients all that arrived was taken
    return run


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kills_at_random_instants(seed: int, tmp_path: Path) -> None:
    run = check_local(tmp_path, pause=0.05, seed=seed)
    assert min(run.deaths.values()) > 0  # false alarm: below 1e-5
    assert sum(run.deaths.values()) >= 15  # of about 60


@pytest.mark.slow
def test_kills_of_a_trusted_server(tmp_path: Path) -> None:
    """Each round has one point, so that the noise of the server left once; late replies are dropped."""
    run = Federation(tmp_path, "central", pause=0.05, seed=3)
    run.run(lambda: bool(run.ends) and run.ends[-1][0] > 300)
    run.check_nothing_is_lost()
    assert run.deaths["server"] > 0  # false alarm: below 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["a", "server"])
def test_what_is_saved_too_late_is_found_out(mutant: str, tmp_path: Path) -> None:
    """A process that answers before it saves, and is killed in between, uses noise twice, or loses what is over."""
    with pytest.raises(AssertionError):
        check_local(tmp_path, pause=0.02, seed=4, mutant=mutant)
