"""The optimum of fixed epochs: known values, proved bounds, and agreement with a semidefinite program."""

import math

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.certified.fixed_epochs import StepRing, fixed_epochs_bounds, fixed_epochs_strategy, places_of
from corrnoise.solvers.certified.selected_inverses import ring_root
from corrnoise.solvers.certified.single_participation import single_participation_bounds
from corrnoise.theory.numerics.inverse_square_root import PoleSum
from corrnoise.theory.objectives.workloads import MatrixWorkload, MomentumSGD, PrefixSums, workload_of_weights
from corrnoise.theory.participation import Participation


def epochs_of(steps, min_sep):
    return Participation.fixed_epochs(steps, period=min_sep)


def error_of(workload, strategy, participation):
    """Root mean squared error times an upper bound of the sensitivity, by definition."""
    squared = np.square(np.linalg.solve(strategy.T, workload.matrix().T)).sum(axis=0)
    gram = np.abs(strategy.T @ strategy)
    sensitivity = max(gram[np.ix_(cls, cls)].sum() for cls in participation.residue_classes())
    return math.sqrt(sensitivity * squared.mean())


@given(st.integers(1, 14), st.integers(1, 15), st.integers(0, 2**32 - 1))
def test_blocks_of_the_inverse_against_dense_matrices(steps, min_sep, seed):
    participation = epochs_of(steps, min_sep)
    classes = participation.residue_classes()
    rng = np.random.default_rng(seed)
    blocks = np.zeros((len(classes), len(classes[0]), len(classes[0])))
    weights = np.zeros((steps, steps))
    for r, cls in enumerate(classes):
        factor = rng.normal(size=(cls.size, cls.size))
        blocks[r, : cls.size, : cls.size] = weights[np.ix_(cls, cls)] = factor @ factor.T
    sums = PoleSum(rng.uniform(0.01, 10, 3), rng.uniform(0.1, 2, 3), 0.0)
    inverse = np.linalg.inv(np.tril(np.ones((steps, steps))))
    exact = sum(
        w * np.linalg.inv(inverse @ inverse.T + c * weights) for c, w in zip(sums.poles, sums.weights, strict=True)
    )
    found = ring_root(*StepRing.of(places_of(participation), steps), blocks, sums.poles, sums.weights)
    for r, cls in enumerate(classes):
        np.testing.assert_allclose(found[r, : cls.size, : cls.size], exact[np.ix_(cls, cls)], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("steps", "epochs", "value"),
    [(1, 1, 1.0), (64, 4, 4.407853385), (256, 4, 5.211944649), (512, 4, 5.62671149), (256, 1, 2.524414416)],
)
def test_prefix_sums(steps, epochs, value):
    best = fixed_epochs_bounds(PrefixSums(steps), Participation.fixed_epochs(steps, epochs=epochs))
    assert best.rigorous
    assert best.lower_bound <= best.value <= best.lower_bound * (1 + 1e-6)
    assert best.lower_bound < value + 1e-8
    assert best.value > value - 1e-8


@pytest.mark.parametrize(("steps", "min_sep"), [(20, 5), (19, 5), (16, 5), (9, 1), (9, 12)])
def test_structured_and_dense_ways_agree(steps, min_sep):
    participation = epochs_of(steps, min_sep)
    fast = fixed_epochs_bounds(PrefixSums(steps), participation, tolerance=1e-8)
    slow = fixed_epochs_bounds(MatrixWorkload(PrefixSums(steps).matrix()), participation, tolerance=1e-8)
    assert max(fast.lower_bound, slow.lower_bound) <= min(fast.value, slow.value) * (1 + 1e-14)
    assert max(fast.gap, slow.gap) <= 1e-8


@pytest.mark.parametrize("workload", [PrefixSums(18), MomentumSGD(18, momentum=0.7)], ids=lambda w: type(w).__name__)
def test_the_strategy_has_the_value_and_orthogonal_columns(workload):
    participation = Participation.fixed_epochs(18, epochs=3)
    best = fixed_epochs_bounds(workload, participation, tolerance=1e-10)
    strategy = fixed_epochs_strategy(workload, participation, best).strategy()
    assert np.array_equal(strategy, np.tril(strategy))
    assert error_of(workload, strategy, participation) == pytest.approx(best.value, rel=1e-9)
    gram = strategy.T @ strategy
    for cls in participation.residue_classes():
        block = gram[np.ix_(cls, cls)]
        assert np.abs(block - np.diag(np.diagonal(block))).max() < 1e-6


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_no_strategy_is_below_the_lower_bound(steps, min_sep, seed):
    rng = np.random.default_rng(seed)
    participation = epochs_of(steps, min_sep)
    workload = PrefixSums(steps) if seed % 2 else MatrixWorkload(np.eye(steps) + 0.3 * rng.normal(size=(steps, steps)))
    best = fixed_epochs_bounds(workload, participation, max_iterations=10)
    own = fixed_epochs_strategy(workload, participation, best).strategy()
    strategy = np.tril(rng.uniform(-0.5, 1, (steps, steps))) + np.eye(steps)
    assert best.lower_bound <= error_of(workload, strategy, participation)
    assert best.lower_bound <= best.value * (1 + 1e-13)
    assert best.lower_bound <= error_of(workload, own, participation) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_against_a_semidefinite_program_without_orthogonality(seed):
    """The general problem with two epochs, in which all g in the unit ball give |X_ii| + |X_jj| + 2 |X_ij|."""
    steps, participation = 6, Participation.fixed_epochs(6, epochs=2)
    a = np.random.default_rng(seed).normal(size=(steps, steps))
    x, z = (cvxpy.Variable((steps, steps), symmetric=True) for _ in range(2))
    within = [
        x[i, i] + x[j, j] + 2 * cvxpy.abs(x[i, j]) <= 1 for i, j in (cls for cls in participation.residue_classes())
    ]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(z)), [cvxpy.bmat([[z, a], [a.T, x]]) >> 0, *within])
    exact = math.sqrt(problem.solve(solver="CLARABEL") / steps)
    best = fixed_epochs_bounds(MatrixWorkload(a), participation)
    assert best.lower_bound == pytest.approx(exact, rel=3e-6)
    assert best.value == pytest.approx(exact, rel=3e-6)


def test_one_epoch_is_single_participation():
    single = single_participation_bounds(PrefixSums(30))
    for who in (Participation.fixed_epochs(30, epochs=1), Participation.single(30)):
        epoch = fixed_epochs_bounds(PrefixSums(30), who, tolerance=1e-9)
        assert epoch.value == pytest.approx(single.value, rel=3e-9)
        assert fixed_epochs_strategy(PrefixSums(30), who, epoch).sensitivity(who) == pytest.approx(1)


def test_learning_weights():
    decay = 0.8 ** np.abs(np.arange(12)[:, None] - np.arange(12))
    workload, participation = workload_of_weights(decay), Participation.fixed_epochs(12, epochs=3)
    best = fixed_epochs_bounds(workload, participation)
    assert best.gap <= 1e-6
    noise = np.linalg.inv(fixed_epochs_strategy(workload, participation, best).strategy())
    assert np.trace(decay @ noise @ noise.T) == pytest.approx(best.value**2, rel=1e-5)


@pytest.mark.parametrize(
    ("workload", "participation", "message"),
    [
        (PrefixSums(6), Participation.min_sep(6, 3, 2), "fixed epochs"),
        (PrefixSums(6), Participation.fixed_epochs(8, epochs=2), "6 steps"),
        (MatrixWorkload(np.ones((6, 6))), Participation.fixed_epochs(6, epochs=2), "independent"),
    ],
)
def test_bad_input(workload, participation, message):
    with pytest.raises(ValueError, match=message):
        fixed_epochs_bounds(workload, participation)


def test_fixed_epochs_only():
    """The optimum for fixed epochs is not private enough for min-sep, and the mechanism says so."""
    participation = Participation.fixed_epochs(16, epochs=4)
    best = fixed_epochs_bounds(PrefixSums(16), participation, tolerance=1e-8)
    mechanism = fixed_epochs_strategy(PrefixSums(16), participation, best)
    assert mechanism.sensitivity_upper_bound(participation) == pytest.approx(1, abs=1e-6)
    assert mechanism.mean_error(participation) == pytest.approx(best.value, rel=1e-6)
    spread = Participation.min_sep(16, 4, 4)
    assert mechanism.bracket(spread).lower ** 2 == pytest.approx(1.1734, abs=1e-3)
