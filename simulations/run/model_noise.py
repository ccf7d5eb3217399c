"""The noise of a program for a whole model, step by step, on several threads.

A vector, of the whole model or of the spans of a shard, is cut into parts of 65 536 coordinates, a multiple of the
blocks of ``draws``, each with an engine of its own.  The cut has no influence on the numbers.
"""

from __future__ import annotations

import math
import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import Memory, engine, step_scale
from corrnoise.simulations.run.secret import Key
from corrnoise.simulations.run.spans import Spans, checked, parts
from corrnoise.simulations.run.sums import Grid, released, sum_of_squares, values_of
from corrnoise.support.memory import fits_into_memory
from corrnoise.support.serialise import digest
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_PART_COORDINATES = 65_536
_LOOKED_AT = 256  # steps, and 16 coordinates, whose noise shows how large it is
_FINGERPRINT_STEPS = 64  # of a fingerprint, at least
_FEW_ROWS = 64  # of memory, at most, where a fingerprint has more than ``_PART_COORDINATES`` coordinates
_Place: TypeAlias = tuple[Key, int, bytes]  # secret, step and nonce of a draw
_BLOCK_ENDS = 4096 + 16  # coordinates that reach beyond the blocks of the draws and of the engines


class NoiseMaker(ABC):
    """A maker of the noise of a run, where its model is, which adds it to the sums; steps come one after the other.

    Attributes
    ----------
    spans, size : the coordinates as an array, and their number
    rows, dtype : of the memory
    history : how many last steps make the memory again; None where it has to be kept
    lookback : how many steps back a step makes draws again, whose nonces have to be known
    device : where the noise is made; None for the host, whose vectors are arrays of NumPy
    refined : the share of the integers that floats are expected to leave open; None for noise of floats
    """

    spans: Spans
    size: int
    rows: int
    dtype: np.dtype[Any]
    history: int | None
    lookback: int = 0
    device: Any = None
    refined: float | None = None
    memory: Any  #: what later steps need, shape (rows, coordinates), on the host; may be set between two steps

    @abstractmethod
    def made(self, secret: Any, step: int, nonce: bytes, scale: float, *, wide: bool = False) -> Any:
        """The noise of a step, by the normals of ``draws`` times ``scale``; the secret is a ``Key``."""

    def know(self, nonces: Mapping[int, bytes]) -> None:  # noqa: B027
        """Take the nonces of steps that were made before this maker: nothing, where no draw is made again."""

    def copied(self, total: Any) -> Any:
        """Copy a sum to a vector that nothing else can change, which the release may take."""
        if self.device is None:
            return np.array(total)
        clone = getattr(total, "clone", None)  # arrays of JAX are never changed
        return total if clone is None else clone()

    @abstractmethod
    def norm(self, total: Any) -> float:
        """The norm of a vector, formed in float64; not finite where a number is not."""

    @abstractmethod
    def extremes(self, total: Any) -> tuple[int, int]:
        """The smallest and the largest number of a vector of integers that is not empty."""

    @abstractmethod
    def noisy(self, total: Any, noise: Any, grid: Grid | None, *, on_grid: bool) -> Any:
        """The noisy sum of a step, which may take the place of ``total``."""

    def added(
        self, total: Any, secret: Any, step: int, nonce: bytes, scale: float, grid: Grid | None, *, on_grid: bool
    ) -> Any:
        """The noisy sum of a step, with the noise of ``made``, which is wide for releases on a grid."""
        return self.noisy(total, self.made(secret, step, nonce, scale, wide=on_grid), grid, on_grid=on_grid)

    @abstractmethod
    def on_host(self, values: Any) -> NDArray[Any]:
        """A vector as an array of NumPy."""

    @abstractmethod
    def on_device(self, values: NDArray[Any]) -> Any:
        """An array of NumPy as a vector where the noise is made."""

    def prefetch(self, secret: Any, step: int, nonce: bytes, *, wide: bool = False) -> None:  # noqa: B027
        """Start to draw the normals of a step: nothing, where a device works while the host does."""

    def close(self) -> None:  # noqa: B027
        """End threads and other resources."""


class HostMaker(NoiseMaker):
    """Noise on the host: its coordinates, of some bytes each, in parts that several threads make in arrays of NumPy."""

    def __init__(
        self, size: int, threads: int | None, spans: Iterable[tuple[int, int]] | None, coordinate_bytes: int
    ) -> None:
        self.spans = checked(spans, size)
        self.size = int(self.spans[:, 1].sum())
        fits_into_memory("size", size, self.size * coordinate_bytes)
        self._parts = parts(self.spans, _PART_COORDINATES)
        lengths = [int(part[:, 1].sum()) for part in self._parts]
        self._places = [slice(end - length, end) for end, length in zip(accumulate(lengths), lengths, strict=True)]
        self._threads = os.cpu_count() or 1 if threads is None else checks.integer("threads", threads, 1)
        self._pool: ThreadPoolExecutor | None = None
        self._ready: tuple[_Place, list[Future[Any]]] | None = None

    def _begin(self, place: _Place, part: Callable[[int], Any]) -> None:
        """Start a function of the number of each part for a step, while the caller does something else."""
        self._ready = place, [self._workers().submit(part, number) for number in range(len(self._parts))]

    def _taken(self, place: _Place) -> list[Future[Any]] | None:
        """The started functions, if they were for this step."""
        known, self._ready = self._ready, None
        return known[1] if known is not None and known[0] == place else None

    def _each(self, part: Callable[[int], Any]) -> list[Any]:
        """The results of a function of the number of each part."""
        numbers = range(len(self._parts))
        return list(map(part, numbers) if min(len(numbers), self._threads) == 1 else self._workers().map(part, numbers))

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "corrnoise-noise")
        return self._pool

    def norm(self, total: NDArray[Any]) -> float:
        """The norm of a vector, formed in float64; without BLAS, whose threads compete with others."""
        return math.sqrt(sum_of_squares(total))

    def extremes(self, total: NDArray[Any]) -> tuple[int, int]:
        """The smallest and the largest number of a vector of integers that is not empty."""
        return int(total.min()), int(total.max())

    def on_host(self, values: Any) -> NDArray[Any]:
        """The same."""
        return np.asarray(values)

    def on_device(self, values: NDArray[Any]) -> Any:
        """The same."""
        return values

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


class ModelNoise(HostMaker):
    """The noise of a program on the host, one vector a step, from the first step on.

    Parameters
    ----------
    program : Program
        The program, of a form that runs here.
    size : int
        Number of parameters of the model.
    threads : int or None
        How many make the parts; None for one a core.
    spans : iterable of pair of int, optional
        The coordinates of a shard, pairs (first, length) in the order of its vector; None for the whole model.
    memory : {"ring", "replay"}, default "ring"
        "replay" for a delay line that keeps nothing, and makes earlier draws again.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    TypeError
        If an argument has another type.
    """

    def __init__(
        self,
        program: Program,
        size: int,
        threads: int | None,
        *,
        spans: Iterable[tuple[int, int]] | None = None,
        memory: Memory = "ring",
    ) -> None:
        self._program = program
        one = engine(program, 1, memory)
        self.rows, self.dtype = len(one.memory), one.memory.dtype
        super().__init__(size, threads, spans, 4 + self.rows * self.dtype.itemsize)
        self._engines = [engine(program, int(part[:, 1].sum()), memory) for part in self._parts]
        self.history, self.lookback = one.history, one.lookback
        self._nonces: dict[int, bytes] = {}
        self._replays = memory == "replay"

    @property
    def memory(self) -> Array:
        """The memory that later steps need, shape (rows, coordinates)."""
        return np.concatenate([each.memory for each in self._engines], axis=1)

    @memory.setter
    def memory(self, rows: Array) -> None:
        for each, place in zip(self._engines, self._places, strict=True):
            each.memory = np.array(rows[:, place], each.memory.dtype)

    def made(self, secret: Key, step: int, nonce: bytes, scale: float, *, wide: bool = False) -> NDArray[Any]:
        """The noise of a step, by the normals of ``draws`` times ``scale``; steps come one after the other.

        It is float32, or float64 where it is ``wide``.  Wide noise is made in float64, and the memory alone is rounded
        to the type of the program.  So no result has a larger error than the program covers: one that is rounded to
        float64 and then to float32 is off by less than u/(1 + u) + 2⁻⁵² < u for u = 2⁻²⁴.  A memory of float32 then has
        other last bits: a run is wide in all its steps or in none.
        """
        found = np.empty(self.size, np.float64 if wide else np.float32)
        self._made_parts(secret, step, nonce, scale, partial(operator.setitem, found), wide=wide)
        return found

    def added(
        self, total: Any, secret: Key, step: int, nonce: bytes, scale: float, grid: Grid | None, *, on_grid: bool
    ) -> NDArray[Any]:
        """The noisy sum of a step, part by part, so that the noise stays in the cache."""
        noisy = total if grid is None else np.empty(self.size, np.float32 if on_grid else np.float64)

        def add(place: slice, noise: NDArray[Any]) -> None:
            noisy[place] = self.noisy(total[place], noise, grid, on_grid=on_grid)

        self._made_parts(secret, step, nonce, scale, add, wide=on_grid)
        return noisy

    def _made_parts(
        self, secret: Key, step: int, nonce: bytes, scale: float, use: Callable[[slice, Any], None], *, wide: bool
    ) -> None:
        """Make the noise of a step, and use the place and the noise of each part."""
        factor = step_scale(self._program, scale, step)
        if self.lookback:
            self._nonces = {each: known for each, known in self._nonces.items() if each >= step - self.lookback}
            self._nonces[step] = nonce
        ready = self._taken((secret, step, nonce))

        def part(number: int) -> None:
            place = self._places[number]
            values: NDArray[Any] = np.empty(place.stop - place.start, np.float64 if wide else self._program.dtype)
            draw = draws.filler(secret, step, self._parts[number], nonce)
            if ready is not None and ready[number].result().dtype == values.dtype:
                draw = partial(np.copyto, src=ready[number].result())
            if self.lookback:
                self._engines[number].earlier = lambda earlier: draws.filler(
                    secret, earlier, self._parts[number], self._known_nonce(earlier)
                )
            self._engines[number].step(draw, values, step)
            values *= values.dtype.type(factor)
            use(place, values if wide else values.astype(np.float32, copy=False))

        self._each(part)

    def know(self, nonces: Mapping[int, bytes]) -> None:
        """Take the nonces of steps that were made before this maker."""
        self._nonces.update(nonces)

    def _known_nonce(self, step: int) -> bytes:
        if step not in self._nonces:
            raise RuntimeError(f"the nonce of step {step} is missing, whose draw has to be made again")
        return self._nonces[step]

    def prefetch(self, secret: Key, step: int, nonce: bytes, *, wide: bool = False) -> None:
        """Begin to draw the normals of a step, while the caller does something else; the memory stays as it is.

        They take the place of a vector in memory.  Noise that takes several draws a step, or takes them again, is not
        prefetched.
        """
        if self._program.form == "transform" or self._replays:
            return

        def part(number: int) -> NDArray[Any]:
            spans = self._parts[number]
            values = np.empty(int(spans[:, 1].sum()), np.float64 if wide else self._program.dtype)
            draws.filler(secret, step, spans, nonce)(values)
            return values

        self._begin((secret, step, nonce), part)

    def noisy(self, total: NDArray[Any], noise: NDArray[Any], grid: Grid | None, *, on_grid: bool) -> NDArray[Any]:
        """The noisy sum of a step, of floats in the place of ``total``."""
        if grid is None:
            total += noise
            return total
        return released(total, noise, grid) if on_grid else values_of(total, grid) + noise


def deviation(program: Program) -> float:
    """About the largest standard deviation of the noise of a step, for independent noise of deviation 1.

    It is that of 16 coordinates of the first 256 steps, made with a key that everybody knows, times the growth of the
    factors of later steps and draws.
    """
    steps = _LOOKED_AT if program.participation.steps is None else min(_LOOKED_AT, program.participation.steps)
    made = ModelNoise(program, 16, 1)
    largest = max(float(np.square(made.made(bytes(32), step, b"", 1.0, wide=True)).mean()) for step in range(steps))
    factors = [each for each in (program.step_scales, program.draw_scales) if each is not None]
    return float(np.sqrt(largest) * np.prod([each.max() / each[:steps].max() for each in factors]))


def fingerprint(program: Program, size: int, *, wide: bool, maker: Callable[..., NoiseMaker] | None = None) -> str:
    """Return a digest of the noise that this version makes here with a public key: a restart must find it again.

    Two pieces of noise are in it.  One has 16 coordinates at the end of a block of draws, and two steps more than the
    memory has rows, so that a ring has gone round.  The other has two steps, and as many coordinates as the model up to
    the end of a block of the engines, or of a part.

    Parameters
    ----------
    program : Program
        The program of the run.
    size : int
        The number of parameters of the model.
    wide : bool
        Whether the run makes its noise in float64.
    maker : callable, optional
        What makes the noise of the run here; None for ``ModelNoise``.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    make = ModelNoise if maker is None else maker
    narrow = make(program, 2056, 1, spans=[(2040, 16)])
    ends = min(size, _PART_COORDINATES + 16 if narrow.rows <= _FEW_ROWS else _BLOCK_ENDS)
    pieces = ((narrow, max(narrow.rows + 2, _FINGERPRINT_STEPS)), (make(program, ends, 1), 2))
    length = program.participation.steps
    found = [
        digest(made.made(bytes(draws.KEY_BYTES), step, b"", 1.0, wide=wide).astype("<f8").tobytes())
        for made, steps in pieces
        for step in range(steps if length is None else min(steps, length))
    ]
    return digest(found)[:32]
