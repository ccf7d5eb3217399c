"""Energies and variances of a machine's noise against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.noise_cancellation import machines
from corrnoise.theory.noise_cancellation.machines import (
    cancelling_noise,
    cancelling_parameters,
    covered_sensitivity,
    energies,
    largest_energies,
    leading,
    mean_variance,
    prefix_variances,
    regret_energy,
)
from tests.strategies import machine_noises


@given(machine_noises(), st.integers(1, 12))
def test_everything_follows_from_the_matrices(noise, n):
    messages = noise.noising_matrix(12)[:n, :n]
    found = np.square(np.linalg.inv(messages)).sum(axis=0)
    np.testing.assert_allclose(energies(noise, n), found, rtol=1e-9)
    assert not np.allclose(energies(noise, n) * (1 + 1e-6), found, rtol=1e-9)
    prefix = np.cumsum(messages, axis=0)
    sigma = prefix @ prefix.T
    np.testing.assert_allclose(prefix_variances(noise, n), np.diag(sigma), rtol=1e-9)
    unit = found.max()
    assert regret_energy(noise, n) == pytest.approx(unit * (sigma.sum() + np.trace(sigma)), rel=1e-9)
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
    np.testing.assert_allclose(prefix_variances(cancelling_noise(5, growth=1), 5), [1, 2, 3, 4, 5], rtol=1e-14)
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


def test_the_first_participations_of_finite_noise():
    rows = np.array([[4.0] * 7, [0.5, 1, 2, 3, 2, 1, 0], [1, 2, 3, 2, 1, 0, 0]])
    matrix = np.tril(np.random.default_rng(1).standard_normal((7, 7))) + 3 * np.eye(7)
    scales = np.linspace(1, 2, 7)
    noises = (BandedNoise(rows), MatrixNoise(matrix), ScaledNoise(NuFTRL(0.1), scales, scales[::-1]), BinaryTree(7))
    for noise in noises:
        np.testing.assert_allclose(leading(noise, 5).strategy(), noise.strategy()[:5, :5], rtol=1e-12, atol=1e-15)
        assert leading(noise, 7) == noise


def test_long_runs_take_the_fast_sums(monkeypatch):
    noise = cancelling_noise(200, share=0.2, growth=1)
    exact = mean_variance(noise, 200), regret_energy(noise, 200)
    monkeypatch.setattr(machines, "_DIRECT", 10)
    assert (mean_variance(noise, 200), regret_energy(noise, 200)) == pytest.approx(exact, rel=1e-12)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"share must lie in \[0, 1\], got 1.5"):
        cancelling_noise(3, share=1.5)
    with pytest.raises(TypeError, match="noise must be a Mechanism"):
        energies(1.0, 3)
    with pytest.raises(ValueError, match="participations must be at most 2, for which the noise is made, got 3"):
        energies(BinaryTree(2), 3)
    with pytest.raises(ValueError, match="participations must be an integer >= 1, got 0"):
        energies(AntiPGD(0.0), 0)
