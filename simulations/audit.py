"""An audit of a private training loop, with two answers: is it as private as claimed, and is its noise as claimed?

The auditor hands the loop gradients of a special kind.  *Canaries* are examples, each with a gradient in a coordinate
of its own that is far longer than the clip norm.  They take part in the steps of one pattern of the run, or in none, by
the toss of a fair coin.  The loop clips, sums and adds its noise as it always does, and the auditor sees what it would
release.  Other coordinates are *idle*: they show the noise alone.

*As private as claimed?*  The auditor undoes the correlation of the noise, scores each canary by the matched filter, and
compares the scores with the coins (``theory.auditing``).  Too little noise is found, and a clip norm that is too large.

*Noise as claimed?*  The noise of the idle coordinates, with its correlation undone, must be white and of variance 1.
Noise that has lost its correlation is not less private, so that the first answer cannot notice it, but less useful.

An audit can refute a claim and cannot prove one.  The order of the data is not audited: the auditor chooses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.signal import oaconvolve
from scipy.special import betainc, chdtr, chdtrc, erfc

from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.simulations.run.stream import Stream
from corrnoise.theory.auditing import (
    epsilon_lower_bound,
    gaussian_detection_power,
    gaussian_lower_bound,
    one_run_epsilon_lower_bound,
    one_run_gaussian_lower_bound,
)
from corrnoise.theory.mechanisms.base import LARGEST_MATRIX
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Adjacency, Budget, gaussian_epsilon

Coins = NDArray[np.bool_]

#: A loop: the gradients of the examples of each step, arrays of shape (examples, d), become releases, (steps, d).
Release = Callable[[Sequence[Array]], Array]

_EXCESS = 16.0  # times the clip norm: the length of a canary before the loop clips it
_LAGS = 20


@record
class PrivacyTest(Record):
    """One lower bound of ε, beside the claimed ε; ``passed`` if it does not exceed the claim."""

    name: str
    lower_bound: float
    claimed: float

    @property
    def passed(self) -> bool:
        """Whether the claim stands."""
        return self.lower_bound <= self.claimed


@record
class NoiseTest(Record):
    """One property of the noise with its correlation undone: a z-score and its two-sided p-value.

    ``passed`` if the p-value is at least ``level``.
    """

    name: str
    z: float
    p_value: float
    level: float

    @property
    def passed(self) -> bool:
        """Whether the noise is as claimed in this respect."""
        return self.p_value >= self.level


@record
class Audit(Record):
    """What an audit found.

    Attributes
    ----------
    epsilon, delta, mu
        The claim: (ε, δ), and μ = sqrt(2ρ) of the Gaussian mechanism.
    canaries, idle, runs
        Numbers of canaries and of idle coordinates of a run, and of runs.
    level
        The probability with which a loop that is as claimed fails, at most, for either answer.
    privacy, noise
        The tests behind the two answers.
    """

    epsilon: float
    delta: float
    mu: float
    canaries: int
    idle: int
    runs: int
    level: float
    privacy: tuple[PrivacyTest, ...]
    noise: tuple[NoiseTest, ...]

    @property
    def private_as_claimed(self) -> bool:
        """No test refutes the claimed privacy."""
        return all(test.passed for test in self.privacy)

    @property
    def noise_as_claimed(self) -> bool:
        """No test refutes the claimed noise."""
        return all(test.passed for test in self.noise)

    @property
    def epsilon_lower_bound(self) -> float:
        """The largest lower bound of ε; the truth is below it with probability ``level`` at most."""
        return max(test.lower_bound for test in self.privacy)

    @property
    def power(self) -> float:
        """How probably noise of half the claimed size is refuted by the Gaussian test alone."""
        scores = max(1, self.runs * self.canaries * 3 // 8)
        return gaussian_detection_power(self.mu, 2.0, scores, self.level / len(self.privacy))

    def report(self) -> str:
        """Both answers and what they rest on, as text."""
        answer = {True: "nothing found against it", False: "REFUTED"}
        worst = sorted(self.noise, key=lambda test: test.p_value)[:3]
        lines = [
            f"claim: epsilon {self.epsilon:.4g} at delta {self.delta:.3g}, a Gaussian mechanism with mu {self.mu:.4g}",
            f"{self.canaries} canaries and {self.idle} idle coordinates, {self.runs} runs, level {self.level:g}",
            f"private as claimed? {answer[self.private_as_claimed]}",
            *(
                f"  {'ok     ' if test.passed else 'REFUTED'} epsilon >= {test.lower_bound:.3f}: {test.name}"
                for test in self.privacy
            ),
            f"  noise of half the claimed size would be refuted with probability {self.power:.2f} or more",
            f"the noise as claimed? {answer[self.noise_as_claimed]}",
            *(
                f"  {'ok     ' if test.passed else 'REFUTED'} z = {test.z:.1f}, p = {test.p_value:.2g}: {test.name}"
                for test in worst
            ),
            f"  {len(self.noise)} tests; these have the smallest p-values",
        ]
        return "\n".join(lines)


def audit(
    release: Release,
    budget: Budget,
    program: Program,
    *,
    delta: float | None = None,
    canaries: int = 1000,
    idle: int = 1000,
    runs: int = 1,
    level: float = 0.01,
    rng: Seed = None,
) -> Audit:
    """Audit a training loop: is it as private as claimed, and is its noise as claimed?

    Parameters
    ----------
    release
        The loop.  It is called once a run with a sequence of n arrays of shape (examples, d), the gradients of the
        examples of each of the n steps before clipping, with d = ``canaries`` + ``idle``.  It returns what it would
        release, the sums of the clipped gradients plus noise, as an array of shape (n, d).  It must take fresh noise
        at each call.
    budget
        What the loop claims to spend, and the norm to which it claims to clip; ``run.budget`` of a private run.
    program
        The noise that the loop claims to add, and the participation for which it is private; ``run.program`` of a
        private run.  The loop claims noise of the standard deviation ``program.scale(budget)``.
    delta
        δ in (0, 1) at which ε is stated; None for that of the budget.
    canaries, idle
        Numbers of coordinates with a canary and without, each at least 8.
    runs
        How often the loop is run.  With two runs or more, noise that repeats is found.
    level
        How probably a loop that is as claimed may fail, for either answer, in (0, 1).
    rng
        For the coins: an integer, ``SeedSequence``, ``Generator`` or None.

    Returns
    -------
    The answers with the tests behind them; ``report()`` puts them into words.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or the loop returned something else than finite numbers of this shape.

    Notes
    -----
    The four lower bounds of ε share ``level`` equally, as do the tests of the noise.  The two bounds for independent
    scores assume that the noise of different coordinates is independent, which the second answer tests.  A canary takes
    part in the steps 0, b, 2b, …; its μ is that of the whole mechanism if the strategy is nonnegative and its
    autocorrelations fall, and smaller otherwise: the audit is then valid and weaker.

    Examples
    --------
    >>> from corrnoise.theory.mechanisms.product import NuFTRL
    >>> program = NuFTRL(0.01).program(Participation.min_sep(40, 10), form="transform")
    >>> budget = Budget(rho=0.1)
    >>> def loop(batches):
    ...     stream = Stream(program, batches[0].shape[1], budget=budget)
    ...     clipped = [batch / np.maximum(1, np.linalg.norm(batch, axis=1, keepdims=True)) for batch in batches]
    ...     return np.array([gradients.sum(axis=0) + noise for gradients, noise in zip(clipped, stream)])
    >>> found = audit(loop, budget, program, delta=1e-5, canaries=400, idle=100, rng=1, level=1e-6)
    >>> found.private_as_claimed, found.noise_as_claimed
    (True, True)
    """
    checks.instance("budget", budget, Budget)
    who = checks.instance("program", program, Program).participation.worst
    at = budget.delta if delta is None else delta
    if at is None:
        raise ValueError("delta must be given for a budget of rho, got None")
    checks.real("delta", at, "(0, 1)")
    checks.real("level", level, "(0, 1)")
    canaries = checks.integer("canaries", canaries, 8)
    idle = checks.integer("idle", idle, 8)
    runs = checks.integer("runs", runs, 1)
    steps = who.length
    whitened = _Whitening(program, steps)
    unit = program.scale(budget)
    random = generator(rng)

    coins = random.integers(2, size=(runs, canaries)).astype(bool)
    filtered = whitened.pattern(who)
    scores = np.empty((runs, canaries))
    quiet = np.empty((runs, steps, idle))
    for run in range(runs):
        white = whitened(_released(release, _batches(coins[run], idle, who, budget.clip_norm, budget.adjacency))) / unit
        scores[run] = filtered @ white[:, :canaries]
        quiet[run] = white[:, canaries:]
    epsilon = budget.epsilon_at(at)
    return Audit(
        epsilon,
        float(at),
        math.sqrt(2 * budget.gaussian_rho),
        canaries,
        idle,
        runs,
        float(level),
        tuple(_privacy_tests(scores.ravel(), coins.ravel(), epsilon, at, level)),
        tuple(_noise_tests(quiet, who, level)),
    )


def stream_release(budget: Budget, program: Program, *, rng: Seed = None) -> Release:
    """A loop that clips, sums, and adds the noise of a program: what this package itself would run.

    Parameters
    ----------
    budget, program
        As for ``audit``.
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


class _Whitening:
    """C: what undoes the correlation of the noise of a run, for arrays of shape (steps, …)."""

    def __init__(self, program: Program, steps: int) -> None:
        noise = program.mechanism
        self._column: Array | None = None
        self._matrix: Array | None = None
        if isinstance(noise, ToeplitzNoise):
            self._column = noise.inverse_coefficients(steps)
        elif steps > LARGEST_MATRIX:
            raise ValueError(
                f"program must have at most {LARGEST_MATRIX} steps for {type(noise).__name__}, got {steps}"
            )
        else:
            self._matrix = noise.strategy()

    def __call__(self, releases: Array) -> Array:
        if self._matrix is not None:
            return np.asarray(self._matrix @ releases)
        assert self._column is not None
        return np.asarray(oaconvolve(releases, self._column[:, np.newaxis], axes=0)[: len(releases)])

    def pattern(self, who: Participation) -> Array:
        """The matched filter of a canary: C x of norm 1, where x is 1 at the steps of the largest pattern."""
        steps = np.zeros((who.length, 1))
        steps[who.largest] = 1.0
        whitened = self(steps)[:, 0]
        return np.asarray(whitened / np.linalg.norm(whitened))


def _batches(coins: Coins, idle: int, who: Participation, clip_norm: float, adjacency: Adjacency) -> list[Array]:
    """The gradients of the canaries at each step; all steps of the pattern share one array.

    A canary whose coin says no is left out, or replaced by its negative for replace-one adjacency.
    """
    canaries = coins.size
    signs = np.where(coins, 1.0, -1.0 if adjacency == "replace-one" else 0.0)
    present = np.flatnonzero(signs)
    rows = np.zeros((present.size, canaries + idle))
    rows[np.arange(present.size), present] = signs[present] * _EXCESS * clip_norm
    nobody = np.zeros((0, canaries + idle))
    taking_part = set(who.largest.tolist())
    return [rows if t in taking_part else nobody for t in range(who.length)]


def _released(release: Release, batches: list[Array]) -> Array:
    found = np.asarray(release(batches), dtype=float)
    shape = len(batches), batches[0].shape[1]
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"release must return finite numbers of shape {shape}, got shape {found.shape}")
    return found


# -- as private as claimed? --------------------------------------------------------------------------------------------


def _privacy_tests(scores: Array, coins: Coins, epsilon: float, delta: float, level: float) -> Iterator[PrivacyTest]:
    each = level / 4
    quarter = scores.size // 4
    threshold = _middle(scores[:quarter], coins[:quarter])
    above = scores[quarter:] > threshold
    taken = coins[quarter:]
    counts = int((above & ~taken).sum()), int((~taken).sum()), int((~above & taken).sum()), int(taken.sum())
    if counts[1] and counts[3]:
        by_counts = epsilon_lower_bound(*counts, delta=delta, level=each)
        mu = gaussian_lower_bound(*counts, level=each)
    else:
        by_counts = mu = 0.0
    yield PrivacyTest("error rates, (epsilon, delta)", by_counts, epsilon)
    yield PrivacyTest("error rates, Gaussian mechanism", _epsilon(mu, delta), epsilon)

    # Which canaries are guessed is decided by the scores alone, the number of guesses beforehand.
    few = _correct(scores, coins, scores.size // 20)
    yield PrivacyTest(
        "one run, (epsilon, delta), the most certain twentieth",
        one_run_epsilon_lower_bound(scores.size, *few, delta=delta, level=each),
        epsilon,
    )
    many = _correct(scores, coins, scores.size // 5)
    mu = one_run_gaussian_lower_bound(scores.size, *many, level=each)
    yield PrivacyTest("one run, Gaussian mechanism, the most certain fifth", _epsilon(mu, delta), epsilon)


def _epsilon(mu: float, delta: float) -> float:
    return gaussian_epsilon(mu**2 / 2, delta) if mu > 0 else 0.0


def _middle(scores: Array, coins: Coins) -> float:
    """The middle between the mean scores of those that took part and those that did not."""
    if coins.all() or not coins.any():
        return float(scores.mean())
    return float(scores[coins].mean() + scores[~coins].mean()) / 2


def _correct(scores: Array, coins: Coins, guesses: int) -> tuple[int, int]:
    """How many guesses are made, and how many are right: the lowest scores are guessed out, the highest in."""
    half = max(1, guesses // 2)
    order = np.argsort(scores, kind="stable")
    return 2 * half, int((~coins[order[:half]]).sum() + coins[order[-half:]].sum())


# -- noise as claimed? -------------------------------------------------------------------------------------------------


def _noise_tests(white: Array, who: Participation, level: float) -> Iterator[NoiseTest]:
    """Tests of white noise of variance 1, shape (runs, steps, coordinates)."""
    found = list(_z_scores(white, who))
    for name, z, p_value in found:
        yield NoiseTest(name, z, p_value, level / len(found))


def _z_scores(white: Array, who: Participation) -> Iterator[tuple[str, float, float]]:
    runs, steps, _ = white.shape
    squares = float((white**2).sum())
    z = (squares - white.size) / math.sqrt(2 * white.size)
    tails = chdtr(white.size, squares), chdtrc(white.size, squares)
    yield "variance", z, min(1.0, 2 * float(min(tails)))
    z = float(white.sum()) / math.sqrt(white.size)
    yield "mean", z, float(erfc(abs(z) / math.sqrt(2)))
    epochs = range(who.period, who.period * who.count, who.period)
    for lag in sorted({*range(1, min(_LAGS, steps - 1) + 1), *epochs}):
        yield _product(f"correlation of steps {lag} apart", white[:, lag:], white[:, : steps - lag])
    yield _product("correlation of neighbouring coordinates", white[:, :, 1:], white[:, :, :-1])
    if runs > 1:
        yield _product("correlation of successive runs", white[1:], white[:-1])


def _product(name: str, first: Array, second: Array) -> tuple[str, float, float]:
    """Cosine of the angle between two vectors, times the square root of their length n.

    For independent normal vectors its square over n has the distribution Beta(1/2, (n − 1)/2).
    """
    cosine = float(np.vdot(first, second)) / math.sqrt(float(np.vdot(first, first)) * float(np.vdot(second, second)))
    p_value = float(betainc((first.size - 1) / 2, 0.5, max(0.0, 1 - cosine**2)))
    return name, cosine * math.sqrt(first.size), p_value
