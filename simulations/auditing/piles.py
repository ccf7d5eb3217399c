"""Piles: canaries of many examples, of all lengths, at all phases of a run, and at all places of the vector.

A pile has 16 examples with one direction, which the loop clips one by one.  It is in the steps of one *phase*, a
pattern of the participation, by a fair coin in the first run, and by the coin turned over in the second.  In one
batch the examples of a pile together move the release by 16 times as much as one example may.  So a pile finds a
fault of its own length, phase and place, and the sum over piles a small fault of all.

Lengths are log-uniform in one of 13 bins, from 1e-6 to 1e20 clipping norms.  The four piles that share coordinates have
the same bin and phase, because the rounding errors of a length that was not clipped hide the others.  Bins and phases
are dealt to these groups by a random permutation, so that a fault of a place does not look like a fault of a length.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.layout import TOGETHER, AuditLayout
from corrnoise.simulations.auditing.loops import AuditGradients
from corrnoise.simulations.auditing.plan import AuditPlan, Whitening
from corrnoise.theory.auditing import canaries as seen
from corrnoise.theory.auditing import noise_tests
from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.numerics.checks import Array

MEMBERS = 16  #: examples of a pile
LENGTH_BINS = 13  #: of two decades each
FIRST_LONG_BIN = 3  #: the bin that begins at the clipping norm
OVERFLOW_BIN = 12  #: the bin that begins at 1e18: squares of such lengths overflow in float32
_LEAST_DECADE = -6
_LARGEST_LENGTH = 1e30
_LEAST_PILES = 312
_LARGEST_SCORE = 1e6  # of a pile or coordinate, so that the rounding errors of others are small
_CROSSED_PHASES = 25  # at most, so that each bin is in each phase
_LARGEST_SIGNALS = 0.99  # of the largest signal of a phase: the phases that show the claimed μ


def piles_for(plan: AuditPlan, long_piles: int) -> int:
    """A number of piles with so many long ones in each phase, and each bin in each phase as often, if these are few."""
    phases = len(plan.phases)
    cells = TOGETHER * LENGTH_BINS * (phases if phases <= _CROSSED_PHASES else 1)
    wanted = max(_LEAST_PILES, long_piles * LENGTH_BINS / (OVERFLOW_BIN - FIRST_LONG_BIN) * phases)
    return cells * -int(-wanted // cells)


class Piles:
    """Piles of canaries: their bins, phases, lengths and coins."""

    def __init__(self, plan: AuditPlan, number: int, random: np.random.Generator) -> None:
        self.number = number
        self.layout = AuditLayout(number, plan.idle)
        self._plan = plan
        groups = np.arange(self.layout.groups)
        phases = len(plan.phases)
        if phases <= _CROSSED_PHASES:
            bins, dealt = groups % LENGTH_BINS, groups // LENGTH_BINS % phases
        else:
            bins, dealt = (groups + groups // phases) % LENGTH_BINS, random.permutation(phases)[groups % phases]
        order = random.permutation(groups.size)
        for end in (0, self.layout.neighbouring - 1):  # the ends of the vector have long piles
            long = np.flatnonzero((bins[order] >= FIRST_LONG_BIN) & (bins[order] < OVERFLOW_BIN))
            other = end if end in long else random.choice(long[1:-1])
            order[[end, other]] = order[[other, end]]
        of = order[self.layout.group(np.arange(number))]
        self.bins: NDArray[np.intp] = bins[of]
        self.phases: NDArray[np.intp] = dealt[of]
        decades = _LEAST_DECADE + 2 * (self.bins[:, np.newaxis] + random.random((number, MEMBERS)))
        self.lengths = np.minimum(10.0**decades, max(_LARGEST_LENGTH / plan.budget.clip_norm, 1.0))  # in clipping norms
        coins = random.random(number) < 0.5
        self.coins = np.array([coins, ~coins])
        self._random = random

    @property
    def long(self) -> NDArray[np.bool_]:
        """Piles with examples of the clipping norm or longer, whose squares float32 holds."""
        return (self.bins >= FIRST_LONG_BIN) & (self.bins < OVERFLOW_BIN)

    @cached_property
    def counted(self) -> Array:
        """How many clipping norms each pile adds to a sum, as claimed."""
        return np.minimum(self.lengths, 1.0).sum(axis=1)

    def gradients(self, run: int, *, turned: bool = False) -> AuditGradients:
        """The gradients of a run; ``turned``: of other members, for a step that comes again."""
        out = -1 if self._plan.budget.adjacency == "replace-one" else 0
        signs = np.where(self.coins[run] != turned, 1, out)
        empty = np.zeros(0, dtype=np.intp), np.zeros(0)
        rows = [empty] * self._plan.who.length
        for phase, steps in enumerate(self._plan.phases):
            there = np.flatnonzero((self.phases == phase) & (signs != 0))
            lengths = (signs[there, np.newaxis] * self.lengths[there]).ravel() * self._plan.budget.clip_norm
            order = np.repeat(self._random.permutation(lengths.size), self._plan.who.members)
            for step in steps.tolist():
                rows[step] = np.repeat(there, MEMBERS)[order], lengths[order]
        return AuditGradients(rows, self.layout)

    def broken_gradients(self) -> AuditGradients:
        """Eight piles in the first phase, whose first example of each step has a coordinate that is not a number."""
        few = np.arange(2 * TOGETHER)
        lengths = np.full(few.size, 0.5 * self._plan.budget.clip_norm)
        lengths[0] = np.nan
        rows = [(few[:0], lengths[:0])] * self._plan.who.length
        for step in self._plan.phases[0].tolist():
            rows[step] = few, lengths
        return AuditGradients(rows, self.layout)


class PileScores:
    """The scores of piles in the white releases of all runs, the two with piles first.

    ``differences`` has the white release with the pile less the white release without it, shape (steps, piles).
    ``scores`` has its product with the unit filter of the phase, and ``spreads`` the standard deviation of such a
    product for one run, from the idle coordinates of all runs.
    """

    def __init__(self, piles: Piles, plan: AuditPlan, whitening: Whitening, white: Array) -> None:
        along = piles.layout.scores(white[:2, :, : piles.number])
        self._piles = piles
        self.differences = (along[0] - along[1]) * np.where(piles.coins[0], 1.0, -1.0)
        self.sums = along[0] + along[1]
        self.absent = np.where(piles.coins[0], along[1], along[0])
        self.used = np.unique(piles.phases)
        self._patterns = [plan.phases[phase] for phase in self.used]
        self._whitening = whitening
        self._signals = np.array([whitening.of(pattern) for pattern in self._patterns])
        norms = np.linalg.norm(self._signals, axis=1)
        units = self._signals / np.maximum(norms, 1e-300)[:, np.newaxis]
        self._where = np.searchsorted(self.used, piles.phases)
        self.scores = (units[self._where].T * self.differences).sum(axis=0)
        self._centred = noise_tests.centred(white[:, :, piles.number :])
        self.freedom = len(white) * (plan.idle - 1)
        self.spreads = np.array([self._spread(unit) for unit in units])[self._where]
        self.norm = norms[self._where]  #: of the signal of one example of each pile
        self.strong = self.norm >= _LARGEST_SIGNALS * norms.max()
        self._units = units

    def noise_of_coordinates(self, white: Array) -> tuple[Array, NDArray[np.intp]]:
        """White releases of coordinates of piles less the direction of their phase, and which coordinates these are.

        Coordinates with so large sums that rounding hides the noise are left out.
        """
        coordinates = np.arange(white.shape[2])
        units = self._units[self._where[self._piles.layout.group(coordinates)]].T
        along = (units * white).sum(axis=1)
        kept = np.flatnonzero(np.abs(along).max(axis=0) < _LARGEST_SCORE)
        return white[:, :, kept] - units[:, kept] * along[:, np.newaxis, kept], kept

    def _spread(self, unit: Array) -> float:
        """The standard deviation of idle scores of one run under a filter."""
        scores = np.tensordot(unit, self._centred, axes=(0, 1))
        return max(float(np.sqrt((scores**2).sum() / self.freedom)), 1e-300)

    def learned(self, number: int, half: NDArray[np.bool_]) -> Array:
        """Standardised scores of long piles of a phase that are not in ``half``, under a filter from those in it."""
        mine = (self._where == number) & self._piles.long
        first, second = mine & half, mine & ~half
        if not (first.any() and second.any()):
            return np.zeros(0)
        mean = np.clip(self.differences[:, first], -_LARGEST_SCORE, _LARGEST_SCORE).mean(axis=1)
        unit = seen.learned_filter(mean, self._whitening.moved(self._patterns[number]))
        return np.asarray(unit @ self.differences[:, second] / (np.sqrt(2) * self._spread(unit)))

    def each_step(self, chosen: NDArray[np.bool_], counted: Array) -> Iterator[Evidence]:
        """Whether each participation of the chosen piles adds the claimed gradients."""
        for number, pattern in enumerate(self._patterns):
            mine = chosen & (self._where == number)
            if not mine.any():
                continue
            claimed = self._signals[number][:, np.newaxis] * counted[mine]
            rest = (self.differences[:, mine] - claimed).sum(axis=1) / np.sqrt(2 * mine.sum())
            expected = np.linalg.norm(claimed.sum(axis=1)) / np.sqrt(2 * mine.sum())
            for step in pattern.tolist():
                single = self._whitening.single(step)
                norm = np.linalg.norm(single)
                if norm > 0:
                    score = np.array([rest @ single / norm])
                    yield seen.sums_as_claimed(score, np.array([expected]), f"step {step + 1}")
