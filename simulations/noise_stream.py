"""A stream of correlated noise for training loops: w̃_t = Σ_τ β_τ w_{t−τ}, one array a step.

A stream for an unknown number of steps runs rational noise: a cascade of first-order sections (``PoleNoise``) or a
delay line (``FiniteNoise``), with O(poles) memory and time a step.  A stream for a given number of steps is exact, by
fast Fourier transforms over time, and holds all its steps in memory.

The arithmetic is that of idealised real numbers and the generator an ordinary one.  That is right for simulation and
for judging utility; a release of private data needs a cryptographic generator and a floating-point-safe sampler.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, Self

import numba
import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import fft

from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_FORMAT = "corrnoise.NoiseStream 1"
_FIELDS = ("format", "noise", "shape", "scale", "steps", "dtype", "position", "generator", "memory")
_BLOCK = 4096  # elements whose states stay in the first-level cache
_COLUMNS = 2**22  # entries transformed at once

_GENERATORS: dict[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (
        np.random.MT19937,
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
    )
}


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fill(rng, values):  # type: ignore[no-untyped-def]
    """Standard normals, the same as ``rng.standard_normal`` gives and several times faster."""
    for j in range(values.size):
        values[j] = rng.standard_normal()


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _cascade(values, states, gains, poles):  # type: ignore[no-untyped-def]
    """Send one step through the sections, in place: x → x + (a − q) u, u → u + (x − q u)."""
    for first in range(0, values.size, _BLOCK):
        last = min(first + _BLOCK, values.size)
        for i in range(poles.size):
            gain, pole = gains[i], poles[i]
            for j in range(first, last):
                x, u = values[j], states[i, j]
                values[j] = x + gain * u
                states[i, j] = u + (x - pole * u)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _convolve(ring, newest, coefficients, values):  # type: ignore[no-untyped-def]
    """Fill ``values`` with Σ β_τ w_{t−τ}, added in the order of τ, where w_t is row ``newest`` of the ring."""
    rows = coefficients.size
    for first in range(0, values.size, _BLOCK):
        last = min(first + _BLOCK, values.size)
        values[first:last] = 0.0
        for age in range(rows):
            beta, row = coefficients[age], (newest + age) % rows
            for j in range(first, last):
                values[j] += beta * ring[row, j]


class _Cascade:
    """Rational noise with real poles: the state of each section."""

    def __init__(self, noise: PoleNoise, size: int) -> None:
        zeros, self.poles = noise.sections()
        self.gains = zeros - self.poles
        self.states = np.zeros((self.poles.size, size))

    def step(self, rng: np.random.Generator, values: Array) -> None:
        _fill(rng, values)
        _cascade(values, self.states, self.gains, self.poles)

    @property
    def memory(self) -> Array:
        return self.states.copy()

    @memory.setter
    def memory(self, states: Array) -> None:
        self.states[:] = states


class _DelayLine:
    """Finitely many coefficients: a ring of the last independent draws."""

    def __init__(self, noise: FiniteNoise, size: int) -> None:
        self.coefficients = noise.values
        self.ring = np.zeros((noise.values.size, size))
        self.newest = 0

    def step(self, rng: np.random.Generator, values: Array) -> None:
        self.newest = (self.newest - 1) % len(self.ring)
        _fill(rng, self.ring[self.newest])
        _convolve(self.ring, self.newest, self.coefficients, values)

    @property
    def memory(self) -> Array:
        return np.roll(self.ring, -self.newest, axis=0)

    @memory.setter
    def memory(self, draws: Array) -> None:
        self.ring[:], self.newest = draws, 0


class _Transform:
    """All steps at once: exact for any noise, O(steps × size) memory."""

    memory = None

    def __init__(self, noise: ToeplitzNoise, size: int, steps: int, rng: np.random.Generator) -> None:
        self.start = rng.bit_generator.state
        self.rows = np.empty((steps, size))
        for row in self.rows:
            _fill(rng, row)
        length = fft.next_fast_len(2 * steps - 1, real=True)
        response = fft.rfft(noise.coefficients(steps), length)[:, np.newaxis]
        columns = max(_COLUMNS // length, 1)
        for first in range(0, size, columns):
            part = self.rows[:, first : first + columns]
            part[:] = fft.irfft(response * fft.rfft(part, length, axis=0), length, axis=0)[:steps]


class NoiseStream(Iterator[NDArray[Any]]):
    """An iterator of correlated noise arrays, scale × Σ_τ β_τ w_{t−τ} with standard normal w.

    Parameters
    ----------
    noise
        Correlated noise.  Without ``steps`` it is replaced by rational noise, see ``noise`` below.
    shape
        Shape of one array of noise (a model's parameters), an int or a tuple; ``()`` for scalars.
    scale
        Standard deviation of w, for privacy ``stream.noise.noise_multiplier(rho, …) * clip_norm``; a positive float.
        It can also be multiplied to the arrays later.
    steps
        Number of steps, for an exact stream that stops after them; None for a stream without end.
    rng
        int, ``SeedSequence``, ``Generator`` or None, as ``numpy.random.default_rng`` takes them.  A ``Generator`` is
        used as it is, not copied: other draws from it change the stream.
    tolerance
        Of ``rational_approximation``, without ``steps``.
    dtype
        Floating dtype of the arrays.  States are always float64.

    Attributes
    ----------
    noise
        The noise that the stream really makes.  Compute noise multipliers from *its* sensitivity.
    position
        Number of arrays made so far.
    shape, scale, steps, dtype
        As given.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or the noise has no rational approximation (``NuFTRL(0)``: give ``steps``).

    Notes
    -----
    *Distribution.*  A stream has that of the first rows of the Toeplitz matrix times independent noise: it starts with
    the run, it is not stationary.

    *Random numbers.*  Step t takes w_t as one ``rng.standard_normal(shape)``, so streams with the same seed see the
    same w, exact or not; an exact stream draws all of them when it is made.

    *Accuracy.*  The arrays are right to rounding for the coefficients of ``stream.noise``, which are those asked for in
    an exact stream and for ``FiniteNoise``; otherwise their statistics differ within ``tolerance``.

    *Cost.*  Without end: memory max(number of zeros, number of poles) × size floats for a cascade, number of
    coefficients × size for ``FiniteNoise``, and time in proportion.  Exact: memory steps × size, and
    O(steps log steps × size) time in all, at once.

    Examples
    --------
    >>> from corrnoise import NoiseStream, NuFTRL
    >>> stream = NoiseStream(NuFTRL(1e-3), (2, 3), rng=0)
    >>> multiplier = stream.noise.noise_multiplier(rho=1.0)  # of the clip norm
    >>> next(stream).shape
    (2, 3)
    >>> resumed = NoiseStream.restore(stream.state())
    >>> bool((next(resumed) == next(stream)).all())
    True
    """

    def __init__(
        self,
        noise: ToeplitzNoise,
        shape: int | tuple[int, ...],
        *,
        scale: float = 1.0,
        steps: int | None = None,
        rng: int | np.random.SeedSequence | np.random.Generator | None = None,
        tolerance: float = 1e-6,
        dtype: DTypeLike = float,
    ) -> None:
        checked_noise(noise)
        lengths = shape if isinstance(shape, tuple) else (shape,)
        self.shape = tuple(checks.integer("shape", length, 0) for length in lengths)
        self.scale = checks.real("scale", scale, "(0, inf)")
        self.steps = None if steps is None else checks.integer("steps", steps, 1)
        self.dtype = np.dtype(dtype)
        if self.dtype.kind != "f":
            raise ValueError(f"dtype must be a floating dtype, got {dtype!r}")
        self.position = 0
        self._rng = np.random.default_rng(rng)
        size = math.prod(self.shape)
        self._engine: _Cascade | _DelayLine | _Transform
        if self.steps is not None:
            self.noise: ToeplitzNoise = noise
            self._engine = _Transform(noise, size, self.steps, self._rng)
        else:
            rational = noise if isinstance(noise, PoleNoise) else rational_approximation(noise, tolerance)
            self.noise = rational
            self._engine = _DelayLine(rational, size) if isinstance(rational, FiniteNoise) else _Cascade(rational, size)

    def __next__(self) -> NDArray[Any]:
        if self.position == self.steps:
            raise StopIteration
        if isinstance(self._engine, _Transform):
            values = self._engine.rows[self.position]
        else:
            values = np.empty(math.prod(self.shape))
            self._engine.step(self._rng, values)
        self.position += 1
        return (self.scale * values).astype(self.dtype, copy=False).reshape(self.shape)

    def state(self) -> dict[str, Any]:
        """All that ``restore`` needs to continue with the same noise, taken between two steps.

        Returns
        -------
        A dict of plain numbers, strings, lists, dicts, None and NumPy arrays, for any file format; arrays may come back
        as nested lists.  Integers of the generator can have 128 bits.  It is a copy: later steps do not change it.  An
        exact stream saves where its generator started, and ``restore`` makes its steps again.

        Raises
        ------
        TypeError
            The noise or the generator is of a kind of the user's own, which ``restore`` could not make again.
        """
        generator = self._engine.start if isinstance(self._engine, _Transform) else self._rng.bit_generator.state
        described = {"kind": type(self.noise).__name__, **self.noise.arguments()}
        if KINDS.get(described["kind"]) is not type(self.noise) or generator["bit_generator"] not in _GENERATORS:
            raise TypeError(
                f"state() needs noise out of {', '.join(KINDS)} and a generator out of {', '.join(_GENERATORS)}, "
                f"got {described['kind']} and {generator['bit_generator']}"
            )
        return {
            "format": _FORMAT,
            "noise": described,
            "shape": list(self.shape),
            "scale": self.scale,
            "steps": self.steps,
            "dtype": self.dtype.str,
            "position": self.position,
            "generator": copy.deepcopy(generator),
            "memory": self._engine.memory,
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Return a stream that continues, bit for bit, where ``state()`` was taken.

        It has a generator of its own, also where the first stream shared one.

        Parameters
        ----------
        state
            What ``state`` of a stream returned.

        Raises
        ------
        ValueError
            ``state`` does not come from ``state()`` of this format, or is damaged.
        """
        if not isinstance(state, dict) or state.get("format") != _FORMAT or set(state) != set(_FIELDS):
            raise ValueError(f"state must come from NoiseStream.state() of format {_FORMAT!r}, got {state!r:.80}")
        try:
            return cls._restored(state)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"state must come from NoiseStream.state(), got a damaged one ({reason})") from error

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        described, generator = dict(state["noise"]), state["generator"]
        noise = KINDS[checks.choice("kind", described.pop("kind"), tuple(KINDS))](**described)
        bits = _GENERATORS[checks.choice("bit_generator", generator["bit_generator"], tuple(_GENERATORS))]()
        bits.state = generator
        stream = cls(
            noise,
            tuple(state["shape"]),
            scale=state["scale"],
            steps=state["steps"],
            rng=np.random.Generator(bits),
            dtype=state["dtype"],
        )
        stream.position = checks.integer("position", state["position"], 0)
        if stream.steps is not None and stream.position > stream.steps:
            raise ValueError(f"position must lie in [0, steps] = [0, {stream.steps}], got {stream.position}")
        if not isinstance(stream._engine, _Transform):
            memory, expected = np.array(state["memory"], dtype=np.float64), stream._engine.memory
            if memory.size != expected.size:
                raise ValueError(f"memory must have shape {expected.shape}, got {memory.shape}")
            stream._engine.memory = memory.reshape(expected.shape)
        return stream
