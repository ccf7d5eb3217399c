"""Rates: closed forms of amplification, the best learning rate, limits of the bounds, and the printed fall."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from corrnoise.theory.papers.shuffled_gradients.accountants import published_rho
from corrnoise.theory.papers.shuffled_gradients.convergence import ConvergenceConstants
from corrnoise.theory.papers.shuffled_gradients.schedules import (
    dp_shuffled,
    interleaved,
    private_then_public,
    public_then_private,
)
from corrnoise.theory.papers.shuffled_gradients.table_rates import (
    TABLE_ACCOUNTING,
    TABLE_ALGORITHMS,
    Constants,
    bound_coefficients,
    leading_rate,
    table_amplification,
)
from tests.theory.papers.shuffled_gradients.runs import described


@given(st.sampled_from(TABLE_ALGORITHMS), st.integers(1, 20), st.integers(2, 12), st.booleans())
def test_amplification_is_that_of_the_accountants(algorithm, n, epochs, whole_run):
    schedule = {
        "DP-ShuffleG": dp_shuffled(2 * n, epochs=epochs),
        "Priv-Pub": private_then_public(2 * n, epochs=2 * epochs, private_epochs=epochs),
        "Pub-Priv": public_then_private(2 * n, epochs=2 * epochs, private_epochs=epochs),
        "Interleaved": interleaved(2 * n, epochs=epochs, private_per_epoch=n),
        "Noise at the end": dp_shuffled(2 * n, epochs=epochs, placement="end"),
    }[algorithm]
    share = 1.0 if algorithm in ("DP-ShuffleG", "Noise at the end") else 0.5
    found = described(schedule, 1.0, 1.0).accountant("whole-run" if whole_run else "per-epoch").sums[0]
    closed = table_amplification(
        algorithm, samples=2 * n, epochs=schedule.epochs, private_share=share, whole_run=whole_run
    )
    assert closed == pytest.approx(found, rel=1e-12)
    assert closed * (1 + 1e-6) != pytest.approx(found, rel=1e-12)


settings = (
    st.sampled_from(TABLE_ALGORITHMS),
    st.integers(1, 1000),
    st.integers(1, 1000),
    st.floats(0.1, 10),
    st.integers(2, 10**6),
    st.sampled_from(TABLE_ACCOUNTING),
)


@given(*settings, st.lists(st.sampled_from([0.1, 1.0, 3.0]), min_size=4, max_size=4))
def test_the_tuned_bound_is_the_least_of_the_corollary(algorithm, n, d, epsilon, epochs, accounting, constants):
    """Against Corollary E.1 of a run with the same constants R, G, L and s, at its learning rate and beside it."""
    assume((algorithm, accounting) != ("Noise at the end", "published"))
    share = 0.5
    radius, g, smooth, s = constants
    eta, value = bound_coefficients(
        algorithm,
        samples=n,
        dimension=d,
        epsilon=epsilon,
        epochs=epochs,
        private_share=share,
        accounting=accounting,
        constants=Constants(*constants),
    ).best()
    rho = published_rho(epsilon, 1e-6)
    total = table_amplification(
        algorithm, samples=n, epochs=epochs, private_share=share, whole_run=accounting == "whole-run"
    )
    sigma = g * math.sqrt(2 * total / rho)

    def run(rate):
        end = algorithm == "Noise at the end"
        return ConvergenceConstants(
            samples=n,
            epochs=epochs,
            dimension=d,
            learning_rate=rate,
            distance=radius,
            deviation=s,
            noise=sigma,
            smoothness=smooth,
            largest_smoothness=smooth,
            end_noise=end,
        )

    def bound(rate):
        return run(rate).corollary_upper_bound(printed=accounting == "published").total

    assert bound(eta) == pytest.approx(value, rel=1e-6)
    assert bound(eta * 0.9) >= value * (1 - 1e-12)
    if eta * 1.1 <= run(eta).largest_learning_rate():
        assert bound(eta * 1.1) >= value * (1 - 1e-12)


@pytest.mark.parametrize("accounting", TABLE_ACCOUNTING)
@pytest.mark.parametrize("epochs", [1.0, 1e100])
def test_best_learning_rates_at_the_ends_of_their_domain(accounting, epochs):
    for epsilon, *constants in product([1e-30, 1e30], repeat=5):
        run = bound_coefficients(
            "DP-ShuffleG",
            samples=10,
            dimension=3,
            epsilon=epsilon,
            epochs=epochs,
            accounting=accounting,
            constants=Constants(*constants),
        ).best()
        assert np.isfinite(run).all()
        assert min(run) > 0


@pytest.mark.parametrize("algorithm", TABLE_ALGORITHMS)
@pytest.mark.parametrize("accounting", ["per-epoch", "whole-run"])
def test_the_bound_follows_its_leading_rate(algorithm, accounting):
    """For K so large that only the noise is left, up to the logarithms of K and δ; ratios over n and d are exact."""

    def scaled(n, d):
        run = bound_coefficients(
            algorithm, samples=n, dimension=d, epsilon=1.0, epochs=1e40, private_share=0.5, accounting=accounting
        ).best()
        return run.excess_risk_upper_bound / leading_rate(
            algorithm, samples=n, dimension=d, epsilon=1.0, private_share=0.5, accounting=accounting
        )

    first = scaled(100, 10)
    assert 10 < first < 1000
    for n, d in ((10_000, 10), (100, 1000), (10_000, 1000)):
        assert scaled(n, d) == pytest.approx(first, rel=0.02)


def least_constant(n, d, epsilon):
    """That of √d/(nε) sqrt((1 + log K) log(1/δ)), with amplification over K = max(n, (nε/√d)^{3/2}) epochs."""
    ratio = math.sqrt(d) / (n * epsilon)
    epochs = max(n, ratio**-1.5)
    bound = (
        bound_coefficients("DP-ShuffleG", samples=n, dimension=d, epsilon=epsilon, epochs=epochs)
        .best()
        .excess_risk_upper_bound
    )
    return bound / (ratio * math.sqrt((1 + math.log(epochs)) * math.log(1e6)))


@given(st.floats(2, 16), st.floats(0, 3), st.floats(0.1, 5))
def test_shuffling_attains_the_rate_of_independent_sampling(log_samples, log_dimension, epsilon):
    n, d = int(10**log_samples), int(10**log_dimension)
    assume(math.sqrt(d) <= n * epsilon / 2)
    assert least_constant(n, d, epsilon) <= 13


def test_a_constant_of_twelve_would_be_caught():
    """Where √d is about half of nε, few epochs are run, and the third term of the bound matters."""
    assert least_constant(110, 594, 5.0) > 12


def test_leading_rates():
    n, d, epsilon, p = 1000, 16, 2.0, 0.25
    ratio = 2.0
    table = {
        ("DP-ShuffleG", "published"): ratio ** (4 / 3) * n ** (-2 / 3),
        ("Priv-Pub", "published"): (p / n) ** (2 / 3) * ratio ** (4 / 3),
        ("Interleaved", "published"): (n * 751) ** (-2 / 3) * ratio ** (4 / 3),
        ("DP-ShuffleG", "per-epoch"): ratio / math.sqrt(n),
        ("Pub-Priv", "per-epoch"): ratio * math.sqrt(p / n),
        ("Interleaved", "per-epoch"): ratio / math.sqrt(n * 751),
        ("Noise at the end", "per-epoch"): ratio / n,
        ("Pub-Priv", "whole-run"): ratio * math.sqrt(p) / n,
        ("Interleaved", "whole-run"): ratio / n,
    }
    for (algorithm, accounting), value in table.items():
        assert leading_rate(
            algorithm, samples=n, dimension=d, epsilon=epsilon, private_share=p, accounting=accounting
        ) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "SGD"}, "algorithm must be one of"),
        ({"accounting": "none"}, "accounting must be one of"),
        ({"epochs": 0.5}, r"epochs must lie in \[1, 1e100\]"),
        ({"epsilon": 0.0}, r"epsilon must lie in \[1e-30, 1e30\]"),
        ({"delta": 1.0}, r"delta must lie in \(0, 1\)"),
        ({"private_share": 0.0}, r"private_share must lie in \(0, 1\]"),
        ({"constants": Constants(distance=-1.0)}, r"distance must lie in \[1e-30, 1e30\]"),
        ({"algorithm": "Noise at the end", "accounting": "published"}, "noise at the end, got 'published'"),
    ],
)
def test_bad_input(change, message):
    arguments = {"algorithm": "DP-ShuffleG", "samples": 10, "dimension": 3, "epsilon": 1.0, "epochs": 10.0}
    with pytest.raises(ValueError, match=message):
        bound_coefficients(**{**arguments, **change})
    with pytest.raises(ValueError, match="noise at the end, got 'published'"):
        leading_rate("Noise at the end", samples=10, dimension=3, epsilon=1.0, accounting="published")
    assert np.isfinite(bound_coefficients(**arguments).best()).all()


@pytest.mark.parametrize("algorithm", ["Priv-Pub", "Pub-Priv"])
def test_a_run_with_private_records_has_a_private_epoch(algorithm):
    assert table_amplification(algorithm, samples=10, epochs=2.0, private_share=0.1, whole_run=False) == 1.0
    assert table_amplification(algorithm, samples=10, epochs=2.0, private_share=0.1, whole_run=True) == 1.0
    assert table_amplification(algorithm, samples=10, epochs=20.0, private_share=0.1, whole_run=False) == 2.0
