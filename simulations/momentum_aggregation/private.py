"""Private runs with momentum: the noise that covers what runs, for a budget, and the run.

``private_momentum`` is Algorithm 1 with tree-aggregated noise, or with any other noise of this project in the same
loop.  ``private_reduced_momentum`` is Algorithm 2 with a repaired accounting (Algorithm 2').  ``published_momentum``
and ``published_reduced_momentum`` have the noise of the paper.  What is not covered is refused: losses whose gradients
have no bound without clipping, orders other than stated, the published noise where it is not sound.

Learning rates and budgets may be arrays, which are broadcast: all combinations run together, with the same orders and
starts.  A run covers the examples of ``risk``, for a start, learning rates and parameters that do not depend on them.

These are simulations with an ordinary generator and idealised real numbers.  For a release the seed must be secret, and
``NoiseStream.private`` covers rounding errors, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.simulations.momentum_aggregation.descent import (
    Orders,
    ReducedMomentum,
    Step,
    Trajectories,
    draw_orders,
    momentum_step,
    run_steps,
)
from corrnoise.simulations.momentum_aggregation.noise import (
    FilteredNoise,
    PrefixNoise,
    PublishedTrees,
    ReducedTrees,
)
from corrnoise.simulations.noise_stream import NoiseStream
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.losses import EmpiricalRisk, SmoothLoss
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.momentum_aggregation.calibration import node_std, published_node_std, reduced_noise
from corrnoise.theory.momentum_aggregation.orders import order_sensitivity
from corrnoise.theory.momentum_aggregation.published_reduced_noise import published_reduced_noise
from corrnoise.theory.momentum_aggregation.sensitivity import ORDERS, Order
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import safe_multiplier

Noise = Literal["tree"] | ToeplitzNoise | Mechanism


def gradient_bound(loss: SmoothLoss, clip_norm: float | None) -> tuple[float, float]:
    """The bound of the gradients of examples that a run uses, and the norm to which it clips (``inf``: not at all).

    Parameters
    ----------
    loss
        The loss of an example.
    clip_norm
        The norm to which gradients are clipped, > 0; None for no clipping.

    Raises
    ------
    ValueError
        There is no clipping, and the gradients have no bound.
    """
    if clip_norm is not None:
        clip = checks.real("clip_norm", clip_norm, "(0, inf)")
        return min(clip, loss.lipschitz), clip if clip < loss.lipschitz else math.inf
    if loss.lipschitz == math.inf:
        raise ValueError(f"clip_norm must lie in (0, inf) for a loss whose gradients have no bound, {loss!r}, got None")
    return loss.lipschitz, math.inf


def private_momentum(
    risk: EmpiricalRisk,
    *,
    steps: int,
    alpha: float,
    learning_rate: ArrayLike,
    rho: ArrayLike | None,
    order: Order,
    adjacency: str,
    noise: Noise = "tree",
    clip_norm: float | None = None,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Algorithm 1: normalised steps along a private momentum, with tree-aggregated or any other noise.

    The run is ρ-zCDP.  Tree noise is added to the momentum; other noise is added to the gradients, and the momentum is
    what it shows.  ``NuFTRL(alpha)`` is the square root of the momentum, close to the optimum.

    Parameters
    ----------
    risk
        The mean loss of the private examples and its regulariser, which is data-independent.
    steps
        T >= 1; an epoch has as many steps as there are examples, one example each.
    alpha
        The momentum is m_t = (1 − α) m_{t−1} + α ∇f(w_t; x_t) from m_0 = 0, 0 < α <= 1.
    learning_rate
        η > 0, the length of every step: a number or an array.
    rho
        Budget of the whole run (zCDP), a number or an array of shape that is broadcast with η; None for a run without
        noise, which is not private.
    order
        ``"fixed"`` for one random order in all epochs, ``"reshuffled"`` for a new one in each.
    adjacency
        ``"zero-out"`` or ``"replace-one"``.
    noise
        ``"tree"``, correlated noise such as ``NuFTRL(alpha)`` or ``DPSGD()``, or a ``Mechanism`` of T steps that
        ``NoiseStream`` runs.
    clip_norm
        Norm to which gradients of examples are clipped; None for the bound that the loss has.
    start
        w_1, shape (d,), or (repetitions, d); None for 0.  It must not depend on the examples.
    repetitions
        Independent runs of each setting, >= 1.
    records
        Number of iterates that are recorded, besides the last.
    rng
        Of orders and noise.
    progress
        Show progress on standard error; None for: if it is a terminal.

    Returns
    -------
    Trajectories
        Recorded steps, and points of shape (records + 1, …, repetitions, d) with the broadcast shape of η and ρ.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, the gradients have no bound, or the noise is for another number of steps.

    Examples
    --------
    >>> from corrnoise.theory.losses import EmpiricalRisk, MarginLoss
    >>> rows = np.random.default_rng(0).standard_normal((64, 3))
    >>> rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    >>> risk = EmpiricalRisk(MarginLoss("sigmoid", 3, 1.0), rows, 0.02)
    >>> run = {"steps": 256, "alpha": 1 / 64, "learning_rate": 0.02, "order": "fixed", "adjacency": "zero-out"}
    >>> found = private_momentum(risk, rho=0.5, **run, rng=1)
    >>> found.points.shape
    (33, 1, 3)
    """
    lengths, budgets, shape = _settings(learning_rate, rho)
    plan = _plan(risk, steps, alpha, order, clip_norm, start, repetitions, records, rng)
    if isinstance(noise, str):
        checks.choice("noise", noise, ("tree",))
        unit: Iterator[Array] = PrefixNoise(plan.steps, plan.alpha, plan.shape, plan.noise)
        stds = [
            node_std(
                steps=plan.steps,
                examples=plan.examples,
                alpha=plan.alpha,
                lipschitz=plan.bound,
                rho=budget,
                order=order,
                adjacency=adjacency,
            )
            for budget in budgets
        ]
    else:
        mechanism = _mechanism(noise, plan.steps)
        unit = FilteredNoise(NoiseStream(mechanism, plan.shape, rng=plan.noise), plan.alpha)
        sensitivity = order_sensitivity(mechanism, plan.examples, order)
        stds = [safe_multiplier(sensitivity, budget, adjacency) * plan.bound for budget in budgets]
    step = momentum_step(
        risk,
        plan.orders,
        alpha=plan.alpha,
        lengths=lengths,
        noise=None if rho is None else unit,
        scales=np.array(stds).reshape(-1, 1, 1),
        clip_norm=plan.clip,
    )
    return plan.run(step, len(lengths), shape, "momentum", progress)


def published_momentum(
    risk: EmpiricalRisk,
    *,
    steps: int,
    alpha: float,
    learning_rate: ArrayLike,
    epsilon: ArrayLike,
    delta: float,
    order: Order,
    adjacency: str,
    height: int | None = None,
    clip_norm: float | None = None,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Algorithm 1 with its published noise, which is (ε, δ)-private; refused where that is not sound.

    Parameters
    ----------
    risk, steps, alpha, learning_rate, order, clip_norm, start, repetitions, records, rng, progress
        As for ``private_momentum``.
    epsilon, delta, height
        As for ``calibration.published_node_std``; ε may be an array that is broadcast with η.
    adjacency
        ``"replace-one"`` as published; for ``"zero-out"`` half the noise, since a gradient changes by G, not 2 G.

    Raises
    ------
    ValueError
        The number of examples does not divide ``steps``, α is below 1/N, δ > e^{−ε}, or the height is too small.
    """
    lengths, budgets, shape = _settings(learning_rate, epsilon, name="epsilon")
    plan = _plan(risk, steps, alpha, order, clip_norm, start, repetitions, records, rng)
    factor = {"replace-one": 1.0, "zero-out": 0.5}[checks.choice("adjacency", adjacency, ("replace-one", "zero-out"))]
    stds = [
        published_node_std(
            steps=plan.steps,
            examples=plan.examples,
            alpha=plan.alpha,
            lipschitz=plan.bound * factor,
            epsilon=budget,
            delta=delta,
            height=height,
        )
        for budget in budgets
    ]
    step = momentum_step(
        risk,
        plan.orders,
        alpha=plan.alpha,
        lengths=lengths,
        noise=PrefixNoise(plan.steps, plan.alpha, plan.shape, plan.noise),
        scales=np.array(stds).reshape(-1, 1, 1),
        clip_norm=plan.clip,
    )
    return plan.run(step, len(lengths), shape, "published momentum", progress)


def private_reduced_momentum(
    risk: EmpiricalRisk,
    *,
    steps: int,
    alpha: float,
    gamma: ArrayLike,
    learning_rate: ArrayLike,
    rho: ArrayLike | None,
    order: Order,
    adjacency: str,
    clip_norm: float | None = None,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Algorithm 2 with smaller sensitivity, in the form in which it is private (Algorithm 2').

    Three gradients a step, O(N d) memory.  The noise rests on the smoothness of the loss and on steps of length η.  In
    reshuffled orders the run is as private, but its momentum has the defect of Lemma 17.

    Parameters
    ----------
    risk, steps, alpha, learning_rate, rho, order, adjacency, clip_norm, start, repetitions, records, rng, progress
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    gamma
        0 <= γ < 1, a number or an array that is broadcast with η and ρ.

    Raises
    ------
    ValueError
        There is one example only, γ = 1, or the loss has no finite smoothness.

    Examples
    --------
    >>> from corrnoise.theory.losses import EmpiricalRisk, MarginLoss
    >>> risk = EmpiricalRisk(MarginLoss("sigmoid", 2, 1.0), np.eye(2))
    >>> run = {"steps": 6, "alpha": 0.5, "gamma": 0.3, "learning_rate": 0.1, "order": "fixed", "adjacency": "zero-out"}
    >>> private_reduced_momentum(risk, rho=[0.1, 1.0], **run, rng=1).points.shape
    (7, 2, 1, 2)
    """
    rates, budgets, gammas = np.broadcast_arrays(
        checks.reals("learning_rate", learning_rate, "(0, inf)"),
        checks.reals("rho", 1.0 if rho is None else rho, "(0, inf)"),
        checks.reals("gamma", gamma, "[0, 1)"),
    )
    plan = _plan(risk, steps, alpha, order, clip_norm, start, repetitions, records, rng, least=2)
    smoothness = risk.loss.smoothness
    if smoothness == math.inf:
        raise ValueError(f"loss must have a finite smoothness, got {risk.loss!r}")
    column = (-1, 1, 1)
    lengths = rates.reshape(column)
    noise = None
    if rho is not None:
        found = [
            reduced_noise(
                steps=plan.steps,
                examples=plan.examples,
                alpha=plan.alpha,
                gamma=g,
                learning_rate=eta,
                lipschitz=plan.bound,
                smoothness=smoothness,
                rho=budget,
                order=order,
                adjacency=adjacency,
            )
            for eta, budget, g in zip(rates.flat, budgets.flat, gammas.flat, strict=True)
        ]
        stds = [(one.gradients, one.combined, one.remainders) for one in found]
        first, second, third = (np.array(tree).reshape(column) for tree in zip(*stds, strict=True))
        scales = (first, second, third)
        noise = ReducedTrees(plan.steps, plan.examples, plan.alpha, plan.shape, scales, plan.noise)
    step = ReducedMomentum(
        risk,
        plan.orders,
        alpha=plan.alpha,
        gammas=gammas.reshape(column),
        lengths=lengths,
        noise=noise,
        clip_norm=plan.clip,
    )
    return plan.run(step, len(lengths), rates.shape, "reduced momentum", progress)


def published_reduced_momentum(
    risk: EmpiricalRisk,
    *,
    steps: int,
    alpha: float,
    gamma: ArrayLike,
    learning_rate: ArrayLike,
    epsilon: ArrayLike,
    delta: float,
    order: Order,
    adjacency: str,
    clip_norm: float | None = None,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Algorithm 2 with its published noise and L restored, which is (ε, δ)-private; refused where that is not sound.

    Parameters
    ----------
    risk, steps, alpha, gamma, learning_rate, order, clip_norm, start, repetitions, records, rng, progress
        As for ``private_reduced_momentum``; γ may be 1 here.
    epsilon, delta
        As for ``published_reduced_noise``; ε may be an array that is broadcast with η and γ.
    adjacency
        ``"replace-one"`` as published; for ``"zero-out"`` half the noise.

    Raises
    ------
    ValueError
        What ``published_reduced_noise`` refuses.
    """
    rates, budgets, gammas = np.broadcast_arrays(
        checks.reals("learning_rate", learning_rate, "(0, inf)"),
        checks.reals("epsilon", epsilon, "(0, inf)"),
        checks.reals("gamma", gamma, "[0, 1]"),
    )
    plan = _plan(risk, steps, alpha, order, clip_norm, start, repetitions, records, rng, least=2)
    factor = {"replace-one": 1.0, "zero-out": 0.5}[checks.choice("adjacency", adjacency, ("replace-one", "zero-out"))]
    found = [
        published_reduced_noise(
            steps=plan.steps,
            examples=plan.examples,
            alpha=plan.alpha,
            learning_rate=rate,
            lipschitz=plan.bound,
            smoothness=risk.loss.smoothness,
            epsilon=budget,
            delta=delta,
            order=order,
        )
        for rate, budget in zip(rates.flat, budgets.flat, strict=True)
    ]
    column = (-1, 1, 1)
    stds = [(one.early, one.differences, one.remainders, one.late) for one in found]
    early, differences, remainders, late = (factor * np.array(tree).reshape(column) for tree in zip(*stds, strict=True))
    noise = PublishedTrees(
        plan.steps,
        plan.examples,
        plan.alpha,
        plan.shape,
        (early, differences, remainders),
        plan.noise,
        gammas=gammas.reshape(column),
        late=late,
    )
    step = ReducedMomentum(
        risk,
        plan.orders,
        alpha=plan.alpha,
        gammas=gammas.reshape(column),
        lengths=rates.reshape(column),
        noise=noise,
        clip_norm=plan.clip,
    )
    return plan.run(step, rates.size, rates.shape, "published reduced momentum", progress)


@dataclass(frozen=True)
class _Plan:
    """What the runs share: checked arguments, the orders, the starts, and the generator of the noise."""

    examples: int
    bound: float  # of the gradients of examples
    clip: float
    steps: int
    alpha: float
    records: int
    orders: Orders
    start: Array
    noise: np.random.Generator

    @property
    def shape(self) -> tuple[int, ...]:
        """(repetitions, d)."""
        return self.start.shape

    def run(self, step: Step, settings: int, shape: tuple[int, ...], name: str, progress: bool | None) -> Trajectories:
        """Run all settings from the start; their axis gets the shape that was asked for."""
        start = np.broadcast_to(self.start, (settings, *self.shape)).copy()
        found = run_steps(step, start, self.steps, self.records, name=name, progress=progress)
        return found._replace(points=found.points.reshape(-1, *shape, *self.shape))


def _plan(
    risk: EmpiricalRisk,
    steps: int,
    alpha: float,
    order: Order,
    clip_norm: float | None,
    start: ArrayLike | None,
    repetitions: int,
    records: int,
    rng: Seed,
    *,
    least: int = 1,
) -> _Plan:
    n = len(checks.instance("risk", risk, EmpiricalRisk).examples)
    if n < least:
        raise ValueError(f"risk must have at least {least} examples, got {n}")
    bound, clip = gradient_bound(risk.loss, clip_norm)
    t = checks.integer("steps", steps, 1)
    kind = checks.choice("order", order, ORDERS)
    first = starting_points(risk.loss, start, checks.integer("repetitions", repetitions, 1))
    orders, noise = generator(rng).spawn(2)
    return _Plan(
        examples=n,
        bound=bound,
        clip=clip,
        steps=t,
        alpha=checks.real("alpha", alpha, "(0, 1]"),
        records=checks.integer("records", records, 1),
        orders=draw_orders(n, t, kind, len(first), orders),
        start=first,
        noise=noise,
    )


def starting_points(loss: SmoothLoss, start: ArrayLike | None, repetitions: int) -> Array:
    """w_1 of each repetition, shape (repetitions, d)."""
    first = np.zeros(loss.dimension) if start is None else checks.reals("start", start)
    if first.shape not in ((loss.dimension,), (repetitions, loss.dimension)):
        raise ValueError(
            f"start must have shape ({loss.dimension},) or ({repetitions}, {loss.dimension}), got {first.shape}"
        )
    return np.broadcast_to(first, (repetitions, loss.dimension)).copy()


def _settings(
    learning_rate: ArrayLike, budget: ArrayLike | None, *, name: str = "rho"
) -> tuple[Array, list[float], tuple[int, ...]]:
    """η of shape (settings, 1, 1), the budget of each setting (1 for none), and the shape of the settings."""
    rates, budgets = np.broadcast_arrays(
        checks.reals("learning_rate", learning_rate, "(0, inf)"),
        checks.reals(name, 1.0 if budget is None else budget, "(0, inf)"),
    )
    return rates.reshape(-1, 1, 1).astype(float), budgets.ravel().tolist(), rates.shape


def _mechanism(noise: object, steps: int) -> Mechanism:
    if isinstance(noise, ToeplitzNoise):
        return noise
    if not isinstance(noise, Mechanism):
        raise TypeError(f"noise must be 'tree', correlated noise or a Mechanism, got {noise!r:.80}")
    if noise.steps != steps:
        raise ValueError(f"noise must have steps={steps} as the run, got {noise.steps}")
    return noise
