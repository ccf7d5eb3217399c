"""The noise of machines that cancel their own, its energies and variances, against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.papers.noise_cancellation.cancelling import (
    cancelling_noise,
    cancelling_parameters,
    regret_workload,
)
from corrnoise.theory.papers.noise_cancellation.privacy import covered_sensitivity, largest_energies
from corrnoise.theory.participation import Participation
from tests.strategies import machine_noises


def energies(noise: Mechanism, n: int) -> Array:
    return np.square(noise.leading(n).column_norms(n))


def mean_variance(noise: Mechanism, n: int) -> float:
    return noise.leading(n).mean_error(Participation.single(n)) ** 2


@given(machine_noises(), st.integers(1, 12))
def test_everything_follows_from_the_matrices(noise, n):
    messages = noise.noising_matrix(12)[:n, :n]
    found = np.square(np.linalg.inv(messages)).sum(axis=0)
    np.testing.assert_allclose(energies(noise, n), found, rtol=1e-9)
    assert not np.allclose(energies(noise, n) * (1 + 1e-6), found, rtol=1e-9)
    prefix = np.cumsum(messages, axis=0)
    sigma = prefix @ prefix.T
    first = noise.leading(n)
    np.testing.assert_allclose(first.errors(PrefixSums(n)), np.diag(sigma), rtol=1e-9)
    unit = found.max()
    regret = (n + 1) * first.mean_error(Participation.single(n), regret_workload(n)) ** 2
    assert regret == pytest.approx(unit * (sigma.sum() + np.trace(sigma)), rel=1e-9)
    assert mean_variance(noise, n) == pytest.approx(unit * np.trace(sigma) / n, rel=1e-9)
    assert unit * (1 - 1e-12) <= covered_sensitivity(noise, n) ** 2 <= unit * (1 + 1e-4)


@given(machine_noises(), st.integers(1, 12))
def test_largest_energies_are_over_all_participations_with_so_many_later_ones(noise, n):
    strategy = np.linalg.inv(noise.noising_matrix(12))[:n, :n]
    by_definition = [max(np.square(strategy[j : j + followed + 1, j]).sum() for j in range(n)) for followed in range(n)]
    np.testing.assert_allclose(largest_energies(noise, n), by_definition, rtol=1e-9)


@given(st.floats(1e-3, 1), st.floats(0, 4), st.integers(1, 12))
def test_cancelling_noise_makes_the_prefix_noise_of_the_paper(share, growth, n):
    """y_k = (1 − a) y_{k−1} + k^{g/2} z_k, with e_j = j^{−g} + a² Σ_{k>j} k^{−g}."""
    noise = cancelling_noise(n, share=share, growth=growth)
    scales = np.arange(1.0, n + 1) ** (growth / 2)
    prefix = np.zeros((n + 1, n))
    for k in range(1, n + 1):
        prefix[k] = (1 - share) * prefix[k - 1]
        prefix[k, k - 1] += scales[k - 1]
    np.testing.assert_allclose(noise.noising_matrix(n), np.diff(prefix, axis=0), atol=1e-13 * scales[-1])
    later = [share**2 * float((scales[j + 1 :] ** -2.0).sum()) for j in range(n)]
    np.testing.assert_allclose(energies(noise, n), scales**-2.0 + later, rtol=1e-12)
    known = cancelling_parameters(noise)
    assert known == pytest.approx((share, growth if n > 1 else 0.0), abs=1e-11)


def test_the_published_noises_are_noises_of_this_project():
    assert cancelling_noise(6) == AntiPGD(0.0)
    assert cancelling_noise(6, share=0) == DPSGD()
    np.testing.assert_allclose(cancelling_noise(5, growth=1).errors(PrefixSums(5)), [1, 2, 3, 4, 5], rtol=1e-14)
    for noise in (NuFTRL(0.1), BinaryTree(3), PoleNoise([0.1], [0.5]), ScaledNoise(DPSGD(), draw_scales=[1.0, 3.0, 2])):
        with pytest.raises(ValueError, match="noise must be a cancelling_noise"):
            cancelling_parameters(noise)


@pytest.mark.parametrize(
    ("share", "growth", "gamma", "variance"),
    [
        (1, 0, 10.0, 100.0),
        (1, 1, 2.27758150626, 261.962564641),
        (0.1, 0, 1.41067359797, 10.0271745156),
        (0.3, 1, 1.17339847306, 133.767591035),
    ],
)
def test_known_values(share, growth, gamma, variance):
    noise = cancelling_noise(100, share=share, growth=growth)
    assert energies(noise, 100).max() ** 0.5 == pytest.approx(gamma, rel=1e-11)
    assert mean_variance(noise, 100) == pytest.approx(variance, rel=1e-11)


def test_a_tree_spends_less_than_its_nodes():
    """One for each height of the binary tree; the online tree is charged for its releases, not for its nodes."""
    for n in (1, 5, 64, 300):
        assert energies(BinaryTree(n, decoder="binary"), n).max() == pytest.approx(n.bit_length(), rel=1e-12)
    tree = BinaryTree(100)
    assert energies(tree, 100).max() ** 0.5 == pytest.approx(2.46800289253, rel=1e-11)
    assert mean_variance(tree, 100) == pytest.approx(12.1301106772, rel=1e-11)


def test_independent_prefix_noise_has_a_regret_of_2n_times_its_mean_variance():
    """Which the claim about growing noise rests on; it does not hold for a share."""
    for share, growth, equal in ((1, 0, True), (1, 1, True), (0.3, 0, False)):
        noise = cancelling_noise(40, share=share, growth=growth)
        regret = 41 * noise.mean_error(Participation.single(40), regret_workload(40)) ** 2
        assert (regret == pytest.approx(80 * mean_variance(noise, 40), rel=1e-12)) is equal


def test_long_runs_need_no_matrix():
    n = 100_000
    sums = [float((np.arange(1.0, n + 1) ** power).sum()) for power in (1, -1)]
    assert mean_variance(cancelling_noise(n, growth=1), n) == pytest.approx(sums[0] * sums[1] / n, rel=1e-9)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"share must lie in \[0, 1\], got 1.5"):
        cancelling_noise(3, share=1.5)
    with pytest.raises(ValueError, match="participations must be an integer >= 1, got 0"):
        regret_workload(0)
