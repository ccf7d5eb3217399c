"""The program that makes the noise of a run, with the sensitivity that covers it.

Noise with a long memory is replaced by rational noise with few poles.  A cascade or a delay line runs in float32 if its
proved sensitivity, rounding errors included, exceeds that in float64 by at most a thousandth, and in float64 otherwise.
Triangular strategies, trees and scaled noise run in float64.
"""

from __future__ import annotations

import math

from corrnoise.simulations.noise_engines import Cascade, DelayLine, Substitution, Tree, stored_noise
from corrnoise.simulations.noise_stream import stream_sensitivity
from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.rounding import DTYPES, Dtype
from corrnoise.theory.mechanisms.toeplitz import SCALES, ToeplitzNoise, checked_noise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import gaussian_rho, safe_multiplier

Engine = Cascade | DelayLine | Substitution | Tree
_RUNNABLE = (ToeplitzNoise, ToeplitzMechanism, ScaledNoise, BandedNoise, MatrixNoise, BinaryTree)
_FLOAT32 = (1e-30, 1e30)  # standard deviations that float32 holds, with the noise of all steps
_INCREASE = 1e-3  # the largest relative increase of the sensitivity that is paid for float32


def budget(rho: float | None, epsilon: float | None, delta: float | None) -> float:
    """The ρ of a run, given as ``rho`` or as ``epsilon`` and ``delta`` of the Gaussian mechanism that the run is."""
    if rho is None:
        if epsilon is None or delta is None:
            raise ValueError("rho must be given, or epsilon and delta")
        rho = gaussian_rho(epsilon, delta)
    elif epsilon is not None or delta is not None:
        raise ValueError("epsilon and delta must be left out where rho is given")
    return checks.real("rho", rho, SCALES)


@record
class Program(Record):
    """The noise that is really made, and its sensitivity.

    Parameters
    ----------
    noise
        Rational Toeplitz noise, or a mechanism.
    participation
        Who takes part when.
    arithmetic
        ``"float32"`` or ``"float64"``.
    sensitivity
        Upper bound of the zero-out sensitivity of the run, rounding errors of the arithmetic included.
    """

    noise: ToeplitzNoise | Mechanism
    participation: Participation
    arithmetic: Dtype
    sensitivity: float

    def engine(self, size: int) -> Engine:
        """What makes the noise of ``size`` coordinates, before its first step."""
        noise = self.noise.noise if isinstance(self.noise, ScaledNoise) else self.noise
        if isinstance(noise, PoleNoise):
            return Cascade(noise, size, self.arithmetic)
        if isinstance(noise, FiniteNoise):
            return DelayLine(noise, size, self.arithmetic)
        if isinstance(noise, BinaryTree):
            return Tree(noise, size)
        assert isinstance(noise, BandedNoise | MatrixNoise)
        return Substitution(noise, size)

    def multiplier(self, rho: float, clip_norm: float, adjacency: str) -> float:
        """Standard deviation of the independent noise in units of the clip norm, for noise that is added in float32.

        Parameters
        ----------
        rho
            Budget of zero-concentrated differential privacy.
        clip_norm
            Largest norm of the gradient of one example.
        adjacency
            ``"zero-out"`` or ``"replace-one"``.

        Raises
        ------
        ValueError
            An argument is out of its range, or the noise out of that of float32.
        """
        checks.real("clip_norm", clip_norm, "(0, inf)")
        multiplier = safe_multiplier(self.sensitivity, rho, adjacency)
        low, high = _FLOAT32
        if not low <= multiplier * clip_norm <= high:
            raise ValueError(
                f"clip_norm must keep multiplier × clip_norm in the range of float32, [{low}, {high}], got {clip_norm} "
                f"with the multiplier {multiplier}"
            )
        return multiplier

    @property
    def scales(self) -> Array | None:
        """Factors of the steps, shape (steps,); None for no factors."""
        return self.noise.scales if isinstance(self.noise, ScaledNoise) else None


def program(
    mechanism: ToeplitzNoise | Mechanism,
    participation: Participation,
    *,
    tolerance: float = 1e-3,
    arithmetic: Dtype | None = None,
) -> Program:
    """The program that runs a mechanism, and the sensitivity that covers it.

    Parameters
    ----------
    mechanism
        Correlated noise, or a mechanism that a stream runs.
    participation
        Who takes part when.
    tolerance
        Of ``rational_approximation``.
    arithmetic
        ``"float32"`` or ``"float64"``; None for the choice of the module's docstring.

    Raises
    ------
    ValueError, TypeError
        The mechanism is of another kind or length, has no rational approximation, or its sensitivity is not bounded.
    """
    who = checks.instance("participation", participation, Participation)
    options = DTYPES if arithmetic is None else (checks.choice("arithmetic", arithmetic, DTYPES),)
    found = [_covered(noise, who, dtype) for noise, dtype in _made(mechanism, who.steps, tolerance, options)]
    if not found:
        raise ValueError(f"arithmetic must be 'float64' for {type(mechanism).__name__}, got {arithmetic!r}")
    best = min(found, key=lambda each: each.sensitivity)
    if not math.isfinite(best.sensitivity):
        raise ValueError(f"mechanism must have a finite sensitivity for {who!r}, got {mechanism!r}")
    enough = [each for each in found if each.sensitivity <= best.sensitivity * (1 + _INCREASE)]
    return enough[-1]  # float32 stands last


def _made(
    mechanism: object, steps: int, tolerance: float, options: tuple[Dtype, ...]
) -> list[tuple[ToeplitzNoise | Mechanism, Dtype]]:
    """What each arithmetic makes of a mechanism."""
    tolerance = checks.real("tolerance", tolerance, "[1e-12, 1)")
    if not isinstance(mechanism, _RUNNABLE):
        names = ", ".join(kind.__name__ for kind in _RUNNABLE)
        raise TypeError(f"mechanism must be one of {names}, got {mechanism!r:.80}")
    if isinstance(mechanism, Mechanism) and mechanism.steps != steps:
        raise ValueError(f"mechanism must have steps={steps} as the order of the data, got steps={mechanism.steps}")
    if isinstance(mechanism, ScaledNoise):
        scaled = ScaledNoise(_rational(mechanism.noise, tolerance), mechanism.scales)
        return [(scaled, dtype) for dtype in options if dtype == "float64"]
    plain = mechanism.noise if isinstance(mechanism, ToeplitzMechanism) else mechanism
    if not isinstance(plain, ToeplitzNoise):
        return [(plain, dtype) for dtype in options if dtype == "float64"]
    rational = _rational(checked_noise(plain), tolerance)
    return [(stored_noise(rational, dtype), dtype) for dtype in options if dtype == "float64" or _storable(rational)]


def _rational(noise: ToeplitzNoise, tolerance: float) -> PoleNoise | FiniteNoise:
    return noise if isinstance(noise, PoleNoise) else rational_approximation(noise, tolerance)


def _storable(noise: PoleNoise | FiniteNoise) -> bool:
    try:
        stored_noise(noise, "float32")
    except ValueError:
        return False
    return True


def _covered(noise: ToeplitzNoise | Mechanism, participation: Participation, arithmetic: Dtype) -> Program:
    sensitivity = stream_sensitivity(noise, participation, "recurrence", arithmetic)
    return Program(noise, participation, arithmetic, sensitivity)
