"""Types of options that several commands have, and the names of options in errors."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(ValueError):
    """A wrong value on the command line, which ends the command with exit status 2."""


def jobs(text: str) -> int:
    """A number of processes, or −1 for one a core."""
    if not re.fullmatch(r"-1|[1-9]\d*", text):
        raise ArgumentTypeError(f"{text!r} must be a number of processes, 1, 2, ... or -1 for one a core")
    return int(text)


def option(name: str) -> str:
    """How an argument is typed: ``--clip-norm`` for ``clip_norm``."""
    return "--" + name.replace("_", "-")


@contextmanager
def names_as_typed(*names: str) -> Iterator[None]:
    """Say ``--clip-norm`` in errors about ``clip_norm``, for each of ``names``: ``UsageError``."""
    try:
        yield
    except ValueError as error:
        pattern = rf"(^|\bby |\band |\bwith )({'|'.join(names)})\b"
        raise UsageError(re.sub(pattern, lambda m: m[1] + option(m[2]), str(error))) from error
