"""A fixed order of the data: the same batches in every epoch, and the participation that follows from it.

The noise multiplier of several epochs belongs to an order of the data.  If each example stands in the same batch of
every epoch, S steps apart, its participations are S steps apart.  Data that are shuffled anew in every epoch promise no
distance at all, and the multiplier for a fixed order does not cover them.

The order may be known to everybody.  It must not depend on what the examples hold.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.participation import Participation
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record


@record
class FixedOrder(Record):
    """Batches of examples in the same order in every epoch.

    Parameters
    ----------
    permutation
        The examples in their order, each number from 0 to n − 1 once, shape (n,).
    batch_size
        B, 1 <= B <= n.  The last n mod B examples of the permutation are left out of the run.
    epochs
        How often the batches are passed through.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or ``permutation`` has an example twice.

    Examples
    --------
    >>> order = FixedOrder([3, 0, 4, 1, 2], batch_size=2, epochs=2)
    >>> [order.batch(step).tolist() for step in range(order.steps)]
    [[3, 0], [4, 1], [3, 0], [4, 1]]
    >>> order.participation.in_words()
    'each example once in each of 2 epochs of 2 steps, in the same order'
    """

    permutation: NDArray[np.int64]
    batch_size: int
    epochs: int

    def __post_init__(self) -> None:
        permutation = np.asarray(self.permutation)
        if permutation.ndim != 1 or permutation.size == 0 or permutation.dtype.kind not in "iu":
            raise ValueError(f"permutation must be a vector of integers, got {self.permutation!r:.80}")
        if not np.array_equal(np.sort(permutation), np.arange(permutation.size)):
            raise ValueError("permutation must have each of the numbers 0, …, n − 1 once")
        own = permutation.astype(np.int64)
        own.setflags(write=False)
        size = checks.integer("batch_size", self.batch_size, 1, largest=permutation.size)
        self._set(permutation=own, batch_size=size, epochs=checks.integer("epochs", self.epochs, 1))

    @property
    def examples(self) -> int:
        """The number n of examples of the data set."""
        return self.permutation.size

    @property
    def steps_per_epoch(self) -> int:
        """The number S = floor(n/B) of batches."""
        return self.examples // self.batch_size

    @property
    def steps(self) -> int:
        """The length of the run, T = S × epochs."""
        return self.steps_per_epoch * self.epochs

    @property
    def participation(self) -> Participation:
        """Who takes part when, as sensitivities take it."""
        return Participation.fixed_epochs(self.steps, epochs=self.epochs)

    @property
    def identity(self) -> str:
        """A name that two orders share only if they have the same batches: 32 hexadecimal digits."""
        sizes = np.array([self.batch_size, self.epochs], "<i8").tobytes()
        return hashlib.blake2b(sizes + self.permutation.astype("<i8").tobytes(), digest_size=16).hexdigest()

    def batch(self, step: int) -> NDArray[np.int64]:
        """The examples of a step.

        Parameters
        ----------
        step
            0 <= step < ``steps``.

        Returns
        -------
        Their numbers, shape (batch_size,).
        """
        number = checks.integer("step", step, 0, largest=self.steps - 1) % self.steps_per_epoch
        return self.permutation[number * self.batch_size : (number + 1) * self.batch_size].copy()


def fixed_order(examples: int, batch_size: int, epochs: int, rng: Seed = None) -> FixedOrder:
    """A random permutation of the data, the same in every epoch.

    Parameters
    ----------
    examples
        n >= 1, the size of the data set.
    batch_size
        B, 1 <= B <= n.
    epochs
        How often the batches are passed through.
    rng
        Seed or generator of the permutation, which need not be secret.

    Examples
    --------
    >>> order = fixed_order(1437, batch_size=71, epochs=20, rng=0)
    >>> order.steps, order.participation.period
    (400, 20)
    """
    count = checks.integer("examples", examples, 1)
    return FixedOrder(generator(rng).permutation(count), batch_size, epochs)
