"""Audits of loops that draw their own batches.

The loop gets a data set, ``data[step][batch]``, and takes the batches that it draws from it, so that the auditor sees
the examples of each batch.  Two claims are then tested apart: that the batches have the law of their sampling
(``theory.auditing.sampling``), and that for somebody who knows them the loop is one Gaussian mechanism.  For the second
each example is a canary, there or with a gradient of zero by the toss of a coin, which is seen by the filter of its own
steps.  Less the claimed difference, the scores are independent and N(0, 1).

In further runs the data set has so few examples that batches have two on average.  Of a batch of two or more, one is
the opponent and another a canary by a coin, as in ``few``; an empty batch must have noise as any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from corrnoise.simulations.auditing.few import EXCESS_OF_CANARY, EXCESS_OF_OPPONENT, coins_of
from corrnoise.simulations.auditing.layout import TOGETHER, AuditLayout
from corrnoise.simulations.auditing.loops import EndedError, Pool, released
from corrnoise.simulations.auditing.plan import AuditPlan, Whitening
from corrnoise.simulations.auditing.statistics import about_coordinates, about_noise
from corrnoise.theory.auditing import canaries as seen
from corrnoise.theory.auditing import noise_tests, sampling
from corrnoise.theory.auditing.evidence import Evidence, evidence
from corrnoise.theory.auditing.findings import SAMPLED_TESTS
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

_CANARY_DECADES = 1.0, 17.0  # of lengths in clipping norms, before the loop clips them; their squares fit in float32
_CLIP_MARGIN = 1e-3  # of the clipping norm: clipping to slightly less is as claimed
_MAX_FEW_RUNS = 150
_FEW_EXAMPLES = 2.0  # examples of a batch of the runs with few


@record
class SampledEvidence(Record):
    """The evidence from runs of a sampled loop: by test, a lower bound of μ and μ, runs with few examples."""

    evidence: dict[str, Evidence]
    lower: float
    mu: float
    lone_runs: int
    skipped: int


def sampled_evidence(
    loop: Any,
    plan: AuditPlan,
    layout: AuditLayout,
    runs: int,
    crashes: tuple[int, ...],
    level: float,
    random: np.random.Generator,
) -> SampledEvidence:
    """Run a loop that draws its batches, and test its draws and its releases; arguments as for ``audit``."""
    steps = plan.who.length
    each = level / len(SAMPLED_TESTS)
    coins = coins_of(runs, layout.canaries, random)
    lengths = plan.budget.clip_norm * 10 ** random.uniform(*_CANARY_DECADES, layout.groups)
    made, pools = [], []
    for run, row in enumerate(coins):
        pool, probe = (_crowd(there, lengths, plan, layout) for there in (row, ~row))
        made.append(released(loop, pool, run, crashes, probe))
        pools.append(pool)
    present = np.array(sorted(set.intersection(*map(set, made))), dtype=np.intp)
    if 2 * present.size < steps:
        raise EndedError("could not be audited", f"the loop released {present.size} of {steps} steps in all runs")
    taken = np.array([pool.taken[present] for pool in pools])
    assert isinstance(plan.program.participation, sampling.TestedSampler)
    found = sampling.batches(plan.program.participation, taken, present)
    whitening = Whitening(plan, present)
    releases = np.array([[one[step] for step in present.tolist()] for one in made])
    raw = releases / plan.scale
    white = whitening.of_runs(raw)
    idle = releases[:, :, layout.canaries :]
    found |= dict(about_noise(plan, whitening, idle, layout.idle_places, main_runs=runs))
    columns = white[:, :, layout.canaries :].reshape(-1, plan.idle)
    size = found["noise of all coordinates, near 0"].statistic
    energies, freedom = (columns**2).sum(axis=0), np.full(plan.idle, float(len(columns)))
    found |= about_coordinates(energies, freedom, layout.idle_places, columns, layout.idle_places, size)
    if found["noise of all coordinates, near 0"].p <= each:
        return SampledEvidence(found, 0.0, 0.0, 0, steps - present.size)
    lower, mu = _canaries(plan, whitening, layout, white, taken, coins, each, found)
    few = AuditLayout(TOGETHER * -(-steps // TOGETHER), plan.idle)
    lone_runs = _few(loop, plan, few, each, random, found)
    return SampledEvidence(found, lower, mu, lone_runs, steps - present.size)


def _crowd(coins: NDArray[np.bool_], lengths: Array, plan: AuditPlan, layout: AuditLayout) -> Pool:
    """A data set of canaries, there or not by their coins, with a length of each group that shares coordinates."""

    def rule(_: int, numbers: NDArray[np.intp]) -> Array:
        return layout.gradients(numbers, coins[numbers] * lengths[layout.group(numbers)])

    return Pool(plan.who.length, layout.canaries, rule, layout)


def _canaries(
    plan: AuditPlan,
    whitening: Whitening,
    layout: AuditLayout,
    white: Array,
    taken: NDArray[np.bool_],
    coins: NDArray[np.bool_],
    each: float,
    found: dict[str, Evidence],
) -> tuple[float, float]:
    """The tests of canaries, each under the filter of its own steps; the lower bound of μ, and μ."""
    canaries = layout.canaries
    signals = whitening.of_runs(plan.distance * taken.astype(float))
    norms = np.linalg.norm(signals, axis=1)
    seen_once = norms > 0
    units = signals / np.where(seen_once, norms, 1.0)[:, np.newaxis]
    along = layout.scores(white[:, :, :canaries])
    scores = (units * along).sum(axis=1)
    width = min(plan.idle, canaries)
    quiet = (units[:, :, :width] * white[:, :, canaries : canaries + width]).sum(axis=1)[seen_once[:, :width]]
    noise = seen.spread(quiet[np.newaxis])
    inside, outside = scores[coins & seen_once], scores[~coins & seen_once]
    expected = norms[coins & seen_once]
    mu = float(expected.mean()) if expected.size else 0.0
    found["canaries, matched filter"] = seen.separation(inside, outside, noise, mu)
    found["canaries, largest score"] = seen.largest_score(inside - expected, outside, noise, 0.0)

    rest = along - np.where(coins, 1.0, 0.0)[:, np.newaxis] * signals
    there = coins[:, np.newaxis]
    found["gradients of canaries"] = _along(rest, signals * there, signals * there)
    absent = along.transpose(1, 0, 2)[:, ~coins]
    found["trace of absent canaries"] = seen.trace_of_absent(absent.mean(axis=1), absent.shape[1], whitening.drift)
    return seen.separation_lower_bound(inside, outside, noise, each), mu


def _along(rest: Array, direction: Array, signals: Array) -> Evidence:
    """White noise along a direction, two-sided, up to the margin of clipping."""
    norm = float(np.linalg.norm(direction))
    if not norm:
        return evidence(0.0, 1.0)
    score = float((rest * direction).sum()) / norm
    margin = _CLIP_MARGIN * abs(float((signals * direction).sum())) / norm
    return evidence(score, 2 * ndtr(-max(0.0, abs(score) - margin)))


def _few(
    loop: Any,
    plan: AuditPlan,
    layout: AuditLayout,
    each: float,
    random: np.random.Generator,
    found: dict[str, Evidence],
) -> int:
    """Runs with few examples: lone pairs, and noise of batches that are small or empty; the number of runs."""
    steps = plan.who.length
    expected = plan.program.participation
    assert isinstance(expected, sampling.TestedSampler)
    examples = max(2, round(_FEW_EXAMPLES / expected.sampling_rate))
    mean_size = expected.mean_batch(examples)
    whitening = Whitening(plan, np.arange(steps))
    strengths = plan.distance * np.linalg.norm(whitening.matrix, axis=0)
    filters = whitening.matrix * plan.distance / strengths
    strength = float(strengths.mean())
    needed = seen.canaries_needed(strength, 2 * strength, runs=2, idle=plan.idle, level=each)
    runs = min(2 * -(-2 * needed // steps), _MAX_FEW_RUNS)
    coins = coins_of(runs, steps, random)
    pools = [_Pairs(row, examples, plan, layout) for row in coins]
    scores = np.empty((runs, steps))
    idle = np.empty((runs, steps, plan.idle))
    for run, pool in enumerate(pools):
        made = released(loop, pool, run)
        if len(made) < steps:
            raise EndedError("could not be audited", f"the loop released {len(made)} of {steps} steps")
        raw = np.array([made[step] for step in range(steps)]) / plan.scale
        idle[run] = raw[:, layout.canaries :]
        scores[run] = (filters * whitening(layout.scores(raw[:, : layout.canaries])[:, :steps])).sum(axis=0)
    noise = seen.spread(whitening.of_runs(idle).reshape(runs * steps, -1))
    below, above = noise_tests.variance(noise.freedom * noise.size**2, noise.freedom)
    found["variance of lone runs, below"], found["variance of lone runs, above"] = below, above
    found["noise of a step of few examples, near 0"] = noise_tests.step_without_noise(idle, whitening.covariance)
    paired = np.array([pool.canary >= 0 for pool in pools])
    apart = np.broadcast_to(strengths, coins.shape)[paired & ~coins]
    if apart.size:
        inside, outside = scores[paired & coins], scores[paired & ~coins]
        found["lone pairs"] = seen.separation(inside, outside, noise, float(apart.mean()))
    signals = strengths * ((paired & coins).astype(float) - np.array([pool.opponent >= 0 for pool in pools]))
    sizes = np.maximum([pool.taken.sum(axis=1) for pool in pools], 1)
    found["division by the size of the batch"] = _along(scores - signals, signals * (mean_size / sizes - 1), signals)
    return runs


class _Pairs(Pool):
    """A data set of few examples: of each batch one is an opponent and another a canary by a coin."""

    def __init__(self, coins: NDArray[np.bool_], examples: int, plan: AuditPlan, layout: AuditLayout) -> None:
        super().__init__(coins.size, examples, self._gradients, layout)
        self._lengths = plan.budget.clip_norm * np.where(coins, EXCESS_OF_CANARY, 0.0)
        self._opposite = -plan.budget.clip_norm * EXCESS_OF_OPPONENT
        self.opponent = np.full(coins.size, -1)
        self.canary = np.full(coins.size, -1)

    def _gradients(self, step: int, numbers: NDArray[np.intp]) -> Array:
        if self.opponent[step] < 0 and numbers.size:
            self.opponent[step], self.canary[step] = numbers[0], [*numbers[:2], -1][1]
        lengths = np.where(numbers == self.canary[step], self._lengths[step], 0.0)
        lengths[numbers == self.opponent[step]] = self._opposite
        return self.layout.gradients(np.full(numbers.size, step), lengths)
