"""Search for the worst case: the point of the unit cube where a margin is smallest.

Corners and neighbours of corners come first, because the worst cases of inequalities tend to lie at ends of domains;
then a scrambled Sobol set; then pattern searches from the best points so far, whose steps along axes and random
directions shrink from a quarter to 2⁻³⁰.  Nothing is assumed of the margin: it may jump, and nan rejects a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from corrnoise.theory.checks import Array

_CORNERS = 2**6
_STARTS = 4
_SMALLEST_STEP = 2.0**-30


@dataclass(frozen=True)
class Worst:
    """The smallest margin found, where, and how many points were tried and accepted (not rejected by nan)."""

    margin: float
    point: Array
    tried: int
    accepted: int


def _corners(dimension: int) -> Iterator[Array]:
    """The corners of the cube, or where they are too many those with at most one coordinate unlike the others."""
    if 2**dimension <= _CORNERS:
        yield from (np.array(corner) for corner in product((0.0, 1.0), repeat=dimension))
        return
    for end in (0.0, 1.0):
        yield np.full(dimension, end)
        for k in range(dimension):
            corner = np.full(dimension, end)
            corner[k] = 1 - end
            yield corner


def _sobol(dimension: int, points: int, seed: int) -> Array:
    from scipy.stats import qmc

    exponent = max(int(np.ceil(np.log2(max(points, 1)))), 0)
    return np.asarray(qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed)).random_base2(exponent))


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

    def best(self, count: int) -> list[tuple[float, Array]]:
        return sorted(self.found, key=lambda entry: entry[0])[:count]

    def descend(self, value: float, point: Array, evaluations: int, rng: np.random.Generator) -> None:
        """Pattern search: the first better point along an axis or a random direction, else half the step."""
        dimension, last, step = point.size, self.tried + evaluations, 0.25
        while self.tried < last and step > _SMALLEST_STEP:
            directions = np.concatenate([np.eye(dimension), -np.eye(dimension), rng.standard_normal((2, dimension))])
            moved = False
            for direction in rng.permutation(directions):
                candidate = np.clip(point + step * direction, 0, 1)
                if self.finished or (candidate == point).all():
                    continue
                new = self.evaluate(candidate)
                if new < value:
                    value, point, moved = new, candidate, True
                    break
            if self.finished:
                return
            step = min(2 * step, 0.25) if moved else step / 2


def worst_case(
    margin: Callable[[Array], float],
    dimension: int,
    *,
    evaluations: int = 512,
    seed: int = 0,
    enough: float = -np.inf,
) -> Worst:
    """Minimise ``margin`` over [0, 1]^dimension with about ``evaluations`` calls.

    Parameters
    ----------
    margin
        Called with a point, shape (dimension,); nan where the point is outside the domain.
    evaluations
        Budget; corners and pattern searches take half of it or more.
    seed
        Of the Sobol set and of the directions.
    enough
        Stop as soon as a margin below this is found.
    """
    search = _Search(margin, enough)
    if dimension == 0:
        search.evaluate(np.empty(0))
    else:
        sobol = _sobol(dimension, evaluations // 3, seed)
        for point in (*_corners(dimension), np.full(dimension, 0.5), *sobol):
            if not search.finished:
                search.evaluate(point)
        starts, rng = search.best(_STARTS), np.random.default_rng(seed + 1)
        each = max((evaluations - search.tried) // max(len(starts), 1), 8 * dimension)
        for value, point in starts:
            if not search.finished:
                search.descend(value, point, each, rng)
    value, point = (search.best(1) or [(np.nan, np.full(dimension, np.nan))])[0]
    return Worst(value, point, search.tried, len(search.found))
