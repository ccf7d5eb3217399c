"""Sampled batches: each example draws its steps for itself, from the secret key of the run.

==================  ================================================================================================
kind                the words of an example, and what they decide
==================  ================================================================================================
poisson             one a step: it is in the batch if the word is below p 2⁶⁴, rounded down
cyclic poisson      one at each turn of its group, which is its number modulo b
balls in bins       one for the run: its bin is the word modulo b
redrawn bins        one an epoch
==================  ================================================================================================

A word is a uniform integer of 64 bits, a function of (key, step, example) and of nothing else (``draws.words``): a run
that is resumed draws the same batches, and only the key gives them.  The probability that is really drawn is
never above the rate of the participation, and by at most 2⁻⁶⁴ below.  A bin is exactly uniform: words of the last
incomplete multiple of b are drawn again.  A batch above the capacity is cut to the examples with the smallest words of
another purpose, which do not depend on the content of the examples.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.secret import Key, Secret
from corrnoise.support.serialise import digest
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation

_WORDS = 2**64


@record
class SampledBatches(Record):
    """The batches of a sampled participation, which a run draws from its secret; sizes vary, and may be 0.

    Parameters
    ----------
    participation
        Of a sampled kind.
    examples
        N >= 1, the size of the data set, which the participation may state, too.
    batch_size
        The divisor of sums: the expected number of examples of a batch, or this rounded down or up;
        None for the expected number.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range or does not fit the participation.

    Examples
    --------
    >>> found = SampledBatches(Participation.poisson(100, 0.25), 1000)
    >>> found.batch_size
    250.0
    >>> found.bound(bytes(32)).batch(3).size
    251
    """

    participation: Participation
    examples: int
    batch_size: float

    def __init__(self, participation: Participation, examples: int, batch_size: float | None = None) -> None:
        who = checks.instance("participation", participation, Participation)
        if not who.sampled:
            raise ValueError(f"participation must be sampled, got {who.kind!r}")
        count = checks.integer("examples", examples, 1)
        if who.examples not in (None, count):
            raise ValueError(f"examples must be the {who.examples} of the participation, got {count}")
        expected = count / who.period * (1.0 if who.rate is None else who.rate)
        size = expected if batch_size is None else checks.real("batch_size", batch_size, "(0, inf)")
        if abs(size - expected) >= 1:
            raise ValueError(
                f"batch_size must be {expected:.6g}, the expected size of a batch of {count} examples, or this rounded "
                f"down or up, got {batch_size}"
            )
        self._set(participation=who, examples=count, batch_size=size, _sampler=None, _last=(-1, None), _bins=(-1, None))

    def bound(self, secret: Key) -> SampledBatches:
        """The same batches, drawn from a secret.

        Parameters
        ----------
        secret
            The key of a run, 16 to 64 bytes.
        """
        found = SampledBatches(**self.arguments())
        found._set(_sampler=Secret(draws.derived(secret, b"batches", size=draws.KEY_BYTES)))
        return found

    @property
    def steps(self) -> int:
        """The length of the run."""
        return self.participation.length

    @property
    def largest_batch(self) -> int:
        """The largest number of examples that a batch can have."""
        capacity = self.participation.capacity
        return self.examples if capacity is None else min(capacity, self.examples)

    @property
    def identity(self) -> str:
        """A name that two objects share only if one secret gives them the same batches: 32 hexadecimal digits."""
        return digest([repr(self.participation), self.examples, self.batch_size])[:32]

    def batch(self, step: int) -> NDArray[np.int64]:
        """The examples of a step, in the order of their numbers.

        Parameters
        ----------
        step
            0 <= step < ``steps``.

        Raises
        ------
        RuntimeError
            These batches are bound to no secret.
        """
        place = checks.integer("step", step, 0, largest=self.steps - 1)
        if self._sampler is None:  # type: ignore[attr-defined]
            raise RuntimeError("sampled batches are drawn from the secret of a run: ask run.batches for them")
        last, batch = self._last  # type: ignore[attr-defined]
        if last != place:
            batch = self._cut(place, self._members(place))
            self._set(_last=(place, batch))
        return batch.copy()

    def _members(self, step: int) -> NDArray[np.int64]:
        """The examples of a step, before the capacity."""
        who = self.participation
        if who.rate is None:
            epoch, bin_ = divmod(step, who.period)
            order, ends = self._sorted(0 if who.kind == "balls in bins" else epoch)
            return order[ends[bin_] : ends[bin_ + 1]]
        group = np.arange(step % who.period, self.examples, who.period)
        threshold = int(Fraction(who.rate) * _WORDS)
        if threshold == _WORDS:
            return group
        return group[self._words(b"take", step, group.size) < np.uint64(threshold)]

    def _sorted(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The examples by their bins, and where each bin begins."""
        last, found = self._bins  # type: ignore[attr-defined]
        if last != epoch:
            b = self.participation.period
            words = self._words(b"bin", epoch, self.examples)
            attempt = 0
            while (again := np.flatnonzero(words > np.uint64(_WORDS - 1 - _WORDS % b))).size:
                attempt += 1
                words[again] = self._words(b"bin", epoch, self.examples, attempt)[again]
            bins = words % np.uint64(b)
            order = np.argsort(bins, kind="stable").astype(np.int64)
            found = order, np.searchsorted(bins[order], np.arange(b + 1, dtype=np.uint64)).astype(np.int64)
            self._set(_bins=(epoch, found))
        return found

    def _cut(self, step: int, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """A batch of at most the capacity."""
        most = self.participation.capacity
        if most is None or members.size <= most:
            return members
        ranks = self._words(b"keep", step, self.examples)[members]
        return np.sort(members[np.argsort(ranks, kind="stable")[:most]])

    def _words(self, purpose: bytes, step: int, count: int, attempt: int = 0) -> NDArray[np.uint64]:
        return draws.words(self._sampler, purpose, step, count, attempt=attempt)  # type: ignore[attr-defined]

    def in_words(self) -> str:
        """The sizes of the batches."""
        return f"batches of {self.batch_size:.6g} of {self.examples} examples on average, drawn from the run's secret"
