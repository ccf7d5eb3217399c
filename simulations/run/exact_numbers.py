"""Kinds of numbers: what a step of proved noise computes with.

A step is written once, for any kind: ``Sizes`` bound how far floats or pairs are from the real result, ``Pairs`` are
sums of two floats, and ``Balls`` are those of Arb.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from corrnoise.theory.numerics import double_double_series as double_double
from corrnoise.theory.numerics.checks import Array

_SAFETY_FACTOR = 1.01  # for products of two errors


@dataclass(slots=True)
class Size:
    """How large a number is, and how far a computed one is from it, where an operation is off by ``unit``."""

    most: float
    error: float
    unit: float

    def _rounding(self, most: float, error: float) -> Size:
        return Size(most, error + self.unit * most, self.unit)

    def __add__(self, other: Size) -> Size:
        return self._rounding(self.most + other.most, self.error + other.error)

    def __sub__(self, other: Size) -> Size:
        return self + other

    def __mul__(self, other: Size) -> Size:
        return self._rounding(self.most * other.most, self.error * other.most + self.most * other.error)

    def __truediv__(self, exact: Size) -> Size:
        return self._rounding(self.most / exact.most, self.error / exact.most)


class Pair:
    """Double-double numbers, an array of them each."""

    def __init__(self, high: Array, low: Array) -> None:
        self.high, self.low = high, low

    def _with(self, other: Pair, operation: Callable[..., Any]) -> Pair:
        return Pair(*operation(self.high, self.low, other.high, other.low))

    def __add__(self, other: Pair) -> Pair:
        return self._with(other, double_double.add)

    def __sub__(self, other: Pair) -> Pair:
        return self + Pair(-other.high, -other.low)

    def __mul__(self, other: Pair) -> Pair:
        return self._with(other, double_double.product)

    def __truediv__(self, exact: Pair) -> Pair:
        return Pair(*double_double.over(self.high, self.low, exact.high))


class Sizes:
    """The numbers of a step as their sizes: the result is how far the computed numbers may be off."""

    def __init__(self, unit: float) -> None:
        self._unit = unit

    def real(self, value: Any) -> Size:
        """An exact number."""
        return Size(float(np.abs(value).max()), 0.0, self._unit)

    def difference(self, one: float, other: float) -> Size:
        """An exact difference of two, which is rounded."""
        most = abs(one - other)
        return Size(most, self._unit * most, self._unit)

    def rounded(self, number: Size, limit: float) -> float:
        """The limit of ⌊x + ½⌋."""
        return _SAFETY_FACTOR * number.error


class Pairs:
    """The numbers of a step for several coordinates, in double-double arithmetic."""

    def __init__(self, count: int) -> None:
        self._zeros = np.zeros(count)

    def real(self, value: Any) -> Pair:
        """An exact number, or one of each coordinate."""
        return Pair(self._zeros + value, self._zeros)

    def difference(self, one: float, other: float) -> Pair:
        """An exact difference of two."""
        high, low = double_double.two_sum(one, -other)
        return Pair(self._zeros + high, self._zeros + low)

    def rounded(self, number: Pair, limit: float) -> NDArray[np.float64]:
        """⌊x + ½⌋, NaN where it is not certain."""
        nearest = np.floor(number.high + 0.5)
        rest = (number.high - nearest) + number.low
        found = nearest + (rest >= 0.5) - (rest < -0.5)
        return np.where(np.abs(np.abs(rest) - 0.5) >= limit, found, np.nan)


class Balls:
    """The numbers of a step for one coordinate, in balls of Arb."""

    def real(self, value: Any) -> arb:
        """An exact number, or one of each coordinate."""
        return arb(float(value))

    def difference(self, one: float, other: float) -> arb:
        """An exact difference of two."""
        return arb(one) - arb(other)

    def rounded(self, number: arb, limit: float) -> int | None:
        """⌊x + ½⌋, None where it is not certain."""
        found = (number + 0.5).floor().unique_fmpz() if number.is_finite() else None
        return None if found is None else int(found)
