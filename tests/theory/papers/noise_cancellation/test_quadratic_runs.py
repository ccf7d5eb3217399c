"""Exact excess losses against enumeration of all schedules and signs, and against the recursion itself."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.papers.noise_cancellation.bounds import FederatedRun
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise, cancelling_parameters
from corrnoise.theory.papers.noise_cancellation.quadratic_runs import (
    QuadraticRun,
    cancelling_excess,
    largest_noise,
    trusted_excess,
)
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
from corrnoise.theory.privacy import Budget

BUDGET = Budget(1.0, adjacency="replace-one")
FAMILY = LossClass(1.0, 1.0, 1.0)


def last_point(carried, eta, h, start):
    """x_T − x* and the largest |w_t − x*|, by the algorithm, for one sequence Z_t + Y_t."""
    w = x = start
    largest = abs(start)
    for t, e in enumerate(carried, 1):
        w = w - eta * (t * h * x + e)
        x = x + 2 / (t + 2) * (w - x)
        largest = max(largest, abs(w))
    return x, largest


@given(st.integers(1, 30), st.floats(1e-3, 1), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_responses_and_reach_are_those_of_the_algorithm(rounds, eta, h, seed):
    rng = np.random.default_rng(seed)
    run = QuadraticRun(rounds, eta, h)
    sizes = rng.uniform(0, 1, rounds - 1)
    carried = sizes * rng.uniform(-1, 1, rounds - 1)
    x, largest = last_point(carried, eta, h, 0.7)
    r = run.responses()
    assert x == pytest.approx(r[0] * 0.7 + r[1:] @ carried, rel=1e-9, abs=1e-9)
    assert largest <= run.reach(0.7, sizes) * (1 + 1e-9)


def enumerated(machines, m, rounds, noise, deviation, offsets, eta, h):
    """E (x_T − x*)² over all schedules, signs of the noise and signs of the samples, in one dimension."""
    share, growth = cancelling_parameters(noise)
    subsets = list(combinations(range(machines), m))
    values = []
    for schedule in product(subsets, repeat=rounds - 1):
        draws = m * (rounds - 1)
        for signs in product((-1, 1), repeat=2 * draws):
            sign = iter(signs)
            y = np.zeros(machines)
            count = np.zeros(machines)
            summed = 0.0
            carried = []
            for chosen in schedule:
                for i in chosen:
                    count[i] += 1
                    y[i] = (1 - share) * y[i] + count[i] ** (growth / 2) * next(sign)
                    summed += (offsets[i] + deviation * next(sign)) / m
                carried.append(summed + y.sum() / m)
            values.append(last_point(carried, eta, h, 0.5)[0] ** 2)
    return np.mean(values)


@pytest.mark.parametrize(
    "noise", [cancelling_noise(12, growth=1), cancelling_noise(12, share=0.3), cancelling_noise(12, share=0)]
)
@pytest.mark.parametrize(("machines", "m", "rounds"), [(3, 1, 5), (2, 1, 4), (2, 2, 3)])
def test_the_excess_is_that_of_all_schedules_and_signs(noise, machines, m, rounds):
    offsets = np.array([0.4, -0.4, 0.0])[:machines]
    heterogeneity = float(offsets.std())
    run = FederatedRun(BUDGET, FAMILY, machines, m, rounds, 1, 0.3, heterogeneity)
    chosen = {"learning_rate": 0.1, "curvature": 0.8, "start": 0.5}
    exact = 0.4 * enumerated(machines, m, rounds, noise, 0.3, offsets, 0.1, 0.8)
    found = cancelling_excess(run, noise, 1.0, **chosen)
    assert found.total == pytest.approx(exact, rel=1e-10)
    assert found.total == found.start + found.sampling + found.noise
    assert cancelling_excess(run, noise, 1.001, **chosen).total != pytest.approx(exact, rel=1e-5)


def test_the_trusted_server_by_all_signs():
    run = FederatedRun(Budget(1e3, adjacency="replace-one"), FAMILY, 2, 2, 6, 1, 0.0, 0.0)
    signs = run.trusted_std() * np.array(list(product((-1, 1), repeat=5)))
    exact = np.mean([last_point(row, 0.1, 0.8, 0.5)[0] ** 2 for row in signs]) * 0.4
    found = trusted_excess(run, learning_rate=0.1, curvature=0.8, start=0.5)
    assert found.total == pytest.approx(exact, rel=1e-10)


@given(st.just(0.0) | st.floats(1e-3, 1), st.floats(0, 2), st.integers(0, 2**32 - 1))
def test_bounded_noise_stays_within_its_bound(share, growth, seed):
    noise = cancelling_noise(20, share=share, growth=growth)
    run = FederatedRun(BUDGET, FAMILY, 4, 2, 20, 1)
    rng = np.random.default_rng(seed)
    y, count = np.zeros(4), np.zeros(4)
    for t in range(1, 20):
        chosen = rng.choice(4, 2, replace=False)
        count[chosen] += 1
        y[chosen] = (1 - share) * y[chosen] + 3.0 * count[chosen] ** (growth / 2) * rng.choice([-1, 1], 2)
        assert abs(y.sum()) / 2 <= largest_noise(run, noise, 3.0)[t - 1] * (1 + 1e-12)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="learning_rate must be at most 1e6/"):
        QuadraticRun(1000, 1.0, 1e4)
    run = FederatedRun(BUDGET, FAMILY, 2, 1, 5, 1)
    chosen = {"learning_rate": 0.1, "curvature": 0.8, "start": 0.5}
    with pytest.raises(ValueError, match="run must have a deviation and a heterogeneity"):
        trusted_excess(run, **chosen)
    with pytest.raises(ValueError, match=r"curvature must lie in \[0, 1.0\], got 2.0"):
        trusted_excess(run, **{**chosen, "curvature": 2.0})
    with pytest.raises(ValueError, match="noise must be a cancelling_noise"):
        cancelling_excess(run, None, 1.0, **chosen)
