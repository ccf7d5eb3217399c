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

from corrnoise.simulations.papers.momentum_aggregation.baselines import (
    private_gradient_descent,
    private_sgd,
)
from corrnoise.simulations.papers.momentum_aggregation.descent import Trajectories
from corrnoise.simulations.papers.momentum_aggregation.private import (
    private_momentum,
    private_reduced_momentum,
    published_momentum,
    published_reduced_momentum,
)
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
_MEMORY = 2**29  #: bytes that the runs of a candidate may keep from step to step
JUDGED = ("last iterate", "random iterate")


@record
class Candidate(Record):
    """An algorithm with the parameters that need a run of their own."""

    algorithm: str  #: one of ``ALGORITHMS``
    passes: int  #: epochs; for DP-GD the number of steps, each of which reads all examples
    alpha: float  #: α N for momentum, the sampling rate for DP-SGD, and not used by DP-GD
    paths: tuple[float, ...]  #: path lengths η T that are tried
    gammas: tuple[float, ...] = (0.0,)  #: values of γ that are tried, for Algorithm 2

    def __post_init__(self) -> None:
        self._check(algorithm=ALGORITHMS, passes=1)


def candidates(algorithm: str, *, thorough: bool = False) -> list[Candidate]:
    """The grid of an algorithm."""
    paths = (2.0, 4.0, 8.0, 16.0, 32.0) if thorough else (4.0, 8.0, 16.0)
    gammas: tuple[float, ...] = (0.0,)
    alphas = [1.0, 4.0, 16.0] if thorough else [1.0]
    if checks.choice("algorithm", algorithm, ALGORITHMS) == "DP-GD":
        passes = [1, 2, 4, 8, 16, 32, 64, 128] if thorough else [2, 8, 32, 128]
        alphas = [1.0]
    elif algorithm == "DP-SGD":
        passes = [4, 16, 64] if thorough else [16, 64]
        alphas = [1 / 4, 1 / 16]
    elif algorithm in REDUCED:
        passes = [4, 8, 16] if thorough else [8]
        alphas = [1.0, 4.0] if thorough else [1.0]
        gammas = (0.3, 0.9)
    else:
        passes = [1, 2, 4, 8] if thorough else [2, 8]
    return [Candidate(algorithm, k, alpha, paths, gammas) for k in passes for alpha in alphas]


def gradient_norms(
    risk: EmpiricalRisk,
    candidate: Candidate,
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
    if together < len(budgets):  # runs of one seed do not depend on what runs beside them
        parts = [budgets[first : first + together] for first in range(0, len(budgets), together)]
        named: dict[str, Any] = {"delta": delta, "repetitions": repetitions, "seed": seed, "start": start}
        return np.concatenate([gradient_norms(risk, candidate, epsilons=part.tolist(), **named) for part in parts])
    # Where no gradient is longer, nothing is clipped.
    stated = [Budget(epsilon=epsilon, delta=delta, clip_norm=risk.loss.lipschitz) for epsilon in budgets]
    column = np.array(stated, dtype=object)[:, np.newaxis]
    shared: dict[str, Any] = {"repetitions": repetitions, "rng": seed, "start": start}
    n = len(risk.examples)
    steps = candidate.passes * n
    paths = np.array(candidate.paths)
    if candidate.algorithm == "DP-GD":
        full: dict[str, Any] = shared | {"steps": candidate.passes, "normalised": True}
        found = private_gradient_descent(risk, column, learning_rate=paths / candidate.passes, **full)
    elif candidate.algorithm == "DP-SGD":
        sampling = Participation.poisson(round(candidate.passes / candidate.alpha), candidate.alpha)
        found = private_sgd(risk, column, sampling, learning_rate=paths / sampling.length, normalised=True, **shared)
    else:
        run: dict[str, Any] = shared | {"alpha": min(candidate.alpha / n, 1.0), "learning_rate": paths / steps}
        found = _momentum(risk, candidate, column, Participation.fixed_epochs(steps, period=n), run)
    norms = found.gradient_norms(risk)  # (records + 1, budgets, …, repetitions)
    last = norms[-1]
    mean = norms[:-1].mean(axis=0)
    pair = np.stack([last.reshape(len(budgets), -1, repetitions), mean.reshape(len(budgets), -1, repetitions)], axis=2)
    return np.asarray(pair)


def _budgets_together(risk: EmpiricalRisk, candidate: Candidate, repetitions: int) -> int:
    """How many budgets run at a time: Algorithm 2 keeps three arrays for each of the last N steps."""
    if candidate.algorithm not in REDUCED:
        return 10**6
    settings = len(candidate.paths) * len(candidate.gammas)
    return max(1, _MEMORY // (24 * len(risk.examples) * risk.loss.dimension * settings * repetitions))


def _momentum(
    risk: EmpiricalRisk, candidate: Candidate, budgets: Any, participation: Participation, run: dict[str, Any]
) -> Trajectories:
    if candidate.algorithm == "published tree":
        return published_momentum(risk, budgets, participation, **run)
    if candidate.algorithm in REDUCED:
        run["gamma"] = np.array(candidate.gammas)[:, np.newaxis]
        published = candidate.algorithm == "Algorithm 2 published"
        reduced = published_reduced_momentum if published else private_reduced_momentum
        return reduced(risk, budgets[..., np.newaxis], participation, **run)
    if candidate.algorithm == "no noise":  # the same at every budget
        found = private_momentum(risk, None, participation, **run)
        points = np.repeat(found.points[:, np.newaxis], len(budgets), axis=1)
        return found._replace(points=points)
    mechanism = None if candidate.algorithm == "exact tree" else NuFTRL(run["alpha"])
    return private_momentum(risk, budgets, participation, mechanism=mechanism, **run)


def tuned(norms: Array) -> tuple[NDArray[np.intp], Array]:
    """Choose the setting with the smallest mean over the first half of the repetitions, and judge it by the others.

    The norms of all candidates have the shape (budgets, settings, 2, repetitions) with at least two repetitions.
    Returns the chosen settings, shape (budgets, 2), and their norms, shape (budgets, 2, judged repetitions).
    """
    half = norms.shape[-1] // 2
    chosen = norms[..., :half].mean(axis=-1).argmin(axis=1)
    judged = np.take_along_axis(norms[..., half:], chosen[:, np.newaxis, :, np.newaxis], axis=1)[:, 0]
    return chosen, judged
