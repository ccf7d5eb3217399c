"""Baselines at the same budget: full-batch gradient descent, and minibatches with Poisson sampling.

A step subtracts η times the noisy mean gradient, or a vector of length η in its direction (``normalised``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.simulations.momentum_aggregation.descent import (
    Trajectories,
    clipped_gradients,
    direction,
    run_steps,
)
from corrnoise.simulations.momentum_aggregation.private import gradient_bound, starting_points
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.losses import EmpiricalRisk
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import safe_multiplier

_ORDERS = [*range(2, 65), 80, 96, 128, 192, 256, 512, 1024]  #: of Rényi divergences; closed forms for whole numbers


def private_gradient_descent(
    risk: EmpiricalRisk,
    *,
    steps: int,
    learning_rate: ArrayLike,
    rho: ArrayLike | None,
    adjacency: str,
    normalised: bool = False,
    clip_norm: float | None = None,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
) -> Trajectories:
    """DP-GD: T steps along the mean gradient of all examples with independent noise; ρ-zCDP.

    The mean changes by at most c G/N, with c = 2 for replace-one and c = 1 for zero-out adjacency, at each of T steps.

    Parameters
    ----------
    risk, learning_rate, rho, adjacency, clip_norm, start, repetitions, records, rng
        As for ``private.private_momentum``.
    steps
        T >= 1, each of which reads all examples.
    normalised
        Whether steps have length η.
    """
    rates, budgets = np.broadcast_arrays(
        checks.reals("learning_rate", learning_rate, "(0, inf)"),
        checks.reals("rho", 1.0 if rho is None else rho, "(0, inf)"),
    )
    t = checks.integer("steps", steps, 1)
    unit = checks.boolean("normalised", normalised)
    bound, clip = gradient_bound(checks.instance("risk", risk, EmpiricalRisk).loss, clip_norm)
    root = math.sqrt(t) * (1 + 1e-15)
    stds = [safe_multiplier(root, budget, adjacency) * bound / len(risk.examples) for budget in budgets.ravel()]
    scales = np.array(stds).reshape(-1, 1, 1) * (rho is not None)
    lengths = rates.reshape(-1, 1, 1)
    first = starting_points(risk.loss, start, checks.integer("repetitions", repetitions, 1))
    draws = generator(rng)

    def step(_: int, w: Array) -> Array:
        gradients = mean_clipped_gradients(risk, w, risk.examples, clip) + risk.regulariser_gradients(w)
        gradients = gradients + scales * draws.standard_normal(first.shape)
        return w - lengths * (direction(gradients) if unit else gradients)

    points = np.broadcast_to(first, (len(lengths), *first.shape)).copy()
    found = run_steps(step, points, t, checks.integer("records", records, 1), name="gradient descent")
    return found._replace(points=found.points.reshape(-1, *rates.shape, *first.shape))


def mean_clipped_gradients(risk: EmpiricalRisk, points: Array, examples: Array, clip_norm: float) -> Array:
    """Mean of the clipped gradients of ``examples``, without the regulariser; the shape of ``points``."""
    if clip_norm == math.inf:
        return risk.loss.mean_gradients(points, examples)
    total = np.zeros_like(points)
    for example in examples:
        total += clipped_gradients(risk.loss, points, example, clip_norm)
    return total / len(examples)


def poisson_noise_multiplier(
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    accountant: Literal["divergences", "loss distributions"] = "divergences",
) -> float:
    """σ/G of DP-SGD with Poisson sampling for (ε, δ) and zero-out adjacency, by dp-accounting.

    That of Rényi divergences is 5 to 9 per cent larger than that of numerical privacy loss distributions, which take a
    hundred times longer.

    Parameters
    ----------
    epsilon, delta
        The guarantee, ε > 0 and 0 < δ < 1.
    sampling_rate
        The probability q in (0, 1] with which each example takes part in a step.
    steps
        T >= 1.
    accountant
        ``"divergences"`` or ``"loss distributions"``.

    Raises
    ------
    ImportError
        dp-accounting is not installed (extra ``amplification``).
    """
    epsilon = checks.real("epsilon", epsilon, "(0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    q = checks.real("sampling_rate", sampling_rate, "(0, 1]")
    t = checks.integer("steps", steps, 1)
    chosen = checks.choice("accountant", accountant, ("divergences", "loss distributions"))
    try:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
        from dp_accounting.rdp import RdpAccountant
    except ImportError as error:
        raise ImportError(
            "amplification by sampling needs dp-accounting: pip install 'corrnoise[amplification]'"
        ) from error

    def event(multiplier: float) -> dp_accounting.DpEvent:
        step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(multiplier))
        return dp_accounting.SelfComposedDpEvent(step, t)

    def calibrated(fresh: Callable[[], Any], bracket: Any) -> float:
        return float(
            dp_accounting.calibrate_dp_mechanism(fresh, event, epsilon, delta, bracket_interval=bracket, tol=1e-4)
        )

    found = calibrated(lambda: RdpAccountant(_ORDERS), dp_accounting.LowerEndpointAndGuess(0.01, 1.0))
    if chosen == "loss distributions":  # which take much memory far below the answer
        found = calibrated(PLDAccountant, dp_accounting.LowerEndpointAndGuess(0.7 * found, found))
    return found


def private_sgd(
    risk: EmpiricalRisk,
    *,
    steps: int,
    sampling_rate: float,
    learning_rate: ArrayLike,
    noise_multiplier: ArrayLike,
    normalised: bool = False,
    clip_norm: float | None = None,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
) -> Trajectories:
    """DP-SGD with Poisson sampling: (Σ of the sampled gradients + z G N(0, I))/(q N) in every step.

    Parameters
    ----------
    risk, learning_rate, clip_norm, start, repetitions, records, rng
        As for ``private.private_momentum``.
    steps, normalised
        As for ``private_gradient_descent``.
    sampling_rate
        q in (0, 1].
    noise_multiplier
        z >= 0, as ``poisson_noise_multiplier`` gives it; a number or an array that is broadcast with η.
    """
    rates, multipliers = np.broadcast_arrays(
        checks.reals("learning_rate", learning_rate, "(0, inf)"),
        checks.reals("noise_multiplier", noise_multiplier, "[0, inf)"),
    )
    t = checks.integer("steps", steps, 1)
    q = checks.real("sampling_rate", sampling_rate, "(0, 1]")
    unit = checks.boolean("normalised", normalised)
    bound, clip = gradient_bound(checks.instance("risk", risk, EmpiricalRisk).loss, clip_norm)
    expected = q * len(risk.examples)
    lengths = rates.reshape(-1, 1, 1)
    scales = multipliers.reshape(-1, 1, 1) * bound / expected
    first = starting_points(risk.loss, start, checks.integer("repetitions", repetitions, 1))
    samples, noise = generator(rng).spawn(2)

    def step(_: int, w: Array) -> Array:
        gradients = risk.regulariser_gradients(w) + scales * noise.standard_normal(first.shape)
        for k, sampled in enumerate(samples.random((len(first), len(risk.examples))) < q):
            batch = risk.examples[sampled]
            if len(batch):
                gradients[:, k] += mean_clipped_gradients(risk, w[:, k], batch, clip) * (len(batch) / expected)
        return w - lengths * (direction(gradients) if unit else gradients)

    points = np.broadcast_to(first, (len(lengths), *first.shape)).copy()
    found = run_steps(step, points, t, checks.integer("records", records, 1), name="DP-SGD")
    return found._replace(points=found.points.reshape(-1, *rates.shape, *first.shape))
