"""Engines: what makes the noise of a program step by step, from independent normals.

An engine takes one draw w_t a step and keeps what later steps need.  ``ENGINES`` names the one of each form:

``"cascade"``
    Rational noise with real poles: a state for each section.
``"delay line"``
    Finitely many coefficients: a ring of the last draws, or these draws made again.
``"substitution"``
    A triangular strategy: a ring of the last steps of noise.
``"time-varying buffers"``, ``"replayed buffers"``
    Few buffers whose outputs and inputs depend on the step; earlier draws that are made again.
``"tree"``
    A binary tree: the last node of each height.
``"transform"``
    All steps of a run at once, exactly, by fast Fourier transforms.

Draws are multiplied by the ``draw_scales`` of the program before they enter the recurrence, and the finished noise by
its ``step_scales``, together with the scale of the run (``step_scale``).  All engines treat each coordinate by itself,
so that a long vector may be cut into parts with an engine each.  The draws come from a function that fills a vector
with independent standard normals, such as ``normals_of(rng)``.

Noise is made in the type of the vector that is filled, from memory of the type of the program.  So noise of float64
from memory of float32 has the rounding errors of float32 where numbers are stored, and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from corrnoise.support.kernels import kernel
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.program import Form, Program
from corrnoise.theory.mechanisms.rational import rational
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import Dtype
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Draw = Callable[..., None]  #: fills a vector with the standard normals of a step; their number, if a step has several
Earlier = Callable[[int], Draw]  #: the draw of an earlier step
Choice = Callable[[Participation, Budget], Mechanism]  #: finds the noise of a new run, such as ``cn.default_noise``
Memory = Literal["ring", "replay"]  #: a delay line keeps its last draws, or how to make them again

TOLERANCE = 1e-3  #: of the rational noise that takes the place of noise with a long memory
_BLOCK = 4096  # elements whose states stay in the first-level cache
_COLUMNS = 2**22  # entries transformed at once


@kernel
def fill(rng, values):  # type: ignore[no-untyped-def]
    """Standard normals, the same as ``rng.standard_normal`` gives and several times faster."""
    for j in range(values.size):
        values[j] = rng.standard_normal()


def normals_of(rng: np.random.Generator) -> Draw:
    """A function that fills vectors with the normals of a generator."""

    def draw(values: NDArray[Any], number: int = 0) -> None:
        fill(rng, values)

    return draw


@kernel
def _cascade(values, states, gains, poles):  # type: ignore[no-untyped-def]
    """Send one step through the sections, in place: x → x + (a − q) u, u → u + (x − q u)."""
    for first in range(0, values.size, _BLOCK):
        last = min(first + _BLOCK, values.size)
        value = values[first:last]  # slices and loops from 0 are what the compiler vectorises
        for i in range(poles.size):
            gain = gains[i]
            pole = poles[i]
            state = states[i, first:last]
            for j in range(value.size):
                x = value[j]
                u = state[j]
                value[j] = x + gain * u
                state[j] = u + (x - pole * u)


@kernel
def _convolve(ring, newest, coefficients, values):  # type: ignore[no-untyped-def]
    """Turn w_t in ``values`` into Σ β_τ w_{t−τ}, added in the order of τ; earlier ones follow row ``newest``."""
    rows = coefficients.size
    for first in range(0, values.size, _BLOCK):
        last = min(first + _BLOCK, values.size)
        value = values[first:last]
        value *= coefficients[0]
        for age in range(1, rows):
            beta = coefficients[age]
            draw = ring[(newest + age) % rows, first:last]
            for j in range(value.size):
                value[j] += beta * draw[j]


@kernel
def _substitute(ring, step, entries, values):  # type: ignore[no-untyped-def]
    """Solve for one step, in place: (z_t − Σ_{k>=1} entries_k y_{t−k})/entries_0, where y_s is row s mod (p − 1)."""
    for first in range(0, values.size, _BLOCK):
        last = min(first + _BLOCK, values.size)
        value = values[first:last]
        for age in range(1, entries.size):
            entry = entries[age]
            made = ring[(step - age) % len(ring), first:last]
            for j in range(value.size):
                value[j] -= entry * made[j]
        for j in range(value.size):
            value[j] /= entries[0]
        if len(ring):
            ring[step % len(ring), first:last] = value


@kernel
def _buffer(values, states, decays, outputs, inputs):  # type: ignore[no-untyped-def]
    """Run one step of buffers, in place: y = z − Σ o_i s_i, then s_i ← θ_i s_i + i_i y."""
    for first in range(0, values.size, _BLOCK):
        last = min(first + _BLOCK, values.size)
        value = values[first:last]
        for i in range(decays.size):
            output = outputs[i]
            state = states[i, first:last]
            for j in range(value.size):
                value[j] -= output * state[j]
        for i in range(decays.size):
            decay = decays[i]
            entry = inputs[i]
            state = states[i, first:last]
            for j in range(value.size):
                state[j] = decay * state[j] + entry * value[j]


def no_earlier(step: int) -> Draw:
    """Refuse to make the draw of an earlier step again."""
    raise ValueError(f"mechanism must have no replays here, got one that needs the draw of step {step} again")


class Engine(ABC):
    """The noise of a program, for ``size`` coordinates, before its first step; scales of steps are the caller's."""

    memory: Array  #: what later steps need, shape (rows, size), oldest last; to be read and set between two steps
    history: int | None = None  #: how many last draws make the memory again; None where they are more
    lookback = 0  #: how many steps back a step makes draws again, by ``earlier``; besides a delay line by replay
    earlier: Earlier = staticmethod(no_earlier)

    def __init__(self, program: Program, size: int) -> None:
        self._draw_scales = program.draw_scales

    def step(self, draw: Draw, values: Array, position: int) -> None:
        """Fill ``values``, shape (size,), with the noise of the step ``position``; steps come one after the other."""
        if self._draw_scales is None:
            self._step(draw, values, position)
            return
        factor = values.dtype.type(self._draw_scales[position])

        def scaled(fresh: NDArray[Any]) -> None:
            draw(fresh)
            fresh *= factor

        self._step(scaled, values, position)

    @abstractmethod
    def _step(self, draw: Draw, values: Array, position: int) -> None:
        """The same for draws that are scaled already."""


class Cascade(Engine):
    """Rational noise with real poles: the state of each section, in gap form."""

    def __init__(self, program: Program, size: int) -> None:
        super().__init__(program, size)
        zeros, poles = program.unscaled.sections()
        self.poles = poles.astype(program.dtype)
        self.gains = (zeros - poles).astype(program.dtype)
        self.memory = np.zeros((poles.size, size), program.dtype)
        self.history = None if poles.size else 0

    def _step(self, draw: Draw, values: Array, position: int) -> None:
        draw(values)
        _cascade(
            values,
            self.memory,
            self.gains.astype(values.dtype, copy=False),
            self.poles.astype(values.dtype, copy=False),
        )


class DelayLine(Engine):
    """Finitely many coefficients: a ring of the last independent draws."""

    def __init__(self, program: Program, size: int) -> None:
        super().__init__(program, size)
        self.coefficients = program.unscaled.values.astype(program.dtype)
        self.history = self.coefficients.size - 1
        self._ring = np.zeros((self.coefficients.size, size), program.dtype)
        self._newest = 0

    def _step(self, draw: Draw, values: Array, position: int) -> None:
        self._newest = (self._newest - 1) % len(self._ring)
        draw(values)
        self._ring[self._newest] = values
        _convolve(self._ring, self._newest, self.coefficients.astype(values.dtype, copy=False), values)

    @property
    def memory(self) -> Array:
        return np.roll(self._ring, -self._newest, axis=0)

    @memory.setter
    def memory(self, draws: Array) -> None:
        self._ring[:] = draws
        self._newest = 0


class Replay(Engine):
    """The same without memory: each draw is made again for each step that needs it, p times in all."""

    def __init__(self, program: Program, size: int) -> None:
        super().__init__(program, size)
        self.coefficients = program.unscaled.values.astype(program.dtype)
        self.history = self.coefficients.size - 1
        self.memory = np.zeros((0, size), program.dtype)
        self._draws: deque[Draw] = deque(maxlen=self.history)

    def _step(self, draw: Draw, values: Array, position: int) -> None:
        draw(values)
        values *= self.coefficients[0]
        past = np.empty_like(values)
        for coefficient, again in zip(self.coefficients[1:], self._draws, strict=False):
            again(past)
            past[:] = past.astype(coefficient.dtype)  # as a ring would have it
            past *= coefficient
            values += past
        self._draws.appendleft(draw)


class Substitution(Engine):
    """A triangular strategy: a ring of the last p − 1 steps of noise."""

    def __init__(self, program: Program, size: int) -> None:
        super().__init__(program, size)
        self.noise = program.mechanism
        self.bands = program.mechanism.bands()
        self.memory = np.zeros((self.bands - 1, size))

    def _step(self, draw: Draw, values: Array, position: int) -> None:
        ages = np.arange(min(self.bands, position + 1))
        if isinstance(self.noise, BandedNoise):
            entries = self.noise.diagonals[ages, position - ages]
        else:
            entries = self.noise.matrix[position, position - ages]
        draw(values)
        _substitute(self.memory, position, entries, values)


class TimeVarying(Engine):
    """Buffers whose outputs and inputs depend on the step: their states, before the factor of a step."""

    def __init__(self, program: Program, size: int) -> None:
        super().__init__(program, size)
        self.noise = program.mechanism
        self.memory = np.zeros((program.memory, size), program.dtype)
        self.history = None if program.memory else 0
        self.lookback = len(self.noise.replays) * self.noise.period

    def _step(self, draw: Draw, values: Array, position: int) -> None:
        draw(values)
        past = np.empty_like(values) if self.lookback else values
        for e, factors in enumerate(self.noise.replays, 1):
            if e * self.noise.period <= position:
                self.earlier(position - e * self.noise.period)(past)
                past *= values.dtype.type(factors[position])
                values += past
        of_step = (self.noise.decays, self.noise.outputs[position], self.noise.inputs[position])
        _buffer(values, self.memory, *(numbers.astype(values.dtype) for numbers in of_step))


class Tree(Engine):
    """A binary tree: the last node of each height."""

    def __init__(self, program: Program, size: int) -> None:
        super().__init__(program, size)
        self.noise = program.mechanism
        self.memory = np.zeros((program.mechanism.memory(), size))

    def _step(self, draw: Draw, values: Array, position: int) -> None:
        step = position + 1
        height = (step & -step).bit_length() - 1
        draw(values)
        values *= self.noise.draws[height]
        for below in range(height):
            values += self.noise.estimates[height, below] * self.memory[below]
        self.memory[height] = values
        for below in range(height):
            values -= self.noise.left[below] * self.memory[below]


class Transform(Engine):
    """All steps at once: exact for any Toeplitz noise, O(steps × size) memory; the first step draws for all."""

    def __init__(self, program: Program, size: int) -> None:
        super().__init__(program, size)
        steps = program.participation.length
        self._coefficients = program.unscaled.coefficients(steps)
        self._scales = np.ones(steps) if program.draw_scales is None else program.draw_scales
        self.memory = np.zeros((steps, size))

    def step(self, draw: Draw, values: Array, position: int) -> None:
        if position == 0:
            for number, row in enumerate(self.memory):
                draw(row, number)
                row *= self._scales[number]
            self._convolve()
        self._step(draw, values, position)

    def _step(self, draw: Draw, values: Array, position: int) -> None:
        values[:] = self.memory[position]

    def _convolve(self) -> None:
        steps, size = self.memory.shape
        length = fft.next_fast_len(2 * steps - 1, real=True)
        response = fft.rfft(self._coefficients, length)[:, np.newaxis]
        columns = max(_COLUMNS // length, 1)
        for first in range(0, size, columns):
            part = self.memory[:, first : first + columns]
            part[:] = fft.irfft(response * fft.rfft(part, length, axis=0), length, axis=0)[:steps]


#: The engine of each form that runs here.
ENGINES: Mapping[Form, type[Engine]] = {
    "cascade": Cascade,
    "delay line": DelayLine,
    "substitution": Substitution,
    "time-varying buffers": TimeVarying,
    "replayed buffers": TimeVarying,
    "tree": Tree,
    "transform": Transform,
}


def engine(program: Program, size: int, memory: Memory = "ring") -> Engine:
    """The engine of a program.

    Raises
    ------
    ValueError
        If its form is run by other libraries, its numbers are exact, or ``memory`` is ``"replay"`` without a delay
        line.
    """
    kind = ENGINES[checks.choice("form", program.form, tuple(ENGINES))]
    if program.dtype == "exact":
        raise ValueError("dtype must be 'float64' or 'float32' for noise of floats, got 'exact'")
    if checks.choice("memory", memory, ("ring", "replay")) == "replay":
        if kind is not DelayLine:
            raise ValueError(f"memory must be 'ring' for noise that remembers more than draws, got {program.form!r}")
        kind = Replay
    return kind(program, size)


def step_scale(program: Program, scale: float, position: int) -> float:
    """The factor of the finished noise of a step: the scale of the run times the factor of the step."""
    scales = program.step_scales
    return scale if scales is None else scale * float(scales[position])


def checked_mechanism(mechanism: Mechanism | Choice) -> Mechanism | Choice:
    """The mechanism of a run, or the function that finds it; ``TypeError`` for anything else."""
    if isinstance(mechanism, Mechanism) or (callable(mechanism) and not isinstance(mechanism, type)):
        return mechanism
    raise TypeError(
        f"mechanism must be a Mechanism or a function (participation, budget) -> Mechanism, got {mechanism!r:.80}: "
        "cn.default_noise is such a function"
    )


def found_mechanism(mechanism: Mechanism | Choice, participation: Participation, budget: Budget) -> Mechanism:
    """The mechanism of a new run; a function that finds it is called."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    found = mechanism(participation, budget)
    if not isinstance(found, Mechanism):
        raise TypeError(f"mechanism(participation, budget) must be a Mechanism, got {found!r:.80}")
    return found


def streaming(mechanism: Mechanism, participation: Participation, dtype: Dtype | None = None) -> Program:
    """The program that makes the noise of a mechanism step by step here; its ``mechanism`` is what really runs.

    A product with a memory as long as the run is replaced by rational noise, within ``TOLERANCE``.

    Parameters
    ----------
    mechanism : Mechanism
        The noise.
    participation : Participation
        The steps of each example.
    dtype : {"float32", "float64"}, optional
        The type of the memory; None for the shorter type that is proved to suffice.

    Returns
    -------
    Program
        The numbers that run, and the sensitivity that covers them.

    Raises
    ------
    TypeError
        An argument has another type, or the noise is a ``CepstralNoise``, whose approximation takes a search.
    ValueError
        No rational noise is within the tolerance, or the sensitivity is not bounded.
    """
    given = checks.instance("mechanism", mechanism, Mechanism)
    inner = given.noise if isinstance(given, ScaledNoise) else given
    if isinstance(inner, CepstralNoise):
        raise TypeError(
            f"mechanism must be rational noise or a product, got {inner!r:.80}: pass "
            f"cn.mechanisms.rational(noise, {TOLERANCE}) in its place"
        )
    if not inner.forms():
        inner = rational(inner, TOLERANCE)  # type: ignore[arg-type]
        given = ScaledNoise(inner, given.step_scales, given.draw_scales) if isinstance(given, ScaledNoise) else inner
    form = next(form for form in (*inner.forms(), *inner.FORMS) if form in ENGINES)
    return given.program(participation, dtype, form)
