"""The processes of one run: each has a shard of the model, and makes the noise of its shard alone.

The first has the folder, notes each step, and tells the others what they need: the key, the program, the batches, and
the nonce of a step once it is noted.  An error in the first process is raised in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from corrnoise.simulations.run.spans import Spans

Told = TypeVar("Told")


class Ranks(Protocol):
    """The processes of a run, an object in each process.  All call the same functions in the same order.

    Attributes
    ----------
    rank, count
        The number of this process, from 0, and how many there are.
    spans
        The coordinates of this process; None for all.
    """

    rank: int
    count: int
    spans: Spans | None

    def share(self, make: Callable[[], Told]) -> Told:
        """The result of a function in the first process, which alone calls it.

        Parameters
        ----------
        make : callable
            The function, without arguments.

        Returns
        -------
        Told
        """

    def wait(self) -> None:
        """Wait for all processes."""


class Alone:
    """The one process of a run that has the whole model."""

    rank: int = 0
    count: int = 1
    spans: Spans | None = None

    def share(self, make: Callable[[], Told]) -> Told:
        """The result of the function."""
        return make()

    def wait(self) -> None:
        """Go on."""
