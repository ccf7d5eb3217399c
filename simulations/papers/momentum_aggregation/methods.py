"""The methods of ``momentum_run``: a class each, with its parameters and the noise that covers its steps.

``Momentum`` is Algorithm 1 with tree noise, or with any other mechanism.  ``ReducedMomentum`` is Algorithm 2 with a
repaired accounting (Algorithm 2').  ``PublishedMomentum`` and ``PublishedReducedMomentum`` have the noise of the paper.
``GradientDescent`` and ``PoissonDescent`` are baselines at the same budget: full batches, and minibatches with Poisson
sampling.  Each method raises a ``ValueError`` where its noise does not cover the run.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.simulations.papers.momentum_aggregation.descent import (
    Orders,
    ReducedMomentumSteps,
    Step,
    clipped_gradients,
    direction,
    draw_orders,
    momentum_step,
)
from corrnoise.simulations.papers.momentum_aggregation.runs import MomentumMethod, MomentumPlan
from corrnoise.simulations.papers.momentum_aggregation.tree_noise import (
    PublishedTrees,
    ReducedTrees,
    WeightedSums,
    unit_noise,
)
from corrnoise.theory.losses import EmpiricalRisk, MarginLoss, TwoLayerNetwork
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record
from corrnoise.theory.papers.momentum_aggregation.calibration import published_node_std, reduced_noise
from corrnoise.theory.papers.momentum_aggregation.published_reduced_noise import published_reduced_noise
from corrnoise.theory.participation import FixedEpochs, Poisson, Reshuffled
from corrnoise.theory.privacy import Budget

_PROVED_LOSSES = (MarginLoss, TwoLayerNetwork)  # subclasses not among them; their stated bound is a theorem


def _epochs(plan: MomentumPlan, rng: np.random.Generator) -> tuple[Orders, np.random.Generator]:
    """The orders of a run in epochs of one step an example, and the generator of its noise."""
    who, n = plan.participation.worst, len(plan.risk.examples)
    if not isinstance(who, FixedEpochs | Reshuffled) or who.period != n or not who.saturated:
        raise ValueError(
            f"participation must be in epochs of one step an example, period={n}, got {plan.participation!r}"
        )
    orders, noise = rng.spawn(2)
    return draw_orders(who, len(plan.start), orders), noise


def _momentum(
    plan: MomentumPlan, rng: np.random.Generator, alpha: float, mechanism: Mechanism, scale: Callable[[Budget], float]
) -> Step:
    """Algorithm 1 with the noise of a mechanism, whose standard deviation a budget gives."""
    orders, draws = _epochs(plan, rng)
    noise, scales = None, np.ones((1, 1, 1))
    if plan.budgets is not None:
        noise = WeightedSums(unit_noise(mechanism, plan.participation.length, plan.start.shape, draws), alpha)
        (scales,) = plan.each(lambda one: (scale(one),))
    lengths = plan.column("learning_rate")
    return momentum_step(
        plan.risk, orders, alpha=alpha, lengths=lengths, noise=noise, scales=scales, clip_norm=plan.clip
    )


@record
class Momentum(MomentumMethod):
    """Algorithm 1: normalised steps along a momentum, with tree-aggregated or any other noise.

    The noise is added to the gradients.  ``NuFTRL(alpha)`` is the square root of the momentum, close to the optimum.
    The participation is ``fixed_epochs`` for one random order in all epochs, or ``reshuffled`` for a new one in each,
    with one example a step.

    Parameters
    ----------
    alpha : float
        α of the momentum m_t = (1 − α) m_{t−1} + α ∇f(w_t; x_t) from m_0 = 0, in (0, 1].
    mechanism : Mechanism, optional
        The noise; ``BinaryTree(T, decoder="binary", decay=alpha)``, as published, by default.
    """

    name: ClassVar[str] = "momentum"
    alpha: float
    mechanism: Mechanism | None = None

    def __post_init__(self) -> None:
        self._check(alpha="(0, 1]", mechanism=Mechanism)

    def step(self, plan: MomentumPlan, rng: np.random.Generator) -> Step:
        mechanism = self.mechanism or BinaryTree(plan.participation.length, decoder="binary", decay=self.alpha)
        sensitivity = mechanism.sensitivity_upper_bound(mechanism.of_this_run(plan.participation))
        return _momentum(
            plan, rng, self.alpha, mechanism, lambda one: self.alpha * one.multiplier(sensitivity) * plan.bound
        )


@record
class PublishedMomentum(MomentumMethod):
    """Algorithm 1 with its published noise, which is (ε, δ)-private where N divides T, α ≥ 1/N and δ ≤ e^{−ε}.

    Parameters
    ----------
    alpha : float
        As for ``Momentum``.
    height : int, optional
        As for ``calibration.published_node_std``.
    """

    name: ClassVar[str] = "published momentum"
    needs_budget: ClassVar[bool] = True
    alpha: float
    height: int | None = None

    def __post_init__(self) -> None:
        self._check(alpha="(0, 1]")

    def step(self, plan: MomentumPlan, rng: np.random.Generator) -> Step:
        who = plan.participation
        tree = BinaryTree(who.length, decoder="binary", decay=self.alpha)

        def scale(one: Budget) -> float:
            return published_node_std(plan.bounded(one), who, alpha=self.alpha, height=self.height)

        return _momentum(plan, rng, self.alpha, tree, scale)


@record
class ReducedMomentum(MomentumMethod):
    """Algorithm 2 with smaller sensitivity, in its private form (Algorithm 2').

    It takes three gradients a step and O(N d) memory.  The noise rests on steps of length η and on the smoothness that
    the loss states; gradients are held to it.  In reshuffled orders the run is as private, but its momentum has the
    defect of Lemma 17.  There must be two examples at least, and the loss must have a finite smoothness.

    Parameters
    ----------
    alpha : float
        As for ``Momentum``.
    gamma : array_like
        γ in [0, 1), broadcast with budgets and learning rates.
    """

    name: ClassVar[str] = "reduced momentum"
    gamma_range: ClassVar[str] = "[0, 1)"
    alpha: float
    gamma: ArrayLike

    def __post_init__(self) -> None:
        self._check(alpha="(0, 1]")
        self._set(gamma=checks.reals("gamma", self.gamma, self.gamma_range))

    def parameters(self) -> dict[str, ArrayLike]:
        return {"gamma": self.gamma}

    def _trees(self, plan: MomentumPlan, smoothness: float, draws: np.random.Generator) -> ReducedTrees | None:
        """The noise of the trees; None for a run without noise."""
        if plan.budgets is None:
            return None

        def stds(one: Budget, length: float, gamma: float) -> tuple[float, ...]:
            run = {"alpha": self.alpha, "gamma": gamma, "learning_rate": length, "smoothness": smoothness}
            found = reduced_noise(plan.bounded(one), plan.participation, **run)
            return found.gradients, found.combined, found.remainders

        first, second, third = plan.each(stds, "learning_rate", "gamma")
        shape = plan.participation.length, len(plan.risk.examples), self.alpha, plan.start.shape
        return ReducedTrees(*shape, (first, second, third), draws)

    def step(self, plan: MomentumPlan, rng: np.random.Generator) -> Step:
        orders, draws = _epochs(plan, rng)
        smoothness = plan.risk.loss.smoothness
        if len(plan.risk.examples) < 2:
            raise ValueError(f"risk must have at least 2 examples, got {len(plan.risk.examples)}")
        if smoothness == math.inf:
            raise ValueError(f"loss must have a finite smoothness, got {plan.risk.loss!r}")
        return ReducedMomentumSteps(
            plan.risk,
            orders,
            alpha=self.alpha,
            gammas=plan.column("gamma"),
            lengths=plan.column("learning_rate"),
            noise=self._trees(plan, smoothness, draws),
            clip_norm=plan.clip,
            smoothness=math.inf if plan.budgets is None else smoothness,
        )


@record
class PublishedReducedMomentum(ReducedMomentum):
    """Algorithm 2 with its published noise and L restored, which is (ε, δ)-private where all its nodes are; γ <= 1."""

    name: ClassVar[str] = "published reduced momentum"
    needs_budget: ClassVar[bool] = True
    gamma_range: ClassVar[str] = "[0, 1]"

    def _trees(self, plan: MomentumPlan, smoothness: float, draws: np.random.Generator) -> ReducedTrees:
        def stds(one: Budget, length: float) -> tuple[float, ...]:
            run = {"alpha": self.alpha, "learning_rate": length, "smoothness": smoothness}
            found = published_reduced_noise(plan.bounded(one), plan.participation, **run)
            return found.early, found.differences, found.remainders, found.late

        *scales, late = plan.each(stds, "learning_rate")
        shape = plan.participation.length, len(plan.risk.examples), self.alpha, plan.start.shape
        return PublishedTrees(*shape, tuple(scales), draws, gammas=plan.column("gamma"), late=late)


def mean_clipped_gradients(risk: EmpiricalRisk, points: Array, examples: Array, clip_norm: float) -> Array:
    """Mean of the clipped gradients of ``examples``, without the regulariser; the shape of ``points``."""
    proved = type(risk.loss) in _PROVED_LOSSES and clip_norm >= risk.loss.lipschitz
    if clip_norm == math.inf or proved:
        return risk.loss.mean_gradients(points, examples)
    total = np.zeros_like(points)
    for example in examples:
        total += clipped_gradients(risk.loss, points, example, clip_norm)
    return total / len(examples)


@record
class GradientMethod(MomentumMethod):
    """Steps of η times noisy gradients without momentum.

    Parameters
    ----------
    normalised : bool, default False
        Whether steps have length η instead.
    """

    normalised: bool = False

    def __post_init__(self) -> None:
        self._check(normalised=bool)

    @abstractmethod
    def _gradients(self, plan: MomentumPlan, rng: np.random.Generator) -> Step:
        """The function that gives the noisy gradients at w_t from t and w_t."""

    def step(self, plan: MomentumPlan, rng: np.random.Generator) -> Step:
        lengths, gradients = plan.column("learning_rate"), self._gradients(plan, rng)
        shortened = direction if self.normalised else np.asarray
        return lambda t, w: w - lengths * shortened(gradients(t, w))


class GradientDescent(GradientMethod):
    """DP-GD: steps along the mean gradient of all examples with independent noise.

    The mean changes by at most c G/N, with c = 2 for replace-one and c = 1 for zero-out adjacency, at each of T steps.
    The participation is ``Participation.min_sep(T, 1)``.
    """

    name = "gradient descent"

    def _gradients(self, plan: MomentumPlan, rng: np.random.Generator) -> Step:
        who, risk = plan.participation, plan.risk
        if who.sampled or who.worst.period != 1 or not who.worst.saturated:
            raise ValueError(f"participation must be min_sep(steps, 1), all examples in every step, got {who!r}")
        sensitivity, scales = DPSGD().sensitivity_upper_bound(who), np.zeros((1, 1, 1))
        if plan.budgets is not None:
            (scales,) = plan.each(lambda one: (one.multiplier(sensitivity) / len(risk.examples) * plan.bound,))

        def noisy(_: int, w: Array) -> Array:
            found = mean_clipped_gradients(risk, w, risk.examples, plan.clip) + risk.regulariser_gradients(w)
            return np.asarray(found + scales * rng.standard_normal(plan.start.shape))

        return noisy


class PoissonDescent(GradientMethod):
    """DP-SGD with Poisson sampling: (Σ of the sampled gradients + z G N(0, I))/(q N) in every step.

    The participation is ``Participation.poisson(T, q)``.  The budget has zero-out adjacency, and the certified
    accountant gives z.
    """

    name = "DP-SGD"

    def _gradients(self, plan: MomentumPlan, rng: np.random.Generator) -> Step:
        who, risk = plan.participation, plan.risk
        if not isinstance(who, Poisson):
            raise ValueError(f"participation must be Poisson, got {who!r}")
        rate, expected = who.rate, who.rate * len(risk.examples)
        program, scales = DPSGD().program(who), np.zeros((1, 1, 1))
        if plan.budgets is not None:
            (scales,) = plan.each(lambda one: (program.multiplier(one) / expected * plan.bound,))
        samples, noise = rng.spawn(2)

        def noisy(_: int, w: Array) -> Array:
            found = risk.regulariser_gradients(w) + scales * noise.standard_normal(plan.start.shape)
            for k, sampled in enumerate(samples.random((len(plan.start), len(risk.examples))) < rate):
                batch = risk.examples[sampled]
                if len(batch):
                    means = mean_clipped_gradients(risk, w[:, k], batch, plan.clip)
                    found[:, k] += means * (len(batch) / expected)
            return np.asarray(found)

        return noisy
