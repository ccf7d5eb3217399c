"""Certification: an inequality on all of a box, by ball arithmetic and adaptive subdivision.

The box is the unit cube of a claim's domain.  A part on which the balls of both sides are certainly ordered is done,
the right way round (proved) or the wrong way (refuted); any other part is halved across its longest edge, until the
budget of boxes is spent (open).  What ball arithmetic cannot reach, such as an end where both sides are equal or
infinite, stays outside the domain and needs an argument of its own.

An answer is as good as the enclosures.  A function that leaves ball arithmetic on the way (``float(x)`` of a ball is
its midpoint, ``max`` and ``if`` choose between overlapping balls) would be certified wrongly; so sides that are no
balls are refused, and on many boxes the enclosures are compared with values at points of the box, which they must
contain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from corrnoise.theory.checks import Array

PRECISION = 96  #: bits of the balls


@dataclass(frozen=True, eq=False)
class Certificate:
    """``answer`` is ``"proved"``, ``"refuted"`` (on ``box``) or ``"open"`` (at ``box``, when the budget was spent).

    ``box`` holds the lower and upper ends of a part of the cube, shape (2, dimension); None where all is proved.
    """

    answer: str
    boxes: int
    box: Array | None = None


def monotone(
    *signs: int, within: Sequence[tuple[Any, Any] | None] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Evaluate a function that is increasing (+1) or decreasing (−1) in each argument at the ends of wide balls only.

    A naive evaluation on a wide ball forgets that the same number occurs twice; the values at the two extreme corners
    enclose the range exactly.  The docstring of the function must prove the monotonicity.  Other numbers pass through.

    Parameters
    ----------
    signs
        One for each argument.
    within
        Where the proof holds, (lowest, highest) for each argument (None: everywhere; numbers or decimal strings).  A
        ball is wider than the box it stands for, by about 1e-9 of its width; its ends are drawn back to here.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def ends(*arguments: Any) -> Any:
            from flint import arb

            if not any(isinstance(argument, arb) for argument in arguments):
                return function(*arguments)
            low, high = [], []
            for argument, sign, limits in zip(arguments, signs, within or [None] * len(signs), strict=True):
                bottom, top = arb(argument).lower(), arb(argument).upper()
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


def _halves(box: Array) -> list[Array]:
    """The halves of a box across its longest edge; none where no number lies between."""
    if box.size == 0:
        return []
    edge = int(np.argmax(box[1] - box[0]))
    middle = box[:, edge].mean()
    if not box[0, edge] < middle < box[1, edge]:
        return []
    lower, upper = box.copy(), box.copy()
    lower[1, edge] = upper[0, edge] = middle
    return [lower, upper]


def certify(sides: Callable[[Sequence[Any]], tuple[Any, Any]], dimension: int, *, boxes: int = 50_000) -> Certificate:
    """Prove smaller <= larger for (smaller, larger) = ``sides(point)`` on all of [0, 1]^dimension, or say where not.

    Parameters
    ----------
    sides
        Called with a list of balls.
    boxes
        Budget.

    Raises
    ------
    TypeError
        The sides are no balls.
    ArithmeticError
        A ball does not contain a value that it must contain.
    """
    from flint import arb, ctx

    def balls(point: list[Any]) -> tuple[Any, Any]:
        smaller, larger = sides(point)
        if not (isinstance(smaller, arb) or isinstance(larger, arb)):
            raise TypeError(f"sides must be balls where the arguments are, got {smaller!r} and {larger!r}")
        return arb(smaller), arb(larger)

    def compare(enclosures: tuple[Any, Any], box: Array) -> None:
        for point in (box[0], box[1], rng.uniform(box[0], box[1])):
            for enclosure, value in zip(enclosures, balls([arb(float(u)) for u in point]), strict=True):
                if enclosure.is_finite() and value.is_finite() and not enclosure.overlaps(value):
                    raise ArithmeticError(f"the enclosure {enclosure} of a box does not contain its value {value}")

    rng = np.random.default_rng(0)
    waiting = deque([np.array([[0.0] * dimension, [1.0] * dimension])])  # the widest first, which refute soonest
    done = 0
    with ctx.workprec(PRECISION):
        while waiting:
            box = waiting.popleft()
            done += 1
            smaller, larger = balls([arb(low).union(arb(high)) for low, high in box.T])
            if _compared(done):
                compare((smaller, larger), box)
            if smaller <= larger:
                continue
            if smaller > larger:
                return Certificate("refuted", done, box)
            halves = _halves(box)
            if done + len(waiting) >= boxes or not halves:
                return Certificate("open", done, box)
            waiting += halves
    return Certificate("proved", done)
