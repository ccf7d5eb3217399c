"""The forms of a design for other programs, and the arithmetic in which each of them holds.

A form is a set of numbers together with the recurrence that runs them (``corrnoise.solvers.rational.exchange``).  It is
evaluated as it will be run, in float64 and in float32.  Its multiplier covers the sensitivity of the rounded numbers
and of all rounding errors of the recurrence.  That multiplier is never too small, but it may be so large that the form
is useless.  So a form *holds* in a type only if

    γ_run² b_run(x) <= 1.03 γ² b(x)    at the rates x of the problem,

where γ_run is the covered sensitivity and b_run the averaged variance of the noise that the program generates; γ and b
belong to the noise of the design.  The stationary errors of quadratic problems due to privacy are sums of these
products, so they exceed the errors of the design by 3 % at most.  Otherwise the form is refused for this type, with the
reason.

Noise with a factor for each step is Toeplitz noise that the program multiplies by the factor of the step.  Its covered
sensitivity is that of ``scaled_sensitivity``.

Buffers are fitted to the noise with as many poles as hold in both types.  If none hold in both, they are fitted for
float64.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import cast

import numpy as np

from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.solvers.rational.exchange import BufferForm, Matrix, ToeplitzForm, buffer_form, noise_from_buffers
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation, Run, participation_of
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.rounding import DTYPES, Dtype, as_stored
from corrnoise.theory.mechanisms.rounding_of_mechanisms import scaled_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, noise_variance
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record

LONGEST_SCALED = 2048  #: steps up to which forms with a factor for each step are offered
FORMS = ("buffers", "strategy_coef", "noising_coef")
LARGEST_INCREASE = 0.03  #: largest relative increase of errors due to privacy for which a form holds
_TOLERANCES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # of fits, in descending order of the number of poles
_RUN = 20_000  # steps of the recurrence that are run and compared
_CLOSE = 1e-3  # largest relative distance, in the 2-norm, of the coefficients that are run from those of the form
_POINTS = 16  # number of rates x
_UNKNOWN = 10_000  # number of steps that sets the smallest rate if neither problem nor horizon is known
_SEEN = 0.1  # the smallest rate that is compared, in units of 1/T


@record
class Handover(Record):
    """A form in one arithmetic.

    Parameters
    ----------
    form
        ``"buffers"``, ``"strategy_coef"`` or ``"noising_coef"``.
    dtype
        ``"float64"`` or ``"float32"``.
    sensitivity
        Upper bound of the sensitivity of a run in this arithmetic, zero-out; None where the form is refused.
    reason
        Why it is refused; empty if it holds.
    """

    form: str
    dtype: str
    sensitivity: float | None
    reason: str


@record
class Reference(Record):
    """The noise, the length of the run and the rates x = ηλ that the forms of a design are compared with.

    Parameters
    ----------
    noise
        The noise that the forms represent.
    run
        Its participation; None for single participation in a run of any length.
    rates
        In (0, 2), shape (n,).
    scales
        Factors of the steps, shape (steps,), with which the program multiplies the noise; None for none.
    """

    noise: ToeplitzNoise
    run: Participation | None
    rates: Array
    scales: Array | None = None

    @property
    def steps(self) -> int:
        """The length of the run, which noise with factors has."""
        assert self.run is not None
        return self.run.steps

    @property
    def sensitivity(self) -> float:
        """γ of the run, or γ_∞ for runs of any length."""
        if self.scales is None:
            return _sensitivity(self.noise, self.run)
        return _scaled_sensitivity(ScaledNoise(self.noise, self.scales), self.run)

    def scaled(self, program: float, made: ToeplitzNoise, dtype: Dtype, *, additive: bool) -> float:
        """The covered sensitivity of a program that makes ``made`` and multiplies it by the scales.

        Parameters
        ----------
        program
            The covered sensitivity of the program without the scales, for single participation.
        made
            The noise that the program would make without rounding errors.
        dtype
            The type of all numbers.
        additive
            Whether rounding errors add to the strategy.
        """
        assert self.scales is not None
        assert self.run is not None
        noise = ScaledNoise(made, as_stored(self.scales, dtype))
        # The margin covers errors of about 1e-14 in computed coefficients of ``made``.
        return scaled_sensitivity(noise, self.run, program=program * (1 + 1e-12), cascade=additive, dtype=dtype)

    def increase(self, sensitivity: float, made: ToeplitzNoise | None = None) -> float:
        """Largest relative increase of γ² b(x) for a run with ``sensitivity`` that makes ``made``; None: the same."""
        variances = 1.0
        if made is not None:
            variances = np.max(made.averaged_variance(self.rates) / _variances(self.noise, self.rates.tobytes()))
        return float((sensitivity / self.sensitivity) ** 2 * variances) - 1


# Every candidate is compared with the same two.


@lru_cache(maxsize=8)
def _sensitivity(noise: ToeplitzNoise, run: Participation | None) -> float:
    return math.sqrt(noise_variance(noise, 0.5, 1.0, run))


@lru_cache(maxsize=8)
def _scaled_sensitivity(mechanism: ScaledNoise, run: Participation | None) -> float:
    assert run is not None
    return mechanism.sensitivity_upper_bound(run)


@lru_cache(maxsize=8)
def _variances(noise: ToeplitzNoise, rates: bytes) -> Array:
    return noise.averaged_variance(np.frombuffer(rates))


def reference(noise: ToeplitzNoise, run: Run, rates: ArrayLike | None, scales: Array | None = None) -> Reference:
    """The reference for forms of ``noise``, with rates between the smallest and the largest of ``rates``.

    Without any they reach up to rate 1.  Rates far below 1/T are left out, because a run of T steps averages
    over T steps at most.
    """
    who = run
    seen = 0.0 if who is None else _SEEN / who.steps
    slowest = 1 / (_UNKNOWN if who is None else who.steps)
    ends = np.array([slowest, 1.0] if rates is None else [np.min(rates), np.max(rates)])
    low, high = np.clip(np.maximum(ends, min(seen, 1.0)), 1e-300, math.nextafter(2.0, 0.0)).tolist()
    return Reference(noise, who, np.unique(np.clip(np.geomspace(low, high, _POINTS), low, high)), scales)


# -- the forms ---------------------------------------------------------------------------------------------------------


def buffer_handover(form: BufferForm | None, dtype: Dtype, reference: Reference) -> Handover:
    """Whether ``form`` holds in ``dtype``, with its sensitivity."""
    if form is None:
        return Handover("buffers", dtype, None, "no sum of few decaying exponentials is close to the noise and holds")
    try:
        stored = form.stored_as(dtype)
    except ValueError:
        return Handover("buffers", dtype, None, f"its scales exceed the range of {dtype}")
    if (reason := _too_long(reference)) or (reason := _mixed(stored, reference)):
        return Handover("buffers", dtype, None, reason)
    gamma = form.sensitivity_as_run(reference.run if reference.scales is None else reference.steps, dtype=dtype)
    if reference.scales is not None and math.isfinite(gamma):
        strategy = BandedStrategyNoise(stored.coefficients(reference.steps))
        gamma = reference.scaled(gamma, strategy, dtype, additive=True)
    if math.isinf(gamma):
        reason = f"a decay is 1 to within the rounding of {dtype}: the sensitivity of runs of any length is not bounded"
        return Handover("buffers", dtype, None, reason)
    try:
        made = noise_from_buffers(stored)
    except ValueError:
        return Handover("buffers", dtype, None, f"rounded to {dtype} it is no noise with real and stable poles")
    if (reason := _too_much(reference.increase(gamma, made), dtype)) or (reason := _astray(stored, made, dtype)):
        return Handover("buffers", dtype, None, reason)
    return Handover("buffers", dtype, gamma, "")


def _too_much(increase: float, dtype: Dtype) -> str:
    """The reason to refuse an increase of errors, empty for none."""
    if increase <= LARGEST_INCREASE:
        return ""
    return f"errors due to privacy would be {_percent(increase)} larger, to cover all rounding errors of {dtype}"


def _percent(increase: float) -> str:
    return f"{100 * increase:.2g} %" if increase < 10 else f"{1 + increase:.2g} times"


def _astray(form: BufferForm, made: PoleNoise, dtype: Dtype) -> str:
    """The reason to refuse buffers whose recurrence in ``dtype`` does not make the noise ``made``, empty for none."""
    impulse = np.zeros(_RUN)
    impulse[0] = 1.0
    exact = made.coefficients(_RUN)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = float(np.linalg.norm(form.noise_as_run(impulse, dtype=dtype) - exact) / np.linalg.norm(exact))
    if distance <= _CLOSE:
        return ""
    return f"run in {dtype} its recurrence makes other noise (relative distance {distance:.2g})"


def _too_long(reference: Reference) -> str:
    """The reason to refuse noise with factors in long runs, whose sensitivity takes O(n³), empty for none."""
    if reference.scales is None or reference.steps <= LONGEST_SCALED:
        return ""
    return f"with a factor for each step its sensitivity is computed for at most {LONGEST_SCALED} steps"


def _mixed(stored: BufferForm, reference: Reference) -> str:
    """The reason to refuse scales of mixed signs with factors, whose coefficients may cancel, empty for none."""
    if reference.scales is None or ((stored.output_scale >= 0).all() and (stored.buf_decay >= 0).all()):
        return ""
    return "with a factor for each step only buffers with scales and decays >= 0 are covered"


def toeplitz_handover(form: ToeplitzForm | None, column: str, dtype: Dtype, reference: Reference) -> Handover:
    """Whether a column of ``form``, ``"strategy_coef"`` or ``"noising_coef"``, holds in ``dtype``."""
    if form is None:
        return Handover(column, dtype, None, "coefficients need a number of steps")
    matrix = cast(Matrix, column.removesuffix("_coef"))
    if reason := _too_long(reference):
        return Handover(column, dtype, None, reason)
    if reference.scales is None:
        as_run = form.sensitivity_as_run(matrix=matrix, dtype=dtype, participation=reference.run)
        gamma = max(form.sensitivity, as_run)
    else:
        gamma = form.sensitivity_as_run(matrix=matrix, dtype=dtype, participation=Participation(reference.steps))
        numbers = as_stored(form.strategy_coef if matrix == "strategy" else form.noising_coef, dtype)
        made = BandedStrategyNoise(numbers) if matrix == "strategy" else FiniteNoise(numbers)
        if math.isfinite(gamma):
            gamma = reference.scaled(gamma, made, dtype, additive=matrix == "strategy")
    if math.isinf(gamma):
        return Handover(column, dtype, None, f"rounding errors of {dtype} may be as large as the noise")
    reason = _too_much(reference.increase(gamma), dtype)
    return Handover(column, dtype, None if reason else gamma, reason)


def fitted_buffers(
    stream: PoleNoise | FiniteNoise | None, reference: Reference, tolerance: float = 1e-6
) -> BufferForm | None:
    """The buffers of the most accurate fit that holds in both types, or else in float64; None where there is none.

    Parameters
    ----------
    stream
        Rational noise in place of the noise, which is tried first.
    reference
        The noise, run and rates that the form is compared with.
    tolerance
        Tolerance of ``stream``; later fits have larger ones.
    """
    second: BufferForm | None = None
    for bound in (None, *(bound for bound in _TOLERANCES if bound > checks.real("tolerance", tolerance))):
        try:
            fit = stream if bound is None else rational_approximation(reference.noise, bound)
            form = buffer_form(fit) if isinstance(fit, PoleNoise) else None
        except (ArithmeticError, TypeError, ValueError):
            continue
        held = [not buffer_handover(form, dtype, reference).reason for dtype in DTYPES]
        if all(held):
            return form
        if held[0] and second is None:
            second = form
    return second
