"""Buffers with a scale for each step: derivatives, known optima, and the floor of all strategies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.solvers.families import scaled_buffers as search_of
from corrnoise.solvers.families.buffers import best_buffers, thinned, variables_of
from corrnoise.solvers.families.scaled_buffers import scaled_buffers
from corrnoise.solvers.objectives import run_objective
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.workloads import MatrixWorkload, PrefixSums
from tests.strategies import interlacing_gaps


def epochs_of(steps, min_sep):
    return Participation.fixed_epochs(steps, period=min_sep)


@given(st.integers(2, 12), st.integers(1, 12), interlacing_gaps(most=2, smallest=1e-3), st.integers(0, 2**32 - 1))
def test_the_logarithm_of_the_error_and_its_gradient(steps, min_sep, gaps, seed):
    """Against the mechanism that the variables mean, and against differences along a random direction."""
    rng = np.random.default_rng(seed)
    who = epochs_of(steps, min_sep)
    workload = MatrixWorkload(rng.normal(size=(steps, steps)))
    search = search_of._Search(workload.gram(), search_of._Classes(steps, who.period, who.count))
    state = np.concatenate([0.3 * rng.normal(size=steps), variables_of(*gaps)])
    value, gradient = search.logarithm(state)
    run = ScaledNoise(PoleNoise(*gaps), search.at(state).scales)
    assert run.sensitivity(who) == pytest.approx(1, rel=1e-9)
    assert np.sqrt(np.exp(value) / steps) == pytest.approx(run.mean_error(who, workload), rel=1e-9)
    direction, step = rng.normal(size=state.size), 1e-5
    ends = [search.logarithm(state + sign * step * direction)[0] for sign in (1, -1)]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-5)


def test_one_participation_is_buffers_with_unit_columns():
    """2.99224 at n = 1024 is known from another code for three buffers; here n = 256 against that start."""
    once, sums = Participation.single(256), run_objective(PrefixSums(256))
    found = scaled_buffers(sums, once, 3)
    np.testing.assert_allclose(found.column_norms(), 1, rtol=1e-9)
    plain = ScaledNoise.normalised(best_buffers(sums, once, 3), once)
    value = found.mean_error(once)
    assert value < plain.mean_error(once) < 2.617
    floor = fixed_epochs_bounds(PrefixSums(256), epochs_of(256, 256)).lower_bound
    assert floor * 1.01 < value < floor * 1.013


@pytest.mark.parametrize(("steps", "min_sep"), [(64, 16), (61, 16), (24, 1)])
def test_better_than_equal_scales_and_not_below_the_floor(steps, min_sep):
    who = epochs_of(steps, min_sep)
    found = scaled_buffers(run_objective(PrefixSums(steps)), who, 2)
    equal = best_buffers(run_objective(PrefixSums(steps)), who, 2)
    floor = fixed_epochs_bounds(PrefixSums(steps), who).lower_bound
    assert floor <= found.mean_error(who) <= equal.mean_error(who) * (1 + 1e-9)
    assert found.sensitivity(who) == pytest.approx(1, rel=1e-9)
    assert found.memory() <= 2


def test_the_best_scales_of_two_steps():
    """For fixed noise the scales are a convex program; in one class of two steps it is solved by hand.

    With X = [[p, q], [q, r]], P = W ∘ K and d = (1, x) sqrt(g), minimise
    (P_11 + 2 P_12 x + P_22 x²) (p + 2 q/x + r/x²).
    """
    rng = np.random.default_rng(5)
    workload = MatrixWorkload(rng.normal(size=(2, 2)))
    search = search_of._Search(workload.gram(), search_of._Classes(2, 1, 2))
    shape = variables_of(np.array([0.1]), np.array([0.5]))
    x = np.exp(np.linspace(-8, 8, 200_001))
    series = search_of._Series.of(shape, 2)
    c, beta = series.strategy, series.noising
    inner = workload.gram() * np.array([[1, beta[1]], [beta[1], 1 + beta[1] ** 2]])
    errors = (inner[0, 0] + 2 * inner[0, 1] * x + inner[1, 1] * x**2) * (1 + c[1] ** 2 + 2 * c[1] / x + 1 / x**2)
    best = x[np.argmin(errors)]
    value, gradient = search.logarithm(np.concatenate([[0.0, np.log(best)], shape]))
    assert np.exp(value) == pytest.approx(errors.min(), rel=1e-9)
    assert abs(gradient[1]) < 1e-3


def test_merged_gaps_are_left_out():
    zeros, poles = np.array([0.1, 0.3]), np.array([0.2, 0.3000001])
    np.testing.assert_array_equal(np.stack(thinned(zeros, poles)), [[0.1], [0.2]])
    zeros, poles = np.array([0.1, 0.2000001]), np.array([0.2, 0.5])
    np.testing.assert_array_equal(np.stack(thinned(zeros, poles)), [[0.1], [0.5]])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_short_runs(steps):
    who = epochs_of(steps, 1)
    found = scaled_buffers(run_objective(PrefixSums(steps)), who, 4)
    assert found.mean_error(who) >= fixed_epochs_bounds(PrefixSums(steps), who).lower_bound
    assert found.steps == steps


def test_too_long_runs_are_refused():
    with pytest.raises(ValueError, match=r"steps must be an integer in \[1, 4096\]"):
        scaled_buffers(run_objective(PrefixSums(5000)), Participation.single(5000), 1)
