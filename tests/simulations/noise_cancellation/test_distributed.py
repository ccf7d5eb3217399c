"""The distributed run is the simulation, also when a worker is killed; states in folders are never repeated."""

import os
import signal

import numpy as np
import pytest

from corrnoise.simulations.noise_cancellation.digits import digits, digits_protocol
from corrnoise.simulations.noise_cancellation.distributed import run_distributed
from corrnoise.simulations.noise_cancellation.hosts import answer_from_folder, prepare_folder
from corrnoise.simulations.noise_cancellation.run import simulate_federation
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.theory.noise_cancellation.machine_noise import CancellingNoise
from tests.simulations.noise_cancellation.federations import examples, protocol


def test_folders_answer_as_one_process_does_and_again_after_a_failure(tmp_path):
    chosen = protocol(noise=CancellingNoise(share=0.5))
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


@pytest.mark.slow
def test_a_killed_worker_changes_nothing():
    pytest.importorskip("distributed", reason="needs corrnoise[cluster]")
    chosen = protocol(machines=6, participants=4, rounds=8)
    data = examples(6, 8)
    killed = []

    def kill(server, client):
        if server.round == 4:
            pids = client.run(os.getpid)
            address = sorted(pids)[0]
            os.kill(pids[address], signal.SIGKILL)
            killed.append(address)

    result = run_distributed(chosen, data, seed=3, workers=2, groups=3, after_round=kill)
    whole = simulate_federation(chosen, data, seed=3)
    assert len(killed) == 1
    np.testing.assert_array_equal(result.point, whole.point)
    assert result.participations.tolist() == whole.participations.tolist()


def test_the_digits_are_learned_in_a_single_pass():
    data = digits(machines=20)
    assert sum(len(targets) for _, targets in data.training) == 1077
    quiet = digits_protocol(data, participants=10, rho=None)
    noisy = digits_protocol(data, participants=10, rho=8.0)
    accuracies = [
        chosen.loss.accuracy(simulate_federation(chosen, data.training, seed=0).point, *data.test)
        for chosen in (quiet, noisy)
    ]
    assert accuracies[0] > 0.85
    assert 0.1 < accuracies[1] < accuracies[0]
