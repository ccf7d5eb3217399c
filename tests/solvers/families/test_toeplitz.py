"""Optimal Toeplitz strategies against known values, their certificate, and dense matrices."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.solvers.matrix_factorisation import toeplitz
from corrnoise.solvers.matrix_factorisation.families import banded_square_root
from corrnoise.solvers.matrix_factorisation.toeplitz import lower_bound, optimal_toeplitz
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.toeplitz_losses import OBJECTIVES, error_weights, squared_sensitivity, strategy_error
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


@pytest.mark.parametrize(("steps", "bands", "participations", "value"), KNOWN)
def test_known_optima_are_certified(steps, bands, participations, value):
    who = Participation.min_sep(steps, steps // participations, participations)
    found = optimal_toeplitz(who, bands=bands, certify=steps * bands <= 256 * 256)
    assert found.error == pytest.approx(value, abs=6e-10)
    assert found.mean_error == found.error < found.max_error
    assert found.memory == bands - 1
    assert found.anytime
    if found.gap is not None:
        assert abs(found.gap) < 1e-11


@pytest.mark.parametrize("steps", [4, 16, 64])
def test_the_square_root_is_the_best_toeplitz_strategy_for_the_largest_error(steps):
    found = optimal_toeplitz(Participation(steps), objective="max")
    t = np.arange(1, steps)
    np.testing.assert_allclose(found.noise.values, np.cumprod([1.0, *((t - 0.5) / t)]), rtol=1e-6)
    assert abs(found.gap) < 1e-12
    assert found.error == found.max_error


@pytest.mark.parametrize("objective", OBJECTIVES)
@given(strategy=minimum_phase_coefficients(4), other=minimum_phase_coefficients(4), run=st.data())
@settings(max_examples=60)
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


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_certificate_is_that_of_dense_matrices(objective, monkeypatch):
    monkeypatch.setattr(toeplitz, "_BLOCK", 5)
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
    assert lower_bound(strategy, Participation(n), objective) == pytest.approx(expected, rel=1e-12)


def test_a_strategy_that_is_not_optimal_has_a_gap():
    who = Participation(64)
    found = optimal_toeplitz(who, bands=16)
    worse = found.noise.values * (1 + 1e-3 * np.arange(16))
    column = np.concatenate([worse, np.zeros(48)])
    value = squared_sensitivity(column, who)[0] * strategy_error(column, error_weights(64, 64, "mean"))[0]
    assert value > found.error**2 * (1 + 1e-7)
    assert lower_bound(worse, who, "mean") < found.lower_bound**2 * (1 - 1e-7)


def test_the_last_epoch_may_be_shorter_than_the_bands():
    who = Participation.min_sep(60, 16, 4)
    found = optimal_toeplitz(who, bands=16)
    column = np.concatenate([found.noise.values, np.zeros(44)])
    assert found.sensitivity**2 == pytest.approx(squared_sensitivity(column, who)[0], rel=1e-12)
    assert 1e-3 < found.gap < 0.1  # then the certificate is valid, and not sharp


def test_one_band_is_independent_noise():
    found = optimal_toeplitz(Participation(10), bands=1)
    assert found.error == pytest.approx(np.sqrt(11 / 2), rel=1e-13)
    assert abs(found.gap) < 1e-13


def test_more_bands_than_the_theorem_covers_are_refused():
    with pytest.raises(ValueError, match="bands must be at most 16"):
        optimal_toeplitz(Participation.min_sep(64, 16, 4), bands=17)
    with pytest.raises(ValueError, match="bands must be at most 10"):
        optimal_toeplitz(Participation(10), bands=11)


@pytest.mark.parametrize(("steps", "error"), [(10_000, 35.5210796), (100_000, 111.9142295)])
def test_few_bands_in_long_runs(steps, error):
    """A step of the search leads to noise that exceeds the range of floats, and the search goes on."""
    found = optimal_toeplitz(Participation(steps), bands=4, certify=False)
    assert found.error == pytest.approx(error, rel=1e-8)
    assert found.error < 0.95 * banded_square_root(Participation(steps), bands=4).error
