"""Floors of long runs: never above an optimum, close to it, and wrong if their conditions are dropped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.certified import long_floor
from corrnoise.solvers.certified.blocks import joined
from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.solvers.certified.floor import floor
from corrnoise.solvers.certified.long_floor import PolynomialBlocks, long_run_lower_bound, stacked
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.objectives.workloads import MomentumSGD, PrefixSums, workload_of_weights
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.recursion import Recursion


def cool_down(steps):
    return MomentumSGD(steps, momentum=0.9, learning_rates=np.minimum(1, 4 * (steps - np.arange(steps)) / steps))


def learning(steps, weights="second half"):
    eigenvalues = 1 / np.arange(1, 5)
    return LearningObjective(LinearRegression(eigenvalues, learning_rate=0.1), steps, weights=weights)


RUNS = {"prefix": PrefixSums, "cool-down": cool_down, "learning": learning, "last": lambda n: learning(n, "last")}


SMALL = {
    "SHORT_STEPS": 8,
    "LEAF_STEPS": (4, 3),
    "JOINED_BLOCKS": 3,
    "MAX_DEGREE": 2,
    "EXACT_STEPS": 8,
    "MOST_EPOCHS": 8,
    "WEIGHT_SHARE": 0.3,
}


@pytest.fixture
def small(monkeypatch):
    """Short runs, few polynomials and small blocks, so that small runs take all levels."""
    for name, value in {
        **SMALL,
        "SHORT_STEPS": 12,
        "LEAF_STEPS": (4, 4),
        "MOST_EPOCHS": 12,
        "WEIGHT_SHARE": 1e-3,
    }.items():
        monkeypatch.setattr(long_floor, name, value)


def random_run(steps, groups, states, seed):
    rng = np.random.default_rng(seed)
    transition = rng.normal(size=(steps, groups, states, states)) / states**0.5
    return Recursion(transition, rng.normal(size=(steps, groups, states)), rng.uniform(size=(steps, groups)) ** 2)


def steady_run(steps, groups, states, seed):
    """The same step everywhere, and weights that grow or decay, and may begin late."""
    rng = np.random.default_rng(seed)
    rates, first = rng.normal(scale=0.2, size=groups), rng.integers(0, steps, groups)
    after = np.maximum(np.arange(steps)[:, np.newaxis] - first, -1)
    weights = np.where(after < 0, rng.choice([0.0, 0.1], groups), np.exp(after * rates))
    transition = rng.normal(size=(1, groups, states, states)) / states**0.5
    return Recursion(transition, rng.normal(size=(1, groups, states)), weights)


def optimum(gram, epochs):
    return fixed_epochs_bounds(workload_of_weights(gram), epochs, tolerance=1e-7).value ** 2


@given(st.integers(1, 30), st.integers(1, 3), st.integers(1, 3), st.integers(0, 10**6))
def test_blocks_hold_the_gram_matrix_of_a_run(steps, groups, states, seed):
    run = random_run(steps, groups, states, seed)
    cut = steps // 2
    blocks = [PolynomialBlocks(run, 64).of(a, e) for a, e in ((0, cut), (cut, steps)) if e > a]
    most = max(block.inputs.shape[2] for block in blocks)
    gram = joined(*stacked(blocks, most), np.zeros((most * len(blocks), 0)), False)[0]
    used = np.concatenate([i * most + np.arange(block.inputs.shape[2]) for i, block in enumerate(blocks)])
    values = np.linalg.eigvalsh(gram[np.ix_(used, used)])  # the polynomials are an orthonormal basis of all steps
    np.testing.assert_allclose(values, np.linalg.eigvalsh(run.gram()), rtol=1e-9, atol=1e-9 * values[-1])


@pytest.mark.parametrize("made", [random_run, steady_run])
@given(st.integers(2, 40), st.integers(1, 41), st.integers(1, 2), st.integers(1, 2), st.integers(0, 10**6))
def test_random_runs_have_no_strategy_below(made, steps, period, groups, states, seed):
    run = made(steps, groups, states, seed)
    epochs = Participation.fixed_epochs(steps, period=min(period, steps))
    best = optimum(run.gram(), epochs)
    assert 0 < long_run_lower_bound(run, epochs) <= best
    with pytest.MonkeyPatch().context() as context:
        for name, value in SMALL.items():
            context.setattr(long_floor, name, value)
        assert 0 < long_run_lower_bound(run, epochs) <= best


def test_blocks_that_are_alike_are_those_of_smaller_weights(small, monkeypatch):
    """The first mutant keeps the weights of an earlier block, the second takes the largest proportion."""
    weights = np.exp(np.outer(np.arange(96.0), [-0.1, -0.105]))
    run = Recursion(np.array([0.9, 0.3]).reshape(1, 2, 1, 1), np.ones((1, 2, 1)), weights)
    once = Participation.single(96)
    exact = long_run_lower_bound(run, once)
    share = long_floor.share_of
    monkeypatch.setattr(long_floor, "WEIGHT_SHARE", 0.1)
    assert 0.9 * exact < long_run_lower_bound(run, once) < exact
    monkeypatch.setattr(long_floor, "share_of", lambda weights, others: float(share(weights, others) > 0))
    assert long_run_lower_bound(run, once) > 1.4 * exact
    monkeypatch.setattr(long_floor, "share_of", lambda weights, others: float((weights / others).max()))
    assert long_run_lower_bound(run, once) > exact
    assert share(np.array([[1.0, 1.0]]), np.array([[1.0, 0.0]])) == 0
    assert share(np.array([[0.5, 0.0]]), np.array([[1.0, 0.0]])) == 0.5
    assert share(np.zeros((1, 2)), np.zeros((1, 2))) == 1


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("period", [96, 24, 5, 1])
def test_small_blocks_come_close(name, period, small):
    what = RUNS[name](96)
    epochs = Participation.fixed_epochs(96, period=period)
    best = optimum(what.weight_matrix(), epochs)
    ratio = (long_run_lower_bound(what.recursion(), epochs) / best) ** 0.5
    assert 0.6 < ratio <= 1


def test_what_a_block_causes_later_must_be_taken_off(small, monkeypatch):
    """The mutant counts responses twice: those of a block and those of the state at its start."""
    run = PrefixSums(96).recursion()
    epochs = Participation.fixed_epochs(96, epochs=4)
    best = optimum(run.gram(), epochs)
    assert long_run_lower_bound(run, epochs) < best
    monkeypatch.setattr(long_floor, "joined", lambda *parts: joined(*parts[:-1], False))
    assert long_run_lower_bound(run, epochs) > best


def test_what_polynomials_cause_must_be_taken_off(small, monkeypatch):
    """The mutant takes all of |A|_* in a block for T, polynomials included."""
    run = PrefixSums(96).recursion()
    once = Participation.single(96)
    monkeypatch.setattr(long_floor, "details_of", lambda gram, *_: np.sqrt(np.abs(np.linalg.eigvalsh(gram))).sum())
    assert long_run_lower_bound(run, once) > optimum(run.gram(), once)


@pytest.mark.parametrize(
    ("steps", "count", "known"),  # specification of finite runs: optima of any form
    [(512, 4, 5.62671149), (1024, 1, 2.955451992), (1024, 16, 14.66356193), (10**4, 4, 7.448458), (10**5, 4, 8.88296)],
)
def test_prefix_sums_of_long_runs(steps, count, known):
    epochs = Participation.fixed_epochs(steps, period=-(-steps // count))
    found = long_run_lower_bound(PrefixSums(steps).recursion(), epochs) ** 0.5
    assert 0.98 * known < found < known * (1 + 1e-6)


@pytest.mark.parametrize("merged", [1, 4])
def test_every_step_of_full_batches(merged, monkeypatch):
    """At b = 1 columns are orthogonal, and the optimum is the square of the sum of the roots of the diagonal of W."""
    monkeypatch.setattr(long_floor, "MOST_EPOCHS", 250 // merged)
    diagonal = (250 - np.arange(250)) / 250
    found = long_run_lower_bound(PrefixSums(250).recursion(), Participation.fixed_epochs(250, period=1))
    assert 0.98 < found / np.sqrt(diagonal).sum() ** 2 <= 1


def test_merged_epochs_may_end_early():
    """Two steps count at the end of 771 epochs, which are merged in pairs: noise on them alone has the error 2."""
    weights = np.zeros((1541, 1))
    weights[-2:] = 1
    run = Recursion(np.zeros((1, 1, 1, 1)), np.ones((1, 1, 1)), weights)
    assert 0.9 < long_run_lower_bound(run, Participation.fixed_epochs(1541, period=2)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("steps", [1000, 2049])
def test_floors_exist_and_are_below_noise(name, steps):
    objective = PrefixSums(steps) if name == "prefix" else RUNS[name](min(steps, 4096))
    who = Participation.min_sep(objective.steps, 500, count=2)
    squared, _, _ = floor(objective, who)
    noise = NuFTRL(1 / objective.steps)
    assert 0 < squared < noise.sensitivity_upper_bound(who) ** 2 * noise.squared_error(objective)
