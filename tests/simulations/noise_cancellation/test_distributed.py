"""The distributed run is the simulation, also when a worker is killed; states in folders are never repeated."""

import os
import signal
from contextlib import nullcontext, suppress

import numpy as np
import pytest

from corrnoise.simulations.noise_cancellation import distributed
from corrnoise.simulations.noise_cancellation.distributed import run_distributed
from corrnoise.simulations.noise_cancellation.hosts import answer_from_folder, prepare_folder
from corrnoise.simulations.noise_cancellation.images import dealt_images
from corrnoise.simulations.noise_cancellation.run import simulate_federation
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.noise_cancellation.machines import cancelling_noise
from tests.simulations.noise_cancellation.federations import Inline, budget, examples, protocol


def test_folders_answer_as_one_process_does_and_again_after_a_failure(tmp_path):
    chosen = protocol(noise=cancelling_noise(12, share=0.5))
    data = examples(4, 12)
    prepare_folder(tmp_path, chosen, dict(enumerate(data)), seed=1)
    server = Server(chosen, seed=[1, 0])
    while not server.finished:
        requests = server.requests()
        first = answer_from_folder(tmp_path, chosen, requests)
        again = answer_from_folder(tmp_path, chosen, requests)  # as if the first answer had been lost
        for index, reply in again.items():
            np.testing.assert_array_equal(reply[-1].correction, first[index][-1].correction)
            server.receive(reply)
        server.finish_round()
    whole = simulate_federation(chosen, data, seed=1)
    np.testing.assert_array_equal(server.output, whole.point)
    with pytest.raises(ValueError, match="folder must have no states of machines"):
        prepare_folder(tmp_path, chosen, dict(enumerate(data)), seed=1)


def test_a_group_whose_states_are_gone_begins_new_noise(tmp_path):
    chosen = protocol(participants=4)
    prepare_folder(tmp_path, chosen, dict(enumerate(examples(4, 12))), seed=1)
    server = Server(chosen, seed=[1, 0])
    for round_ in range(2):
        for reply in answer_from_folder(tmp_path, chosen, server.requests()).values():
            assert reply[-1].number == (3 if round_ and reply[-1].machine == 2 else round_ + 1)
            server.receive(reply)
        server.finish_round()
        (tmp_path / "machine-2.npz").unlink()


def test_a_machine_in_a_folder_that_has_refused_goes_on_refusing(tmp_path):
    """A refusal is an answer: the state that made it is up to date, and no new segment lifts the cap."""
    chosen = protocol(cap=3)
    data = examples(4, 12)
    prepare_folder(tmp_path, chosen, dict(enumerate(data)), seed=1)
    server = Server(chosen, seed=[1, 0])
    while not server.finished:
        for reply in answer_from_folder(tmp_path, chosen, server.requests()).values():
            server.receive(reply)
        server.finish_round()
    whole = simulate_federation(chosen, data, seed=1)
    assert server.received.tolist() == whole.participations.tolist() == [3, 3, 3, 3]
    assert server.refused == whole.refusals == 12
    np.testing.assert_array_equal(server.output, whole.point)


# -- the driver --------------------------------------------------------------------------------------------------------


@pytest.fixture
def inline(monkeypatch):
    pytest.importorskip("distributed", reason="needs corrnoise[cluster]")
    monkeypatch.setattr(distributed, "_connected", lambda *_: nullcontext(Inline()))


def stopped_after(round_):
    def stop(server, _):
        if server.round == round_ + 1:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("round_", [1, 5, 12])
@pytest.mark.parametrize("noise", [cancelling_noise(12, share=0.5), NuFTRL(0)], ids=repr)
def test_a_driver_that_was_stopped_goes_on(noise, round_, tmp_path, inline):
    chosen = protocol(noise=noise, cap=7)
    data = examples(4, 12)
    whole = simulate_federation(chosen, data, seed=3)
    with pytest.raises(KeyboardInterrupt):
        run_distributed(chosen, data, seed=3, folder=tmp_path, groups=3, after_round=stopped_after(round_))
    rounds = []
    again = {
        "seed": 3,
        "folder": tmp_path,
        "groups": 2,
        "after_round": lambda server, _: rounds.append(server.round - 1),
    }
    result = run_distributed(chosen, data, **again)
    assert rounds == list(range(round_ + 1, 13))
    for once_more in (result, run_distributed(chosen, data, **again)):  # a finished run is read again
        np.testing.assert_array_equal(once_more.point, whole.point)
        assert once_more.participations.tolist() == whole.participations.tolist()
        assert once_more.refusals == whole.refusals
    assert not list(tmp_path.glob(".unfinished*"))


def test_a_round_that_was_cut_off_is_repeated(tmp_path, inline, monkeypatch):
    """Stopped between the answers of the machines and the file of the server, in every round."""
    chosen = protocol()
    data = examples(4, 12)

    def cut_off(*_):
        raise KeyboardInterrupt

    for _ in range(chosen.rounds):
        with monkeypatch.context() as patched:
            patched.setattr(Server, "finish_round", cut_off)
            with pytest.raises(KeyboardInterrupt):
                run_distributed(chosen, data, seed=3, folder=tmp_path)
        with suppress(KeyboardInterrupt):
            run_distributed(chosen, data, seed=3, folder=tmp_path, after_round=cut_off)
    result = run_distributed(chosen, data, seed=3, folder=tmp_path)
    np.testing.assert_array_equal(result.point, simulate_federation(chosen, data, seed=3).point)


def test_secret_seeds_differ_and_go_on(tmp_path, inline):
    chosen = protocol()
    data = examples(4, 12)
    points = [run_distributed(chosen, data, seed=None, folder=tmp_path / name).point for name in "ab"]
    assert not np.array_equal(*points)
    np.testing.assert_array_equal(run_distributed(chosen, data, seed=None, folder=tmp_path / "a").point, points[0])


def test_folders_of_other_runs_are_refused(tmp_path, inline):
    chosen = protocol()
    data = examples(4, 12)
    with pytest.raises(KeyboardInterrupt):
        run_distributed(chosen, data, seed=3, folder=tmp_path, after_round=stopped_after(2))
    other = "folder must be new or of the same protocol, data and seed"
    for changed, seed in ((protocol(run="other"), 3), (protocol(budget=budget(1.0)), 3), (chosen, 4), (chosen, None)):
        with pytest.raises(ValueError, match=other):
            run_distributed(changed, data, seed=seed, folder=tmp_path)
    with pytest.raises(ValueError, match=other):
        run_distributed(chosen, examples(4, 12, seed=9), seed=3, folder=tmp_path)
    server = (tmp_path / "server.npz").read_bytes()
    (tmp_path / "server.npz").write_bytes(server[:100])
    with pytest.raises(ValueError, match=r"server\.npz is damaged or foreign: its digest is wrong"):
        run_distributed(chosen, data, seed=3, folder=tmp_path)
    (tmp_path / "server.npz").unlink()
    with pytest.raises(ValueError, match="to begin again would use examples again"):
        run_distributed(chosen, data, seed=3, folder=tmp_path)
    (tmp_path / "machines").rename(tmp_path / "elsewhere")
    (tmp_path / "server.npz").write_bytes(server)
    with pytest.raises(ValueError, match="folder must have the machines of its run"):
        run_distributed(chosen, data, seed=3, folder=tmp_path)
    (tmp_path / "machines").mkdir()
    with pytest.raises(ValueError, match=r"got .* with other files"):
        run_distributed(chosen, data, seed=3, folder=tmp_path)
    with pytest.raises(ValueError, match="folder must be one that all workers of the cluster can see, got None"):
        run_distributed(chosen, data, seed=3, cluster="tcp://127.0.0.1:1")


@pytest.mark.slow
@pytest.mark.parametrize("by_address", [False, True])
def test_a_killed_worker_changes_nothing(by_address, tmp_path):
    dask = pytest.importorskip("distributed", reason="needs corrnoise[cluster]")
    chosen = protocol(machines=6, participants=4, rounds=6)
    data = examples(6, 8)
    killed = []

    def kill(server, client):
        if server.round == 3:
            pids = client.run(os.getpid)
            address = sorted(pids)[0]
            os.kill(pids[address], signal.SIGKILL)
            killed.append(address)

    started = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    started["scheduler_kwargs"] = {"dashboard_address": "127.0.0.1:0"}  # any free port
    with dask.LocalCluster(**started) if by_address else nullcontext() as cluster:
        where = {"cluster": cluster.scheduler_address} if cluster else {"workers": 2}
        result = run_distributed(chosen, data, seed=3, folder=tmp_path, groups=3, after_round=kill, **where)
    whole = simulate_federation(chosen, data, seed=3)
    assert len(killed) == 1
    np.testing.assert_array_equal(result.point, whole.point)
    assert result.participations.tolist() == whole.participations.tolist()


def test_the_digits_are_learned_in_a_single_pass():
    data = dealt_images("digits", 20)
    assert sum(len(targets) for _, targets in data.training) == 1077
    quiet = data.protocol(budget(8.0, 3.0), participants=10, noise=None)
    noisy = data.protocol(budget(8.0, 3.0), participants=10)
    accuracies = [
        chosen.loss.accuracy(simulate_federation(chosen, data.training, seed=0).point, *data.test)
        for chosen in (quiet, noisy)
    ]
    assert accuracies[0] > 0.85
    assert 0.1 < accuracies[1] < accuracies[0]
