"""Limits for code that may do anything: a time and an amount of memory, beyond which it ends with an exception.

They hold where the system can impose them: in the main thread of a process, with signals and resource limits.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class OutOfTimeError(BaseException):
    """Code took longer than it may; not an ``Exception``, so that it passes through code that catches those."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``OutOfTimeError`` in the block once it has taken ``seconds``."""

    def stop(*_: Any) -> None:
        raise OutOfTimeError

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Let allocations in the block fail with ``MemoryError`` that would make the process ``size`` bytes larger."""
    statistics = Path("/proc/self/statm")
    if not statistics.is_file():
        yield
        return
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(statistics.read_text().split()[0]) * resource.getpagesize()
    most = used + size if before == resource.RLIM_INFINITY else min(before, used + size)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
