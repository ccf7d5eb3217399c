"""The five sampled participations: how each draws its batches, and the accountant of each.

=====================  =============================================================================================
class                  the words of an example, and what they decide
=====================  =============================================================================================
``Poisson``            one a step: it is in the batch if the word is below p 2⁶⁴, rounded down
``CyclicPoisson``      one at each turn of its group, which is its number modulo b
``BallsInBins``        one for the run: its bin is the word modulo b
``RedrawnBins``        one an epoch
``BMinSep``            one for its first step, and one a step: an example that does not wait is in the batch
=====================  =============================================================================================

A word is a uniform integer of 64 bits.  The probability that is really drawn is never above the rate, and by at most
2⁻⁶⁴ below.  A bin is exactly uniform: words of the last incomplete multiple of b are drawn again.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from fractions import Fraction
from typing import TYPE_CHECKING, Self, get_args

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import record
from corrnoise.theory.participation.base import Order, Sampled, Unit, Words
from corrnoise.theory.participation.orders import FixedEpochs, MinSep, Reshuffled, epochs_in_words

if TYPE_CHECKING:
    from corrnoise.theory.amplification.accountant import Strategy
    from corrnoise.theory.amplification.curve import Curve

MOST_MEMBERS = 64  #: of a user in Poisson batches
RATES = "[1e-12, 1]"  #: of Poisson batches; smaller rates use no example in any run
N_WORDS = 2**64  #: how many different words there are


@record
class Poisson(Sampled, door="poisson"):
    """Every step uses an example with the same probability, independently.

    The privacy may be that of a user with several examples, which are sampled independently and clipped one by one.

    Parameters
    ----------
    steps : int
        n >= 1: length of the run.
    rate : float
        1e-12 <= p <= 1: the probability of an example in a step.
    capacity : int, optional
        B >= 1: batches above it are cut to B examples, by any rule; None for no bound.
    examples : int, optional
        N >= 1: the number of examples, required with a capacity.
    unit : {"example", "user"}, default "example"
        Whose privacy is meant.
    members : int, default 1
        1 <= k <= 64: a user holds at most k examples.

    Examples
    --------
    >>> import corrnoise as cn
    >>> bool(cn.Participation.poisson(1000, 0.01, capacity=1300, examples=100_000).overflow < 1e-15)
    True
    """

    rate: float
    _: KW_ONLY
    unit: Unit = "example"  # type: ignore[assignment]
    members: int = 1

    label = "Poisson batches"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(rate=RATES, unit=get_args(Unit))
        checks.integer("members", self.members, 1, largest=MOST_MEMBERS)

    @property
    def worst(self) -> Order:
        return MinSep(self.steps, 1, unit=self.unit, members=self.members)

    @property
    def sampling_rate(self) -> float:
        return self.rate

    def leading(self, steps: int) -> Poisson:
        return self._cut(steps)

    def crowd(self, examples: int) -> tuple[int, int, float]:
        return self.steps, examples - self.members, self.rate

    def batch(self, step: int, examples: int, words: Words) -> NDArray[np.int64]:
        return taken(np.arange(examples), self.rate, step, words)

    def curve(self, strategy: Strategy, column_error: float) -> Curve:
        """The product over the steps, for independent noise (Theorem 1 with one band; groups by its corollary)."""
        from corrnoise.theory.amplification.accountant import poisson_curve

        return poisson_curve(strategy, self.steps, self.rate, 1, column_error, self.members)

    def _when(self) -> str:
        return f"in every step with probability {self.rate:g}"


@record
class CyclicPoisson(Sampled, door="cyclic_poisson"):
    """Steps sample from the groups of examples in turn; example i is in the group i mod b.

    Parameters
    ----------
    steps, capacity, examples : int
        As for ``Poisson``.
    period : int
        b >= 1: the number of groups.
    rate : float
        1e-12 <= p <= 1: the probability of an example of the group.
    """

    _: KW_ONLY
    period: int
    rate: float

    label = "cyclic Poisson batches"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(period=1, rate=RATES)

    @property
    def worst(self) -> Order:
        return FixedEpochs(self.steps, period=self.period)

    @property
    def sampling_rate(self) -> float:
        return self.rate / self.period

    def leading(self, steps: int) -> CyclicPoisson:
        return self._cut(steps)

    def mean_batch(self, examples: int) -> float:
        return examples / self.period * self.rate

    def crowd(self, examples: int) -> tuple[int, int, float]:
        """The turns of its own group, and the ceil(N/b) − 1 other members."""
        return -(-self.steps // self.period), -(-examples // self.period) - 1, self.rate

    def batch(self, step: int, examples: int, words: Words) -> NDArray[np.int64]:
        return taken(np.arange(step % self.period, examples, self.period), self.rate, step, words)

    def curve(self, strategy: Strategy, column_error: float) -> Curve:
        """The product over the turns of a group, for at most b bands (Theorem 1)."""
        from corrnoise.theory.amplification.accountant import poisson_curve

        return poisson_curve(strategy, self.steps, self.rate, self.period, column_error)

    def _when(self) -> str:
        return f"with probability {self.rate:g} in every {self.period}th step, the turn of its group"


@record
class _Bins(Sampled):
    """Each epoch uses an example once, in one of ``period`` bins."""

    _: KW_ONLY
    period: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(period=1)

    @property
    def sampling_rate(self) -> float:
        return 1 / self.period

    def leading(self, steps: int) -> Self:
        return self._cut(steps)

    def mean_batch(self, examples: int) -> float:
        return examples / self.period


@record
class BallsInBins(_Bins, door="balls_in_bins"):
    """Each epoch uses an example once, in a bin that the example draws uniformly, once.

    Parameters
    ----------
    steps, capacity, examples : int
        As for ``Poisson``.
    period : int
        b >= 1: the number of bins, and of steps of an epoch.
    """

    label = "balls in bins"
    any_bands = True

    @property
    def worst(self) -> Order:
        return FixedEpochs(self.steps, period=self.period)

    def crowd(self, examples: int) -> tuple[int, int, float]:
        """The batches of one epoch, since all epochs have the same."""
        return min(self.period, self.steps), examples - 1, math.nextafter(1 / self.period, 2.0)

    def batch(self, step: int, examples: int, words: Words) -> NDArray[np.int64]:
        return in_bin(step % self.period, self.period, 0, examples, words)

    def curve(self, strategy: Strategy, column_error: float) -> Curve:
        """The mixture of one Gaussian a bin, for any noise (Theorem 1)."""
        from corrnoise.theory.amplification.bins import bins_curve

        return bins_curve(strategy, self.steps, self.period, column_error)

    def _when(self) -> str:
        return f"{epochs_in_words(-(-self.steps // self.period), self.period)}, in a bin of its own that was drawn once"


@record
class RedrawnBins(_Bins, door="redrawn_bins"):
    """Each epoch uses an example once, in a bin that the example draws uniformly in each epoch.

    Parameters
    ----------
    steps, period, capacity, examples : int
        As for ``BallsInBins``.
    """

    label = "redrawn bins"

    @property
    def worst(self) -> Order:
        return Reshuffled(self.steps, period=self.period)

    def crowd(self, examples: int) -> tuple[int, int, float]:
        return self.steps, examples - 1, math.nextafter(1 / self.period, 2.0)

    def batch(self, step: int, examples: int, words: Words) -> NDArray[np.int64]:
        epoch, place = divmod(step, self.period)
        return in_bin(place, self.period, epoch, examples, words)

    def curve(self, strategy: Strategy, column_error: float) -> Curve:
        """The product over the epochs, for independent noise (Theorem 1 with one band)."""
        from corrnoise.theory.amplification.bins import redrawn_bins_curve

        return redrawn_bins_curve(strategy, self.steps, self.period, column_error)

    def _when(self) -> str:
        return f"{epochs_in_words(-(-self.steps // self.period), self.period)}, in a bin that is drawn in each epoch"


@record
class BMinSep(Sampled, door="b_min_sep"):
    """Steps of an example are at least ``period`` apart: an example that does not wait is in a step with a probability.

    The sampling is stationary: the first steps find examples that wait, so that all batches have the same rate.  Noise
    multipliers need ``accountant=cn.privacy.MonteCarlo(…)``; no certified bound is known.

    Parameters
    ----------
    steps, capacity, examples : int
        As for ``Poisson``.
    period : int
        b >= 1: the least distance of two steps of an example.
    rate : float
        1e-12 <= q <= 1/b: the probability of an example in a batch.  An example that does not wait is in the next one
        with probability p = q/(1 − (b − 1) q).

    References
    ----------
    Dong and Ganesh, arXiv 2602.09338.

    Examples
    --------
    >>> import corrnoise as cn
    >>> who = cn.Participation.b_min_sep(8, period=3, rate=0.2)
    >>> [batch.size for batch in map(cn.batches(who, 1000).bound(bytes(32)).batch, range(3))]
    [208, 191, 208]
    """

    _: KW_ONLY
    period: int
    rate: float

    label = "b-min-sep batches"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(period=1, rate=RATES)
        if Fraction(self.rate) * self.period > 1 + Fraction(1, 2**50):
            raise ValueError(f"rate must be at most 1/period = {1 / self.period:g}, got {self.rate}")

    @property
    def worst(self) -> Order:
        return MinSep(self.steps, self.period)

    @property
    def sampling_rate(self) -> float:
        return self.rate

    def leading(self, steps: int) -> BMinSep:
        return self._cut(steps)

    def crowd(self, examples: int) -> tuple[int, int, float]:
        return self.steps, examples - 1, self.rate

    def batch(self, step: int, examples: int, words: Words) -> NDArray[np.int64]:
        """The state before a step follows from all earlier words, and is kept from one step to the next.

        With R = ⌊q 2⁶⁴⌋ an example that does not wait is in the batch if its word is below R, and draws again if it is
        at least 2⁶⁴ − (b − 1) R: the rate is exactly R/2⁶⁴ in each step.
        """
        share = min(int(Fraction(self.rate) * N_WORDS), N_WORDS // self.period)
        bounds = np.array([share * (wait + 1) - 1 for wait in range(self.period)], dtype=np.uint64)  # last words
        free = np.uint64(N_WORDS - 1 - (self.period - 1) * share)  # the last word that is not drawn again

        def waiting() -> dict[str, NDArray[np.int64]]:
            """An example waits for r = 1, …, b − 1 steps if its word is the r-th stretch of R words."""
            waits = np.searchsorted(bounds[: self.period - 1], words(b"wait", 0, examples)).astype(np.int64) + 1
            return {"waits": np.where(waits == self.period, 0, waits), "step": np.zeros(1, dtype=np.int64)}

        state = words.keep((examples, "waits"), waiting)
        if state["step"][0] > step:
            state.update(waiting())
        while True:
            open_, attempt = np.flatnonzero(state["waits"] == 0), 0
            drawn = words(b"take", int(state["step"][0]), examples)
            while (again := open_[drawn[open_] > free]).size:
                attempt += 1
                drawn[again] = words(b"take", int(state["step"][0]), examples, attempt)[again]
            batch = open_[drawn[open_] <= bounds[0]]
            if state["step"][0] == step:
                return batch
            state["waits"] = np.maximum(state["waits"] - 1, 0)
            state["waits"][batch] = self.period - 1
            state["step"] = state["step"] + 1

    def curve(self, strategy: Strategy, column_error: float) -> Curve:
        """The pair of a renewal process, for at most b bands (Theorem 1); its δ is for Monte Carlo."""
        from corrnoise.theory.amplification.spaced import spaced_curve

        return spaced_curve(strategy, self.steps, self.period, self.rate, column_error)

    def _when(self) -> str:
        return f"in every step with probability {self.rate:g}, at least {self.period} steps apart"


def taken(group: NDArray[np.int64], rate: float, step: int, words: Words) -> NDArray[np.int64]:
    """The examples of a group that a step takes independently with probability p; exactly ⌊p 2⁶⁴⌋ of the 2⁶⁴ words."""
    threshold = int(Fraction(rate) * N_WORDS)
    return group if threshold == N_WORDS else group[words(b"take", step, group.size) < np.uint64(threshold)]


def in_bin(place: int, bins: int, epoch: int, examples: int, words: Words) -> NDArray[np.int64]:
    """The examples of a bin that each example draws uniformly in an epoch, in increasing order."""

    def sorted_by_bin() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        drawn = words(b"bin", epoch, examples)
        attempt = 0
        while (again := np.flatnonzero(drawn > np.uint64(N_WORDS - 1 - N_WORDS % bins))).size:
            attempt += 1
            drawn[again] = words(b"bin", epoch, examples, attempt)[again]
        places = drawn % np.uint64(bins)
        order = np.argsort(places, kind="stable").astype(np.int64)
        return order, np.searchsorted(places[order], np.arange(bins + 1, dtype=np.uint64)).astype(np.int64)

    order, ends = words.keep(epoch, sorted_by_bin)
    return order[ends[place] : ends[place + 1]]
