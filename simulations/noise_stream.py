"""A stream of correlated noise for training loops: w̃_t = Σ_τ β_τ w_{t−τ}, one array a step.

There are two methods.  ``"recurrence"`` runs rational noise: a cascade of first-order sections (``PoleNoise``) or a
delay line (``FiniteNoise``), with O(poles) memory and time a step.  ``"transform"`` makes all steps of a run of known
length at once, exactly, by fast Fourier transforms over time, and holds them in memory.

A stream also runs a ``Mechanism`` of a finite run: Toeplitz noise with scales by either method, a triangular strategy
by substitution over its bands, and a binary tree with a node for each binary digit of the step.

``NoiseStream.private`` makes a stream whose scale is its own noise multiplier times the clip norm.  The multiplier is
that of the noise that is really made, rounding errors of this program included, and the stream ends with the run that
it covers.

What must stay secret
---------------------
Whoever knows the seed, the generator or a saved state of a stream can compute its noise and subtract it.  A private
stream takes no integer as a seed for that reason.  A state is as secret as the data, and one state must not be
continued with two different sequences of gradients: the difference of two such runs holds no noise.
``docs/streams.md`` says more.

What is not covered: the generator is an ordinary one of NumPy, which is not cryptographic, and floating-point noise is
discrete.  A release against an adversary who exploits these needs a cryptographic, floating-point-safe sampler.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from corrnoise.simulations.noise_engines import Cascade, DelayLine, Substitution, Transform, Tree, normals_of
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.support.memory import fits_into_memory
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.kinds import KINDS, MECHANISMS
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation, Pattern, Run, checked_run, participation_of
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.rounding import Dtype, convolution_sensitivity, section_sensitivity
from corrnoise.theory.mechanisms.rounding_of_mechanisms import (
    scaled_sensitivity,
    substitution_sensitivity,
    tree_sensitivity,
)
from corrnoise.theory.mechanisms.toeplitz import SCALES, ToeplitzNoise, checked_noise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import safe_multiplier

Method = Literal["recurrence", "transform"]

_FORMAT = "corrnoise.NoiseStream 2"
_FIRST_FORMAT = "corrnoise.NoiseStream 1"  # without a method: "transform" if and only if steps are given
_FIELDS = ("format", "noise", "shape", "scale", "steps", "method", "dtype", "position", "generator", "memory")
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


def stream_sensitivity(
    noise: ToeplitzNoise | Mechanism, run: Run, method: Method, arithmetic: Dtype = "float64"
) -> float:
    """Upper bound of the sensitivity of a run with a ``NoiseStream``, rounding errors of its arithmetic included.

    Parameters
    ----------
    noise
        The noise that the stream makes: ``stream.noise``.
    run
        The number of steps, or the participation; None for any length, which ``"transform"`` does not make, or for that
        of a mechanism.
    method
        That of the stream.
    arithmetic
        ``"float32"`` for a cascade or delay line that runs in float32; a stream runs in float64.

    Returns
    -------
    The bound for zero-out adjacency and arrays of float32 or longer types; ``inf`` where no finite bound is known.
    """
    if isinstance(noise, Mechanism):
        who = noise.steps if run is None else run
        if who is None or who.steps != noise.steps:
            raise ValueError(f"run must have steps={noise.steps} as the mechanism has, got {run!r}")
        return _mechanism_sensitivity(noise, who, method, arithmetic)
    if method == "transform":
        return convolution_sensitivity(noise, run, "float64", by="transforms")
    if isinstance(noise, PoleNoise):
        return section_sensitivity(noise, run, arithmetic)
    return convolution_sensitivity(checks.instance("noise", noise, FiniteNoise), run, arithmetic)


def _mechanism_sensitivity(
    mechanism: Mechanism, participation: Participation, method: Method, arithmetic: Dtype
) -> float:
    if isinstance(mechanism, ToeplitzMechanism):
        return stream_sensitivity(mechanism.noise, participation, method, arithmetic)
    if arithmetic != "float64":
        raise ValueError(f"arithmetic must be 'float64' for {type(mechanism).__name__}, got {arithmetic!r}")
    if isinstance(mechanism, ScaledNoise):
        program = stream_sensitivity(mechanism.noise, mechanism.steps, method)
        cascade = method == "recurrence" and isinstance(mechanism.noise, PoleNoise)
        return scaled_sensitivity(mechanism, participation, program=program, cascade=cascade)
    if isinstance(mechanism, BinaryTree):
        return tree_sensitivity(mechanism, participation)
    return substitution_sensitivity(mechanism, participation)


class NoiseStream(Iterator[NDArray[Any]]):
    """An iterator of correlated noise arrays, scale × Σ_τ β_τ w_{t−τ} with standard normal w.

    For a private run use ``NoiseStream.private``, which computes the scale and ends with the run.

    Parameters
    ----------
    noise
        Correlated noise, or a mechanism of a finite run: ``ToeplitzMechanism``, ``ScaledNoise``, ``BandedNoise``,
        ``MatrixNoise`` or ``BinaryTree``.  The method ``"recurrence"`` replaces Toeplitz noise by rational noise, see
        ``noise`` below.
    shape
        Shape of one array of noise (a model's parameters), an int or a tuple; ``()`` for scalars.
    scale
        Standard deviation of w, a positive float.
    steps
        Length of the run: the stream stops after so many steps.  None for a stream without end.  A mechanism has a
        length of its own, which need not be given again.
    method
        ``"transform"``: exactly the noise asked for; takes ``steps``, and memory for all of them.  ``"recurrence"``:
        little memory.  None for ``"transform"`` if ``steps`` is given and ``"recurrence"`` if not.  Triangular
        strategies and trees have ``"recurrence"`` alone, which makes exactly their noise.
    rng
        An integer >= 0 or a ``SeedSequence`` for the same noise again; a ``Generator``, which is used as it is, not
        copied: other draws from it change the stream; None for noise that nobody can repeat.
    tolerance
        Of ``rational_approximation``, for ``"recurrence"``.
    dtype
        Floating dtype of the arrays, of 32 bits or more.  States are always float64.

    Attributes
    ----------
    noise
        The noise that the stream really makes.
    position
        Number of arrays made so far.
    shape, scale, steps, method, dtype
        As given.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, the run does not fit into memory, or the noise has no rational approximation
        (``NuFTRL(0)``: give ``steps``).

    Notes
    -----
    *Distribution.*  A stream has that of the first rows of the Toeplitz matrix times independent noise: it starts with
    the run, it is not stationary.

    *Random numbers.*  Step t takes w_t as one ``rng.standard_normal(shape)``, so streams with the same seed see the
    same w whatever the method; ``"transform"`` draws all of them when the stream is made.  A binary tree takes one for
    each node that a step completes, the smallest first.

    *Accuracy.*  The arrays are right to rounding for the coefficients of ``stream.noise``, which are those asked for by
    ``"transform"`` and for ``FiniteNoise``; otherwise their statistics differ within ``tolerance``.

    *Cost.*  ``"recurrence"``: memory max(number of zeros, number of poles) × size floats for a cascade, number of
    coefficients × size for ``FiniteNoise``, and time in proportion.  A triangular strategy of p bands keeps p − 1
    arrays, a binary tree one for each binary digit of ``steps``.  ``"transform"``: memory steps × size, and
    O(steps log steps × size) time in all, at once.

    Examples
    --------
    >>> from corrnoise import NoiseStream, NuFTRL
    >>> stream = NoiseStream(NuFTRL(1e-3), (2, 3), rng=0)
    >>> next(stream).shape
    (2, 3)
    >>> resumed = NoiseStream.restore(stream.state())
    >>> bool((next(resumed) == next(stream)).all())
    True
    """

    def __init__(
        self,
        noise: ToeplitzNoise | Mechanism,
        shape: int | tuple[int, ...],
        *,
        scale: float = 1.0,
        steps: int | None = None,
        method: Method | None = None,
        rng: Seed = None,
        tolerance: float = 1e-6,
        dtype: DTypeLike = float,
    ) -> None:
        steps = _checked_steps(noise, steps)
        lengths = shape if isinstance(shape, tuple) else (shape,)
        self.shape = tuple(checks.integer("shape", length, 0) for length in lengths)
        self.scale = checks.real("scale", scale, "(0, inf)")
        self.steps = None if steps is None else checks.integer("steps", steps, 1)
        self.method = _checked_method(method, self.steps, noise)
        self.dtype = _checked_dtype(dtype)
        tolerance = checks.real("tolerance", tolerance, "[1e-12, 1)")
        self.position = 0
        self._rng = generator(rng)
        size = math.prod(self.shape)
        self._engine: Cascade | DelayLine | Substitution | Tree | Transform
        self._scales: Array | None = None
        self.noise: ToeplitzNoise | Mechanism
        if isinstance(noise, MatrixNoise | BandedNoise | BinaryTree):
            fits_into_memory("shape", shape, 8 * size * (noise.memory + 1))
            self._engine = Tree(noise, size) if isinstance(noise, BinaryTree) else Substitution(noise, size)
            self.noise = noise
            return
        plain = noise.noise if isinstance(noise, ToeplitzMechanism | ScaledNoise) else checked_noise(noise)
        if self.method == "transform":
            assert self.steps is not None
            fits_into_memory("steps", self.steps, 8 * self.steps * max(size, 1))
            self._engine = Transform(plain, size, self.steps, self._rng)
        else:
            rational = plain if isinstance(plain, PoleNoise) else rational_approximation(plain, tolerance)
            fits_into_memory("shape", shape, 8 * size)
            self._engine = DelayLine(rational, size) if isinstance(rational, FiniteNoise) else Cascade(rational, size)
        self.noise = self._engine.noise
        if isinstance(noise, ToeplitzMechanism):
            self.noise = self._engine.noise
        elif isinstance(noise, ScaledNoise):
            self.noise, self._scales = ScaledNoise(self._engine.noise, noise.scales), noise.scales

    @classmethod
    def private(
        cls,
        noise: ToeplitzNoise | Mechanism,
        shape: int | tuple[int, ...],
        *,
        rho: float,
        clip_norm: float,
        steps: int | None,
        max_participations: int,
        min_sep: int = 1,
        pattern: Pattern = "min-sep",
        adjacency: str = "zero-out",
        method: Method | None = "recurrence",
        rng: np.random.Generator | None = None,
        tolerance: float = 1e-6,
        dtype: DTypeLike = float,
    ) -> Self:
        """A stream to be added to sums of clipped gradients, with the scale that makes the run ρ-zCDP.

        The run that is private releases Σ clipped gradients + noise at each step, at most ``steps`` times.

        Parameters
        ----------
        noise, shape, method, tolerance, dtype
            As for ``NoiseStream``.
        rho
            Budget of zero-concentrated differential privacy, in [1e-100, 1e100].
        clip_norm
            Largest norm of the gradient of an example, over all arrays of parameters together, in [1e-100, 1e100].
        steps
            Length of the run, after which the stream ends; None for a run of any length, which takes more noise, or for
            that of a mechanism.
        max_participations
            k: number of steps that one example takes part in, at most.  More than 1 needs ``steps``.
        min_sep
            b: any two of these steps i, j are at least so far apart, |i − j| >= b.  The data loader must keep this
            promise.  1 is no promise; data that are shuffled anew in every epoch have ``min_sep=1``.
        pattern
            ``"min-sep"``; or ``"fixed epochs"``, a stronger promise: the data are visited in the same order in every
            epoch of ``min_sep`` steps.  It takes less noise for some mechanisms.
        adjacency
            ``"zero-out"`` or ``"replace-one"``, which doubles the scale.
        rng
            None for random numbers of the operating system's seed, or a ``Generator`` whose seed is secret.  Integers
            are refused.

        Raises
        ------
        ValueError, TypeError
            An argument is out of its range, the participations do not fit into the run, or the sensitivity of the noise
            is infinite.

        Notes
        -----
        The noise multiplier is ``stream.scale / clip_norm`` = γ/sqrt(2ρ), rounded up, where γ is the ``sensitivity`` of
        the stream under this participation (Theorem 1.1 of arXiv 2310.06771; arXiv 2306.08153 for several).

        Examples
        --------
        >>> from corrnoise import NoiseStream, NuFTRL
        >>> run = {"rho": 0.5, "clip_norm": 2.0, "steps": 3, "max_participations": 1}
        >>> stream = NoiseStream.private(NuFTRL(1e-3), (2, 3), **run)
        >>> round(stream.scale, 3)  # 2 x 1.18
        2.358
        >>> len(list(stream))
        3
        >>> epochs = {"rho": 0.5, "clip_norm": 2.0, "steps": 300, "min_sep": 100, "max_participations": 3}
        >>> round(NoiseStream.private(NuFTRL(1e-3), (2, 3), **epochs).scale, 3)
        6.516
        """
        checks.real("rho", rho, SCALES)
        checks.real("clip_norm", clip_norm, SCALES)
        steps = _checked_steps(noise, steps)
        run = checked_run(steps, min_sep, checks.integer("max_participations", max_participations, 1), pattern)
        if rng is not None and not isinstance(rng, np.random.Generator):
            raise TypeError(
                f"rng must be None or a Generator whose seed is secret in a private run, got {type(rng).__name__}: "
                "whoever knows the seed can subtract the noise"
            )
        stream = cls(noise, shape, steps=steps, method=method, rng=rng, tolerance=tolerance, dtype=dtype)
        sensitivity = stream.sensitivity(run)
        if not math.isfinite(sensitivity):
            raise ValueError(f"noise must have a finite sensitivity for steps={steps!r}, got {stream.noise!r}")
        stream.scale = safe_multiplier(sensitivity, rho, adjacency) * clip_norm
        if stream.dtype.itemsize < 8 and not 1e-30 <= stream.scale <= 1e30:
            raise ValueError(f"dtype must be float64 for noise of the standard deviation {stream.scale}, got {dtype!r}")
        return stream

    def sensitivity(self, participation: Participation | None = None) -> float:
        """An upper bound of the sensitivity γ of a run with this stream, rounding errors of its arithmetic included.

        For as many steps as the stream makes and zero-out adjacency; ``inf`` where no finite bound is known.  It covers
        arrays of float32 or longer types.

        Parameters
        ----------
        participation
            How often one example takes part in the run; None for once.

        Raises
        ------
        ValueError
            ``participation`` is for a run of another length than the stream's.
        """
        if participation is None:
            return stream_sensitivity(self.noise, self.steps, self.method)
        if checks.instance("participation", participation, Participation).steps != self.steps:
            raise ValueError(f"participation must have steps={self.steps} as the stream, got {participation!r}")
        return stream_sensitivity(self.noise, participation, self.method)

    def __next__(self) -> NDArray[Any]:
        if self.position == self.steps:
            raise StopIteration(f"the stream has made its {self.steps} steps")
        if isinstance(self._engine, Transform):
            values = self._engine.rows[self.position]
        else:
            values = np.empty(math.prod(self.shape))
            self._engine.step(normals_of(self._rng), values, self.position)
        scale = self.scale if self._scales is None else self.scale * self._scales[self.position]
        self.position += 1
        return (scale * values).astype(self.dtype, copy=False).reshape(self.shape)

    def state(self) -> dict[str, Any]:
        """All that ``restore`` needs to continue with the same noise, taken between two steps.

        Returns
        -------
        A dict of plain numbers, strings, lists, dicts, None and NumPy arrays, for any file format; arrays may come back
        as nested lists.  Integers of the generator can have 128 bits.  It is a copy: later steps do not change it.
        With the method ``"transform"`` it holds where the generator started, and ``restore`` makes the steps again.

        The state of a private run is secret: all noise, past and to come, follows from it.

        Raises
        ------
        TypeError
            The noise or the generator is of a kind of the user's own, which ``restore`` could not make again.
        """
        drawn = self._engine.start if isinstance(self._engine, Transform) else self._rng.bit_generator.state
        if drawn["bit_generator"] not in _GENERATORS:
            raise TypeError(f"state() needs a generator out of {', '.join(_GENERATORS)}, got {drawn['bit_generator']}")
        return {
            "format": _FORMAT,
            "noise": _described(self.noise),
            "shape": list(self.shape),
            "scale": self.scale,
            "steps": self.steps,
            "method": self.method,
            "dtype": self.dtype.str,
            "position": self.position,
            "generator": copy.deepcopy(drawn),
            "memory": copy.copy(self._engine.memory),
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Return a stream that continues, bit for bit, where ``state()`` was taken.

        It has a generator of its own, also where the first stream shared one.  In a private run a state must be
        continued with the gradients of one run only.

        Parameters
        ----------
        state
            What ``state`` of a stream returned.

        Raises
        ------
        ValueError
            ``state`` does not come from ``state()`` of this format, or is damaged.
        """
        if isinstance(state, dict) and state.get("format") == _FIRST_FORMAT and "steps" in state:
            state = {**state, "format": _FORMAT, "method": "recurrence" if state["steps"] is None else "transform"}
        if not isinstance(state, dict) or state.get("format") != _FORMAT or set(state) != set(_FIELDS):
            raise ValueError(f"state must come from NoiseStream.state() of format {_FORMAT!r}, got {state!r:.80}")
        try:
            return cls._restored(state)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"state must come from NoiseStream.state(), got a damaged one ({reason})") from error

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        drawn = state["generator"]
        bits = _GENERATORS[checks.choice("bit_generator", drawn["bit_generator"], tuple(_GENERATORS))]()
        bits.state = drawn
        stream = cls(
            _made(state["noise"]),
            tuple(state["shape"]),
            scale=state["scale"],
            steps=state["steps"],
            method=state["method"],
            rng=np.random.Generator(bits),
            dtype=state["dtype"],
        )
        stream.position = checks.integer("position", state["position"], 0)
        if stream.steps is not None and stream.position > stream.steps:
            raise ValueError(f"position must lie in [0, steps] = [0, {stream.steps}], got {stream.position}")
        if not isinstance(stream._engine, Transform):
            memory = np.array(state["memory"], dtype=np.float64)
            expected = stream._engine.memory
            if memory.size != expected.size:
                raise ValueError(f"memory must have shape {expected.shape}, got {memory.shape}")
            stream._engine.memory = memory.reshape(expected.shape)
        return stream


def _described(noise: ToeplitzNoise | Mechanism) -> dict[str, Any]:
    """The kind of noise and its arguments, as plain values."""
    kind = type(noise).__name__
    if (KINDS | MECHANISMS).get(kind) is not type(noise):
        raise TypeError(f"state() needs noise out of {', '.join(KINDS | MECHANISMS)}, got {kind}")
    arguments = noise.arguments()
    if isinstance(noise, ToeplitzMechanism | ScaledNoise):
        arguments["noise"] = _described(noise.noise)
    return {"kind": kind, **arguments}


def _made(described: dict[str, Any]) -> Any:
    """The noise of a description."""
    arguments = dict(described)
    kinds = KINDS | MECHANISMS
    kind = kinds[checks.choice("kind", arguments.pop("kind"), tuple(kinds))]
    if kind in (ToeplitzMechanism, ScaledNoise):
        arguments["noise"] = _made(arguments["noise"])
    return kind(**arguments)


def _checked_steps(noise: object, steps: int | None) -> int | None:
    """The length of the run, which a mechanism has of its own."""
    if not isinstance(noise, Mechanism):
        checked_noise(noise)
        return steps
    if not isinstance(noise, tuple(MECHANISMS.values())):
        raise TypeError(f"noise must be one of {', '.join(MECHANISMS)} or correlated noise, got {noise!r:.80}")
    if steps is not None and checks.integer("steps", steps, 1) != noise.steps:
        raise ValueError(f"steps must be {noise.steps} as the mechanism has, got {steps}")
    return noise.steps


def _checked_method(method: object, steps: int | None, noise: object) -> Method:
    if isinstance(noise, MatrixNoise | BandedNoise | BinaryTree):
        if method not in (None, "recurrence"):
            raise ValueError(f"method must be 'recurrence' for {type(noise).__name__}, got {method!r:.80}")
        return "recurrence"
    if method is None:
        return "recurrence" if steps is None else "transform"
    if checks.choice("method", method, get_args(Method)) == "recurrence":
        return "recurrence"
    if steps is None:
        raise ValueError("method must be 'recurrence' without steps, got 'transform'")
    return "transform"


def _checked_dtype(dtype: object) -> np.dtype[Any]:
    try:
        found = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError as error:
        raise TypeError(f"dtype must be a floating dtype such as float or 'float32', got {dtype!r:.80}") from error
    if found.kind != "f" or found.itemsize < 4:
        raise ValueError(f"dtype must be a floating dtype of 32 bits or more, got {dtype!r:.80}")
    return np.dtype(found)
