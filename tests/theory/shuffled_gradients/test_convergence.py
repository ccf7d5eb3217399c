"""Convergence bounds of shuffled gradients: reference values, validity on exact runs, published ones refuted."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.shuffled_gradients.convergence import Run
from corrnoise.theory.shuffled_gradients.dissimilarity import (
    reshuffled_dissimilarity,
    worst_order_dissimilarity_bounds,
)
from corrnoise.theory.shuffled_gradients.divergences import quadratic_run


def test_reference_values():
    run = Run(100, 50, 10, 1e-4, 1.0, 1.0, 5.0, 1.0, 1.0)
    corrected, published = (run.corollary_upper_bound(published=p) for p in (False, True))
    assert corrected.initialisation == pytest.approx(2.0)
    assert corrected.shuffling == pytest.approx(0.004912023005, rel=1e-9)
    assert corrected.noise == pytest.approx(0.257881207785, rel=1e-10)
    assert published.noise == pytest.approx(0.014736069016, rel=1e-9)
    public = Run(100, 20, 10, 1e-4, 1.0, 1.0, 2.0, 1.0, 1.0, total_dissimilarity=5, partial_dissimilarity=10, beta=0.5)
    assert public.excess_risk_upper_bound().total == pytest.approx(5.052209041418937, rel=1e-12)
    assert public.excess_risk_upper_bound(published=True).total == pytest.approx(5.023714943334359, rel=1e-12)
    assert Run(1000, 50, 1, 1e-6, 1.0, 1.0, 1.0, 1.0, 1.0).largest_learning_rate() == pytest.approx(
        7.134110112853776e-05, rel=1e-12
    )


@pytest.mark.parametrize("smoothness", [1e-3, 1e-6])
def test_the_published_theorem_is_false(smoothness):
    """f_i = (L/2) ‖x‖², ψ = ‖x‖²/2, n = 100, d = 1000, K = 10, η = 0.01, σ = 1: only the noise remains."""
    n, epochs, d, eta = 100, 10, 1000, 0.01
    hessians, targets = np.full((epochs, n, 1, 1), smoothness), np.zeros((epochs, n, 1))
    _, covariance = quadratic_run(hessians, targets, np.ones((epochs, n)), eta, ridge=1.0)
    exact = d * (smoothness + 1) / 2 * covariance[0, 0]
    run = Run(n, epochs, d, eta, 0.0, 0.0, 1.0, smoothness, smoothness)
    for bound in (run.excess_risk_upper_bound, run.corollary_upper_bound):
        assert bound(published=True).total < exact < bound().total
    if smoothness == 1e-3:
        assert exact == pytest.approx(1.665571935, rel=1e-9)
        assert run.corollary_upper_bound(published=True).total == pytest.approx(0.3963102112, rel=1e-9)
        assert run.excess_risk_upper_bound(published=True).total == pytest.approx(0.351476, rel=1e-5)
        assert run.corollary_upper_bound().total == pytest.approx(66.3819603692, rel=1e-10)


@st.composite
def private_runs(draw):
    """One-dimensional quadratics with a ridge, at a legal learning rate, with noise."""
    n, epochs = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    curvature = rng.uniform(0, 1, n) ** draw(st.sampled_from([0.1, 1, 4])) + 1e-3
    optimum = rng.normal(size=n) * draw(st.sampled_from([0.0, 1.0]))
    ridge = draw(st.sampled_from([0.0, 0.5]))
    sigma = rng.uniform(0, 2, epochs) * draw(st.sampled_from([0.0, 1.0, 10.0]))
    share = draw(st.floats(0.05, 1.0))
    end = draw(st.booleans())
    return curvature, optimum, ridge, sigma, share, end, epochs


@given(private_runs())
def test_the_corrected_bound_holds_for_exact_private_runs(case):
    curvature, optimum, ridge, sigma, share, end, epochs = case
    n = curvature.size
    mean_curvature = curvature.mean() + ridge
    x_star = (curvature * optimum).mean() / mean_curvature
    deviation = math.sqrt(np.mean((curvature * (x_star - optimum)) ** 2))
    start = 1.0
    common = (deviation, sigma, curvature.mean(), curvature.max())
    probe = Run(n, epochs, 1, 1e-9, abs(start - x_star), *common, end_noise=end)
    eta = share * probe.largest_learning_rate()
    run = Run(n, epochs, 1, eta, abs(start - x_star), *common, end_noise=end)
    noise = np.zeros((epochs, n))
    noise[:, -1 if end else slice(None)] = sigma[:, np.newaxis][:, 0] if end else sigma[:, np.newaxis]
    mean, covariance = quadratic_run(
        np.broadcast_to(curvature[:, np.newaxis, np.newaxis], (epochs, n, 1, 1)),
        np.broadcast_to((curvature * optimum)[:, np.newaxis], (epochs, n, 1)),
        noise,
        eta,
        ridge=ridge,
        start=[start],
    )
    exact = mean_curvature / 2 * ((mean[0] - x_star) ** 2 + covariance[0, 0])
    assert exact <= run.excess_risk_upper_bound().total * (1 + 1e-12)
    assert run.excess_risk_upper_bound().total <= run.corollary_upper_bound().total * (1 + 1e-12)


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
    assert lower <= largest * (1 + 1e-12)
    assert largest <= upper * (1 + 1e-12)
    assert lower == pytest.approx(largest, rel=0.2)


def test_all_public_records_leave_no_choice():
    private, public = np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]])
    assert worst_order_dissimilarity_bounds(private, public) == (0.0, 0.0)
    assert worst_order_dissimilarity_bounds(private, public[:1])[0] == 1.0  # more than with all of them


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 1.0}, r"learning_rate must lie in \(0, .*\] for the bound"),
        ({"noise": [1.0, 1.0]}, r"noise must be a scalar or have shape \(3,\)"),
        ({"smoothness": 2.0}, "smoothness must be at most largest_smoothness"),
        ({"total_dissimilarity": 1.0}, "beta must be positive where total_dissimilarity is"),
        ({"samples": 0}, "samples must be an integer >= 1"),
    ],
)
def test_bad_input(change, message):
    arguments = {
        "samples": 4,
        "epochs": 3,
        "dimension": 2,
        "learning_rate": 1e-3,
        "distance": 1.0,
        "deviation": 1.0,
        "noise": 1.0,
        "smoothness": 1.0,
        "largest_smoothness": 1.0,
    }
    with pytest.raises(ValueError, match=message):
        Run(**{**arguments, **change}).excess_risk_upper_bound()
