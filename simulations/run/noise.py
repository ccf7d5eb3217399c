"""The noise of a program for a whole model, step by step, on several threads.

The vector is cut into parts of 65 536 coordinates, a multiple of the blocks of ``draws``, each with an engine of its
own.  The cut has no influence on the numbers.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import engine, step_scale
from corrnoise.support.memory import fits_into_memory
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_PART = 65_536


class ModelNoise:
    """The noise of a program, one vector of ``size`` numbers a step, from the first step on.

    So many ``threads`` make the parts; None for one a core.
    """

    def __init__(self, program: Program, size: int, threads: int | None) -> None:
        self._program = program
        self._size = size
        rows = engine(program, 1).memory.shape[0]
        fits_into_memory("size", size, size * (4 + rows * np.dtype(program.dtype).itemsize))
        self._ends = [*range(_PART, size, _PART), size]
        self._engines = [engine(program, length) for length in np.diff(self._ends, prepend=0).tolist()]
        self._threads = os.cpu_count() or 1 if threads is None else checks.integer("threads", threads, 1)
        self._pool: ThreadPoolExecutor | None = None

    @property
    def memory(self) -> Array:
        """The memory that later steps need, shape (rows, size)."""
        return np.concatenate([each.memory for each in self._engines], axis=1)

    @memory.setter
    def memory(self, rows: Array) -> None:
        for each, end in zip(self._engines, self._ends, strict=True):
            each.memory = np.array(rows[:, end - each.memory.shape[1] : end], each.memory.dtype)

    def made(self, secret: bytes, step: int, nonce: bytes, scale: float) -> NDArray[np.float32]:
        """The noise of a step, by the normals of ``draws`` times ``scale``; steps come one after the other."""
        factor = step_scale(self._program, scale, step)
        found = np.empty(self._size, np.float32)

        def part(number: int) -> None:
            first = number * _PART
            target = found[first : self._ends[number]]
            values: NDArray[Any] = target if self._program.dtype == "float32" else np.empty(target.size)
            self._engines[number].step(draws.filler(secret, step, first, nonce), values, step)
            np.multiply(values, values.dtype.type(factor), out=target, casting="same_kind")

        if len(self._ends) == 1 or self._threads == 1:
            for number in range(len(self._ends)):
                part(number)
            return found
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "corrnoise-noise")
        list(self._pool.map(part, range(len(self._ends))))
        return found

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
