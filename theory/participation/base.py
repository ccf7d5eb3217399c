"""A participation: the steps of a run that may use one example, the one word of all papers for it.

Privacy of a run rests on a statement about the use of the data.  A set of steps that may use one example is a
*pattern*.  An *order* is known by its patterns; the sensitivity is a maximum over them.  A *sampled* participation
draws the steps of every example independently and keeps them secret, and only an accountant may use this randomness.
The sensitivity cannot: it is the sensitivity of ``worst``, an order.

=====================  ==============================================================  ======================
door                   participation                                                   i, j share an example
=====================  ==============================================================  ======================
``single``             at most one step                                                never
``min_sep``            at most k steps, any two of them at least b apart               |i − j| >= b
``fixed_epochs``       once in each epoch of b steps, always at the same place         i ≡ j modulo b
``reshuffled``         at most once in each epoch of b steps, at any place             ⌊i/b⌋ ≠ ⌊j/b⌋
``balls_in_bins``      once in each epoch, at a uniform place, drawn once              i ≡ j modulo b
``redrawn_bins``       once in each epoch, at a uniform place, drawn in each epoch     ⌊i/b⌋ ≠ ⌊j/b⌋
``cyclic_poisson``     sampled at rate p at each turn of its group, of b groups        i ≡ j modulo b
``poisson``            sampled at rate p in every step                                 always
=====================  ==============================================================  ======================

*Coverage.*  P is covered by Q if every pattern of P lies in a pattern of Q.  The sensitivity under P is then at most
the sensitivity under Q, for every mechanism, because the supremum over gradients with a given support grows with it.
An order is a relation R on pairs of steps and a largest size k of patterns.  For k_P = 1, P is covered if and only if
n_P <= n_Q.  For k_P >= 2 it is covered if and only if also R_P ⊆ R_Q and k_P <= k_Q.  Proof: a pattern of P is a
clique of R_Q with at most k_Q steps, hence a part of a pattern of Q.  Conversely, two related steps of P lie in a
pattern of P, hence in one of Q; and P has a pattern of k_P steps, {0, b, …, (k_P − 1) b}.

References
----------
Choquette-Choo et al., arXiv 2211.06530 (fixed epochs) and arXiv 2306.08153 (min-sep).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record

if TYPE_CHECKING:
    from corrnoise.theory.amplification.accountant import Strategy
    from corrnoise.theory.amplification.curve import Curve

Unit = Literal["example", "user"]
Indices = NDArray[np.intp]
Kept = TypeVar("Kept")
ONE_STEP = "in at most one step"
BETAINC_FACTOR = 1 + 1e-6  #: more than 1 plus the relative error of SciPy's incomplete beta function


class Words(Protocol):
    """The secret randomness of a run: uniform 64-bit integers as a function of (key, purpose, step, attempt)."""

    def __call__(self, purpose: bytes, step: int, count: int, attempt: int = 0) -> NDArray[np.uint64]:
        """Return the words of the first ``count`` examples."""
        ...

    def keep(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return the value of ``make()``, which is called only where the last ``key`` was another one."""
        ...


class Participation(Record, ABC):
    """How often, and how far apart, a run may use one example.

    Each concrete class has a door here, such as ``Participation.fixed_epochs`` for ``FixedEpochs``.  A class of your
    own gets one by ``class Mine(Sampled, door="mine")``.

    Attributes
    ----------
    steps : int or None
        n >= 1: length of the run; None for any length, which only single participation has.
    unit : {"example", "user"}
        Whose participation is stated, and whose privacy is meant.
    members : int
        c >= 1: a user holds at most c examples, which are clipped one by one; 1 where the sum of a user is clipped.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.Participation.min_sep(10, 4).largest
    array([0, 4, 8])
    """

    steps: int | None
    unit: Unit
    members: int
    label: ClassVar[str]  #: the participation in a few words, for names and messages
    sampled: ClassVar[bool] = False  #: whether the steps of each example are drawn independently, and stay secret

    single: ClassVar[Callable[..., Any]]
    min_sep: ClassVar[Callable[..., Any]]
    fixed_epochs: ClassVar[Callable[..., Any]]
    reshuffled: ClassVar[Callable[..., Any]]
    poisson: ClassVar[Callable[..., Any]]
    cyclic_poisson: ClassVar[Callable[..., Any]]
    balls_in_bins: ClassVar[Callable[..., Any]]
    redrawn_bins: ClassVar[Callable[..., Any]]
    b_min_sep: ClassVar[Callable[..., Any]]
    doors: ClassVar[dict[str, type[Participation]]] = {}  #: the classes by their doors

    def __init_subclass__(cls, door: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.label = vars(cls).get("label", cls.__name__)
        if door is not None:
            there = getattr(Participation, door, cls)
            if getattr(there, "__qualname__", None) != cls.__qualname__:
                raise TypeError(f"door must be a name that Participation does not have, got {door!r}")
            setattr(Participation, door, cls)
            Participation.doors[door] = cls

    @property
    @abstractmethod
    def worst(self) -> Order:
        """The order that contains everything that can be drawn, without a secret."""

    @property
    @abstractmethod
    def sampling_rate(self) -> float:
        """The expected share of the data in a batch, at most 1."""

    @abstractmethod
    def covering(self, strategy: Strategy, column_error: float = 0.0) -> Curve:
        """The curve of a run with these batches.

        Parameters
        ----------
        strategy : Strategy
            The mechanism that runs.
        column_error : float, optional
            An upper bound of the norm of the difference between a column of C and its column in the program, within
            the bands of C.

        Returns
        -------
        Curve
            Upper bounds of δ.

        Raises
        ------
        ValueError
            No accountant covers the participation or the strategy; the message names the hypothesis.
        """

    def _when(self) -> str:
        """The steps of an example in words."""
        return f"in steps of {self.label}"

    @property
    def length(self) -> int:
        """The number of steps n; ``ValueError`` for a run of any length."""
        if self.steps is None:
            raise ValueError("participation must have a number of steps here, got one of any length (steps=None)")
        return self.steps

    @property
    def once(self) -> bool:
        """Whether at most one step uses an example."""
        return self.worst.count == 1

    @abstractmethod
    def leading(self, steps: int) -> Self:
        """The participation in the first steps of the run.

        Parameters
        ----------
        steps : int
            1 <= t <= n.

        Returns
        -------
        Participation
        """

    def _cut(self, steps: int) -> Self:
        """The same class and fields with fewer steps."""
        t = checks.integer("steps", steps, 1)
        if self.steps is not None and t > self.steps:
            raise ValueError(f"steps must be in [1, {self.steps}], got {t}")
        return replace(self, steps=t)  # type: ignore[type-var]

    def together(self, first: int, second: int) -> bool:
        """Whether both of two steps can use one example.

        Parameters
        ----------
        first, second : int
            Steps, counted from 0.

        Returns
        -------
        bool
        """
        i = checks.integer("first", first, 0, largest=self.length - 1)
        j = checks.integer("second", second, 0, largest=self.length - 1)
        return i == j or (not self.once and self.worst.related(i, j))

    def covered_by(self, other: Participation) -> bool:
        """Whether every sensitivity under this participation is at most the sensitivity under ``other``.

        Parameters
        ----------
        other : Participation
            The participation of the noise.

        Returns
        -------
        bool
        """
        given, required = self.worst, checks.instance("other", other, Participation).worst
        if given.unit != required.unit or given.members > required.members:
            return False
        if required.steps is None or given.steps is None:
            return required.steps is None and given.once
        if given.steps > required.steps:
            return False
        return given.once or (given.count <= required.count and given.within(required))

    def satisfies(self, required: Participation) -> bool:
        """Whether batches of this participation may have noise for the ``required`` one.

        Exactly the same sampling satisfies a sampled participation; everything that an order covers satisfies it.

        Parameters
        ----------
        required : Participation
            The participation of the noise.

        Returns
        -------
        bool
        """
        made_for = checks.instance("required", required, Participation)
        return self == made_for if made_for.sampled else self.covered_by(made_for)

    def summary(self) -> str:
        """The participation in words, for reports.

        Returns
        -------
        str
        """
        who = self.unit if self.members == 1 else f"{self.unit} of at most {self.members} examples"
        return f"each {who} {self._when() if self.sampled or not self.once else ONE_STEP}"


class Order(Participation):
    """An order: a relation between steps and a largest number k of steps, known without any randomness.

    The four subclasses are all orders that the sensitivities are proved for.

    Attributes
    ----------
    period : int
        b >= 1: the separation of min-sep, or the number of steps of an epoch.
    count : int
        k >= 1: the largest number of steps that use one example.
    secret : bool
        Whether the order is uniform and unknown to everyone.
    """

    period: int
    count: int
    secret: bool

    def _check_shared(self) -> None:
        """Check the fields that all orders have."""
        self._check(unit=get_args(Unit), members=1)
        checks.boolean("secret", self.secret)

    @abstractmethod
    def related(self, first: int, second: int) -> bool:
        """Whether two different steps are related by R.

        Parameters
        ----------
        first, second : int
            Steps, counted from 0.

        Returns
        -------
        bool
        """

    @abstractmethod
    def within(self, other: Order) -> bool:
        """Whether R is a part of the relation of ``other``, for an order with b < n.

        Parameters
        ----------
        other : Order
            The order to compare with.

        Returns
        -------
        bool
        """

    @abstractmethod
    def patterns(self) -> Iterator[Indices]:
        """All maximal patterns.

        Returns
        -------
        iterator of array of int
        """

    @abstractmethod
    def number_of_patterns(self, most: int | None = None) -> int:
        """How many maximal patterns there are, in O(n k); counting stops above ``most``.

        Parameters
        ----------
        most : int, optional
            Counting stops above this number; None to count all.

        Returns
        -------
        int
        """

    @abstractmethod
    def largest_sum(self, values: NDArray[np.float64]) -> float:
        """The largest sum of ``values`` >= 0, shape (n,), over the steps of a pattern.

        Parameters
        ----------
        values : array of float
            Numbers >= 0, shape (n,).

        Returns
        -------
        float
        """

    @property
    def worst(self) -> Order:
        """The same order without a secret."""
        return replace(self, secret=False) if self.secret else self  # type: ignore[type-var]

    @property
    def sampling_rate(self) -> float:
        """k/n, the largest mean share of the data in a batch."""
        return self.count / self.length

    def leading(self, steps: int) -> Self:
        """The patterns of the first steps are the parts of the patterns of all steps."""
        return self._cut(steps)

    def covering(self, strategy: Strategy, column_error: float = 0.0) -> Curve:
        """Raise a ``ValueError``: the steps of the examples depend on each other, or are known."""
        raise ValueError(
            f"participation must be sampled for an accountant, got {self!r}: the steps of each example must be drawn "
            "independently of all others (H2) and stay secret (H4), and batches of equal size violate H2; take "
            "balls_in_bins, or budget.multiplier for the worst case [H2, H4]"
        )

    @property
    def saturated(self) -> bool:
        """Whether k = ceil(n/b), so that the separation alone limits the number of steps of a pattern."""
        return self.count * self.period >= self.length

    @property
    def largest(self) -> Indices:
        """π* = {0, b, …, (k − 1) b}, the pattern with the sensitivity of decaying strategies."""
        return np.arange(self.count, dtype=np.intp) * self.period

    def residue_classes(self) -> list[Indices]:
        """The classes {r, r + b, r + 2b, …} of steps, r < min(b, n): the maximal patterns of fixed epochs.

        Returns
        -------
        list of array of int
        """
        steps = np.arange(self.length, dtype=np.intp)
        return [steps[r :: self.period] for r in range(min(self.period, self.length))]

    def blocks(self) -> list[Indices]:
        """The steps of each epoch, such as {0, …, b − 1} and {b, …, 2b − 1}.

        Returns
        -------
        list of array of int
        """
        steps = np.arange(self.length, dtype=np.intp)
        return [steps[first : first + self.period] for first in range(0, self.length, self.period)]


@record
class Sampled(Participation):
    """A sampled participation: the run draws the steps of every example from its secret.

    A subclass states ``worst``, ``sampling_rate``, ``batch`` and ``curve``.  A run is then private: given the drawn
    steps the mechanism is Gaussian with at most the sensitivity of ``worst``, and δ of a mixture is at most the mixture
    of δ.  The curve is valid by itself, and the smaller of the two multipliers is used.

    Parameters
    ----------
    steps : int
        n >= 1: length of the run.
    capacity : int or None
        B >= 1: batches above it are cut to B examples, by any rule; None for no bound.
    examples : int or None
        N >= 1: the number of examples, required with a capacity.
    """

    steps: int
    _: KW_ONLY
    capacity: int | None = None
    examples: int | None = None
    sampled: ClassVar[bool] = True
    any_bands: ClassVar[bool] = False  #: whether ``curve`` covers strategies with entries outside of their bands

    unit = "example"
    members = 1

    def __post_init__(self) -> None:
        self._check(steps=1, capacity=1, examples=1)
        if self.capacity is not None and self.examples is None:
            raise ValueError(f"examples must be given with a capacity, got None with capacity={self.capacity}")

    @abstractmethod
    def batch(self, step: int, examples: int, words: Words) -> NDArray[np.int64]:
        """The examples of a step in increasing order, before the capacity: a function of the arguments alone.

        Parameters
        ----------
        step : int
            The step, counted from 0.
        examples : int
            N >= 1, the number of examples.
        words : Words
            The secret randomness of the run.

        Returns
        -------
        array of int
        """

    @abstractmethod
    def curve(self, strategy: Strategy, column_error: float) -> Curve:
        """The curve of ``covering`` without a capacity.

        Parameters
        ----------
        strategy : Strategy
            The mechanism of the run.
        column_error : float
            As for ``covering``.

        Returns
        -------
        Curve
        """

    def mean_batch(self, examples: int) -> float:
        """The expected number of examples in a batch.

        Parameters
        ----------
        examples : int
            N >= 1, the number of examples.

        Returns
        -------
        float
        """
        return examples * self.sampling_rate

    def crowd(self, examples: int) -> tuple[int, int, float]:
        """How many batches can hold one example, how many others each can hold, and an upper bound of their rate.

        Parameters
        ----------
        examples : int
            N >= 1, the number of examples.

        Returns
        -------
        (int, int, float)
        """
        raise ValueError(f"capacity must be None for {type(self).__name__}, which does not bound its batches")

    def leading(self, steps: int) -> Self:
        """Raise a ``ValueError``: a class states here the law of the first steps, if it is one of its own laws."""
        raise ValueError(
            f"participation must state leading(steps) to account for the first steps, got {type(self).__name__} "
            "without it: the law of its first steps is not known"
        )

    @property
    def overflow(self) -> float:
        """τ, rounded up: the probability that others leave no room in a batch that can hold an example; at most 1.

        Nothing else is cut because of the example, or the k examples of a user, so that
        δ <= (1 − τ) δ* + τ, where δ* has no capacity.  τ is the sum of the tails of the binomial distributions of such
        batches.
        """
        if self.capacity is None:
            return 0.0
        assert self.examples is not None
        batches, others, rate = self.crowd(self.examples)
        room = self.capacity - self.members + 1  # where so many others leave a user too little
        if others < room:
            return 0.0
        if room < 1:
            return 1.0
        from scipy.special import betainc

        tail = 1.0 if rate >= 1 else float(betainc(room, others - room + 1, rate))
        return min(1.0, batches * (tail * BETAINC_FACTOR + 1e-300))

    def with_room(self, examples: int, overflow: float) -> Self:
        """The same sampling with the smallest capacity that other examples rarely fill.

        Parameters
        ----------
        examples : int
            N >= 1, the number of examples.
        overflow : float
            0 < overflow < 1: the largest ``overflow``.

        Returns
        -------
        Sampled
            Unchanged if it has a capacity, or if its class states no ``crowd``.
        """
        count, rare = checks.integer("examples", examples, 1), checks.real("overflow", overflow, "(0, 1)")
        if self.capacity is not None:
            return self
        try:
            self.crowd(count)
        except ValueError:
            return self
        room = range(1, count + 1)
        found = bisect_left(room, True, key=lambda size: replace(self, capacity=size, examples=count).overflow <= rare)
        return replace(self, capacity=room[found], examples=count)

    def covering(self, strategy: Strategy, column_error: float = 0.0) -> Curve:
        """The curve of a run with these batches, cut to the capacity; see ``Participation.covering``."""
        curve = self.curve(strategy, checks.real("column_error", column_error, "[0, inf)"))
        if self.overflow == 0:
            return curve
        from corrnoise.theory.amplification.accountant import CutCurve

        return CutCurve(curve, self.overflow, False)

    def summary(self) -> str:
        """The participation in words, for reports.

        Returns
        -------
        str
        """
        cut = "" if self.capacity is None else f", batches cut to {self.capacity} of {self.examples} examples"
        return super().summary() + cut
