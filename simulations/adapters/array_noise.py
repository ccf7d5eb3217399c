"""The noise of a program by operations on arrays, in PyTorch and JAX on any device, with the bits of the host.

``following`` is one step of a recurrence.  A product that feeds a sum has ν = −0.0 added to it, an argument of the
compiled program, so that no compiler rounds product and sum once (``array_normals``).  The two libraries
share ``DeviceNoiseMaker``, for runs whose noise is on a device.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from corrnoise.simulations.run.engines import Memory, engine, step_scale
from corrnoise.simulations.run.model_noise import ModelNoise, NoiseMaker
from corrnoise.simulations.run.spans import checked
from corrnoise.simulations.run.sums import Grid, check_farthest
from corrnoise.theory.mechanisms.program import Form, Program
from corrnoise.theory.numerics.checks import Array

FORMS: tuple[Form, ...] = ("cascade", "delay line", "buffers", "time-varying buffers")
_COMPARED_COORDINATES = 4096  # coordinates of the first step of a device that the host makes, too


def numbers(program: Program) -> tuple[Array, ...]:
    """The numbers of the recurrence of a program, of its type; arrays with two axes have a row for each step."""
    found: tuple[Any, ...]
    if program.form == "cascade":
        zeros, poles = program.unscaled.sections()
        found = (zeros - poles, poles)
    elif program.form == "delay line":
        found = (program.unscaled.values,)
    elif program.form == "buffers":
        decays = program.unscaled.buf_decay
        found = (decays, program.unscaled.output_scale, np.ones(len(decays)))
    else:
        found = (program.mechanism.decays, program.mechanism.outputs, program.mechanism.inputs)
    return tuple(np.asarray(each, program.dtype) for each in found)


def rows(program: Program) -> int:
    """Number of arrays that later steps need."""
    first, *_ = numbers(program)
    return len(first) - (program.form == "delay line")


def following(form: Form, of_step: Sequence[Any], draw: Any, memory: Sequence[Any], nu: Any) -> tuple[Any, list[Any]]:
    """The noise of a step and the memory after it, as the engines of a run make them; may be compiled.

    ``of_step`` has the numbers of the program for this step, arrays with one axis; ``draw`` the standard normals of the
    step; ``memory`` the rows before it, newest first, of the type and shape of ``draw``; ``nu`` is an array that holds
    −0.0.
    """
    if form == "cascade":
        after = []
        for gain, pole, state in zip(*of_step, memory, strict=True):
            after.append(state + (draw - (pole * state + nu)))
            draw = draw + (gain * state + nu)
        return draw, after
    if form == "delay line":
        (coefficients,) = of_step
        noise = coefficients[0] * draw + nu
        for coefficient, past in zip(coefficients[1:], memory, strict=False):
            noise = noise + (coefficient * past + nu)
        return noise, [draw, *memory][: len(memory)]
    decays, outputs, inputs = of_step
    for output, state in zip(outputs, memory, strict=True):
        draw = draw - (output * state + nu)
    after = [
        (decay * state + nu) + (entry * draw + nu) for decay, entry, state in zip(decays, inputs, memory, strict=True)
    ]
    return draw, after


def on_grid(xp: Any, total: Any, noise: Any, unit: float) -> tuple[Any, Any]:
    """The release h (S + ⌊y/h + ½⌋) of ``run/sums``, float32, and the largest |y/h|.

    ``xp`` is ``torch`` or ``jax.numpy`` with 64 bits; S are integers, y is float64 of the same shape and not empty, and
    ``unit`` is the power of two h.
    """
    x = noise / unit
    below = xp.floor(x)
    whole = xp.asarray(total, dtype=xp.int64) + xp.asarray(below, dtype=xp.int64) + (x - below >= 0.5)
    return xp.asarray(xp.asarray(whole, dtype=xp.float64) * unit, dtype=xp.float32), xp.abs(x).max()


class DeviceNoiseMaker(NoiseMaker):
    """The noise of a program on a device of a library; arguments as for ``ModelNoise``.

    Programs are of the form "cascade", "delay line" or "time-varying buffers", and the memory is a ring.  The first
    step is made on the host, too, for some thousand coordinates of each device: a device, driver or compiler that gives
    other numbers is refused.
    """

    def __init__(
        self, program: Program, size: int, *, spans: Iterable[tuple[int, int]] | None = None, memory: Memory = "ring"
    ) -> None:
        if program.form not in FORMS or memory != "ring":
            raise ValueError(
                f"program must be a cascade, a delay line with a ring or buffers on a device, got {program.form!r}"
            )
        self._program = program
        self._model = size
        self.spans = checked(spans, size)
        self.size = int(self.spans[:, 1].sum())
        like = engine(program, 0)
        self.history = like.history
        self.rows = len(like.memory)
        self.dtype = like.memory.dtype
        self._rows: list[Any] = []
        self._compared = False

    def made(self, secret: bytes, step: int, nonce: bytes, scale: float, *, wide: bool = False) -> Any:
        """The noise of a step as an array on the device, as ``ModelNoise.made`` makes it."""
        with self._computing():
            return self._verified(secret, step, nonce, scale, wide)

    def _computing(self) -> AbstractContextManager[Any]:
        """A block where the library computes with the precision of the noise."""
        return nullcontext()

    def _verified(self, secret: bytes, step: int, nonce: bytes, scale: float, wide: bool) -> Any:
        """The noise of a step; the noise of the first step is compared with the host."""
        factor = step_scale(self._program, scale, step)
        if self._compared or not self.size:
            return self._made(secret, step, nonce, factor, wide)
        first, length = self.spans[0].tolist()
        starts = range(0, length, self._part)
        places = [slice(start, min(start + min(_COMPARED_COORDINATES, self._part), length)) for start in starts]
        before = [self._memory_of(place) for place in places]
        found = self._made(secret, step, nonce, factor, wide)
        for place, memory in zip(places, before, strict=True):
            host = ModelNoise(self._program, self._model, 1, spans=[(first + place.start, place.stop - place.start)])
            host.memory = memory
            if not np.array_equal(self.on_host(found[place]), host.made(secret, step, nonce, scale, wide=wide)):
                raise RuntimeError(
                    f"{self.device} makes other numbers than the host, whose noise the run guarantees: train on the CPU"
                )
        self._compared = True
        return found

    @property
    def _part(self) -> int:
        """The number of coordinates of each device of several, at least 1."""
        return self.size

    @abstractmethod
    def _made(self, secret: bytes, step: int, nonce: bytes, factor: float, wide: bool) -> Any:
        """The noise of a step times a factor."""

    def _memory_of(self, place: slice) -> Array:
        """The memory of some coordinates, on the host."""
        with self._computing():
            some = [self.on_host(row[place]) for row in self._rows]
        return np.array(some, self.dtype).reshape(self.rows, len(range(self.spans[:, 1].sum())[place]))

    @property
    def memory(self) -> Array:
        """The memory that later steps need, shape (rows, coordinates), on the host."""
        return self._memory_of(slice(None))

    @memory.setter
    def memory(self, rows: Array) -> None:
        self._rows = [self.on_device(np.array(row, self.dtype)) for row in rows]

    def noisy(self, total: Any, noise: Any, grid: Grid | None, *, on_grid: bool) -> Any:
        """The noisy sum of a step."""
        with self._computing():
            if grid is None:
                return total + noise
            if not on_grid:
                return self._values(total, grid) + noise
            if not self.size:
                return self.on_device(np.empty(0, np.float32))
            found, farthest = self._released(total, noise, grid)
            check_farthest(float(farthest), grid)
            return found

    def extremes(self, total: Any) -> tuple[int, int]:
        """The smallest and the largest number of a vector of integers that is not empty."""
        with self._computing():
            return int(total.min()), int(total.max())

    @abstractmethod
    def _values(self, total: Any, grid: Grid) -> Any:
        """2ᵏ S in float64."""

    @abstractmethod
    def _released(self, total: Any, noise: Any, grid: Grid) -> tuple[Any, Any]:
        """The result of ``on_grid``."""


def where_possible(make: Callable[..., NoiseMaker]) -> Callable[..., NoiseMaker]:
    """The maker of the noise of a run on a device, and on the host where its form runs there alone."""

    def maker(program: Program, size: int, threads: int | None, **options: Any) -> NoiseMaker:
        possible = program.form in FORMS and options["memory"] == "ring"
        return (make if possible else ModelNoise)(program, size, threads, **options)

    return maker
