"""Energies, variances and covariances of a machine's noise against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.noise_cancellation.machine_noise import (
    CancellingNoise,
    CorrelatedMachineNoise,
    FactorisedNoise,
)
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
    assert CancellingNoise().memory == 1
    assert CorrelatedMachineNoise(NuFTRL(0)).memory is None


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
