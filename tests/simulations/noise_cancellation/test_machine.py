"""What a machine sends, what noise it has, and that no loss of its state ever shows the data."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.noise_cancellation import messages
from corrnoise.simulations.noise_cancellation.machine import Machine
from corrnoise.simulations.noise_cancellation.protocol import Message, Refusal, Request
from corrnoise.simulations.noise_cancellation.run import MachineHost
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.noise_cancellation.machines import cancelling_noise, leading
from corrnoise.theory.noise_cancellation.sensitivity import LossClass
from tests.simulations.noise_cancellation.federations import LOSS, budget, examples, protocol
from tests.strategies import prefix_noise

NOISES = (
    cancelling_noise(12),
    cancelling_noise(12, growth=1),
    cancelling_noise(12, share=0.3),
    cancelling_noise(12, share=0),
    NuFTRL(0),
    PoleNoise([0.01, 0.2], [0.1, 0.5]),
    FiniteNoise([1.0, -0.5, -0.2]),
    BandedStrategyNoise([1.0, 0.5, 0.2]),
    ScaledNoise(BandedStrategyNoise([1.0, 0.5]), np.linspace(1, 2, 12), np.linspace(3, 1, 12)),
    BinaryTree(12),
    BinaryTree(12, decoder="binary"),
    prefix_noise([*range(1, 13)]),
)


def request(t, asked, acknowledged=0, run="test", x=0.1):
    d = LOSS.dimension
    return Request(run, t, np.full(d, x), np.full(d, x / 2), asked, acknowledged)


def machine(chosen, **options):
    a, y = examples(chosen.machines, 12)[0]
    return Machine(chosen, 0, a, y, **{"seed": 7, **options})


def sent(one, rounds, first=1):
    """The newest message of each round, all earlier ones acknowledged."""
    messages = []
    for asked, t in enumerate(rounds, first):
        number = messages[-1].number if messages else 0
        messages.append(one.reply(request(t, asked, number))[-1])
    return messages


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_messages_carry_the_noise_of_the_theory(noise):
    """Message noise = σ N z with the z that the machine draws, to rounding; and no noise without a budget."""
    rounds = [1, 2, 5, 6, 9, 12]
    private = protocol(noise=noise)
    plain = protocol(noise=noise, budget=None)
    one = machine(private)
    z = np.vstack([one._fresh(k) for k in range(1, 7)])
    noisy = np.array([m.correction for m in sent(one, rounds)])
    exact = np.array([m.correction for m in sent(machine(plain), rounds)])
    np.testing.assert_allclose(noisy - exact, private.std * leading(noise, 6).noising(z), atol=1e-12 * private.std)
    assert not np.allclose(noisy - exact, private.std * z) or noise == DPSGD()


def test_nothing_but_the_message_leaves_a_machine():
    reply = machine(protocol()).reply(request(1, 1))
    assert [type(message) for message in reply] == [Message]
    assert {f.name for f in fields(Message)} == {"run", "machine", "number", "round", "correction"}
    assert {f.name for f in fields(Refusal)} == {"run", "machine", "round"}
    [message] = pickle.loads(pickle.dumps(reply))
    assert vars(message).keys() == {"run", "machine", "number", "round", "correction"}
    assert message.correction.shape == (LOSS.dimension,)
    assert reply[0].correction.base is None  # no view of anything else
    assert not reply[0].correction.flags.writeable


@given(st.integers(1, 300), st.integers(0, 2**32 - 1), st.floats(0.1, 100), st.sampled_from([None, 0.5]))
def test_no_server_moves_a_message_farther_than_the_sensitivity(t, seed, far, clip_norm):
    rng = np.random.default_rng(seed)
    guard = {} if clip_norm is None else {"guard": "norm", "budget": budget(clip_norm=clip_norm)}
    chosen = protocol(rounds=300, noise=None, **guard)
    asking = Request("test", t, far * rng.standard_normal(3), far * rng.standard_normal(3), 1, 0)
    a, y = examples(2, 1, seed)[0]
    b, z = examples(2, 1, seed)[1]
    one, other = (Machine(chosen, 0, *data, seed=7).reply(asking)[0].correction for data in ((a, y), (b, z)))
    most = 2 * float(chosen.family.correction_radius(t)) if clip_norm is None else 2 * clip_norm
    assert np.linalg.norm(one - other) <= most * (1 + 1e-9)


def test_without_the_guard_a_server_could_see_far_more():
    """The mutant of the test above: curvature 1 at x_t − x_{t−1} = (D, 0, 0) in round 300."""
    t, a = 300, np.array([[1.0, 0.0, 0.0]])
    x, before = np.array([1.0, 0, 0]), np.array([-1.0, 0, 0])
    unguarded = t * LOSS.gradients(x, a[0], 1.0) - (t - 1) * LOSS.gradients(before, a[0], 1.0)
    none = t * LOSS.gradients(x, 0 * a[0], 1.0) - (t - 1) * LOSS.gradients(before, 0 * a[0], 1.0)
    assert np.linalg.norm(unguarded - none) > 50 * 2 * LossClass.of(LOSS, 2.0).radius


@pytest.mark.parametrize(
    ("noise", "most"),
    [
        (cancelling_noise(100), 1),
        (cancelling_noise(100, share=0), 0),
        (PoleNoise([0.01, 0.2], [0.1, 0.5]), 2),
        (FiniteNoise([1.0, -0.5, -0.2]), 2),
        (BandedStrategyNoise([1.0, 0.5, 0.2]), 2),
        (BinaryTree(100), 7),
        (NuFTRL(0), 99),
        (prefix_noise([1.0] * 100), 99),
    ],
)
def test_memory_of_a_machine(noise, most):
    kept = messages.start(noise, 2)
    sizes = []
    for k in range(1, 100):
        before = kept.copy()
        _, after = messages.step(noise, kept, np.ones(2), k)
        np.testing.assert_array_equal(kept, before)  # which is on disk
        kept = after
        sizes.append(len(kept))
    assert sizes == [messages.vectors(noise, k) for k in range(1, 100)]
    assert max(sizes) == most


# -- states ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_a_restored_machine_goes_on_as_if_nothing_had_happened(noise):
    chosen = protocol(noise=noise)
    one = machine(chosen)
    sent(one, [1, 2, 3])
    a, y = examples(4, 12)[0]
    again = Machine(chosen, 0, a, y, seed=7, state=one.state)
    for other in (one, again):
        assert other.state.participations == 3
    first, second = (m.reply(request(7, 4, 3)) for m in (one, again))
    assert [m.number for m in first] == [m.number for m in second] == [4]
    np.testing.assert_array_equal(first[-1].correction, second[-1].correction)


def test_going_on_from_an_outdated_state_would_show_the_data():
    """The mutant: two messages with the same noise differ by data alone."""
    chosen = protocol()
    plain = sent(machine(protocol(budget=None)), [1, 2])
    one = machine(chosen)
    one.reply(request(1, 1))
    outdated = one.state
    honest = one.reply(request(2, 2, 1))[-1]
    repeated = machine(chosen, state=outdated).reply(request(3, 3, 1))[-1]
    shown = repeated.correction - honest.correction
    assert np.linalg.norm(shown) < 3 * chosen.family.radius
    assert chosen.std > 10 * np.linalg.norm(shown)
    assert np.linalg.norm(honest.correction - plain[1].correction) > np.linalg.norm(shown)


def test_states_of_others_are_refused():
    chosen = protocol()
    one = machine(chosen)
    one.reply(request(1, 1))
    a, y = examples(4, 12)[0]
    for state, words in (
        (replace(one.state, run="other"), "state must be of run 'test', got a state of run 'other'"),
        (replace(one.state, machine=3), "state must be of machine 0, got a state of machine 3"),
        (replace(one.state, noise=np.zeros((1, 9))), "state must be of dimension 3, got a state of dimension 9"),
        (replace(one.state, noise=np.zeros((4, 3))), "state must be of memory 1, got a state of memory 4"),
    ):
        with pytest.raises(ValueError, match=words):
            Machine(chosen, 0, a, y, seed=7, state=state)


# -- dropping out ------------------------------------------------------------------------------------------------------


def test_a_machine_that_is_asked_twice_sends_the_same_message():
    one = machine(protocol())
    first = one.reply(request(1, 1))
    assert one.reply(request(1, 1)) is first
    assert one.state.participations == 1
    with pytest.raises(ValueError, match=r"request must be of a round in \[5, 12\], got 4"):
        sent(one, [5, 4], first=2)


def test_messages_are_sent_again_until_they_are_acknowledged():
    one = machine(protocol())
    assert [m.number for m in one.reply(request(1, 1, 0))] == [1]
    assert [m.number for m in one.reply(request(2, 2, 0))] == [1, 2]
    assert [m.number for m in one.reply(request(3, 3, 2))] == [3]


def test_a_machine_refuses_when_its_participations_or_data_are_used():
    chosen = protocol(cap=2)
    one = machine(chosen)
    sent(one, [1, 2])
    assert one.reply(request(3, 3, 2)) == Refusal("test", 0, 3)
    a, y = examples(4, 12)[0]
    poor = Machine(protocol(), 0, a[:1], y[:1], seed=7)
    sent(poor, [1])
    assert isinstance(poor.reply(request(2, 2, 1)), Refusal)


def test_bad_arguments_are_named():
    chosen = protocol()
    a, y = examples(4, 12)[0]
    with pytest.raises(ValueError, match="index must be below the number of machines, 4, got 4"):
        Machine(chosen, 4, a, y)
    with pytest.raises(ValueError, match=r"features must have norms in \[0, 1.0\]"):
        Machine(chosen, 0, 2 * a, y)
    with pytest.raises(ValueError, match="request must be of run 'test', got one of run 'other'"):
        machine(chosen).reply(request(1, 1, run="other"))
    one = MachineHost(chosen, {0: (a, y)}, seed=None)
    other = MachineHost(chosen, {0: (a, y)}, seed=None)
    corrections = [host.answer({0: request(1, 1)})[0][0].correction for host in (one, other)]
    assert not np.array_equal(*corrections)  # secrets of the operating system
