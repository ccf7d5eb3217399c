"""Exact sums: clipped gradients as integers on a binary grid, and releases on that grid.

The gradient g of an example, with a computed norm N >= (1 − η)|g|, becomes the integers

    q = trunc(fl(s g)),  s = fl(f 2⁻ᵏ),  f = min(1, (1 − m) G/N),

and a batch has the sum S = Σ q in integers.  Then |2ᵏ q| <= G in exact arithmetic where (1 − m)(1 + u)³ <= 1 − η,
because truncation enlarges no number; and S is the same in every order, sharding and tree of additions, also where
partial sums wrap around, because the exponent k keeps all of B such gradients within the integers.  So the sensitivity
of 2ᵏ S is exactly G (2G for replace-one), whatever the precision of the gradients.  S is short of the
sum of the clipped gradients by less than B 2ᵏ in each coordinate.

A *release on the grid* is h (S + n) with h = 2ᵏ and n = ⌊y/h + ½⌋ for real noise y.  It is a function of h S + y, since
the floor commutes with integers, and so is post-processing of the Gaussian mechanism, for all steps together.  A sum of
floats plus noise in floats is not: it shows the grid of the sum.  The proofs are in docs/exact-sums.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

Sums = Literal["float32", "exact"]
Release = Literal["float", "grid", "proved"]
Integer = Literal["int32", "int64"]

MARGIN = 1 - 1e-4  #: 1 − m: gradients are clipped to this part of the clip norm
_LARGEST_INTEGERS = {"int32": 2**31 - 1, "int64": 2**63 - 1}
_LEAST_NORM = 2.0**-40  # so that s stays within float32
_FARTHEST_UNITS = 2.0**40  # of the noise, in units of the grid: float64 holds it to 2⁻¹³ units
_FINEST_DEVIATIONS = 2.0**-32  # of a grid, in standard deviations of the noise
_FINEST_PROVED_DEVIATIONS = 2.0**-28  # the same for proved releases
_COARSEST_NORMS = 2.0**-10  # of the error of a clipped gradient, in clip norms
_SIZE_BITS = np.int64(2**63 - 1)  # all bits of a float64 but its sign
_BLOCK_COORDINATES = 4096  # coordinates whose sums stay in the cache


@record
class Grid(Record):
    """The grid of the sums of a run."""

    exponent: int  #: k, of the unit 2ᵏ
    dtype: Integer  #: of the sums
    largest: int  #: B ⌊G/2ᵏ⌋, which no coordinate of a sum exceeds

    @property
    def unit(self) -> float:
        """2ᵏ."""
        return math.ldexp(1.0, self.exponent)


def grid_exponent(clip_norm: float, batch_size: int, dtype: Integer = "int32") -> int:
    """The smallest k with B ⌊G/2ᵏ⌋ <= 2³¹ − 1, or 2⁶³ − 1: sums of B clipped gradients stay within the integers.

    G is at least 2⁻⁴⁰, and B the largest number of examples that a batch can have.
    """
    norm = Fraction(checks.real("clip_norm", clip_norm, f"[{_LEAST_NORM}, inf)"))
    most = _LARGEST_INTEGERS[checks.choice("dtype", dtype, get_args(Integer))]
    above = norm / (most // checks.integer("batch_size", batch_size, 1, largest=most) + 1)
    k = above.numerator.bit_length() - above.denominator.bit_length() - 1  # 2ᵏ <= above < 2ᵏ⁺²
    while Fraction(2) ** k <= above:
        k += 1
    return k


def grid_dtype(clip_norm: float, batch_size: int, size: int) -> Integer:
    """``"int32"`` where a clipped gradient of ``size`` parameters loses at most 2⁻¹⁰ G by it, otherwise ``"int64"``."""
    if batch_size > _LARGEST_INTEGERS["int32"]:
        return "int64"
    lost = math.ldexp(1.0, grid_exponent(clip_norm, batch_size)) * math.sqrt(checks.integer("size", size, 1))
    return "int32" if lost <= _COARSEST_NORMS * clip_norm else "int64"


def grid_of(clip_norm: float, batch_size: int, size: int, deviation: float, release: Release = "grid") -> Grid:
    """The grid of a run: the finest one that its integers allow, and that is fine compared with the noise.

    It is not finer than 2⁻³² of the ``deviation`` of the noise, so that float64 holds the noise, up to 2⁸ times this
    deviation, more finely than the grid; and for proved releases than 2⁻²⁸, so that floats decide most integers, and
    2¹² deviations are within their range.
    """
    dtype = grid_dtype(clip_norm, batch_size, size)
    finest = _FINEST_PROVED_DEVIATIONS if release == "proved" else _FINEST_DEVIATIONS
    k = max(grid_exponent(clip_norm, batch_size, dtype), math.ceil(math.log2(finest * deviation)))
    while (
        largest := batch_size * math.floor(Fraction(clip_norm) / Fraction(2) ** k)
    ) + _FARTHEST_UNITS >= _LARGEST_INTEGERS["int64"]:
        k += 1
    return Grid(k, dtype, largest)


@kernel
def add_truncated(gradients, factors, total):  # type: ignore[no-untyped-def]
    """Add trunc(s_i g_i) to integer sums, in place; gradients have shape (examples, size), and factors s their type.

    An example with s = 0 counts as zero, whatever its gradient.
    """
    count, size = gradients.shape
    for first in range(0, size, _BLOCK_COORDINATES):
        last = min(first + _BLOCK_COORDINATES, size)
        for i in range(count):
            if factors[i] > 0:
                for j in range(first, last):
                    total[j] += np.int64(gradients[i, j] * factors[i])


@kernel
def add_floats(total, summand):  # type: ignore[no-untyped-def]
    """Add floats to a sum in float64, in place."""
    for j in range(total.size):
        total[j] += summand[j]


@kernel
def fill_nearest(total, unit, found):  # type: ignore[no-untyped-def]
    """Fill the nearest integers of sums of floats in units of the grid, ties to even."""
    inverse = 1.0 / unit
    for j in range(total.size):
        found[j] = np.rint(total[j] * inverse)


@kernel(fastmath={"reassoc"})
def sum_of_squares(values):  # type: ignore[no-untyped-def]
    """The sum of the squares of a vector, in float64."""
    total = 0.0
    for j in range(values.size):
        total += np.float64(values[j]) * np.float64(values[j])
    return total


@kernel
def release_of(total, noise, unit, noisy):  # type: ignore[no-untyped-def]
    """H (S + ⌊y/h + ½⌋), without rounding y/h + ½; the largest |y/h|, or NaN if there is one.

    Float64 holds S + n exactly where S has 32 bits and |y/h| is small enough.  The largest number has the largest bits.
    """
    bits = noise.view(np.int64)
    farthest = np.int64(0)
    inverse = 1.0 / unit
    narrow = total.itemsize == 4
    for j in range(total.size):
        farthest = max(farthest, bits[j] & _SIZE_BITS)
        x = noise[j] * inverse
        below = np.floor(x)
        number = below + (1.0 if x - below >= 0.5 else 0.0)
        if narrow:
            noisy[j] = unit * (np.float64(total[j]) + number)
        else:
            noisy[j] = unit * np.float64(np.int64(total[j]) + np.int64(number))
    return np.full(1, farthest).view(np.float64)[0] * inverse


def released(total: NDArray[Any], noise: NDArray[Any], grid: Grid) -> NDArray[Any]:
    """The release h (S + n) on the grid, float32, which is rounded after the fact.

    Noise that is too large for its grid, whatever the data are, is a ``RuntimeError``.
    """
    noisy = np.empty(noise.shape, np.float32)
    check_farthest(release_of(total, noise, grid.unit, noisy), grid)
    return noisy


@kernel
def _add_integers(total, numbers, unit, noisy):  # type: ignore[no-untyped-def]
    """Fill h (S + n) from integers n that are floats: float64 holds S + n exactly where S has 32 bits."""
    if total.itemsize == 4:
        for j in range(total.size):
            noisy[j] = unit * (np.float64(total[j]) + numbers[j])
    else:
        for j in range(total.size):
            noisy[j] = unit * np.float64(np.int64(total[j]) + np.int64(numbers[j]))


def released_integers(total: NDArray[Any], numbers: NDArray[np.float64], grid: Grid) -> NDArray[Any]:
    """The release h (S + n), float32, which is rounded after the fact."""
    noisy = np.empty(total.shape, np.float32)
    _add_integers(total, numbers, grid.unit, noisy)
    return noisy


def check_farthest(farthest: float, grid: Grid) -> None:
    """Refuse noise whose largest number, in units of the grid, float64 does not hold as finely as the grid is.

    Raises
    ------
    RuntimeError
        The noise is too large for its grid, whatever the data are.
    """
    if not farthest < _FARTHEST_UNITS:
        raise RuntimeError(
            f"noise must be below {_FARTHEST_UNITS:.3g} units of the grid {grid.unit:.3g}, got {farthest:.3g}"
        )


def values_of(total: NDArray[Any], grid: Grid) -> Array:
    """2ᵏ S as float64."""
    return total.astype(float) * grid.unit
