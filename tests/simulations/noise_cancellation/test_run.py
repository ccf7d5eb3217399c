"""Whole runs against independent implementations, Lemma 4.1, and lost messages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.noise_cancellation.protocol import Message
from corrnoise.simulations.noise_cancellation.run import simulate_federation, split_examples
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.noise_cancellation.machines import cancelling_noise, leading
from corrnoise.theory.noise_cancellation.privacy import published_scale, schedule_zcdp
from corrnoise.theory.privacy import Budget
from tests.simulations.noise_cancellation.federations import LOSS, budget, examples, federation, protocol


def ball(w):
    return w / max(1.0, np.linalg.norm(w))


def schedule(chosen, seed):
    server = Server(chosen, seed=[seed, 0])
    rounds = []
    while not server.finished:
        rounds.append(list(server.requests()))
        server.round += 1
    return rounds


@given(st.integers(0, 1000), st.floats(1e-4, 0.05))
def test_without_noise_it_is_mu_squared_sgd(seed, eta):
    """Against equations (8) and (9): d_t = ∇f(x_t) + (1 − 1/t)(d_{t−1} − ∇f(x_{t−1})), averages x_t by α_t = t."""
    chosen = protocol(budget=None, learning_rate=eta)
    data = examples(4, 12)
    used = [0] * 4
    w = x = before = np.zeros(3)
    d, path = np.zeros(3), []
    for t, machines in enumerate(schedule(chosen, seed), 1):
        now, then = np.zeros(3), np.zeros(3)
        for i in machines:
            a, y = data[i][0][used[i]], data[i][1][used[i]]
            now += LOSS.gradients(x, a, y) / 2
            then += LOSS.gradients(before, a, y) / 2
            used[i] += 1
        d = now + (1 - 1 / t) * (d - then)
        path.append(x)
        w = ball(w - eta * t * d)
        before, x = x, (t * (t + 1) / 2 * x + (t + 1) * w) / ((t + 1) * (t + 2) / 2)
    result = simulate_federation(chosen, data, seed=seed)
    np.testing.assert_allclose(result.point, path[-1], atol=1e-12)
    assert result.participations.tolist() == used
    assert result.refusals == 0


@pytest.mark.parametrize(
    "noise",
    [cancelling_noise(12), cancelling_noise(12, growth=1), cancelling_noise(12, share=0.4), NuFTRL(0)],
    ids=repr,
)
@pytest.mark.parametrize("dropped", [0.0, 0.3])
def test_lemma_41_also_when_messages_are_lost_and_arrive_late(noise, dropped):
    """q̃_t is the sum of all corrections that arrived, and 1/m of the last prefix noise of each machine that arrived."""
    chosen = protocol(noise=noise)
    server, host = federation(chosen)
    plain_server, plain = federation(protocol(noise=noise, budget=None))
    rng = np.random.default_rng(3)
    for _ in range(chosen.rounds):
        requests = server.requests()
        plain_server.requests()
        replies = host.answer(requests)
        exact = plain.answer(requests)  # the same query points, no noise
        for index, reply in replies.items():
            if rng.random() >= dropped:
                server.receive(reply)
                server.receive(reply)  # twice
                plain_server.receive(exact[index])
        server.finish_round()
        plain_server.finish_round()
        noise_now = np.zeros(3)
        for index, machine in host.machines.items():
            k = int(server.received[index])
            if k:
                z = np.array([machine._fresh(j) for j in range(1, k + 1)])
                noise_now += chosen.std * leading(noise, k).noising(z).sum(axis=0) / chosen.participants
        np.testing.assert_allclose(server.estimate, plain_server.estimate + noise_now, atol=1e-9)
        assert dropped or np.array_equal(server.received, server.asked)


def test_the_guard_changes_nothing_for_a_server_that_follows_its_rule():
    rng = np.random.default_rng(0)
    chosen = protocol(budget=None, learning_rate=5.0)  # w jumps from side to side of the ball
    data = examples(4, 12)
    server, host = federation(chosen)
    while not server.finished:
        requests = server.requests()
        replies = host.answer(requests)
        for index, request in requests.items():
            used = host.machines[index].state.participations
            a, y = data[index][0][used - 1], data[index][1][used - 1]
            t = request.round
            s = t * LOSS.gradients(request.current, a, y) - (t - 1) * LOSS.gradients(request.previous, a, y)
            np.testing.assert_allclose(replies[index][-1].correction, s, atol=1e-12)
            server.receive(replies[index])
        server.estimate += rng.standard_normal(3)
        server.finish_round()


def test_noisy_sgd_and_the_trusted_server():
    """With hardly any noise they are projected SGD and μ²-SGD."""
    data = examples(4, 12)
    for algorithm in ("gradients", "trusted"):
        noisy = simulate_federation(protocol(algorithm=algorithm, budget=budget(1e30)), data, seed=2)
        exact = simulate_federation(protocol(algorithm=algorithm, budget=None), data, seed=2)
        np.testing.assert_allclose(noisy.point, exact.point, atol=1e-10)
    mu2 = simulate_federation(protocol(budget=None), data, seed=2)
    np.testing.assert_array_equal(exact.point, mu2.point)
    x, average, used = np.zeros(3), np.zeros(3), [0] * 4
    chosen = protocol(algorithm="gradients", budget=None)
    for t, machines in enumerate(schedule(chosen, 2), 1):
        average += (x - average) / t
        g = np.mean([LOSS.gradients(x, data[i][0][used[i]], data[i][1][used[i]]) for i in machines], axis=0)
        for i in machines:
            used[i] += 1
        x = ball(x - 0.01 * g)
    np.testing.assert_allclose(simulate_federation(chosen, data, seed=2).point, average, atol=1e-13)


def test_the_scales_are_those_of_the_theory():
    assert protocol(algorithm="gradients").std == pytest.approx(2 * 2 / 2, rel=1e-6)  # 2G/sqrt(2ρ) with G = 2
    assert protocol(algorithm="trusted").std == pytest.approx(
        2 * 4 * 12**0.5 / (2 * 2), rel=1e-5
    )  # 2R sqrt(T)/(m sqrt(2ρ))
    assert protocol().std == pytest.approx(2 * 4 * 12**0.5 / 2, rel=1e-5)
    assert protocol(guard="norm", budget=budget(clip_norm=0.5)).std == pytest.approx(12**0.5 / 2, rel=1e-5)
    assert protocol(cap=3).std == pytest.approx(2 * 4 * 3**0.5 / 2, rel=1e-5)
    published = published_scale(budget(), protocol().family, 12)
    assert protocol(noise=cancelling_noise(12, growth=1), scale=published).std == published
    with pytest.raises(ValueError, match="scale must lie in"):
        protocol(scale=1.0)


def test_machines_with_few_examples_leave_early_and_one_machine_is_enough():
    data = examples(4, 12)
    data[2] = (data[2][0][:1], data[2][1][:1])
    result = simulate_federation(protocol(participants=4), data, seed=0)
    assert result.participations.tolist() == [12, 12, 1, 12]
    assert result.refusals == 11
    alone = simulate_federation(protocol(machines=1, participants=1), examples(1, 12), seed=0)
    assert alone.participations.tolist() == [12]


def test_a_given_schedule_is_followed_and_accounted_for():
    """What a machine that is asked twice can spend, in the noise that is calibrated to it."""
    schedule = [(0, 1), (2, 3), (3, 1), (0, 3)]
    chosen = protocol(rounds=4, schedule=schedule, noise=cancelling_noise(12, share=0.5))
    assert chosen.uses == 3
    assert chosen.std < protocol(rounds=4, noise=cancelling_noise(12, share=0.5)).std
    assert chosen.schedule[2] == (1, 3)
    server, _ = federation(chosen)
    asked = []
    while not server.finished:
        asked.append(tuple(server.requests()))
        server.finish_round()
    assert tuple(asked) == chosen.schedule
    result = simulate_federation(chosen, examples(4, 12), seed=0)
    assert result.participations.tolist() == [2, 2, 1, 3]
    spent = schedule_zcdp(chosen.noise, chosen.std, chosen.schedule, chosen.family, losses="convex")
    assert set(spent) == {0, 1, 2, 3}
    assert 0.3 * chosen.budget.rho < max(spent.values()) <= chosen.budget.rho
    assert (
        max(schedule_zcdp(chosen.noise, chosen.std / 2, schedule, chosen.family, losses="convex").values())
        > chosen.budget.rho
    )


def test_bad_input_is_named():
    data = examples(4, 12)
    for changes, words in (
        ({"participants": 5}, "participants must be at most machines, got 5 of 4"),
        ({"guard": "norm", "budget": None}, "budget must be given for the guard 'norm'"),
        ({"algorithm": "delayed"}, "noise must be None for 'delayed', which no accountant here covers"),
        ({"budget": None, "scale": 1.0}, "scale must be None without a budget or noise"),
        ({"schedule": [(0, 1)] * 11}, "schedule must have 12 rounds, got 11"),
        ({"schedule": [(0, 1)] * 12}, "schedule must have every machine in at least one round, got none of machine 2"),
        (
            {"schedule": [(0, 1, 2)] * 12},
            r"schedule must have 2 different machines in \[0, 3\] in each round, got \(0, 1, 2\)",
        ),
        ({"schedule": [(2, 2)] * 12}, r"got \(2, 2\) in round 1"),
        ({"schedule": [(2, 4)] * 12}, r"got \(2, 4\) in round 1"),
        ({"schedule": [(0, -1)] * 12}, "schedule must be an integer >= 0, got -1"),
        ({"budget": Budget(1.0)}, "adjacency must be one of 'replace-one'"),
    ):
        with pytest.raises(ValueError, match=words):
            protocol(**changes)
    with pytest.raises(TypeError, match="run must be a non-empty string"):
        protocol(run="")
    with pytest.raises(ValueError, match="examples must be of 4 machines, got 3"):
        simulate_federation(protocol(), data[:3], seed=0)
    empty = [*data[:3], (data[3][0][:0], data[3][1][:0])]
    with pytest.raises(
        ValueError, match="examples must have at least one example of each machine, got none of machine 3"
    ):
        simulate_federation(protocol(), empty, seed=0)
    with pytest.raises(ValueError, match="targets must have at least one example a machine, 9, got 2"):
        split_examples(np.ones((2, 1)), np.ones(2), 9)
    with pytest.raises(ValueError, match="start must have a norm in"):
        simulate_federation(protocol(), data, seed=0, start=np.ones(3))
    server, _ = federation(protocol())
    server.requests()
    zero = np.zeros(3)
    for message, words in (
        (Message("other", 0, 1, 1, zero), "message must be of run 'test', got one of run 'other'"),
        (Message("test", 9, 1, 1, zero), "message must come from a machine that was asked, got one from 9"),
        (Message("test", int(np.argmax(server.asked)), 1, 2, zero), r"message must be of a round in \[1, 1\], got 2"),
        (Message("test", int(np.argmax(server.asked)), 1, 1, np.zeros(2)), r"correction must have shape \(3,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            server.receive((message,))
