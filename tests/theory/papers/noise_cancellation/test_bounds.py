"""The coupling against brute force, and the bounds against their published values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.papers.noise_cancellation.bounds import FederatedRun, sampling_variance
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise
from corrnoise.theory.papers.noise_cancellation.coupling import (
    constant_noise_factor,
    displacements,
    growing_noise_factor,
    held_displacements,
)
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
from corrnoise.theory.privacy import Budget


def budget(rho: float) -> Budget:
    return Budget(rho, adjacency="replace-one")


DIGITS = LossClass(1570**0.5, 392.5, 0.1)
RUN = FederatedRun(budget(32.0), DIGITS, machines=100, participants=50, rounds=1200, dimension=7850)


@given(st.integers(1, 30), st.floats(0, 0.2))
def test_displacements_are_their_recursion(steps, rate):
    u = [0.0]
    for n in range(steps):
        sums = [sum(u[: k + 1]) for k in range(n + 1)]
        u.append(u[n] + 1 + 2 * rate * sum(sums[k] + (sums[k - 1] if k else 0) for k in range(n + 1)))
    np.testing.assert_allclose(displacements(steps, rate), u, rtol=1e-12)


def test_factors_are_at_most_one_for_linear_losses_and_have_the_published_values():
    for rounds, p in ((1, 0.3), (10, 0.01), (100, 0.5), (1000, 1.0)):
        assert growing_noise_factor(rounds, p, 0.0) <= 1 + 1e-12
        assert constant_noise_factor(rounds, p, 0.0) <= 1 + 1e-12
    r = np.arange(1, 51)
    exact = (2 / (50 * 51)) * (r * (1 - 0.9 ** (50 - r + 1))).sum()
    assert growing_noise_factor(50, 0.1, 0.0) == pytest.approx(exact, rel=1e-12)
    for (rounds, p), value in {(1200, 0.5): 0.9995765735, (3000, 0.2): 1.012387722, (1200, 0.1): 1.4909983}.items():
        assert growing_noise_factor(rounds, p, 1 / (8 * rounds)) == pytest.approx(value, rel=3e-6)
    assert growing_noise_factor(1000, 0.09265010302, 1 / 8000) == pytest.approx(2, rel=1e-8)
    assert growing_noise_factor(1000, 0.05, 1 / 8000) > 1e9
    assert held_displacements(4000, 0.001, 1.0)[-1] == np.inf


def test_the_published_bounds_at_the_constants_of_the_experiment():
    bound = RUN.published_upper_bound()
    assert bound.total == pytest.approx(1.039968285, rel=1e-8)
    assert bound.noise == pytest.approx(0.701633306, rel=1e-8)
    assert RUN.noisy_sgd_upper_bound().total == pytest.approx(0.3761163938, rel=1e-8)
    assert RUN.break_even_rounds() == pytest.approx(5463.718197, rel=1e-8)
    assert RUN.participation_cap() == 670
    assert RUN.refusals(670) == pytest.approx(0.00230, rel=2e-3)
    assert RUN.published_is_proved()
    many = FederatedRun(budget(1.0), DIGITS, machines=1000, participants=50, rounds=1000, dimension=10)
    assert not many.published_is_proved()


def test_the_corrected_bounds_in_one_and_the_same_form():
    refusal = RUN.refusals(670) * DIGITS.lipschitz * DIGITS.diameter
    for noise, method, value in (
        (cancelling_noise(1), "coupling", 0.2731),
        (NuFTRL(0), "cauchy-schwarz", 0.4903),
    ):
        bound = RUN.upper_bound(noise, losses="convex", cap=670, method=method)
        assert bound.total - refusal == pytest.approx(value, abs=4e-4)
    published = RUN.upper_bound(
        cancelling_noise(1200, growth=1), losses="smooth", learning_rate=RUN.published_learning_rate()
    )
    best = RUN.upper_bound(cancelling_noise(1200, growth=1), losses="smooth")
    assert best.total <= published.total
    assert published.total <= RUN.published_upper_bound().total


@given(
    st.integers(1, 50),
    st.integers(1, 300),
    st.floats(0.01, 1),
    st.integers(1, 100),
    st.floats(0.01, 100),
    st.floats(0, 1),
)
def test_the_published_bound_follows_where_it_is_proved(m, rounds, p, d, rho, share):
    machines = max(m, int(m / p))
    run = FederatedRun(
        budget(rho), DIGITS, machines, m, rounds, d, deviation=1.0, heterogeneity=2.0, optimum_gradient=0.5
    )
    noise = cancelling_noise(rounds, growth=1)
    best = run.upper_bound(noise, losses="smooth")
    most = 1 / (4 * 392.5 * rounds)
    for rate in (most, most / 2, best.learning_rate):
        assert best.total <= run.upper_bound(noise, losses="smooth", learning_rate=rate).total * (1 + 1e-12)
    other = run.upper_bound(noise, losses="smooth", learning_rate=max(share, 1e-3) * most)
    assert other.factor <= (1 / run.probability if other.learning_rate <= most / 2 else np.inf)
    if run.published_is_proved() and machines / m <= rounds:
        rate = run.published_learning_rate()
        factor = growing_noise_factor(rounds, run.probability, rate * 392.5)
        if factor <= 2:
            assert (
                run.upper_bound(noise, losses="smooth", learning_rate=rate).total <= run.published_upper_bound().total
            )


def test_the_trusted_server():
    bound = RUN.trusted_upper_bound()
    mu = 8.0
    noise = 4 * 0.1 * 2 * DIGITS.published_norm * 7850**0.5 / (mu * 50 * 1200)
    assert bound.noise == pytest.approx(noise, rel=1e-12)
    assert RUN.trusted_std() == pytest.approx(2 * DIGITS.published_norm * 1200**0.5 / (mu * 50), rel=1e-9)


def test_sampling_variance_of_all_machines_has_no_heterogeneity():
    assert sampling_variance(1.0, 5.0, machines=4, participants=4) == 0.25
    assert sampling_variance(0.0, 2.0, machines=4, participants=1) == 4.0
    assert sampling_variance(1.0, 2.0, machines=1, participants=1) == 1.0
    with pytest.raises(ValueError, match="participants must be at most machines, got 5 of 4"):
        sampling_variance(1.0, 1.0, machines=4, participants=5)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"learning_rate must lie in \(0, "):
        RUN.upper_bound(cancelling_noise(1), losses="convex", learning_rate=1.0)
    with pytest.raises(ValueError, match="method must be 'cauchy-schwarz' for"):
        RUN.upper_bound(NuFTRL(0), losses="convex")
    with pytest.raises(ValueError, match="participants must be at most machines"):
        FederatedRun(budget(1.0), DIGITS, 2, 3, 1, 1)
    with pytest.raises(ValueError, match="both be None"):
        FederatedRun(budget(1.0), DIGITS, 2, 1, 1, 1, deviation=1.0)
