"""What the options of several commands share: types, and names in errors."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager


def jobs(text: str) -> int:
    """A number of processes, or −1 for one a core."""
    if not re.fullmatch(r"-1|[1-9]\d*", text):
        raise ArgumentTypeError(f"{text!r} is no number of processes, which is 1, 2, ... or -1 for one a core")
    return int(text)


@contextmanager
def names_as_typed(*names: str) -> Iterator[None]:
    """Say ``--clip-norm`` in errors that begin with ``clip_norm``, for each of ``names``."""
    try:
        yield
    except ValueError as error:
        name, space, rest = str(error).partition(" ")
        if name not in names:
            raise
        raise ValueError(f"--{name.replace('_', '-')}{space}{rest}") from error
