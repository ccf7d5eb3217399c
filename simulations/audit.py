"""An audit of a private training loop: one verdict, its cause in plain words, and the evidence.

The auditor hands the loop gradients of a special kind.  *Canaries* are examples, each with a gradient in a coordinate
of its own that is far longer than the clip norm.  They take part in the steps of one pattern of the run, or in none, by
the toss of a fair coin.  The loop clips, sums and adds its noise as it always does, and the auditor sees what it would
release.  Other coordinates are *idle*: they show the noise alone.  In further runs a batch holds one canary and one
opponent, which shows whether batches are clipped as a whole.  A loop that can be restarted is restarted, and may skip
steps but not release one twice.

The statistics are those of ``theory.auditing``.  An audit can refute a claim and cannot prove one.  The order of the
data is not audited: the auditor chooses it.
"""

from __future__ import annotations

import gc
import inspect
import math
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.simulations.run.stream import Stream
from corrnoise.theory.auditing import canaries as seen
from corrnoise.theory.auditing import noise as idle_noise
from corrnoise.theory.auditing.epsilon import epsilon_lower_bound, one_run_epsilon_lower_bound
from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.auditing.findings import TESTS, Audit, judged, no_evidence
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Signs = NDArray[np.int8]
Steps = Sequence[int] | NDArray[np.intp]

#: A loop: the gradients of the examples of each step, arrays of shape (examples, d), become releases, (steps, d).
Release = Callable[[Sequence[Array]], Array]

_EXCESS = 16.0  # times the clip norm: the length of a canary before the loop clips it
_LONE_EXCESS = 64.0  # of a lone canary, against an opponent of the other length
_LAGS = 20
_FEWEST = 1000  # canaries of a run: other tests than the matched filter live on them, too
_FEWEST_IDLE = 16
_MOST = 4000
_MOST_RUNS = 64
_LONE_FACTOR = 2.0  # by which a batch that is clipped as a whole exceeds the sensitivity
_MOST_LONE_RUNS = 150
_COARSEST = 1 / 64  # of the noise: steps of a grid for which the distributions hold


class Stepwise(Protocol):
    """A loop that can be restarted: a class, of which the auditor makes a new object after each crash."""

    def begin(self, folder: Path) -> int:
        """Begin, or go on with what is in the folder; the number of the next step."""

    def step(self, gradients: Array) -> Array:
        """The release of the next step, shape (d,), for the gradients of its examples, (examples, d)."""


class _EndedError(Exception):
    """The audit ends before any test: verdict and cause."""


@record
class _Plan(Record):
    """What is claimed, in the units of the audit."""

    budget: Budget
    program: Program
    pattern: NDArray[np.intp]
    idle: int
    grid: float

    @property
    def who(self) -> Participation:
        return self.program.participation.worst

    @property
    def mu(self) -> float:
        return math.sqrt(2 * self.budget.gaussian_rho)

    @property
    def scale(self) -> float:
        """σ, the claimed standard deviation of the independent noise."""
        return self.program.scale(self.budget)

    @property
    def distance(self) -> float:
        """How far a canary moves the sum of a step between its two states, in units of σ."""
        both = 2 if self.budget.adjacency == "replace-one" else 1
        return both * self.who.members * self.budget.clip_norm / self.scale


def audit(
    loop: Release | type[Stepwise],
    claim: Any,
    *,
    factor: float = 1.5,
    canaries: int | None = None,
    idle: int = 1000,
    runs: int | None = None,
    restarts: Sequence[int] = (),
    pattern: Steps | None = None,
    grid: float = 0.0,
    level: float = 1e-3,
    rng: Seed = None,
) -> Audit:
    """Audit a training loop: is it as private as claimed, and is its noise as claimed?

    Parameters
    ----------
    loop
        A function, called once a run with a sequence of n arrays of shape (examples, d), the gradients of the examples
        of each of the n steps before clipping, where d is always the same.  It returns what it would release, the sums
        of the clipped gradients plus noise, as an array of shape (n, d).  It must take fresh noise at each call.  Or a
        class with ``begin(folder)``, which returns the number of the next step, and ``step(gradients)``, which returns
        the release of this step, shape (d,).
    claim
        A design or a private run; or a pair of a ``Budget`` and a program.  The loop claims the noise of
        ``program.scale(budget)``, for the participation of the program.
    factor
        > 1: clip norms of ``factor`` times the claim, or noise of 1/``factor`` of it, are to be found with probability
        0.99.  It decides how many canaries there are.
    canaries, runs
        Numbers of canaries of a run and of runs, 4 and 1 at least; None for as many as ``factor`` needs, and not fewer
        than 1000 and 2.  With one run, noise that is used again in another run is not found.
    idle
        Number of coordinates of a run without a canary, at least 16.
    restarts
        Steps, between 1 and n − 1, before which the object of ``loop`` is dropped and a new one begins in its folder.
    pattern
        The steps in which a canary takes part, counted from 0; None for 0, b, 2b, …
    grid
        The step of the grid to which releases are rounded, at most 1/64 of the noise; 0 for floats.
    level
        How probably a loop that is as claimed gets another verdict than "nothing found", in (0, 1).
    rng
        For the coins: an integer, ``SeedSequence``, ``Generator`` or None.

    Returns
    -------
    The verdict, its cause and the tests behind it; ``report()`` puts them into words.  Whatever the loop does, it
    raises, returns another shape, releases what is not finite, is a verdict, too.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range.

    Notes
    -----
    Each test has ``level``/number.  A canary that takes part in the steps 0, b, 2b, … has the μ of the whole mechanism
    if the strategy is nonnegative and its autocorrelations fall, and a smaller one otherwise: the audit is then valid
    and weaker.  With members, a canary is a user with as many examples.

    Examples
    --------
    >>> from corrnoise.theory.mechanisms.product import NuFTRL
    >>> program = NuFTRL(0.01).program(Participation.min_sep(40, 10), form="transform")
    >>> budget = Budget(rho=0.5)
    >>> def loop(batches):
    ...     stream = Stream(program, batches[0].shape[1], budget=budget)
    ...     clipped = [batch / np.maximum(1, np.linalg.norm(batch, axis=1, keepdims=True)) for batch in batches]
    ...     return np.array([gradients.sum(axis=0) + noise for gradients, noise in zip(clipped, stream)])
    >>> audit(loop, (budget, program), canaries=200, idle=200, level=1e-6, rng=1).verdict
    'nothing found'
    >>> audit(lambda batches: loop(batches) / 2, (budget, program), idle=200, rng=1).cause
    'the noise is smaller than claimed'
    """
    stepwise = _checked_loop(loop)
    plan = _planned(claim, pattern, checks.integer("idle", idle, _FEWEST_IDLE), grid)
    steps = plan.who.length
    level = checks.real("level", level, "(0, 1)")
    crashes = tuple(checks.integer("restarts", step, 1, largest=steps - 1) for step in restarts)
    if crashes and not stepwise:
        raise ValueError("restarts must be () for a loop that is a function; a class with begin and step is restarted")
    factor = checks.real("factor", factor, "(1, inf)")
    random = generator(rng)

    signal = float(np.linalg.norm(_Whitening(plan, np.arange(steps)).signal))
    canaries, runs = _sizes(plan, signal, factor, level, canaries, runs)
    try:
        releases, membership, present = _main_runs(loop, plan, canaries, runs, tuple(sorted(crashes)), random)
        whitening = _Whitening(plan, present)
        lone = _lone_scores(loop, plan, canaries + plan.idle, level, random)
    except _EndedError as end:
        verdict, cause = end.args
        return no_evidence(verdict, cause, plan.mu, plan.budget.delta, level)

    with np.errstate(all="ignore"):
        found, lower, scores = _evidence(plan, whitening, releases, membership, lone, level)
    verdict, cause, tests = judged(found, level)
    return Audit(
        verdict,
        cause,
        tests,
        lower,
        plan.mu,
        plan.budget.delta,
        tuple(_bounds(scores, membership, plan.budget.delta, level)),
        signal,
        canaries,
        plan.idle,
        runs,
        0 if lone is None else lone.runs,
        steps - present.size,
        level,
    )


def stream_release(budget: Budget, program: Program, *, rng: Seed = None) -> Release:
    """A loop that clips, sums, and adds the noise of a program: what this package itself would run.

    Parameters
    ----------
    budget, program
        The claim of ``audit``.
    rng
        For the noise.

    Returns
    -------
    A function for ``audit``.
    """
    random = generator(rng)

    def release(batches: Sequence[Array]) -> Array:
        stream = Stream(program, batches[0].shape[1], budget=budget, rng=random)
        sums = [_clipped_sum(batch, budget.clip_norm) for batch in batches]
        return np.array([total + drawn for total, drawn in zip(sums, stream, strict=True)])

    return release


def _clipped_sum(gradients: Array, clip_norm: float) -> Array:
    norms = np.linalg.norm(gradients, axis=1)
    return np.minimum(1.0, clip_norm / np.maximum(norms, clip_norm)) @ gradients


# -- arguments ---------------------------------------------------------------------------------------------------------


def _checked_loop(loop: object) -> bool:
    """Whether the loop is a class that can be restarted; anything but this and a function is refused."""
    if inspect.isclass(loop) and callable(getattr(loop, "begin", None)) and callable(getattr(loop, "step", None)):
        return True
    if not callable(loop) or inspect.isclass(loop):
        raise TypeError(
            "loop must be a function of the gradients of each step, or a class with the methods begin(folder) and "
            f"step(gradients), got {loop!r:.80}"
        )
    return False


def _planned(claim: Any, pattern: Steps | None, idle: int, grid: float) -> _Plan:
    budget, program = claim if isinstance(claim, tuple) and len(claim) == 2 else _parts(claim)
    checks.instance("the budget of claim", budget, Budget)
    who = checks.instance("the program of claim", program, Program).participation.worst
    if who.length > LARGEST_MATRIX:
        raise ValueError(f"claim must have at most {LARGEST_MATRIX} steps, got {who.length}; audit a shorter run")
    steps = who.largest if pattern is None else _checked_pattern(pattern, who)
    grid = checks.real("grid", grid, "[0, inf)")
    if grid > (coarsest := _COARSEST * program.scale(budget)):
        raise ValueError(f"grid must be at most {coarsest:.4g}, 1/64 of the noise, got {grid}")
    return _Plan(budget, program, steps, idle, grid)


def _parts(claim: Any) -> tuple[Any, Any]:
    """Budget and program of a design or a run."""
    budget, program = getattr(claim, "budget", None), getattr(claim, "program", None)
    if budget is None or program is None:
        raise TypeError(f"claim must be a design, a private run, or a pair (budget, program), got {claim!r:.80}")
    return budget, program() if callable(program) else program


def _checked_pattern(pattern: Steps, who: Participation) -> NDArray[np.intp]:
    steps = sorted({checks.integer("pattern", step, 0, largest=who.length - 1) for step in pattern})
    apart = all(who.together(i, j) for index, i in enumerate(steps) for j in steps[:index])
    if not (0 < len(steps) <= who.count and apart):
        raise ValueError(f"pattern must be steps of one example, {who.in_words()}, got {list(pattern)}")
    return np.array(steps, dtype=np.intp)


def _sizes(
    plan: _Plan, signal: float, factor: float, level: float, canaries: int | None, runs: int | None
) -> tuple[int, int]:
    """Numbers of canaries of a run and of runs."""
    if runs is not None:
        checks.integer("runs", runs, 1)
    if canaries is not None:
        return checks.integer("canaries", canaries, 4), runs or 2
    if factor * signal <= plan.mu:
        raise ValueError(
            f"factor must exceed {plan.mu / signal:.4g}, since the canaries of this pattern show {signal / plan.mu:.4g} "
            f"of the privacy loss, got {factor}; canaries= sets their number"
        )
    tried = [runs] if runs is not None else [2**i for i in range(1, _MOST_RUNS.bit_length())]
    for number in tried:
        needed = seen.canaries_needed(
            plan.mu, factor * signal, runs=number, idle=plan.idle, level=level / len(TESTS), most=_MOST
        )
        if needed <= _MOST:
            return max(needed, _FEWEST), number
    raise ValueError(
        f"factor must be so large that {_MOST} canaries and {tried[-1]} runs suffice to find it, got {factor} at "
        f"mu={plan.mu:.4g}; canaries= sets their number"
    )


# -- gradients and releases --------------------------------------------------------------------------------------------


class _Gradients(Sequence[Array]):
    """The gradients of the examples of each step, made anew each time, so that a loop may overwrite them.

    ``rows`` holds for each step the coordinates of its examples and the lengths of their gradients.
    """

    def __init__(self, rows: Sequence[tuple[NDArray[np.intp], Array]], size: int) -> None:
        self._rows = rows
        self._size = size

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, step: int) -> Array: ...

    @overload
    def __getitem__(self, step: slice) -> list[Array]: ...

    def __getitem__(self, step: int | slice) -> Array | list[Array]:
        if isinstance(step, slice):
            return [self[i] for i in range(*step.indices(len(self)))]
        coordinates, lengths = self._rows[step]
        made = np.zeros((coordinates.size, self._size))
        made[np.arange(coordinates.size), coordinates] = lengths
        return made


def _crowd(signs: Signs, plan: _Plan) -> _Gradients:
    """The gradients of many canaries; ``signs``, shape (steps, canaries), says who is there, and with which sign."""
    length = _EXCESS * plan.budget.clip_norm
    rows = []
    for row in signs:
        there = np.repeat(np.flatnonzero(row), plan.who.members)
        rows.append((there, length * row[there]))
    return _Gradients(rows, signs.shape[1] + plan.idle)


def _signs(coins: NDArray[np.bool_], plan: _Plan) -> Signs:
    """Membership of canaries with these coins: in the steps of the pattern, or not; or with the opposite sign."""
    out = -1 if plan.budget.adjacency == "replace-one" else 0
    signs = np.zeros((plan.who.length, coins.size), dtype=np.int8)
    signs[plan.pattern] = np.where(coins, 1, out)
    return signs


def _coins(runs: int, number: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Fair coins; those of every second run are those of the run before it, turned over."""
    coins = random.integers(2, size=(runs, number)).astype(bool)
    coins[1::2] = ~coins[0 : 2 * (runs // 2) : 2]
    return coins


def _main_runs(
    loop: Any, plan: _Plan, canaries: int, runs: int, crashes: tuple[int, ...], random: np.random.Generator
) -> tuple[Array, NDArray[np.bool_], NDArray[np.intp]]:
    """Releases of the steps that all runs have, shape (runs, steps, d); coins; and these steps."""
    coins = _coins(runs, canaries, random)
    made = [_released(loop, _signs(row, plan), plan, crashes, run) for run, row in enumerate(coins)]
    present = np.array(sorted(set.intersection(*(set(found) for found in made))), dtype=np.intp)
    if 2 * present.size < plan.who.length:
        raise _EndedError(
            "could not be audited", f"the loop released {present.size} of {plan.who.length} steps in all runs"
        )
    return np.array([[found[step] for step in present.tolist()] for found in made]), coins, present


def _released(loop: Any, signs: Signs, plan: _Plan, crashes: tuple[int, ...], run: int) -> dict[int, Array]:
    """The releases of a run by their steps."""
    gradients = _crowd(signs, plan)
    if not inspect.isclass(loop):
        return _whole(loop, gradients, run)
    probe = np.where(signs == 0, 1, -signs if plan.budget.adjacency == "replace-one" else 0).astype(np.int8)
    with tempfile.TemporaryDirectory() as folder:
        return _step_by_step(loop, gradients, _crowd(probe, plan), crashes, Path(folder) / "run")


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the loop returns; its exceptions are a verdict."""
    try:
        return function(*arguments)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        raise _EndedError(
            "could not be audited", f"the loop raised {type(error).__name__}: {error} ({place})"
        ) from error


def _whole(loop: Any, gradients: _Gradients, run: int) -> dict[int, Array]:
    shape = len(gradients), gradients[0].shape[1]
    found = _numbers(_called(loop, gradients), shape, f"run {run + 1}")
    return dict(enumerate(found))


def _numbers(found: Any, shape: tuple[int, ...], where: str) -> Array:
    """A release as finite floats."""
    try:
        values = np.asarray(found)
        if values.dtype.kind not in "iufb":
            raise TypeError(f"an array of {values.dtype}")
    except Exception as error:
        raise _EndedError(
            "could not be audited", f"the loop returned what is no array of numbers: {error} ({where})"
        ) from error
    if values.shape != shape:
        raise _EndedError("could not be audited", f"the loop returned the shape {values.shape}, not {shape} ({where})")
    if not np.isfinite(values).all():
        raise _EndedError("not private as claimed", f"a release is not finite ({where})")
    return values.astype(np.float64)


def _step_by_step(
    loop: Any, gradients: _Gradients, probe: _Gradients, crashes: tuple[int, ...], folder: Path
) -> dict[int, Array]:
    """The releases of a loop that is dropped and begun again before each of the steps ``crashes``."""
    shape = gradients[0].shape[1:]
    found: dict[int, Array] = {}
    alive, step = _begun(loop, folder, len(gradients))
    waiting = list(crashes)
    while step < len(gradients):
        twice = step in found
        where = f"step {step + 1}"
        release = _numbers(_called(alive.step, (probe if twice else gradients)[step]), shape, where)
        if twice and not np.array_equal(release, found[step]):  # the same release again shows nothing new
            same = np.array_equal(release[-_FEWEST_IDLE:], found[step][-_FEWEST_IDLE:])
            how = "with the same noise" if same else "with other noise"
            raise _EndedError("not private as claimed", f"a step is released twice, {how} ({where})")
        found[step] = release
        step += 1
        if waiting and step >= waiting[0]:
            waiting.pop(0)
            del alive
            gc.collect()
            alive, step = _begun(loop, folder, len(gradients))
    return found


def _begun(loop: Any, folder: Path, steps: int) -> tuple[Any, int]:
    """A new object of the loop, and its next step."""
    alive = _called(loop)
    step = _called(alive.begin, folder)
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or not 0 <= step <= steps:
        raise _EndedError(
            "could not be audited", f"begin must return the number of the next step, 0 to {steps}, got {step!r:.80}"
        )
    return alive, int(step)


# -- statistics --------------------------------------------------------------------------------------------------------


class _Whitening:
    """L⁻¹ with L Lᵀ = K, the claimed covariance of the noise of the steps that were released."""

    def __init__(self, plan: _Plan, present: NDArray[np.intp]) -> None:
        noising = plan.program.mechanism.noising_matrix(plan.who.length)[present]
        whole = noising.shape[0] == noising.shape[1] and not np.triu(noising, 1).any()
        factor = noising if whole else np.linalg.qr(noising.T, mode="r").T
        self.matrix = solve_triangular(factor, np.eye(present.size), lower=True)
        self.covariance = noising @ noising.T
        self.present = present
        self._distance = plan.distance
        steps = np.zeros(plan.who.length)
        steps[plan.pattern] = plan.distance
        self.signal = self(steps[present])
        self.basis = self(seen.shifts(steps)[present])
        taking_part = np.flatnonzero(steps[present])
        self.single = self(plan.distance * np.eye(present.size)[:, taking_part])
        self.drift = self(np.eye(present.size) * plan.grid / plan.scale)

    def __call__(self, releases: Array) -> Array:
        """White releases of raw ones, shape (steps, …)."""
        return np.asarray(self.matrix @ releases)

    def of(self, pattern: NDArray[np.intp]) -> Array:
        """The white gradients of a canary with another pattern."""
        steps = np.zeros(len(self.present))
        steps[pattern] = self._distance
        return self(steps)


def _evidence(
    plan: _Plan,
    whitening: _Whitening,
    releases: Array,
    coins: NDArray[np.bool_],
    lone: _Lone | None,
    level: float,
) -> tuple[dict[str, Evidence], float, Array]:
    """Evidence of each test by its name, the lower bound of μ, and the scores of the canaries."""
    runs, steps, size = releases.shape
    canaries = coins.shape[1]
    raw = releases / plan.scale
    white = whitening(raw.transpose(1, 0, 2).reshape(steps, -1)).reshape(steps, runs, size).transpose(1, 0, 2)
    found = dict(_about_noise(plan, whitening, releases, raw, white, canaries))
    lower = [0.0]
    scores = np.zeros(coins.shape)
    if found["noise of all coordinates, near 0"].p > level / len(TESTS):
        seen_white = white[:, :, :canaries]
        quiet = white[:, :, canaries:]
        filters = _Filters(plan, whitening, coins, level)
        scores = filters.matched(seen_white, quiet, found, lower)
        filters.learned(seen_white, quiet, found, lower)
        if lone is not None:
            noise = seen.spread(lone.idle)
            found["lone pairs"] = seen.separation(lone.inside, lone.outside, noise, plan.mu)
            lower.append(seen.separation_lower_bound(lone.inside, lone.outside, noise, level / len(TESTS)))
        found |= _about_gradients(plan, whitening, seen_white, coins)
    return found, max(lower), scores


def _about_noise(
    plan: _Plan, whitening: _Whitening, releases: Array, raw: Array, white: Array, canaries: int
) -> Iterator[tuple[str, Evidence]]:
    """The tests of the noise."""
    runs, steps, size = white.shape
    quiet = white[:, :, canaries:]
    yield "noise of all coordinates, near 0", (first := idle_noise.no_noise(quiet))
    mean_square = first.statistic
    if first.p <= 1e-300:
        return

    # The gradients of canaries lie in one direction; what is orthogonal to it is noise.
    direction = whitening.signal / np.linalg.norm(whitening.signal)
    rest = white - direction[:, np.newaxis] * np.tensordot(direction, white, axes=(0, 1))[:, np.newaxis]
    energies = np.append((rest[:, :, :canaries] ** 2).sum(axis=(0, 1)), (quiet**2).sum(axis=(0, 1)))
    freedom = np.append(np.full(canaries, runs * (steps - 1)), np.full(plan.idle, runs * steps))
    idle_raw = raw[:, :, canaries:]
    flat = quiet.reshape(runs * steps, -1)
    if steps == 1:
        energies, freedom = energies[canaries:], freedom[canaries:]
    yield (
        "noise of a coordinate, below a tenth",
        idle_noise.least_coordinate(energies, freedom, mean_square, absent=True),
    )
    across = _coordinates_of(direction)
    rotated = np.tensordot(across, white, axes=(0, 1)).transpose(1, 0, 2).reshape(-1, size)
    yield "difference of two coordinates, near 0", idle_noise.shared_noise(rotated, mean_square)
    yield "noise of a step, near 0", idle_noise.step_without_noise(idle_raw, whitening.covariance)
    yield "difference of two steps, near 0", idle_noise.repeated_step(idle_raw, whitening.covariance)
    centre = idle_noise.centred(quiet)
    if runs > 1:
        again, related = idle_noise.repeated_runs(centre)
        yield "cosine of two runs, above 1/2", again
        yield "cosine of two runs", related
    smallest = plan.scale * math.sqrt(float(np.diag(whitening.covariance).min()))
    yield "pairs of equal values", idle_noise.equal_values(releases[:, :, canaries:], plan.grid / smallest)
    below, above = idle_noise.total_variance(centre)
    yield "variance, below", below
    yield "variance, above", above
    yield (
        "variance of a coordinate, below",
        idle_noise.least_coordinate(energies, freedom, mean_square, absent=False),
    )

    factors = idle_noise.bartlett(centre)
    yield "mean", idle_noise.offset(quiet, factors, whitening.drift)
    epochs = range(plan.who.period, plan.who.period * plan.who.count, plan.who.period)
    kinds = ("each lag", "all lags", "all pairs of steps", "largest pair of steps")
    tested = idle_noise.correlations(factors, runs * (plan.idle - 1), {*range(1, _LAGS + 1), *epochs})
    yield from ((f"correlation, {kind}", one) for kind, one in zip(kinds, tested, strict=True))
    drift = float(np.abs(whitening.drift).sum(axis=1).max())
    yield "distance from the normal distribution", idle_noise.normal_shape(quiet, drift)
    yield "largest value", idle_noise.largest_value(quiet, drift)
    yield "shares of the steps", idle_noise.step_sizes(centre)
    yield "variance of a step, below", idle_noise.least_step(idle_raw, whitening.covariance)
    yield "neighbouring coordinates", idle_noise.neighbours(flat)
    yield "cosine of two coordinates", idle_noise.largest_cosine(flat)
    yield "variance of a coordinate, above", idle_noise.greatest_coordinate(flat)


def _coordinates_of(direction: Array) -> Array:
    """An orthonormal basis of what is orthogonal to a direction, shape (T, T − 1)."""
    whole = np.linalg.qr(np.column_stack([direction, np.eye(direction.size)]))[0]
    return whole[:, 1 : direction.size]


class _Filters:
    """Tests of the scores of canaries under filters."""

    def __init__(self, plan: _Plan, whitening: _Whitening, coins: NDArray[np.bool_], level: float) -> None:
        self._mu = plan.mu
        self._level = level / len(TESTS)
        self._coins = coins
        self._whitening = whitening

    def matched(self, white: Array, quiet: Array, found: dict[str, Evidence], lower: list[float]) -> Array:
        """Under the filter of the claimed gradients; the scores, shape (runs, canaries)."""
        signal = self._whitening.signal
        scores = self._separated("matched", signal / np.linalg.norm(signal), white, quiet, self._coins, found, lower)
        noise = seen.spread(np.tensordot(signal / np.linalg.norm(signal), quiet, axes=(0, 1)))
        inside, outside = scores[self._coins], scores[~self._coins]
        found["canaries, largest score"] = seen.largest_score(inside, outside, noise, self._mu)
        return scores

    def learned(self, white: Array, quiet: Array, found: dict[str, Evidence], lower: list[float]) -> None:
        """Under a filter that the first half of the canaries shows, for the other half."""
        half = white.shape[2] // 2
        coins = self._coins[:, :half]
        if coins.all() or not coins.any():
            found["canaries, learned filter"] = Evidence(0.0, 1.0)
            return
        difference = _mean_difference(white[:, :, :half], coins)
        unit = seen.learned_filter(difference, self._whitening.basis)
        self._separated("learned", unit, white[:, :, half:], quiet, self._coins[:, half:], found, lower)

    def _separated(
        self,
        kind: str,
        unit: Array,
        white: Array,
        quiet: Array,
        coins: NDArray[np.bool_],
        found: dict[str, Evidence],
        lower: list[float],
    ) -> Array:
        scores = np.tensordot(unit, white, axes=(0, 1))
        noise = seen.spread(np.tensordot(unit, quiet, axes=(0, 1)))
        inside, outside = scores[coins], scores[~coins]
        found[f"canaries, {kind} filter"] = seen.separation(inside, outside, noise, self._mu)
        lower.append(seen.separation_lower_bound(inside, outside, noise, self._level))
        return scores


def _mean_difference(white: Array, coins: NDArray[np.bool_]) -> Array:
    """Mean with the canary less mean without, shape (T,)."""
    columns = white.transpose(1, 0, 2)
    return np.asarray(columns[:, coins].mean(axis=1) - columns[:, ~coins].mean(axis=1))


def _about_gradients(
    plan: _Plan, whitening: _Whitening, white: Array, coins: NDArray[np.bool_]
) -> dict[str, Evidence]:
    """The tests of the gradients of canaries, which do not refute privacy."""
    inside, outside = int(coins.sum()), int((~coins).sum())
    effective = seen.effective_number(inside, outside)
    if not effective:
        return {}
    difference = _mean_difference(white, coins)
    columns = white.transpose(1, 0, 2)
    absent = columns[:, ~coins].mean(axis=1)
    replaced = plan.budget.adjacency == "replace-one"
    left = absent + columns[:, coins].mean(axis=1) if replaced else absent  # with the one sign and with the other
    return {
        "trace of absent canaries": seen.trace_of_absent(
            left, effective if replaced else outside, whitening.drift * (2 if replaced else 1)
        ),
        "gradients of canaries": seen.profile(difference, whitening.signal, effective),
        "gradients of canaries, each participation": seen.participations(
            difference, whitening.signal, whitening.single, effective
        ),
    }


def _bounds(
    scores: Array, coins: NDArray[np.bool_], delta: float | None, level: float
) -> Iterator[tuple[str, float]]:
    """Lower bounds of ε for any noise, from counts."""
    if delta is None or not scores.any():
        return
    half = scores.shape[1] // 2
    threshold = float(np.median(scores[:, :half]))
    above, taken = scores[:, half:] > threshold, coins[:, half:]
    counts = int((above & ~taken).sum()), int((~taken).sum()), int((~above & taken).sum()), int(taken.sum())
    if counts[1] and counts[3]:
        yield "error rates, if coordinates have independent noise", epsilon_lower_bound(*counts, delta=delta, level=level)
    guesses = max(1, scores.shape[1] // 40)
    order = np.argsort(scores[0], kind="stable")
    right = int((~coins[0][order[:guesses]]).sum() + coins[0][order[-guesses:]].sum())
    value = one_run_epsilon_lower_bound(scores.shape[1], 2 * guesses, right, delta=delta, level=level)
    yield "one run, for any noise", value


# -- lone pairs --------------------------------------------------------------------------------------------------------


@record
class _Lone(Record):
    """Scores of lone pairs with and without the canary, and idle scores under the same filters, (groups, each)."""

    inside: Array
    outside: Array
    idle: Array
    runs: int


def _lone_scores(loop: Any, plan: _Plan, size: int, level: float, random: np.random.Generator) -> _Lone | None:
    """Runs in which each batch holds an opponent and, by a coin, a canary of the opposite sign; zero-out alone.

    Clipped one by one the sums are 0 with the canary and −G without.  Clipped as a whole they are G and −G.
    """
    if plan.budget.adjacency == "replace-one":
        return None
    patterns = _disjoint_patterns(plan.who)[: size // 3]
    pairs = len(patterns)
    each = (size - pairs) // pairs
    whitening = _Whitening(plan, np.arange(plan.who.length))
    signals = np.array([whitening.of(pattern) for pattern in patterns])
    needed = seen.canaries_needed(
        plan.mu,
        _LONE_FACTOR * float(np.linalg.norm(signals, axis=1).mean()),
        runs=2,
        idle=pairs * each,
        level=level / len(TESTS),
    )
    runs = min(2 * -(-needed // pairs), _MOST_LONE_RUNS)
    filters = signals / np.linalg.norm(signals, axis=1, keepdims=True) @ whitening.matrix / plan.scale
    coins = _coins(runs, pairs, random)
    scores = np.empty((runs, pairs))
    idle = np.empty((runs, pairs, each))
    for run, row in enumerate(coins):
        gradients = _lone(row, patterns, plan, size)
        if inspect.isclass(loop):
            with tempfile.TemporaryDirectory() as folder:
                found = _step_by_step(loop, gradients, gradients, (), Path(folder) / "run")
        else:
            found = _whole(loop, gradients, run)
        releases = np.array([found[step] for step in range(plan.who.length)])
        scores[run] = np.einsum("pt,tp->p", filters, releases[:, :pairs])
        quiet = releases[:, pairs : pairs * (1 + each)].reshape(-1, pairs, each)
        idle[run] = np.einsum("pt,tpk->pk", filters, quiet)
    return _Lone(scores[coins], scores[~coins], idle.reshape(-1, each), runs)


def _disjoint_patterns(who: Participation) -> list[NDArray[np.intp]]:
    """Patterns of one example each, of which no two share a step."""
    if who.once:
        return [np.array([step]) for step in range(who.length)]
    moved = [who.largest + first for first in range(who.period)]
    return [steps[steps < who.length] for steps in moved if steps[0] < who.length]


def _lone(coins: NDArray[np.bool_], patterns: list[NDArray[np.intp]], plan: _Plan, size: int) -> _Gradients:
    norm = plan.budget.clip_norm
    rows = [(np.zeros(0, dtype=np.intp), np.zeros(0))] * plan.who.length
    for coordinate, (there, steps) in enumerate(zip(coins, patterns, strict=True)):
        examples = np.full(1 + int(there) * plan.who.members, coordinate)
        lengths = np.where(np.arange(examples.size) == 0, -_EXCESS, _LONE_EXCESS) * norm
        for step in steps.tolist():
            rows[step] = examples, lengths
    return _Gradients(rows, size)
