"""Standard errors of correlated series: honest for autoregressions, and infinite where nothing can be known."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from corrnoise.simulations.standard_errors import inflation, long_run_error

REPETITIONS = 2000
SCORE = stats.norm.isf(1e-7)


@pytest.mark.parametrize("freedom", [1.0, 2.0, 7.5, 100.0])
def test_inflation_makes_a_student_interval(freedom):
    assert inflation(freedom) * stats.norm.ppf(0.975) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-12)


def test_without_degrees_of_freedom_nothing_is_known():
    assert inflation(0.0) == math.inf
    assert long_run_error(np.array([[3.0]]), np.array([10.0])) == math.inf


@pytest.mark.parametrize(
    ("chains", "batches", "correlation"), [(1, 256, 0.0), (1, 256, 0.8), (4, 64, 0.5), (1, 256, 0.95)]
)
def test_intervals_of_autoregressions_cover_the_mean(chains, batches, correlation):
    """1.96 standard errors cover the true mean with probability 95 %, or less by 0.05 at the most (seeded, 1e-7)."""
    rng = np.random.default_rng(1)
    lengths, missed = np.full(batches, 5.0), 0
    for _ in range(REPETITIONS):
        innovations = rng.standard_normal((chains, batches + 400))
        series = lfilter([1.0], [1.0, -correlation], innovations, axis=1)[:, 400:]
        mean = series.sum() / (chains * lengths.sum())
        missed += abs(mean) > stats.norm.ppf(0.975) * long_run_error(series, lengths)
    assert missed <= REPETITIONS * 0.1 + SCORE * math.sqrt(REPETITIONS * 0.1 * 0.9)
    assert missed >= REPETITIONS * 0.01 - SCORE * math.sqrt(REPETITIONS * 0.01 * 0.99)


def test_standard_errors_scale_with_the_series_and_not_with_its_mean():
    rng = np.random.default_rng(2)
    series, lengths = rng.standard_normal((2, 50)), np.full(50, 3.0)
    error = long_run_error(series, lengths)
    assert long_run_error(8 * series, lengths) == pytest.approx(8 * error, rel=1e-12)
    assert long_run_error(series + 7 * lengths, lengths) == pytest.approx(error, rel=1e-9)
