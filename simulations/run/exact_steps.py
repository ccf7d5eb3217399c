"""The steps of proved noise in real numbers, and in the kinds of numbers that stand for them.

A step is a function of the draws of ``exact_draws`` and of the numbers of the program, which are the reals that its
floats are.  It is written once, for any kind of numbers (``exact_numbers``).

==========================  ============================================================================
form                        a step, in real numbers, for the scaled draw x = g_t z_t
==========================  ============================================================================
``"cascade"``               for each section: v = s + (x − q s), x ← x + (a − q) s, and v is written; y = x
``"time-varying buffers"``  y = z − Σ o s, and v = θ s + i y is written for each buffer
``"replayed buffers"``      the same for z_t + Σ_e a_et z_{t−eb} in place of z, with earlier draws
``"tree"``                  v = c_h z + Σ_{i<h} a_hi s_i is written into row h, the height of t; y = v − Σ δ_i s_i
``"delay line"``            y = Σ_k β_k g_{t−k} z_{t−k}
``"substitution"``          f y/h = ((f/h) z − Σ_{s<t} C_ts n_s)/C_tt
==========================  ============================================================================

The memory of sections, buffers and heights is a row s = u (k − D) for each, with integers k and the dithers D of the
step that wrote it, and v is written as k = ⌊v/u + D + ½⌋.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from corrnoise.simulations.run import exact_draws
from corrnoise.simulations.run.engines import step_scale
from corrnoise.simulations.run.exact_numbers import Size, Sizes
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

LARGEST_INTEGER = 2.0**40  #: of a release
LARGEST_ROW = 2.0**31 - 1  #: of memory

_ROW_BITS = 26  # of memory below the deviation of a row
_LEAST_DEVIATION = 1e-90  # of a row
_LARGEST_DRIFT = 2.0**27  # of the errors of memory in a row, in its units
_PAIR_ROUNDING = 2.0**-98  # of an operation on pairs
_PAIR_LIMIT = 2.0**-40  # of a fraction that is rounded to a float
_NORM_FACTOR = 1 + 1e-9  # more than the relative errors of norms
_SOLVED_ENTRIES = 2**22  # of N, at once


# -- recurrences -------------------------------------------------------------------------------------------------------


class Recurrence(ABC):
    """The steps of a form: in floats for all coordinates, and in any kind of numbers for the open ones.

    Attributes
    ----------
    dithered : how many rows of memory have dithers
    depth : how many last steps have integers that a step needs
    lookback : how many steps back a step makes draws or dithers again
    rows, dtype : of the arrays of memory
    """

    dithered = 0
    depth = 0
    lookback = 0
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
        """Return f_t y_t/h, and v/u of the rows that are written, from the draws of ``earlier`` and the memory.

        The memory holds the rows of ``writers``, or the integers of the last steps, newest first.
        """

    def earlier(self, step: int) -> list[int]:
        """The steps whose draws a step needs, its own first."""
        return [step]

    def writers(self, step: int) -> list[int]:
        """The steps that wrote the rows 0, 1, … that a step reads; −1 for a row that was never written."""
        return [step - 1] * self.dithered

    def writes(self, step: int) -> range:
        """The rows that a step writes."""
        return range(self.dithered)

    def units(self, step: int) -> Array:
        """The units of the rows that a step writes, powers of two."""
        return np.zeros(0)

    def read_units(self, step: int) -> Array:
        """The units of the rows that a step reads, 0 for those that were never written."""
        return self.units(step - 1) if step else np.zeros(self.dithered)

    def remembered(self, kind: Any, step: int, known: Sequence[Any] | Array, dithers: Sequence[Any]) -> list[Any]:
        """The memory that a step reads: u (k − D) of rows whose integers are ``known``, or known integers."""
        if not self.dithered:
            return [kind.real(each) for each in known]
        if not dithers:  # all rows are new
            return [kind.real(0.0)] * len(self.writers(step))
        rows = zip(known, dithers, self.read_units(step).tolist(), strict=False)  # a tree reads the first rows
        return [(kind.real(k) - dither) * kind.real(unit) for k, dither, unit in rows]

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
        draws = [Size(exact_draws.LARGEST_NORMAL, normal, rounding)] * len(self.earlier(step))
        memory = [
            Size(2.0**31 * unit, (dither + 2.0**31 * rounding) * unit, rounding) for unit in self.read_units(step)
        ]
        memory += [kind.real(each) for each in largest]
        dithers = [Size(1.0, dither, rounding)] * len(self.writes(step))
        found = self.rounded(kind, step, draws, memory, dithers, [0.0] * (1 + len(dithers)))
        return np.array(found) + (_PAIR_LIMIT if pairs else 0.0)


class DitheredRows(Recurrence):
    """Noise from rows with dithers."""

    dtype = np.int32
    lookback = 1  # to the step that wrote the rows

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

    def numbers(self, step: int) -> Array:
        """Gaps of poles, gains, and units of the rows that are read and written, for ``exact_kernels.run_rows``."""
        unused = np.zeros(self.dithered)
        return np.array([self.poles, self.zeros - self.poles, unused, self.read_units(step), self._units])

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
    """Buffers whose outputs and inputs depend on the step: a row with dithers for each; also with replays."""

    def __init__(self, program: Program, scale: float, unit: float) -> None:
        super().__init__(program, scale, unit)
        self.noise = program.mechanism
        self.dithered = self.rows = self.noise.decays.size
        self.lookback = max(len(self.noise.replays) * self.noise.period, 1)
        self._follow()

    def earlier(self, step: int) -> list[int]:
        return list(range(step, -1, -self.noise.period))[: len(self.noise.replays) + 1]

    def _of_draws(self, responses: Array) -> Array:
        """The responses to the draws z_s, from those to z_s + Σ_e a_es z_{s−eb}, shape (steps, size)."""
        found, steps = responses.copy(), len(responses)
        for e, factors in enumerate(self.noise.replays, 1):
            lag = min(e * self.noise.period, steps)
            found[: steps - lag] += factors[lag:steps, np.newaxis] * responses[lag:]
        return found

    def _follow(self) -> None:
        """Find the units of the rows, the largest deviation of the noise, and the sums of all errors of memory.

        The buffers follow x ← (diag(θ) − i oᵀ) x + i u for u_s = z_s + Σ_e a_es z_{s−eb}.  The matrix R_s is the
        response of x to what step s wrote.  Sizes of rows may differ much between steps, and so do the units.
        """
        steps, count = self.noise.outputs.shape
        responses, self._units = np.empty((steps, count, count)), np.empty((steps, count))
        self._deviation, self._row_drift, self._noise_drift = 0.0, np.zeros(count), 0.0
        for step in range(steps):
            past = responses[:step]
            output, entry = self.noise.outputs[step], self.noise.inputs[step]
            heard = output @ past
            drawn = np.append(-np.einsum("sj,sj->s", heard, self.noise.inputs[:step]), 1.0)[:, np.newaxis]
            deviation = self.noise.scales[step] * float(np.linalg.norm(self._of_draws(drawn))) * _NORM_FACTOR
            self._deviation = max(self._deviation, deviation)
            self._noise_drift = max(self._noise_drift, float((np.abs(heard) * self._units[:step]).sum()))
            past[:] = (np.diag(self.noise.decays) - np.outer(entry, output)) @ past
            responses[step] = np.eye(count)
            rows = np.einsum("sij,sj->si", responses[: step + 1], self.noise.inputs[: step + 1])
            self._units[step] = self._units_of(np.linalg.norm(self._of_draws(rows), axis=0))
            errors = np.einsum("sij,sj->i", np.abs(responses[: step + 1]), self._units[: step + 1])
            self._row_drift = np.maximum(self._row_drift, errors / self._units[step])

    def units(self, step: int) -> Array:
        found: Array = self._units[step]
        return found

    def replays(self, step: int) -> list[float]:
        """The factors of the earlier draws of ``earlier``."""
        found: list[float] = self.noise.replays[: len(self.earlier(step)) - 1, step].tolist()
        return found

    def numbers(self, step: int) -> Array:
        """Decays, outputs, inputs, and units of the rows that are read and written, for ``exact_kernels.run_rows``."""
        of_step = self.noise.decays, self.noise.outputs[step], self.noise.inputs[step]
        return np.array([*of_step, self.read_units(step), self.units(step)])

    def deviation(self) -> float:
        return self._deviation

    def drift(self) -> tuple[Array, float]:
        return self._row_drift, self._noise_drift

    def solved(self, kind: Any, step: int, draws: Sequence[Any], memory: Sequence[Any]) -> tuple[Any, list[Any]]:
        decays, outputs, inputs = self.numbers(step)[:3].tolist()
        y = draws[0]
        for factor, draw in zip(self.replays(step), draws[1:], strict=True):
            y = y + kind.real(factor) * draw
        for s, output in zip(memory, outputs, strict=True):
            y = y - kind.real(output) * s
        written = [
            (kind.real(decay) * s + kind.real(entry) * y) * kind.real(1 / unit)
            for s, decay, entry, unit in zip(memory, decays, inputs, self.units(step).tolist(), strict=True)
        ]
        return y * kind.real(self.factor(step)), written


class ExactTree(DitheredRows):
    """A binary tree: a row with dithers for the last node of each height.

    The nodes below one belong to intervals without common steps, so that their draws are independent.
    """

    def __init__(self, program: Program, scale: float, unit: float) -> None:
        super().__init__(program, scale, unit)
        self.noise = program.mechanism
        self.dithered = self.rows = self.noise.draws.size
        self.lookback = 2 ** max(self.rows - 2, 0)
        variances, errors = np.zeros(self.rows), np.zeros(self.rows)
        self._deviation, self._noise_drift = 0.0, 0.0
        for height, draw in enumerate(self.noise.draws.tolist()):
            estimates, left = self.weights(height)
            variances[height] = draw**2 + np.square(estimates) @ variances[:height]
            gains = estimates - left
            self._deviation = max(self._deviation, math.sqrt(draw**2 + np.square(gains) @ variances[:height]))
            self._noise_drift = max(self._noise_drift, float(np.abs(gains) @ errors[:height]))
            errors[height] = self._units_of(np.sqrt(variances[height])) + np.abs(estimates) @ errors[:height]
        self._units = self._units_of(np.sqrt(variances))
        self._row_drift = errors / self._units

    def height(self, step: int) -> int:
        """The height of the node of a step: its number of nodes below."""
        return (~step & step + 1).bit_length() - 1

    def weights(self, height: int) -> tuple[Array, Array]:
        """a_hi and δ_i for i < h."""
        return self.noise.estimates[height, :height], self.noise.left[:height]

    def writers(self, step: int) -> list[int]:
        return [step - 2**below for below in range(self.height(step))]

    def writes(self, step: int) -> range:
        return range(self.height(step), self.height(step) + 1)

    def units(self, step: int) -> Array:
        return self._units[self.height(step) :][:1]

    def read_units(self, step: int) -> Array:
        return self._units[: self.height(step)]

    def _first(self) -> float:
        return float(self.noise.draws.min())

    def deviation(self) -> float:
        return self._deviation * _NORM_FACTOR

    def drift(self) -> tuple[Array, float]:
        return self._row_drift, self._noise_drift

    def solved(self, kind: Any, step: int, draws: Sequence[Any], memory: Sequence[Any]) -> tuple[Any, list[Any]]:
        height = self.height(step)
        estimates, left = (each.tolist() for each in self.weights(height))
        node = kind.real(self.noise.draws[height]) * draws[0]
        for s, weight in zip(memory, estimates, strict=True):
            node = node + kind.real(weight) * s
        y = node
        for s, weight in zip(memory, left, strict=True):
            y = y - kind.real(weight) * s
        return y * kind.real(self.factor(step)), [node * kind.real(1 / self.units(step)[0])]


class ExactDelays(Recurrence):
    """Finitely many coefficients: a ring of the last draws, as floats know them, or nothing."""

    def __init__(self, program: Program, scale: float, unit: float) -> None:
        super().__init__(program, scale, unit)
        self.coefficients = program.unscaled.values
        self.rows = self.coefficients.size
        self.lookback = self.rows - 1

    def earlier(self, step: int) -> list[int]:
        return list(range(step, max(step - self.rows, -1), -1))

    def _first(self) -> float:
        return abs(float(self.coefficients[0]))

    def deviation(self) -> float:
        return _scaled_norm(self.program)

    def weights(self, step: int) -> Array:
        """β_k g_{t−k}, rounded, of the steps there are."""
        ages = np.arange(min(self.rows, step + 1))
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
    "replayed buffers": ExactBuffers,
    "tree": ExactTree,
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
