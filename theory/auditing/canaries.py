"""Tests of canaries: gradients in coordinates of their own that are there or not by the toss of a coin.

The claim is one Gaussian mechanism of parameter μ = sqrt(2ρ).  For *any* covariance of normal noise and any filter u,
the scores u·W of a canary have means with and without it that differ by at most μ times their standard deviation, since
to compute the score is to process the release further.  With ŝ from N₀ idle scores under the same filter,

    t = (mean with − mean without)/ŝ · sqrt(e),   e = n₁ n₀/(n₁ + n₀),

is noncentral t with N₀ degrees of freedom and a noncentrality of at most μ sqrt(e).  So noise of another covariance
that is not weaker is not called less private.  A filter that was learned from other canaries is valid for the same
reason.  The largest score, less the mean without, is noncentral t with e = n₀/(n₀ + 1).
"""

from __future__ import annotations

import bisect
import math
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, chdtrc, ndtr
from scipy.stats import nct

from corrnoise.theory.auditing.epsilon import largest_refuted
from corrnoise.theory.auditing.evidence import Evidence, evidence
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_TAIL_PROBABILITY = 1e-9  # of the binomial distribution, left out from below
_MAX_DEVIATIONS = 39.0  # standard deviations
_PATTERN_SHIFTS = 32  # of the pattern, which the learned filter combines
_POWER = 0.99  # to be reached
_CLIP_MARGIN = 1e-3  # of the clipping norm: clipping to slightly less is as claimed


class Spread(NamedTuple):
    """Standard deviation of the scores of idle coordinates, and its degrees of freedom."""

    size: float
    freedom: int


def spread(scores: Array) -> Spread:
    """The spread of idle scores, shape (groups, n): each group has a mean of its own."""
    groups, count = scores.shape
    freedom = groups * (count - 1)
    return Spread(math.sqrt(float(((scores - scores.mean(axis=1, keepdims=True)) ** 2).sum()) / freedom), freedom)


def _score(difference: float, size: float, effective: float) -> float:
    if size == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / size * math.sqrt(effective)


def _above(t: float, freedom: int, ncp: float) -> float:
    """P[T > t] of a noncentral T.

    The series of SciPy may not converge where the probability or its complement is below 1e-150.  It then returns 0 or
    1 with a warning, which says nothing about the audit.
    """
    deviations = (t - ncp) / math.hypot(1.0, t / math.sqrt(2 * freedom)) if math.isfinite(t) else t
    if abs(deviations) >= _MAX_DEVIATIONS:
        return float(deviations < 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(nct.sf(t, freedom, ncp))


def effective_number(inside: int, outside: int) -> float:
    """E = n₁ n₀/(n₁ + n₀)."""
    return inside * outside / (inside + outside) if inside and outside else 0.0


def separation(inside: Array, outside: Array, noise: Spread, mu: float) -> Evidence:
    """The difference of the means of scores with and without the canary.

    Parameters
    ----------
    inside, outside : array of float
        Scores with and without, vectors.
    noise : Spread
        Of idle scores under the same filter.
    mu : float
        μ of the claim.

    Returns
    -------
    str
        The difference in units of the spread of the noise, which is at most μ as claimed.
    """
    effective = effective_number(inside.size, outside.size)
    if not effective:
        return evidence(0.0, 1.0)
    t = _score(float(inside.mean() - outside.mean()), noise.size, effective)
    return evidence(t / math.sqrt(effective), _above(t, noise.freedom, mu * math.sqrt(effective)))


def separation_lower_bound(inside: Array, outside: Array, noise: Spread, level: float) -> float:
    """The largest μ that ``separation`` refutes at this level, in [0, 2000]; 0 if there is none."""
    return largest_refuted(lambda mu: separation(inside, outside, noise, mu).p <= level)


def largest_score(inside: Array, outside: Array, noise: Spread, mu: float) -> Evidence:
    """The largest score with a canary, less the mean without, among all: it finds one canary that is not clipped."""
    if not (inside.size and outside.size):
        return evidence(0.0, 1.0)
    effective = outside.size / (outside.size + 1)
    t = _score(float(inside.max() - outside.mean()), noise.size, effective)
    found = evidence(t, _above(t, noise.freedom, mu * math.sqrt(effective)))
    return found.among(inside.size)


def shifts(pattern: Array) -> Array:
    """A pattern of steps, shape (T,), moved so that it begins at each of the first 32 steps, shape (T, 32 or T)."""
    steps = pattern.size
    first = int(np.flatnonzero(pattern)[0])
    found = np.zeros((steps, min(steps, _PATTERN_SHIFTS)))
    for begin in range(found.shape[1]):
        later = max(begin - first, 0)
        earlier = max(first - begin, 0)
        found[later : steps - earlier, begin] = pattern[earlier : steps - later]
    return found


def learned_filter(difference: Array, basis: Array) -> Array:
    """The filter of norm 1 that a difference of means shows.

    Parameters
    ----------
    difference : array of float
        Mean with less mean without, of white releases of some canaries, shape (T,).
    basis : array of float
        Signals that the filter combines, shape (T, number).
    """
    orthogonal = np.linalg.qr(basis)[0]
    found = orthogonal @ (orthogonal.T @ difference)
    return np.asarray(found / max(float(np.linalg.norm(found)), 1e-300))


def group_of_piles(scores: Array, members: int, freedom: int, mu: float) -> Evidence:
    """The sum of the standardised scores of piles, each of examples that together move a release by ``members`` · μ.

    Parameters
    ----------
    scores : array of float
        Differences of two runs over √2 times the spread of the noise, a vector: with a mean of at most
        ``members`` · μ/√2 as claimed.
    members : int
        Examples of a pile.
    freedom : int
        Degrees of freedom of the spread.
    mu : float
        μ of the claim.

    Returns
    -------
    Evidence
        The μ that the mean shows.
    """
    if not scores.size:
        return evidence(0.0, 1.0)
    t = float(scores.sum()) / math.sqrt(scores.size)
    shown = float(scores.mean()) * math.sqrt(2) / members
    return evidence(shown, _above(t, freedom, members * mu * math.sqrt(scores.size / 2)))


def influence(changes: Array, noise: Spread, mu: float) -> Evidence:
    """Differences of pairs of runs that one example makes in a direction of others, at most μ each as claimed."""
    if not changes.size:
        return evidence(0.0, 1.0)
    t = _score(float(changes.mean()), noise.size, changes.size / 2)
    return evidence(
        t / math.sqrt(changes.size / 2), 2 * _above(abs(t), noise.freedom, mu * math.sqrt(changes.size / 2))
    )


def sums_as_claimed(rest: Array, claimed: Array, where: str, *, above_alone: bool = False) -> Evidence:
    """Whether the sum of N(0, 1) numbers, less the claim, is 0, up to the margin of clipping; two-sided or above."""
    if not rest.size:
        return evidence(0.0, 1.0)
    score = float(rest.sum()) / math.sqrt(rest.size)
    margin = _CLIP_MARGIN * float(np.abs(claimed).sum()) / math.sqrt(rest.size)
    distance = score if above_alone else abs(score)
    return evidence(score, (1 if above_alone else 2) * ndtr(-max(0.0, distance - margin)), where)


def trace_of_absent(means: Array, effective: float, drift: Array) -> Evidence:
    """Whether absent canaries leave a trace: |mean|² of white releases, shape (T,), times their number.

    Parameters
    ----------
    means : array of float
        The mean.
    effective : float
        One over the variance of an entry.
    drift : array of float
        As for ``noise.offset``.
    """
    norm = float(np.linalg.norm(means)) * math.sqrt(effective)
    allowed = float(np.linalg.norm(drift, axis=0).sum()) * math.sqrt(effective)
    return evidence(norm, chdtrc(means.size, max(0.0, norm - allowed) ** 2))


# -- power -------------------------------------------------------------------------------------------------------------


def score_power(mu: float, signal: float, effective: float, freedom: int, level: float) -> float:
    """How probably a test of means refutes μ if the means really differ by ``signal`` standard deviations.

    Parameters
    ----------
    mu, signal : float
        μ > 0 of the claim, and the truth, >= 0.
    effective : float
        One over the variance of the difference of means, in units of the noise: n²a/2 for a piles of n examples.
    freedom : int
        Degrees of freedom of the spread.
    level : float
        Of the test, in (0, 1).

    Returns
    -------
    float
    """
    root = math.sqrt(effective)
    return _above(float(nct.isf(level, freedom, mu * root)), freedom, signal * root) if effective else 0.0


def piles_needed(mu: float, signal: float, *, members: int, freedom: int, level: float, most: int) -> int:
    """The smallest number of piles with power 0.99, or ``most``; arguments as for ``score_power``."""

    def enough(piles: int) -> bool:
        return score_power(mu, signal, members**2 * piles / 2, freedom, level) >= _POWER

    return bisect.bisect_left(range(1, most), True, key=enough) + 1


def separation_power(mu: float, signal: float, *, canaries: int, runs: int, idle: int, level: float) -> float:
    """How probably ``separation`` refutes μ if the means really differ by ``signal`` standard deviations.

    Parameters
    ----------
    mu : float
        μ > 0 of the claim.
    signal : float
        >= 0.
    canaries, runs, idle : int
        Canaries and idle coordinates of a run, and runs.  The second, fourth, … run has the coins of the run
        before it, turned over; the last run of an odd number has independent coins.
    level : float
        Of the test, in (0, 1).

    Returns
    -------
    float
        The exact probability, a sum over the coins of the last run if the number of runs is odd; never too large by
        more than 1e-9.
    """
    checks.real("mu", mu, "(0, inf)")
    checks.real("signal", signal, "[0, inf)")
    freedom = runs * (idle - 1)
    fixed = canaries * (runs // 2)
    if runs % 2 == 0:
        return score_power(mu, signal, effective_number(fixed, fixed), freedom, level)
    counts = np.arange(canaries + 1)
    chances = np.diff(bdtr(counts, canaries, 0.5), prepend=0.0)
    total = 0.0
    for count in counts[: canaries // 2 + 1]:  # heads and tails may be exchanged
        weight = float(chances[count]) * (1 if 2 * count == canaries else 2)
        if weight > _TAIL_PROBABILITY / canaries:
            effective = effective_number(fixed + int(count), fixed + canaries - int(count))
            total += weight * score_power(mu, signal, effective, freedom, level)
    return total


def canaries_needed(
    mu: float, signal: float, *, runs: int, idle: int, level: float, power: float = _POWER, most: int = 2**20
) -> int:
    """The smallest number of canaries of a run that gives ``separation`` the power.

    Parameters
    ----------
    mu, signal : float
        As for ``separation_power``, with ``signal`` > ``mu``.
    runs, idle : int
        As for ``separation_power``, with ``signal`` > ``mu``.
    level : float
        As for ``separation_power``, with ``signal`` > ``mu``.
    power : float, default 0.99
        In (0, 1).
    most : int, optional
        The largest result; if more are needed, the result is one more.
    """

    def enough(canaries: int) -> bool:
        return separation_power(mu, signal, canaries=canaries, runs=runs, idle=idle, level=level) >= power

    high = 1
    while high < most and not enough(high):
        high = min(2 * high, most)
    if not enough(high):
        return most + 1
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
