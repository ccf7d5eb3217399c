"""Energies under secure aggregation: against inverses, lone clients, fixed groups and failures."""

import numpy as np
import pytest
from scipy.stats import norm

from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.papers.noise_cancellation.aggregation import aggregated_energies, clipping_range

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


# -- the range of a quantiser ------------------------------------------------------------------------------------------


def error_after(cut: float, *, scale: float = 3.0, participations: int = 40, clients: int = 400) -> float:
    """The root mean square of what cutting to [−cut, cut] leaves in the sum of all messages of a client."""
    draws = np.random.default_rng(5).standard_normal((participations, clients))
    messages = scale * PoleNoise([0.0], [0.3]).noising(draws)
    return float(np.sqrt(np.mean((np.clip(messages, -cut, cut).sum(axis=0) - messages.sum(axis=0)) ** 2)))


def test_the_range_covers_the_noise_so_that_it_still_cancels() -> None:
    chosen = clipping_range(PoleNoise([0.0], [0.3]), 40, scale=3.0, reach=1.0, coordinates=400)
    assert error_after(chosen) == 0.0
    assert error_after(8.0) > 0.7  # the range that Flower has by default


@pytest.mark.parametrize("merged", [1, 3, 6])
def test_the_range_is_that_of_the_longest_reply(merged: int) -> None:
    noise = PoleNoise([0.1], [0.6])
    rows = np.asarray(noise.noising_matrix(6))
    longest = max(
        2.0 * (last - first) + 0.7 * float(np.linalg.norm(rows[first:last].sum(axis=0))) * norm.isf(1e-3 / (2 * 5 * 6))
        for first in range(6)
        for last in range(first + 1, min(first + merged, 6) + 1)
    )
    found = clipping_range(noise, 6, scale=0.7, reach=2.0, coordinates=5, failure=1e-3, merged=merged)
    assert found == pytest.approx(longest, rel=1e-8)
    assert found >= longest
    with pytest.raises(ValueError, match="merged"):
        clipping_range(noise, 6, scale=0.7, reach=2.0, coordinates=5, merged=7)
