"""Workloads, against the recursions that they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.objectives.workloads import SGD, MatrixWorkload, MomentumAverage, MomentumSGD, PrefixSums
from tests.strategies import workloads


def iterates(work, gradients, mutant=0.0):
    """−θ_1, …, −θ_n by the recursion of SGD."""
    rates = np.ones(work.steps) if work.learning_rates is None else work.learning_rates
    theta = momentum = 0.0
    result = []
    for rate, gradient in zip(rates, gradients, strict=True):
        momentum = work.momentum * (1 + mutant) * momentum + gradient
        theta = (1 - rate * work.weight_decay) * theta - rate * momentum
        result.append(-theta)
    return np.array(result)


@given(workloads(), st.integers(0, 2**32 - 1))
def test_the_views_of_a_workload_agree(work, seed):
    rng = np.random.default_rng(seed)
    matrix = work.matrix()
    x, y = rng.normal(size=(work.steps, 2, 3)), rng.normal(size=(matrix.shape[0], 2, 3))
    scale = np.abs(matrix).max() + 1e-300
    np.testing.assert_allclose(work.apply(x), np.tensordot(matrix, x, 1), rtol=1e-10, atol=1e-12 * scale * work.steps)
    np.testing.assert_allclose(
        work.apply_transposed(y), np.tensordot(matrix.T, y, 1), rtol=1e-10, atol=1e-12 * scale * work.steps
    )
    np.testing.assert_allclose(work.weight_matrix(), matrix.T @ matrix / len(matrix), rtol=1e-12, atol=1e-15)
    bands, first = work.inverse_bands(), work.column()
    if bands is not None:
        inverse = sum(np.diag(band[: work.steps - i], -i) for i, band in enumerate(bands))
        np.testing.assert_allclose(inverse @ matrix, np.eye(work.steps), atol=1e-9)
        assert all(not band[work.steps - i :].any() for i, band in enumerate(bands))
    if first is not None:
        toeplitz = sum(np.diag(np.full(work.steps - i, value), -i) for i, value in enumerate(first))
        np.testing.assert_allclose(matrix, toeplitz, rtol=1e-10, atol=1e-12 * scale)


@given(workloads(kinds=("momentum",)), st.integers(0, 2**32 - 1))
def test_momentum_is_the_recursion(work, seed):
    gradients = np.random.default_rng(seed).normal(size=work.steps)
    exact = iterates(work, gradients)
    tolerance = 1e-11 * np.abs(work.matrix()).sum(axis=1).max() * np.abs(gradients).max()
    np.testing.assert_allclose(work.apply(gradients), exact, atol=tolerance)
    if work.momentum > 0.1 and work.steps > 1:
        assert np.abs(work.apply(gradients) - iterates(work, gradients, mutant=1e-6)).max() > tolerance


@given(workloads(kinds=("average",)), st.integers(0, 2**32 - 1))
def test_the_average_is_the_recursion(work, seed):
    gradients = np.random.default_rng(seed).normal(size=work.steps)
    for mutant in (0.0, 1e-6):
        m = 0.0
        exact = [m := (1 - work.alpha * (1 + mutant)) * m + work.alpha * (1 + mutant) * g for g in gradients]
        wrong = np.abs(work.apply(gradients) - exact).max() > 1e-12 * np.abs(gradients).max()
        assert wrong == (mutant > 0)


def test_prefix_sums_are_momentum_without_momentum():
    np.testing.assert_array_equal(PrefixSums(9).matrix(), MomentumSGD(9, momentum=0.0).matrix())
    assert PrefixSums(1).matrix().tolist() == MomentumSGD(1, momentum=0.5).matrix().tolist() == [[1.0]]
    assert MomentumSGD(2, momentum=0.5).matrix().tolist() == [[1.0, 0.0], [1.5, 1.0]]


def test_refusals():
    with pytest.raises(ValueError, match=r"learning_rates must lie in \(0, 1e100\], got 0.0"):
        MomentumSGD(3, momentum=0.9, learning_rates=[1.0, 1.0, 0.0])
    with pytest.raises(ValueError, match=r"learning_rates must have shape \(3,\)"):
        MomentumSGD(3, momentum=0.9, learning_rates=[1.0, 1.0])
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        MomentumSGD(3, momentum=1.0)
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, 1\]"):
        MomentumAverage(3, alpha=0.0)
    with pytest.raises(ValueError, match=r"weight_decay must lie in \[0, 0.5\]"):
        MomentumSGD(2, momentum=0.0, weight_decay=0.6, learning_rates=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"matrix must have shape \(rows, steps\)"):
        MatrixWorkload([1.0, 2.0])
    with pytest.raises(ValueError, match=r"values must have shape \(3, …\)"):
        PrefixSums(3).apply(np.ones(4))


# -- an optimiser without a length -------------------------------------------------------------------------------------


def test_optimisers_have_the_workload_of_every_run():
    assert SGD().workload(8) == SGD(batch_size=16).workload(8) == PrefixSums(8)
    rates = np.array([1, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    assert SGD(cool_down=0.5).learning_rates_of(8) == pytest.approx(rates)
    assert SGD().learning_rates_of(8) is None
    given = SGD(momentum=0.5, learning_rates=rates)
    assert given.workload(8) == SGD(momentum=0.5, cool_down=0.5).workload(8)
    assert given.workload(8) == MomentumSGD(8, momentum=0.5, learning_rates=rates)
    assert SGD(weight_decay=0.1).workload(8) == MomentumSGD(8, momentum=0.0, weight_decay=0.1)
    assert SGD(cool_down=0.5).workload(4) != SGD(cool_down=0.5).workload(8)
    assert eval(repr(SGD(momentum=0.9, weight_decay=0.1, batch_size=3))) == SGD(0.9, 0.1, batch_size=3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        ({"momentum": float("nan")}, "momentum must lie in"),
        ({"weight_decay": -0.1}, r"weight_decay must lie in \[0, 1.0\]"),
        ({"weight_decay": 2.0}, r"weight_decay must lie in \[0, 1.0\]"),
        ({"weight_decay": 0.6, "learning_rates": [1.0, 2.0]}, r"weight_decay must lie in \[0, 0.5\]"),
        ({"learning_rates": [0.0] * 8}, r"learning_rates must lie in \(0, 1e100\]"),
        ({"learning_rates": [float("nan")] * 8}, r"learning_rates must lie in \(0, 1e100\]"),
        ({"learning_rates": 0.1}, "learning_rates must be a non-empty vector"),
        ({"cool_down": 0.0}, r"cool_down must lie in \(0, 1\], got 0.0"),
        ({"cool_down": 0.5, "learning_rates": [1.0] * 8}, "learning_rates must not come with cool_down"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
    ],
)
def test_bad_optimisers_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        SGD(**given)


def test_schedules_belong_to_runs_of_their_length():
    with pytest.raises(ValueError, match=r"learning_rates must have shape \(8,\)"):
        SGD(learning_rates=[1.0, 0.5]).workload(8)
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        SGD().workload(0)
