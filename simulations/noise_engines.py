"""Programs that make correlated noise step by step, from independent normals: what streams and training loops run.

An engine takes one draw w_t a step, or several for a tree, and keeps what later steps need:

``Cascade``
    Rational noise with real poles: a state for each section.
``DelayLine``
    Finitely many coefficients: a ring of the last draws.
``Substitution``
    A triangular strategy: a ring of the last steps of noise.
``Tree``
    A binary tree: a node for each binary digit of the step.
``Transform``
    All steps of a run at once, exactly, by fast Fourier transforms.

The first two run in float64 or in float32, the others in float64.  All engines treat each coordinate by itself, so
that a long vector may be cut into parts with an engine each.  The draws come from a function that fills a vector with
independent standard normals, such as ``normals_of(rng)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import fft

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.rounding import Dtype, as_stored
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.checks import Array

Draw = Callable[[NDArray[Any]], None]  #: fills a vector with standard normals, new ones in each call

_BLOCK = 4096  # elements whose states stay in the first-level cache
_COLUMNS = 2**22  # entries transformed at once


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill(rng, values):  # type: ignore[no-untyped-def]
    """Standard normals, the same as ``rng.standard_normal`` gives and several times faster."""
    for j in range(values.size):
        values[j] = rng.standard_normal()


def normals_of(rng: np.random.Generator) -> Draw:
    """What fills vectors with the normals of a generator."""

    def draw(values: NDArray[Any]) -> None:
        fill(rng, values)

    return draw


@numba.njit(cache=True, nogil=True, error_model="numpy")
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _convolve(ring, newest, coefficients, values):  # type: ignore[no-untyped-def]
    """Fill ``values`` with Σ β_τ w_{t−τ}, added in the order of τ, where w_t is row ``newest`` of the ring."""
    rows = coefficients.size
    for first in range(0, values.size, _BLOCK):
        last = min(first + _BLOCK, values.size)
        value = values[first:last]
        value[:] = 0.0
        for age in range(rows):
            beta = coefficients[age]
            draw = ring[(newest + age) % rows, first:last]
            for j in range(value.size):
                value[j] += beta * draw[j]


@numba.njit(cache=True, nogil=True, error_model="numpy")
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


def stored_noise(noise: PoleNoise | FiniteNoise, arithmetic: Dtype) -> PoleNoise | FiniteNoise:
    """The noise whose gaps or coefficients are numbers of this type, as an engine of this arithmetic makes it.

    Raises
    ------
    ValueError
        A gap of a pole is too small for the type.
    """
    if isinstance(noise, FiniteNoise):
        return FiniteNoise(as_stored(noise.values, arithmetic))
    zeros, poles = noise.sections()
    return PoleNoise(as_stored(zeros, arithmetic), as_stored(poles, arithmetic))


class Cascade:
    """Rational noise with real poles: the state of each section, in gap form."""

    def __init__(self, noise: PoleNoise, size: int, arithmetic: Dtype = "float64") -> None:
        self.noise = noise
        zeros, poles = noise.sections()
        self.poles = poles.astype(arithmetic)
        self.gains = (zeros - poles).astype(arithmetic)
        self.states = np.zeros((poles.size, size), arithmetic)

    def step(self, draw: Draw, values: Array, position: int) -> None:
        draw(values)
        _cascade(values, self.states, self.gains, self.poles)

    @property
    def memory(self) -> Array:
        return self.states.copy()

    @memory.setter
    def memory(self, states: Array) -> None:
        self.states[:] = states


class DelayLine:
    """Finitely many coefficients: a ring of the last independent draws."""

    def __init__(self, noise: FiniteNoise, size: int, arithmetic: Dtype = "float64") -> None:
        self.noise = noise
        self.coefficients = noise.values.astype(arithmetic)
        self.ring = np.zeros((noise.values.size, size), arithmetic)
        self.newest = 0

    def step(self, draw: Draw, values: Array, position: int) -> None:
        self.newest = (self.newest - 1) % len(self.ring)
        draw(self.ring[self.newest])
        _convolve(self.ring, self.newest, self.coefficients, values)

    @property
    def memory(self) -> Array:
        return np.roll(self.ring, -self.newest, axis=0)

    @memory.setter
    def memory(self, draws: Array) -> None:
        self.ring[:], self.newest = draws, 0


class Substitution:
    """A triangular strategy: a ring of the last p − 1 steps of noise."""

    def __init__(self, noise: BandedNoise | MatrixNoise, size: int) -> None:
        self.noise = noise
        self.bands = noise.bands
        self.memory = np.zeros((noise.memory, size))

    def step(self, draw: Draw, values: Array, position: int) -> None:
        ages = np.arange(min(self.bands, position + 1))
        if isinstance(self.noise, BandedNoise):
            entries = self.noise.diagonals[ages, position - ages]
        else:
            entries = self.noise.matrix[position, position - ages]
        draw(values)
        _substitute(self.memory, position, entries, values)


class Tree:
    """A binary tree: the node of height h that ends with the binary digits of the step."""

    def __init__(self, noise: BinaryTree, size: int) -> None:
        self.noise = noise
        self.memory = np.zeros((noise.memory, size))

    def step(self, draw: Draw, values: Array, position: int) -> None:
        """The new node minus those that it joins; a node of the decoder "online" weighs its two halves, too."""
        joined = np.zeros(values.size)
        node = np.empty(values.size)
        draw(node)
        height = 0
        while position >> height & 1:
            below = node + self.memory[height]
            joined += self.memory[height]
            draw(node)
            if self.noise.decoder == "online":
                most = 2.0 ** (height + 2) - 1
                node *= 2.0 ** (height + 1) / most
                below *= (2.0 ** (height + 1) - 1) / most
                node += below
            height += 1
        self.memory[height] = node
        values[:] = node - joined


class Transform:
    """All steps at once: exact for any noise, O(steps × size) memory."""

    memory = None

    def __init__(self, noise: ToeplitzNoise, size: int, steps: int, rng: np.random.Generator) -> None:
        self.noise = noise
        self.start = rng.bit_generator.state
        self.rows = np.empty((steps, size))
        for row in self.rows:
            fill(rng, row)
        length = fft.next_fast_len(2 * steps - 1, real=True)
        response = fft.rfft(noise.coefficients(steps), length)[:, np.newaxis]
        columns = max(_COLUMNS // length, 1)
        for first in range(0, size, columns):
            part = self.rows[:, first : first + columns]
            part[:] = fft.irfft(response * fft.rfft(part, length, axis=0), length, axis=0)[:steps]
