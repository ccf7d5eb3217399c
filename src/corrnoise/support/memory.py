"""The memory of this machine, and arguments that need more than there is."""

from __future__ import annotations

import os

_ASSUMED_BYTES = 8 * 2**30  # bytes, where the system does not tell


def memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no such question on this system
        return _ASSUMED_BYTES


def fits_into_memory(name: str, value: object, size: int) -> None:
    """Refuse the argument ``name`` if its ``size`` bytes exceed the memory of this machine."""
    there = memory()
    if size > there:
        raise ValueError(
            f"{name} must be smaller, got {value!r}, which takes {size / 2**30:.3g} GiB of memory, of "
            f"{there / 2**30:.3g} GiB"
        )
