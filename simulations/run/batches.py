"""Batches: the examples of each step, drawn as a participation says.

==================  ================================================================================================
kind                batches
==================  ================================================================================================
single              one permutation of the examples, cut into batches
fixed epochs        the same batches in every epoch
min-sep             those of fixed epochs, of the separation or longer where few participations are allowed
reshuffled          a permutation of its own for every epoch
sampled kinds       batches that each example draws for itself from the secret of the run (``sampled``)
==================  ================================================================================================

An order may be known to everybody, unless the participation says that it is secret.  It must not depend on what the
examples hold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.simulations.run.sampled import SampledBatches
from corrnoise.support.serialise import digest
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import FixedEpochs, MinSep, Order, Participation, Reshuffled, Single
from corrnoise.theory.participation.legacy import stable_text


@record
class Batches(Record):
    """The examples of each step, batches of equal size.

    Parameters
    ----------
    participation : Participation
        The data order: single, min-sep, fixed epochs or reshuffled, and with a number of steps.
    orders : array_like
        Shape (rows, n): a permutation of the numbers of the n examples, for all epochs or one for each reshuffled
        epoch.
    batch_size : int
        B, 1 <= B <= n.  The last batch of an epoch is smaller, or the examples that are last in an order are left out,
        as the number of steps of an epoch demands.
    drawn : bool, default False
        Whether the order was drawn for this object alone, without a seed of the caller.  A run that goes on then takes
        the order that it began with.

    Raises
    ------
    ValueError
        If an argument is out of its range, an order has an example twice, or a batch would be empty.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> found = Batches(Participation.fixed_epochs(4, epochs=2), [[3, 0, 4, 1, 2]], batch_size=2)
    >>> [found.batch(step).tolist() for step in range(4)]
    [[3, 0], [4, 1], [3, 0], [4, 1]]
    >>> found.left_out
    1
    """

    participation: Order
    orders: NDArray[np.int64]
    batch_size: int
    drawn: bool

    def __init__(self, participation: Participation, orders: ArrayLike, batch_size: int, drawn: bool = False) -> None:
        who = _kept(participation)
        rows = np.asarray(orders)
        if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iu":
            raise ValueError(f"orders must be a matrix of integers, got {orders!r:.80}")
        own = rows.astype(np.int64)
        own.setflags(write=False)
        epochs = _rows(who)
        if own.shape[0] != epochs:
            raise ValueError(f"orders must have {epochs} rows for this participation, got {own.shape[0]}")
        examples = own.shape[1]
        size = checks.integer("batch_size", batch_size, 1, largest=examples)
        if any(not np.array_equal(np.sort(row), np.arange(examples)) for row in own):
            raise ValueError("orders must have each of the numbers 0, …, n − 1 once in a row")
        if (_period(who) - 1) * size >= examples:
            raise ValueError(
                f"batch_size must be smaller, got {size}: {_period(who)} batches of it are more than the "
                f"{examples} examples by a whole batch"
            )
        self._set(participation=who, orders=own, batch_size=size, drawn=checks.boolean("drawn", drawn))

    @property
    def examples(self) -> int:
        """The number n of examples of the data set."""
        return int(self.orders.shape[1])

    @property
    def steps(self) -> int:
        """The length of the run."""
        return self.participation.length

    @property
    def largest_batch(self) -> int:
        """The largest number of examples of a batch."""
        return self.batch_size

    @property
    def left_out(self) -> int:
        """How many examples take no part in an epoch (in the run, if the order is one)."""
        return max(0, self.examples - _period(self.participation) * self.batch_size)

    @property
    def last_size(self) -> int:
        """The number of examples of the last batch of an epoch."""
        return min(self.batch_size, self.examples - (_period(self.participation) - 1) * self.batch_size)

    @property
    def identity(self) -> str:
        """A name that two objects share only if they have the same batches: 32 hexadecimal digits."""
        orders = [*self.orders.shape, digest(self.orders.astype("<i8").tobytes())]
        return digest([stable_text(self.participation), self.batch_size, *orders])[:32]

    def batch(self, step: int) -> NDArray[np.int64]:
        """The examples of a step in [0, ``steps``): ``batch_size`` numbers, or fewer in the last batch of an epoch."""
        epoch, place = divmod(checks.integer("step", step, 0, largest=self.steps - 1), _period(self.participation))
        order = self.orders[epoch if len(self.orders) > 1 else 0]
        return order[place * self.batch_size : (place + 1) * self.batch_size].copy()

    def in_words(self) -> str:
        """The sizes of the batches, and the examples that are left out."""
        each = f"batches of {self.batch_size} of {self.examples} examples"
        if self.left_out:
            unit = "epoch" if isinstance(self.participation, Reshuffled) else "run"
            return f"{each}; the last {self.left_out} of the order are left out of the {unit}"
        if self.last_size < self.batch_size:
            return f"{each}; the last batch of an epoch has {self.last_size}"
        return each


AnyBatches = Batches | SampledBatches


def batches(participation: Participation, examples: int, batch_size: int | None = None, rng: Seed = None) -> AnyBatches:
    """Random batches that satisfy a participation.

    Parameters
    ----------
    participation : Participation
        The data order or sampling.  A run draws the batches of a sampled kind from its secret.  Of the other kinds, an
        epoch has a step for each batch: n // B of them leave the rest of the examples out, one more has a smaller last
        batch.
    examples : int
        n >= 1, the size of the data set.
    batch_size : int, optional
        B, 1 <= B <= n; for a sampled kind the expected size or this rounded, or None for it.
    rng : int, SeedSequence or Generator, optional
        Seed or generator of the order, which need not be secret for a participation that does not say so; None for a
        sampled kind.

    Returns
    -------
    Batches or SampledBatches

    Raises
    ------
    ValueError
        If an argument is out of its range, or there is a seed for a sampled kind.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> import corrnoise as cn
    >>> found = cn.batches(cn.Participation.fixed_epochs(780, period=390), examples=50_000, batch_size=128, rng=0)
    >>> found.in_words()
    'batches of 128 of 50000 examples; the last 80 of the order are left out of the run'
    >>> cn.batches(cn.Participation.fixed_epochs(782, period=391), examples=50_000, batch_size=128, rng=0).in_words()
    'batches of 128 of 50000 examples; the last batch of an epoch has 80'
    >>> cn.batches(cn.Participation.poisson(391, 128 / 50_000), examples=50_000).batch_size
    128.0
    """
    if checks.instance("participation", participation, Participation).sampled:
        if rng is not None:
            raise ValueError(
                f"rng must be None for {participation.label}, got {rng!r:.80}: sampled batches must stay "
                "secret (H4), so that a run draws them from its own secret"
            )
        return SampledBatches(participation, examples, batch_size)
    count = checks.integer("examples", examples, 1)
    if batch_size is None:
        raise ValueError(f"batch_size must be given for {participation.label}, got None")
    who = _kept(participation)
    random = generator(rng)
    return Batches(who, np.array([random.permutation(count) for _ in range(_rows(who))]), batch_size, rng is None)


def check_not_sampled(participation: Participation) -> None:
    """Refuse noise of sampled batches to a loop that makes its batches itself: nothing makes them sampled there."""
    if participation.sampled:
        raise ValueError(
            f"participation must not be sampled in a loop that makes its own batches, got {participation!r}: sampled "
            "batches are independent of each other (H2) and secret (H4), so that a run draws them; take PrivateRun or "
            "make_private, or use participation.worst"
        )


def check_kept(given: AnyBatches | None, promise: Participation) -> None:
    """Refuse batches of a run, or a loop that makes its own (None), that its noise does not cover."""
    drawn = isinstance(given, SampledBatches)
    if given is not None and not drawn:
        checks.instance("batches", given, Batches)
    if promise.sampled and not drawn:
        why = (
            "the sampler's secret is the run's own (H4), and batches that the caller makes are not covered"
            if given is None
            else "equal-size random batches are not covered, because their examples depend on each other (H2)"
        )
        raise ValueError(
            f"batches must be cn.batches(participation, examples) for {promise.label}, got "
            f"{type(given).__name__}: {why}; participation.worst takes any"
        )
    if given is not None and not given.participation.satisfies(promise):
        how = "have exactly" if promise.sampled else "be covered by"
        raise ValueError(f"batches must {how} the participation of the run, {promise!r}, got {given.participation!r}")


def _kept(participation: object) -> Order:
    """The participation that the batches really have, which is covered by the given one."""
    who = checks.instance("participation", participation, Participation)
    if not isinstance(who, Order):
        raise ValueError(f"participation must be an order, got {who!r}")
    n = who.length
    if not isinstance(who, MinSep):
        return who
    period = max(who.period, -(-n // who.count))  # at most k participations, also of the first steps
    return FixedEpochs(n, period=period, unit=who.unit, members=who.members)


def _period(who: Order) -> int:
    """The number of batches of an epoch."""
    return who.length if isinstance(who, Single) else who.period


def _rows(who: Order) -> int:
    return -(-who.length // who.period) if isinstance(who, Reshuffled) else 1
