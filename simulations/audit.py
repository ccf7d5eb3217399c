"""An audit of a private training loop: one verdict, its cause in plain words, and the evidence.

The auditor hands the loop gradients of a special kind.  *Piles* of canaries have all lengths, phases and places, and
are in the run or not by the toss of a fair coin (``auditing.piles``).  The loop clips, sums and adds its noise as it
always does, and the auditor sees its releases.  Other coordinates are *idle*: they show the noise alone.  Further runs
have few examples, which shows faults that a crowd hides (``auditing.few``), and the last run has a gradient that is not
finite.  A loop that can be restarted is restarted, and may skip steps but not release one twice.

The statistics are those of ``theory.auditing``.  An audit can refute a claim and cannot prove one.  The order of the
data is not audited: the auditor chooses it.  Sampled batches are: the loop draws them (``auditing.sampled``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.few import FewExamples, few_runs
from corrnoise.simulations.auditing.layout import AuditLayout
from corrnoise.simulations.auditing.loops import EndedError, Release, Stepwise, released, stepwise
from corrnoise.simulations.auditing.piles import MEMBERS, Piles, piles_for
from corrnoise.simulations.auditing.plan import AuditPlan, Whitening, planned
from corrnoise.simulations.auditing.sampled import sampled_evidence
from corrnoise.simulations.auditing.statistics import evidence
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.simulations.run.stream import Stream
from corrnoise.theory.auditing.canaries import piles_needed
from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.auditing.findings import SAMPLED_TESTS, TESTS, Audit, judged, no_evidence
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.privacy import Budget

NotFinite = Literal["dropped", "refused"]

_FEWEST_IDLE = 16
_FACTOR_OF_ONE = 2.0  # to be found in single examples, at least
_MAX_LONG_PILES = 400  # of a phase
_MAX_NUMBERS = 2**25  # of the releases of two runs
_SAMPLED_RUNS = 4  # of a loop that draws its batches
_SAMPLED_CANARIES = 1000


@usual_float_errors
def audit(
    loop: Release | type[Stepwise],
    claim: Any,
    *,
    factor: float = 1.1,
    idle: int = 1000,
    restarts: Sequence[int] = (),
    grid: float = 0.0,
    level: float = 1e-3,
    not_finite: NotFinite = "dropped",
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
    factor : float, default 1.1
        > 1: clip norms of ``factor`` times the claim, or noise of 1/``factor`` of it, are to be found with probability
        0.99.  It decides how many piles there are, as far as 0.25 GiB of releases hold them; the report states the
        power.  A sampled loop has 1000 canaries in four runs.
    idle : int, default 1000
        Number of coordinates of a run without a canary, at least 16.
    restarts : sequence of int, optional
        Steps, between 1 and n − 1, before which the object of ``loop`` is dropped and a new one begins in its folder.
    grid : float, default 0.0
        The step of the grid of rounded releases, at most 1/64 of the noise; 0 for floats.
    level : float, default 0.001
        How probably a loop that is as claimed gets another verdict than "nothing found", in (0, 1).
    not_finite : {"dropped", "refused"}, default "dropped"
        The duty of the loop with a gradient that is not finite.  An exception passes in both cases; a finite release
        passes with ``"dropped"`` alone.
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
    Each test has ``level``/number.  With members, a canary is a user with as many examples.

    Examples
    --------
    >>> import numpy as np
    >>> import corrnoise as cn
    >>> from corrnoise.simulations.run.stream import Stream
    >>> program = cn.mechanisms.NuFTRL(0.01).program(cn.Participation.min_sep(40, 10), form="transform")
    >>> budget = cn.Budget(rho=0.5)
    >>> def loop(batches):
    ...     stream = Stream(program, batches[0].shape[1], budget=budget)
    ...     batches = [batch[np.isfinite(batch).all(axis=1)] for batch in batches]
    ...     clipped = [batch / np.maximum(1, np.linalg.norm(batch, axis=1, keepdims=True)) for batch in batches]
    ...     return np.array([gradients.sum(axis=0) + noise for gradients, noise in zip(clipped, stream)])
    >>> cn.audit(loop, (budget, program), idle=200, level=1e-6, rng=1).verdict
    'nothing found'
    >>> cn.audit(lambda batches: loop(batches) / 2, (budget, program), idle=200, rng=1).cause
    'the noise is smaller than claimed'
    """
    restartable = stepwise(loop)
    plan = planned(claim, checks.integer("idle", idle, _FEWEST_IDLE), grid)
    steps = plan.who.length
    level = checks.real("level", level, "(0, 1)")
    factor = checks.real("factor", factor, "(1, inf)")
    checks.choice("not_finite", not_finite, ("dropped", "refused"))
    crashes = tuple(sorted(checks.integer("restarts", step, 1, largest=steps - 1) for step in restarts))
    if crashes and not restartable:
        raise ValueError("restarts must be () for a loop that is a function; a class with begin and step is restarted")
    random = generator(rng)
    try:
        if plan.sampled:
            return _of_sampled(loop, plan, crashes, level, random)
        return _of_batches(loop, plan, factor, crashes, level, not_finite, random)
    except EndedError as end:
        verdict, cause = end.args
        return no_evidence(verdict, cause, plan.mu, plan.budget.delta, level)


def _of_batches(
    loop: Any,
    plan: AuditPlan,
    factor: float,
    crashes: tuple[int, ...],
    level: float,
    not_finite: NotFinite,
    random: np.random.Generator,
) -> Audit:
    """The audit of a loop that gets its batches."""
    each = level / len(TESTS)
    runs = few_runs(plan, max(factor, _FACTOR_OF_ONE), each)
    piles = Piles(plan, _number_of_piles(plan, factor, runs + 2, each), random)
    releases, present = _main_runs(loop, plan, piles, crashes)
    few = FewExamples(loop, plan, piles.layout, runs, random)
    with np.errstate(all="ignore"):
        every = np.concatenate([releases, few.releases[:, present]])
        found, lower, scores = evidence(plan, Whitening(plan, present), piles, few, every, level)
    treated = _not_finite(loop, piles, runs + 2, not_finite, found)
    verdict, cause, tests = judged(found, level)
    strong = piles.long & scores.strong
    return Audit(
        verdict,
        cause,
        tests,
        lower,
        plan.mu,
        plan.budget.delta,
        float(scores.norm[strong].mean()),
        piles.number,
        0,
        MEMBERS**2 * int(strong.sum()) / 2,
        scores.freedom,
        plan.idle,
        2,
        runs,
        plan.who.length - present.size,
        level,
        not_finite=treated,
    )


def _number_of_piles(plan: AuditPlan, factor: float, runs: int, level: float) -> int:
    """As many piles as find the factor, or as the memory holds."""
    freedom = runs * (plan.idle - 1)
    needed = piles_needed(
        plan.mu, factor * plan.mu, members=MEMBERS, freedom=freedom, level=level, most=_MAX_LONG_PILES
    )
    least, wanted = piles_for(plan, 0), piles_for(plan, needed)
    held = _MAX_NUMBERS // (2 * plan.who.length) - plan.idle
    return max(least, min(wanted, held // least * least))


def _not_finite(loop: Any, piles: Piles, run: int, expected: NotFinite, found: dict[str, Evidence]) -> str:
    """The treatment of a gradient that is not finite, in words, from one run."""
    treated, passed, kept = "dropped", expected == "dropped", False
    try:
        released(loop, piles.broken_gradients(), run)
    except EndedError as end:
        verdict, cause = end.args
        kept = verdict == "not private as claimed"
        treated, passed = cause, True
    found["not finite"] = Evidence(float(kept), 0.0 if kept else 1.0)
    found["not finite, refused"] = Evidence(float(not passed), 1.0 if passed else 0.0)
    return treated


def _main_runs(loop: Any, plan: AuditPlan, piles: Piles, crashes: tuple[int, ...]) -> tuple[Array, NDArray[np.intp]]:
    """Releases of the steps that both runs have, shape (2, steps, size), and these steps."""
    made = [released(loop, piles.gradients(run), run, crashes, piles.gradients(run, turned=True)) for run in range(2)]
    present = np.array(sorted(set.intersection(*map(set, made))), dtype=np.intp)
    if 2 * present.size < plan.who.length:
        raise EndedError(
            "could not be audited", f"the loop released {present.size} of {plan.who.length} steps in all runs"
        )
    return np.array([[found[step] for step in present.tolist()] for found in made]), present


def _of_sampled(
    loop: Any, plan: AuditPlan, crashes: tuple[int, ...], level: float, random: np.random.Generator
) -> Audit:
    """The audit of a loop that draws its batches."""
    layout = AuditLayout(_SAMPLED_CANARIES, plan.idle)
    found = sampled_evidence(loop, plan, layout, _SAMPLED_RUNS, crashes, level, random)
    verdict, cause, tests = judged(found.evidence, level, SAMPLED_TESTS)
    return Audit(
        verdict,
        cause,
        tests,
        found.lower,
        found.mu,
        plan.budget.delta,
        found.mu,
        0,
        _SAMPLED_CANARIES,
        _SAMPLED_CANARIES * _SAMPLED_RUNS / 4,
        _SAMPLED_RUNS * (plan.idle - 1),
        plan.idle,
        _SAMPLED_RUNS,
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
    finite = gradients[np.isfinite(gradients).all(axis=1)]
    norms = np.linalg.norm(finite, axis=1)
    return np.minimum(1.0, clip_norm / np.maximum(norms, clip_norm)) @ finite
