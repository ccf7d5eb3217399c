"""Clipping on the model problem: how large a clip norm a run needs, and what smaller ones do.

DP-FTRL clips gradients to norm G and adds noise of standard deviation m G, m the noise multiplier of the run.  On
linear regression with Gaussian inputs it coincides with Noisy-FTRL, whose error is known exactly, in the event ℰ that
no gradient of the run is longer than G (Section 2.3 of the paper).

``unclipped_clip_norm`` finds the G at which ℰ has probability 1 − p.  G raises the bar and the noise, but without
clipping a gradient is linear in the noise: its signed norm is a_t + G b_t, with a_t from the path of the data and b_t
from that of noise at G = 1.  So ℰ says |a_t u + b_t| <= 1 for all t at u = 1/G, and one simulation of both paths gives,
for each run, the whole interval of u without clipping.  Given the inputs, (b_t) is a centred Gaussian vector, so by
Anderson's inequality (1955) P(ℰ) falls in u: the admissible G are all those above a smallest one, and none, however
large, if already P(|b_t| <= 1 for all t) < 1 − p.

Source: Choquette-Choo et al., arXiv 2310.06771: Algorithm 1, Section 2.3, Theorem D.13.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from corrnoise.simulations.quadratic import input_moments, rational_engine
from corrnoise.simulations.quadratic_chain import draw_noise, empty_memory
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.correlated_noise.finite_time import FiniteRun, theorem_d11_upper_bound
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record


def _runs(
    run: FiniteRun, noise: ToeplitzNoise, chains: int, rng: Seed, data: Array, scales: Array, limits: Array
) -> Iterator[tuple[Array, Array]]:
    """Several settings on the same random numbers: yield signed gradient norms before clipping, and φ, at each step.

    A setting weights the data's path and the noise multiplier and has a clip norm, all of shape (settings, 1).  The
    norms have shape (settings, chains); φ_j = sqrt(λ_j) (θ_j − θ*_j), (settings, chains, d), is then updated in place.
    """
    problem = run.problem
    rng = generator(rng)
    input_moments(problem, "gaussian")  # refuses another kurtosis
    roots = np.sqrt(problem.eigenvalues)
    engine = rational_engine(problem, noise)
    drive = problem.learning_rate * roots * math.sqrt(engine.noise.variance(run.budget_at(1.0), run.participation))
    phi = data[..., np.newaxis] * np.broadcast_to(roots * run.initial_offset, (chains, roots.size))
    noisy = np.empty((chains, roots.size))
    memory = empty_memory(engine.filter, noisy.size)
    newest = 0
    for _ in range(run.steps):
        newest = draw_noise(rng, engine.filter, memory, newest, noisy.ravel())
        z = rng.standard_normal(noisy.shape)
        error = np.einsum("sij,ij->si", phi, z) - data * problem.residual_std * rng.standard_normal(chains)
        length = np.sqrt(z**2 @ problem.eigenvalues)
        yield error * length, phi
        error = np.clip(error, -limits / length, limits / length)
        phi -= error[..., np.newaxis] * (problem.rates * z) + scales[..., np.newaxis] * (drive * noisy)


class _Intervals:
    """For each run the interval of inverse clip norms u at which no gradient so far was clipped.

    A gradient has the signed norm a + G b, so that it is left alone if |a u + b| <= 1.
    """

    def __init__(self, runs: int) -> None:
        self.low = np.zeros(runs)
        self.high = np.full(runs, math.inf)

    def narrow(self, a: Array, b: Array) -> None:
        """Keep the u with |a u + b| <= 1, one a and b for each run; a run that diverges ends as an empty interval."""
        with np.errstate(all="ignore"):
            one_end = (-1.0 - b) / a
            other_end = (1.0 - b) / a
            self.low = np.maximum(self.low, np.minimum(one_end, other_end))
            self.high = np.minimum(self.high, np.maximum(one_end, other_end))

    def largest_inverses(self, few: int, many: int) -> tuple[float, float]:
        """The largest u with at most ``few`` failures on all of [0, u], and the largest with less than ``many`` at u.

        A run fails at u outside its interval: only beyond right ends does the number of failures grow.
        """
        kept = self.low <= self.high
        starts = np.sort(self.low[kept])
        ends = np.sort(self.high[kept])
        not_begun = self.low.size - np.searchsorted(starts, ends, "right")
        at = not_begun + np.searchsorted(ends, ends, "left")
        after = not_begun + np.searchsorted(ends, ends, "right")
        failures_at_0 = self.low.size - np.searchsorted(starts, 0.0, "right")
        enough = float(ends[np.argmax(after > few)]) if failures_at_0 <= few else 0.0
        return enough, float(ends[at < many].max(initial=0.0))


@dataclass(frozen=True)
class UnclippedClipNorm:
    """How large a clip norm leaves all gradients of a run unclipped with probability at least 1 − p.

    ``clip_norm`` is enough (``inf``: none was shown to be), less than ``lower_bound`` is not (``inf``: none is, as η is
    too large for the budget), each with ``confidence``.  ``theorem_clip_norm`` is Theorem D.13's with c = 4, which is
    C = 1, the least its proof allows; the theorem's own C is not known.
    """

    clip_norm: float
    lower_bound: float
    theorem_clip_norm: float
    confidence: float


def unclipped_clip_norm(
    run: FiniteRun,
    noise: ToeplitzNoise,
    *,
    chains: int,
    rng: Seed = None,
    confidence: float = 0.999,
) -> UnclippedClipNorm:
    """The smallest clip norm at which DP-FTRL clips nothing in a whole run with probability 1 − p, by simulation.

    P(ℰ) grows with G, so the hypotheses "G is not enough" are tested by the exact binomial test downwards from ∞ until
    one is not rejected, an order that needs no correction for their number.  The lower bound goes upwards from 0.

    The inputs must be known: a clip norm fitted to private data would not be private.  The clip norm of the run's
    budget plays no part, the noise has the σ² of its γ_T, and its rational approximation is run.  There are at least
    log(1 − confidence)/log(1 − p) chains, and each of the two statements is true with probability ``confidence``.
    """
    p, chains = run.failure_probability, checks.integer("chains", chains, 1)
    alpha = 1 - checks.real("confidence", confidence, "(0, 1)")
    few = int(binom.ppf(alpha, chains, p))
    many = int(binom.isf(alpha, chains, p)) + 1
    few -= int(binom.cdf(few, chains, p) > alpha)  # P(X <= few) <= α and P(X >= many) <= α for X ~ Bin(chains, p)
    if few < 0:
        least = math.ceil(math.log(alpha) / math.log1p(-p))
        raise ValueError(f"chains must be an integer >= {least} for this p and confidence, got {chains!r}")
    intervals = _Intervals(chains)
    data = np.array([[1.0], [0.0]])
    never = np.full((2, 1), math.inf)
    with np.errstate(all="ignore"):  # of runs that diverge
        for (a, b), _ in _runs(run, noise, chains, rng, data, 1 - data, never):
            intervals.narrow(a, b)
        enough, too_large = np.array(intervals.largest_inverses(few, many))
        clip_norm, lower_bound = 1 / enough, 1 / too_large
    return UnclippedClipNorm(
        float(clip_norm), float(lower_bound), run.theorem_d13_clip_norm(constant=4.0), float(confidence)
    )


@record
class ClippingStudy(Record):
    """DP-FTRL at the end of a run, for each clip norm G; arrays of shape (clip norms,).

    ``clipped_fraction`` is the share of clipped gradients and ``unclipped_runs`` that of runs without any, the event ℰ.
    ``excess_loss`` is E F(θ_T) − F*, with its ``standard_error``, and ``unclipped_excess_loss`` E [(F(θ_T) − F*) 1(ℰ)],
    which Theorem D.13 (c), corrected, bounds by ``upper_bound`` (``inf`` unless η R² < 1).  ``exact_excess_loss`` is
    that of Noisy-FTRL with the same noise (formula E2).
    """

    clip_norms: Array
    clipped_fraction: Array
    unclipped_runs: Array
    excess_loss: Array
    standard_error: Array
    unclipped_excess_loss: Array
    exact_excess_loss: Array
    upper_bound: Array


def clipping_study(
    run: FiniteRun,
    noise: ToeplitzNoise,
    clip_norms: ArrayLike,
    *,
    chains: int,
    rng: Seed = None,
) -> ClippingStudy:
    """How often DP-FTRL really clips in a run, and what that does to the loss at its end.

    All clip norms G > 0, shape (K,), see the same random numbers, of at least 2 chains.  The failure probability and
    the clip norm of ``run`` play no part.
    """
    problem = run.problem
    limits, chains = checks.reals("clip_norms", clip_norms, "(0, inf)", ndim=1), checks.integer("chains", chains, 2)
    exact, bounds = np.empty(limits.size), np.empty(limits.size)
    for k, g in enumerate(limits):
        budget = run.budget_at(float(g))
        bounds[k] = theorem_d11_upper_bound(problem, noise, run.steps, run.initial_error, budget=budget)
        exact[k] = problem.learning_curve(
            noise, run.steps, budget=budget, participation=run.participation, initial_offset=run.initial_offset
        )[-1]
    column = limits[:, np.newaxis]
    clipped = np.zeros((limits.size, chains))
    last = np.empty(0)
    for norms, phi in _runs(run, noise, chains, rng, np.ones_like(column), column, column):
        clipped += np.abs(norms) > column
        last = phi
    losses = np.square(last).sum(axis=2) / 2
    free = clipped == 0
    return ClippingStudy(
        limits,
        (clipped / run.steps).mean(axis=1),
        free.mean(axis=1),
        losses.mean(axis=1),
        losses.std(axis=1, ddof=1) / math.sqrt(chains),
        (losses * free).mean(axis=1),
        exact,
        bounds,
    )
