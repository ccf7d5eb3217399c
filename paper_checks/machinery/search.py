"""Search for the worst case: the point of the unit cube where a margin is smallest.

The search evaluates the corners first, because the worst cases of inequalities tend to lie at the ends of domains.
Points on the faces and inside follow, both from a Latin hypercube sample.  Then pattern searches start from the best
points that are not neighbours, with steps along axes and random directions that shrink from a quarter to 2⁻³⁰.  The
margin may be discontinuous, and nan rejects a point.  Equal arguments give equal results.

A search is not a proof.  With the default number of evaluations it is certain to evaluate every corner in up to six
dimensions.  Tests show that it finds a strip across a square that is 1 % wide and parallel to an axis, and a narrow
valley with wide slopes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from corrnoise.paper_checks.machinery.margins import least
from corrnoise.theory.numerics.checks import Array

ENTRIES = 8  #: most entries of the sides with a smallest margin of their own
_MAX_CORNERS = 2**6
_DESCENT_STARTS = 4
_CANDIDATE_POINTS = 2048
_SMALLEST_STEP = 2.0**-30


@dataclass(frozen=True, eq=False)
class Worst:
    """The smallest margin found, its place, and the numbers of points tried and accepted (margin not nan).

    The others are of the first sample alone, because the pattern searches stay where points are accepted and margins are
    small.  ``share`` is the part of it that is accepted.  ``smallest`` and ``medians`` are the least and the median margin of each
    entry in each case that has accepted points, entries first; where points differ in the number of entries, or there
    are more than ``ENTRIES``, of the smallest of all.
    """

    margin: float
    point: Array
    tried: int
    accepted: int
    share: float
    smallest: tuple[float, ...] = ()
    medians: tuple[float, ...] = ()


def _corners(dimension: int, seed: int) -> Iterator[Array]:
    """The corners of the cube; in many dimensions a random sample, and corners with at most one differing coordinate."""
    if 2**dimension <= _MAX_CORNERS:
        yield from (np.array(corner) for corner in product((0.0, 1.0), repeat=dimension))
        return
    for end in (0.0, 1.0):
        yield np.full(dimension, end)
        for k in range(dimension):
            corner = np.full(dimension, end)
            corner[k] = 1 - end
            yield corner
    yield from np.round(_sample(dimension, _MAX_CORNERS, seed))


def _sample(dimension: int, points: int, seed: int) -> Array:
    """A Latin hypercube sample, shape (points, dimension): in each coordinate one point for each of equal intervals."""
    rng = np.random.default_rng(seed)
    intervals = rng.permuted(np.tile(np.arange(points), (dimension, 1)), axis=1).T
    return (intervals + rng.random((points, dimension))) / points


def _faces(dimension: int, points: int, seed: int) -> Iterator[Array]:
    """Points on the faces, an equal part of one sample on each; in one dimension the faces are the corners."""
    if dimension > 1:
        chosen = _sample(dimension, points, seed)
        for k, point in enumerate(chosen):
            face, end = divmod(2 * dimension * k // len(chosen), 2)
            point[face] = end
            yield point


def sample_points(dimension: int, points: int, seed: int = 0) -> list[Array]:
    """The middle of the cube, its corners, and as many points on the faces as inside, about ``points`` of each."""
    if dimension == 0:
        return [np.empty(0)]
    middle = np.full(dimension, 0.5)
    faces = _faces(dimension, points, seed + 2)
    return [middle, *_corners(dimension, seed + 3), *faces, *_sample(dimension, points, seed)]


class _ClaimSearch:
    """The points evaluated so far, and whether a margin below ``enough`` is among them."""

    def __init__(
        self, margin: Callable[[Array], float | Array], enough: float, cases: Callable[[Array], Array]
    ) -> None:
        self.margin = margin
        self.cases = cases
        self.enough = enough
        self.found: list[tuple[float, Array]] = []
        self.entries: list[Array] = []
        self.tried = 0
        self.finished = False

    def evaluate(self, point: Array) -> float:
        self.tried += 1
        entries = np.ravel(self.margin(point))
        value = least(entries, -self.enough)
        if not np.isnan(value):
            self.found.append((value, point))
            self.entries.append(entries)
            self.finished = self.finished or value < self.enough
        return value

    def best(self) -> tuple[float, Array] | None:
        return min(self.found, key=lambda entry: entry[0], default=None)

    def in_cases(self) -> list[Array]:
        """The margins of the points so far, of each entry or of all, in each case, as ``Worst`` orders them."""
        sizes = {entries.size for entries in self.entries}
        few = len(sizes) == 1 and max(sizes) <= ENTRIES
        every = np.array(self.entries if few else [[value] for value, _ in self.found])
        cases = np.array([self.cases(point) for _, point in self.found])
        found = (margins[case] for margins, case in product(every.T, cases.T))
        return [margins for margins in found if margins.size]

    def starts(self, apart: float) -> list[tuple[float, Array]]:
        """The best points without a better point within ``apart`` in every coordinate: one for each valley."""
        found = sorted(self.found, key=lambda entry: entry[0])[:_CANDIDATE_POINTS]
        points = np.array([point for _, point in found])
        chosen: list[tuple[float, Array]] = []
        for k, (value, point) in enumerate(found):
            if (np.abs(points[:k] - point).max(axis=1) > apart).all():
                chosen.append((value, point))
        return chosen[:_DESCENT_STARTS]

    def descend(self, value: float, point: Array, step: float, evaluations: int, rng: np.random.Generator) -> None:
        """Pattern search: move to the first better point along an axis or a random direction, or halve the step.

        A direction that decreased the margin is tried first the next time.
        """
        dimension = point.size
        last = self.tried + evaluations
        along = None
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
                    value = new
                    point = candidate
                    along = direction
                    break
            step = step / 2 if along is None else min(2 * step, 0.25)


def worst_case(
    margin: Callable[[Array], float | Array],
    dimension: int,
    *,
    evaluations: int = 512,
    seed: int = 0,
    enough: float = -np.inf,
    points: Iterable[Array] | None = None,
    cases: Callable[[Array], Array] = lambda _: np.array([True]),
) -> Worst:
    """Minimise ``margin`` over [0, 1]^dimension with about ``evaluations`` calls, until one is below ``enough``.

    ``margin`` is called with a point, shape (dimension,), and is nan outside the domain; of an array the smallest entry
    counts, and it is nan if an entry is nan and none is below ``enough``.  The corners and every descent take a minimum
    number of calls, which may exceed ``evaluations`` in many dimensions.  Of a finite domain only its ``points`` are
    evaluated.  ``cases`` says to which cases a point belongs, a bool for each.
    """
    search = _ClaimSearch(margin, enough, cases)
    points = [np.empty(0)] if dimension == 0 else points
    if points is not None:
        for point in points:
            if not search.finished:
                search.evaluate(point)
        sample, share = search.in_cases(), len(search.found) / search.tried
    else:
        faces = list(_faces(dimension, evaluations // 8, seed + 2))
        inside = _sample(dimension, max(evaluations // 3 + evaluations // 8 - len(faces), 1), seed)
        for point in (*_corners(dimension, seed + 3), np.full(dimension, 0.5), *faces, *inside):
            if not search.finished:
                search.evaluate(point)
        spacing = min(float(len(inside)) ** (-1 / dimension), 0.25)
        sample, share = search.in_cases(), len(search.found) / search.tried
        starts = search.starts(2 * spacing)
        rng = np.random.default_rng(seed + 1)
        for left, (value, point) in zip(range(len(starts), 0, -1), starts, strict=True):
            if not search.finished:
                budget = max((evaluations - search.tried) // left, 8 * dimension)
                search.descend(value, point, spacing, budget, rng)
    value, point = search.best() or (np.nan, np.full(dimension, np.nan))
    smallest = tuple(float(np.fmin.reduce(margins)) for margins in sample)
    medians = tuple(float(np.nanmedian(margins)) for margins in sample)
    return Worst(value, point, search.tried, len(search.found), share, smallest, medians)
