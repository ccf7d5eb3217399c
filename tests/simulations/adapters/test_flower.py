"""A federation over Flower: its strategy and its client app on a grid in this process, and in its simulation."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters.flower import CorrelatedNoise, client_app, server_app, strategy
from corrnoise.simulations.adapters.flower_nodes import packed, unpacked
from corrnoise.simulations.federation.client import FederatedClient, enrol
from corrnoise.simulations.federation.messages import Presence, Refusal, Reply, Request
from corrnoise.simulations.federation.server import FederatedServer
from tests.simulations.federation.federations import client_of, plan_of

flower = pytest.importorskip("flwr.app")
task = pytest.importorskip("flwr.supercore.task_identity")

NAMES = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages in a task only."""
    for number in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(task.TaskIdentity, number, 1)


class LoopGrid:
    """Nodes that answer at once; a fault may change or drop what travels, by the name of the node's client."""

    def __init__(self, clients: dict[str, FederatedClient], fault: Callable[[str, Any], Any] = lambda _, x: x) -> None:
        self.names = {7 + number: name for number, name in enumerate(clients)}
        self.clients = clients
        self.fault = fault
        self.app = client_app(lambda context: clients[context.node_config["name"]])
        self.restarted = 0

    def restart(self, name: str) -> None:
        """The client comes back with another number; the old one stays online for a while."""
        self.restarted += 1
        self.names[100 + self.restarted] = name

    def get_node_ids(self) -> list[int]:
        return sorted(self.names)

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float) -> list[Any]:
        assert isinstance(messages, list), "Flower reads messages twice"
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            name = self.names[node]
            try:
                content = self.app(message, SimpleNamespace(node_config={"name": name})).content
            except RuntimeError as error:
                replies.append(flower.Message(flower.Error(2, str(error)), reply_to=message))
                continue
            content = self.fault(name, content)
            if content is not None:
                replies.append(flower.Message(content, reply_to=message))
        return replies


def federation(folder: Path, **settings: Any) -> tuple[Any, dict[str, FederatedClient]]:
    """The strategy of a new run whose roster has the keys of the clients, and the clients."""
    plan = plan_of(**settings)
    roster = {name: enrol(plan, name, folder / name, examples=10) for name in NAMES}
    clients = {name: client_of(plan, name, folder / name, enrolled=False) for name in NAMES}
    return strategy(FederatedServer(plan, roster, folder / "server"), patience=0.0), clients


def test_the_plan_is_logged_when_a_run_starts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made, clients = federation(tmp_path, rounds=3, epsilon=20.0, delta=1e-6)
    with caplog.at_level(logging.INFO, "flwr.corrnoise"):
        made.run(LoopGrid(clients))
    assert caplog.text.count("plan 'test'; noise ") == 1
    assert "'epsilon': 20.0" in caplog.text
    assert "epsilon is 20 at delta=1e-06, which is a weak" in caplog.text


def sent(clients: dict[str, FederatedClient]) -> dict[str, int]:
    """How often each client that was drawn has taken part, by its own folder."""
    counts = {}
    for name, client in clients.items():
        with client._locked() as state:
            counts[name] = state.participations
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(
    "thing",
    [
        Request("run", 3, np.arange(2.0), np.zeros(2), 1),
        Reply("run", "a", 3, 1, 2, np.array([1e-300, -0.0])),
        Refusal("run", "a", 3, "no", True),
        Presence("run", "a", "00"),
    ],
)
def test_what_travels_arrives_as_it_was(thing: Any) -> None:
    arrived, signature = unpacked(packed(thing, "ff"))
    assert signature == "ff"
    assert type(arrived) is type(thing)
    for name, value in vars(thing).items():
        found = vars(arrived)[name]
        assert type(found) is type(value)
        assert found.tobytes() == value.tobytes() if isinstance(value, np.ndarray) else found == value


@pytest.mark.parametrize(
    "settings",
    [{}, {"unit": "client", "noise": None, "adjacency": "zero-out"}, {"guard": "centred", "noise": "two-buffers"}],
    ids=["example", "client", "centred"],
)
def test_all_rounds_are_run_and_every_participation_arrives(
    tmp_path: Path, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    made, clients = federation(tmp_path, **settings)
    points: list[Any] = []

    def evaluate(x: Any) -> dict[str, float]:
        points.append(x)
        return {"norm": float(np.linalg.norm(x))}

    result = made.run(LoopGrid(clients), evaluate=evaluate)
    state = made.server.state
    assert made.server.finished
    assert len(points) == 21
    assert state.rejected == 0
    assert state.acknowledged == sent(clients)
    assert sum(state.acknowledged.values()) == 24
    assert np.array_equal(result.arrays.to_numpy_ndarrays()[0], made.server.output)
    assert "they are exhausted after about 12 of 20 rounds" in caplog.text
    assert "took part 8 to 8 of 8 times, 3 are exhausted; 0 refusals, 0 answers not taken" in caplog.text


@pytest.mark.parametrize("trust", ["local", "central"])
def test_lost_replies_come_merged_or_with_central_noise_not_at_all(tmp_path: Path, trust: str) -> None:
    made, clients = federation(tmp_path, rounds=11, passes=3, trust=trust)
    arrived: list[int] = []

    def fault(name: str, content: Any) -> Any:
        words = content["words"]
        if "first" not in words:
            return content
        if words["round"] in (2, 3, 5):
            return None
        arrived.append(words["last"] - words["first"] + 1)
        return content

    made.run(LoopGrid(clients, fault))
    assert made.server.state.rejected == 0
    assert len(arrived) == 16
    if trust == "central":
        assert set(arrived) == {1}
    else:
        assert max(arrived) > 1
        assert sum(made.server.state.acknowledged.values()) == sum(arrived)


def test_a_node_that_comes_back_with_another_number_is_the_same_client(tmp_path: Path) -> None:
    made, clients = federation(tmp_path, rounds=10)
    grid = LoopGrid(clients)
    requests = made.configure_train(1, None, None, grid)
    made.aggregate_train(1, grid.send_and_receive(requests, timeout=1.0))
    grid.restart("b")
    made.configure_train(2, None, None, grid)
    assert made.nodes.newest["b"] == 101  # the newest, although the old one is still online
    assert "b" not in {name for node, name in made._asked.items() if node < 100}
    made.aggregate_train(2, [])
    made.run(grid)
    assert made.server.finished
    assert made.server.state.acknowledged == sent(clients)


def test_a_server_goes_on_from_its_folder(tmp_path: Path) -> None:
    made, clients = federation(tmp_path, rounds=6)
    grid = LoopGrid(clients)
    grid.send_and_receive(made.configure_train(1, None, None, grid), timeout=1.0)  # the replies get lost
    roster, plan = made.server.roster, made.server.plan
    made.server.close()  # killed in the first round
    again = strategy(FederatedServer(plan, roster, tmp_path / "server"), patience=0.0)
    again.run(grid)
    assert again.server.finished
    assert again.server.state.acknowledged == sent(clients)
    again.run(grid)  # nothing is left
    assert again.server.state.acknowledged == sent(clients)


def hostile(thing: Any, **changes: Any) -> Callable[[str, Any], Any]:
    """Client a sends something else in place of its replies."""

    def fault(name: str, content: Any) -> Any:
        if name != "a" or "challenge" in content["words"]:
            return content
        answer, signature = unpacked(content)
        return thing if thing is not None else packed(replace(answer, **changes), signature)

    return fault


@pytest.mark.parametrize(
    "fault",
    [
        hostile(None, name="b"),
        hostile(None, round=1),
        hostile(None, run="other"),
        hostile(None, run=np.zeros(2)),
        hostile(None, name=np.zeros(2)),
        hostile(flower.RecordDict()),
        hostile(flower.RecordDict({"words": flower.ConfigRecord({"kind": "Path"}), "vectors": flower.ArrayRecord()})),
        hostile(packed(Presence("test", "a", "00"))),
        hostile(packed(Refusal("test", "a", 2, "all is used", True))),
    ],
)
def test_what_is_forged_is_not_taken(tmp_path: Path, fault: Callable[[str, Any], Any]) -> None:
    made, clients = federation(tmp_path, rounds=8)
    pytest.importorskip("cryptography")
    made.configure_train(1, None, None, LoopGrid(clients))
    made.aggregate_train(1, [])  # an empty round, so that round 1 is over
    made.run(LoopGrid(clients, fault))
    state = made.server.state
    assert made.server.finished
    assert state.rejected > 0
    assert "a" not in state.acknowledged
    assert "a" not in state.exhausted
    assert state.acknowledged["b"] > 0


def test_a_name_must_be_shown_by_its_key_and_afresh(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    made, clients = federation(tmp_path, rounds=8)
    recorded: list[Any] = []

    def record(_: str, content: Any) -> Any:
        recorded.append(content)
        return content

    made.configure_train(1, None, None, LoopGrid(clients, record))
    made.aggregate_train(1, [])
    known = dict(made.nodes.newest)
    assert set(known) == set(NAMES)

    def claims(name: str) -> Callable[[str, Any], Any]:
        return lambda own, content: packed(replace(unpacked(content)[0], name=name), unpacked(content)[1])

    def array(_: str, content: Any) -> Any:
        return packed(replace(unpacked(content)[0], challenge=np.zeros(2)))

    for fault in (claims("b"), claims("stranger"), lambda *_: recorded[1], lambda *_: flower.RecordDict(), array):
        grid = LoopGrid({"a": clients["a"]}, fault)
        grid.names = {50: "a"}
        made.nodes._met.discard(50)
        made.nodes.present(grid, lambda _: True)
        assert made.nodes.newest == known


def test_an_error_of_a_client_says_nothing_about_its_data(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan = plan_of(rounds=3)
    secret = "income 48 000"

    def broken(*_: Any) -> Any:
        raise ValueError(secret)

    enrol(plan, "a", tmp_path / "a", examples=10)
    client = FederatedClient(plan, "a", tmp_path / "a", broken)
    request = Request("test", 1, np.zeros(3), np.zeros(3), 0)
    message = flower.Message(packed(request), 3, flower.MessageType.TRAIN)
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError) as error:
        client_app(lambda _: client)(message, SimpleNamespace())
    assert secret not in str(error.value)
    assert secret in caplog.text
    with pytest.raises(RuntimeError, match="its own log"):
        client_app(lambda _: client)(
            flower.Message(flower.RecordDict(), 3, flower.MessageType.TRAIN), SimpleNamespace()
        )


def test_clients_are_not_asked_what_has_no_noise(tmp_path: Path) -> None:
    made, clients = federation(tmp_path)
    assert made.configure_evaluate(1, None, None, LoopGrid(clients)) == []
    app = client_app(lambda _: clients["a"])
    with pytest.raises(ValueError, match="evaluate"):
        app(flower.Message(packed(Presence("test", "", "00")), 3, flower.MessageType.EVALUATE), SimpleNamespace())


def test_a_server_app_closes_its_folder(tmp_path: Path) -> None:
    made, clients = federation(tmp_path, rounds=4)
    roster, plan = made.server.roster, made.server.plan
    made.server.close()
    app = server_app(lambda context: FederatedServer(plan, roster, tmp_path / context), patience=0.0)
    app._main(LoopGrid(clients), "server")
    server = FederatedServer(plan, roster, tmp_path / "server")  # the lock is free
    assert server.finished
    assert server.state.acknowledged == sent(clients)


def test_replies_that_come_twice_or_after_their_round_count_once(tmp_path: Path) -> None:
    made, clients = federation(tmp_path, rounds=3)
    grid = LoopGrid(clients)
    replies = grid.send_and_receive(made.configure_train(1, None, None, grid), timeout=1.0)
    made.aggregate_train(1, [*replies, *replies])
    assert made.server.state.rejected == 2
    before = dict(made.server.state.acknowledged)
    made.configure_train(2, None, None, grid)
    made.aggregate_train(2, replies)  # of the first round
    assert made.server.state.rejected == 4
    assert made.server.state.acknowledged == before


def test_requests_are_a_list_that_can_be_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, clients = federation(tmp_path, rounds=2)
    listed = CorrelatedNoise.configure_train
    monkeypatch.setattr(CorrelatedNoise, "configure_train", lambda *each: (one for one in listed(*each)))
    with pytest.raises(AssertionError, match="twice"):
        made.run(LoopGrid(clients))
