"""Keys and nonces that are known: runs whose noise can be made again; and runs without an accountant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from corrnoise.simulations.run import draws
from corrnoise.theory.amplification import curve
from corrnoise.theory.mechanisms import program

KEY = bytes(range(32))


def known_key() -> AbstractContextManager[Any]:
    """Runs that begin in this block have the key ``KEY``."""
    return mock.patch.object(draws, "fresh", lambda size: KEY[:size])


@contextmanager
def worst_case() -> Iterator[None]:
    """Runs in this block have the noise of the worst case, so that sampled ones need no accountant."""
    nothing = mock.Mock(upper=1.0)  # a bound of δ that verifies no multiplier
    with (
        mock.patch.object(program.Program, "_amplified", return_value=math.inf),
        mock.patch.object(program, "uncut_delta", lambda delta, _: delta),
        mock.patch.object(curve, "delta_of", return_value=nothing),
    ):
        yield


def counted(first: int = 0) -> AbstractContextManager[Any]:
    """Keys and nonces in this block are the numbers from ``first`` on."""
    numbers = iter(range(first, 10**9))
    return mock.patch.object(draws, "fresh", lambda size: next(numbers).to_bytes(size, "big"))
