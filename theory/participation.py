"""Participation: the steps of a run in which one example can take part, in one word for all papers.

Privacy of a run rests on a promise about the way in which the data are visited.  The kinds are

==================  ===================================================================  ======================
kind                promise                                                              i, j share an example
==================  ===================================================================  ======================
single              each example takes part in at most one step                          never
min-sep             at most k steps, any two of them at least b apart                    |i − j| >= b
fixed epochs        once in each epoch of b steps, always at the same place              i ≡ j modulo b
reshuffled          at most once in each epoch of b steps, at any place                  ⌊i/b⌋ ≠ ⌊j/b⌋
balls in bins       each example draws its place in the epoch once, uniformly            i ≡ j modulo b
cyclic poisson      one of b groups, sampled at rate p each time that it has its turn    i ≡ j modulo b
poisson             sampled at rate p in every step                                      always
==================  ===================================================================  ======================

A set of steps that one example may take part in is a *pattern*.  The sensitivity is a maximum over patterns, and cannot
use that a choice is random: it is that of ``worst``, one of the first four kinds.  Only an accountant may use the
randomness: ``rate``, and ``secret``, which says that the order is uniform and unknown.

*Order of promises.*  P is covered by Q if every pattern of P lies in a pattern of Q.  The sensitivity under P is then
at most that under Q, for every mechanism, because the supremum over gradients that are supported on a set grows with
the set.  Each of the first four kinds is given by a relation R on pairs of steps and a largest size k of patterns, and
P is covered by Q if and only if k_P = 1, or R_P is a part of R_Q and k_P <= k_Q: a pattern of P is a clique of R_Q with
at most k_Q steps, hence a part of a pattern of Q; conversely, related steps of P lie in a pattern of P if k_P >= 2.

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

Kind = Literal["single", "min-sep", "fixed epochs", "reshuffled", "balls in bins", "cyclic poisson", "poisson"]
Unit = Literal["example", "user"]
Indices = NDArray[np.intp]

_SAMPLED: tuple[Kind, ...] = ("cyclic poisson", "poisson")
_EVERY_EPOCH: tuple[Kind, ...] = ("fixed epochs", "balls in bins", "cyclic poisson")
_MAY_BE_SECRET: tuple[Kind, ...] = ("fixed epochs", "reshuffled", "balls in bins")


@record
class Participation(Record):
    """How often, and how far apart, one example takes part in a run.

    The class methods ``single``, ``min_sep``, ``fixed_epochs``, ``reshuffled``, ``balls_in_bins``, ``poisson`` and
    ``cyclic_poisson`` make the kinds by name.

    Parameters
    ----------
    steps
        n >= 1: length of the run; None for any length, which only single participation has.
    kind
        A kind of the table above.
    period
        b >= 1: the separation of min-sep, the number of steps of an epoch, the number of bins or groups.
    count
        k >= 1: the largest number of participations of one example; None for as many as fit, ceil(n/b).  A larger
        number does not bind.  Every epoch of a fixed order has its participation, so that no smaller number is allowed.
    rate
        p, 0 < p <= 1: the probability of an example in a step, for the Poisson kinds.
    secret
        Whether the order is uniform and unknown to everybody; only accountants use it.
    unit
        ``"example"`` or ``"user"``: whose participation is stated, and whose privacy is meant.
    members
        c >= 1: a user holds at most c examples, which are clipped one by one; 1 where the sum of a user is clipped.

    Raises
    ------
    ValueError
        An argument is out of its range or does not belong to the kind.

    Examples
    --------
    >>> Participation.min_sep(10, 4).largest
    array([0, 4, 8])
    >>> [list(map(int, steps)) for steps in Participation.min_sep(4, 2).patterns()]
    [[0, 2], [0, 3], [1, 3]]
    >>> [list(map(int, steps)) for steps in Participation.fixed_epochs(4, epochs=2).patterns()]
    [[0, 2], [1, 3]]
    """

    steps: int | None
    kind: Kind = "single"
    _: KW_ONLY
    period: int = 1
    count: int = None  # type: ignore[assignment]  # a number after __post_init__
    rate: float | None = None
    secret: bool = False
    unit: Unit = "example"
    members: int = 1

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, get_args(Kind))
        checks.choice("unit", self.unit, get_args(Unit))
        period = checks.integer("period", self.period, 1)
        if self.steps is None:
            if self.kind != "single":
                raise ValueError(f"steps must be given for the kind {self.kind!r}, got None")
        else:
            checks.integer("steps", self.steps, 1)
        if self.kind in ("single", "poisson") and period != 1:
            raise ValueError(f"period must be 1 for the kind {self.kind!r}, got {period}")
        self._set(
            period=period,
            count=self._checked_count(period),
            rate=self._checked_rate(),
            members=checks.integer("members", self.members, 1),
        )
        if checks.boolean("secret", self.secret) and self.kind not in _MAY_BE_SECRET:
            raise ValueError(f"secret must be False for the kind {self.kind!r}, which has no order to hide, got True")

    def _checked_count(self, period: int) -> int:
        given: int | None = self.count
        fit = 1 if self.kind == "single" or self.steps is None else -(-self.steps // period)
        count = fit if given is None else min(checks.integer("count", given, 1), fit)
        if count < fit and self.kind in (*_EVERY_EPOCH, "poisson"):
            raise ValueError(
                f"count must be None or at least {fit} for the kind {self.kind!r}, in which an example may take part "
                f"each time, got {given}"
            )
        return count

    def _checked_rate(self) -> float | None:
        if (self.rate is None) == (self.kind in _SAMPLED):
            needed = "given" if self.kind in _SAMPLED else "None"
            raise ValueError(f"rate must be {needed} for the kind {self.kind!r}, got {self.rate!r}")
        return None if self.rate is None else checks.real("rate", self.rate, "(0, 1]")

    # -- the kinds by name ---------------------------------------------------------------------------------------------

    @classmethod
    def single(cls, steps: int | None = None, *, unit: Unit = "example", members: int = 1) -> Participation:
        """Participation in at most one step.

        Parameters
        ----------
        steps
            n >= 1; None for a run of any length.
        unit, members
            As for ``Participation``.
        """
        return cls(steps, unit=unit, members=members)

    @classmethod
    def min_sep(
        cls, steps: int, period: int, count: int | None = None, *, unit: Unit = "example", members: int = 1
    ) -> Participation:
        """Participation in at most ``count`` steps, any two of them at least ``period`` apart.

        Parameters
        ----------
        steps
            n >= 1.
        period
            b >= 1: two participations in the steps i and j have |i − j| >= b (1: every step).
        count
            k >= 1; None, or a number above ceil(n/b), for ceil(n/b).
        unit, members
            As for ``Participation``.
        """
        return cls(steps, "min-sep", period=period, count=count, unit=unit, members=members)  # type: ignore[arg-type]

    @classmethod
    def fixed_epochs(
        cls,
        steps: int,
        *,
        period: int | None = None,
        epochs: int | None = None,
        secret: bool = False,
        unit: Unit = "example",
        members: int = 1,
    ) -> Participation:
        """Participation once in each epoch, with the same order in every epoch.

        Parameters
        ----------
        steps
            n >= 1; a multiple of ``epochs`` where these are given.
        period, epochs
            The number of steps of an epoch, or the number of epochs: one of them.  With ``period`` the last epoch may
            be shorter.
        secret
            Whether the order was drawn uniformly, once, and nobody knows it.
        unit, members
            As for ``Participation``.

        Examples
        --------
        >>> Participation.fixed_epochs(12, epochs=3).period
        4
        """
        b = _period(steps, period, epochs)
        return cls(steps, "fixed epochs", period=b, secret=secret, unit=unit, members=members)

    @classmethod
    def reshuffled(
        cls,
        steps: int,
        *,
        period: int | None = None,
        epochs: int | None = None,
        secret: bool = False,
        unit: Unit = "example",
        members: int = 1,
    ) -> Participation:
        """Participation once in each epoch, in an order that is drawn anew for every epoch.

        Parameters
        ----------
        steps, period, epochs
            As for ``fixed_epochs``.
        secret
            Whether the orders are uniform and nobody knows them.
        unit, members
            As for ``Participation``.
        """
        b = _period(steps, period, epochs)
        return cls(steps, "reshuffled", period=b, secret=secret, unit=unit, members=members)

    @classmethod
    def balls_in_bins(cls, steps: int, *, period: int) -> Participation:
        """Participation in a bin of every epoch, which each example draws uniformly, once.

        Parameters
        ----------
        steps
            n >= 1.
        period
            The number of bins, and of steps of an epoch.
        """
        return cls(steps, "balls in bins", period=period, secret=True)

    @classmethod
    def poisson(cls, steps: int, rate: float) -> Participation:
        """Participation in every step with the same probability, independently.

        Parameters
        ----------
        steps
            n >= 1.
        rate
            0 < p <= 1.
        """
        return cls(steps, "poisson", rate=rate)

    @classmethod
    def cyclic_poisson(cls, steps: int, *, period: int, rate: float) -> Participation:
        """Participation by sampling from the group whose turn it is; there are ``period`` groups of examples.

        Parameters
        ----------
        steps
            n >= 1.
        period
            The number of groups, b >= 1.
        rate
            0 < p <= 1, of an example of the group.
        """
        return cls(steps, "cyclic poisson", period=period, rate=rate)

    # -- what a sensitivity needs --------------------------------------------------------------------------------------

    @property
    def worst(self) -> Participation:
        """The promise that holds whatever is drawn: single, min-sep, fixed epochs or reshuffled, and not secret."""
        if self.kind == "poisson":
            assert self.steps is not None
            return Participation.min_sep(self.steps, 1, unit=self.unit, members=self.members)
        if self.kind in ("single", "min-sep") or (self.kind in ("fixed epochs", "reshuffled") and not self.secret):
            return self
        kind: Kind = "reshuffled" if self.kind == "reshuffled" else "fixed epochs"
        return Participation(self.steps, kind, period=self.period, unit=self.unit, members=self.members)

    @property
    def length(self) -> int:
        """The number of steps n; ``ValueError`` for a run of any length."""
        if self.steps is None:
            raise ValueError("participation must have a number of steps here, got one of any length (steps=None)")
        return self.steps

    @property
    def once(self) -> bool:
        """Whether an example takes part at most once."""
        return self.count == 1

    @property
    def saturated(self) -> bool:
        """Whether k = ceil(n/b), so that the number of participations is limited by their separation alone."""
        return self.count * self.period >= self.length

    @property
    def largest(self) -> Indices:
        """π* = {0, b, …, (k − 1) b}, on which decaying strategies have their sensitivity."""
        return np.arange(self.count, dtype=np.intp) * self.period

    def together(self, first: int, second: int) -> bool:
        """Whether one example can take part in both of two steps.

        Parameters
        ----------
        first, second
            Steps, counted from 0.
        """
        i = checks.integer("first", first, 0, largest=self.length - 1)
        j = checks.integer("second", second, 0, largest=self.length - 1)
        if i == j:
            return True
        who = self.worst
        if who.once:
            return False
        if who.kind == "fixed epochs":
            return (i - j) % who.period == 0
        if who.kind == "reshuffled":
            return i // who.period != j // who.period
        return abs(i - j) >= who.period

    def covered_by(self, other: Participation) -> bool:
        """Whether every sensitivity under this promise is at most that under ``other``.

        Parameters
        ----------
        other
            The promise that noise was made for.
        """
        given = self.worst
        promised = checks.instance("other", other, Participation).worst
        if given.unit != promised.unit or given.members > promised.members:
            return False
        if promised.steps is None or given.steps is None:
            return promised.steps is None and given.once
        if given.steps > promised.steps:
            return False
        return given.once or (given.count <= promised.count and _related(given, promised))

    def patterns(self) -> Iterator[Indices]:
        """All maximal patterns of ``worst``, in lexicographic order; ``number_of_patterns`` says how many there are.

        A pattern of fewer than k steps is maximal if no step fits before, between or after its steps.
        """
        who = self.worst
        n, b, k = who.length, who.period, who.count
        if who.kind == "fixed epochs":
            yield from who.residue_classes()
            return
        if who.kind == "reshuffled":
            for chosen in itertools.combinations(who.blocks(), k):
                for steps in itertools.product(*(block.tolist() for block in chosen)):
                    yield np.array(steps, dtype=np.intp)
            return

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

    def residue_classes(self) -> list[Indices]:
        """The classes {r, r + b, r + 2b, …} of steps, r < min(b, n): the maximal patterns of fixed epochs."""
        steps = np.arange(self.length, dtype=np.intp)
        return [steps[r :: self.period] for r in range(min(self.period, self.length))]

    def blocks(self) -> list[Indices]:
        """The steps of each epoch, {0, …, b − 1}, {b, …, 2b − 1}, …"""
        steps = np.arange(self.length, dtype=np.intp)
        return [steps[first : first + self.period] for first in range(0, self.length, self.period)]

    def number_of_patterns(self, most: int | None = None) -> int:
        """How many maximal patterns ``worst`` has, in O(n k).

        Parameters
        ----------
        most
            Counting stops above this number; None to count them all.
        """
        who = self.worst
        n, b, k = who.length, who.period, who.count
        if who.kind == "fixed epochs":
            return min(b, n)
        if who.kind == "reshuffled":
            return _elementary([block.size for block in who.blocks()], k)
        total = math.comb(n - (k - 1) * (b - 1), k)
        ways = [int(step < b) for step in range(n)]  # maximal beginnings, by their last step
        for _ in range(1, k):
            total += sum(ways[-b:])
            if most is not None and total > most:
                break
            sums = [0, *itertools.accumulate(ways)]
            ways = [sums[max(step - b + 1, 0)] - sums[max(step - 2 * b + 1, 0)] for step in range(n)]
        return total

    # -- words ---------------------------------------------------------------------------------------------------------

    def in_words(self) -> str:
        """The promise as it stands in reports."""
        who = self.unit if self.members == 1 else f"{self.unit} of at most {self.members} examples"
        return f"each {who} {self._visits()}"

    def _visits(self) -> str:
        epochs = f"once in each of {self.count} epochs of {self.period} steps"
        if self.kind == "poisson":
            return f"in every step with probability {self.rate:g}"
        if self.kind == "cyclic poisson":
            return f"with probability {self.rate:g} in every {self.period}th step, the turn of its group"
        if self.once:
            return "in at most one step"
        if self.kind == "fixed epochs":
            return f"{epochs}, in the same order" + (", which is secret" if self.secret else "")
        if self.kind == "balls in bins":
            return f"{epochs}, in a bin of its own that was drawn once"
        if self.kind == "reshuffled":
            return f"{epochs}, in any order"
        apart = f"at least {self.period} steps apart" if self.period > 1 else "in any of them"
        return f"in at most {self.count} steps, {apart}"


ANY_LENGTH = Participation.single()  #: single participation in a run of any length


def _period(steps: int, period: int | None, epochs: int | None) -> int:
    """The number of steps of an epoch."""
    if (period is None) == (epochs is None):
        raise ValueError(f"period or epochs must be given, one of them, got period={period!r} and epochs={epochs!r}")
    if period is not None:
        return checks.integer("period", period, 1)
    if checks.integer("steps", steps, 1) % checks.integer("epochs", epochs, 1):
        raise ValueError(
            f"steps must be a multiple of epochs={epochs}, got {steps}; period= allows a shorter last epoch"
        )
    assert epochs is not None
    return steps // epochs


def _related(given: Participation, promised: Participation) -> bool:
    """Whether any two steps that ``given`` allows together are allowed together by ``promised``; b < n in ``given``."""
    own, other = given.period, promised.period
    if promised.kind == "fixed epochs":
        if given.kind == "fixed epochs":
            return own % other == 0
        only_difference = given.kind == "min-sep" and given.length == own + 1  # of two steps, b
        return other == 1 or (only_difference and own % other == 0)
    if given.kind == "reshuffled":  # the last step of an epoch and the first of the next one are neighbours
        return own % other == 0 if promised.kind == "reshuffled" else other == 1
    return own >= other


def _elementary(sizes: list[int], degree: int) -> int:
    """The elementary symmetric polynomial: the number of ways to take one of each of ``degree`` blocks."""
    ways = [1] + [0] * degree
    for size in sizes:
        for chosen in range(degree, 0, -1):
            ways[chosen] += ways[chosen - 1] * size
    return ways[degree]
