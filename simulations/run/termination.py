"""SIGTERM, the signal of cluster schedulers to end a process: noted in a loop, obeyed between two steps, never lost.

The handler lives from the first batch of a loop to the end of the loop.  The first signal sets a flag and restores the
default action, so that a second signal ends the process at once.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

from corrnoise.support.process import Process, this_process


class Termination:
    """The handler of SIGTERM of one run, where the process has none of its own."""

    def __init__(self) -> None:
        self._loops = 0
        self._hearing: Process | None = None  # the process whose signals the handler notes
        self._sent: Process | None = None  # the process that was sent a signal

    @property
    def sent(self) -> bool:
        """Whether this process was sent a signal that nothing has obeyed yet."""
        return self._sent == this_process()

    def begin(self) -> None:
        """Note signals from here on; loops may be nested."""
        self._loops += 1
        main = threading.current_thread() is threading.main_thread()
        if self._loops == 1 and not self.sent and main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._hearing = this_process()
            signal.signal(signal.SIGTERM, self._hear)

    def _hear(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._hearing == this_process():
            self._sent = self._hearing
        else:  # the loop has ended in another thread, or this is a forked child of its process
            _end_process()

    def end(self) -> None:
        """End a loop; the last one restores the default action and sends a signal again that was noted."""
        self._loops -= 1
        if not self._loops:
            self.stop()
            self.deliver()

    def stop(self) -> None:
        """Note no signals any more, in none of the loops."""
        self._hearing = None
        with suppress(ValueError):  # another thread cannot restore the action: the handler then sends the signal again
            if signal.getsignal(signal.SIGTERM) == self._hear:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def obey(self) -> None:
        """Note that the caller ends the process because of the signal."""
        self.stop()
        self._sent = None

    def deliver(self) -> None:
        """Send a signal again that was noted and not obeyed."""
        if self.sent:
            self._sent = None
            _end_process()


def _end_process() -> None:
    """Send SIGTERM to this process, whose action is the default one, or a handler that was set since."""
    os.kill(os.getpid(), signal.SIGTERM)
