"""Progress of long work: a bar with the time left on a terminal, lines in the log of this module elsewhere."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

FIRST_SECONDS = 1.5  # from the start of the work to the first line of the log
PAUSE_SECONDS = 10.0  # between two lines of the log, unless details are wanted

Progress = Callable[[str], None]  #: a function that is told the work of the moment

logger = logging.getLogger(__name__)


class Show(Protocol):
    """A function that shows the present work and, if ``total`` is given, that ``done`` of ``total`` parts are done.

    The empty text clears the line.
    """

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show it."""


@contextmanager
def progress_line(shown: bool | None = None) -> Iterator[Show]:
    """Yield a function that shows the progress of the work in the block.

    On a terminal each call replaces the line of the previous one, and the line is cleared at the end.  Elsewhere, and
    where the log has details, each call is a record: of level INFO every ten seconds, otherwise of level DEBUG.
    The first record of level INFO comes after one and a half seconds, even while a call takes longer.
    ``shown``: True always draws the line on standard error, False shows nothing, and None draws it on a terminal.
    """
    details = logger.isEnabledFor(logging.DEBUG)
    drawn = (sys.stderr.isatty() and not details) if shown is None else shown
    logged = time.monotonic()
    latest = "working"
    began: dict[int, tuple[int, float]] = {}  # the first call with each total: the parts done, and the time

    def show(text: str, done: int = 0, total: int = 0) -> None:
        nonlocal latest, logged
        now = time.monotonic()
        first, start = began.setdefault(total, (done, now))
        left = time_left((now - start) * (total - done) / (done - first)) if first < done < total else ""
        if drawn:
            line = " ".join(filter(None, (bar(done, total) if total else "", text))) + (left and f", {left}")
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif shown is None and text:
            due = now >= logged + PAUSE_SECONDS
            logged = now if due else logged
            latest = text + (f" ({done} of {total}{left and f', {left}'})" if total else "")
            logger.log(logging.INFO if due else logging.DEBUG, "%s", latest)

    first_line = threading.Timer(FIRST_SECONDS, lambda: logger.info("%s", latest))
    first_line.daemon = True
    if not drawn and not details and shown is None:
        first_line.start()
    try:
        yield show
    finally:
        first_line.cancel()
        if drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def bar(done: int, total: int) -> str:
    """The share of the work that is done, drawn and in numbers."""
    filled = 20 * done // total
    return f"{'█' * filled}{'░' * (20 - filled)} {done}/{total}"


def time_left(seconds: float) -> str:
    """A time in words, rounded up."""
    return f"{math.ceil(seconds)} s left" if seconds < 100 else f"{math.ceil(seconds / 60)} min left"
