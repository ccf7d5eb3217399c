"""Search for the worst case: the point of the unit cube where a margin is smallest.

Corners come first, because the worst cases of inequalities tend to lie at ends of domains; then points on the faces and
inside, both from a Latin hypercube sample; then pattern searches from the best points so far that are not neighbours,
whose steps along axes and random directions shrink from a quarter to 2⁻³⁰.  Nothing is assumed of the margin: it may
jump, and nan rejects a point.  Equal arguments give equal results.

A search proves nothing.  What it is sure to meet with the default budget: every corner of up to six dimensions, a strip
across a square that is 1 % wide and parallel to an axis, and a narrow valley whose slopes are wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from corrnoise.theory.numerics.checks import Array

_CORNERS = 2**6
_STARTS = 4
_CANDIDATES = 2048
_SMALLEST_STEP = 2.0**-30


@dataclass(frozen=True, eq=False)
class Worst:
    """The smallest margin found, where, and how many points were tried and accepted (not rejected by nan).

    ``share`` is the share accepted of the first sample, which searches that stay where they are accepted do not enter.
    """

    margin: float
    point: Array
    tried: int
    accepted: int
    share: float


def _corners(dimension: int, seed: int) -> Iterator[Array]:
    """The corners of the cube; where they are too many, those with at most one coordinate unlike the others and some."""
    if 2**dimension <= _CORNERS:
        yield from (np.array(corner) for corner in product((0.0, 1.0), repeat=dimension))
        return
    for end in (0.0, 1.0):
        yield np.full(dimension, end)
        for k in range(dimension):
            corner = np.full(dimension, end)
            corner[k] = 1 - end
            yield corner
    yield from np.round(_sample(dimension, _CORNERS, seed))


def _sample(dimension: int, points: int, seed: int) -> Array:
    """A Latin hypercube sample, shape (points, dimension): in each coordinate one point for each of equal intervals.

    (``scipy.stats.qmc`` would take a second to import.)
    """
    rng = np.random.default_rng(seed)
    intervals = rng.permuted(np.tile(np.arange(points), (dimension, 1)), axis=1).T
    return (intervals + rng.random((points, dimension))) / points


def _faces(dimension: int, points: int, seed: int) -> Iterator[Array]:
    """Points of the faces, a stretch of one sample on each; in one dimension the faces are the corners."""
    if dimension > 1:
        chosen = _sample(dimension, points, seed)
        for k, point in enumerate(chosen):
            face, end = divmod(2 * dimension * k // len(chosen), 2)
            point[face] = end
            yield point


class _Search:
    """The points evaluated so far, and whether a margin below ``enough`` is among them."""

    def __init__(self, margin: Callable[[Array], float], enough: float) -> None:
        self.margin, self.enough = margin, enough
        self.found: list[tuple[float, Array]] = []
        self.tried, self.finished = 0, False

    def evaluate(self, point: Array) -> float:
        self.tried += 1
        value = float(self.margin(point))
        if not np.isnan(value):
            self.found.append((value, point))
            self.finished = self.finished or value < self.enough
        return value

    def best(self) -> tuple[float, Array] | None:
        return min(self.found, key=lambda entry: entry[0], default=None)

    def starts(self, apart: float) -> list[tuple[float, Array]]:
        """The best points that have no better one so close in every coordinate: one for each valley."""
        found = sorted(self.found, key=lambda entry: entry[0])[:_CANDIDATES]
        points = np.array([point for _, point in found])
        chosen: list[tuple[float, Array]] = []
        for k, (value, point) in enumerate(found):
            if (np.abs(points[:k] - point).max(axis=1) > apart).all():
                chosen.append((value, point))
        return chosen[:_STARTS]

    def descend(self, value: float, point: Array, step: float, evaluations: int, rng: np.random.Generator) -> None:
        """Pattern search: the first better point along an axis or a random direction, else half the step.

        A direction that led down is tried first the next time.
        """
        dimension, last, along = point.size, self.tried + evaluations, None
        while self.tried < last and step > _SMALLEST_STEP:
            directions = np.concatenate([np.eye(dimension), -np.eye(dimension), rng.standard_normal((2, dimension))])
            rng.shuffle(directions)
            trials = directions if along is None else np.concatenate([[along], directions])
            along = None
            for direction in trials:
                candidate = np.clip(point + step * direction, 0, 1)
                if (candidate == point).all():
                    continue
                new = self.evaluate(candidate)
                if self.finished:
                    return
                if new < value:
                    value, point, along = new, candidate, direction
                    break
            step = step / 2 if along is None else min(2 * step, 0.25)


def worst_case(
    margin: Callable[[Array], float],
    dimension: int,
    *,
    evaluations: int = 512,
    seed: int = 0,
    enough: float = -np.inf,
    points: Iterable[Array] | None = None,
) -> Worst:
    """Minimise ``margin`` over [0, 1]^dimension with about ``evaluations`` calls.

    Parameters
    ----------
    margin
        Called with a point, shape (dimension,); nan where the point is outside the domain.
    evaluations
        Budget.  Corners and every descent get what they need at least; in many dimensions that may be more.
    seed
        Of the samples and of the directions.
    enough
        Stop as soon as a margin below this is found.
    points
        All there are, if they are few: these are evaluated, and no others.
    """
    search = _Search(margin, enough)
    points = [np.empty(0)] if dimension == 0 else points
    if points is not None:
        for point in points:
            if not search.finished:
                search.evaluate(point)
        share = len(search.found) / search.tried
    else:
        faces = list(_faces(dimension, evaluations // 8, seed + 2))
        inside = _sample(dimension, max(evaluations // 3 + evaluations // 8 - len(faces), 1), seed)
        for point in (*_corners(dimension, seed + 3), np.full(dimension, 0.5), *faces, *inside):
            if not search.finished:
                search.evaluate(point)
        spacing = min(float(len(inside)) ** (-1 / dimension), 0.25)
        share = len(search.found) / search.tried
        starts, rng = search.starts(2 * spacing), np.random.default_rng(seed + 1)
        for left, (value, point) in zip(range(len(starts), 0, -1), starts, strict=True):
            if not search.finished:
                budget = max((evaluations - search.tried) // left, 8 * dimension)
                search.descend(value, point, spacing, budget, rng)
    value, point = search.best() or (np.nan, np.full(dimension, np.nan))
    return Worst(value, point, search.tried, len(search.found), share)


def equality(margin: Callable[[float], float], value: float) -> float | None:
    """The constant at which ``margin``, a function of one constant with ``value`` as default, is 0; None if not found.

    A constant that is a factor of one side is found at once, any other between e⁻³² and e³² times the default.
    """
    least = margin(value)
    if least == 0:
        return value
    for guess in (value * (1 - least), value / (1 - least)) if least < 1 else ():
        if abs(margin(guess)) <= 1e-6 * abs(least) + 1e-15:
            return guess

    def scaled(exponent: float) -> float:
        return margin(value * math.exp(exponent))

    from scipy.optimize import brentq

    for end in (sign * 2.0**k for k in range(-3, 6) for sign in (1, -1)):
        if least * scaled(end) < 0:
            return value * math.exp(brentq(scaled, 0, end, xtol=1e-12))
    return None
