"""The least noise of a machine: certified, below every other noise, and above its bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.noise_cancellation import (
    NOISES,
    best_buffered_noise,
    best_cancelling_noise,
    best_share,
    named_noise,
    objective_value,
    optimal_machine_noise,
)
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.noise_cancellation.machines import cancelling_noise, energies, regret_energy
from corrnoise.theory.participation import Participation
from tests.strategies import machine_noises

OBJECTIVES = ("mean_variance", "regret_energy")


@given(machine_noises(), st.integers(1, 12), st.sampled_from(OBJECTIVES))
def test_no_noise_is_below_the_lower_bound(noise, n, objective):
    best = optimal_machine_noise(n, objective)
    assert best.lower_bound <= objective_value(noise, n, objective) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("objective", "n", "value"),
    [
        ("mean_variance", 10, 2.42158),
        ("regret_energy", 10, 127.597),
        ("mean_variance", 100, 4.99744),
        ("regret_energy", 100, 10746.83),
    ],
)
def test_the_optimum_is_certified(objective, n, value):
    found = optimal_machine_noise(n, objective, tolerance=2e-5)
    assert found.lower_bound <= found.value <= found.lower_bound * (1 + 2e-5)
    assert not found.value <= found.lower_bound * (1 - 1e-9)
    assert found.value == pytest.approx(value, rel=3e-5)
    np.testing.assert_allclose(energies(found.noise, n), 1, rtol=1e-2)
    one_vector = best_cancelling_noise(n)
    assert found.value < objective_value(one_vector, n, objective) < objective_value(cancelling_noise(n), n, objective)


@pytest.mark.parametrize(("n", "one", "two"), [(10, 138.18, 138.18), (100, 11882.0, 11821.0)])
def test_one_or_two_vectors_are_near_the_optimum(n, one, two):
    least = optimal_machine_noise(n, "regret_energy", tolerance=1e-3).lower_bound
    found = [regret_energy(best_buffered_noise(n, buffers=count), n) for count in (1, 2)]
    assert found == pytest.approx([one, two], rel=1e-4)
    share = regret_energy(best_cancelling_noise(n), n)
    assert least < found[1] <= found[0] * (1 + 1e-6) < share


@pytest.mark.parametrize(
    ("passes", "share", "variance"), [((34, 1), 0.143918, 5.793812), ((13, 4), 0.084830, 42.748559)]
)
def test_the_best_share_of_batches_and_passes(passes, share, variance):
    length, epochs = passes
    who = Participation.fixed_epochs(length * epochs, epochs=epochs)
    best = best_share(who)
    assert float(best.poles[0]) == pytest.approx(share, rel=1e-4)
    assert best.mean_error(who) ** 2 == pytest.approx(variance, rel=1e-6)
    for other in (0.9 * share, 1.1 * share):
        assert PoleNoise([0.0], [other]).mean_error(who) > best.mean_error(who)


def test_nothing_is_taken_back_where_every_message_may_move():
    """Theorem 4 of federated clients: cancellation is the wrong noise at client level."""
    assert best_share(Participation.min_sep(10, 1)) == DPSGD()


@pytest.mark.parametrize("name", NOISES)
def test_noises_by_name_are_made_for_the_participations(name):
    for n in (1, 2, 30):
        noise = named_noise(name, n)
        assert energies(noise, n).shape == (n,)
        assert noise.memory(n) <= (29 if name == "square root" else 5)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="objective must be one of 'mean_variance', 'regret_energy', got 'max'"):
        optimal_machine_noise(3, "max")
    with pytest.raises(ValueError, match="participations must be an integer >= 1, got 0"):
        best_cancelling_noise(0)
    with pytest.raises(ValueError, match="name must be one of 'published', "):
        named_noise("white", 3)
    with pytest.raises(ValueError, match="buffers must be"):
        best_buffered_noise(3, buffers=5)
