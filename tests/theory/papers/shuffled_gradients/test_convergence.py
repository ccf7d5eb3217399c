"""Convergence bounds of shuffled gradients: reference values, and orders by enumeration.  The ledger judges them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.papers.shuffled_gradients.convergence import ConvergenceConstants
from corrnoise.theory.papers.shuffled_gradients.dissimilarity import (
    all_directions,
    reshuffled_dissimilarity,
    worst_order_dissimilarity_bounds,
)


def constants(**changes):
    """A run of two epochs of five records in two dimensions, with unit constants, but for the ``changes``."""
    unit = dict.fromkeys(("distance", "deviation", "smoothness", "largest_smoothness"), 1.0)
    size = {"samples": 5, "epochs": 2, "dimension": 2, "learning_rate": 1e-3, "noise": 2.0}
    return ConvergenceConstants(**{**unit, **size, **changes})


def test_reference_values():
    run = constants(samples=100, epochs=50, dimension=10, learning_rate=1e-4, noise=5.0)
    corrected, printed = (run.corollary_upper_bound(printed=p) for p in (False, True))
    assert corrected.initialisation == pytest.approx(2.0)
    assert corrected.shuffling == pytest.approx(0.004912023005, rel=1e-9)
    assert corrected.noise == pytest.approx(0.257881207785, rel=1e-10)
    assert printed.noise == pytest.approx(0.014736069016, rel=1e-9)
    public = constants(
        samples=100,
        epochs=20,
        dimension=10,
        learning_rate=1e-4,
        total_dissimilarity=5,
        partial_dissimilarity=10,
        beta=0.5,
    )
    assert public.excess_risk_upper_bound().total == pytest.approx(5.052209041418937, rel=1e-12)
    assert public.excess_risk_upper_bound(printed=True).total == pytest.approx(5.023714943334359, rel=1e-12)
    assert constants(
        samples=1000, epochs=50, dimension=1, learning_rate=1e-6, noise=1.0
    ).largest_learning_rate() == pytest.approx(7.134110112853776e-05, rel=1e-12)


def test_dissimilarity_is_an_average_over_all_permutations():
    from itertools import permutations

    rng = np.random.default_rng(1)
    private, public = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))
    sums = np.array(
        [
            [np.sum(np.square(np.cumsum(private[list(order)][2:] - public, axis=0)), axis=1)]
            for order in permutations(range(5))
        ]
    )
    expected = sums.mean(axis=0)[0]
    assert reshuffled_dissimilarity(private, public) == pytest.approx(expected, rel=1e-12)
    assert reshuffled_dissimilarity(private, public * (1 + 1e-6)) != pytest.approx(expected, rel=1e-9)
    lower, upper = worst_order_dissimilarity_bounds(private, public)
    largest = math.sqrt(sums[:, 0, -1].max())
    assert lower == upper == pytest.approx(largest, rel=1e-12)  # in two dimensions


@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 10**6), st.data())
def test_worst_orders_by_enumeration(n, d, seed, data):
    """Exact in one and two dimensions, also with ties; enclosed in more."""
    from itertools import combinations

    m = data.draw(st.integers(1, n))
    rng = np.random.default_rng(seed)
    private, public = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    if seed % 2:
        private = np.round(private)
    sums = [public.sum(axis=0) - private[list(chosen)].sum(axis=0) for chosen in combinations(range(n), m)]
    largest = max(np.linalg.norm(s) for s in sums)
    lower, upper = worst_order_dissimilarity_bounds(private, public)
    assert lower <= largest * (1 + 1e-12)
    assert largest <= upper * (1 + 1e-12)
    if d <= 2 or m == n:
        assert lower == upper


@pytest.mark.parametrize("seed", range(4))
def test_no_order_in_the_plane_is_missed(seed):
    """Against the best subsets in 20 000 directions; the exact one is among them, and no other is better."""
    rng = np.random.default_rng(seed)
    private, public = rng.normal(size=(60, 2)), rng.normal(size=(25, 2))
    angles = np.linspace(0, 2 * np.pi, 20_000)
    chosen = np.argpartition(private @ [np.cos(angles), np.sin(angles)], 24, axis=0)[:25]
    dense = np.linalg.norm(public.sum(axis=0) - private[chosen].sum(axis=0), axis=1).max()
    assert worst_order_dissimilarity_bounds(private, public) == pytest.approx((dense, dense), rel=1e-12)


def test_all_public_records_leave_no_choice():
    private, public = np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]])
    assert worst_order_dissimilarity_bounds(private, public) == (0.0, 0.0)
    assert worst_order_dissimilarity_bounds(private, public[:1])[0] == 1.0  # more than with all of them


@pytest.mark.parametrize("epochs", [1, 2, 7, 300])
def test_epochs_that_are_alike_give_the_harmonic_sum(epochs):
    """Against the same terms epoch by epoch, whose largest sum is the last."""
    common = {"total_dissimilarity": 0.5, "partial_dissimilarity": 2.0, "beta": 0.1}
    alike = constants(epochs=epochs, smoothness=0.5, **common)
    listed = constants(epochs=epochs, noise=[2.0] * epochs, smoothness=0.5, **common)
    for printed in (False, True):
        one, other = (run.excess_risk_upper_bound(printed=printed) for run in (alike, listed))
        assert tuple(one.arguments().values()) == pytest.approx(tuple(other.arguments().values()), rel=1e-13)
        noise, dissimilarity = alike.epoch_terms(printed=printed)
        harmonic = sum(1 / k for k in range(1, epochs + 1))
        assert (one.noise, one.dissimilarity) == pytest.approx((2 * harmonic * noise, 2 * harmonic * dissimilarity))


WINDOWS = constants(epochs=8, noise=[2.0] * 3 + [0.0] * 5, total_dissimilarity=[0.0] * 3 + [1.5] * 5, beta=1)


def test_corollaries_put_each_part_in_its_window():
    """Corollary F.1 for Priv-Pub, S = 3 of K = 8: 1 + log S for the noise, 1 + log(K − S) for the dissimilarity."""
    eta, n, d = 1e-3, 5, 2
    bound, printed = WINDOWS.corollary_upper_bound(), WINDOWS.corollary_upper_bound(printed=True)
    assert bound.noise == pytest.approx(2 * (1 + math.log(3)) * (eta + 5 * eta**2 * n) * d * 4, rel=1e-12)
    assert printed.noise == pytest.approx(2 * (1 + math.log(3)) * 6 * eta**2 * n * d * 4, rel=1e-12)
    assert bound.dissimilarity == printed.dissimilarity
    assert bound.dissimilarity == pytest.approx(2 * (1 + math.log(5)) * 2.25 / (2 * n**2), rel=1e-12)
    assert bound.total >= WINDOWS.excess_risk_upper_bound().total
    assert constants(epochs=8, noise=0.0).corollary_upper_bound().noise == 0


@given(st.lists(st.floats(0, 5), min_size=1, max_size=8), st.integers(0, 10**6))
def test_corollaries_are_weaker_than_the_theorem(noise, seed):
    rng = np.random.default_rng(seed)
    k = len(noise)
    total = rng.uniform(0, 3, k) * rng.integers(0, 2, k)
    run = constants(samples=3, epochs=k, learning_rate=1e-4, noise=noise, total_dissimilarity=total, beta=0.5)
    theorem, corollary = run.excess_risk_upper_bound(), run.corollary_upper_bound()
    assert theorem.total <= corollary.total * (1 + 1e-12)
    assert corollary.total <= theorem.total * 2 * (1 + math.log(k))


def test_published_bounds_for_other_regularisers():
    """Theorems G.3 and G.7: what they add to the noise, which the corrected theorem does not need."""
    eta, n, d, lg = 1e-3, 10, 3, 1 + 1 / 2
    common = {"samples": n, "dimension": d, "distance": 0.0, "deviation": 0.0}
    plain = constants(**common).excess_risk_upper_bound(printed=True).noise
    lasso = constants(**common, regulariser="lasso", size=0.7)
    ball = constants(**common, regulariser="projection", total_dissimilarity=0.5, diameter=2.0)
    added = lasso.excess_risk_upper_bound(printed=True).noise - plain
    assert added == pytest.approx(2 * lg * 2 * d * 4 * 0.7 / math.sqrt(2 * math.pi), rel=1e-12)
    with pytest.raises(ValueError, match="beta must be positive for the published bound"):
        ball.excess_risk_upper_bound(printed=True)
    ball = constants(**common, regulariser="projection", total_dissimilarity=0.5, beta=0.1)
    printed = ball.excess_risk_upper_bound(printed=True)
    assert printed.noise - plain == pytest.approx(2 * lg * d * 4 / 2, rel=1e-12)
    assert printed.dissimilarity == pytest.approx(2 * lg * (0.25 / (2 * n**2 * 0.1) + 5 * eta**2 * 0.25), rel=1e-12)
    for run in (lasso, ball):
        assert run.excess_risk_upper_bound().noise == constants(**common).excess_risk_upper_bound().noise
    assert ball.largest_learning_rate(printed=True) == pytest.approx(ball.largest_learning_rate() / math.sqrt(2))
    assert ball.largest_learning_rate() == constants(**common).largest_learning_rate()


def test_noise_at_the_end_of_epochs_is_one_nth():
    run = constants(samples=10, dimension=3, distance=0.0, deviation=0.0, end_noise=True)
    assert run.excess_risk_upper_bound().noise == pytest.approx(2 * 1.5 * 1e-3 / 10 * 3 * 4, rel=1e-12)
    assert run.corollary_upper_bound().noise == pytest.approx(2 * (1 + math.log(2)) * 1e-4 * 3 * 4, rel=1e-12)


def test_a_bounded_domain_needs_no_strong_convexity():
    run = constants(
        samples=10, dimension=3, distance=0.0, deviation=0.0, noise=0.0, total_dissimilarity=0.5, diameter=4.0
    )
    assert run.excess_risk_upper_bound().dissimilarity == pytest.approx(2 * 1.5 * 0.5 * 4 / 10, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 1.0}, r"learning_rate must lie in \(0, .*\] for the bound"),
        ({"noise": [1.0, 1.0]}, r"noise must be a scalar or have shape \(3,\)"),
        ({"smoothness": 2.0}, r"smoothness must be at most largest_smoothness, got 2\.0 where that is 1\.0"),
        (
            {"smoothness": [0.5, 4.0, 0.5], "largest_smoothness": [1.0, 3.0, 1.0]},
            r"smoothness must be at most largest_smoothness, got 4\.0 where that is 3\.0",
        ),
        ({"total_dissimilarity": 1.0}, "beta must be positive where total_dissimilarity is"),
        ({"samples": 0}, "samples must be an integer >= 1"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        constants(**{"epochs": 3, **change}).excess_risk_upper_bound()


@pytest.mark.parametrize("n", [2, 3, 6])
def test_directions_in_the_plane_give_every_order_of_the_records(n):
    rng = np.random.default_rng(n)
    g = rng.standard_normal((n, 2))
    angles = rng.uniform(0, 2 * np.pi, 20_000)
    any_direction = np.column_stack([np.cos(angles), np.sin(angles)])
    orders, every = (
        {tuple(order) for order in np.argsort(directions @ g.T, axis=1).tolist()}
        for directions in (any_direction, all_directions(g))
    )
    assert orders <= every
    assert len(every) == n * (n - 1)
