"""SIGTERM, with which schedulers of clusters end a process: heard inside a block, and obeyed between two steps."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress


class Termination:
    """A block in which SIGTERM sets a flag, where the process has no handler of its own; blocks may be nested."""

    def __init__(self) -> None:
        self.sent = False
        self._depth = 0
        self._ours = False

    def __enter__(self) -> Termination:
        main = threading.current_thread() is threading.main_thread()
        if not self._depth and main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._hear)
            self._ours = True
        self._depth += 1
        return self

    def _hear(self, *_: object) -> None:
        self.sent = True

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth and self._ours:
            self._ours = False
            with suppress(ValueError):  # a loop that was left is cleared away by another thread
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
