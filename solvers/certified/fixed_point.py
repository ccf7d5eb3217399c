"""A fixed point between two bounds: Anderson acceleration that falls back on a monotone iteration.

The optimum of a finite run is the maximum of a dual problem.  Each dual point gives a lower bound of the optimum, a
strategy, hence an upper bound, and a better dual point.  This better point is the plain step, which never lowers the
lower bound.  Anderson's method extrapolates from the last few steps; where the extrapolation loses more than it could
win, the plain step from the best point is taken instead.

Sources: D. G. Anderson, Iterative procedures for nonlinear integral equations, J. ACM 12, 1965; H. F. Walker, P. Ni,
Anderson acceleration for fixed-point iterations, SIAM J. Numer. Anal. 49, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from corrnoise.theory.numerics.checks import Array

_EXTRAPOLATED_STEPS = 6  # earlier iterates
_MIN_SINGULAR_VALUE = 1e-12  # relative singular values that the extrapolation ignores

Point = TypeVar("Point")


class Evaluation(NamedTuple, Generic[Point]):
    """The values at one dual point: two bounds of the optimum, the plain step, and whatever else is kept."""

    lower: float
    upper: float
    plain: Array
    point: Point


class Bracket(NamedTuple, Generic[Point]):
    """The evaluations with the best bounds, and how many there were."""

    low: Evaluation[Point]
    high: Evaluation[Point]
    iterations: int


def _extrapolated(points: list[Array], images: list[Array]) -> Array:
    """The affine combination of the images whose residual, the same combination of image − point, is least."""
    residuals = np.array(images) - np.array(points)
    if len(points) == 1:
        return images[0]
    weights = np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1], rcond=_MIN_SINGULAR_VALUE)[0]
    return np.asarray(images[-1] - weights @ np.diff(np.array(images), axis=0))


def bracket_optimum(
    evaluate: Callable[[Array], Evaluation[Point]], start: Array, *, tolerance: float, max_iterations: int
) -> Bracket[Point]:
    """Iterate until upper <= lower (1 + ``tolerance``) or ``max_iterations`` points are evaluated."""
    trial = start
    now = evaluate(start)
    low = high = now
    points, images = [start], [now.plain]
    iterations = 1
    while not high.upper <= low.lower * (1 + tolerance) and iterations < max_iterations:
        trial = _extrapolated(points, images)
        now = evaluate(trial)
        iterations += 1
        possible = high.upper / low.lower - 1
        if not now.lower >= low.lower * (1 - possible):
            points, images = [], []
            trial = low.plain
            now = evaluate(trial)
            iterations += 1
        low = now if now.lower > low.lower else low
        high = now if now.upper < high.upper else high
        points, images = [*points[-_EXTRAPOLATED_STEPS:], trial], [*images[-_EXTRAPOLATED_STEPS:], now.plain]
    return Bracket(low, high, iterations)
