"""Programs that other libraries run, and whether they hold in an arithmetic.

A form is a set of numbers together with the recurrence that runs them (``theory.mechanisms.program``).  Its covered
sensitivity belongs to the rounded numbers, with all rounding errors of the recurrence.  It is never too small, but it
may be so large that the form is useless.  So a form *holds* in a type only if

    γ_run² b_run(x) <= 1.03 γ² b(x)    at the rates x of the problem,

where γ_run is the covered sensitivity and b_run the averaged variance of the noise that the program generates; γ and b
belong to the noise that it stands for.  The stationary errors of quadratic problems due to privacy are sums of these
products, so they exceed the errors of the noise by 3 % at most.  Otherwise the form is refused for this type, with the
reason.

Buffers are fitted to noise with as many poles as hold in both types.  If none hold in both, they are fitted for
float64.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from corrnoise.solvers.rational.stand_in import rational
from corrnoise.support.kernels import kernel
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.program import Form, Program
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.rounding import DTYPES, Dtype
from corrnoise.theory.participation import FixedEpochs, Participation

LONGEST_SCALED = 2048  #: the most steps of noise with a factor for each step under min-sep
LARGEST_INCREASE = 0.03  #: largest relative increase of errors due to privacy of a form that holds
_FIT_TOLERANCES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # of fits, in descending order of the number of poles
_COMPARED_STEPS = 20_000  # steps of the recurrence that are run and compared
_MAX_DISTANCE = 1e-3  # relative, in the 2-norm, of the coefficients that are run from the coefficients of the form
_MAX_COEFFICIENTS = 30_000  # largest number of coefficients of a cepstrum
_NEGLIGIBLE_LOG = 40.0  # −log of a coefficient that is left out
_RATE_COUNT = 16  # number of rates x
_DEFAULT_STEPS = 10_000  # number of steps that sets the smallest rate if neither problem nor horizon is known
_MIN_RATE = 0.1  # the smallest rate that is compared, in units of 1/T


def compared_rates(participation: Participation, rates: ArrayLike | None = None) -> Array:
    """The rates x = ηλ in (0, 2) that compare a form with the noise, between the ends of ``rates``, shape (n,).

    Rates far below 1/T are left out, because a run of T steps averages over T steps at most.  Where the rates of
    the problem are not known they reach up to 1.
    """
    steps = participation.steps
    seen = 0.0 if steps is None else _MIN_RATE / steps
    ends = np.array([1 / (steps or _DEFAULT_STEPS), 1.0] if rates is None else [np.min(rates), np.max(rates)])
    low, high = np.clip(np.maximum(ends, min(seen, 1.0)), 1e-300, math.nextafter(2.0, 0.0)).tolist()
    return np.unique(np.clip(np.geomspace(low, high, _RATE_COUNT), low, high))


def handed_over(
    mechanism: Mechanism,
    participation: Participation,
    form: Form,
    dtype: Dtype,
    *,
    rates: ArrayLike | None = None,
    stands_for: Mechanism | None = None,
) -> Program:
    """The program of a form that another library runs, if it holds.

    ``mechanism`` is Toeplitz noise, or Toeplitz noise with scales; for the form ``"buffers"`` of rational noise.  It
    ``stands_for`` the noise that it was fitted to, or for itself.

    Raises
    ------
    ValueError
        If the form does not hold, with the reason.
    """
    wanted = mechanism if stands_for is None else stands_for
    check_scales(mechanism, participation, form)
    try:
        program = mechanism.program(participation, dtype, form)
    except ValueError as error:
        raise ValueError(f"{form} in {dtype}: {error}") from error
    variances = 1.0
    if form == "buffers":
        made = program.unscaled
        seen = compared_rates(participation, rates)
        variances = float(np.max(made.averaged_variance(seen) / _variances(_unscaled(wanted), seen.tobytes())))
        if (distance := _distance(made, dtype)) > _MAX_DISTANCE:
            raise ValueError(
                f"{form} in {dtype}: its recurrence makes other noise than it stands for, at the relative distance "
                f"{distance:.2g}"
            )
    increase = (program.sensitivity / _sensitivity(wanted, participation)) ** 2 * variances - 1
    if not increase <= LARGEST_INCREASE:
        more = _percent(increase)
        raise ValueError(
            f"{form} in {dtype}: errors due to privacy would be {more} larger, to cover all rounding errors"
        )
    return program


def check_scales(mechanism: Mechanism, participation: Participation, form: Form) -> None:
    """Refuse scaled noise whose sensitivity would take too long, or whose buffers may cancel."""
    if not isinstance(mechanism, ScaledNoise):
        return
    who = participation.worst
    if mechanism.steps > LONGEST_SCALED and not who.once and not isinstance(who, FixedEpochs):
        raise ValueError(
            f"{form}: with a factor for each step the sensitivity under {who.label} is computed for at most "
            f"{LONGEST_SCALED} steps, got {mechanism.steps}; fixed epochs have no such limit"
        )
    noise = mechanism.noise
    if isinstance(noise, BufferNoise) and ((noise.output_scale < 0).any() or (noise.buf_decay < 0).any()):
        raise ValueError(f"{form}: with a factor for each step only scales and decays >= 0 are covered")


# Every candidate is compared with the same two.


@lru_cache(maxsize=8)
def _sensitivity(mechanism: Mechanism, participation: Participation) -> float:
    return mechanism.sensitivity_upper_bound(participation)


@lru_cache(maxsize=8)
def _variances(noise: ToeplitzNoise, rates: bytes) -> Array:
    return noise.averaged_variance(np.frombuffer(rates))


def _unscaled(mechanism: Mechanism) -> ToeplitzNoise:
    noise = mechanism.noise if isinstance(mechanism, ScaledNoise) else mechanism
    return checks.instance("mechanism", noise, ToeplitzNoise)


def _percent(increase: float) -> str:
    return f"{100 * increase:.2g} %" if increase < 10 else f"{1 + increase:.2g} times"


@kernel
def _invert(decay, scale, noise):  # type: ignore[no-untyped-def]
    """Replace ``noise`` by C⁻¹ times it, in the arithmetic of its own type."""
    buffers = np.zeros_like(decay)
    for t in range(noise.size):
        read = noise[t] - noise[t]
        for i in range(decay.size):
            read += scale[i] * buffers[i]
        noise[t] -= read
        for i in range(decay.size):
            buffers[i] = decay[i] * buffers[i] + noise[t]


def noise_as_run(noise: BufferNoise, independent: ArrayLike, dtype: Dtype) -> Array:
    """C⁻¹ times independent noise z, shape (T,), as the recurrence of buffers, rounded to ``dtype``, computes it.

    Returns y, shape (T,), with y_t = z_t − Σ_i ω_i x_i and then x_i ← θ_i x_i + y_t.  It may hold ``inf`` and ``nan``
    where the recurrence diverges.  Of the unit vector (1, 0, …) these are the noise coefficients of the program.
    """
    values = np.array(checks.reals("independent", independent, ndim=1)).astype(dtype)
    _invert(noise.buf_decay.astype(dtype), noise.output_scale.astype(dtype), values)
    return values.astype(np.float64)


def _distance(made: BufferNoise, dtype: Dtype) -> float:
    """The relative distance of the coefficients of the recurrence from the coefficients of the noise."""
    impulse = np.zeros(_COMPARED_STEPS)
    impulse[0] = 1.0
    exact = made.coefficients(_COMPARED_STEPS)
    with np.errstate(invalid="ignore", over="ignore"):
        found = noise_as_run(made, impulse, dtype)
        distance = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    return distance if math.isfinite(distance) else math.inf


def fitted_buffers(
    mechanism: Mechanism, participation: Participation, *, rates: ArrayLike | None = None, tolerance: float = 1e-6
) -> Mechanism | None:
    """Buffers of the most accurate fit that holds in both types, or else in float64; None without one.

    The noise is Toeplitz noise, or Toeplitz noise with scales, which the fit keeps.  Rational noise is tried as it is
    first.
    """
    second: Mechanism | None = None
    noise = _unscaled(mechanism)
    for bound in (
        None,
        checks.real("tolerance", tolerance),
        *(bound for bound in _FIT_TOLERANCES if bound > tolerance),
    ):
        try:
            fit = noise if bound is None else rational(_by_spectrum(noise), bound)
            if not isinstance(fit, PoleNoise):
                continue
            buffers: Mechanism = fit.buffers()
        except (ArithmeticError, TypeError, ValueError):
            continue
        if isinstance(mechanism, ScaledNoise):
            buffers = ScaledNoise(fit.buffers(), mechanism.step_scales, mechanism.draw_scales)
        held = [_holds(buffers, participation, dtype, rates, mechanism) for dtype in DTYPES]
        if all(held):
            return buffers
        if held[0] and second is None:
            second = buffers
    return second


def _by_spectrum(noise: ToeplitzNoise) -> ToeplitzNoise:
    """Noise that runs by its cepstrum, −Σ_k e_k r_kⁿ/n for poles, so that it is fitted again; other noise as it is."""
    if isinstance(noise, FiniteNoise):
        cepstrum = 2 * np.fft.irfft(np.log(np.abs(np.fft.rfft(noise.values / noise.values[0], 4 * _MAX_COEFFICIENTS))))
        resolved = np.abs(cepstrum[_MAX_COEFFICIENTS // 2 : _MAX_COEFFICIENTS]).max() < 1e-15
        return CepstralNoise(cepstrum[1 : _MAX_COEFFICIENTS // 2]) if resolved else noise
    if not (isinstance(noise, ProductNoise) and noise.rational):
        return noise
    slowest = float(np.minimum(noise.gaps, 2 - noise.gaps).min(initial=1.0))
    if slowest * _MAX_COEFFICIENTS < _NEGLIGIBLE_LOG:
        return noise
    n = np.arange(1, math.ceil(_NEGLIGIBLE_LOG / slowest) + 1)
    return CepstralNoise(-(noise.exponents[:, None] * (1 - noise.gaps[:, None]) ** n).sum(axis=0) / n)


def _holds(
    buffers: Mechanism, participation: Participation, dtype: Dtype, rates: ArrayLike | None, stands_for: Mechanism
) -> bool:
    try:
        handed_over(buffers, participation, "buffers", dtype, rates=rates, stands_for=stands_for)
    except ValueError:
        return False
    return True
