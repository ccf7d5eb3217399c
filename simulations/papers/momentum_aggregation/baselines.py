"""Baselines at the same budget: full-batch gradient descent, and minibatches with Poisson sampling.

A step subtracts η times the noisy mean gradient, or a vector of length η in its direction (``normalised``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.simulations.papers.momentum_aggregation.descent import Trajectories, clipped_gradients, direction
from corrnoise.simulations.papers.momentum_aggregation.private import Budgets, Settings
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.losses import EmpiricalRisk, MarginLoss, TwoLayerNetwork
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_PROVED = (MarginLoss, TwoLayerNetwork)  #: losses, subclasses not among them, whose stated bound is a theorem


@usual_float_errors
def private_gradient_descent(
    risk: EmpiricalRisk,
    budget: Budgets | None,
    *,
    steps: int,
    learning_rate: ArrayLike,
    normalised: bool = False,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
) -> Trajectories:
    """DP-GD: T steps along the mean gradient of all examples with independent noise.

    The mean changes by at most c G/N, with c = 2 for replace-one and c = 1 for zero-out adjacency, at each of T steps.

    Parameters
    ----------
    risk : EmpiricalRisk
        As for ``private.private_momentum``.
    budget : Budget, sequence of Budget or None
        As for ``private.private_momentum``.
    learning_rate : array_like
        As for ``private.private_momentum``.
    start : array_like, optional
        As for ``private.private_momentum``.
    repetitions : int, default 1
        As for ``private.private_momentum``.
    records : int, default 32
        As for ``private.private_momentum``.
    rng : int, SeedSequence or Generator, optional
        As for ``private.private_momentum``.
    steps : int
        T >= 1, each of which reads all examples.
    normalised : bool, default False
        Whether steps have length η.

    Returns
    -------
    Trajectories
    """
    run = Settings.of(risk, budget, start, repetitions, records, learning_rate=learning_rate)
    t = checks.integer("steps", steps, 1)
    unit = checks.boolean("normalised", normalised)
    everywhere = DPSGD().sensitivity_upper_bound(Participation.min_sep(t, 1))
    scales = _scales(run, lambda one: one.multiplier(everywhere) / len(risk.examples))
    lengths = run.column("learning_rate")
    draws = generator(rng)

    def step(_: int, w: Array) -> Array:
        gradients = mean_clipped_gradients(risk, w, risk.examples, run.clip) + risk.regulariser_gradients(w)
        gradients = gradients + scales * draws.standard_normal(run.start.shape)
        return w - lengths * (direction(gradients) if unit else gradients)

    return run.run(step, t, "gradient descent")


def _scales(run: Settings, multiplier: Callable[[Budget], float]) -> Array:
    """Standard deviations of the noise of each setting, shape (settings, 1, 1); 0 without a budget."""
    if run.budgets is None:
        return np.zeros((1, 1, 1))
    return run.each(lambda one, *_: (multiplier(one) * run.bound,))[0]


def mean_clipped_gradients(risk: EmpiricalRisk, points: Array, examples: Array, clip_norm: float) -> Array:
    """Mean of the clipped gradients of ``examples``, without the regulariser; the shape of ``points``."""
    proved = type(risk.loss) in _PROVED and clip_norm >= risk.loss.lipschitz
    if clip_norm == math.inf or proved:
        return risk.loss.mean_gradients(points, examples)
    total = np.zeros_like(points)
    for example in examples:
        total += clipped_gradients(risk.loss, points, example, clip_norm)
    return total / len(examples)


@usual_float_errors
def private_sgd(
    risk: EmpiricalRisk,
    budget: Budgets | None,
    participation: Participation,
    *,
    learning_rate: ArrayLike,
    normalised: bool = False,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
) -> Trajectories:
    """DP-SGD with Poisson sampling: (Σ of the sampled gradients + z G N(0, I))/(q N) in every step.

    Parameters
    ----------
    risk : EmpiricalRisk
        As for ``private.private_momentum``.
    learning_rate : array_like
        As for ``private.private_momentum``.
    start : array_like, optional
        As for ``private.private_momentum``.
    repetitions : int, default 1
        As for ``private.private_momentum``.
    records : int, default 32
        As for ``private.private_momentum``.
    rng : int, SeedSequence or Generator, optional
        As for ``private.private_momentum``.
    budget : Budget, sequence of Budget or None
        ε, δ and zero-out adjacency, which give z by the certified accountant; an array of budgets is broadcast with η,
        and None is a run without noise.
    participation : Participation
        Of the kind ``"poisson"``: T steps, and the probability q with which each example takes part in a step.
    normalised : bool, default False
        As for ``private_gradient_descent``.

    Returns
    -------
    Trajectories
    """
    if checks.instance("participation", participation, Participation).kind != "poisson":
        raise ValueError(f"participation must be of the kind 'poisson', got {participation!r}")
    t, q = participation.length, participation.rate
    assert q is not None
    run = Settings.of(risk, budget, start, repetitions, records, learning_rate=learning_rate)
    unit = checks.boolean("normalised", normalised)
    expected = q * len(risk.examples)
    program = DPSGD().program(participation)
    scales = _scales(run, lambda one: program.multiplier(one) / expected)
    lengths = run.column("learning_rate")
    samples, noise = generator(rng).spawn(2)

    def step(_: int, w: Array) -> Array:
        gradients = risk.regulariser_gradients(w) + scales * noise.standard_normal(run.start.shape)
        for k, sampled in enumerate(samples.random((len(run.start), len(risk.examples))) < q):
            batch = risk.examples[sampled]
            if len(batch):
                gradients[:, k] += mean_clipped_gradients(risk, w[:, k], batch, run.clip) * (len(batch) / expected)
        return w - lengths * (direction(gradients) if unit else gradients)

    return run.run(step, t, "DP-SGD")
