"""Keys and nonces that are known: runs whose noise can be made again; and runs without an accountant."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from corrnoise.simulations.run import draws
from corrnoise.theory.mechanisms.program import Program

KEY = bytes(range(32))


def known_key() -> AbstractContextManager[Any]:
    """Runs that begin in this block have the key ``KEY``."""
    return mock.patch.object(draws, "fresh", lambda size: KEY[:size])


def worst_case() -> AbstractContextManager[Any]:
    """Runs in this block have the noise of the worst case, so that sampled ones need no accountant."""
    return mock.patch.object(Program, "_amplified", return_value=math.inf)


def counted(first: int = 0) -> AbstractContextManager[Any]:
    """Keys and nonces in this block are the numbers from ``first`` on."""
    numbers = iter(range(first, 10**9))
    return mock.patch.object(draws, "fresh", lambda size: next(numbers).to_bytes(size, "big"))
