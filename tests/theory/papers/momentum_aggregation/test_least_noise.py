"""The least noise of a momentum, against integrals, singular values and the mechanisms themselves."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.objectives.workloads import MomentumAverage
from corrnoise.theory.papers.momentum_aggregation.least_noise import (
    noise_limit,
    noise_lower_bound,
    square_root_upper_bound,
)
from corrnoise.theory.participation import Participation
from tests.strategies import log_uniform


@given(log_uniform(1e-12, 1.0))
def test_the_limit_is_the_elliptic_integral(alpha):
    with mpmath.workdps(40):
        gap = mpmath.mpf(alpha)
        exact = gap * 2 / mpmath.pi * mpmath.ellipk((1 - gap) ** 2)
    assert noise_limit(alpha) == pytest.approx(float(exact), rel=1e-14)


@given(log_uniform(1e-3, 1.0), st.integers(1, 40))
def test_no_factorisation_has_less_noise(alpha, steps):
    matrix = MomentumAverage(steps, alpha=alpha).matrix()
    nuclear = np.linalg.svd(matrix, compute_uv=False).sum() / steps
    assert noise_lower_bound(alpha, steps=steps) <= nuclear * (1 + 1e-12)


@pytest.mark.parametrize(("examples", "epochs", "alpha"), [(16, 1, 0.1), (8, 4, 0.125), (4, 8, 0.3)])
def test_the_certified_optimum_lies_between_the_bounds(examples, epochs, alpha):
    steps = examples * epochs
    who = Participation.fixed_epochs(steps, epochs=epochs)
    work = MomentumAverage(steps, alpha=alpha)
    best = fixed_epochs_bounds(work, who, tolerance=1e-4)
    root = NuFTRL(alpha)
    bound = square_root_upper_bound(alpha, who)
    assert noise_lower_bound(alpha, steps=steps, epochs=epochs) < best.lower_bound
    assert best.lower_bound <= best.value < root.mean_error(who, work) < root.max_error(who, work) < bound


def test_long_runs_close_the_gap():
    """Relative to the limit the two bounds differ by O(1/(α T))."""
    for steps in (10**3, 10**5, 10**7):
        gap = 1 - noise_lower_bound(0.01, steps=steps) / square_root_upper_bound(0.01, Participation.single(steps))
        assert gap == pytest.approx(0.99 / 1.99 / steps / noise_limit(0.01), rel=1e-6)


def test_bounds_of_a_run_that_is_too_short_are_zero():
    assert noise_lower_bound(1e-6, steps=1) == 0.0
    assert noise_lower_bound(1.0, steps=1) == square_root_upper_bound(1.0, Participation.single(3)) == 1.0
    assert square_root_upper_bound(1.0, Participation.fixed_epochs(12, period=3)) == 2.0
    assert math.isfinite(square_root_upper_bound(1e-300, Participation.fixed_epochs(2, period=1)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noise_limit(0.0), r"alpha must lie in \(0, 1\]"),
        (lambda: noise_lower_bound(0.1, steps=0), "steps must be an integer >= 1"),
        (lambda: noise_lower_bound(0.1, steps=3, epochs=0.5), r"epochs must lie in \[1, inf\)"),
        (lambda: square_root_upper_bound(0.1, Participation.min_sep(9, 3)), "participation must be single, of fixed"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
