"""Optimal Toeplitz strategies against known values, their certificate, and dense matrices."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.toeplitz import best_toeplitz, certificate, lower_bound, square_root
from corrnoise.theory.mechanisms.toeplitz_losses import squared_sensitivity
from corrnoise.theory.objectives.toeplitz_errors import AGGREGATES, error_weights, strategy_error
from corrnoise.theory.objectives.workloads import LargestError, PrefixSums
from corrnoise.theory.participation import Participation
from tests.strategies import minimum_phase_coefficients

# steps, bands, participations (min_sep = steps/participations), root mean squared error
KNOWN = [
    (64, 64, 1, 2.179043433),
    (64, 32, 1, 2.211031693),
    (256, 32, 1, 3.086810400),
    (256, 256, 1, 2.616450035),
    (1024, 32, 1, 4.955631406),
    (1024, 1024, 1, 3.056587931),
    (64, 16, 4, 4.700108746),
    (256, 64, 4, 5.566133566),
    (1024, 256, 4, 6.444143368),
]


def optimum(who, bands, objective="mean"):
    return best_toeplitz(
        PrefixSums(who.steps) if objective == "mean" else LargestError(PrefixSums(who.steps)), who, bands
    )


@pytest.mark.parametrize(("steps", "bands", "participations", "value"), KNOWN)
def test_known_optima_are_certified(steps, bands, participations, value):
    who = Participation.min_sep(steps, steps // participations, participations)
    found = optimum(who, bands)
    assert found.mean_error(who) == pytest.approx(value, abs=6e-10)
    assert found.memory(steps) == bands - 1
    assert found.anytime
    if steps * bands <= 256 * 256:
        assert abs(certificate(found, who).gap) < 1e-11


@pytest.mark.parametrize("steps", [4, 16, 64])
def test_the_square_root_is_the_best_toeplitz_strategy_for_the_largest_error(steps):
    who = Participation.single(steps)
    found = optimum(who, steps, "max")
    t = np.arange(1, steps)
    np.testing.assert_allclose(found.values, np.cumprod([1.0, *((t - 0.5) / t)]), rtol=1e-6)
    assert abs(certificate(found, who, "max").gap) < 1e-12


@pytest.mark.parametrize("objective", AGGREGATES)
@given(strategy=minimum_phase_coefficients(4), other=minimum_phase_coefficients(4), run=st.data())
def test_no_strategy_is_below_the_bound_of_another(objective, strategy, other, run):
    """The certificate holds at any strategy, for every strategy with as many bands."""
    p = max(strategy.size, other.size)
    count = run.draw(st.integers(1, 3))
    who = Participation.min_sep(run.draw(st.integers(p * count, 24)), p, count)
    padded = np.concatenate([strategy, np.zeros(p - strategy.size)])
    bound = lower_bound(padded, who, objective)
    column = np.concatenate([other, np.zeros(who.steps - other.size)])
    error, _ = strategy_error(column, error_weights(who.steps, who.steps, objective))
    assert squared_sensitivity(column, who)[0] * error >= bound * (1 - 1e-9)


@pytest.mark.parametrize("objective", AGGREGATES)
def test_the_certificate_is_that_of_dense_matrices(objective, monkeypatch):
    monkeypatch.setattr(toeplitz, "BLOCK_ROWS", 5)
    n, strategy = 17, np.array([1.0, 0.6, 0.2, -0.1])
    p = strategy.size
    matrix = scipy.linalg.toeplitz(np.concatenate([strategy, np.zeros(n - p)]), np.zeros(n))
    sums = np.tril(np.ones((n, n)))
    weight = sums.T @ sums / n if objective == "mean" else np.ones((n, n))
    inverse = np.linalg.inv(matrix.T @ matrix)
    k = inverse @ weight @ inverse
    shifts = [np.eye(n, k=-j) for j in range(p)]
    gamma = np.array([[np.trace(k @ shifts[j].T @ shifts[l]) for l in range(p)] for j in range(p)])
    expected = np.trace(weight @ inverse) ** 2 / np.linalg.eigvalsh(gamma)[-1]
    assert lower_bound(strategy, Participation.single(n), objective) == pytest.approx(expected, rel=1e-12)


def test_a_strategy_that_is_not_optimal_has_a_gap():
    who = Participation.single(64)
    found = optimum(who, 16)
    worse = found.values * (1 + 1e-3 * np.arange(16))
    column = np.concatenate([worse, np.zeros(48)])
    value = squared_sensitivity(column, who)[0] * strategy_error(column, error_weights(64, 64, "mean"))[0]
    assert value > found.mean_error(who) ** 2 * (1 + 1e-7)
    assert lower_bound(worse, who, "mean") < certificate(found, who).lower_bound ** 2 * (1 - 1e-7)


def test_the_last_epoch_may_be_shorter_than_the_bands():
    who = Participation.min_sep(60, 16, 4)
    found = optimum(who, 16)
    column = np.concatenate([found.values, np.zeros(44)])
    assert found.sensitivity(who) ** 2 == pytest.approx(squared_sensitivity(column, who)[0], rel=1e-12)
    assert 1e-3 < certificate(found, who).gap < 0.1  # then the certificate is valid, and not sharp


def test_one_band_is_independent_noise():
    who = Participation.single(10)
    found = optimum(who, 1)
    assert found.mean_error(who) == pytest.approx(np.sqrt(11 / 2), rel=1e-13)
    assert abs(certificate(found, who).gap) < 1e-13


def test_more_bands_than_the_theorem_covers_are_refused():
    with pytest.raises(ValueError, match=r"bands must be an integer in \[1, 16\]"):
        optimum(Participation.min_sep(64, 16, 4), 17)
    with pytest.raises(ValueError, match=r"bands must be an integer in \[1, 10\]"):
        optimum(Participation.single(10), 11)


@pytest.mark.parametrize(("steps", "error"), [(10_000, 35.5210796), (100_000, 111.9142295)])
def test_few_bands_in_long_runs(steps, error):
    """A step of the search leads to noise that exceeds the range of floats, and the search goes on."""
    who = Participation.single(steps)
    found = optimum(who, 4).mean_error(who)
    assert found == pytest.approx(error, rel=1e-8)
    assert found < 0.95 * square_root(4).mean_error(who)
