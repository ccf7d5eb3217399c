"""Energies, variances and covariances of a machine's noise against their definitions."""

import numpy as np
import pytest
from corrnoise.theory.noise_cancellation.machine_noise import (
    CancellingNoise,
    CorrelatedMachineNoise,
    FactorisedNoise,
)
from corrnoise.theory.noise_cancellation.tree_noise import TreeNoise
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree
from tests.strategies import machine_noises


def energies_by_definition(noise, n):
    """Column norms of the inverse of the messages' factor W, the first difference of P."""
    factor = noise.prefix_factor(n)
    messages = np.diff(np.vstack([np.zeros(n), factor]), axis=0)
    return np.square(np.linalg.inv(messages)).sum(axis=0)


@given(machine_noises(), st.integers(1, 12))
def test_everything_follows_from_the_factor(noise, n):
    factor = noise.prefix_factor(n)
    assert not np.triu(factor, 1).any()
    energies = energies_by_definition(noise, n)
    np.testing.assert_allclose(noise.energies(n), energies, rtol=1e-9)
    assert not np.allclose(noise.energies(n) * (1 + 1e-6), energies, rtol=1e-9)
    sigma = factor @ factor.T
    np.testing.assert_allclose(noise.covariance(n), sigma)
    np.testing.assert_allclose(noise.variances(n), np.diag(sigma), rtol=1e-9)
    unit = energies.max()
    assert noise.regret_energy(n) == pytest.approx(unit * (sigma.sum() + np.trace(sigma)), rel=1e-9)
    assert noise.mean_variance(n) == pytest.approx(unit * np.trace(sigma) / n, rel=1e-9)
    assert noise.sensitivity_upper_bound(n) ** 2 >= unit * (1 - 1e-12)


@given(machine_noises(), st.integers(1, 12))
def test_largest_energies_are_over_all_participations_with_so_many_later_ones(noise, n):
    strategy = np.linalg.inv(np.diff(np.vstack([np.zeros(n), noise.prefix_factor(n)]), axis=0))
    by_definition = [max(np.square(strategy[j : j + followed + 1, j]).sum() for j in range(n)) for followed in range(n)]
    np.testing.assert_allclose(noise.largest_energies(n), by_definition, rtol=1e-9)


def test_the_published_noises_are_noises_of_this_project():
    for mine, theirs in ((CancellingNoise(), AntiPGD(0)), (CancellingNoise(share=0), DPSGD())):
        np.testing.assert_allclose(mine.prefix_factor(6), CorrelatedMachineNoise(theirs).prefix_factor(6))
    np.testing.assert_allclose(CancellingNoise(growth=1).variances(5), [1, 2, 3, 4, 5])


@given(machine_noises(), st.integers(1, 12))
def test_messages_made_one_by_one_have_the_covariance_of_the_theory(noise, n):
    """Every draw a column of the identity, so that the messages are the matrix of the noise; memory as it is stated."""
    draws = [noise.draws(k) for k in range(1, n + 1)]
    units = np.split(np.eye(sum(draws)), np.cumsum(draws)[:-1])
    kept = noise.start(sum(draws))
    messages = []
    for k, fresh in enumerate(units, 1):
        before = kept.copy()
        message, after = noise.step(kept, fresh, k)
        assert np.array_equal(kept, before)
        kept = after
        assert k == n or kept.any(axis=1).sum() <= noise.memory(k + 1)
        messages.append(message)
    prefix = np.cumsum(messages, axis=0)
    np.testing.assert_allclose(prefix @ prefix.T, noise.covariance(n), atol=1e-12 * noise.variances(n).max())


def test_memory_of_a_machine():
    for noise, vectors in (
        (CancellingNoise(), 1),
        (CancellingNoise(share=0), 0),
        (CorrelatedMachineNoise(PoleNoise([0.01, 0.2], [0.1, 0.5])), 2),
        (CorrelatedMachineNoise(FiniteNoise([1.0, -0.5, -0.2])), 2),
        (TreeNoise(1000), 10),
        (CorrelatedMachineNoise(NuFTRL(0)), 999),
        (CorrelatedMachineNoise(DPSGD()), 0),
        (CorrelatedMachineNoise(AntiPGD(0)), 1),
        (FactorisedNoise(np.eye(1000)), 999),
    ):
        assert noise.memory(1000) == vectors


def test_the_largest_energy_of_a_tree_that_sums_nodes_is_its_height():
    """One for each height; an integer, and so a check of the rounding."""
    for n in (1, 5, 64, 300):
        assert TreeNoise(n, decoder="binary").energies(n).max() == pytest.approx(n.bit_length(), rel=1e-12)


@pytest.mark.parametrize("decoder", ["binary", "online"])
@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
def test_tree_noise_has_the_known_variances_and_no_more_energy_than_its_nodes(n, decoder):
    """A node of height h has the variance 1, or 2^h/(2^{h+1} − 1) estimated from below; a path has a node a height."""
    noise = TreeNoise(n, decoder=decoder)
    heights = [[h for h in range(k.bit_length()) if k >> h & 1] for k in range(1, n + 1)]
    node = (lambda h: 1.0) if decoder == "binary" else (lambda h: 2**h / (2 ** (h + 1) - 1))
    np.testing.assert_allclose(noise.variances(n), [sum(map(node, digits)) for digits in heights], rtol=1e-9)
    nodes = np.linalg.norm(BinaryTree(n).strategy(), axis=0) ** 2
    assert (noise.energies(n) <= nodes * (1 + 1e-9)).all()
    assert TreeNoise(n).mean_variance(n) <= TreeNoise(n, decoder="binary").mean_variance(n) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("noise", "n", "mean", "regret"),
    [
        (CancellingNoise(growth=1), 100, 262.0, 5.239),
        (CancellingNoise(), 1000, 1000.0, 2.000),
        (CorrelatedMachineNoise(NuFTRL(0)), 100, 5.620, 1.676),
        (CorrelatedMachineNoise(NuFTRL(0)), 1000, 9.624, 2.089),
        (CancellingNoise(share=0), 100, 50.5, 34.34),
        (CancellingNoise(share=1000**-0.25), 1000, 100.4, 1.124),
    ],
)
def test_reference_values(noise, n, mean, regret):
    assert noise.mean_variance(n) == pytest.approx(mean, rel=1e-3)
    assert noise.regret_energy(n) / n**2 == pytest.approx(regret, rel=1e-3)


@given(st.integers(2, 10**5))
def test_taking_back_a_part_needs_the_square_root_of_the_noise(n):
    """At a = n^{−½}: energy 2 − 1/n, variance below 1/(a(2 − a)), so the mean variance is below (5/4 + …) sqrt(n)."""
    noise = CancellingNoise(share=n**-0.5)
    assert noise.mean_variance(n) <= (2 - 1 / n) * n**0.5 / (2 - n**-0.5) * (1 + 1e-9)
    assert noise.energies(n).max() == pytest.approx(2 - 1 / n)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"share must lie in \[0, 1\], got 1.5"):
        CancellingNoise(share=1.5)
    with pytest.raises(TypeError, match="noise must be correlated noise"):
        CorrelatedMachineNoise(1.0)
    with pytest.raises(ValueError, match="participations must be at most 2, for which the noise is made, got 3"):
        FactorisedNoise(np.eye(2)).energies(3)
    with pytest.raises(ValueError, match="square matrix"):
        FactorisedNoise(np.ones((2, 3)))
    with pytest.raises(ValueError, match="lower triangular with a diagonal"):
        FactorisedNoise(np.ones((2, 2)))
    with pytest.raises(ValueError, match="condition number"):
        FactorisedNoise(np.diag([1.0, 1e-7]))
    with pytest.raises(ValueError, match="participations must be an integer >= 1, got 0"):
        CancellingNoise().energies(0)
