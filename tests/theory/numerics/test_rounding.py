"""Products of rounding factors and norms of sums of exponentials, against mpmath."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.numerics import rounding
from corrnoise.theory.numerics.rounding import as_stored, exponential_norm, growth


@pytest.mark.parametrize(
    ("count", "dtype", "unit"), [(1, "float64", -53), (7, "float32", -24), (10**6, "float32", -24)]
)
def test_growth_is_the_largest_product_of_rounding_factors(count: int, dtype: rounding.Dtype, unit: int) -> None:
    with workdps(60), ctx.workprec(256):
        exact = (1 - mpf(2) ** unit) ** -count
        ball = growth(count, dtype)
        assert mpf(float(ball.lower())) <= exact * (1 + mpf(10) ** -15)
        assert abs(float(ball) / float(exact) - 1) < 1e-15
        assert (1 + mpf(2) ** unit) ** count < exact


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-1, 1)), max_size=5),
    st.integers(1, 60),
    st.floats(-2, 2),
)
def test_norms_of_sums_of_exponentials(pairs: list[tuple[float, float]], steps: int, first: float) -> None:
    with workdps(50), ctx.workprec(512):
        norm = exponential_norm(arb(first), [arb(s) for s, _ in pairs], [arb(d) for _, d in pairs], steps)
        square = mpf(first) ** 2
        for t in range(1, steps):
            square += mp.fsum(mpf(s) * mpf(d) ** (t - 1) for s, d in pairs) ** 2
        assert mpf(float(norm.lower())) * (1 - mpf(10) ** -15) <= mp.sqrt(square)
        assert mp.sqrt(square) <= mpf(float(norm.upper())) * (1 + mpf(10) ** -15) + mpf(10) ** -60


def test_norms_without_end() -> None:
    with ctx.workprec(512):
        assert float(exponential_norm(arb(1), [arb(2)], [arb("0.5")], None)) == pytest.approx(math.sqrt(1 + 4 / 0.75))
        assert not exponential_norm(arb(1), [arb(2)], [arb(1)], None).is_finite()
        # 1 − 2⁻⁵³, raised by two roundings, times its neighbour is 1 to all bits: the sum is still enclosed.
        decay = arb(1 - 2.0**-53)
        raised = decay * growth(2, "float64")
        assert float(exponential_norm(arb(0), [arb(1), arb(-1)], [raised, decay], 100)) < 1e-12


def test_types_are_checked() -> None:
    assert as_stored(np.array([0.1]), "float32").tolist() == [float(np.float32(0.1))]
    with pytest.raises(ValueError, match="dtype must be one of 'float64', 'float32', got 'bfloat16'"):
        as_stored(np.array([0.1]), "bfloat16")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dtype must be one of"):
        growth(1, "float16")  # type: ignore[arg-type]
