"""Wrapped strategies of Flower: the same models without noise, and what one client can do to a sum."""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import flower_private
from corrnoise.simulations.adapters.flower_private import PrivateStrategy, named_client, private_strategy
from corrnoise.simulations.adapters.training import UnprotectedWarning
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import Grid, add_truncated
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation, Reshuffled
from corrnoise.theory.privacy import Budget

flower = pytest.importorskip("flwr.app")
clientapp = pytest.importorskip("flwr.clientapp")
strategies = pytest.importorskip("flwr.serverapp.strategy")
task = pytest.importorskip("flwr.supercore.task_identity")

NAMES = tuple("abcdef")
ROUNDS = 4
QUIET = 1e12  # of ρ, where noise is smaller than the tolerance
SHAPES: dict[str, tuple[int, ...]] = {"weight": (3, 2), "bias": (2,), "scale": ()}
Content = dict[str, Any]


@pytest.fixture(autouse=True)
def _in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages in a task only."""
    for number in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(task.TaskIdentity, number, 1)


def model(seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return flower.ArrayRecord(
        {name: flower.Array(np.asarray(rng.normal(size=shape), np.float32)) for name, shape in SHAPES.items()}
    )


def trained(name: str, given: Any) -> dict[str, np.ndarray]:
    """Three local steps of a client toward its own point."""
    rng = np.random.default_rng([*name.encode()])
    found = {}
    for key, array in given.items():
        x = array.numpy()
        point = rng.normal(size=x.shape).astype(np.float32)
        for _ in range(3):
            x = x - np.float32(0.2) * (x - point)
        found[key] = np.asarray(x)
    return found


class LoopGrid:
    """Nodes that answer at once; a fault may change, drop or repeat a reply, by the name of the client."""

    def __init__(self, names: Sequence[str] = NAMES, fault: Callable[[str, Any], list[Any]] = lambda _, x: [x]) -> None:
        self.names = {7 + number: name for number, name in enumerate(names)}
        self.fault = fault
        self.rounds: list[tuple[int, list[str]]] = []  # the number of each round and who was asked
        self.evaluated = 0
        self.examples = dict.fromkeys(names, 10)
        self.app = named_client(clientapp.ClientApp())

        @self.app.train()
        def train(message: Any, context: Any) -> Any:
            name = context.node_config["partition-id"]
            arrays = flower.ArrayRecord(
                {key: flower.Array(x) for key, x in trained(name, message.content["arrays"]).items()}
            )
            metrics = flower.MetricRecord({"num-examples": self.examples[name], "loss": 0.5})
            return flower.Message(flower.RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

        @self.app.evaluate()
        def evaluate(message: Any, context: Any) -> Any:
            self.evaluated += 1
            metrics = flower.MetricRecord({"num-examples": 10, "loss": 0.25})
            return flower.Message(flower.RecordDict({"metrics": metrics}), reply_to=message)

    def get_node_ids(self) -> list[int]:
        return sorted(self.names)

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float) -> list[Any]:
        assert isinstance(messages, list), "Flower reads messages twice"
        training = [each for each in messages if each.metadata.message_type == flower.MessageType.TRAIN]
        if training:
            asked = [self.names[each.metadata.dst_node_id] for each in training]
            self.rounds.append((training[0].content["config"]["server-round"], asked))
        replies = []
        for message in messages:
            name = self.names[message.metadata.dst_node_id]
            reply = self.app(message, SimpleNamespace(node_config={"partition-id": name}))
            train = message.metadata.message_type == flower.MessageType.TRAIN
            replies += self.fault(name, reply) if train else [reply]
        return replies


def everybody(**options: Any) -> dict[str, Any]:
    """All clients in every round, with next to no noise."""
    given = {
        "budget": Budget(rho=QUIET, clip_norm=20.0),
        "participation": Participation.min_sep(ROUNDS, 1, unit="user"),
        "clients": NAMES,
        "clients_per_round": len(NAMES),
        "patience": 0.0,
    }
    return given | options


def numbers(arrays: Any) -> np.ndarray:
    return np.concatenate([arrays[name].numpy().reshape(-1) for name in SHAPES])


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Grid, np.ndarray]]:
    """The sums that runs get from now on."""
    sums: list[tuple[Grid, np.ndarray]] = []
    add_noise = PrivateRun.add_noise

    def noted(run: PrivateRun, total: Any, **options: Any) -> Any:
        assert run.grid is not None
        sums.append((run.grid, total.copy()))
        return add_noise(run, total, **options)

    monkeypatch.setattr(PrivateRun, "add_noise", noted)
    return sums


# -- utility -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        strategies.FedAvg,
        lambda: strategies.FedProx(proximal_mu=0.1),
        lambda: strategies.FedAvgM(server_learning_rate=0.5, server_momentum=0.9),
        lambda: strategies.FedAdam(tau=0.1),
        lambda: strategies.FedYogi(eta=0.1, tau=0.1),
        lambda: strategies.FedAdagrad(tau=0.1),
    ],
    ids=["avg", "prox", "momentum", "adam", "yogi", "adagrad"],
)
def test_without_noise_the_models_are_those_of_the_strategy(make: Callable[[], Any]) -> None:
    plain = make().start(LoopGrid(), model(), num_rounds=ROUNDS)
    grid = LoopGrid()
    private = private_strategy(make(), **everybody()).start(grid, model(), num_rounds=ROUNDS)
    assert np.abs(numbers(private.arrays) - numbers(model())).max() > 0.1
    assert numbers(private.arrays) == pytest.approx(numbers(plain.arrays), abs=1e-4)
    assert [(number, len(asked)) for number, asked in grid.rounds] == [(t, 6) for t in range(1, ROUNDS + 1)]


def test_the_noise_is_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models move by the released sums, divided by the number of clients that are expected."""
    released = []
    add_noise = PrivateRun.add_noise

    def noted(run: PrivateRun, total: Any) -> Any:
        released.append(add_noise(run, total))
        return released[-1]

    monkeypatch.setattr(PrivateRun, "add_noise", noted)
    options = everybody(budget=Budget(rho=1.0), mechanism=NuFTRL(0.1))
    made = private_strategy(strategies.FedAvg(), **options)
    result = made.start(LoopGrid(fault=lambda name, reply: [] if name == "a" else [reply]), model())
    moved = np.sum(released, axis=0) / 6
    assert np.linalg.norm(moved) > 0.1
    assert numbers(result.arrays) - numbers(model()) == pytest.approx(moved, abs=1e-5)
    run = made.run
    assert run is not None
    assert (
        run.multiplier
        == PrivateRun(Budget(rho=1.0), Participation.min_sep(ROUNDS, 1, unit="user"), NuFTRL(0.1), 9).multiplier
    )


# -- one client --------------------------------------------------------------------------------------------------------


def first_sum(monkeypatch: pytest.MonkeyPatch, fault: Callable[[str, Any], list[Any]]) -> tuple[Grid, np.ndarray]:
    """The sum of the first round, with updates that are longer than the clipping norm."""
    with monkeypatch.context() as patch:
        sums = counted(patch)
        options = everybody(
            budget=Budget(rho=1.0, clip_norm=0.5),
            participation=Participation.single(1, unit="user"),
            mechanism=NuFTRL(1.0),
        )
        private_strategy(strategies.FedAvg(), **options).start(LoopGrid(fault=fault), model())
    return sums[0]


def hostile(change: Callable[[Content], None], repeat: int = 1) -> Callable[[str, Any], list[Any]]:
    """Client c changes its reply."""

    def fault(name: str, reply: Any) -> list[Any]:
        if name != "c":
            return [reply]
        arrays = {key: each.numpy().astype(np.float64) for key, each in reply.content["arrays"].items()}
        change(arrays)
        record = flower.ArrayRecord({key: flower.Array(np.asarray(each)) for key, each in arrays.items()})
        reply.content["arrays"] = record
        return [reply] * repeat

    return fault


def influence(monkeypatch: pytest.MonkeyPatch, fault: Callable[[str, Any], list[Any]]) -> float:
    """The distance of the sum of a round from the sum without client c, in clipping norms; exact integers."""
    grid, there = first_sum(monkeypatch, fault)
    same, without = first_sum(monkeypatch, lambda name, reply: [] if name == "c" else [reply])
    assert grid == same
    squares = sum(int(q) ** 2 for q in there.astype(object) - without.astype(object))
    return float(np.sqrt(float(squares)) * grid.unit / 0.5)


def scaled(factor: float) -> Callable[[Content], None]:
    return lambda arrays: arrays.update({key: factor * each for key, each in arrays.items()})


@pytest.mark.parametrize(
    ("fault", "least"),
    [
        (hostile(scaled(1.0)), 0.999),
        (hostile(scaled(1e30)), 0.999),
        (hostile(lambda arrays: arrays.update(weight=np.full((3, 2), 1e150))), 0.999),
        (hostile(scaled(1e30), repeat=5), 0.999),  # replies of one client that come several times
        (hostile(lambda arrays: arrays.update(weight=arrays["weight"].astype(np.float16))), 0.999),
    ],
    ids=["honest", "huge", "one huge array", "repeated", "float16"],
)
def test_one_client_moves_a_sum_by_at_most_the_clipping_norm(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[str, Any], list[Any]], least: float
) -> None:
    assert least < influence(monkeypatch, fault) <= 1.0


def two_records(name: str, reply: Any) -> list[Any]:
    if name == "c":
        reply.content["more"] = flower.ArrayRecord(dict(reply.content["arrays"].items()))
    return [reply]


@pytest.mark.parametrize(
    "fault",
    [
        hostile(lambda arrays: arrays.update(bias=np.array([np.nan, 0.0]))),
        hostile(lambda arrays: arrays.update(bias=np.array([np.inf, 0.0]))),
        hostile(lambda arrays: arrays.update(bias=np.array([1e300, 0.0]))),  # its square is not finite
        hostile(lambda arrays: arrays.update(bias=np.zeros(3))),
        hostile(lambda arrays: arrays.update(bias=np.zeros((2, 1)))),
        hostile(lambda arrays: arrays.update(bias=np.zeros(2, np.int64))),
        hostile(lambda arrays: arrays.update(bias=np.zeros(2, complex))),
        hostile(lambda arrays: arrays.update(more=np.zeros(2))),
        hostile(lambda arrays: arrays.pop("bias")),
        two_records,
        lambda name, reply: [flower.Message(flower.RecordDict(), reply_to=to(reply)) if name == "c" else reply],
        lambda name, reply: [flower.Message(flower.Error(2, "secret"), reply_to=to(reply)) if name == "c" else reply],
        lambda name, reply: [raw(reply, b"\x93NUMPY\x01\x00") if name == "c" else reply],
    ],
    ids=[
        *("nan", "inf", "overflow", "longer", "other shape", "integers", "complex", "more", "fewer", "two records"),
        *("empty", "error", "not an array"),
    ],
)
def test_replies_that_are_not_updates_count_as_zero(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Callable[[str, Any], list[Any]]
) -> None:
    assert influence(monkeypatch, fault) == 0.0
    assert "a reply of node 9 does not count" in caplog.text


def test_the_reason_of_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def failed(name: str, reply: Any) -> list[Any]:
        return [flower.Message(flower.Error(2, f"disk of {name}"), reply_to=to(reply)) if name == "c" else reply]

    private_strategy(strategies.FedAvg(), **everybody()).start(LoopGrid(fault=failed), model())
    assert caplog.text.count("a reply of node 9 does not count: disk of c") == ROUNDS


def to(reply: Any) -> Any:
    """A message that the node of a reply answers."""
    return flower.Message(flower.RecordDict(), reply.metadata.src_node_id, flower.MessageType.TRAIN)


def raw(reply: Any, data: bytes) -> Any:
    reply.content["arrays"]["bias"] = flower.Array("float32", (2,), "numpy.ndarray", data)
    return reply


def test_a_reply_of_a_client_that_was_not_asked_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger answers in place of a client; and a client of another round answers, too."""
    sums = counted(monkeypatch)
    options = everybody(
        budget=Budget(rho=1.0),
        participation=Participation.single(2, unit="user"),
        clients_per_round=3,
        mechanism=NuFTRL(1.0),
    )
    late: list[Any] = []

    def fault(name: str, reply: Any) -> list[Any]:
        late.append(reply)
        return list(late) if len(late) > 3 else [reply]

    private_strategy(strategies.FedAvg(), **options).start(LoopGrid(fault=fault), model())
    (grid, _), (_, second) = sums
    assert len(late) == 6
    assert np.linalg.norm(second * grid.unit) <= 3.0
    with monkeypatch.context() as patch:
        patch.setattr(flower_private, "add_clipped", lambda *_: pytest.fail("a reply was added"))
        private_strategy(strategies.FedAvg(), **options).start(
            LoopGrid(
                fault=lambda name, reply: [
                    flower.Message(
                        reply.content, reply_to=flower.Message(flower.RecordDict(), 99, flower.MessageType.TRAIN)
                    )
                ]
            ),
            model(),
        )


def test_numbers_of_examples_and_metrics_of_clients_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = counted(monkeypatch)
    for number in (10, 10_000):
        grid = LoopGrid()
        grid.examples["c"] = number
        result = private_strategy(strategies.FedAvg(), **everybody()).start(grid, model())
        assert grid.evaluated == 0
        assert all(not metrics for metrics in result.train_metrics_clientapp.values())
        assert not result.evaluate_metrics_clientapp
    assert np.array_equal(sums[0][1], sums[ROUNDS][1])


def test_metrics_of_clients_are_shown_where_that_is_asked_for() -> None:
    with pytest.warns(UnprotectedWarning):
        made = private_strategy(strategies.FedAvg(), **everybody(unprotected=True))
    grid = LoopGrid()
    result = made.start(grid, model())
    assert grid.evaluated == 6 * ROUNDS
    assert result.train_metrics_clientapp[1]["loss"] == pytest.approx(0.5)
    assert result.evaluate_metrics_clientapp[1]["loss"] == pytest.approx(0.25)


# -- mutants: the checks above can fail --------------------------------------------------------------------------------


def not_clipped(update: np.ndarray, clip_norm: float, grid: Grid, total: np.ndarray) -> bool:
    add_truncated(update[np.newaxis], np.array([1 / grid.unit]), total)
    return True


def clipped_by_array(update: np.ndarray, clip_norm: float, grid: Grid, total: np.ndarray) -> bool:
    for part in (slice(0, 6), slice(6, 8)):
        factor = 0.9999 * clip_norm / np.linalg.norm(update[part])
        add_truncated(update[np.newaxis, part], np.array([factor / grid.unit]), total[part])
    return True


def test_updates_that_are_clipped_otherwise_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower_private, "add_clipped", clipped_by_array)
    assert influence(monkeypatch, hostile(scaled(1.0))) > 1.3
    monkeypatch.setattr(flower_private, "add_clipped", not_clipped)
    with pytest.raises(ValueError, match="units of the grid"):  # the run refuses the sum
        influence(monkeypatch, hostile(scaled(1.0)))


def test_weights_of_clients_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    added = PrivateStrategy._added

    def weighted(self: Any, reply: Any, before: Any, grid: Any, total: Any) -> Any:
        own = np.zeros_like(total)
        why = added(self, reply, before, grid, own)
        total += own * reply.content["metrics"]["num-examples"] // 20
        return why

    monkeypatch.setattr(PrivateStrategy, "_added", weighted)
    with pytest.raises((AssertionError, ValueError)):
        test_numbers_of_examples_and_metrics_of_clients_change_nothing(monkeypatch)


# -- rounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("participation", "size"),
    [
        (Participation.single(3, unit="user"), 2),
        (Participation.fixed_epochs(6, epochs=2, unit="user"), 2),
        (Participation.min_sep(7, 3, 2, unit="user"), 1),
        (Participation.reshuffled(6, epochs=2, unit="user"), 2),
    ],
    ids=lambda each: getattr(each, "kind", str(each)),
)
def test_the_run_chooses_the_clients_whatever_the_strategy_samples(participation: Participation, size: int) -> None:
    grid = LoopGrid()
    options = everybody(participation=participation, clients_per_round=size)
    made = private_strategy(strategies.FedAvg(fraction_train=0.5), **options)
    made.start(grid, model())
    assert made.run is not None
    order = made.run.batches
    assert order is not None
    batches = [sorted(NAMES[number] for number in order.batch(step)) for step in range(participation.length)]
    assert [sorted(asked) for _, asked in grid.rounds] == batches
    assert {len(asked) for _, asked in grid.rounds} == {size}
    for name in NAMES:
        steps = [step for step, (_, asked) in enumerate(grid.rounds) if name in asked]
        assert len(steps) <= participation.worst.count
        if not isinstance(participation, Reshuffled):
            assert all(b - a >= participation.worst.period for a, b in pairwise(steps))
    with pytest.raises(RuntimeError, match="started before"):
        made.start(grid, model())


class Different(strategies.FedAvg):  # type: ignore[name-defined]
    """Another message for each node."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        messages = super().configure_train(server_round, arrays, config, grid)
        for number, each in enumerate(messages):
            each.content = flower.RecordDict({"arrays": arrays, "config": flower.ConfigRecord({"number": number})})
        return messages


class Losing(strategies.FedAvg):  # type: ignore[name-defined]
    """Returns no model, or another one."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        return (None if server_round == 1 else flower.ArrayRecord([np.zeros(3)])), None


@pytest.mark.parametrize(
    ("strategy", "error", "words"),
    [
        (strategies.FedAvg(fraction_train=0.0), ValueError, "fraction_train must be above 0"),
        (strategies.FedAvg(min_available_nodes=100), ValueError, "lower its min_available_nodes"),
        (Different(), ValueError, "same message for all clients"),
        (Losing(), RuntimeError, "model of the same arrays"),
    ],
    ids=["none", "more", "different", "losing"],
)
def test_strategies_that_cannot_be_wrapped(
    strategy: Any, error: Any, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("flwr.serverapp.strategy.strategy_utils.sleep", lambda _: None)
    made = private_strategy(strategy, **everybody(folder=tmp_path / "run"))
    with pytest.raises(error, match=words):
        made.start(LoopGrid(), model())
    assert (tmp_path / "run").exists() == (error is RuntimeError)  # messages are tried before a run begins


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clients": ["a", "a"]}, "different names"),
        ({"clients": "abc"}, "different names"),
        ({"clients": []}, "different names"),
        ({"clients": [1, 2]}, "different names"),
        ({"clients_per_round": 7}, "batch_size"),
        ({"participation": Participation.min_sep(4, 1)}, "unit='user'"),
        ({"participation": Participation.min_sep(4, 1, unit="user", members=2)}, "members=1"),
        ({"participation": Participation.poisson(4, 0.5)}, "not covered"),
        ({"budget": Budget(rho=1.0, clip_norm=1e-10)}, "clip_norm"),
        ({"patience": -1.0}, "patience"),
    ],
)
def test_arguments_out_of_their_range(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        private_strategy(strategies.FedAvg(), **everybody(**options))


def test_models_and_lengths_that_do_not_fit() -> None:
    for arrays, words in (
        ([np.zeros(3), np.zeros(1, np.int64)], "GroupNorm"),
        ([np.array([np.nan])], "finite floats"),
        ([np.zeros(0)], "at least one number"),
        ([], "at least one number"),
    ):
        with pytest.raises(ValueError, match=words):
            private_strategy(strategies.FedAvg(), **everybody()).start(LoopGrid(), flower.ArrayRecord(arrays))
    with pytest.raises(ValueError, match="num_rounds must be None or the 4 steps"):
        private_strategy(strategies.FedAvg(), **everybody()).start(LoopGrid(), model(), num_rounds=3)
    with pytest.raises(TypeError, match="strategy must be a Strategy"):
        private_strategy("FedAvg", **everybody())
    with pytest.raises(RuntimeError, match="call its start"):
        private_strategy(strategies.FedAvg(), **everybody()).configure_train(1, model(), None, LoopGrid())


def test_clients_that_are_not_there(caplog: pytest.LogCaptureFixture) -> None:
    grid = LoopGrid(NAMES[:4])
    private_strategy(strategies.FedAvg(), **everybody()).start(grid, model())
    assert [len(asked) for _, asked in grid.rounds] == [4] * ROUNDS
    assert "2 clients are not connected and count as zero: " in caplog.text
    with pytest.raises(RuntimeError, match="no client of round 1 is connected"):
        private_strategy(strategies.FedAvg(), **everybody()).start(LoopGrid(["stranger"]), model())


def test_a_client_with_two_nodes_is_asked_once() -> None:
    grid = LoopGrid()
    grid.names[50] = "c"
    made = private_strategy(strategies.FedAvg(), **everybody())
    made.start(grid, model())
    assert [sorted(asked) for _, asked in grid.rounds] == [list(NAMES)] * ROUNDS


# -- restarts ----------------------------------------------------------------------------------------------------------


class StopError(Exception):
    """The process ends."""


def stopping(grid: LoopGrid, before: int) -> LoopGrid:
    """A grid that ends the process when a round is asked."""
    send = grid.send_and_receive

    def sent(messages: Any, *, timeout: float) -> Any:
        if len(grid.rounds) == before - 1 and any(each.metadata.message_type == "train" for each in messages):
            raise StopError
        return send(messages, timeout=timeout)

    grid.send_and_receive = sent  # type: ignore[method-assign]
    return grid


@pytest.mark.parametrize(
    "make",
    [
        strategies.FedAvg,
        lambda: strategies.FedAvgM(server_learning_rate=0.5, server_momentum=0.9),
        lambda: strategies.FedAdam(tau=0.1),
    ],
    ids=["avg", "momentum", "adam"],
)
@pytest.mark.parametrize("stop", [1, 3])
def test_a_folder_resumes_after_a_crash(tmp_path: Path, make: Callable[[], Any], stop: int) -> None:
    plain = make().start(LoopGrid(), model(), num_rounds=ROUNDS)
    options = everybody(folder=tmp_path / "run")
    with pytest.raises(StopError):
        private_strategy(make(), **options).start(stopping(LoopGrid(), stop), model())
    grid = LoopGrid()
    grid.names = {node + 100: name for node, name in grid.names.items()}
    seen = []
    again = private_strategy(make(), **options)
    result = again.start(grid, model(1), evaluate_fn=lambda number, _: seen.append(number))
    assert [number for number, _ in grid.rounds] == [1, 2, 3, 4][stop - 1 :]
    assert seen == [0, 1, 2, 3, 4][stop - 1 :]
    assert numbers(result.arrays) == pytest.approx(numbers(plain.arrays), abs=1e-4)
    last = private_strategy(make(), **options).start(stopping(LoopGrid(), 1), model(2))  # all rounds were made
    assert np.array_equal(numbers(last.arrays), numbers(result.arrays))


def test_a_noisy_sum_is_released_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends after the noise of round 2 was made; other replies do not change the release."""
    released = []
    add_noise = PrivateRun.add_noise

    def noted(run: PrivateRun, total: Any) -> Any:
        released.append(add_noise(run, total).copy())
        if len(released) == 2:
            raise StopError
        return released[-1]

    monkeypatch.setattr(PrivateRun, "add_noise", noted)
    options = everybody(budget=Budget(rho=1.0), folder=tmp_path / "run", mechanism=NuFTRL(0.1))
    with pytest.raises(StopError):
        private_strategy(strategies.FedAvg(), **options).start(LoopGrid(), model())
    private_strategy(strategies.FedAvg(), **options).start(LoopGrid(NAMES[:2]), model())
    assert len(released) == ROUNDS + 1
    assert np.array_equal(released[1], released[2])
    assert not np.array_equal(released[0], released[1])


@pytest.mark.parametrize(
    "change",
    [{"clients": tuple("ghijkl")}, {"clients_per_round": 5}, {"budget": Budget(rho=2.0)}, {"strategy": "other"}],
    ids=lambda each: next(iter(each)),
)
def test_a_folder_refuses_another_run(tmp_path: Path, change: dict[str, Any]) -> None:
    options = everybody(folder=tmp_path / "run", participation=Participation.fixed_epochs(4, period=1, unit="user"))
    with pytest.raises(StopError):
        private_strategy(strategies.FedAvg(), **options).start(stopping(LoopGrid(), 3), model())
    other = {} if "strategy" in change else change
    strategy = strategies.FedAdam() if "strategy" in change else strategies.FedAvg()
    with pytest.raises(ValueError, match="settings must be those"):
        private_strategy(strategy, **options | other).start(LoopGrid("ghijkl"), model())
    for pairs in ([(f"other {name}", array) for name, array in model().items()], reversed(model().items())):
        with pytest.raises(ValueError, match="arrays digest differs"):  # the noise of a number goes on with this number
            private_strategy(strategies.FedAvg(), **options).start(LoopGrid(), flower.ArrayRecord(dict(pairs)))


def test_each_round_has_a_checkpoint(tmp_path: Path) -> None:
    participation = Participation.fixed_epochs(6, epochs=2, unit="user")
    options = everybody(folder=tmp_path / "run", participation=participation, clients_per_round=2)
    first, second = LoopGrid(), LoopGrid()
    with pytest.raises(StopError):
        private_strategy(strategies.FedAvg(), **options).start(stopping(first, 3), model())
    private_strategy(strategies.FedAvg(), **options).start(second, model())
    rounds = first.rounds + second.rounds
    assert [number for number, _ in rounds] == [1, 2, 3, 4, 5, 6]
    assert [asked for _, asked in rounds[:3]] == [asked for _, asked in rounds[3:]]  # the order of the folder


# -- words -------------------------------------------------------------------------------------------------------------


def test_the_guarantee_is_logged_when_a_run_starts(caplog: pytest.LogCaptureFixture) -> None:
    options = everybody(budget=Budget(epsilon=20.0, delta=1e-6, clip_norm=0.01))
    with caplog.at_level(logging.INFO, "flwr"):
        private_strategy(strategies.FedAvg(), **options).start(LoopGrid(), model())
    assert "epsilon 20 at delta 1e-06, for clients and zero-out adjacency" in caplog.text
    assert "6 of 6 clients a round, updates clipped to norm 0.01" in caplog.text
    assert "ArrayRecord key: 'arrays'" in caplog.text  # the strategy's own words
    assert "epsilon is 20 at delta=1e-06, a weak guarantee" in caplog.text


def test_noise_that_is_larger_than_updates_is_said(caplog: pytest.LogCaptureFixture) -> None:
    private_strategy(strategies.FedAvg(), **everybody(budget=Budget(rho=1e-3))).start(LoopGrid(), model())
    assert "the noise in the mean update has the norm" in caplog.text
    assert "weak" not in caplog.text


def test_a_client_app_answers_questions_for_its_name_only() -> None:
    app = named_client(clientapp.ClientApp(), name_of=lambda context: "own")
    with pytest.raises(ValueError, match="message of a federation"):
        app(flower.Message(flower.RecordDict(), 3, flower.MessageType.QUERY), SimpleNamespace())
