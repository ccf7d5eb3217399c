"""Certification: the proof of an inequality on a whole box, by ball arithmetic and adaptive subdivision.

The box is the unit cube of a claim's domain.  If the balls of both sides on a box do not overlap, the inequality is
proved or refuted there.  Any other box is halved across the edge that matters most.  If the number of boxes reaches its
limit, the answer is open.  Places that ball arithmetic cannot treat, such as an end where both sides are equal or
infinite, are left out of the domain and need a separate argument.

The proof is only as good as the enclosures.  A function that leaves ball arithmetic would be certified wrongly:
``float(x)`` of a ball is its midpoint, and ``max`` and ``if`` choose between overlapping balls.  So sides that are not
balls are refused, and on many boxes the enclosures are compared with values at points of the box, which they must
contain.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from corrnoise.theory.numerics.checks import Array

PRECISION = 96  #: bits of the balls


@dataclass(frozen=True, eq=False)
class BoxCertificate:
    """``answer`` is ``"proved"``, ``"refuted"`` (on ``box``) or ``"open"`` (``box`` was the last of those allowed).

    ``box`` holds the lower and upper ends of a part of the cube, shape (2, dimension); None if all is proved.
    """

    answer: str
    boxes: int
    box: Array | None = None


def monotone(
    *signs: int, within: Sequence[tuple[Any, Any] | None] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Evaluate a function that is increasing (+1) or decreasing (−1) in each argument at the ends of wide balls only.

    Ball arithmetic treats two occurrences of one variable as independent, so its enclosures on wide balls are too wide.
    The values at the two extreme corners enclose the range exactly.  The docstring of the function must prove the
    monotonicity, and ``within`` says where the proof holds: (lowest, highest) for each argument, numbers or decimal
    strings; None: everywhere.  The ends of balls, which are wider than their boxes by about 1e-9 of the width, are
    clipped to it.  Arguments that are not balls are passed on unchanged.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def ends(*arguments: Any) -> Any:
            from flint import arb

            if not any(isinstance(argument, arb) for argument in arguments):
                return function(*arguments)
            low, high = [], []
            for argument, sign, limits in zip(arguments, signs, within or [None] * len(signs), strict=True):
                bottom = arb(argument).lower()
                top = arb(argument).upper()
                if limits is not None:
                    bottom, top = bottom.max(arb(limits[0])), top.min(arb(limits[1]))
                low.append(bottom if sign > 0 else top)
                high.append(top if sign > 0 else bottom)
            return function(*low).union(function(*high))

        return ends

    return decorate


def _compared(boxes: int) -> bool:
    """Whether the enclosure on the box of this number is compared with values at points: 64 boxes, then one in 16."""
    return boxes <= 64 or boxes % 16 == 0


class _Enclosures:
    """Balls of the two sides, at points and on boxes."""

    def __init__(self, sides: Callable[[Sequence[Any]], tuple[Any, Any]]) -> None:
        self.sides = sides
        self.rng = np.random.default_rng(0)

    def balls(self, point: list[Any]) -> tuple[Any, Any]:
        from flint import arb

        smaller, larger = self.sides(point)
        if not (isinstance(smaller, arb) or isinstance(larger, arb)):
            raise TypeError(f"sides must be balls where the arguments are, got {smaller!r} and {larger!r}")
        return arb(smaller), arb(larger)

    def on(self, box: Array) -> tuple[Any, Any]:
        from flint import arb

        return self.balls([arb(low).union(arb(high)) for low, high in box.T])

    def compare(self, enclosures: tuple[Any, Any], box: Array) -> None:
        """Compare the enclosures on a box with values at two corners and at a random point of it."""
        from flint import arb

        for point in (box[0], box[1], self.rng.uniform(box[0], box[1])):
            for enclosure, value in zip(enclosures, self.balls([arb(float(u)) for u in point]), strict=True):
                if enclosure.is_finite() and value.is_finite() and not enclosure.overlaps(value):
                    raise ArithmeticError(f"the enclosure {enclosure} of a box does not contain its value {value}")

    def halves(self, box: Array) -> list[Array]:
        """The halves of a box across the edge whose reduction to its middle leaves the largest margin.

        Among edges that are equally good the longest is taken.  The list is empty if no float lies between the ends.
        """
        if box.size == 0:
            return []
        middle = box.mean(axis=0)
        found = []
        for k in range(box.shape[1] if box.shape[1] > 1 else 0):
            flat = box.copy()
            flat[:, k] = middle[k]
            smaller, larger = self.on(flat)
            margin = float((larger - smaller).lower())
            found.append(margin if np.isfinite(margin) else -np.inf)
        edge = max(range(len(found)), key=lambda k: (found[k], box[1, k] - box[0, k]), default=0)
        if not box[0, edge] < middle[edge] < box[1, edge]:
            return []
        lower, upper = box.copy(), box.copy()
        lower[1, edge] = upper[0, edge] = middle[edge]
        return [lower, upper]


def certify(
    sides: Callable[[Sequence[Any]], tuple[Any, Any]], dimension: int, *, boxes: int = 50_000
) -> BoxCertificate:
    """Prove smaller <= larger for (smaller, larger) = ``sides(balls)`` on all of [0, 1]^dimension, or say where not.

    At most so many boxes are treated.  Sides that are not balls are a ``TypeError``, and a ball that does not contain a
    value that it must contain is an ``ArithmeticError``.
    """
    from flint import ctx

    enclosures = _Enclosures(sides)
    waiting = deque([np.array([[0.0] * dimension, [1.0] * dimension])])  # the widest boxes first: they refute soonest
    done = 0
    with ctx.workprec(PRECISION):
        while waiting:
            box = waiting.popleft()
            done += 1
            smaller, larger = enclosures.on(box)
            if _compared(done):
                enclosures.compare((smaller, larger), box)
            if smaller <= larger:
                continue
            if smaller > larger:
                return BoxCertificate("refuted", done, box)
            halves = enclosures.halves(box)
            if done + len(waiting) >= boxes or not halves:
                return BoxCertificate("open", done, box)
            waiting += halves
    return BoxCertificate("proved", done)
