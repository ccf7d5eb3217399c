"""Runs with few examples: faults that a crowd hides.

Each step of these runs has one of three batches; a coin decides about one example, and every second run has the coins
of the run before it, turned over.

* *Lone pair* (zero-out): an opponent and, by the coin, a canary of the opposite sign.  Clipped one by one the sums are
  0 with the canary and −G without: distance G.  Clipped as a whole they are G and −G: distance 2G.
* *Alone*: one example, by the coin, or an empty batch.  A sum that is divided by the number of examples shows it.
* *Crowd*: 64 short examples, 16 long ones in another direction and, by the coin, a giant in a third.  The giant must
  not change the contribution of the others.

The first two runs have the same data: noise whose seed comes from the data is used again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.layout import AuditLayout
from corrnoise.simulations.auditing.loops import AuditGradients, EndedError, released
from corrnoise.simulations.auditing.plan import AuditPlan, Whitening
from corrnoise.theory.auditing import canaries as seen
from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.numerics.checks import Array

EXCESS_OF_OPPONENT = 16.0  # times the clipping norm
EXCESS_OF_CANARY = 64.0
_LENGTH_ALONE = 16.0
_SHORT, _SHORT_LENGTH = 64, 0.3
_LONG, _LONG_LENGTH = 16, 3.0
_GIANT_LENGTH = 1e4
_CROWD, _ALONE, _LONE = range(3)
_SCHEDULE = np.array([_CROWD, _ALONE, _LONE, _ALONE, _LONE, _ALONE, _LONE, _LONE])
_DIRECTIONS = 3  # of a phase
_FEWEST_RUNS, _MAX_FEW_RUNS = 16, 80
_MAX_NUMBERS = 2**25  # of all releases together


def coins_of(runs: int, number: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Fair coins; every second run has the coins of the run before it, turned over."""
    coins = random.integers(2, size=(runs, number)).astype(bool)
    coins[1::2] = ~coins[0 : 2 * (runs // 2) : 2]
    return coins


def few_runs(plan: AuditPlan, factor: float, level: float) -> int:
    """As many runs as find a factor in single examples, at least 16 if the memory holds them; an even number."""
    needed = seen.canaries_needed(plan.mu, factor * plan.mu, runs=2, idle=plan.idle, level=level)
    most = max(4, min(_MAX_FEW_RUNS, _MAX_NUMBERS // (plan.who.length * 2 * plan.idle)))
    return 2 * (min(most, max(_FEWEST_RUNS, -(-4 * needed // len(plan.phases)))) // 2)


class FewExamples:
    """The runs with few examples, and their releases in units of the claimed noise, shape (runs, steps, size)."""

    def __init__(
        self, loop: object, plan: AuditPlan, layout: AuditLayout, runs: int, random: np.random.Generator
    ) -> None:
        self._plan, self.layout = plan, layout
        self._phases = plan.phases[: min(layout.canaries // _DIRECTIONS, plan.idle // 2)]
        number = len(self._phases)
        self.runs = runs
        self.coins = coins_of(self.runs, number, random)
        self.coins[1] = self.coins[0]
        pairs = np.arange(self.runs)[:, np.newaxis] // 2
        self.kinds = _SCHEDULE[(pairs + np.arange(number)) % _SCHEDULE.size]
        if plan.budget.adjacency == "replace-one":
            self.kinds[:] = _CROWD
        made = np.empty((self.runs, plan.who.length, layout.size))
        for run in range(self.runs):
            found = released(loop, self._gradients(run), run + 2)
            if len(found) < plan.who.length:
                raise EndedError("could not be audited", f"the loop released {len(found)} of {plan.who.length} steps")
            made[run] = [found[step] for step in range(plan.who.length)]
        self.releases = made

    def _gradients(self, run: int) -> AuditGradients:
        norm, members = self._plan.budget.clip_norm, self._plan.who.members
        rows = [(np.zeros(0, dtype=np.intp), np.zeros(0))] * self._plan.who.length
        for phase, steps in enumerate(self._phases):
            examples, lengths = self._batch(int(self.kinds[run, phase]), bool(self.coins[run, phase]), members)
            for step in steps.tolist():
                rows[step] = _DIRECTIONS * phase + examples, lengths * norm
        return AuditGradients(rows, self.layout)

    def _batch(self, kind: int, there: bool, members: int) -> tuple[NDArray[np.intp], Array]:
        """The directions and lengths of a batch."""
        times = members if there else 0
        if kind == _LONE:
            lengths = np.append(-EXCESS_OF_OPPONENT, np.full(times, EXCESS_OF_CANARY))
            return np.zeros(lengths.size, dtype=np.intp), lengths
        if kind == _ALONE:
            return np.zeros(times, dtype=np.intp), np.full(times, _LENGTH_ALONE)
        giants = np.full(times, _GIANT_LENGTH)
        if self._plan.budget.adjacency == "replace-one":
            giants = np.full(members, _GIANT_LENGTH if there else -_GIANT_LENGTH)
        lengths = np.concatenate([np.full(_SHORT, _SHORT_LENGTH), np.full(_LONG, _LONG_LENGTH), giants])
        return np.repeat(np.arange(_DIRECTIONS), [_SHORT, _LONG, giants.size]), lengths

    @property
    def unused(self) -> NDArray[np.intp]:
        """Coordinates without a gradient in all of these runs, in the order of the layout."""
        used = self.layout.group(np.arange(_DIRECTIONS * len(self._phases)))
        taken = (used + self.layout.groups * np.arange(4)[:, np.newaxis]).ravel()
        return np.setdiff1d(np.arange(self.layout.size), taken)

    def tests(self, whitening: Whitening, raw: Array, found: dict[str, Evidence], each: float) -> float:
        """The tests of these runs, from the raw releases of the steps that were released; a lower bound of μ."""
        plan, number = self._plan, len(self._phases)
        signals = np.array([whitening.of(steps) for steps in self._phases])
        units = signals / np.maximum(np.linalg.norm(signals, axis=1), 1e-300)[:, np.newaxis]
        filters = units @ whitening.matrix
        along = self.layout.scores(raw[:, :, : self.layout.canaries])[:, :, : _DIRECTIONS * number]
        scores = np.einsum("pt,rtpk->rpk", filters, along.reshape(*along.shape[:2], number, _DIRECTIONS))
        width = plan.idle // number
        quiet = raw[:, :, self.layout.canaries :][:, :, : width * number].reshape(*raw.shape[:2], number, width)
        noise = seen.spread(np.einsum("pt,rtpk->rpk", filters, quiet).reshape(-1, width))
        paired = np.arange(self.runs)[:, np.newaxis] >= 2
        lower = [0.0]
        for kind, name in ((_ALONE, "alone"), (_LONE, "lone pairs")):
            chosen = (self.kinds == kind) & paired
            inside, outside = scores[chosen & self.coins, 0], scores[chosen & ~self.coins, 0]
            if inside.size:
                found[name] = seen.separation(inside, outside, noise, plan.mu)
                lower.append(seen.separation_lower_bound(inside, outside, noise, each))
        changes = (scores[2::2] - scores[3::2]) * np.where(self.coins[2::2], 1, -1)[:, :, np.newaxis]
        crowds = self.kinds[2::2] == _CROWD
        for direction, name in enumerate(("influence, short", "influence, long")):
            found[name] = seen.influence(changes[crowds, direction], noise, plan.mu)
        return max(lower)
