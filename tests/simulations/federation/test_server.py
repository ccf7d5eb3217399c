"""A server against hostile, late, repeated and lost replies, and against its own crashes."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.federation import client
from corrnoise.simulations.federation.client import FederatedClient, linear_contribution
from corrnoise.simulations.federation.messages import Refusal, Reply
from corrnoise.simulations.federation.server import STATE, STATE_KINDS, FederatedServer
from corrnoise.support.serialise import load
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from tests.simulations.federation.federations import LOSS, check_damage, client_of, plan_of, run_rounds

NAMES = ("a", "b", "c")


def federation(folder: Path, **settings: Any) -> tuple[FederatedServer, dict[str, FederatedClient]]:
    plan = plan_of(**settings)
    clients = {name: client_of(plan, name, folder / name) for name in NAMES}
    return FederatedServer(plan, NAMES, folder / "server", rng=np.random.default_rng(1)), clients


def check_refused(server: FederatedServer, clients: dict[str, FederatedClient]) -> None:
    """Nothing but the one honest reply is taken, and the refused ones leave the bytes of the server unchanged."""
    requests = server.requests()
    first, second = sorted(requests)
    (absent,) = set(NAMES) - set(requests)
    honest = clients[first].reply(requests[first])
    assert isinstance(honest, Reply)
    before = (server.folder / STATE).read_bytes()
    v = honest.vector
    bad: list[tuple[str, Any]] = [
        (second, honest),
        (absent, replace(honest, name=absent)),
        ("stranger", replace(honest, name="stranger")),
        *(
            (first, replace(honest, **change))
            for change in (
                {"run": "other"},
                {"round": 2},
                {"round": True},
                {"run": np.zeros(2)},
                {"round": np.ones(2)},
                {"name": np.zeros(2)},
                {"first": 0},
                {"first": 2},
                {"first": 2, "last": 2},
                {"last": 2},
                {"last": 0},
                {"first": 1.0},
                {"vector": v[:2]},
                {"vector": v.astype(np.float32)},
                {"vector": v.tolist()},
                {"vector": np.array([0.0, np.nan, 0.0])},
                {"vector": np.array([0.0, np.inf, 0.0])},
                {"vector": np.array([0.0, 1e3, 0.0])},
            )
        ),
        (first, "reply"),
        (first, Refusal("test", first, 1, "no", np.zeros(2))),  # type: ignore[arg-type]
        (first, Refusal("test", first, 1, ["no"], True)),  # type: ignore[arg-type]
    ]
    for sender, reply in bad:
        assert not server.receive(sender, reply)
    assert server.state.rejected == len(bad)
    assert (server.folder / STATE).read_bytes() == before
    assert server.receive(first, honest)
    assert not server.receive(first, honest)
    estimate = server.state.estimate.copy()
    server.finish_round()
    np.testing.assert_allclose(server.state.estimate - estimate, v / 2)


def test_nothing_but_honest_replies_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.CRITICAL)
    check_refused(*federation(tmp_path / "a"))
    monkeypatch.setattr(FederatedServer, "_vector_flaw", lambda *_: None)  # first, last and vector are not checked
    with pytest.raises(AssertionError):
        check_refused(*federation(tmp_path / "b"))


def check_prefixes(server: FederatedServer, clients: dict[str, FederatedClient], lost: float) -> None:
    """The server's estimate is the sum of the prefixes Q_{i,a_i} of its clients, whatever is lost: Theorem 6."""
    rng = np.random.default_rng(3)
    messages: dict[str, list[Any]] = {name: [] for name in NAMES}
    original = FederatedClient._message

    def recorded(self: FederatedClient, *arguments: Any) -> Any:
        made = original(self, *arguments)
        messages[self.name].append(made[0])
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FederatedClient, "_message", recorded)
        run_rounds(server, clients, 10, lambda _: rng.random() >= lost)
    prefixes = [message for name in NAMES for message in messages[name][: server.state.acknowledged.get(name, 0)]]
    assert 0 < len(prefixes) <= sum(map(len, messages.values()))
    np.testing.assert_allclose(server.state.estimate, np.sum(prefixes, axis=0) / 2, atol=1e-12)


@pytest.mark.parametrize("lost", [0.0, 0.4, 0.8])
def test_lost_replies_come_again(lost: float, tmp_path: Path) -> None:
    check_prefixes(*federation(tmp_path, noise=AntiPGD(0.0)), lost)


def test_a_killed_server_goes_on(tmp_path: Path) -> None:
    server, clients = federation(tmp_path)
    run_rounds(server, clients, 3)
    for name, request in server.requests().items():
        server.receive(name, clients[name].reply(request))
    with pytest.raises(ValueError, match="must be finished"):
        server.requests()
    with pytest.raises(RuntimeError, match="another server"):
        FederatedServer(server.plan, NAMES, server.folder)
    server.close()  # killed before the end of the round
    again = FederatedServer(server.plan, NAMES, server.folder, rng=np.random.default_rng(8))
    assert again.state.round == 4
    assert again.state.acknowledged == server.state.acknowledged
    check_prefixes_after(again, clients)
    again.close()
    with pytest.raises(ValueError, match="another plan"):
        FederatedServer(plan_of(rho=3.0), NAMES, server.folder)


def check_prefixes_after(server: FederatedServer, clients: dict[str, FederatedClient]) -> None:
    """All participations that are asked for are acknowledged in the end."""
    made = run_rounds(server, clients, 12)
    assert any(reply.last > reply.first for reply in made)  # merged, of the round that was cut off
    assert server.state.acknowledged == dict.fromkeys(NAMES, 8)
    assert set(server.state.exhausted) <= set(NAMES)


def test_exhausted_clients_are_asked_no_more(tmp_path: Path) -> None:
    server, clients = federation(tmp_path)
    run_rounds(server, clients, 20)
    assert server.finished
    assert sorted(server.state.exhausted) == sorted(NAMES)
    assert server.state.refused == 0
    assert server.state.acknowledged == dict.fromkeys(NAMES, 8)
    with pytest.raises(ValueError, match="the run is over"):
        server.requests()


def test_only_available_clients_are_asked(tmp_path: Path) -> None:
    server, _ = federation(tmp_path)
    assert set(server.requests(["c", "stranger"])) == {"c"}
    with pytest.raises(ValueError, match="roster must have at least 2"):
        FederatedServer(plan_of(), ["a"], tmp_path / "other")
    with pytest.raises(ValueError, match="start must have a norm"):
        FederatedServer(plan_of(), NAMES, tmp_path / "far", start=np.full(3, 9.0))


def test_signed_replies(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from corrnoise.simulations.federation.client import enrol

    plan = plan_of(participants=1)
    public = {name: enrol(plan, name, tmp_path / name, examples=10) for name in ("a", "b")}
    data = (np.zeros((10, 3)), np.zeros(10))
    client = FederatedClient(plan, "a", tmp_path / "a", linear_contribution(LOSS, *data))
    other = FederatedClient(plan, "b", tmp_path / "b", linear_contribution(LOSS, *data))
    server = FederatedServer(plan, public, tmp_path / "server")
    reply = client.reply(server.requests(["a"])["a"])
    assert isinstance(reply, Reply)
    for signature in (None, "", "zz", other.signature(reply), client.signature(replace(reply, round=2))):
        assert not server.receive("a", reply, signature)
    assert not server.receive("a", replace(reply, vector=reply.vector + 1e-9), client.signature(reply))
    assert server.receive("a", reply, client.signature(reply))


# -- a trusted server --------------------------------------------------------------------------------------------------


def test_a_trusted_server_adds_the_noise(tmp_path: Path) -> None:
    server, clients = federation(tmp_path, trust="central", noise=DPSGD(), rho=1e12)
    replies = run_rounds(server, clients, 6, lambda name: name != "c")
    taken = [reply.vector for reply in replies if reply.name != "c"]
    np.testing.assert_allclose(server.state.estimate, np.sum(taken, axis=0) / 2, atol=1e-4)
    assert all(reply.first == reply.last for reply in replies)  # late messages are dropped
    assert all(np.linalg.norm(vector) <= 1 for vector in taken)


def test_a_trusted_server_keeps_clients_apart(tmp_path: Path) -> None:
    server, clients = federation(tmp_path, trust="central", separation=2)
    rounds: dict[str, list[int]] = {name: [] for name in NAMES}
    for reply in run_rounds(server, clients, 10):
        rounds[reply.name].append(reply.round)
    assert min(int(np.diff(of_client).min()) for of_client in rounds.values()) >= 2


def check_late(folder: Path) -> None:
    """A message that comes with later ones is not taken where the server adds the noise of a round."""
    server, clients = federation(folder, trust="central")
    run_rounds(server, clients, 2, lambda _: False)
    name, request = next(iter(server.requests().items()))
    reply = clients[name].reply(request)
    assert isinstance(reply, Reply)
    merged = replace(reply, first=1)
    assert (merged.first, merged.last) != (reply.first, reply.last)
    assert not server.receive(name, merged)
    assert server.receive(name, reply)


def test_late_messages_are_not_merged_by_a_trusted_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_late(tmp_path / "a")
    monkeypatch.setattr(FederatedServer, "_vector_flaw", lambda *_: None)  # late replies are merged
    with pytest.raises(AssertionError):
        check_late(tmp_path / "b")


def test_the_noise_of_a_trusted_server_has_the_law_of_its_mechanism(tmp_path: Path) -> None:
    plan = plan_of(model=40_000, trust="central", rounds=4, clip_norm=1e-9, noise=AntiPGD(0.0), radius=1e40)
    server = FederatedServer(plan, NAMES, tmp_path / "server")
    estimates = [np.zeros(40_000)]
    for _ in range(4):
        server.requests()
        server.finish_round()
        estimates.append(server.state.estimate)
    found = np.diff(estimates, axis=0) / plan.noise_std
    matrix = plan.mechanism.noising_matrix(4)
    np.testing.assert_allclose(found @ found.T / 40_000, matrix @ matrix.T, atol=0.06)


def test_refusals_are_counted(tmp_path: Path) -> None:
    server, _ = federation(tmp_path)
    name = next(iter(server.requests()))
    assert not server.receive(name, Refusal("test", name, 1, "no"))
    assert server.state.refused == 1
    assert name not in server.state.exhausted


def test_no_damaged_state_is_read(tmp_path: Path) -> None:
    server, clients = federation(tmp_path)
    run_rounds(server, clients, 3)
    check_damage(server.folder / STATE, lambda path: load(path, STATE_KINDS, check=server._checked))
    check_damage(
        clients["a"].folder / client.STATE, lambda path: load(path, client.STATE_KINDS, check=clients["a"]._checked)
    )
