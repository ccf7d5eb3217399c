"""Certificates: the proof of an inequality on a whole domain, by branch and bound in ball arithmetic.

The domain is a map from the unit cube.  Boxes are treated breadth first.  A box is done in one of two ways:

* the enclosures of both sides on the box do not overlap;
* the *mean value form* D(m) ± Σ |∂_i D(box)| h_i/2 is positive, where D = larger − smaller, m is the middle of the box
  and h its size, in the coordinates of the cube.

Every node of the formula must have a finite enclosure on the box, so D is defined there.  In the second case D is also
differentiable there: the arguments of min, max and |·| must be disjoint.  The box is convex, so the mean value theorem
applies on the segment from m.  A variable that bounds another one excludes the second case.  Any other box is halved
across the edge that matters most.  The inequality is refuted if it certainly fails at the middle of a box, whose
coordinates are floats.  If the number of boxes reaches its limit, or a box its smallest size, the answer is open.

The record of a proof has the formula and the tree of splits in preorder: the axis of each split, −1 or −2 for a box that
is done in the first or second way.  ``verification`` checks it by other software.

A function that has no formula is treated by ``certify_sides`` in the first way alone.  Such a function can leave ball
arithmetic: ``float(x)`` of a ball is its midpoint.  So sides that are not balls are refused, and on many boxes the
enclosures are compared with values at points of the box, which they must contain.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.terms import Formula, Untraceable
from corrnoise.theory.numerics.checks import Array

PRECISION = 96  #: bits of the balls
FORMAT = "corrnoise-certificate/1"
PROVED, REFUTED, OPEN = "proved", "refuted", "open"
BY_ENCLOSURE, BY_MEAN_VALUE = -1, -2  #: the two kinds of leaves
_REFUTED_BOX = -3
_SMALLEST_EDGE = 2.0**-48  #: so that coordinates of boxes and their middles are floats
_BOXES_PER_SAMPLE = 8  #: whose middle is looked at for a refutation
_BOXES_PER_LOOK = 64  #: between two looks at the clock
_COMPARED_BOXES, _BOXES_PER_COMPARISON = 64, 16  #: whose enclosures are compared with values at points


@dataclass(frozen=True, eq=False)
class BoxCertificate:
    """``answer`` is ``"proved"``, ``"refuted"`` (on ``box``) or ``"open"`` (``box`` was the last of those allowed).

    ``box`` holds the lower and upper ends of a part of the cube, shape (2, dimension); None if all is proved.  Of a
    formula, ``place`` has the values of the variables in its middle; if it is refuted, it certainly fails there.
    """

    answer: str
    boxes: int
    box: Array | None = None
    place: Mapping[str, float] | None = None
    formula: Formula | None = field(default=None, repr=False)
    tree: tuple[int, ...] = field(default=(), repr=False)

    @property
    def counterexample(self) -> Mapping[str, float] | None:
        """The values of the variables where a formula certainly fails; None if it is not refuted."""
        return self.place if self.answer == REFUTED else None

    def record(self, claim: str = "") -> dict[str, Any]:
        """The proof in the terms of JSON; ``claim`` states the theorem in words.

        Raises
        ------
        Untraceable
            If the function has no formula.
        ValueError
            If nothing is proved.
        """
        if self.formula is None:
            raise Untraceable("a function without a formula has no certificate to export")
        if self.answer != PROVED:
            raise ValueError(f"only a proof is a certificate, and the answer is {self.answer!r}")
        head = {"format": FORMAT, "claim": claim}
        return head | self.formula.content() | {"tree": list(self.tree), "digest": self.formula.digest}


# -- branch and bound --------------------------------------------------------------------------------------------------

Judge = Callable[[Array, int], int]  #: of a box and its number: the kind of leaf, or the axis across which to halve it


def _branched(judge: Judge, size: int, boxes: int, seconds: float | None) -> BoxCertificate:
    """Halve boxes until all are proved or one is refuted, the widest first: they refute soonest."""
    codes: list[tuple[int, ...]] = [()]  # of each box: the kind of leaf, or the axis and the places of the halves
    waiting = deque([(0, np.array([[0.0] * size, [1.0] * size]))])
    done = 0
    latest = None if seconds is None else time.monotonic() + seconds
    while waiting:
        place, box = waiting.popleft()
        done += 1
        late = latest is not None and done % _BOXES_PER_LOOK == 0 and time.monotonic() > latest
        code = judge(box, done)
        if code == _REFUTED_BOX:
            return BoxCertificate(REFUTED, done, box)
        if code < 0 and not late:
            codes[place] = (code,)
            continue
        if done + len(waiting) >= boxes or late or not size or box[1, code] - box[0, code] <= _SMALLEST_EDGE:
            return BoxCertificate(OPEN, done, box)
        lower, upper = box.copy(), box.copy()
        lower[1, code] = upper[0, code] = box[:, code].mean()
        codes[place] = (code, len(codes), len(codes) + 1)
        waiting += [(len(codes), lower), (len(codes) + 1, upper)]
        codes += [(), ()]
    tree, below = [], [0]
    while below:
        code, *halves = codes[below.pop()]
        tree.append(code)
        below += halves[::-1]
    return BoxCertificate(PROVED, done, tree=tuple(tree))


# -- formulas ----------------------------------------------------------------------------------------------------------


def _hull_of_ends(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that rises in each argument, on balls."""

    def enclosure(*balls: Any) -> Any:
        return function(*(ball.lower() for ball in balls)).union(function(*(ball.upper() for ball in balls)))

    return enclosure


@cache
def _operations() -> dict[str, Callable[..., Any]]:
    from flint import arb

    def mean(x: Any, y: Any) -> Any:
        return x.agm(y) if x > 0 and y > 0 else arb("nan")

    elementary = {name: getattr(arb, name) for name in ("sqrt", "exp", "log", "expm1", "log1p", "sin", "cos")}
    return elementary | {
        "neg": lambda x: -x,
        "abs": abs,
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: (x * x).nonnegative_part() if x is y else x * y,
        "div": lambda x, y: x / y,
        "power": lambda x, n: (x**n).nonnegative_part() if n % 2 == 0 else x**n,
        "min": lambda x, y: x.min(y),
        "max": lambda x, y: x.max(y),
        "agm": _hull_of_ends(mean),
    }


def _slopes(operation: str, x: Sequence[Any], value: Any) -> tuple[Any, ...] | None:
    """The partial derivatives of an operation by its operands; None where it may not be differentiable."""
    if operation in ("add", "sub"):
        return (1, 1 if operation == "add" else -1)
    if operation == "mul":
        return (x[1], x[0])
    if operation == "div":
        return (1 / x[1], -value / x[1])
    if operation in ("min", "max"):
        if not (x[0] < x[1] or x[1] < x[0]):
            return None
        first = bool(x[0] < x[1]) == (operation == "min")
        return (int(first), int(not first))
    if operation == "abs":
        return (1,) if x[0] > 0 else (-1,) if x[0] < 0 else None
    one = {
        "neg": lambda: -1,
        "sqrt": lambda: 1 / (2 * value),
        "exp": lambda: value,
        "expm1": lambda: x[0].exp(),
        "log": lambda: 1 / x[0],
        "log1p": lambda: 1 / (1 + x[0]),
        "sin": lambda: x[0].cos(),
        "cos": lambda: -x[0].sin(),
        "power": lambda: x[1] * x[0] ** (x[1] - 1),
    }.get(operation)
    return None if one is None else (one(),)


def _sum_of_products(slopes: Sequence[Any], inner: Sequence[Any]) -> Any:
    """Σ slope × inner over the inner derivatives that are not None, which stands for zero; None if all are."""
    products = [slope * each for slope, each in zip(slopes, inner, strict=True) if each is not None]
    return sum(products[1:], products[0]) if products else None


class _Enclosures:
    """The enclosures of the nodes of a formula on boxes, and of the derivatives of its difference."""

    def __init__(self, formula: Formula) -> None:
        from flint import arb, fmpq

        self.formula = formula
        self.functions = _operations()

        def ball(end: Any) -> Any:
            return end if isinstance(end, str) else arb(fmpq(end.numerator, end.denominator))

        self.ends = [(ball(one.low), ball(one.high)) for one in formula.ranges]
        self.names = {one.name: k for k, one in enumerate(formula.ranges)}
        self.numbers = [ball(node[1]) if node[0] == "number" else None for node in formula.nodes]
        self.pi = arb.pi()

    def variables(self, box: Array) -> list[Any]:
        """The variables on a box: each is monotone in its coordinate."""
        from flint import arb

        found: list[Any] = []
        for k, one in enumerate(self.formula.ranges):
            low, high = (found[self.names[end]] if isinstance(end, str) else end for end in self.ends[k])

            def at(u: float, low: Any = low, high: Any = high, scale: str = one.scale) -> Any:
                if u in (0, 1):
                    return high if u else low
                if scale == "linear":
                    return low + arb(u) * (high - low)
                return (low.log() + arb(u) * (high.log() - low.log())).exp()

            first = at(float(box[0, k]))
            found.append(first if box[0, k] == box[1, k] else first.union(at(float(box[1, k]))))
        return found

    def nodes(self, variables: Sequence[Any]) -> list[Any] | None:
        """The enclosures of all nodes; None unless they are finite."""
        values: list[Any] = []
        for (operation, *operands), number in zip(self.formula.nodes, self.numbers, strict=True):
            if number is not None:
                value = number
            elif operation == "variable":
                value = variables[operands[0]]
            elif operation == "pi":
                value = self.pi
            elif operation == "power":
                value = self.functions[operation](values[operands[0]], operands[1])
            else:
                value = self.functions[operation](*[values[k] for k in operands])
            if not value.is_finite():
                return None
            values.append(value)
        return values

    def gradient(self, variables: Sequence[Any], values: Sequence[Any]) -> list[Any] | None:
        """The derivatives of larger − smaller by the coordinates of the cube; None where they may not exist."""
        from flint import arb

        formula = self.formula
        zero: list[Any] = [None] * len(formula.ranges)
        found: list[list[Any]] = []
        for (operation, *operands), value in zip(formula.nodes, values, strict=True):
            row = zero
            if operation == "variable":
                row = list(zero)
                row[operands[0]] = 1
            elif operation not in ("number", "pi"):
                inner = [found[k] for k in operands[:2]] if operation != "power" else [found[operands[0]]]
                if any(each is not zero for each in inner):
                    x = [values[operands[0]], operands[1]] if operation == "power" else [values[k] for k in operands]
                    slopes = _slopes(operation, x, value)
                    if slopes is None:
                        return None
                    row = [_sum_of_products(slopes, [each[k] for each in inner]) for k in range(len(zero))]
            found.append(row)
        sides = zip(found[formula.larger], found[formula.smaller], strict=True)
        by_variable = [_sum_of_products((1, -1, 0), (*each, arb(0))) for each in sides]
        return [slope * x for slope, x in zip(by_variable, self.stretches(variables), strict=True)]

    def stretches(self, variables: Sequence[Any]) -> list[Any]:
        """The derivatives of the variables by their coordinates."""
        found = []
        for one, (low, high), x in zip(self.formula.ranges, self.ends, variables, strict=True):
            found.append(high - low if one.scale == "linear" else (high / low).log() * x)
        return found

    def surely(self, values: Sequence[Any] | None, allowance: Any = 0) -> bool:
        """Whether the inequality surely holds, by at least the allowance."""
        if values is None:
            return False
        smaller, larger = values[self.formula.smaller], values[self.formula.larger]
        return bool(smaller + allowance < larger if self.formula.strict else smaller + allowance <= larger)

    def fails(self, values: Sequence[Any] | None) -> bool:
        """Whether the inequality surely fails."""
        if values is None:
            return False
        smaller, larger = values[self.formula.smaller], values[self.formula.larger]
        return bool(smaller >= larger if self.formula.strict else smaller > larger)

    def finite_without(self, box: Array, axis: int) -> bool:
        """Whether all nodes have finite enclosures on a box that is reduced to its middle along an axis."""
        flat = box.copy()
        flat[:, axis] = box[:, axis].mean()
        return self.nodes(self.variables(flat)) is not None

    def sample(self, box: Array) -> list[float]:
        """The variables at the middle of a box, as floats within their ranges."""
        middle = box.mean(axis=0)
        return [float(x.mid()) for x in self.variables(np.array([middle, middle]))]


def certify(formula: Formula, *, boxes: int = 20_000, seconds: float | None = 60) -> BoxCertificate:
    """Prove a formula on its domain, refute it, or leave it open.

    Parameters
    ----------
    formula : Formula
        The inequality.
    boxes : int, default 20_000
        The most boxes to treat.
    seconds : float or None, default 60
        The most seconds to take; None: any.

    Returns
    -------
    BoxCertificate
    """
    from flint import arb, ctx

    with ctx.workprec(PRECISION):
        enclosures = _Enclosures(formula)

        def judge(box: Array, number: int) -> int:
            variables = enclosures.variables(box)
            values = enclosures.nodes(variables)
            if enclosures.surely(values):
                return BY_ENCLOSURE
            edges = box[1] - box[0]
            gradient = None if formula.bounded or values is None else enclosures.gradient(variables, values)
            smear: list[Any] | None = None
            suspect = number % _BOXES_PER_SAMPLE == 1
            if gradient is not None:
                spans = [abs(slope) * arb(edge / 2) for slope, edge in zip(gradient, edges, strict=True)]
                if all(arb(span).is_finite() for span in spans):
                    middle = box.mean(axis=0)
                    there = enclosures.nodes(enclosures.variables(np.array([middle, middle])))
                    if enclosures.surely(there, sum(spans)):
                        return BY_MEAN_VALUE
                    suspect = suspect or enclosures.fails(there)
                    smear = [float(arb(span).upper()) for span in spans]
            if suspect:
                point = enclosures.sample(box)
                if enclosures.fails(enclosures.nodes([arb(x) for x in point])) and _inside(formula, point):
                    return _REFUTED_BOX
            if smear is None:  # then the axis is best whose collapse makes all enclosures finite
                smear = [enclosures.finite_without(box, k) for k in range(edges.size)]
            return int(np.lexsort((edges, smear))[-1]) if edges.size else 0

        found = _branched(judge, len(formula.ranges), boxes, seconds)
        middle = None if found.box is None else enclosures.sample(found.box)
    place = None if middle is None else dict(zip((one.name for one in formula.ranges), middle, strict=True))
    return BoxCertificate(found.answer, found.boxes, found.box, place, formula, found.tree)


def _inside(formula: Formula, point: Sequence[float]) -> bool:
    """Whether a point lies in the domain, exactly."""
    from fractions import Fraction

    values = {one.name: Fraction(x) for one, x in zip(formula.ranges, point, strict=True)}
    ends = [[values[end] if isinstance(end, str) else end for end in (one.low, one.high)] for one in formula.ranges]
    return all(low <= x <= high for (low, high), x in zip(ends, values.values(), strict=True))


# -- functions without a formula ---------------------------------------------------------------------------------------

Sides = Callable[[Sequence[Any]], tuple[Any, Any]]


class _SidesInBalls:
    """Balls of the two sides, at points and on boxes."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self.rng = np.random.default_rng(0)

    def at(self, point: Sequence[Any]) -> tuple[Any, Any]:
        from flint import arb

        smaller, larger = self.sides(point)
        if not (isinstance(smaller, arb) or isinstance(larger, arb)):
            raise TypeError(f"sides must be balls where the arguments are, got {smaller!r} and {larger!r}")
        return arb(smaller), arb(larger)

    def on(self, box: Array) -> tuple[Any, Any]:
        from flint import arb

        return self.at([arb(low).union(arb(high)) for low, high in box.T])

    def compare(self, enclosures: tuple[Any, Any], box: Array) -> None:
        """Compare the enclosures on a box with values at two corners and at a random point of it."""
        from flint import arb

        for point in (box[0], box[1], self.rng.uniform(box[0], box[1])):
            for enclosure, value in zip(enclosures, self.at([arb(float(u)) for u in point]), strict=True):
                if enclosure.is_finite() and value.is_finite() and not enclosure.overlaps(value):
                    raise ArithmeticError(f"the enclosure {enclosure} of a box does not contain its value {value}")

    def left(self, box: Array, axis: int) -> float:
        """The margin that is left if the box is reduced to its middle along an axis."""
        flat = box.copy()
        flat[:, axis] = box[:, axis].mean()
        smaller, larger = self.on(flat)
        margin = float((larger - smaller).lower())
        return margin if np.isfinite(margin) else -np.inf

    def judge(self, box: Array, number: int) -> int:
        smaller, larger = self.on(box)
        if number <= _COMPARED_BOXES or number % _BOXES_PER_COMPARISON == 0:
            self.compare((smaller, larger), box)
        if smaller <= larger:
            return BY_ENCLOSURE
        if smaller > larger:
            return _REFUTED_BOX
        size = box.shape[1]
        if size < 2:
            return 0
        return max(range(size), key=lambda k: (self.left(box, k), box[1, k] - box[0, k]))


def certify_sides(sides: Sides, size: int, *, boxes: int = 50_000) -> BoxCertificate:
    """Prove smaller <= larger for (smaller, larger) = ``sides(balls)`` on all of [0, 1]^size, or say where not.

    Parameters
    ----------
    sides : callable
        Balls of both sides at balls of the coordinates.
    size : int
        The number of coordinates.
    boxes : int, default 50_000
        The most boxes to treat.

    Returns
    -------
    BoxCertificate

    Raises
    ------
    TypeError
        If the sides are not balls.
    ArithmeticError
        If a ball does not contain a value that it must contain.
    """
    from flint import ctx

    balls = _SidesInBalls(sides)
    with ctx.workprec(PRECISION):
        return _branched(balls.judge, size, boxes, None)
