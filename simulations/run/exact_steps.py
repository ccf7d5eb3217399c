"""The steps of proved noise in real numbers, and in the kinds of numbers that stand for them.

A step is a function of the draws of ``exact_draws`` and of the numbers of the program, which are the reals that its
floats are.  It is written once, for any *kind* of numbers: ``Sizes`` bound how far floats or pairs are from the
real result, ``Pairs`` are sums of two floats, and ``Balls`` are those of Arb.

==========================  ============================================================================
form                        a step, in real numbers, for the scaled draw x = g_t z_t
==========================  ============================================================================
``"cascade"``               for each section: v = s + (x − q s), x ← x + (a − q) s, and v is written; y = x
``"time-varying buffers"``  y = z − Σ o s, and v = θ s + i y is written for each buffer
``"delay line"``            y = Σ_k β_k g_{t−k} z_{t−k}
``"substitution"``          f y/h = ((f/h) z − Σ_{s<t} C_ts n_s)/C_tt
==========================  ============================================================================

The memory of sections and buffers is a row u (k − D) for each, with integers k and the dithers D of the step that wrote
it, and v is written as k = ⌊v/u + D + ½⌋.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from corrnoise.simulations.run import exact_draws
from corrnoise.simulations.run.engines import step_scale
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics import double_double_series as double_double
from corrnoise.theory.numerics.checks import Array

LARGEST_INTEGER = 2.0**40  #: of a release
LARGEST_ROW = 2.0**31 - 1  #: of memory

_ROW_BITS = 26  # of memory below the deviation of a row
_LEAST_DEVIATION = 1e-90  # of a row
_LARGEST_DRIFT = 2.0**27  # of the errors of memory in a row, in its units
_SAFETY = 1.01  # for products of two errors
_PAIR_ROUNDING = 2.0**-98  # of an operation on pairs
_PAIR_LIMIT = 2.0**-40  # of a fraction that is rounded to a float
_NORM_FACTOR = 1 + 1e-9  # more than the relative errors of norms
_SOLVED_ENTRIES = 2**22  # of N, at once


# -- kinds of numbers --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How large a number is, and how far a computed one is from it, where an operation is off by ``unit``."""

    most: float
    error: float
    unit: float

    def _rounding(self, most: float, error: float) -> Size:
        return Size(most, error + self.unit * most, self.unit)

    def __add__(self, other: Size) -> Size:
        return self._rounding(self.most + other.most, self.error + other.error)

    def __sub__(self, other: Size) -> Size:
        return self + other

    def __mul__(self, other: Size) -> Size:
        return self._rounding(self.most * other.most, self.error * other.most + self.most * other.error)

    def __truediv__(self, exact: Size) -> Size:
        return self._rounding(self.most / exact.most, self.error / exact.most)


class Pair:
    """Double-double numbers, an array of them each."""

    def __init__(self, high: Array, low: Array) -> None:
        self.high, self.low = high, low

    def _with(self, other: Pair, operation: Callable[..., Any]) -> Pair:
        return Pair(*operation(self.high, self.low, other.high, other.low))

    def __add__(self, other: Pair) -> Pair:
        return self._with(other, double_double.add)

    def __sub__(self, other: Pair) -> Pair:
        return self + Pair(-other.high, -other.low)

    def __mul__(self, other: Pair) -> Pair:
        return self._with(other, double_double.product)

    def __truediv__(self, exact: Pair) -> Pair:
        return Pair(*double_double.over(self.high, self.low, exact.high))


class Sizes:
    """The numbers of a step as their sizes: the result is how far the computed numbers may be off."""

    def __init__(self, unit: float) -> None:
        self._unit = unit

    def real(self, value: Any) -> Size:
        """An exact number."""
        return Size(float(np.abs(value).max()), 0.0, self._unit)

    def difference(self, one: float, other: float) -> Size:
        """An exact difference of two, which is rounded."""
        most = abs(one - other)
        return Size(most, self._unit * most, self._unit)

    def rounded(self, number: Size, limit: float) -> float:
        """The limit of ⌊x + ½⌋."""
        return _SAFETY * number.error


class Pairs:
    """The numbers of a step for several coordinates, in double-double arithmetic."""

    def __init__(self, count: int) -> None:
        self._zeros = np.zeros(count)

    def real(self, value: Any) -> Pair:
        """An exact number, or one of each coordinate."""
        return Pair(self._zeros + value, self._zeros)

    def difference(self, one: float, other: float) -> Pair:
        """An exact difference of two."""
        high, low = double_double.two_sum(one, -other)
        return Pair(self._zeros + high, self._zeros + low)

    def rounded(self, number: Pair, limit: float) -> NDArray[np.float64]:
        """⌊x + ½⌋, NaN where it is not certain."""
        nearest = np.floor(number.high + 0.5)
        rest = (number.high - nearest) + number.low
        found = nearest + (rest >= 0.5) - (rest < -0.5)
        return np.where(np.abs(np.abs(rest) - 0.5) >= limit, found, np.nan)


class Balls:
    """The numbers of a step for one coordinate, in balls of Arb."""

    def real(self, value: Any) -> arb:
        """An exact number, or one of each coordinate."""
        return arb(float(value))

    def difference(self, one: float, other: float) -> arb:
        """An exact difference of two."""
        return arb(one) - arb(other)

    def rounded(self, number: arb, limit: float) -> int | None:
        """⌊x + ½⌋, None where it is not certain."""
        found = (number + 0.5).floor().unique_fmpz() if number.is_finite() else None
        return None if found is None else int(found)


# -- recurrences -------------------------------------------------------------------------------------------------------


class Recurrence(ABC):
    """The steps of a form: in floats for all coordinates, and in any kind of numbers for the open ones.

    Attributes
    ----------
    dithered : how many rows of memory have dithers
    draws : how many last steps have draws that a step needs, with its own
    depth : how many last steps have integers that a step needs
    rows, dtype : of the arrays of memory
    """

    dithered = 0
    draws = 1
    depth = 0
    rows = 0
    dtype: type = np.float64

    def __init__(self, program: Program, scale: float, unit: float) -> None:
        self.program, self.scale, self.unit = program, scale, unit

    def factor(self, step: int) -> float:
        """f_t/h, exactly."""
        return step_scale(self.program, self.scale, step) / self.unit

    def gamma(self, step: int) -> float:
        """The factor of the draw of a step."""
        scales = self.program.draw_scales
        return 1.0 if scales is None else float(scales[step])

    @property
    def least_share(self) -> float:
        """The least deviation of the noise of a step for given earlier draws, in units of the grid."""
        scales = [each for each in (self.program.step_scales, self.program.draw_scales) if each is not None]
        return self.scale / self.unit * float(np.prod(scales, axis=0).min()) * self._first()

    def _first(self) -> float:
        """How much of its scaled draw is in the noise of a step, at least."""
        return 1.0

    @abstractmethod
    def deviation(self) -> float:
        """An upper bound of the deviation of the noise of a step, for independent noise of deviation 1."""

    @abstractmethod
    def solved(self, kind: Any, step: int, draws: Sequence[Any], memory: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Return f_t y_t/h, and v/u of the rows that are written, from the draws, newest first, and the memory.

        The memory holds the rows with dithers, or the integers of the last steps, newest first.
        """

    def units(self, step: int) -> Array:
        """The units of the rows that a step writes, powers of two."""
        return np.zeros(0)

    def read_units(self, step: int) -> Array:
        """The units of the rows that a step reads, 0 for those that were never written."""
        return self.units(step - 1) if step else np.zeros(self.dithered)

    def drift(self) -> tuple[Array, float]:
        """Bounds of the sum of the errors of memory in each row, in its units, and in y."""
        return np.zeros(0), 0.0

    def rounded(
        self, kind: Any, step: int, draws: Sequence[Any], memory: Sequence[Any], dithers: Sequence[Any], limits: Any
    ) -> list[Any]:
        """The integer of a step, and the integer that each row gets: ⌊f_t y_t/h + ½⌋ and ⌊v/u + D + ½⌋."""
        noise, written = self.solved(kind, step, draws, memory)
        sums = [noise] + [value + dither for value, dither in zip(written, dithers, strict=True)]
        return [kind.rounded(each, limit) for each, limit in zip(sums, limits, strict=True)]

    def limits(self, step: int, largest: Sequence[float], *, pairs: bool = False) -> Array:
        """How far the numbers of floats, or of pairs, may be from the real ones, before they are rounded.

        ``largest`` are bounds of the integers of the last steps, newest first.
        """
        rounding = _PAIR_ROUNDING if pairs else 2.0**-53
        normal, dither = (
            (exact_draws.PAIR_ERROR, exact_draws.PAIR_ERROR)
            if pairs
            else (exact_draws.NORMAL_ERROR, exact_draws.DITHER_ERROR)
        )
        kind = Sizes(rounding)
        draws = [Size(exact_draws.LARGEST_NORMAL, normal, rounding)] * min(self.draws, step + 1)
        memory = [
            Size(2.0**31 * unit, (dither + 2.0**31 * rounding) * unit, rounding) for unit in self.read_units(step)
        ]
        memory += [kind.real(each) for each in largest]
        dithers = [Size(1.0, dither, rounding)] * self.dithered
        found = self.rounded(kind, step, draws, memory, dithers, [0.0] * (1 + len(dithers)))
        return np.array(found) + (_PAIR_LIMIT if pairs else 0.0)


class DitheredRows(Recurrence):
    """Noise from rows with dithers, which each step reads and writes."""

    dtype = np.int32

    @abstractmethod
    def numbers(self, step: int) -> tuple[Array, Array, Array]:
        """Decays, outputs and inputs of a step in floats, as ``proved.run_rows`` takes them."""

    @staticmethod
    def _units_of(deviations: Array) -> Array:
        """Powers of two, by bounds of the deviations of rows in units of the draws."""
        return np.ldexp(1.0, np.ceil(np.log2(np.maximum(deviations, _LEAST_DEVIATION))).astype(int) - _ROW_BITS)


class ExactCascade(DitheredRows):
    """Rational noise with real poles: a row with dithers for each section."""

    def __init__(self, program: Program, scale: float, unit: float) -> None:
        super().__init__(program, scale, unit)
        self.zeros, self.poles = program.unscaled.sections()
        largest = 1.0 if program.draw_scales is None else float(program.draw_scales.max())
        self._units = self._units_of(largest * np.array(list(self._deviations())))
        self.dithered = self.rows = self._units.size

    def units(self, step: int) -> Array:
        return self._units

    def _deviations(self) -> Iterable[float]:
        """Deviations of the rows for unit draws: a row is s = x z/(1 − (1 − q) z), where x left the sections before."""
        for i in range(self.poles.size):
            gaps = np.concatenate([self.zeros[:i], self.poles[: i + 1]])
            inverse = ProductNoise(gaps, np.repeat([-1.0, 1.0], [i, i + 1]))
            yield _norm_of(inverse, self.program.participation.steps)

    def numbers(self, step: int) -> tuple[Array, Array, Array]:
        return self.poles, self.zeros - self.poles, self.zeros

    def deviation(self) -> float:
        return _scaled_norm(self.program)

    def drift(self) -> tuple[Array, float]:
        held = np.minimum(self.poles, 2 - self.poles)  # 1 over the sum of the decays of a row
        if (steps := self.program.participation.steps) is not None:
            held = np.maximum(held, 1 / steps)
        gains = np.abs(self.zeros - self.poles)
        found, past = [], 0.0  # the sum of the errors in x
        for unit, gain, rest in zip(self._units.tolist(), gains.tolist(), held.tolist(), strict=True):
            row = (unit + past) / rest
            found.append(row / unit)
            past += gain * row
        return np.array(found), past

    def solved(self, kind: Any, step: int, draws: Sequence[Any], memory: Sequence[Any]) -> tuple[Any, list[Any]]:
        x = _scaled(kind, draws[0], self.gamma(step))
        written = []
        for s, a, q, unit in zip(memory, self.zeros.tolist(), self.poles.tolist(), self._units.tolist(), strict=True):
            written.append((s + (x - kind.real(q) * s)) * kind.real(1 / unit))
            x = x + kind.difference(a, q) * s
        return x * kind.real(self.factor(step)), written


class ExactBuffers(DitheredRows):
    """Buffers whose outputs and inputs depend on the step: a row with dithers for each."""

    def __init__(self, program: Program, scale: float, unit: float) -> None:
        super().__init__(program, scale, unit)
        self.noise = program.mechanism
        self.dithered = self.rows = self.noise.decays.size
        self._follow()

    def _follow(self) -> None:
        """Find the units of the rows, the largest deviation of the noise, and the sums of all errors of memory.

        The buffers follow x ← (diag(θ) − i oᵀ) x + i z.  The matrix R_s is the response of x to what step s wrote.
        Sizes of rows may differ much between steps, and so do the units.
        """
        steps, count = self.noise.outputs.shape
        responses, self._units = np.empty((steps, count, count)), np.empty((steps, count))
        self._deviation, self._row_drift, self._noise_drift = 0.0, np.zeros(count), 0.0
        for step in range(steps):
            past = responses[:step]
            output, entry = self.noise.outputs[step], self.noise.inputs[step]
            heard = output @ past
            drawn = np.einsum("sj,sj->s", heard, self.noise.inputs[:step])
            deviation = self.noise.scales[step] * math.hypot(1.0, float(np.linalg.norm(drawn))) * _NORM_FACTOR
            self._deviation = max(self._deviation, deviation)
            self._noise_drift = max(self._noise_drift, float((np.abs(heard) * self._units[:step]).sum()))
            past[:] = (np.diag(self.noise.decays) - np.outer(entry, output)) @ past
            responses[step] = np.eye(count)
            rows = np.einsum("sij,sj->si", responses[: step + 1], self.noise.inputs[: step + 1])
            self._units[step] = self._units_of(np.linalg.norm(rows, axis=0))
            errors = np.einsum("sij,sj->i", np.abs(responses[: step + 1]), self._units[: step + 1])
            self._row_drift = np.maximum(self._row_drift, errors / self._units[step])

    def units(self, step: int) -> Array:
        found: Array = self._units[step]
        return found

    def numbers(self, step: int) -> tuple[Array, Array, Array]:
        return np.array(self.noise.decays), np.array(self.noise.outputs[step]), np.array(self.noise.inputs[step])

    def deviation(self) -> float:
        return self._deviation

    def drift(self) -> tuple[Array, float]:
        return self._row_drift, self._noise_drift

    def solved(self, kind: Any, step: int, draws: Sequence[Any], memory: Sequence[Any]) -> tuple[Any, list[Any]]:
        decays, outputs, inputs = (each.tolist() for each in self.numbers(step))
        y = draws[0]
        for s, output in zip(memory, outputs, strict=True):
            y = y - kind.real(output) * s
        written = [
            (kind.real(decay) * s + kind.real(entry) * y) * kind.real(1 / unit)
            for s, decay, entry, unit in zip(memory, decays, inputs, self.units(step).tolist(), strict=True)
        ]
        return y * kind.real(self.factor(step)), written


class ExactDelays(Recurrence):
    """Finitely many coefficients: a ring of the last draws, as floats know them, or nothing."""

    def __init__(self, program: Program, scale: float, unit: float) -> None:
        super().__init__(program, scale, unit)
        self.coefficients = program.unscaled.values
        self.draws = self.rows = self.coefficients.size

    def _first(self) -> float:
        return abs(float(self.coefficients[0]))

    def deviation(self) -> float:
        return _scaled_norm(self.program)

    def weights(self, step: int) -> Array:
        """β_k g_{t−k}, rounded, of the steps there are."""
        ages = np.arange(min(self.draws, step + 1))
        scales = self.program.draw_scales
        return self.coefficients[ages] if scales is None else self.coefficients[ages] * scales[step - ages]

    def solved(self, kind: Any, step: int, draws: Sequence[Any], memory: Sequence[Any]) -> tuple[Any, list[Any]]:
        y = None
        for age, draw in enumerate(draws):
            term = _scaled(kind, kind.real(self.coefficients[age]), self.gamma(step - age)) * draw
            y = term if y is None else y + term
        return y * kind.real(self.factor(step)), []


class ExactSubstitution(Recurrence):
    """A triangular strategy: a ring of the last p − 1 integers, which were released."""

    def __init__(self, program: Program, scale: float, unit: float) -> None:
        super().__init__(program, scale, unit)
        self.depth = self.rows = program.mechanism.bands() - 1
        self.noise = program.mechanism

    def entries(self, step: int) -> Array:
        """C_ts for s = t, t − 1, …."""
        ages = np.arange(min(self.depth + 1, step + 1))
        if isinstance(self.noise, BandedNoise):
            return self.noise.diagonals[ages, step - ages]
        return np.asarray(self.noise.matrix[step, step - ages])

    def _first(self) -> float:
        return 1 / float(np.abs(self._diagonal()).max())

    def _diagonal(self) -> Array:
        return self.noise.diagonals[0] if isinstance(self.noise, BandedNoise) else np.diag(self.noise.matrix)

    def deviation(self) -> float:
        steps, squares = self.noise.steps, np.zeros(self.noise.steps)
        columns = max(_SOLVED_ENTRIES // steps, 1)
        for first in range(0, steps, columns):
            squares += np.square(self.noise.noising(np.eye(steps, min(columns, steps - first), -first))).sum(axis=1)
        return math.sqrt(float(squares.max())) * _NORM_FACTOR

    def solved(self, kind: Any, step: int, draws: Sequence[Any], memory: Sequence[Any]) -> tuple[Any, list[Any]]:
        entries = self.entries(step)
        x = draws[0] * kind.real(self.factor(step))
        for entry, number in zip(entries[1:].tolist(), memory, strict=True):
            x = x - kind.real(entry) * number
        return x / kind.real(entries[0]), []


def _scaled(kind: Any, number: Any, factor: float) -> Any:
    return number if factor == 1.0 else kind.real(factor) * number


def _norm_of(inverse: Any, steps: int | None) -> float:
    """The norm of the first coefficients of the inverse of this noise, to about 12 digits."""
    if steps is None:
        return float(inverse.limiting_sensitivity())
    return float(np.linalg.norm(inverse.inverse_coefficients(steps)))


def _scaled_norm(program: Program) -> float:
    """Max d_t max g_t ‖β‖ for Toeplitz noise with factors of steps and draws, rounded up."""
    noise, steps = program.unscaled, program.participation.steps
    if steps is not None:
        found = float(np.linalg.norm(noise.coefficients(steps)))
    elif isinstance(noise, ProductNoise):
        found = float(ProductNoise(noise.gaps, -noise.exponents).limiting_sensitivity())
    else:
        found = float(np.linalg.norm(noise.values))
    scales = [float(each.max()) for each in (program.step_scales, program.draw_scales) if each is not None]
    return found * math.prod(scales) * _NORM_FACTOR


#: The steps of each form that has proved noise.
RECURRENCES: dict[str, type[Recurrence]] = {
    "cascade": ExactCascade,
    "time-varying buffers": ExactBuffers,
    "delay line": ExactDelays,
    "substitution": ExactSubstitution,
}


def exact_deviation(program: Program) -> float:
    """An upper bound of the deviation of the noise of a step, for independent noise of deviation 1."""
    return RECURRENCES[checks.choice("form", program.form, tuple(RECURRENCES))](program, 1.0, 1.0).deviation()


def finest_unit(program: Program) -> float:
    """About the finest unit of the grid of a run with the scale 1."""
    return math.ldexp(1.0, math.ceil(math.log2(exact_deviation(program))) - 28)


def recurrence(program: Program, scale: float, unit: float) -> Recurrence:
    """The steps of a program with exact numbers, whose integers and rows keep to their ranges.

    Raises
    ------
    ValueError
        If the program has other numbers, the grid is too coarse or too fine for its noise, or a row of memory would
        keep too many of its rounding errors.
    """
    if program.dtype != "exact":
        raise ValueError(f"program must have exact numbers here, got {program.dtype!r}: give dtype='exact'")
    found = RECURRENCES[checks.choice("form", program.form, tuple(RECURRENCES))](program, scale, unit)
    drift, noise_drift = found.drift()
    if found.least_share < 1:
        raise ValueError(
            f"the grid must be as fine as the noise that a step adds to earlier noise, got the unit {unit:.3g} "
            f"and {found.least_share:.3g} units of noise: take release='grid'"
        )
    largest = 1.0 if program.step_scales is None else float(program.step_scales.max())
    if (drift > _LARGEST_DRIFT).any() or scale / unit * largest * noise_drift > LARGEST_INTEGER / 2:
        raise ValueError(
            f"poles must forget rounding errors of memory within {_LARGEST_DRIFT:.3g} units, got {drift.max():.3g}: "
            "take poles with larger gaps, or release='grid'"
        )
    return found
