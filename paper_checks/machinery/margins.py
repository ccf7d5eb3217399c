"""Margins: how far two sides are from violating an inequality or an identity, free of scale.

A margin below zero is a violation, zero an equality, and nan says that a point lies outside the domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corrnoise.theory.numerics.checks import Array


def _numbers(smaller: Any, larger: Any) -> tuple[Array, Array]:
    s, g = np.broadcast_arrays(np.asarray(smaller, dtype=float), np.asarray(larger, dtype=float))
    if s.size == 0:
        raise ValueError("sides must have entries, got empty arrays")
    return s, g


def _least(margins: Array, tolerance: float) -> float:
    """The smallest margin.  It is nan if some margin is nan and no other is below −tolerance."""
    least = float(np.fmin.reduce(margins, axis=None))
    return least if least < -tolerance else float(margins.min())


def margin(smaller: Any, larger: Any, tolerance: float = 0.0) -> float:
    """(larger − smaller)/max(|smaller|, |larger|) in [−2, 2]; for arrays the smallest entry.

    It is 0 for equal sides, also infinite ones, and ±1 if one side is infinite.  It is nan if a side is nan, unless
    another entry is below −tolerance.
    """
    s, g = _numbers(smaller, larger)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(s), np.abs(g))
        values = np.where(np.isinf(scale), np.sign(g - s), np.clip((g - s) / scale, -2, 2))
    return _least(np.where(s == g, 0.0, values), tolerance)


def agreement(left: Any, right: Any, tolerance: float = 0.0) -> float:
    """Minus the largest difference of two sides, relative to their largest finite entry; in [−2, 0].

    It is −1 if one side is infinite and not equal to the other.  It is nan if a side is nan, unless another entry is
    below −tolerance.
    """
    x, y = _numbers(left, right)
    finite = np.isfinite(x) & np.isfinite(y)
    scale = np.maximum(np.abs(x), np.abs(y)).max(where=finite, initial=0.0)
    with np.errstate(all="ignore"):
        values = np.where(
            finite, np.clip(-np.abs(x - y) / scale, -2, 0), np.where(np.isnan(x) | np.isnan(y), np.nan, -1)
        )
    return _least(np.where(x == y, 0.0, values), tolerance)
