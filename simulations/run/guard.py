"""The guard of what makes secret noise: one process, one thread and one call at a time, no copies, no broken objects.

Noise that is made twice, or for two sums, hides nothing: the difference of the two releases shows the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import NoReturn

from corrnoise.support.process import this_process


class Guarded:
    """Base of the classes whose objects make secret noise."""

    def __init__(self) -> None:
        self._process = this_process()
        self._lock = RLock()  # a plain lock would hang in a signal handler
        self._inside = False
        self._broken = False

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Refuse other processes and calls from within; make other threads wait."""
        name = type(self).__name__
        if this_process() != self._process:  # before the lock, which a thread of the other process may hold for ever
            raise RuntimeError(f"{name} must not be used by a copy of its process: both would add the same noise")
        with self._lock:
            if self._inside:
                raise RuntimeError(
                    f"{name} is used from within itself, by a signal handler or an object that it was given: call it "
                    "when the first call has returned"
                )
            try:
                self._inside = True
                yield
            finally:
                self._inside = False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The same, and refuse an object that was interrupted; its state is read after this."""
        with self._entered():
            if self._broken:
                raise RuntimeError(
                    f"{type(self).__name__} was interrupted while it made noise: close it and make a new one"
                )
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
