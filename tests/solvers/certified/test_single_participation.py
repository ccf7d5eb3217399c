"""The optimum under single participation: known values, proved bounds, and no strategy below them."""

import math

import cvxpy
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.solvers.certified import single_participation
from corrnoise.solvers.certified.certificates import nuclear_norm_below
from corrnoise.solvers.certified.single_participation import (
    BandedInverse,
    roots_of_matrix,
    single_participation_bounds,
    single_participation_strategy,
)
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.objectives.workloads import (
    LargestError,
    MatrixWorkload,
    MomentumSGD,
    PrefixSums,
    workload_of_weights,
)
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.strategies import product_noises, workloads

OBJECTIVES = ("mean", "max")


def of(workload, objective):
    return workload if objective == "mean" else LargestError(workload)


def error_of(workload, strategy, objective):
    """Sensitivity times root mean (or largest) squared error, by definition."""
    squared = np.square(np.linalg.solve(strategy.T, workload.matrix().T)).sum(axis=0)
    return np.linalg.norm(strategy, axis=0).max() * math.sqrt(squared.mean() if objective == "mean" else squared.max())


def strategy_of(objective, **arguments):
    """The optimum, and the matrix of its strategy."""
    best = single_participation_bounds(objective, **arguments)
    return best, single_participation_strategy(objective, best).strategy()


def random_strategy(rng, n):
    return np.tril(rng.normal(size=(n, n))) * rng.uniform(0, 1, (n, n)) + np.diag(rng.uniform(0.5, 2, n))


@workdps(30)
def dual_value(workload, v, u):
    """(tr S)²/(Σv Σu), by 30-digit eigenvalues, with the exact values of the floats v and u."""
    a = mp.matrix(workload.matrix().tolist())
    v, u = [mpf(x) for x in v.tolist()], [mpf(x) for x in u.tolist()]
    n = len(v)
    inner = mp.matrix(n, n)
    for i in range(n):
        for j in range(n):
            inner[i, j] = mp.sqrt(v[i] * v[j]) * mp.fsum(a[t, i] * u[t] * a[t, j] for t in range(len(u)))
    return mp.fsum(mp.sqrt(x) for x in mp.eigsy(inner, eigvals_only=True)) ** 2 / (mp.fsum(v) * mp.fsum(u))


@pytest.mark.parametrize(
    ("steps", "objective", "value"),
    [
        (64, "mean", 2.099856472),
        (256, "mean", 2.524414416),
        (512, "mean", 2.739384656),
        (1024, "mean", 2.955451992),
        (10_000, "mean", 3.670451041),
        (64, "max", 2.111366655),
        (256, "max", 2.532716137),
        (1024, "max", 2.961464833),
        (10_000, "max", 3.674193675),
    ],
)
def test_prefix_sums(steps, objective, value):
    best = single_participation_bounds(of(PrefixSums(steps), objective))
    assert best.rigorous
    assert best.lower_bound < best.value < best.lower_bound * (1 + 1e-9)
    assert abs(best.lower_bound - value) < 5e-9


@workdps(30)
def test_two_steps_in_closed_form():
    best = single_participation_bounds(LargestError(PrefixSums(2)), tolerance=1e-13)
    assert best.lower_bound <= 2 / mp.sqrt(3) <= best.value
    x = (3 - mp.sqrt(5)) / 2  # of the strategy X = (1, x; x, 1): the least (3 − 2x)/(1 − x²)
    best = single_participation_bounds(PrefixSums(2), tolerance=1e-13)
    assert best.lower_bound <= mp.sqrt((3 - 2 * x) / (1 - x * x) / 2) <= best.value < best.lower_bound * (1 + 1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_lower_bound_is_the_dual_value_rounded_down(objective):
    best = single_participation_bounds(of(PrefixSums(12), objective), max_iterations=1)
    exact = mp.sqrt(dual_value(PrefixSums(12), *best.arrays))
    assert best.lower_bound <= exact < best.lower_bound * (1 + 1e-13)
    assert not best.lower_bound * (1 + 1e-13) <= exact  # the statement, slightly stronger, is false
    dense = single_participation_bounds(of(MatrixWorkload(PrefixSums(12).matrix()), objective), max_iterations=1)
    assert dense.lower_bound <= exact < dense.lower_bound * (1 + 1e-13)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_structured_and_dense_ways_agree(objective):
    fast, one = strategy_of(of(PrefixSums(40), objective))
    slow, other = strategy_of(of(MatrixWorkload(PrefixSums(40).matrix()), objective))
    assert max(fast.lower_bound, slow.lower_bound) <= min(fast.value, slow.value)
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    "workload", [PrefixSums(30), MomentumSGD(30, momentum=0.9, weight_decay=0.01)], ids=lambda w: type(w).__name__
)
def test_the_strategy_has_the_value_and_is_causal(workload, objective):
    best, strategy = strategy_of(of(workload, objective), max_iterations=60)
    assert np.array_equal(strategy, np.tril(strategy))
    assert error_of(workload, strategy, objective) == pytest.approx(
        best.value, rel=1e-11 if objective == "mean" else 1e-3
    )
    assert np.linalg.norm(strategy, axis=0).max() == pytest.approx(1, abs=1e-12)


@given(workloads(), st.sampled_from(OBJECTIVES), st.integers(0, 2**32 - 1))
def test_no_strategy_is_below_the_lower_bound(workload, objective, seed):
    matrix = workload.matrix()
    assume(matrix.shape[0] >= workload.steps and np.linalg.cond(matrix) < 1e8)
    best = single_participation_bounds(of(workload, objective), max_iterations=30)
    strategy = random_strategy(np.random.default_rng(seed), workload.steps)
    assert best.lower_bound <= error_of(workload, strategy, objective) * (1 + 1e-9)
    assert best.lower_bound <= best.value


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_against_a_semidefinite_program(objective):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(6, 4))
    x, z = cvxpy.Variable((4, 4), symmetric=True), cvxpy.Variable((6, 6), symmetric=True)
    least = cvxpy.trace(z) / 6 if objective == "mean" else cvxpy.max(cvxpy.diag(z))
    problem = cvxpy.Problem(cvxpy.Minimize(least), [cvxpy.bmat([[z, a], [a.T, x]]) >> 0, cvxpy.diag(x) <= 1])
    exact = math.sqrt(problem.solve(solver="CLARABEL"))
    best = single_participation_bounds(of(MatrixWorkload(a), objective))
    assert best.lower_bound == pytest.approx(exact, rel=2e-6)
    assert best.value == pytest.approx(exact, rel=2e-6)


@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 2**32 - 1), st.floats(0, 2))
def test_nuclear_norm_for_any_second_matrix(columns, more, seed, distance):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(columns + more, columns))
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    bound = nuclear_norm_below(matrix, 0.0, left @ right + distance * rng.normal(size=matrix.shape))
    assert bound <= math.fsum(values) * (1 + 1e-13)
    assert nuclear_norm_below(matrix, 0.0, 2 * left @ right) <= math.fsum(values)
    assert np.sum(2 * left @ right * matrix) > math.fsum(values)  # the mutant: without division by the norm of Y
    tight = nuclear_norm_below(matrix, 0.0, left @ right)
    assert tight > math.fsum(values) * (1 - 1e-13)
    assert nuclear_norm_below(matrix, 1e-3, left @ right) <= tight - 1e-3 * np.abs(left @ right).sum() * 0.999


def test_learning_weights():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(9, 9))
    weights = factor.T @ factor
    workload = workload_of_weights(weights)
    noise = np.linalg.inv(random_strategy(rng, 9))
    mean = np.square(workload.matrix() @ noise).sum() / 9
    assert mean == pytest.approx(np.trace(weights @ noise @ noise.T), rel=1e-9)
    best = single_participation_bounds(workload)
    assert best.gap < 1e-8
    singular = single_participation_bounds(workload_of_weights(np.outer(factor[0], factor[0])), max_iterations=20)
    assert 0 < singular.lower_bound <= singular.value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": MatrixWorkload(np.ones((3, 3)))}, "independent columns"),
        ({"objective": MatrixWorkload(np.ones((1, 3)))}, "independent columns"),
        ({"objective": MatrixWorkload(np.ones((1, 5000)))}, "steps must be at most 4096"),
        ({"objective": PrefixSums(3), "tolerance": 0.0}, "tolerance"),
        ({"objective": PrefixSums(3), "max_iterations": 0}, "max_iterations"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        single_participation_bounds(**arguments)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "square"),
        ([[1.0, 2.0], [0.0, 1.0]], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "semidefinite"),
        ([[0.0]], "not 0"),
        ([[np.nan]], "weights"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        workload_of_weights(weights)


def test_workload_is_checked():
    with pytest.raises(TypeError, match="objective"):
        single_participation_bounds(3)
    with pytest.raises(ValueError, match="at most 4096"):
        single_participation_strategy(PrefixSums(5000), single_participation_bounds(PrefixSums(5000), max_iterations=1))


@given(workloads(kinds=("prefix",)), product_noises())
def test_no_toeplitz_mechanism_is_below_the_lower_bound(workload, noise):
    mechanism, participation = noise, Participation.single(workload.steps)
    for objective, error in (("mean", mechanism.mean_error), ("max", mechanism.max_error)):
        best = single_participation_bounds(of(workload, objective), tolerance=1e-6)
        assert best.lower_bound <= error(participation) * (1 + 1e-12)


@pytest.mark.slow
@given(workloads(kinds=("momentum",)), st.integers(0, 2**32 - 1))
def test_structured_and_dense_ways_agree_for_momentum(workload, seed):
    v = np.exp(np.random.default_rng(seed).normal(size=workload.steps))
    full = roots_of_matrix(workload.matrix(), v, np.full(workload.steps, 1 / workload.steps))
    banded = BandedInverse.of(workload.inverse_bands()).roots(v)
    condition = np.linalg.cond(workload.matrix() * np.sqrt(v))
    np.testing.assert_allclose(banded.steps, full.steps, rtol=1e-13 * condition**2)


def test_elimination_and_singular_values_find_the_same_optimum(monkeypatch):
    workload = MomentumSGD(80, momentum=0.9, learning_rates=np.linspace(1.0, 0.1, 80))
    found = []
    for most in (10, 1024):
        monkeypatch.setattr(single_participation, "LARGEST_DECOMPOSED", most)
        found.append(single_participation_bounds(workload, tolerance=1e-8))
    assert found[0].rigorous
    assert found[0].gap <= 2e-8
    assert max(one.lower_bound for one in found) <= min(one.value for one in found) * (1 + 1e-10)


def test_long_runs_with_momentum():
    """Between the optima of prefix sums at the learning rates 1 and 1/(1 − μ), which its iterates tend to."""
    best = single_participation_bounds(MomentumSGD(6000, momentum=0.5), tolerance=1e-6)
    sums = single_participation_bounds(PrefixSums(6000), tolerance=1e-6)
    assert not best.rigorous
    assert best.gap <= 1e-6
    assert sums.value < best.value < 2 * sums.value


@pytest.mark.parametrize("weights", ["last", "second half"])
def test_the_optimum_for_learning_is_below_every_other_noise(weights):
    problem = LinearRegression([1.0, 0.4, 0.1], learning_rate=0.1)
    objective, participation = LearningObjective(problem, 40, weights=weights), Participation.single(40)
    workload = workload_of_weights(objective.weight_matrix())
    best = single_participation_bounds(workload, max_iterations=300)
    assert best.lower_bound <= best.value < best.lower_bound * (1 + 1e-2)
    mechanism = single_participation_strategy(workload, best)
    assert mechanism.squared_error(objective) == pytest.approx(best.value**2, rel=1e-6)
    prefix = single_participation_strategy(PrefixSums(40), single_participation_bounds(PrefixSums(40)))
    for other in (prefix, NuFTRL(0.1), DPSGD()):
        assert objective.privacy_error(mechanism, participation) < objective.privacy_error(other, participation)
        power = other.squared_error(objective) * other.sensitivity(participation) ** 2
        assert best.lower_bound**2 <= power * (1 + 1e-9)
