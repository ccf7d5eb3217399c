"""Certification: a strict inequality on all of a box, by ball arithmetic and adaptive subdivision.

The box is the unit cube of a claim's domain.  A part on which the balls of both sides are apart is done, the right way
round (proved) or the wrong way (refuted); any other part is halved across its longest edge, until the budget of boxes
is spent (open).  What ball arithmetic cannot reach, such as an end where both sides are equal or infinite, stays
outside the domain and needs an argument of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corrnoise.theory.checks import Array

PRECISION = 96  #: bits of the balls


@dataclass(frozen=True)
class Certificate:
    """``answer`` is ``"proved"``, ``"refuted"`` (on ``box``) or ``"open"`` (at ``box``, when the budget was spent).

    ``box`` holds the lower and upper ends of a part of the cube, shape (2, dimension); None where all is proved.
    """

    answer: str
    boxes: int
    box: Array | None = None


def monotone(*signs: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Evaluate a function that is increasing (+1) or decreasing (−1) in each argument at the ends of wide balls only.

    A naive evaluation on a wide ball forgets that the same number occurs twice; the values at the two extreme corners
    enclose the range exactly.  The docstring of the function must prove the monotonicity.  Other numbers pass through.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def ends(*arguments: Any) -> Any:
            if not any(type(argument).__name__ == "arb" for argument in arguments):
                return function(*arguments)
            low = [a.lower() if sign > 0 else a.upper() for a, sign in zip(arguments, signs, strict=True)]
            high = [a.upper() if sign > 0 else a.lower() for a, sign in zip(arguments, signs, strict=True)]
            return function(*low).union(function(*high))

        ends.__doc__, ends.__name__ = function.__doc__, function.__name__
        return ends

    return decorate


def certify(sides: Callable[[Sequence[Any]], tuple[Any, Any]], dimension: int, *, boxes: int = 50_000) -> Certificate:
    """Prove smaller < larger for (smaller, larger) = ``sides(point)`` on all of [0, 1]^dimension, or say where not.

    ``sides`` is called with a list of balls.
    """
    from flint import arb, ctx

    def ball(low: float, high: float) -> Any:
        return arb(low).union(arb(high))

    waiting = [np.array(list(zip(*[(0.0, 1.0)] * dimension, strict=True)))]
    done = 0
    with ctx.workprec(PRECISION):
        while waiting:
            box = waiting.pop()
            done += 1
            smaller, larger = sides([ball(low, high) for low, high in box.T])
            difference = larger - smaller
            if difference > 0:
                continue
            if difference <= 0:
                return Certificate("refuted", done, box)
            edge = int(np.argmax(box[1] - box[0]))
            middle = box[:, edge].mean()
            if done + len(waiting) >= boxes or not box[0, edge] < middle < box[1, edge]:
                return Certificate("open", done, box)
            for half in (0, 1):
                part = box.copy()
                part[1 - half, edge] = middle
                waiting.append(part)
    return Certificate("proved", done)
