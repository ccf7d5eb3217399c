"""Participation: the steps of a finite run in which one example can take part.

Privacy of a finite run rests on a promise about the sampling of the data.  Three promises are in use:

* *single participation*: each example takes part in at most one step (k = 1);
* *min-sep*: each example takes part in at most k steps, and any two of them are at least b apart, |i − j| >= b;
* *fixed epochs*: the steps are cut into epochs of b steps, each example stands at the same position r < b of every
  epoch, and takes part in the steps r, r + b, r + 2b, … (the last epoch may be shorter).

A set of steps that one example may take part in is a *pattern*.  Every fixed-epoch pattern is a min-sep pattern of the
same b and k, so a sensitivity for min-sep holds for fixed epochs.  The converse is false: data that are shuffled again
in every epoch have min-sep 1 in the worst case.

References
----------
Choquette-Choo et al., arXiv 2211.06530 (fixed epochs) and arXiv 2306.08153 (min-sep).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record

Pattern = Literal["min-sep", "fixed epochs"]
Indices = NDArray[np.intp]


@record
class Participation(Record):
    """How often, and how far apart, one example takes part in a run.

    Parameters
    ----------
    steps
        n >= 1: length of the run.
    min_sep
        b >= 1: two participations in the steps i and j have |i − j| >= b (1: every step).  In fixed epochs the number
        of steps of an epoch.
    max_participations
        k, 1 <= k <= ceil(n/b): the largest number of participations of one example; None for as many as fit,
        ceil(n/b).  Fixed epochs: None or ceil(n/b).
    pattern
        ``"min-sep"``, or ``"fixed epochs"`` for data that are visited in the same order in every epoch.

    Raises
    ------
    ValueError
        ``max_participations`` exceeds ceil(n/b), or is smaller in fixed epochs.

    Examples
    --------
    >>> Participation(10, min_sep=4, max_participations=None).largest_pattern
    array([0, 4, 8])
    >>> [list(map(int, steps)) for steps in Participation(4, min_sep=2, max_participations=2).patterns()]
    [[0, 2], [0, 3], [1, 3]]
    >>> [list(map(int, steps)) for steps in fixed_epochs(4, epochs=2).patterns()]
    [[0, 2], [1, 3]]
    """

    steps: int
    _: KW_ONLY
    min_sep: int = 1
    max_participations: int | None = 1
    pattern: Pattern = "min-sep"

    def __post_init__(self) -> None:
        steps, min_sep = checks.integer("steps", self.steps, 1), checks.integer("min_sep", self.min_sep, 1)
        checks.choice("pattern", self.pattern, get_args(Pattern))
        fit = -(-steps // min_sep)
        count = fit if self.max_participations is None else self.max_participations
        count = checks.integer("max_participations", count, 1)
        if count > fit:
            raise ValueError(
                f"max_participations must be at most ceil(steps/min_sep) = {fit}, for no more fit into {steps} steps "
                f"with min_sep={min_sep}, got {count}"
            )
        if self.pattern == "fixed epochs" and count < fit:
            raise ValueError(
                f"max_participations must be ceil(steps/min_sep) = {fit} in fixed epochs, in which each example takes "
                f"part in every epoch, got {count}"
            )
        self._set(steps=steps, min_sep=min_sep, max_participations=count)

    @property
    def count(self) -> int:
        """K as a number, also where ``max_participations=None`` was given."""
        assert self.max_participations is not None
        return self.max_participations

    @property
    def single(self) -> bool:
        """Whether an example takes part at most once."""
        return self.count == 1

    @property
    def arguments_of_sensitivity(self) -> dict[str, int]:
        """``steps``, ``min_sep`` and ``max_participations`` by name, as sensitivities of noise take them."""
        return {"steps": self.steps, "min_sep": self.min_sep, "max_participations": self.count}

    def in_words(self) -> str:
        """The promise as it stands in reports."""
        if self.single:
            return "each example in at most one step"
        apart = f"at least {self.min_sep} steps apart" if self.min_sep > 1 else "in any of them"
        if self.pattern == "fixed epochs":
            return f"each example once in each of {self.count} epochs of {self.min_sep} steps, in the same order"
        return f"each example in at most {self.count} steps, {apart}"

    @property
    def saturated(self) -> bool:
        """Whether k = ceil(n/b), so that the number of participations is limited by their separation alone."""
        return self.count * self.min_sep >= self.steps

    @property
    def largest_pattern(self) -> Indices:
        """π* = {0, b, …, (k − 1) b}, on which decaying strategies have their sensitivity."""
        return np.arange(self.count, dtype=np.intp) * self.min_sep

    def residue_classes(self) -> list[Indices]:
        """The classes {r, r + b, r + 2b, …} of steps, r < min(b, n): the maximal patterns of fixed epochs."""
        steps = np.arange(self.steps, dtype=np.intp)
        return [steps[r :: self.min_sep] for r in range(min(self.min_sep, self.steps))]

    def patterns(self) -> Iterator[Indices]:
        """All maximal patterns, in lexicographic order; ``number_of_patterns`` says how many there are.

        A pattern of fewer than k steps is maximal if no step fits before, between or after its steps.
        """
        if self.pattern == "fixed epochs":
            yield from self.residue_classes()
            return
        n, b, k = self.steps, self.min_sep, self.count

        def extended(pattern: list[int], roomy: bool) -> Iterator[Indices]:
            first = pattern[-1] + b if pattern else 0
            if len(pattern) == k or (first >= n and not roomy):
                yield np.array(pattern, dtype=np.intp)
                return
            for step in range(first, n):
                leaves_room = roomy or step >= first + b  # then only k steps make it maximal
                if leaves_room and step + (k - len(pattern) - 1) * b >= n:
                    return
                yield from extended([*pattern, step], leaves_room)

        yield from extended([], False)

    def number_of_patterns(self, most: int | None = None) -> int:
        """How many maximal patterns there are, in O(n k).

        Parameters
        ----------
        most
            Counting stops above this number; None to count them all.
        """
        n, b, k = self.steps, self.min_sep, self.count
        if self.pattern == "fixed epochs":
            return min(b, n)
        total = math.comb(n - (k - 1) * (b - 1), k)
        ways = [int(step < b) for step in range(n)]  # maximal beginnings, by their last step
        for _ in range(1, k):
            total += sum(ways[-b:])
            if most is not None and total > most:
                break
            sums = [0, *itertools.accumulate(ways)]
            ways = [sums[max(step - b + 1, 0)] - sums[max(step - 2 * b + 1, 0)] for step in range(n)]
        return total


#: A run: a number of steps with single participation, a participation, or None for single participation and any length.
Run = int | Participation | None


def participation_of(run: Run) -> Participation | None:
    """The participation that ``run`` means; None for a run of any length."""
    return run if run is None or isinstance(run, Participation) else Participation(run)


def checked_run(
    steps: int | None, min_sep: int, max_participations: int, pattern: Pattern = "min-sep"
) -> Participation | None:
    """The participation of a run; None for single participation in a run of any length, ``steps=None``."""
    checks.choice("pattern", pattern, get_args(Pattern))
    if steps is not None:
        return Participation(steps, min_sep=min_sep, max_participations=max_participations, pattern=pattern)
    checks.integer("min_sep", min_sep, 1)
    if checks.integer("max_participations", max_participations, 1) != 1:
        raise ValueError(f"steps must be given for several participations, got {max_participations=}")
    return None


def fixed_epochs(steps: int, *, epochs: int) -> Participation:
    """Participation in ``epochs`` epochs of steps/epochs steps each, visited in the same order.

    Parameters
    ----------
    steps
        n, a multiple of ``epochs``.
    epochs
        k >= 1.

    Examples
    --------
    >>> fixed_epochs(12, epochs=3).min_sep
    4
    """
    if checks.integer("steps", steps, 1) % checks.integer("epochs", epochs, 1):
        raise ValueError(f"steps must be a multiple of epochs={epochs}, got {steps}")
    return Participation(steps, min_sep=steps // epochs, max_participations=epochs, pattern="fixed epochs")


def from_jax_privacy(n: int, *, min_sep: int = 1, max_participations: int | None = 1) -> Participation:
    """The min-sep participation that jax-privacy means: the same ``min_sep``, and k cut to ceil(n/b).

    Examples
    --------
    >>> from_jax_privacy(10, min_sep=4, max_participations=100).count
    3
    """
    most = -(-checks.integer("n", n, 1) // checks.integer("min_sep", min_sep, 1))
    count = most if max_participations is None else checks.integer("max_participations", max_participations, 1)
    return Participation(n, min_sep=min_sep, max_participations=min(count, most))


def from_tf_privacy(total_steps: int, *, min_separation: int, max_participation: int) -> Participation:
    """The min-sep participation that TensorFlow Privacy means.

    Its ``min_separation`` counts the steps between two participations, j − i − 1, one less than ``min_sep``.

    Examples
    --------
    >>> from_tf_privacy(10, min_separation=3, max_participation=3).min_sep
    4
    """
    b = checks.integer("min_separation", min_separation, 0) + 1
    return from_jax_privacy(total_steps, min_sep=b, max_participations=max_participation)
