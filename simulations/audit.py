"""An audit of a private training loop: one verdict, its cause in plain words, and the evidence.

The auditor hands the loop gradients of a special kind.  *Canaries* are examples with orthogonal gradients that are far
longer than the clipping norm.  They are in the steps of one pattern of the run, or in none, by the toss of a fair
coin.  The loop clips, sums and adds its noise as it always does, and the auditor sees its releases.  Other
coordinates are *idle*: they show the noise alone.  In further runs a batch holds one canary and one opponent, which
shows whether batches are clipped as a whole.  A loop that can be restarted is restarted, and may skip steps but not
release one twice.

The statistics are those of ``theory.auditing``.  An audit can refute a claim and cannot prove one.  The order of the
data is not audited: the auditor chooses it.  Sampled batches are: the loop draws them (``auditing.sampled``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.layout import TOGETHER, AuditLayout
from corrnoise.simulations.auditing.lone import coins_of, lone_scores
from corrnoise.simulations.auditing.loops import (
    AuditGradients,
    EndedError,
    Release,
    Stepwise,
    released,
    stepwise,
)
from corrnoise.simulations.auditing.plan import AuditPlan, Steps, Whitening, planned
from corrnoise.simulations.auditing.sampled import sampled_evidence
from corrnoise.simulations.auditing.statistics import bounds, evidence
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.simulations.run.stream import Stream
from corrnoise.theory.auditing.canaries import canaries_needed
from corrnoise.theory.auditing.findings import SAMPLED_TESTS, TESTS, Audit, judged, no_evidence
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.privacy import Budget

Signs = NDArray[np.int8]

_CANARY_LENGTH = 16.0  # times the clipping norm: the length of a canary before the loop clips it
_DEFAULT_FACTOR = 1.1  # to be found by default
_FEWEST_IDLE = 16
_MIN_CANARIES = 1000  # canaries of a run: other tests than the matched filter live on them, too
_MAX_CANARIES = 4000
_MOST_RUNS = 64
_MAX_RUNS = 8  # at most by default
_SAMPLED_RUNS = 4  # of a loop that draws its batches, by default
_MAX_NUMBERS = 2**25  # of all releases together, at most by default


@usual_float_errors
def audit(
    loop: Release | type[Stepwise],
    claim: Any,
    *,
    factor: float | None = None,
    canaries: int | None = None,
    idle: int = 1000,
    runs: int | None = None,
    restarts: Sequence[int] = (),
    pattern: Steps | None = None,
    grid: float = 0.0,
    level: float = 1e-3,
    rng: Seed = None,
) -> Audit:
    """Audit a training loop: test whether its privacy and its noise are as claimed.

    Parameters
    ----------
    loop : Release or type
        A function, called once a run with a sequence of n arrays of shape (examples, d), the gradients of the examples
        of each of the n steps before clipping, where d is always the same.  It returns its releases, the sums
        of the clipped gradients plus noise, as an array of shape (n, d).  It must take fresh noise at each call.  Or a
        class with ``begin(folder)``, which returns the number of the next step, and ``step(gradients)``, which returns
        the release of this step, shape (d,).  Where the claim is a sampled participation, the loop draws its batches:
        in place of each array it gets the data set ``examples``, where ``examples[batch]`` are the gradients of a
        batch of numbers below ``len(examples)``, in this step.
    claim : object
        A design or a private run; or a pair of a ``Budget`` and a program.  The loop claims the noise of
        ``program.scale(budget)``, for the participation of the program.
    factor : float, optional
        > 1: clip norms of ``factor`` times the claim, or noise of 1/``factor`` of it, are to be found with probability
        0.99.  It decides how many canaries there are.  None for 1.1, and more if 8 runs of 4000 canaries or 0.25 GiB of
        releases do not find it, or the pattern does not show all of the privacy loss; the report states the power.
        None for a sampled loop.
    canaries, runs : int, optional
        Numbers of canaries of a run, a multiple of 4, and of runs; None for as many as ``factor`` needs, and not fewer
        than 1000 and 2; of a sampled loop 1000 and 4.  With one run, noise that is used again in another run is not
        found.
    idle : int, default 1000
        Number of coordinates of a run without a canary, at least 16.
    restarts : sequence of int, optional
        Steps, between 1 and n − 1, before which the object of ``loop`` is dropped and a new one begins in its folder.
    pattern : sequence of int, optional
        The steps of a canary, counted from 0; None for 0, b, 2b, …
    grid : float, default 0.0
        The step of the grid of rounded releases, at most 1/64 of the noise; 0 for floats.
    level : float, default 0.001
        How probably a loop that is as claimed gets another verdict than "nothing found", in (0, 1).
    rng : int, SeedSequence or Generator, optional
        For the coins: an integer, ``SeedSequence``, ``Generator`` or None.

    Returns
    -------
    Audit
        The verdict, its cause and the tests behind it; ``report()`` puts them into words.  Whatever the loop does, it
        raises, returns another shape, releases infinite numbers, is a verdict, too.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    TypeError
        If an argument has another type.

    Notes
    -----
    Each test has ``level``/number.  A canary in the steps 0, b, 2b, … has the μ of the whole mechanism
    if the strategy is nonnegative and its autocorrelations fall, and a smaller one otherwise: the audit is then valid
    and weaker.  With members, a canary is a user with as many examples.

    Examples
    --------
    >>> import numpy as np
    >>> import corrnoise as cn
    >>> from corrnoise.simulations.run.stream import Stream
    >>> program = cn.mechanisms.NuFTRL(0.01).program(cn.Participation.min_sep(40, 10), form="transform")
    >>> budget = cn.Budget(rho=0.5)
    >>> def loop(batches):
    ...     stream = Stream(program, batches[0].shape[1], budget=budget)
    ...     clipped = [batch / np.maximum(1, np.linalg.norm(batch, axis=1, keepdims=True)) for batch in batches]
    ...     return np.array([gradients.sum(axis=0) + noise for gradients, noise in zip(clipped, stream)])
    >>> cn.audit(loop, (budget, program), canaries=200, idle=200, level=1e-6, rng=1).verdict
    'nothing found'
    >>> cn.audit(lambda batches: loop(batches) / 2, (budget, program), idle=200, rng=1).cause
    'the noise is smaller than claimed'
    """
    restartable = stepwise(loop)
    plan = planned(claim, pattern, checks.integer("idle", idle, _FEWEST_IDLE), grid)
    steps = plan.who.length
    level = checks.real("level", level, "(0, 1)")
    crashes = tuple(checks.integer("restarts", step, 1, largest=steps - 1) for step in restarts)
    if crashes and not restartable:
        raise ValueError("restarts must be () for a loop that is a function; a class with begin and step is restarted")
    if factor is not None:
        factor = checks.real("factor", factor, "(1, inf)")
    random = generator(rng)

    if plan.sampled:
        return _of_sampled(loop, plan, factor, canaries, runs, tuple(sorted(crashes)), level, random)
    signal = float(np.linalg.norm(Whitening(plan, np.arange(steps)).signal))
    canaries, runs = _sizes(plan, signal, factor, level, canaries, runs)
    try:
        layout = AuditLayout(canaries, plan.idle)
        releases, membership, present = _main_runs(loop, plan, layout, runs, tuple(sorted(crashes)), random)
        whitening = Whitening(plan, present)
        lone = lone_scores(loop, plan, layout, level, random)
    except EndedError as end:
        verdict, cause = end.args
        return no_evidence(verdict, cause, plan.mu, plan.budget.delta, level)

    with np.errstate(all="ignore"):
        found, lower, scores = evidence(plan, whitening, layout, releases, membership, lone, level)
    verdict, cause, tests = judged(found, level)
    return Audit(
        verdict,
        cause,
        tests,
        lower,
        plan.mu,
        plan.budget.delta,
        tuple(bounds(scores, membership, plan.budget.delta, level)),
        signal,
        canaries,
        plan.idle,
        runs,
        0 if lone is None else lone.runs,
        steps - present.size,
        level,
    )


def _of_sampled(
    loop: Any,
    plan: AuditPlan,
    factor: float | None,
    canaries: int | None,
    runs: int | None,
    crashes: tuple[int, ...],
    level: float,
    random: np.random.Generator,
) -> Audit:
    """The audit of a loop that draws its batches."""
    if factor is not None:
        raise ValueError(f"factor must be None for a sampled loop, got {factor}; canaries= and runs= set the numbers")
    number = _checked_canaries(_MIN_CANARIES if canaries is None else canaries)
    times = _SAMPLED_RUNS if runs is None else checks.integer("runs", runs, 1)
    delta = plan.budget.delta
    try:
        found = sampled_evidence(loop, plan, AuditLayout(number, plan.idle), times, crashes, level, random)
    except EndedError as end:
        verdict, cause = end.args
        return no_evidence(verdict, cause, plan.mu, delta, level)
    verdict, cause, tests = judged(found.evidence, level, SAMPLED_TESTS)
    return Audit(
        verdict,
        cause,
        tests,
        found.lower,
        found.mu,
        delta,
        (),
        found.mu,
        number,
        plan.idle,
        times,
        found.lone_runs,
        found.skipped,
        level,
        sampled=True,
    )


def stream_release(budget: Budget, program: Program, *, rng: Seed = None) -> Release:
    """A loop for ``audit`` that clips, sums, and adds the noise of a program: what this package itself would run."""
    random = generator(rng)

    def release(batches: Sequence[Array]) -> Array:
        stream = Stream(program, batches[0].shape[1], budget=budget, rng=random)
        sums = [_clipped_sum(batch, budget.clip_norm) for batch in batches]
        return np.array([total + drawn for total, drawn in zip(sums, stream, strict=True)])

    return release


def _clipped_sum(gradients: Array, clip_norm: float) -> Array:
    norms = np.linalg.norm(gradients, axis=1)
    return np.minimum(1.0, clip_norm / np.maximum(norms, clip_norm)) @ gradients


def _sizes(
    plan: AuditPlan, signal: float, factor: float | None, level: float, canaries: int | None, runs: int | None
) -> tuple[int, int]:
    """Numbers of canaries of a run and of runs."""
    if runs is not None:
        checks.integer("runs", runs, 1)
    if canaries is not None:
        return _checked_canaries(canaries), runs or 2
    tried = [runs] if runs is not None else [2**i for i in range(1, _MOST_RUNS.bit_length())]
    if factor is None:
        return _best_effort(plan, _DEFAULT_FACTOR * plan.mu, level, tried)
    if factor * signal <= plan.mu:
        raise ValueError(
            f"factor must exceed {plan.mu / signal:.4g}, since canaries of this pattern show {signal / plan.mu:.4g} of "
            f"the privacy loss, got {factor}; canaries= sets their number"
        )
    for number in tried:
        if (needed := _needed(plan, factor * signal, level, number, _MAX_CANARIES)) <= _MAX_CANARIES:
            return max(needed, _MIN_CANARIES), number
    raise ValueError(
        f"factor must be so large that {_MAX_CANARIES} canaries and {tried[-1]} runs suffice to find it, "
        f"got {factor} at mu={plan.mu:.4g}; canaries= sets their number"
    )


def _checked_canaries(canaries: int) -> int:
    """A number of canaries, a multiple of four."""
    if checks.integer("canaries", canaries, TOGETHER) % TOGETHER:
        raise ValueError(f"canaries must be a multiple of {TOGETHER}, got {canaries}")
    return canaries


def _best_effort(plan: AuditPlan, signal: float, level: float, tried: Sequence[int]) -> tuple[int, int]:
    """As many canaries and runs as find the signal, or as the memory holds."""
    found = _MIN_CANARIES, tried[0]
    for number in tried:
        held = _MAX_NUMBERS // (number * plan.who.length) - plan.idle
        most = max(_MIN_CANARIES, min(_MAX_CANARIES, held // TOGETHER * TOGETHER))
        if number > max(_MAX_RUNS, tried[0]) or (held < most and number > tried[0]):
            break
        if (needed := _needed(plan, signal, level, number, most)) <= most:
            return max(needed, _MIN_CANARIES), number
        found = max(found, (most, number), key=math.prod)
    return found


def _needed(plan: AuditPlan, signal: float, level: float, runs: int, most: int) -> int:
    """How many canaries find the signal, a multiple of four; more than ``most`` if these do not do."""
    needed = canaries_needed(plan.mu, signal, runs=runs, idle=plan.idle, level=level / len(TESTS), most=most)
    return TOGETHER * -(-needed // TOGETHER)


def _main_runs(
    loop: Any, plan: AuditPlan, layout: AuditLayout, runs: int, crashes: tuple[int, ...], random: np.random.Generator
) -> tuple[Array, NDArray[np.bool_], NDArray[np.intp]]:
    """Releases of the steps that all runs have, shape (runs, steps, d); coins; and these steps."""
    coins = coins_of(runs, layout.canaries, random)
    made = []
    for run, row in enumerate(coins):
        signs = _signs(row, plan)
        made.append(
            released(loop, _crowd(signs, plan, layout), run, crashes, _crowd(_probe(signs, plan), plan, layout))
        )
    present = np.array(sorted(set.intersection(*(set(found) for found in made))), dtype=np.intp)
    if 2 * present.size < plan.who.length:
        raise EndedError(
            "could not be audited", f"the loop released {present.size} of {plan.who.length} steps in all runs"
        )
    return np.array([[found[step] for step in present.tolist()] for found in made]), coins, present


def _crowd(signs: Signs, plan: AuditPlan, layout: AuditLayout) -> AuditGradients:
    """The gradients of many canaries; ``signs``, shape (steps, canaries), says who is there, and the sign."""
    length = _CANARY_LENGTH * plan.budget.clip_norm
    rows = []
    for row in signs:
        there = np.repeat(np.flatnonzero(row), plan.who.members)
        rows.append((there, length * row[there]))
    return AuditGradients(rows, layout)


def _signs(coins: NDArray[np.bool_], plan: AuditPlan) -> Signs:
    """Membership of canaries with these coins: in the steps of the pattern, or not; or with the opposite sign."""
    out = -1 if plan.budget.adjacency == "replace-one" else 0
    signs = np.zeros((plan.who.length, coins.size), dtype=np.int8)
    signs[plan.pattern] = np.where(coins, 1, out)
    return signs


def _probe(signs: Signs, plan: AuditPlan) -> Signs:
    """Other members for a step that comes again: who was not there, or with the opposite sign."""
    return np.where(signs == 0, 1, -signs if plan.budget.adjacency == "replace-one" else 0).astype(np.int8)
