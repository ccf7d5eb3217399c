"""Shifts of a machine's message against losses that attain them, and against random convex losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
from tests.strategies import loss_classes


def correction(gradient, previous, current, t):
    return t * gradient(current) - (t - 1) * gradient(previous)


@given(loss_classes(), st.integers(1, 2000))
def test_the_norm_and_both_shifts_are_attained(family, t):
    """On [0, D] with x_{t−1} = 0 and w_t = D: slopes G − L max(x_t − x, 0), and ± L x with an offset."""
    g, ell = family.lipschitz, family.smoothness
    previous, current = 0.0, 2 / (t + 1) * family.diameter

    def steep(x):
        return g - ell * max(current - x, 0.0)

    assert correction(steep, previous, current, t) == pytest.approx(float(family.correction_norm(t)), rel=1e-9)
    shift = correction(steep, previous, current, t) - correction(lambda x: -g, previous, current, t)
    assert shift == pytest.approx(float(family.shifts(t, losses="convex")), rel=1e-9)
    mirrored = correction(steep, previous, current, t) - correction(lambda x: -steep(x), previous, current, t)
    assert mirrored == pytest.approx(float(family.shifts(t, losses="smooth")), rel=1e-9)


@given(loss_classes(), st.integers(1, 2000), st.integers(0, 2**32 - 1))
def test_corrections_of_convex_losses_lie_in_a_ball_that_knows_no_data(family, t, seed):
    """Quadratics of random curvature with clipped gradients are not needed: g and H are any that G and L allow."""
    rng = np.random.default_rng(seed)
    d = 3
    step = rng.standard_normal(d)
    step *= 2 * family.diameter / (t + 1) * rng.random() / np.linalg.norm(step)
    q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    hessian = (q * rng.uniform(0, family.smoothness, d)) @ q.T
    gradient = rng.standard_normal(d)
    gradient *= family.lipschitz * rng.random() / np.linalg.norm(gradient)
    s = gradient + (t - 1) * hessian @ step
    centre = family.smoothness / 2 * (t - 1) * step
    assert np.linalg.norm(s - centre) <= float(family.correction_radius(t)) * (1 + 1e-12)
    assert np.linalg.norm(s) <= float(family.correction_norm(t)) * (1 + 1e-12)


def test_reference_values():
    small = LossClass(1.0, 3.0, 0.5)
    assert float(small.correction_norm(1000)) == pytest.approx(3.994005994, abs=1e-9)
    assert float(small.shifts(1000, losses="convex")) == pytest.approx(4.994005994, abs=1e-9)
    digits = LossClass((2 * 785) ** 0.5, 785 / 2, 0.1)
    assert digits.published_norm == pytest.approx(118.1232255, rel=1e-9)
    assert digits.largest_shift(losses="convex") == pytest.approx(2 * (1570**0.5 + 39.25))


@given(loss_classes(), st.integers(1, 10**6))
def test_shifts_stay_below_their_suprema_and_below_the_published_ones(family, t):
    for losses in ("convex", "smooth"):
        shift = float(family.shifts(t, losses=losses))
        assert shift <= family.largest_shift(losses=losses) <= 2 * family.published_norm
        assert shift < 2 * family.published_norm
    assert float(family.shifts(1e9, losses="convex")) > 0.999999 * family.largest_shift(losses="convex")


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"smoothness must lie in \(0, 1e100\], got 0.0"):
        LossClass(1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"losses must be one of 'convex', 'smooth', got 'any'"):
        LossClass(1.0, 1.0, 1.0).shifts(1, losses="any")
    with pytest.raises(ValueError, match=r"rounds must lie in \[1, inf\), got 0"):
        LossClass(1.0, 1.0, 1.0).correction_norm([0, 1])
