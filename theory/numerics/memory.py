"""Memory that arrays leave behind."""

from __future__ import annotations

import ctypes
import sys


def return_free_memory() -> None:
    """Return freed memory to the system, where the C library is glibc.

    It keeps freed arrays of less than 32 MiB for others of such sizes, and larger ones do not use them.  After many
    arrays of a long run that is hundreds of MB.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
