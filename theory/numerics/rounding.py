"""Rounding errors: the types of programs, products of rounding factors, and norms of sums of exponentials in balls.

Each operation in floating-point arithmetic returns the exact result times 1 + δ with |δ| <= u, where u is the unit
roundoff.  A product of m factors 1 + δ or 1/(1 + δ) lies within 1 ± ε_m with ε_m = (1 − u)^{−m} − 1.

Source: N. J. Higham, Accuracy and stability of numerical algorithms, 2nd edition, Section 3.1.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from flint import arb

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

Dtype = Literal["float64", "float32", "exact"]  #: of a program; exact numbers are the reals that floats are
DTYPES: tuple[Dtype, ...] = ("float64", "float32")

UNIT_ROUNDOFF = 2.0**-53  #: of float64
UNITS: dict[Dtype, float] = {"float64": UNIT_ROUNDOFF, "float32": 2.0**-24, "exact": UNIT_ROUNDOFF}  #: unit roundoff
_AT_THE_ENDS = 4  # roundings to float32 of a standard deviation, its products with clip norm and z, and finished noise


def as_stored(values: Array, dtype: Dtype) -> Array:
    """Return ``values`` rounded to ``dtype``, as float64."""
    checks.choice("dtype", dtype, DTYPES)
    with np.errstate(over="ignore"):
        return values.astype(dtype).astype(np.float64)


def growth(operations: int, dtype: Dtype) -> arb:
    """(1 − u)^{−m}, the largest product of m = ``operations`` rounding factors."""
    return 1 / (1 - arb(UNITS[checks.choice("dtype", dtype, DTYPES)])) ** operations


def at_the_ends() -> arb:
    """The growth by roundings to float32 of the independent noise and of the finished noise."""
    return growth(_AT_THE_ENDS, "float32")


def rounded_up(number: arb) -> float:
    """The smallest float that is at least every number in the ball ``number``."""
    highest = number.upper()
    nearby = float(highest)
    return nearby if arb(nearby) >= highest else math.nextafter(nearby, math.inf)


def finite_or_inf(bound: arb) -> float:
    """``rounded_up``, and ``inf`` for a ball that is not finite."""
    return rounded_up(bound) if bound.is_finite() else math.inf


def exponential_norm(first: arb, scales: list[arb], decays: list[arb], steps: int | None) -> arb:
    """The 2-norm of c_0 = ``first``, c_t = Σ_i scales_i decays_i^{t−1}, for t < ``steps`` or without end.

    In closed form.  Decays may be equal.  Without end the norm is ``inf`` unless all decays are below 1.
    """
    later = None if steps is None else steps - 1
    if later is None and any(abs(decay).upper() >= 1 for decay in decays):
        return arb(math.inf)
    square = first * first
    for i, (scale, decay) in enumerate(zip(scales, decays, strict=True)):
        square += scale * scale * _geometric_sum(decay * decay, later)
        for weight, other in zip(scales[:i], decays[:i], strict=True):
            square += 2 * scale * weight * _geometric_sum(decay * other, later)
    return square.sqrt()


def _geometric_sum(ratio: arb, terms: int | None) -> arb:
    """Σ_{n < terms} ratioⁿ."""
    if terms is None:
        return 1 / (1 - ratio)
    if not (1 - ratio).contains(0):
        return (1 - ratio**terms) / (1 - ratio)
    last = ratio**terms
    return terms * arb(1).union(last)
