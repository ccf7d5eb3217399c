"""The guard of what makes secret noise: one thread at a time, one process, no copies, no use after an interruption.

Noise that is made twice, or for two sums, is no noise: the difference of the two releases shows the data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import NoReturn


class Guarded:
    """Base of the classes whose objects make secret noise."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = RLock()
        self._broken = False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out; refuse other processes, and an object that was interrupted."""
        name = type(self).__name__
        if os.getpid() != self._process:  # before the lock, which a thread of the other process may hold for ever
            raise RuntimeError(f"{name} must not be used by a copy of its process: both would add the same noise")
        with self._lock:
            if self._broken:
                raise RuntimeError(f"{name} was interrupted while it made noise: close it and make it anew")
            yield

    @contextmanager
    def _making(self) -> Iterator[None]:
        """Break the object for good unless the block ends without an exception."""
        self._broken = True
        yield
        self._broken = False

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refused, as two copies would add the same noise."""
        raise TypeError(f"{type(self).__name__} must not be copied: both would add the same noise")
