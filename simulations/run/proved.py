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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import ctx
from numpy.typing import NDArray

from corrnoise.simulations.run import exact_draws
from corrnoise.simulations.run.engines import Memory
from corrnoise.simulations.run.exact_kernels import run_delays, run_rows, run_substitution, run_tree
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
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_EXTREME_SHARE = 2.0**-18 + 2.0**-30  # of draws, whose words floats do not take
_MOST_NUMBERS = 2.0**70  # of a run
_ENDLESS_STEPS = 2**40  # steps, in place of any number
_BALL_WORDS = (3, 4, 6, 8, 12, 16)  # of 64 bits, of a draw


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

        decided = self._by_floats(step, keys, limits)
        ready = self._taken((secret, step, nonce))

        def part(number: int) -> NDArray[np.int64]:
            target = found[self._places[number]]
            if missing:
                target[:] = math.nan
                if self.rows:
                    row = self._memories[number][-step % self.rows]
                    exact_draws.fill_normals(keys.draws[0], self._parts[number], row)
                return np.empty(0, np.int64)
            if ready is None:
                bits = self._draw(keys.draws[0], keys.wrote, number, target)
            else:
                target[:], bits = ready[number].result()
            places = np.empty(target.size, np.int64)
            return places[: decided(number, target, bits, places)] + self._places[number].start

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

    def _draw(self, key: bytes, wrote: list[tuple[bytes, int]], number: int, x: Array) -> NDArray[np.uint16]:
        """Fill with the normals of a part; the first bits of the dithers of the rows that the step writes."""
        exact_draws.fill_normals(key, self._parts[number], x)
        return exact_draws.dither_bits(wrote, self._parts[number])

    def prefetch(self, secret: Key, step: int, nonce: bytes, *, wide: bool = False) -> None:
        """Begin to draw the normals and dithers of a step; draws that are made again are not among them."""
        if self._replays:
            return
        key = exact_draws.step_key(secret, step, nonce)
        wrote = [(key, row) for row in self._recurrence.writes(step)]

        def part(number: int) -> tuple[Array, NDArray[np.uint16]]:
            x = np.empty(self._places[number].stop - self._places[number].start)
            return x, self._draw(key, wrote, number, x)

        self._begin((secret, step, nonce), part)

    def _by_floats(self, step: int, keys: Keys, limits: Array) -> Callable[..., int]:
        """A function of a part, its normals and first bits of dithers, and places.

        It turns the normals into integers, as far as floats decide them, lists the open places and returns their
        number.
        """
        form, factor = self._recurrence, self._recurrence.factor(step)
        if isinstance(form, ExactDelays):
            weights = form.weights(step)

            def delays(number: int, x: Array, bits: NDArray[np.uint16], places: NDArray[np.int64]) -> int:
                memory, newest = self._memories[number], 0 if self._replays else -step % self.rows
                if self._replays:
                    memory = np.empty((len(keys.draws), x.size))
                    for key, row in zip(keys.draws[1:], memory[1:], strict=True):
                        exact_draws.fill_normals(key, self._parts[number], row)
                else:
                    memory[newest] = x
                return int(run_delays(x, memory, newest, weights, limits[0], factor, places))

            return delays
        if isinstance(form, ExactSubstitution):
            entries = form.entries(step)
            return lambda number, x, bits, places: int(
                run_substitution(x, self._memories[number], step, entries, limits[0], factor, places)
            )
        return self._by_rows(step, keys, limits)

    def _by_rows(self, step: int, keys: Keys, limits: Array) -> Callable[..., int]:
        """The same for noise from rows with dithers."""
        form, factor = self._recurrence, self._recurrence.factor(step)

        def held(number: int) -> NDArray[np.uint16]:
            """The first bits of the dithers of the rows of a part, as the steps that wrote them had them."""
            for writer in keys.read:
                if self._held.get(writer[1]) != writer[0]:
                    self._bits[number][writer[1]] = exact_draws.dither_bits([writer], self._parts[number])[0]
            return self._bits[number]

        if isinstance(form, ExactTree):
            height = form.height(step)
            weights, units = np.array(form.weights(height)), np.append(form.read_units(step), form.units(step))

            def tree(number: int, x: Array, bits: NDArray[np.uint16], places: NDArray[np.int64]) -> int:
                draw, memory = form.noise.draws[height], self._memories[number]
                count = run_tree(x, memory, held(number), bits, draw, weights, units, limits, factor, places)
                self._bits[number][height] = bits[0]
                return int(count)

            return tree
        assert isinstance(form, ExactCascade | ExactBuffers)
        cascade, numbers, gamma = isinstance(form, ExactCascade), form.numbers(step), form.gamma(step)
        replays = [] if isinstance(form, ExactCascade) else form.replays(step)

        def rows(number: int, x: Array, bits: NDArray[np.uint16], places: NDArray[np.int64]) -> int:
            for key, replay in zip(keys.draws[1:], replays, strict=True):
                past = np.empty(x.size)
                exact_draws.fill_normals(key, self._parts[number], past)
                x += replay * past
            if gamma != 1.0:
                x *= gamma
            memory = self._memories[number]
            count = run_rows(x, memory, held(number), bits, cascade, numbers, limits, factor, places)
            self._bits[number] = bits
            return int(count)

        return rows

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
    draws = [Pair(*each) for each in exact_draws.paired_normals(keys.draws, coordinates)]
    dithers = [Pair(*each) for each in exact_draws.paired_dithers(keys.read + keys.wrote, coordinates)]
    read, wrote = dithers[: len(keys.read)], dithers[len(keys.read) :]
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
