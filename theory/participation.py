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
redrawn bins        each example draws its place anew in each epoch, uniformly           ⌊i/b⌋ ≠ ⌊j/b⌋
cyclic poisson      one of b groups, sampled at rate p each time that it has its turn    i ≡ j modulo b
poisson             sampled at rate p in every step                                      always
==================  ===================================================================  ======================

A set of steps that one example may take part in is a *pattern*.  The sensitivity is a maximum over patterns, and cannot
use that a choice is random: it is that of ``worst``, one of the first four kinds.  Only an accountant may use the
randomness.  The last four kinds are *sampled*: every example draws for itself, independently of all others, and what it
draws stays secret.  Random batches of equal size are not sampled, as their examples depend on each other.

*Capacity.*  Batches of a sampled kind that would have more than B examples may be cut to B, by any rule.  Let τ be the
probability that the other N − 1 examples alone fill a batch that an example can be in.  Elsewhere nothing is cut
because of it, so that δ <= (1 − τ) δ* + τ, where δ* is that without capacity.  ``overflow`` is τ, rounded up.

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

import math
from dataclasses import KW_ONLY
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record

Kind = Literal[
    "single", "min-sep", "fixed epochs", "reshuffled", "balls in bins", "redrawn bins", "cyclic poisson", "poisson"
]
Unit = Literal["example", "user"]
Indices = NDArray[np.intp]

_SAMPLED: tuple[Kind, ...] = ("balls in bins", "redrawn bins", "cyclic poisson", "poisson")
_WITH_RATE: tuple[Kind, ...] = ("cyclic poisson", "poisson")
_MAY_BE_SECRET: tuple[Kind, ...] = ("fixed epochs", "reshuffled")
_UP = 1 + 1e-6  # more than the relative error of SciPy's incomplete beta function


@record
class Participation(Record):
    """How often, and how far apart, one example takes part in a run.

    The class methods ``single``, ``min_sep``, ``fixed_epochs``, ``reshuffled``, ``balls_in_bins``, ``redrawn_bins``,
    ``poisson`` and ``cyclic_poisson`` make the kinds by name.

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
        Whether the order of fixed or reshuffled epochs is uniform and unknown to everybody.
    unit
        ``"example"`` or ``"user"``: whose participation is stated, and whose privacy is meant.
    members
        c >= 1: a user holds at most c examples, which are clipped one by one; 1 where the sum of a user is clipped.
    capacity
        B >= 1: the largest batch of a sampled kind; None for no bound.
    examples
        N >= 1: the number of examples, which a capacity needs.

    Raises
    ------
    ValueError
        An argument is out of its range or does not belong to the kind.

    Examples
    --------
    >>> Participation.min_sep(10, 4).largest
    array([0, 4, 8])
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
    capacity: int | None = None
    examples: int | None = None

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
            raise ValueError(f"secret must be False for the kind {self.kind!r}, which has no secret order, got True")
        for name in ("capacity", "examples"):
            if (value := getattr(self, name)) is not None:
                if not self.sampled:
                    raise ValueError(f"{name} must be None for the kind {self.kind!r}, got {value!r}")
                self._set(**{name: checks.integer(name, value, 1)})
        if self.capacity is not None and self.examples is None:
            raise ValueError(f"examples must be given with a capacity, got None with capacity={self.capacity}")

    def _checked_count(self, period: int) -> int:
        given: int | None = self.count
        fit = 1 if self.kind == "single" or self.steps is None else -(-self.steps // period)
        count = fit if given is None else min(checks.integer("count", given, 1), fit)
        if count < fit and (self.sampled or self.kind == "fixed epochs"):
            raise ValueError(
                f"count must be None or at least {fit} for the kind {self.kind!r}, in which an example may take part "
                f"each time, got {given}"
            )
        return count

    def _checked_rate(self) -> float | None:
        if (self.rate is None) == (self.kind in _WITH_RATE):
            needed = "given" if self.kind in _WITH_RATE else "None"
            raise ValueError(f"rate must be {needed} for the kind {self.kind!r}, got {self.rate!r}")
        return None if self.rate is None else checks.real("rate", self.rate, "(0, 1]")

    # -- the kinds by name ---------------------------------------------------------------------------------------------

    @classmethod
    def single(cls, steps: int | None = None, *, unit: Unit = "example", members: int = 1) -> Participation:
        """Participation in at most one step.

        Parameters
        ----------
        steps, unit, members
            As for ``Participation``.
        """
        return cls(steps, unit=unit, members=members)

    @classmethod
    def min_sep(
        cls, steps: int, period: int, count: int | None = None, *, unit: Unit = "example", members: int = 1
    ) -> Participation:
        """Participation in at most ``count`` steps, any two of them at least ``period`` apart (1: every step).

        Parameters
        ----------
        steps, period, count, unit, members
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
        steps, secret, unit, members
            As for ``Participation``.
        period, epochs
            The number of steps of an epoch, or the number of epochs, a divisor of ``steps``: one of them.  With
            ``period`` the last epoch may be shorter.

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
        steps, period, epochs, secret, unit, members
            As for ``fixed_epochs``.
        """
        b = _period(steps, period, epochs)
        return cls(steps, "reshuffled", period=b, secret=secret, unit=unit, members=members)

    @classmethod
    def balls_in_bins(
        cls, steps: int, *, period: int, capacity: int | None = None, examples: int | None = None
    ) -> Participation:
        """Participation in a bin of every epoch, which each example draws uniformly, once.

        Parameters
        ----------
        steps, capacity, examples
            As for ``Participation``.
        period
            The number of bins, and of steps of an epoch.
        """
        return cls(steps, "balls in bins", period=period, capacity=capacity, examples=examples)

    @classmethod
    def redrawn_bins(
        cls, steps: int, *, period: int, capacity: int | None = None, examples: int | None = None
    ) -> Participation:
        """Participation in a bin of every epoch, which each example draws uniformly, anew for each epoch.

        Parameters
        ----------
        steps, period, capacity, examples
            As for ``balls_in_bins``.
        """
        return cls(steps, "redrawn bins", period=period, capacity=capacity, examples=examples)

    @classmethod
    def poisson(
        cls, steps: int, rate: float, *, capacity: int | None = None, examples: int | None = None
    ) -> Participation:
        """Participation in every step with the same probability, independently.

        Parameters
        ----------
        steps, rate, capacity, examples
            As for ``Participation``.

        Examples
        --------
        >>> bool(Participation.poisson(1000, 0.01, capacity=1300, examples=100_000).overflow < 1e-15)
        True
        """
        return cls(steps, "poisson", rate=rate, capacity=capacity, examples=examples)

    @classmethod
    def cyclic_poisson(
        cls, steps: int, *, period: int, rate: float, capacity: int | None = None, examples: int | None = None
    ) -> Participation:
        """Participation by sampling from the group whose turn it is; there are ``period`` groups of examples.

        Parameters
        ----------
        steps, capacity, examples
            As for ``Participation``.
        period
            The number of groups, b >= 1: example i is in the group i mod b.
        rate
            0 < p <= 1, of an example of the group.
        """
        return cls(steps, "cyclic poisson", period=period, rate=rate, capacity=capacity, examples=examples)

    # -- what an accountant needs --------------------------------------------------------------------------------------

    @property
    def sampled(self) -> bool:
        """Whether each example draws its steps for itself: bins and the Poisson kinds."""
        return self.kind in _SAMPLED

    @property
    def overflow(self) -> float:
        """τ, rounded up: the probability that other examples alone fill a batch in which an example can be; at most 1.

        It is the sum of the tails of the binomial distributions of such batches.  Fixed bins are the same in every
        epoch; of a group of cyclic Poisson batches its own turns and the ceil(N/b) − 1 other members count.
        """
        if self.capacity is None:
            return 0.0
        assert self.examples is not None
        bins = self.rate is None
        others = (self.examples if bins or self.kind == "poisson" else -(-self.examples // self.period)) - 1
        if others < self.capacity:
            return 0.0
        chance = math.nextafter(1 / self.period, 2.0) if self.rate is None else self.rate
        batches = {"cyclic poisson": self.count, "balls in bins": min(self.period, self.length)}.get(
            self.kind, self.length
        )
        tail = 1.0 if chance >= 1 else float(betainc(self.capacity, others - self.capacity + 1, chance))
        return min(1.0, batches * (tail * _UP + 1e-300))

    def keeps(self, promise: Participation) -> bool:
        """Whether batches of this participation may have noise that was made for ``promise``.

        A sampled promise is kept by exactly the same sampling alone; any other by whatever it covers.

        Parameters
        ----------
        promise
            The participation of the noise.
        """
        made_for = checks.instance("promise", promise, Participation)
        return self == made_for if made_for.sampled else self.covered_by(made_for)

    # -- what a sensitivity needs --------------------------------------------------------------------------------------

    @property
    def worst(self) -> Participation:
        """The promise that holds whatever is drawn: single, min-sep, fixed epochs or reshuffled, and not secret."""
        if self.kind == "poisson":
            assert self.steps is not None
            return Participation.min_sep(self.steps, 1, unit=self.unit, members=self.members)
        if self.kind in ("single", "min-sep") or (self.kind in ("fixed epochs", "reshuffled") and not self.secret):
            return self
        kind: Kind = "reshuffled" if self.kind in ("reshuffled", "redrawn bins") else "fixed epochs"
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

    def residue_classes(self) -> list[Indices]:
        """The classes {r, r + b, r + 2b, …} of steps, r < min(b, n): the maximal patterns of fixed epochs."""
        steps = np.arange(self.length, dtype=np.intp)
        return [steps[r :: self.period] for r in range(min(self.period, self.length))]

    def blocks(self) -> list[Indices]:
        """The steps of each epoch, {0, …, b − 1}, {b, …, 2b − 1}, …"""
        steps = np.arange(self.length, dtype=np.intp)
        return [steps[first : first + self.period] for first in range(0, self.length, self.period)]

    # -- words ---------------------------------------------------------------------------------------------------------

    def in_words(self) -> str:
        """The promise as it stands in reports."""
        who = self.unit if self.members == 1 else f"{self.unit} of at most {self.members} examples"
        cut = "" if self.capacity is None else f", batches cut to {self.capacity} of {self.examples} examples"
        return f"each {who} {self._visits()}{cut}"

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
        if self.kind == "redrawn bins":
            return f"{epochs}, in a bin of its own that is drawn anew each time"
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
