"""Energies under secure aggregation: against inverses, lone clients, fixed groups and failures."""

import numpy as np
import pytest

from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.noise_cancellation.aggregation import aggregated_energies

NOISES = (DPSGD(), AntiPGD(0.0), PoleNoise([0.0], [0.1]))


@pytest.mark.parametrize("noise", NOISES)
def test_a_group_that_stays_together_gains_its_size(noise):
    alone = aggregated_energies(noise, [np.arange(1, 7)], 6)
    np.testing.assert_allclose(alone, np.square(noise.column_norms(6)), rtol=1e-12)
    np.testing.assert_allclose(aggregated_energies(noise, [np.arange(1, 7)] * 5, 6), alone / 5, rtol=1e-12)


@pytest.mark.parametrize(("noise", "gain"), [(NOISES[2], 55.2832), (NOISES[1], 186.0720)])
def test_random_cohorts(noise, gain):
    rng = np.random.default_rng(0)
    chosen = [rng.choice(100, 50, replace=False) for _ in range(24)]
    arrivals = [[t for t, cohort in enumerate(chosen, 1) if i in cohort] for i in range(100)]
    local = max(np.square(noise.column_norms(len(one))).max() for one in arrivals)
    assert local / aggregated_energies(noise, arrivals, 24).max() == pytest.approx(gain, rel=1e-5)


@pytest.mark.parametrize("noise", NOISES)
def test_sums_are_never_less_private_than_messages(noise):
    rng = np.random.default_rng(1)
    arrivals = [np.flatnonzero(rng.random(9) < 0.6) + 1 for _ in range(4)]
    energies = aggregated_energies(noise, arrivals, 9)
    for one in arrivals:
        assert (energies[one - 1] <= np.square(noise.column_norms(one.size)) * (1 + 1e-12)).all()


def test_a_failure_and_a_merged_reply_count():
    noise = NOISES[2]
    whole = aggregated_energies(noise, [[1, 2, 3]] * 3, 3)
    merged = aggregated_energies(noise, [[1, 2, 3], [1, 2, 3], [1, 3, 3]], 3)
    assert merged[1] > 1.3 * whole[1]  # two clients protect round 2
    assert aggregated_energies(noise, [[1, 3]], 3)[1] == 0
    matrix = noise.noising_matrix(3)
    late = np.array([[1.0, 0, 0], [0, 0, 0], [0, 1, 1]]) @ matrix
    inverse = np.linalg.inv(2 * matrix @ matrix.T + late @ late.T)
    np.testing.assert_allclose(merged, np.diag(inverse), rtol=1e-12)


@pytest.mark.parametrize("wrong", [[0, 1], [2, 1], [1.5], [4]])
def test_arrivals_are_rounds(wrong):
    with pytest.raises(ValueError, match=r"arrivals\[0\] must"):
        aggregated_energies(DPSGD(), [wrong], 3)
