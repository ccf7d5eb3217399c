"""The exact ρ of a machine against the covariance of its messages, all schedules, and the published figures."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise
from corrnoise.theory.papers.noise_cancellation.privacy import (
    calibrated_scale,
    covariance_zcdp,
    published_scale,
    published_zcdp,
    trusted_zcdp,
    worst_schedule_zcdp,
)
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_epsilon
from tests.strategies import log_uniform, loss_classes, machine_noises, rounds_of_a_machine

DIGITS = LossClass(1570**0.5, 392.5, 0.1)
PUBLISHED = cancelling_noise(1200, growth=1)


def budget(rho: float, **other: float) -> Budget:
    return Budget(rho, adjacency="replace-one", **other)


def covariance_of(noise: Mechanism, n: int) -> np.ndarray:
    """The covariance of the prefix noise, shape (n, n)."""
    prefix = np.cumsum(noise.noising_matrix(noise.steps or n)[:n, :n], axis=0)
    return prefix @ prefix.T


def divergence_of_messages(noise, scale, shifts):
    """max_j ‖shift in message j‖²/2 in the inverse covariance of the messages: the Gaussian divergence, of order 1."""
    n = len(shifts)
    difference = np.eye(n) - np.eye(n, k=-1)
    covariance = scale**2 * difference @ covariance_of(noise, n) @ difference.T
    return max(np.square(shifts) * np.diag(np.linalg.inv(covariance))) / 2


def machine_zcdp(noise, scale, rounds, family, *, losses):
    """What a machine that takes part in these rounds spends."""
    return covariance_zcdp(scale**2 * covariance_of(noise, len(rounds)), family.shifts(rounds, losses=losses))


@given(
    machine_noises(),
    log_uniform(1e-2, 1e3),
    rounds_of_a_machine(60, 12),
    loss_classes(),
    st.sampled_from(["convex", "smooth"]),
)
def test_zcdp_is_the_divergence_of_the_messages_and_a_sensitivity(noise, scale, rounds, family, losses):
    """The second by Theorem 1 of federated clients: the strategy C diag(Δ)."""
    shifts = family.shifts(rounds, losses=losses)
    exact = divergence_of_messages(noise, scale, shifts)
    assert machine_zcdp(noise, scale, rounds, family, losses=losses) == pytest.approx(exact, rel=1e-9)
    n = len(rounds)
    strategy = np.tril(np.linalg.inv(noise.noising_matrix(noise.steps or n)[:n, :n])) * shifts  # rounded above
    gamma = MatrixNoise(strategy).sensitivity(Participation.single(n))
    assert (gamma / scale) ** 2 / 2 == pytest.approx(exact, rel=1e-9)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8), loss_classes())
def test_theorem_51_is_the_exact_value_for_a_shift_that_does_not_exist(stds, family):
    independent = np.diag(np.square(stds))
    shifts = np.full(len(stds), 2 * family.published_norm)
    assert published_zcdp(stds, family) == pytest.approx(covariance_zcdp(independent, shifts), rel=1e-9)
    real = family.shifts(np.arange(1, len(stds) + 1), losses="convex")
    assert covariance_zcdp(independent, real) < published_zcdp(stds, family)


@given(machine_noises(), loss_classes(), st.integers(1, 7), st.integers(1, 7), st.sampled_from(["convex", "smooth"]))
def test_the_worst_schedule_is_the_worst_of_all(noise, family, rounds, cap, losses):
    schedules = [s for n in range(1, min(rounds, cap) + 1) for s in combinations(range(1, rounds + 1), n)]
    worst = max(machine_zcdp(noise, 1.0, s, family, losses=losses) for s in schedules)
    bound = worst_schedule_zcdp(noise, 1.0, rounds, family, losses=losses, participations=cap)
    assert bound >= worst * (1 - 1e-9)
    if not isinstance(noise, MatrixNoise):  # whose worst participation may be too late for the round
        assert bound <= worst * (1 + 5e-6)


@pytest.mark.parametrize(
    ("losses", "every_second", "second_half", "worst", "divisor"),
    [("convex", 0.2241540693, 0.38313, 0.41001, 1.56), ("smooth", 0.4674045878, 0.85836, 0.91511, 1.045)],
)
def test_at_the_constants_of_the_experiment(losses, every_second, second_half, worst, divisor):
    scale = published_scale(budget(32), DIGITS, 1200)
    share = machine_zcdp(PUBLISHED, scale, range(2, 1201, 2), DIGITS, losses=losses) / 32
    assert share == pytest.approx(every_second, rel=5e-6)
    late = machine_zcdp(PUBLISHED, scale, range(601, 1201), DIGITS, losses=losses) / 32
    assert late == pytest.approx(second_half, abs=1e-5)
    largest = worst_schedule_zcdp(PUBLISHED, scale, 1200, DIGITS, losses=losses) / 32
    assert largest == pytest.approx(worst, abs=1e-5)
    assert 1 / np.sqrt(largest) == pytest.approx(divisor, abs=5e-3)
    # Noise divided by 2.11, the factor of every second round, breaks the budget of a machine that joins late.
    assert machine_zcdp(PUBLISHED, scale / 2.11, range(601, 1201), DIGITS, losses=losses) > 32


@given(
    machine_noises(),
    rounds_of_a_machine(40, 12),
    loss_classes(),
    log_uniform(1e-4, 1e3),
    st.sampled_from(["convex", "smooth"]),
)
def test_calibrated_noise_stays_within_its_budget(noise, rounds, family, rho, losses):
    scale = calibrated_scale(noise, budget(rho), 12, family, losses=losses)
    assert machine_zcdp(noise, scale, rounds, family, losses=losses) <= rho * (1 + 1e-9)
    assert worst_schedule_zcdp(noise, scale, 40, family, losses=losses, participations=12) <= rho
    shifts = np.full(12, family.largest_shift(losses=losses))
    assert covariance_zcdp(scale**2 * covariance_of(noise, 12), shifts) == pytest.approx(rho, rel=5e-6)


@given(loss_classes(), st.integers(1, 200), log_uniform(1e-3, 1e3))
def test_the_published_scale_stays_within_its_budget(family, rounds, rho):
    scale = published_scale(budget(rho), family, rounds)
    spent = worst_schedule_zcdp(PUBLISHED, scale, rounds, family, losses="smooth")
    assert spent <= rho * (1 + 5e-6)  # with the rounding of what machines run
    assert published_zcdp(scale * np.sqrt(np.arange(1, rounds + 1)), family) <= rho


def test_epsilon_is_that_of_one_gaussian_mechanism():
    assert gaussian_epsilon(0.5, 1e-5) == pytest.approx(4.377178096)
    for rho, epsilon in ((8, 24.382), (32, 65.319), (72, 122.324)):  # the paper's ρ = 4, 8, 12
        assert gaussian_epsilon(rho, 1e-5) == pytest.approx(epsilon, rel=1e-4)


def test_trusted_server():
    stds = np.full(10, 2.0)
    rho = trusted_zcdp(stds, DIGITS, 5, losses="smooth")
    t = np.arange(1, 11)
    by_hand = max(float(DIGITS.shifts(j, losses="smooth")) ** 2 / (2 * 25) * (10 - j + 1) / 4 for j in t)
    assert rho == pytest.approx(by_hand, rel=1e-9)
    assert rho <= 2 * DIGITS.published_norm**2 / 25 * 10 / 4  # Theorem F.1


def test_bad_values_are_named():
    with pytest.raises(ValueError, match="covariance must be positive definite"):
        covariance_zcdp([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0])
    with pytest.raises(ValueError, match="adjacency must be one of 'replace-one', got 'zero-out'"):
        calibrated_scale(NuFTRL(0), Budget(1.0), 3, DIGITS, losses="convex")
