"""The least noise of a machine: certified, below every other noise, and above its bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.solvers.noise_cancellation import (
    best_cancelling_noise,
    objective_value,
    optimal_machine_noise,
)
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.noise_cancellation.machine_noise import CancellingNoise, CorrelatedMachineNoise
from tests.strategies import machine_noises

OBJECTIVES = ("mean_variance", "regret_energy")


@settings(max_examples=25)
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
    np.testing.assert_allclose(found.noise.energies(n), 1, rtol=1e-2)
    one_vector = best_cancelling_noise(n, objective)
    assert found.value < objective_value(one_vector, n, objective) < objective_value(CancellingNoise(), n, objective)


@pytest.mark.parametrize(
    ("gaps", "objective", "value"),
    [((0.05002, 0.39025), "mean_variance", 5.677), ((0.011628, 0.464976), "regret_energy", 1.1882e4)],
)
def test_one_vector_with_a_zero_beside_one_is_near_the_optimum_at_100(gaps, objective, value):
    noise = CorrelatedMachineNoise(ProductNoise(gaps, [1, -1]))
    assert objective_value(noise, 100, objective) == pytest.approx(value, rel=1e-4)
    assert objective_value(noise, 100, objective) < objective_value(
        best_cancelling_noise(100, objective), 100, objective
    )


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="objective must be one of 'mean_variance', 'regret_energy', got 'max'"):
        optimal_machine_noise(3, "max")
    with pytest.raises(ValueError, match="participations must be an integer >= 1, got 0"):
        best_cancelling_noise(0, "mean_variance")
