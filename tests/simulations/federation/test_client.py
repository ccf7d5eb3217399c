"""A client against hostile servers, crashes, full disks, many processes and old backups; mutants are found out."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.federation import client as module
from corrnoise.simulations.federation import rounds
from corrnoise.simulations.federation.client import STATE, STATE_KINDS, FederatedClient, enrol, linear_contribution
from corrnoise.simulations.federation.messages import Refusal, Reply, Request
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.server import STATE as SERVER_STATE
from corrnoise.simulations.federation.server import FederatedServer
from corrnoise.simulations.run import draws, owned
from corrnoise.support.serialise import load, save
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.numerics.checks import Array
from tests.simulations.federation.federations import LOSS, client_of, plan_of


def request_of(plan: Plan, t: int, acknowledged: int = 0, **settings: Any) -> Request:
    d = plan.dimension
    return replace(Request(plan.run, t, np.full(d, 0.1), np.full(d, 0.2), acknowledged), **settings)


def answered(client: FederatedClient, request: Request) -> Reply:
    reply = client.reply(request)
    assert isinstance(reply, Reply)
    return reply


def test_what_was_sent_is_sent_again(tmp_path: Path) -> None:
    plan = plan_of()
    client = client_of(plan, "a", tmp_path / "a")
    first = answered(client, request_of(plan, 1))
    elsewhere = request_of(plan, 1, current=np.zeros(3))
    for again in (client, client_of(plan, "a", tmp_path / "a", enrolled=False)):
        np.testing.assert_array_equal(answered(again, elsewhere).vector, first.vector)
    second = answered(client, request_of(plan, 2, 1))
    assert (second.first, second.last) == (2, 2)
    both = answered(client, request_of(plan, 4, 1))
    assert (both.first, both.last) == (2, 3)


def test_a_server_cannot_ask_for_what_it_has(tmp_path: Path) -> None:
    plan = plan_of()
    client = client_of(plan, "a", tmp_path / "a")
    answered(client, request_of(plan, 2))
    answered(client, request_of(plan, 4, 1))
    before = (tmp_path / "a" / STATE).read_bytes()
    bad = [
        request_of(plan, 3, 1),
        request_of(plan, 21, 1),
        request_of(plan, 5, 3),
        request_of(plan, 5, 0),
        request_of(plan, 4, 2),
        request_of(plan, 5, 1, run="other"),
        request_of(plan, 5, 1, current=np.zeros(4)),
        request_of(plan, 5, 1, current=np.array([0.0, np.nan, 0.0])),
        request_of(plan, 5, 1, previous=np.array([0.0, np.inf, 0.0])),
        request_of(plan, 5, 1, current="x"),
        request_of(plan, 5, 1, current=np.ma.masked_array([0.0, np.nan, 0.0], [False, True, False])),
        request_of(plan, 5, 1, round=5.0),
        replace(request_of(plan, 5, 1), acknowledged=True),
    ]
    for request in bad:
        assert isinstance(client.reply(request), Refusal), request
    assert (tmp_path / "a" / STATE).read_bytes() == before


def test_all_participations_are_used_once(tmp_path: Path) -> None:
    plan = plan_of()
    seen: list[int] = []
    client = client_of(plan, "a", tmp_path / "a")
    made = client._contribution

    def noted(t: int, x: Array, y: Array, z: Any) -> Any:
        seen.extend(z.tolist())
        return made(t, x, y, z)

    client._contribution = noted
    for t in range(1, 9):
        answered(client, request_of(plan, t, t - 1))
    last = client.reply(request_of(plan, 9, 8))
    assert isinstance(last, Refusal)
    assert last.exhausted
    assert seen[:8] == seen[8:]
    assert len(set(seen)) == 8


def test_what_was_lost_comes_again_from_an_exhausted_client(tmp_path: Path) -> None:
    plan = plan_of()
    client = client_of(plan, "a", tmp_path / "a")
    sent = [answered(client, request_of(plan, t, min(t - 1, 6))).vector for t in range(1, 9)]
    before = (tmp_path / "a" / STATE).read_bytes()
    again = answered(client, request_of(plan, 12, 6))
    assert (again.first, again.last) == (7, 8)
    np.testing.assert_array_equal(again.vector, sent[-1])
    assert (tmp_path / "a" / STATE).read_bytes() == before
    last = client.reply(request_of(plan, 13, 8))
    assert isinstance(last, Refusal)
    assert last.exhausted


def noise_of(plan: Plan, folder: Path, rounds: int) -> Array:
    """The noise of the messages of a client with contributions 0, shape (rounds, d)."""
    enrol(plan, "a", folder, examples=10)
    client = FederatedClient(plan, "a", folder, lambda t, x, y, z: np.zeros((len(z), plan.dimension)))
    return np.array([answered(client, request_of(plan, t, t - 1)).vector for t in range(1, rounds + 1)])


def test_the_noise_has_the_law_of_the_mechanism(tmp_path: Path) -> None:
    plan = plan_of(model=40_000)
    found = noise_of(plan, tmp_path / "a", 8) / plan.noise_std
    matrix = plan.mechanism.noising_matrix(8)
    np.testing.assert_allclose(found @ found.T / 40_000, matrix @ matrix.T, atol=0.04)


# -- fresh noise -------------------------------------------------------------------------------------------------------


def check_fresh(folder: Path) -> None:
    """An old state that was put back gives new noise."""
    plan = plan_of()
    client = client_of(plan, "a", folder / "a")
    answered(client, request_of(plan, 1))
    shutil.copytree(folder / "a", folder / "copy")
    second = answered(client, request_of(plan, 2, 1)).vector
    shutil.rmtree(folder / "a")
    (folder / "copy").rename(folder / "a")
    assert np.linalg.norm(answered(client, request_of(plan, 2, 1)).vector - second) > 1e-3


def test_noise_is_fresh_after_a_rollback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_fresh(tmp_path)
    monkeypatch.setattr(draws, "fresh", lambda size: bytes(size))  # a secret that is stored
    (tmp_path / "mutant").mkdir()
    with pytest.raises(AssertionError):
        check_fresh(tmp_path / "mutant")


def tree_rho(noise: PoleNoise, parents: list[int], used: list[int]) -> float:
    """δᵀΣ⁻¹δ of the messages at the nodes of a tree of participations, of fresh draws, with shifts at some nodes.

    Node v follows ``parents[v]``, −1 for none, and ``used`` has the numbers of participations that the example is in.
    """
    paths = []
    for v in range(len(parents)):
        path = [v]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        paths.append(path[::-1])
    depth = max(map(len, paths))
    matrix = noise.noising_matrix(depth)
    joint = np.zeros((len(parents), len(parents)))
    for v, path in enumerate(paths):
        joint[v, path] = matrix[len(path) - 1, : len(path)]
    shift = np.array([float(len(path) - 1 in used) for path in paths])
    return float(np.square(np.linalg.solve(joint, shift)).sum())


@pytest.mark.parametrize(("share", "ratio"), [(0.3, 1.379310), (1.0, 1.166667)])
def test_one_step_back_costs_what_theorem_8_says(share: float, ratio: float) -> None:
    noise = PoleNoise([0.0], [share])
    chain = [-1, 0, 1, 2, 3, 4]
    once = max(tree_rho(noise, chain, [k]) for k in range(6))
    branches = [[*range(-1, 5), v] for v in range(-1, 5)]  # the state after participation v + 1 is restored once
    worst = max(tree_rho(noise, tree, [k]) for tree in branches[-2:] for k in range(6)) / once
    assert worst <= 2
    assert any(
        max(tree_rho(noise, tree, [k]) for k in range(6)) / once == pytest.approx(ratio, rel=1e-5) for tree in branches
    )


def test_r_restored_states_cost_at_most_one_budget_each() -> None:
    rng = np.random.default_rng(0)
    noise = PoleNoise([0.0], [0.3])
    for _ in range(200):
        size = int(rng.integers(2, 9))
        parents = [-1, *(int(rng.integers(-1, v)) for v in range(1, size))]
        leaves = size - len(set(parents) - {-1})
        used = [int(rng.integers(0, 3))]
        used.append(used[0] + 3)
        gamma = max(tree_rho(noise, list(range(-1, 7)), [k, k + 3]) for k in range(3))
        assert tree_rho(noise, parents, used) <= leaves * gamma * (1 + 1e-9)


# -- crashes -----------------------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys
from pathlib import Path
from corrnoise.simulations.federation import client as module
from tests.simulations.federation.federations import client_of, plan_of
from tests.simulations.federation.test_client import request_of
plan, kept = plan_of(), module.save
def dying(*arguments, **settings):
    if sys.argv[2] == "after":
        kept(*arguments, **settings)
    os._exit(9)
if sys.argv[2] in ("before", "after"):
    module.save = dying
reply = client_of(plan, "a", Path(sys.argv[1]), enrolled=False).reply(request_of(plan, 1))
print(reply.vector.tobytes().hex())
"""


def started(folder: Path, moment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(folder), moment]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


def ended(folder: Path, moment: str) -> tuple[int, str]:
    with started(folder, moment) as process:
        text = process.communicate(timeout=100)[0]
    return process.returncode, text


@pytest.mark.slow
def test_a_client_that_dies_sends_what_it_saved(tmp_path: Path) -> None:
    plan = plan_of()
    client = client_of(plan, "a", tmp_path / "a")
    before = (tmp_path / "a" / STATE).read_bytes()
    assert ended(tmp_path / "a", "before") == (9, "")
    assert (tmp_path / "a" / STATE).read_bytes() == before
    assert ended(tmp_path / "a", "after") == (9, "")
    first = answered(client, request_of(plan, 1)).vector
    assert client.reply(request_of(plan, 2, 2)).__class__ is Refusal  # one participation, not two
    assert ended(tmp_path / "a", "never") == (0, first.tobytes().hex() + "\n")


@pytest.mark.slow
def test_processes_on_one_folder_take_part_once(tmp_path: Path) -> None:
    client_of(plan_of(), "a", tmp_path / "a")
    processes = [started(tmp_path / "a", "never") for _ in range(4)]
    assert len({process.communicate(timeout=100)[0] for process in processes}) == 1


def check_alone(folder: Path, patience: float) -> None:
    """Two objects that answer from one folder at a time give one answer, however their work overlaps."""
    plan = plan_of()
    both = threading.Barrier(2)

    def slow(t: int, x: Array, y: Array, examples: Any) -> Array:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=patience)  # until the other has read the state, too
        return np.zeros((plan.batch, 3))

    enrol(plan, "a", folder, examples=10)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(FederatedClient(plan, "a", folder, slow).reply, request_of(plan, 1)) for _ in range(2)]
    first, second = (each.result() for each in answers)
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    np.testing.assert_array_equal(first.vector, second.vector)


def test_one_folder_is_used_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_alone(tmp_path / "a", 0.2)
    monkeypatch.setattr(owned, "locked", lambda *_, **__: mock.Mock())  # no lock
    with pytest.raises((AssertionError, OSError)):  # two replies, or one file that both write
        check_alone(tmp_path / "b", 30.0)


@pytest.mark.skipif(os.name != "posix", reason="owners and modes")
def test_a_state_that_others_may_read_or_change_is_refused(tmp_path: Path) -> None:
    """As the folder of a run; the server does the same."""
    client = client_of(plan_of(), "a", tmp_path / "a")
    answered(client, request_of(client.plan, 1))
    server = FederatedServer(plan_of(), ["a", "b", "c"], tmp_path / "server")
    server.requests()
    server.close()

    def server_again() -> None:
        FederatedServer(plan_of(), ["a", "b", "c"], tmp_path / "server").close()

    def client_again() -> None:
        client.reply(request_of(client.plan, 2))

    for state, use in ((tmp_path / "a" / STATE, client_again), (server.folder / SERVER_STATE, server_again)):
        for path, mode, words in ((state, 0o640, "readable"), (state.parent, 0o770, "writable")):
            before = path.stat().st_mode
            path.chmod(mode)
            with pytest.raises(PermissionError, match=f"must be {words} by its owner alone"):
                use()
            path.chmod(before)
        use()


def test_a_lock_of_another_program_stays(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("mine")
    with pytest.raises(ValueError, match="a lock must be empty, got 4 bytes"):
        FederatedServer(plan_of(), ["a", "b", "c"], tmp_path)
    assert (tmp_path / "lock").read_text() == "mine"


def check_saved(client: FederatedClient) -> None:
    """A reply that has left is on the disk: the same client, started again, repeats it."""
    plan = client.plan
    first = answered(client, request_of(plan, 1))
    again = client_of(plan, "a", client.folder, enrolled=False)
    np.testing.assert_array_equal(answered(again, request_of(plan, 1)).vector, first.vector)


def test_a_reply_leaves_after_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_saved(client_of(plan_of(), "a", tmp_path / "a"))
    mutant = client_of(plan_of(), "a", tmp_path / "b")
    monkeypatch.setattr(module, "save", lambda *_, **__: None)  # written later, and killed before
    with pytest.raises(AssertionError):
        check_saved(mutant)


def test_other_data_are_noticed(tmp_path: Path) -> None:
    """Data in another order would use examples more often than the plan says."""
    plan = plan_of()
    features, targets = np.random.default_rng(1).uniform(-0.5, 0.5, (10, 3)), np.linspace(-1, 1, 10)
    enrol(plan, "a", tmp_path / "a", examples=10)

    def client(order: Any) -> FederatedClient:
        return FederatedClient(plan, "a", tmp_path / "a", linear_contribution(LOSS, features[order], targets[order]))

    answered(client(np.arange(10)), request_of(plan, 1))
    before = (tmp_path / "a" / STATE).read_bytes()
    for other in (np.arange(10)[::-1], np.arange(9)):
        with pytest.raises(ValueError, match="contribution must have the data of the first participation"):
            client(other).reply(request_of(plan, 2, 1))
    with pytest.raises(ValueError, match="contribution must have the data of the first participation"):
        FederatedClient(plan, "a", tmp_path / "a", lambda t, x, y, z: np.zeros((2, 3))).reply(request_of(plan, 2, 1))
    assert (tmp_path / "a" / STATE).read_bytes() == before
    assert answered(client(np.arange(10)), request_of(plan, 2, 1)).last == 2


def test_a_contribution_cannot_change_the_order(tmp_path: Path) -> None:
    plan = plan_of()
    enrol(plan, "a", tmp_path / "a", examples=10)
    before = load(tmp_path / "a" / STATE, STATE_KINDS).order
    rows = np.full((plan.batch, 3), 0.1)

    def careless(t: int, x: Array, y: Array, examples: Any) -> Array:
        examples[:] = 0
        x[:] = np.nan
        return rows

    answered(FederatedClient(plan, "a", tmp_path / "a", careless), request_of(plan, 1))
    np.testing.assert_array_equal(load(tmp_path / "a" / STATE, STATE_KINDS).order, before)
    assert (rows == 0.1).all()


@pytest.mark.parametrize("name", ["", "a b", "a\nb 00", " a", "a\x00", 3])
def test_a_name_is_one_word(name: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name must be one printable word"):
        enrol(plan_of(), name, tmp_path / "a", examples=10)
    assert not (tmp_path / "a").exists()


def test_a_full_disk_keeps_the_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of()
    client = client_of(plan, "a", tmp_path / "a")
    before = (tmp_path / "a" / STATE).read_bytes()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="no space"):
            client.reply(request_of(plan, 1))
    assert (tmp_path / "a" / STATE).read_bytes() == before
    assert answered(client, request_of(plan, 1)).last == 1


def test_a_client_makes_no_state_for_itself(tmp_path: Path) -> None:
    plan = plan_of()
    client = client_of(plan, "a", tmp_path / "a")
    with pytest.raises(FileExistsError, match="spends the budget again"):
        enrol(plan, "a", tmp_path / "a", examples=10)
    with pytest.raises(ValueError, match="examples must be at least"):
        enrol(plan, "b", tmp_path / "b", examples=7)
    with pytest.raises(ValueError, match="state must be of client 'b'"):
        client_of(plan, "b", tmp_path / "a", enrolled=False).reply(request_of(plan, 1))
    with pytest.raises(ValueError, match="state must be of client 'a'"):
        client_of(plan_of(rho=3.0), "a", tmp_path / "a", enrolled=False).reply(request_of(plan, 1))
    (tmp_path / "a" / STATE).unlink()
    with pytest.raises(FileNotFoundError, match="that was enrolled"):
        client.reply(request_of(plan, 1))


# -- the guard ---------------------------------------------------------------------------------------------------------


def guarded(plan: Plan, folder: Path, contribution: Any, request: Request) -> Array:
    """The contribution of a client to its first message, without noise."""
    enrol(plan, "a", folder, examples=10)
    client = FederatedClient(plan, "a", folder, contribution)
    points = [client._point(x) for x in (request.current, request.previous)]
    assert points[0] is not None
    assert points[1] is not None
    rows = np.asarray(contribution(request.round, *points, np.arange(plan.batch)))
    return rounds.guarded(plan, rows, request.round, points[0], points[1])


def check_far_points(folder: Path) -> None:
    """Query points of size 3e15 do not move the centred guard beyond its bound."""
    plan = plan_of(guard="centred", batch=1, per_pass=8, passes=1)
    apart = []
    for number, size in enumerate((2.5e15, 3e15, 3.5e15)):
        far = request_of(plan, 10, current=np.full(3, size), previous=np.full(3, -size))
        ends = [
            guarded(plan, folder / f"{number}{sign}", lambda t, x, y, z, s=sign: np.full((1, 3), s * 1e20), far)
            for sign in (-1.0, 1.0)
        ]
        apart.append(float(np.linalg.norm(ends[1] - ends[0])))
    assert max(apart) <= 2 * plan.noise_budget.clip_norm


def test_far_query_points_do_not_break_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_far_points(tmp_path / "a")
    monkeypatch.setattr(FederatedClient, "_point", lambda self, x: x)  # the projection is left out
    with pytest.raises(AssertionError):
        check_far_points(tmp_path / "b")


def check_one_example(plan: Plan, folder: Path) -> None:
    """One example of a batch moves the contribution by at most 2c/b."""

    def rows(sign: float) -> Any:
        return lambda t, x, y, z: np.vstack([np.full((1, 3), sign * 100), np.full((len(z) - 1, 3), 0.01)])

    ends = [guarded(plan, folder / str(sign), rows(sign), request_of(plan, 1)) for sign in (-1.0, 1.0)]
    assert np.linalg.norm(ends[1] - ends[0]) <= 2 * plan.noise_budget.clip_norm


def test_each_example_is_clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(batch=4, per_pass=2)
    check_one_example(plan, tmp_path / "a")
    nan = guarded(plan, tmp_path / "nan", lambda t, x, y, z: np.full((len(z), 3), np.nan), request_of(plan, 1))
    np.testing.assert_array_equal(nan, 0.0)
    whole = guarded(
        plan_of(unit="client"), tmp_path / "c", lambda t, x, y, z: np.full((len(z), 3), 9.0), request_of(plan, 1)
    )
    assert np.linalg.norm(whole) == pytest.approx(1.0)
    monkeypatch.setattr(rounds, "guarded", lambda plan, rows, *_: rounds.clipped(rows.mean(axis=0), 1.0))
    with pytest.raises(AssertionError):
        check_one_example(plan, tmp_path / "b")


def test_an_honest_correction_is_not_changed_by_the_centred_guard(tmp_path: Path) -> None:
    plan = plan_of(guard="centred", batch=1, per_pass=8, passes=1)
    x = np.array([0.3, -0.2, 0.1])
    w = np.array([-0.5, 0.5, 0.2])
    t = 7
    request = request_of(plan, t, current=x + 2 / (t + 1) * (w - x), previous=x)
    client = client_of(plan, "a", tmp_path / "data")
    plain = client._contribution(t, request.current, request.previous, np.arange(1))
    found = guarded(plan, tmp_path / "a", client._contribution, request)
    np.testing.assert_allclose(found, plain[0], rtol=1e-12)
    assert LOSS.dimension == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"participations": 9}, "participations must be"),
        ({"participations": 3}, "last_round must be"),
        ({"noise": np.full((1, 3), np.inf)}, "noise must"),
        ({"noise": np.zeros((2, 3))}, "noise must have shape"),
        ({"outbox": np.zeros((2, 3))}, "outbox must have at most 1"),
        ({"order": np.arange(3)}, "order must have shape"),
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    plan = plan_of()
    client = client_of(plan, "a", tmp_path / "a")
    answered(client, request_of(plan, 1))
    path = tmp_path / "a" / STATE
    state = load(path, STATE_KINDS)
    save(replace(state, **change), path, STATE_KINDS, secret=True)
    with pytest.raises(ValueError, match=words):
        client.reply(request_of(plan, 2))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is damaged or foreign"):
        client.reply(request_of(plan, 2))
