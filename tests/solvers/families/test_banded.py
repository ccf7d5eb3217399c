"""The best banded strategy under min-sep participation: known values, proved bounds, and a semidefinite program."""

import math

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.solvers.families.banded import best_bands
from corrnoise.theory.objectives.workloads import MatrixWorkload, MomentumSGD, PrefixSums
from corrnoise.theory.participation import Participation

NORMS = ("window sums", "unit")


def min_sep(steps, separation, count=None):
    return Participation.min_sep(steps, separation, count)


def error_of(workload, strategy, participation):
    """Sensitivity over all patterns times root mean squared error; the columns of a pattern must be orthogonal."""
    squared = np.square(np.linalg.solve(strategy.T, workload.matrix().T)).sum(axis=0)
    norms = np.square(strategy).sum(axis=0)
    return math.sqrt(max(norms[steps].sum() for steps in participation.worst.patterns()) * squared.mean())


@pytest.mark.parametrize(
    ("steps", "separation", "norms", "value"),
    [
        (8, 4, "window sums", 2.153027),
        (8, 4, "unit", 2.186682),
        (9, 3, "window sums", 2.813671),
        (9, 3, "unit", 2.879865),
        (64, 16, "window sums", 4.485914),
        (64, 16, "unit", 4.585235696),
    ],
)
def test_prefix_sums(steps, separation, norms, value):
    _, best = best_bands(PrefixSums(steps), min_sep(steps, separation), norms=norms)
    assert best.rigorous
    assert best.gap <= 1e-6
    assert abs(best.value - value) < 1e-6
    assert best.lower_bound <= best.value


def least_by_program(workload, participation, norms):
    """The same optimum as a semidefinite program: X = 0 outside the band, one constraint for each pattern."""
    n, a = participation.steps, workload.matrix()
    x, z = (cvxpy.Variable(shape, symmetric=True) for shape in ((n, n), (a.shape[0], a.shape[0])))
    far = [x[i, j] == 0 for i in range(n) for j in range(i) if i - j >= participation.period]
    if norms == "unit":
        limits = [cvxpy.diag(x) <= 1 / participation.count]
    else:
        limits = [sum(x[i, i] for i in steps) <= 1 for steps in participation.worst.patterns()]
    within = [cvxpy.bmat([[z, a], [a.T, x]]) >> 0, *far, *limits]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(z)), within)
    return math.sqrt(problem.solve(solver="CLARABEL") / a.shape[0])


@pytest.mark.parametrize("norms", NORMS)
@pytest.mark.parametrize(("steps", "separation"), [(7, 3), (8, 4), (6, 5), (5, 1)])
def test_against_a_semidefinite_program_over_all_patterns(steps, separation, norms):
    workload = MomentumSGD(steps, momentum=0.6)
    participation = min_sep(steps, separation)
    exact = least_by_program(workload, participation, norms)
    _, best = best_bands(workload, participation, norms=norms)
    assert best.value == pytest.approx(exact, rel=3e-6)
    assert best.lower_bound == pytest.approx(exact, rel=3e-6)


@given(st.integers(1, 12), st.integers(1, 6), st.sampled_from(NORMS), st.integers(0, 2**32 - 1))
def test_bounds_hold_at_any_time(steps, separation, norms, seed):
    rng = np.random.default_rng(seed)
    participation = min_sep(steps, separation)
    workload = MatrixWorkload(np.eye(steps) + 0.5 * rng.normal(size=(steps, steps)))
    noise, best = best_bands(workload, participation, norms=norms, max_iterations=3)
    strategy = noise.strategy()
    assert np.array_equal(strategy, np.tril(strategy))
    assert np.all(np.diagonal(strategy) > 0)
    gram = strategy.T @ strategy
    assert all(gram[i, j] == 0 for i in range(steps) for j in range(i) if i - j >= separation)
    assert error_of(workload, strategy, participation) == pytest.approx(best.value, rel=1e-10)
    assert noise.sensitivity_upper_bound(participation) == pytest.approx(1, abs=1e-11)
    distance = np.subtract.outer(np.arange(steps), np.arange(steps))
    other = np.where((distance >= 0) & (distance < separation), rng.normal(size=(steps, steps)), 0.0)
    other += 3 * np.eye(steps)
    if norms == "unit":
        other /= np.linalg.norm(other, axis=0)
    assert best.lower_bound <= error_of(workload, other, participation)


def test_order_of_the_optima():
    """Fixed epochs are easier than min-sep, more bands are better than fewer, free norms better than equal ones."""
    workload, participation = PrefixSums(24), min_sep(24, 8)
    fixed = fixed_epochs_bounds(workload, Participation.fixed_epochs(24, period=8), tolerance=1e-9)
    banded, unit = (best_bands(workload, participation, norms=norms)[1] for norms in NORMS)
    _, fewer = best_bands(workload, participation, bands=3)
    assert fixed.value < banded.lower_bound
    assert banded.value < unit.lower_bound
    assert banded.value < fewer.lower_bound
    assert not fewer.value < banded.lower_bound  # the mutant: fewer bands are better


def test_unit_columns_with_fewer_participations():
    noise, best = best_bands(PrefixSums(12), min_sep(12, 3, 2), norms="unit")
    assert error_of(PrefixSums(12), noise.strategy(), min_sep(12, 3, 2)) == pytest.approx(best.value, rel=1e-10)
    assert best.gap <= 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"participation": min_sep(6, 3, 1)}, "norms must be 'unit'"),
        ({"participation": min_sep(8, 4)}, "6 steps"),
        ({"participation": Participation.fixed_epochs(6, period=3)}, "min-sep"),
        ({"participation": min_sep(6, 3), "bands": 4}, "bands must be at most"),
        ({"participation": min_sep(6, 3), "norms": "free"}, "norms"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        best_bands(PrefixSums(6), **arguments)
