"""Proved noise: integers n = ⌊f y/h + ½⌋ of real noise y that nothing rounds, whatever the arithmetic.

A draw is a real number (``exact_draws``), and so is a step (``exact_steps``).  A release needs the integer n alone.
Floats give f y/h to within a *limit*; where the nearest boundary is further away, n is certain.  The other coordinates,
about one of 10⁵, are evaluated again in pairs of floats, and the few that are still open in balls of Arb with more and
more bits.  So n is defined by mathematics, and every order of operations gives the same one.

The memory of a cascade is rounded with a *subtractive dither*: its error is uniform and independent of all normals,
whatever is written, hence of the data.  Substitution remembers integers that it has released, whose rounding is public,
and a delay line its last draws.  So the releases of a run are post-processing of the Gaussian mechanism with the
exact matrix of the program, up to ``program.TOTAL_VARIATION``.  The proofs are in docs/exact-sums.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import ctx
from numpy.typing import NDArray

from corrnoise.simulations.run import exact_draws
from corrnoise.simulations.run.engines import Memory
from corrnoise.simulations.run.exact_numbers import Balls, Pair, Pairs
from corrnoise.simulations.run.exact_steps import (
    LARGEST_INTEGER,
    LARGEST_ROW,
    ExactBuffers,
    ExactCascade,
    ExactDelays,
    ExactSubstitution,
    ExactTree,
    Recurrence,
    recurrence,
)
from corrnoise.simulations.run.model_noise import HostMaker
from corrnoise.simulations.run.secret import Key
from corrnoise.simulations.run.sums import Grid, released_integers
from corrnoise.support.kernels import kernel
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_EXTREME_SHARE = 2.0**-18 + 2.0**-30  # of draws, whose words floats do not take
_BLOCK = 1024  # coordinates that stay in the first-level cache
_MOST_NUMBERS = 2.0**70  # of a run
_ENDLESS_STEPS = 2**40  # steps, in place of any number
_BALL_WORDS = (3, 4, 6, 8, 12, 16)  # of 64 bits, of a draw


# -- level 1: floats ---------------------------------------------------------------------------------------------------


@kernel
def _rounded(x, factor, limit, open_places):  # type: ignore[no-untyped-def]
    """⌊x f + ½⌋ in place; a place is open, and stays it, unless this is certain and in range, which no NaN is."""
    reach = 0.5 - limit
    for j in range(x.size):
        t = x[j] * factor
        number = np.floor(t + 0.5)
        x[j] = number
        certain = (abs(t - number) <= reach) & (abs(number) < LARGEST_INTEGER)
        open_places[j] += 0 if certain else 1


@kernel
def _listed(open_places, first, places, count):  # type: ignore[no-untyped-def]
    """Add the open places to a list; their new number."""
    total = 0
    for j in range(open_places.size):
        total += open_places[j]
    if total == 0:
        return count
    for j in range(open_places.size):
        if open_places[j] != 0:
            places[count] = first + j
            count += 1
    return count


@kernel
def _read(row, old, unit, state):  # type: ignore[no-untyped-def]
    """The numbers u (k − D) of a row, with the middle of what 16 bits say of D."""
    for j in range(row.size):
        state[j] = unit * (np.float64(row[j]) - (np.float64(old[j]) + 0.5) * 2.0**-16)


@kernel
def _write(state, own, limit, fresh, open_places):  # type: ignore[no-untyped-def]
    """⌊v/u + D + ½⌋ for numbers v/u, and open places as in ``_rounded``."""
    reach = 0.5 - limit
    for j in range(state.size):  # the compiler vectorises loops of few arrays
        state[j] += (np.float64(own[j]) + 0.5) * 2.0**-16
    for j in range(state.size):
        number = np.floor(state[j] + 0.5)
        fresh[j] = np.int32(number)
        certain = (abs(state[j] - number) <= reach) & (abs(number) < LARGEST_ROW)
        open_places[j] += 0 if certain else 1


@kernel
def _keep(row, fresh, places, first):  # type: ignore[no-untyped-def]
    """Keep the integers of a part of a row that begins at ``first``, but at open places."""
    for place in places:
        fresh[place - first] = row[place - first]
    for j in range(row.size):  # several times as fast as ``row[:] = fresh``
        row[j] = fresh[j]


@kernel
def run_rows(x, memory, before, now, cascade, numbers, limits, factor, places):  # type: ignore[no-untyped-def]
    """Turn scaled draws into integers, and write the rows where all is certain; the number of open places.

    ``before`` and ``now`` are 16 bits of the dithers of the step that wrote the rows, and of this one.  ``numbers`` are
    decays, outputs, inputs, and the units of the rows that are read, 0 for new rows, and written.
    A ``cascade`` has the gaps of its poles for decays, and its gains for outputs.
    """
    decays, outputs, inputs, read, units = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    count = 0
    rows = units.size
    fresh = np.empty((rows, _BLOCK), np.int32)
    states = np.empty((rows, _BLOCK))
    open_block = np.empty(_BLOCK, np.int64)
    for first in range(0, x.size, _BLOCK):
        last = min(first + _BLOCK, x.size)
        size = last - first
        value = x[first:last]
        open_places = open_block[:size]
        open_places[:] = 0
        for i in range(rows):
            state = states[i, :size]
            _read(memory[i, first:last], before[i, first:last], read[i], state)
            decay, output, inverse = decays[i], outputs[i], 1.0 / units[i]
            if cascade:
                for j in range(size):
                    s, x_before = state[j], value[j]
                    state[j] = (s + (x_before - decay * s)) * inverse
                    value[j] = x_before + output * s
            else:
                for j in range(size):
                    value[j] -= output * state[j]
        for i in range(rows):
            state = states[i, :size]
            if not cascade:
                decay, entry, inverse = decays[i], inputs[i], 1.0 / units[i]
                for j in range(size):
                    state[j] = (decay * state[j] + entry * value[j]) * inverse
            _write(state, now[i, first:last], limits[i + 1], fresh[i, :size], open_places)
        _rounded(value, factor, limits[0], open_places)
        known = count
        count = _listed(open_places, first, places, count)
        for i in range(rows):
            _keep(memory[i, first:last], fresh[i, :size], places[known:count], first)
    return count


@kernel
def run_delays(x, ring, newest, coefficients, limit, factor, places):  # type: ignore[no-untyped-def]
    """Turn the draws of a step into integers; the earlier ones follow row ``newest`` of the ring."""
    count = 0
    open_block = np.empty(_BLOCK, np.int64)
    for first in range(0, x.size, _BLOCK):
        value = x[first : min(first + _BLOCK, x.size)]
        size = value.size
        open_places = open_block[:size]
        open_places[:] = 0
        value *= coefficients[0]
        for age in range(1, coefficients.size):
            beta = coefficients[age]
            draw = ring[(newest + age) % len(ring), first : first + size]
            for j in range(size):
                value[j] += beta * draw[j]
        _rounded(value, factor, limit, open_places)
        count = _listed(open_places, first, places, count)
    return count


@kernel
def run_substitution(x, ring, step, entries, limit, factor, places):  # type: ignore[no-untyped-def]
    """Turn the draws of a step into integers; the integers of step s are row s mod (p − 1) of the ring."""
    count = 0
    open_block = np.empty(_BLOCK, np.int64)
    for first in range(0, x.size, _BLOCK):
        value = x[first : min(first + _BLOCK, x.size)]
        size = value.size
        open_places = open_block[:size]
        open_places[:] = 0
        value *= factor
        for age in range(1, entries.size):
            entry = entries[age]
            made = ring[(step - age) % len(ring), first : first + size]
            for j in range(size):
                value[j] -= entry * made[j]
        for j in range(size):
            value[j] /= entries[0]
        _rounded(value, 1.0, limit, open_places)
        count = _listed(open_places, first, places, count)
    return count


# -- runs --------------------------------------------------------------------------------------------------------------


class ProvedNoise(HostMaker):
    """The integers of the noise of a program for a whole model, step by step, and the releases with them.

    Parameters
    ----------
    program : Program
        A program with exact numbers.
    size : int
        Number of parameters of the model.
    threads : int or None
        How many make the parts; None for one a core.
    scale, unit : float
        The standard deviation of the independent noise, and h, the unit of the grid, a power of two.
    spans : iterable of pair of int, optional
        The coordinates of a shard, as for ``ModelNoise``.
    memory : {"ring", "replay"}, default "ring"
        "replay" for a delay line that keeps nothing, and makes earlier draws again.

    Attributes
    ----------
    refined : the share of the integers that floats are expected to leave open, for the steps so far
    opened : the number of integers that they have left open, which is as secret as the noise

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    def __init__(
        self,
        program: Program,
        size: int,
        threads: int | None,
        *,
        scale: float,
        unit: float,
        spans: Iterable[tuple[int, int]] | None = None,
        memory: Memory = "ring",
    ) -> None:
        self._recurrence = found = recurrence(program, scale, unit)
        self._replays = checks.choice("memory", memory, ("ring", "replay")) == "replay"
        if self._replays and not isinstance(found, ExactDelays):
            raise ValueError(f"memory must be 'ring' for noise that remembers more than draws, got {program.form!r}")
        if size * (program.participation.steps or _ENDLESS_STEPS) > _MOST_NUMBERS:
            raise ValueError(f"size must keep a run within {_MOST_NUMBERS:.3g} numbers, got {size}")
        self.rows, self.dtype = 0 if self._replays else found.rows, np.dtype(found.dtype)
        super().__init__(size, threads, spans, 16 + self.rows * self.dtype.itemsize + 2 * found.dithered)
        lengths = [int(part[:, 1].sum()) for part in self._parts]
        self._memories = [np.zeros((self.rows, length), self.dtype) for length in lengths]
        self._bits = [np.zeros((found.dithered, length), np.uint16) for length in lengths]  # of the dithers of rows
        self._held: dict[int, bytes] = {}  # the keys of these dithers, by row
        self.lookback = found.lookback
        self.history = self.lookback if isinstance(found, ExactDelays) else None if self.rows else 0
        self.opened = self._steps = 0
        self._expected = 0.0
        self._largest: deque[float] = deque([0.0] * found.depth, maxlen=found.depth)  # of the last integers
        self._nonces: dict[int, bytes] = {}

    @property
    def refined(self) -> float:  # type: ignore[override]
        """The share of the integers that floats are expected to leave open: a function of public numbers."""
        return self._expected / max(self._steps, 1)

    @property
    def memory(self) -> NDArray[Any]:
        """The memory that later steps need, shape (rows, coordinates)."""
        return np.concatenate(self._memories, axis=1)

    @memory.setter
    def memory(self, rows: NDArray[Any]) -> None:
        for place, memory in zip(self._places, self._memories, strict=True):
            memory[:] = rows[:, place]
        self._largest.extend([float(np.abs(rows).max(initial=0.0))] * self._recurrence.depth)

    def know(self, nonces: Mapping[int, bytes]) -> None:
        """Take the nonces of steps that were made before this maker."""
        self._nonces.update(nonces)

    def made(self, secret: Key, step: int, nonce: bytes, scale: float, *, wide: bool = False) -> NDArray[np.float64]:
        """The integers n of the noise of a step, as floats; steps come one after the other.

        They are NaN where the nonces of earlier draws are not known: such a step only puts its draw into the ring.
        """
        if scale != self._recurrence.scale:
            raise ValueError(f"scale must be {self._recurrence.scale!r} as at the start, got {scale!r}")
        self._nonces = {each: known for each, known in self._nonces.items() if each >= step - self.lookback}
        self._nonces[step] = nonce
        form = self._recurrence
        needed = {each for each in (*form.earlier(step), *form.writers(step)) if each >= 0}
        missing = sorted(needed - self._nonces.keys())
        if missing and not isinstance(form, ExactDelays):
            raise RuntimeError(f"the nonce of step {missing[0]} is missing, whose draw or dither has to be made again")
        known = needed.intersection(self._nonces)
        keys = keys_of(form, step, {each: exact_draws.step_key(secret, each, self._nonces[each]) for each in known})
        limits = form.limits(step, list(self._largest)[:step])
        found = np.empty(self.size)

        def part(number: int) -> NDArray[np.int64]:
            target = found[self._places[number]]
            if missing:
                target[:] = math.nan
                if self.rows:
                    row = self._memories[number][-step % self.rows]
                    exact_draws.fill_normals(keys.draws[0], self._parts[number], row)
                return np.empty(0, np.int64)
            places = np.empty(target.size, np.int64)
            count = self._approximate(step, keys, limits, number, target, places)
            return places[:count] + self._places[number].start

        places = np.concatenate([np.empty(0, np.int64), *self._each(part)])
        self._held.update({row: key for key, row in keys.read + keys.wrote})
        self._steps += not missing
        share = 2 * float(limits.sum()) + len(form.earlier(step)) * _EXTREME_SHARE
        self._expected += 0.0 if missing else min(1.0, share)
        if places.size:
            self._refine(step, keys, places, found)
        if isinstance(form, ExactSubstitution) and self.rows:
            for place, memory in zip(self._places, self._memories, strict=True):
                memory[step % self.rows] = found[place]
            self._largest.appendleft(float(np.abs(found).max(initial=0.0)))
        return found

    def _approximate(
        self, step: int, keys: Keys, limits: Array, number: int, x: Array, places: NDArray[np.int64]
    ) -> int:
        """Fill a part with integers by floats, and list the open places; their number."""
        form, spans, memory, bits = self._recurrence, self._parts[number], self._memories[number], self._bits[number]
        factor = form.factor(step)
        if isinstance(form, ExactDelays) and self._replays:
            memory = np.empty((len(keys.draws), x.size))
            for key, row in zip(keys.draws, memory, strict=True):
                exact_draws.fill_normals(key, spans, row)
            x[:] = memory[0]
            return int(run_delays(x, memory, 0, form.weights(step), limits[0], factor, places))
        exact_draws.fill_normals(keys.draws[0], spans, x)
        if isinstance(form, ExactDelays):
            newest = -step % self.rows
            memory[newest] = x
            return int(run_delays(x, memory, newest, form.weights(step), limits[0], factor, places))
        if isinstance(form, ExactSubstitution):
            return int(run_substitution(x, memory, step, form.entries(step), limits[0], factor, places))
        for writer in keys.read:
            if self._held.get(writer[1]) != writer[0]:
                bits[writer[1]] = exact_draws.dither_bits([writer], spans)[0]
        own = exact_draws.dither_bits(keys.wrote, spans)
        if isinstance(form, ExactTree):
            count = _run_tree(form, step, bits, own[0], memory, x, limits, places)
            bits[form.height(step)] = own[0]
            return count
        assert isinstance(form, ExactCascade | ExactBuffers)
        if isinstance(form, ExactBuffers):
            for key, replay in zip(keys.draws[1:], form.replays(step), strict=True):
                past = np.empty(x.size)
                exact_draws.fill_normals(key, spans, past)
                x += replay * past
        if (gamma := form.gamma(step)) != 1.0:
            x *= gamma
        cascade = isinstance(form, ExactCascade)
        count = int(run_rows(x, memory, bits, own, cascade, form.numbers(step), limits, factor, places))
        bits[:] = own
        return count

    # -- open places ---------------------------------------------------------------------------------------------------

    def _refine(self, step: int, keys: Keys, places: NDArray[np.int64], found: Array) -> None:
        """The integers of open places, in pairs of floats and then in balls, and the rows that they write."""
        form = self._recurrence
        self.opened += places.size
        starts = self.spans[:, 1].cumsum() - self.spans[:, 1]
        span = np.searchsorted(starts, places, side="right") - 1
        coordinates = (self.spans[span, 0] + places - starts[span]).astype(np.uint64)
        parts, columns = np.divmod(places, self._places[0].stop)
        known = np.empty((self.rows if not isinstance(form, ExactDelays) else 0, places.size))
        for part in np.unique(parts):
            here = parts == part
            known[:, here] = self._memories[part][: len(known), columns[here]]
        if isinstance(form, ExactSubstitution):
            known = known[(step - 1 - np.arange(min(step, form.depth))) % max(self.rows, 1)]
        limits = form.limits(step, list(self._largest)[:step], pairs=True)
        numbers = np.array(paired_integers(form, step, keys, coordinates, known, limits))
        for j in np.flatnonzero(np.isnan(numbers).any(axis=0)):
            numbers[:, j] = ball_integers(form, step, keys, int(coordinates[j]), known[:, j].tolist())
        if (np.abs(numbers[0]) >= LARGEST_INTEGER).any() or (np.abs(numbers[1:]) >= LARGEST_ROW).any():
            raise RuntimeError("noise must be within the range of its integers, got a number beyond 30 deviations")
        found[places] = numbers[0]
        wrote = form.writes(step)
        for part in np.unique(parts) if wrote else ():
            here = parts == part
            self._memories[part][wrote.start : wrote.stop, columns[here]] = numbers[1:, here]

    def noisy(self, total: NDArray[Any], noise: Array, grid: Grid | None, *, on_grid: bool) -> NDArray[Any]:
        """The release h (S + n)."""
        assert grid is not None
        return released_integers(total, noise, grid)


def _run_tree(
    form: ExactTree,
    step: int,
    before: NDArray[np.uint16],
    own: NDArray[np.uint16],
    memory: NDArray[Any],
    x: Array,
    limits: Array,
    places: NDArray[np.int64],
) -> int:
    """Turn the draws of a step of a tree into integers, and write its row; the number of open places."""
    height = form.height(step)
    states = np.empty((height, x.size))
    x *= form.noise.draws[height]
    estimates, left = form.weights(height)
    for row, weight in enumerate(estimates):
        _read(memory[row], before[row], form.read_units(step)[row], states[row])
        x += weight * states[row]
    open_places = np.zeros(x.size, np.int64)
    _write(x / form.units(step), own, limits[1], memory[height], open_places)
    for state, weight in zip(states, left, strict=True):
        x -= weight * state
    _rounded(x, form.factor(step), limits[0], open_places)
    return int(_listed(open_places, 0, places, 0))


class Keys(NamedTuple):
    """The keys of the draws that a step needs, its own first, and of the dithers of rows that it reads and writes.

    The dithers of a row that was never written have no key.
    """

    draws: list[bytes]
    read: list[tuple[bytes, int]]
    wrote: list[tuple[bytes, int]]


def keys_of(form: Recurrence, step: int, keys: Mapping[int, bytes]) -> Keys:
    """The keys of a step, from the keys of all steps that it needs; other ones are left out."""
    draws = [keys[each] for each in form.earlier(step) if each in keys]
    read = [(keys[writer], row) for row, writer in enumerate(form.writers(step)) if writer >= 0]
    return Keys(draws, read, [(keys[step], row) for row in form.writes(step)])


def paired_integers(
    form: Recurrence, step: int, keys: Keys, coordinates: NDArray[np.uint64], known: Array, limits: Array
) -> list[Array]:
    """The integers of a step for several coordinates, NaN where pairs of floats leave them open.

    ``known`` are the integers of the memory, shape (rows, coordinates).
    """
    kind = Pairs(coordinates.size)
    draws = [Pair(*exact_draws.paired_normals(key, coordinates)) for key in keys.draws]
    read, wrote = (
        [Pair(*exact_draws.paired_dither(key, row, coordinates)) for key, row in rows]
        for rows in (keys.read, keys.wrote)
    )
    found: list[Array] = form.rounded(kind, step, draws, form.remembered(kind, step, known, read), wrote, limits)
    return found


def ball_integers(form: Recurrence, step: int, keys: Keys, coordinate: int, known: Sequence[float]) -> list[int]:
    """The integers of a step for one coordinate: their definition."""
    kind = Balls()
    for words in _BALL_WORDS:
        with ctx.workprec(64 * words + 64):
            draws = [exact_draws.normal_ball(key, coordinate, words) for key in keys.draws]
            read, wrote = (
                [exact_draws.dither_ball(key, row, coordinate, words) for key, row in rows]
                for rows in (keys.read, keys.wrote)
            )
            memory = form.remembered(kind, step, known, read)
            found = form.rounded(kind, step, draws, memory, wrote, [0.0] * (1 + len(wrote)))
        if None not in found:
            return found
    raise RuntimeError(f"noise of step {step} must be decided by {_BALL_WORDS[-1]} words of 64 bits")


def integers(
    program: Program,
    secret: Key,
    *,
    scale: float,
    unit: float,
    coordinates: Sequence[int],
    steps: int,
    nonces: Sequence[bytes] | None = None,
) -> NDArray[np.int64]:
    """The integers of the noise of a program in balls of Arb alone, shape (steps, coordinates): their definition.

    It takes about a millisecond for each integer.
    """
    form = recurrence(program, scale, unit)
    of_steps = [b""] * steps if nonces is None else nonces
    made = {step: exact_draws.step_key(secret, step, nonce) for step, nonce in zip(range(steps), of_steps, strict=True)}
    found = np.empty((steps, len(coordinates)), np.int64)
    for column, coordinate in enumerate(coordinates):
        known: list[Any] = [0] * form.dithered
        for step in range(steps):
            number, *rows = ball_integers(form, step, keys_of(form, step, made), coordinate, known)
            found[step, column] = number
            for row, value in zip(form.writes(step), rows, strict=True):
                known[row] = value
            known = known if form.dithered else [number, *known][: form.depth]
    return found
