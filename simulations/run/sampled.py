"""Sampled batches: the run draws the steps of every example from its secret key.

The class of the participation says how the words of an example decide (``theory.participation.sampled``).  A word is a
uniform integer of 64 bits, a function of (key, purpose, step, example) and of nothing else (``draws.words``): a run
that resumes draws the same batches, and only the key gives them.  A batch above the capacity is cut to the examples
with the smallest words of another purpose, which do not depend on the content of the examples.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.secret import Key, Secret
from corrnoise.support.serialise import digest
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation, Sampled
from corrnoise.theory.participation.legacy import stable_text


class RunWords:
    """The words of a run (``theory.participation.Words``), from its secret."""

    def __init__(self, secret: Secret, generator: draws.Generator) -> None:
        self._secret, self._generator = secret, generator
        self._kept: tuple[Hashable, Any] | None = None

    def __call__(self, purpose: bytes, step: int, count: int, attempt: int = 0) -> NDArray[np.uint64]:
        return draws.words(self._secret, purpose, step, count, attempt=attempt, generator=self._generator)

    def keep(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if self._kept is None or self._kept[0] != key:
            self._kept = key, make()
        return self._kept[1]


@record
class SampledBatches(Record):
    """The batches of a sampled participation, which a run draws from its secret; sizes vary, and may be 0.

    Parameters
    ----------
    participation : Sampled
        The sampling.
    examples : int, optional
        N >= 1, the size of the data set, which the participation may state, too.
    batch_size : float, optional
        The divisor of sums: the expected number of examples of a batch, or this rounded; None for the expected number.

    Examples
    --------
    >>> found = SampledBatches(Participation.poisson(100, 0.25), 1000)
    >>> found.batch_size
    250.0
    >>> found.bound(bytes(32)).batch(3).size
    251
    """

    participation: Sampled
    examples: int
    batch_size: float

    def __init__(self, participation: Participation, examples: int, batch_size: float | None = None) -> None:
        who = checks.instance("participation", participation, Participation)
        if not isinstance(who, Sampled):
            raise ValueError(f"participation must be sampled, got {who!r}")
        count = checks.integer("examples", examples, 1)
        if who.examples not in (None, count):
            raise ValueError(f"examples must be the {who.examples} of the participation, got {count}")
        expected = who.mean_batch(count)
        size = expected if batch_size is None else checks.real("batch_size", batch_size, "(0, inf)")
        if abs(size - expected) >= 1:
            raise ValueError(
                f"batch_size must be {expected:.6g}, the expected size of a batch of {count} examples, or this rounded "
                f"down or up, got {batch_size}"
            )
        self._set(participation=who, examples=count, batch_size=size, _sampler=None, _last=(-1, None))

    def bound(self, secret: Key, generator: draws.Generator = "Philox4x32-10") -> SampledBatches:
        """The same batches, drawn from a secret, the key of a run of 16 to 64 bytes."""
        found = SampledBatches(**self.arguments())
        found._set(_sampler=RunWords(Secret(draws.derived(secret, b"batches", size=draws.KEY_BYTES)), generator))
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
        return digest([stable_text(self.participation), self.examples, self.batch_size])[:32]

    def batch(self, step: int) -> NDArray[np.int64]:
        """The examples of a step in [0, ``steps``), in increasing order; the batches must be bound to a secret."""
        place = checks.integer("step", step, 0, largest=self.steps - 1)
        if self._sampler is None:  # type: ignore[attr-defined]
            raise RuntimeError("sampled batches are drawn from the secret of a run: ask run.batches for them")
        last, batch = self._last  # type: ignore[attr-defined]
        if last != place:
            batch = self._cut(place, self._drawn(place))
            self._set(_last=(place, batch))
        return batch.copy()

    def slots(self, step: int) -> NDArray[np.int64]:
        """The slots of the examples of a step: a uniform injection into {0, …, capacity − 1}, drawn from the secret.

        A library may round the gradient of a row by its place among the rows.  The restriction of a uniform injection
        is uniform, so that an absent example does not change the law of the slots of the others.  Equal words, which
        would make the injection less than uniform, need a collision of 128 bits.
        """
        if (capacity := self.participation.capacity) is None:
            raise ValueError("participation must have a capacity for slots, got None; see Sampled.with_room")
        size = self.batch(step).size
        words = [self._sampler(b"slot", step, capacity, attempt) for attempt in (0, 1)]  # type: ignore[attr-defined]
        return np.lexsort(words)[:size].astype(np.int64)

    def _drawn(self, step: int) -> NDArray[np.int64]:
        """The examples of a step, before the capacity."""
        found = self.participation.batch(step, self.examples, self._sampler)  # type: ignore[attr-defined]
        if found.size and (found[0] < 0 or found[-1] >= self.examples or (np.diff(found) <= 0).any()):
            raise ValueError(
                f"{type(self.participation).__name__}.batch must return increasing numbers in [0, {self.examples}), "
                f"got {found!r:.80} at step {step}"
            )
        return found

    def _cut(self, step: int, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """A batch of at most the capacity."""
        most = self.participation.capacity
        if most is None or members.size <= most:
            return members
        ranks = self._sampler(b"keep", step, self.examples)[members]  # type: ignore[attr-defined]
        return np.sort(members[np.argsort(ranks, kind="stable")[:most]])

    def in_words(self) -> str:
        """The sizes of the batches."""
        return f"batches of {self.batch_size:.6g} of {self.examples} examples on average, drawn from the run's secret"
