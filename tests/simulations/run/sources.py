"""Keys and nonces that are known: runs whose noise can be made again."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from corrnoise.simulations.run import draws

KEY = bytes(range(32))


def known_key() -> AbstractContextManager[Any]:
    """Runs that begin in this block have the key ``KEY``."""
    return mock.patch.object(draws, "fresh", lambda size: KEY[:size])


def counted(first: int = 0) -> AbstractContextManager[Any]:
    """Keys and nonces in this block are the numbers from ``first`` on."""
    numbers = iter(range(first, 10**9))
    return mock.patch.object(draws, "fresh", lambda size: next(numbers).to_bytes(size, "big"))
