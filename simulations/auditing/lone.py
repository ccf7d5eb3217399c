"""Lone pairs: runs that show whether a loop clips each example, or the sum of a batch.

A loop that clips the sum has twice the sensitivity, and canaries in a crowd look more private there.  So each batch
holds an opponent and, by a coin, a canary of the opposite sign.  Clipped one by one the sums are 0 with the canary and
−G without: distance G.  Clipped as a whole they are G and −G: distance 2G.  Every second run has the coins of the run
before it, turned over, so that the means of pairs at different steps cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.layout import AuditLayout
from corrnoise.simulations.auditing.loops import AuditGradients, EndedError, released
from corrnoise.simulations.auditing.plan import AuditPlan, Whitening, disjoint_patterns
from corrnoise.theory.auditing import canaries as seen
from corrnoise.theory.auditing.findings import TESTS
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

EXCESS_OF_OPPONENT = 16.0  # times the clipping norm
EXCESS_OF_CANARY = 64.0
_BATCH_FACTOR = 2.0  # of the sensitivity, for a batch that is clipped as a whole
MOST_RUNS = 150


def coins_of(runs: int, number: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Fair coins; every second run has the coins of the run before it, turned over."""
    coins = random.integers(2, size=(runs, number)).astype(bool)
    coins[1::2] = ~coins[0 : 2 * (runs // 2) : 2]
    return coins


@record
class Lone(Record):
    """Scores of lone pairs with and without the canary, and idle scores under the same filters, (groups, each)."""

    inside: Array
    outside: Array
    idle: Array
    runs: int


def lone_scores(
    loop: Any, plan: AuditPlan, layout: AuditLayout, level: float, random: np.random.Generator
) -> Lone | None:
    """Runs where each batch holds an opponent and, by a coin, a canary of the opposite sign; zero-out alone.

    Clipped one by one the sums are 0 with the canary and −G without.  Clipped as a whole they are G and −G.
    """
    if plan.budget.adjacency == "replace-one":
        return None
    patterns = disjoint_patterns(plan.who)[: min(layout.canaries, plan.idle // 2)]
    pairs = len(patterns)
    each = plan.idle // pairs
    whitening = Whitening(plan, np.arange(plan.who.length))
    signals = np.array([whitening.of(pattern) for pattern in patterns])
    needed = seen.canaries_needed(
        plan.mu,
        _BATCH_FACTOR * float(np.linalg.norm(signals, axis=1).mean()),
        runs=2,
        idle=pairs * each,
        level=level / len(TESTS),
    )
    runs = min(2 * -(-needed // pairs), MOST_RUNS)
    filters = signals / np.linalg.norm(signals, axis=1, keepdims=True) @ whitening.matrix / plan.scale
    coins = coins_of(runs, pairs, random)
    scores = np.empty((runs, pairs))
    idle = np.empty((runs, pairs, each))
    for run, row in enumerate(coins):
        gradients = _lone(row, patterns, plan, layout)
        found = released(loop, gradients, run)
        if len(found) < plan.who.length:
            raise EndedError("could not be audited", f"the loop released {len(found)} of {plan.who.length} steps")
        releases = np.array([found[step] for step in range(plan.who.length)])
        along = layout.scores(releases[:, : layout.canaries])[:, :pairs]
        scores[run] = np.einsum("pt,tp->p", filters, along)
        quiet = releases[:, layout.canaries :][:, : pairs * each].reshape(-1, pairs, each)
        idle[run] = np.einsum("pt,tpk->pk", filters, quiet)
    return Lone(scores[coins], scores[~coins], idle.reshape(-1, each), runs)


def _lone(
    coins: NDArray[np.bool_], patterns: list[NDArray[np.intp]], plan: AuditPlan, layout: AuditLayout
) -> AuditGradients:
    norm = plan.budget.clip_norm
    rows = [(np.zeros(0, dtype=np.intp), np.zeros(0))] * plan.who.length
    for canary, (there, steps) in enumerate(zip(coins, patterns, strict=True)):
        examples = np.full(1 + int(there) * plan.who.members, canary)
        lengths = np.where(np.arange(examples.size) == 0, -EXCESS_OF_OPPONENT, EXCESS_OF_CANARY) * norm
        for step in steps.tolist():
            rows[step] = examples, lengths
    return AuditGradients(rows, layout)
