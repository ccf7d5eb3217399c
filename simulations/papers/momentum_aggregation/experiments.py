"""Private algorithms on data at the same (ε, δ), each tuned on one half of its repetitions and judged on the other.

A *candidate* is an algorithm with its number of epochs and its momentum; it runs at all budgets, path lengths η T and
values of γ at once.  Repetition k has the same order of the examples in every run of momentum, so that differences
between them are paired.  All guarantees are for zero-out adjacency, where amplification by Poisson sampling is known,
at fixed parameters: no accountant covers the tuning, which looks at the data, as usual.

``DP-GD`` is full-batch descent and ``DP-SGD`` Poisson-sampled descent, both with normalised steps.  ``published tree``,
``exact tree`` and ``square root`` are Algorithm 1 with the published noise, with tree noise of the exact calibration,
and with ``NuFTRL(alpha)``.  ``Algorithm 2 published`` and ``Algorithm 2'`` are Algorithm 2.  ``no noise`` is
Algorithm 1 without noise, which is not private.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.papers.momentum_aggregation.methods import (
    GradientDescent,
    Momentum,
    PoissonDescent,
    PublishedMomentum,
    PublishedReducedMomentum,
    ReducedMomentum,
)
from corrnoise.simulations.papers.momentum_aggregation.runs import MomentumMethod, momentum_run
from corrnoise.theory.losses import EmpiricalRisk
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

MOMENTUM = ("published tree", "exact tree", "square root", "no noise")
REDUCED = ("Algorithm 2 published", "Algorithm 2'")
ALGORITHMS = ("DP-GD", "DP-SGD", *MOMENTUM, *REDUCED)
RUN_BYTES = 2**29  #: bytes that the runs of a candidate may keep from step to step
JUDGED = ("last iterate", "random iterate")


@record
class MomentumCandidate(Record):
    """An algorithm with the parameters that need a run of their own."""

    algorithm: str  #: one of ``ALGORITHMS``
    passes: int  #: epochs; for DP-GD the number of steps, and every step reads all examples
    alpha: float  #: α N for momentum, the sampling rate for DP-SGD, and not used by DP-GD
    paths: tuple[float, ...]  #: path lengths η T that are tried
    gammas: tuple[float, ...] = (0.0,)  #: values of γ that are tried, for Algorithm 2

    def __post_init__(self) -> None:
        self._check(algorithm=ALGORITHMS, passes=1)


def candidates(algorithm: str, *, thorough: bool = False) -> list[MomentumCandidate]:
    """The grid of an algorithm."""
    paths = (2.0, 4.0, 8.0, 16.0, 32.0) if thorough else (4.0, 8.0, 16.0)
    passes, alphas = {
        "DP-GD": ([1, 2, 4, 8, 16, 32, 64, 128] if thorough else [2, 8, 32, 128], [1.0]),
        "DP-SGD": ([4, 16, 64] if thorough else [16, 64], [1 / 4, 1 / 16]),
        **dict.fromkeys(MOMENTUM, ([1, 2, 4, 8], [1.0, 4.0, 16.0]) if thorough else ([2, 8], [1.0])),
        **dict.fromkeys(REDUCED, ([4, 8, 16], [1.0, 4.0]) if thorough else ([8], [1.0])),
    }[checks.choice("algorithm", algorithm, ALGORITHMS)]
    gammas = (0.3, 0.9) if algorithm in REDUCED else (0.0,)
    return [MomentumCandidate(algorithm, k, alpha, paths, gammas) for k in passes for alpha in alphas]


def gradient_norms(
    risk: EmpiricalRisk,
    candidate: MomentumCandidate,
    *,
    epsilons: Sequence[float],
    delta: float,
    repetitions: int,
    seed: int,
    start: Array | None = None,
) -> Array:
    """‖∇F‖ of all runs of a candidate.

    Returns the shape (budgets, settings, 2, repetitions): of the last iterate, and on average over the run.  A setting
    is a pair of γ and path length, γ slowest.  Orders and noise of a repetition depend on the seed alone.
    """
    budgets = checks.reals("epsilons", epsilons, "(0, inf)", ndim=1)
    together = _budgets_together(risk, candidate, repetitions)
    if together < len(budgets):  # a run depends on its seed, not on its neighbours
        parts = [budgets[first : first + together] for first in range(0, len(budgets), together)]
        named: dict[str, Any] = {"delta": delta, "repetitions": repetitions, "seed": seed, "start": start}
        return np.concatenate([gradient_norms(risk, candidate, epsilons=part.tolist(), **named) for part in parts])
    # Where no gradient is longer, nothing is clipped.
    stated = [Budget(epsilon=epsilon, delta=delta, clip_norm=risk.loss.lipschitz) for epsilon in budgets]
    column = np.array(stated, dtype=object)[:, np.newaxis]
    participation, method = _run_of(candidate, len(risk.examples))
    found = momentum_run(
        risk,
        None if candidate.algorithm == "no noise" else column[..., np.newaxis] if method.parameters() else column,
        participation,
        method=method,
        learning_rate=np.array(candidate.paths) / participation.length,
        start=start,
        repetitions=repetitions,
        rng=seed,
    )
    if candidate.algorithm == "no noise":  # the same at every budget
        found = found._replace(points=np.repeat(found.points[:, np.newaxis], len(budgets), axis=1))
    norms = found.gradient_norms(risk)  # (records + 1, budgets, …, repetitions)
    pair = (each.reshape(len(budgets), -1, repetitions) for each in (norms[-1], norms[:-1].mean(axis=0)))
    return np.stack(list(pair), axis=2)


def _budgets_together(risk: EmpiricalRisk, candidate: MomentumCandidate, repetitions: int) -> int:
    """How many budgets run at a time: Algorithm 2 keeps three arrays for each of the last N steps."""
    if candidate.algorithm not in REDUCED:
        return 10**6
    settings = len(candidate.paths) * len(candidate.gammas)
    return max(1, RUN_BYTES // (24 * len(risk.examples) * risk.loss.dimension * settings * repetitions))


def _run_of(candidate: MomentumCandidate, n: int) -> tuple[Participation, MomentumMethod]:
    """The participation and the method of a candidate with n examples."""
    if candidate.algorithm == "DP-GD":
        return Participation.min_sep(candidate.passes, 1), GradientDescent(normalised=True)
    if candidate.algorithm == "DP-SGD":
        steps = round(candidate.passes / candidate.alpha)
        return Participation.poisson(steps, candidate.alpha), PoissonDescent(normalised=True)
    alpha, gammas = min(candidate.alpha / n, 1.0), np.array(candidate.gammas)[:, np.newaxis]
    methods: dict[str, MomentumMethod] = {
        "published tree": PublishedMomentum(alpha),
        "exact tree": Momentum(alpha),
        "square root": Momentum(alpha, NuFTRL(alpha)),
        "no noise": Momentum(alpha),
        "Algorithm 2 published": PublishedReducedMomentum(alpha, gammas),
        "Algorithm 2'": ReducedMomentum(alpha, gammas),
    }
    return Participation.fixed_epochs(candidate.passes * n, period=n), methods[candidate.algorithm]


def tuned(norms: Array) -> tuple[NDArray[np.intp], Array]:
    """Choose the setting with the smallest mean over the first half of the repetitions, and judge it by the others.

    The norms of all candidates have the shape (budgets, settings, 2, repetitions) with at least two repetitions.
    Returns the chosen settings, shape (budgets, 2), and their norms, shape (budgets, 2, judged repetitions).
    """
    half = norms.shape[-1] // 2
    chosen = norms[..., :half].mean(axis=-1).argmin(axis=1)
    judged = np.take_along_axis(norms[..., half:], chosen[:, np.newaxis, :, np.newaxis], axis=1)[:, 0]
    return chosen, judged
