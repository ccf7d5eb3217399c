"""Margins: how far two sides are from violating an inequality or an identity, free of scale.

A margin below zero is a violation, zero an equality, and nan says that a point lies outside the domain.

A statement "with probability at least 1 − p" is a claim with ``probability="p"``.  Its function returns the sides of
independent runs, along the first axis.  A run violates the statement if any of its entries does.  The margin compares a
lower confidence limit of the probability of a violation with p: it is negative only if the runs show that the
probability is larger than p.  The limit is that of Clopper and Pearson, exact for independent runs.  It exceeds the true
probability with a probability of at most ``LEVEL``, which is the rate of false alarms at one point of the domain.
"""

import math
from typing import Any

import numpy as np
from scipy.special import betaincinv

from corrnoise.theory.numerics.checks import Array

LEVEL = 1e-10


def _numbers(smaller: Any, larger: Any) -> tuple[Array, Array]:
    s, g = np.broadcast_arrays(np.asarray(smaller, dtype=float), np.asarray(larger, dtype=float))
    if s.size == 0:
        raise ValueError("sides must have entries, got empty arrays")
    return s, g


def least(margins: Array, tolerance: float) -> float:
    """The smallest margin.  It is nan if some margin is nan and no other is below −tolerance."""
    found = float(np.fmin.reduce(margins, axis=None))
    return found if found < -tolerance else float(margins.min())


def margins(smaller: Any, larger: Any) -> Array:
    """(larger − smaller)/max(|smaller|, |larger|) in [−2, 2] for each entry of the sides.

    It is 0 for equal sides, also infinite ones, ±1 if one side is infinite, and nan if a side is nan.
    """
    s, g = _numbers(smaller, larger)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(s), np.abs(g))
        values = np.where(np.isinf(scale), np.sign(g - s), np.clip((g - s) / scale, -2, 2))
    return np.where(s == g, 0.0, values)


def agreements(left: Any, right: Any) -> Array:
    """Minus the difference of each entry of two sides, relative to their largest finite entry; in [−2, 0].

    It is −1 if one side is infinite and not equal to the other, and nan if a side is nan.
    """
    x, y = _numbers(left, right)
    finite = np.isfinite(x) & np.isfinite(y)
    scale = np.maximum(np.abs(x), np.abs(y)).max(where=finite, initial=0.0)
    with np.errstate(all="ignore"):
        values = np.where(
            finite, np.clip(-np.abs(x - y) / scale, -2, 0), np.where(np.isnan(x) | np.isnan(y), np.nan, -1)
        )
    return np.where(x == y, 0.0, values)


def sums(left: Any, right: Any) -> tuple[float, float]:
    """The sums of the ``left`` and of the ``right`` terms, each with the sum of the magnitudes of all terms added.

    So the difference of sides near 0, whose terms cancel, is compared with these terms.
    """
    size = float(np.abs(left).sum() + np.abs(right).sum())
    return size + float(np.sum(left)), size + float(np.sum(right))


def twice(found: float, again: float) -> float:
    """``found``, a number of the order of 1 that another computation finds ``again``; infinite where they differ.

    So a statement with it on the smaller side fails, and one with −``twice``(−x, −y) on the larger side.
    """
    return found if math.isclose(found, again, rel_tol=1e-9, abs_tol=1e-9) else math.inf


# -- statements with a probability -------------------------------------------------------------------------------------


def least_probability(violations: int, runs: int, level: float = LEVEL) -> float:
    """The lower confidence limit of the probability of a violation, after ``violations`` in ``runs`` runs."""
    return float(betaincinv(violations, runs - violations + 1, level)) if violations else 0.0


def margin_of_runs(smaller: Any, larger: Any, allowed: float, tolerance: float) -> float:
    """The margin of the least probability of smaller > larger against ``allowed``; see ``margin``.

    The sides have runs along axis 0; nan is a violation, because no run may be left out.  ``allowed`` is the probability p
    with which the statement may fail.  Too few runs, with which it could not be rejected, are a ``ValueError``.
    """
    s, g = np.broadcast_arrays(np.asarray(smaller, dtype=float), np.asarray(larger, dtype=float))
    runs = s.shape[0] if s.ndim else 1
    if least_probability(runs, runs) <= allowed:
        raise ValueError(f"{runs} runs cannot show a probability above {allowed:g}")
    fine = s - g <= tolerance * np.maximum(np.abs(s), np.abs(g))
    violations = runs - int(np.count_nonzero(fine.reshape(runs, -1).all(axis=1)))
    return float(margins(least_probability(violations, runs), allowed))
