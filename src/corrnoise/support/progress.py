"""A line of progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_line(shown: bool | None = None) -> Iterator[Callable[[str], None]]:
    """A function that shows a text and replaces the previous one; the line is cleared at the end.

    ``shown`` says whether anything is shown; for None the line is shown if standard error is a terminal.
    """
    visible = sys.stderr.isatty() if shown is None else shown

    def show(text: str) -> None:
        if visible:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        show("")
