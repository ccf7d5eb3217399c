"""Types of options that several commands share."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError


def jobs(text: str) -> int:
    """A number of processes, or −1 for one a core."""
    if not re.fullmatch(r"-1|[1-9]\d*", text):
        raise ArgumentTypeError(f"{text!r} is no number of processes, which is 1, 2, ... or -1 for one a core")
    return int(text)
