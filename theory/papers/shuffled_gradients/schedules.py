"""Schedules of shuffled gradient methods: which steps see private records, and which add noise.

A run has K epochs of n steps.  Step i of epoch k uses a private record if i <= n_k and a public one otherwise, and adds
N(0, σ² I) to the gradient where the schedule says so:

    x ← x − η (∇f + noise),    and at the end of the epoch x ← prox_{n η ψ}(x).

Source: Jiang, Sharma, Wu and Joshi, Improving the Convergence of Private Shuffled Gradient Methods with Public Data,
2026: Algorithms 1 to 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation

Placement = Literal["every", "private", "tail", "end"]
PLACEMENTS: tuple[str, ...] = get_args(Placement)
#: Participation by the words of the paper, from n and K: permutations are uniform and unknown.
ORDERS: dict[str, Callable[[int, int], Participation]] = {
    "given": lambda n, epochs: Participation.fixed_epochs(n * epochs, period=n),
    "shuffled once": lambda n, epochs: Participation.fixed_epochs(n * epochs, period=n, secret=True),
    "reshuffled": lambda n, epochs: Participation.reshuffled(n * epochs, period=n, secret=True),
}


@record
class Schedule(Record):
    """Private steps and noise of a run."""

    samples: int  #: n >= 1, steps an epoch
    #: n_k in {0, …, n} for each epoch, shape (K,): its first n_k steps use private records.  Noise is added in the
    #: epochs that have any.
    private: NDArray[np.int64]
    #: where in such an epoch: ``"every"`` step (as published), the ``"private"`` steps, the ``"tail"`` from the last
    #: private step on, or the ``"end"``, the last step only
    placement: Placement = "every"

    def __init__(self, samples: int, private: ArrayLike, placement: Placement = "every") -> None:
        n = checks.integer("samples", samples, 1)
        try:
            counts = np.array(private)
        except ValueError as error:
            raise ValueError(f"private must be a non-empty vector of integers, got {private!r:.80}") from error
        if counts.dtype.kind not in "iu" or counts.ndim != 1 or counts.size == 0:
            raise ValueError(f"private must be a non-empty vector of integers, got {private!r:.80}")
        if counts.min() < 0 or counts.max() > n:
            raise ValueError(f"private must lie in [0, samples] = [0, {n}], got {counts.min()} to {counts.max()}")
        counts = counts.astype(np.int64)
        counts.setflags(write=False)
        self._set(samples=n, private=counts, placement=checks.choice("placement", placement, PLACEMENTS))

    @property
    def epochs(self) -> int:
        """K."""
        return int(self.private.size)

    def noisy_steps(self, private: int) -> NDArray[np.bool_]:
        """Which steps of an epoch with ``private`` private ones, 0 to n, add noise, shape (n,)."""
        if checks.integer("private", private, 0) > self.samples:
            raise ValueError(f"private must lie in [0, samples] = [0, {self.samples}], got {private!r}")
        step = np.arange(1, self.samples + 1)
        if private == 0:
            return np.zeros(self.samples, dtype=bool)
        return {
            "every": step > 0,
            "private": step <= private,
            "tail": step >= private,
            "end": step == self.samples,
        }[self.placement]


def dp_shuffled(samples: int, *, epochs: int, placement: Placement = "every") -> Schedule:
    """DP-ShuffleG: private records only."""
    return Schedule(samples, np.full(checks.integer("epochs", epochs, 1), samples), placement)


def private_then_public(samples: int, *, epochs: int, private_epochs: int) -> Schedule:
    """Priv-Pub: ``private_epochs`` epochs of private records, then public ones."""
    k = np.arange(checks.integer("epochs", epochs, 1))
    return Schedule(samples, np.where(k < _at_most_all(private_epochs, epochs), samples, 0))


def public_then_private(samples: int, *, epochs: int, private_epochs: int) -> Schedule:
    """Pub-Priv: public records first, then ``private_epochs`` epochs of private ones."""
    k = np.arange(checks.integer("epochs", epochs, 1))
    return Schedule(samples, np.where(k >= epochs - _at_most_all(private_epochs, epochs), samples, 0))


def interleaved(samples: int, *, epochs: int, private_per_epoch: int, placement: Placement = "every") -> Schedule:
    """Interleaved-ShuffleG: ``private_per_epoch`` private records, then public ones, in every epoch.

    In a given order, or one that is shuffled once, these are the same records in every epoch: no other is ever used.
    """
    count = checks.integer("private_per_epoch", private_per_epoch, 0)
    return Schedule(samples, np.full(checks.integer("epochs", epochs, 1), count), placement)


def _at_most_all(private_epochs: int, epochs: int) -> int:
    if checks.integer("private_epochs", private_epochs, 1) > epochs:
        raise ValueError(f"private_epochs must lie in [1, epochs] = [1, {epochs}], got {private_epochs!r}")
    return private_epochs
