"""Private runs with momentum: the noise that covers what runs, for a budget, and the run.

``private_momentum`` is Algorithm 1 with tree-aggregated noise, or with any other mechanism of this project in the same
loop.  ``private_reduced_momentum`` is Algorithm 2 with a repaired accounting (Algorithm 2').  ``published_momentum``
and ``published_reduced_momentum`` have the noise of the paper.  What is not covered is refused: participation other
than in epochs of all examples, the published noise where it is not sound.

Learning rates and budgets may be arrays, which are broadcast: all combinations run together, with the same orders and
starts.  A run covers the examples of ``risk``, for a start, learning rates and parameters that do not depend on them.

These are simulations with an ordinary generator and idealised real numbers.  For a release the seed must be secret, and
``PrivateRun`` covers rounding errors, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.papers.momentum_aggregation.descent import (
    Orders,
    ReducedMomentum,
    Step,
    Trajectories,
    draw_orders,
    momentum_step,
    run_steps,
)
from corrnoise.simulations.papers.momentum_aggregation.noise import (
    PublishedTrees,
    ReducedTrees,
    WeightedSums,
    unit_noise,
)
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.losses import EmpiricalRisk
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.papers.momentum_aggregation.calibration import published_node_std, reduced_noise
from corrnoise.theory.papers.momentum_aggregation.published_reduced_noise import published_reduced_noise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Budgets = Budget | Sequence[Budget] | NDArray[np.object_]  #: one for all settings, or an array that is broadcast


@usual_float_errors
def private_momentum(
    risk: EmpiricalRisk,
    budget: Budgets | None,
    participation: Participation,
    *,
    alpha: float,
    learning_rate: ArrayLike,
    mechanism: Mechanism | None = None,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Algorithm 1: normalised steps along a private momentum, with tree-aggregated or any other noise.

    The run keeps to the budget.  The noise is added to the gradients, and the momentum is what it shows.
    ``NuFTRL(alpha)`` is the square root of the momentum, close to the optimum.

    Parameters
    ----------
    risk : EmpiricalRisk
        The mean loss of the private examples and its regulariser, which is data-independent.
    budget : Budget, sequence of Budget or None
        Of the whole run.  Gradients of examples are clipped to its clip norm, or to the bound that the loss states
        where that is smaller.  A sequence or array of budgets with one clip norm is broadcast with η; None for a run
        without noise, which is not private.
    participation : Participation
        T steps in epochs of as many steps as there are examples, one example each: ``fixed_epochs`` for one random
        order in all epochs, ``reshuffled`` for a new one in each.
    alpha : float
        The momentum is m_t = (1 − α) m_{t−1} + α ∇f(w_t; x_t) from m_0 = 0, 0 < α <= 1.
    learning_rate : array_like
        η > 0, the length of every step: a number or an array.
    mechanism : Mechanism, optional
        The noise; None for ``BinaryTree(T, decoder="binary", decay=alpha)``, as published.
    start : array_like, optional
        w_1, shape (d,), or (repetitions, d); None for 0.  It must not depend on the examples.
    repetitions : int, default 1
        Independent runs of each setting, >= 1.
    records : int, default 32
        Number of iterates that are recorded, besides the last.
    rng : int, SeedSequence or Generator, optional
        Of orders and noise.
    progress : bool or None, default False
        Show progress on standard error; None for: if it is a terminal.

    Returns
    -------
    Trajectories
        Recorded steps, and points of shape (records + 1, …, repetitions, d) with the broadcast shape of η and budgets.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the mechanism or participation is for another run.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> import numpy as np
    >>> import corrnoise as cn
    >>> rows = np.random.default_rng(0).standard_normal((64, 3))
    >>> rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    >>> risk = cn.losses.EmpiricalRisk(cn.losses.MarginLoss("sigmoid", 3, 1.0), rows, 0.02)
    >>> epochs = cn.Participation.fixed_epochs(256, period=64)
    >>> run = cn.papers.momentum_aggregation.private_momentum(
    ...     risk, cn.Budget(0.5), epochs, alpha=1 / 64, learning_rate=0.02, rng=1
    ... )
    >>> run.points.shape
    (33, 1, 3)
    """
    plan = _plan(risk, budget, participation, alpha, start, repetitions, records, rng, learning_rate=learning_rate)
    tree = BinaryTree(plan.steps, decoder="binary", decay=plan.alpha)
    chosen = tree if mechanism is None else checks.instance("mechanism", mechanism, Mechanism)  # type: ignore[type-abstract]
    stds = None
    if plan.budgets is not None:
        sensitivity = chosen.sensitivity_upper_bound(chosen.of_this_run(participation))
        stds = plan.each(lambda one: (plan.alpha * one.multiplier(sensitivity) * plan.bound,))
    return _momentum(plan, chosen, stds, "momentum", progress)


@usual_float_errors
def published_momentum(
    risk: EmpiricalRisk,
    budget: Budgets,
    participation: Participation,
    *,
    alpha: float,
    learning_rate: ArrayLike,
    height: int | None = None,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Algorithm 1 with its published noise, which is (ε, δ)-private; refused where that is not sound.

    Parameters
    ----------
    risk : EmpiricalRisk
        As for ``private_momentum``.
    participation : Participation
        As for ``private_momentum``.
    alpha : float
        As for ``private_momentum``.
    learning_rate : array_like
        As for ``private_momentum``.
    start : array_like, optional
        As for ``private_momentum``.
    repetitions : int, default 1
        As for ``private_momentum``.
    records : int, default 32
        As for ``private_momentum``.
    rng : int, SeedSequence or Generator, optional
        As for ``private_momentum``.
    progress : bool or None, default False
        As for ``private_momentum``.
    budget : Budget or sequence of Budget
        As for ``calibration.published_node_std``; an array of budgets is broadcast with η.
    height : int, optional
        As for ``calibration.published_node_std``; an array of budgets is broadcast with η.

    Returns
    -------
    Trajectories

    Raises
    ------
    ValueError
        If the number of examples does not divide T, α is below 1/N, δ > e^{−ε}, or the height is too small.
    """
    plan = _plan(risk, budget, participation, alpha, start, repetitions, records, rng, learning_rate=learning_rate)
    stds = plan.each(
        lambda one: (published_node_std(plan.bounded(one), participation, alpha=plan.alpha, height=height),)
    )
    tree = BinaryTree(plan.steps, decoder="binary", decay=plan.alpha)
    return _momentum(plan, tree, stds, "published momentum", progress)


def _momentum(
    plan: _Plan, mechanism: Mechanism, stds: list[Array] | None, name: str, progress: bool | None
) -> Trajectories:
    """Algorithm 1, with noise of these standard deviations, relative to the sums Σ (1 − α)^{t−τ} y_τ."""
    noise = None
    if stds is not None:
        noise = WeightedSums(unit_noise(mechanism, plan.steps, plan.start.shape, plan.noise), plan.alpha)
    step = momentum_step(
        plan.risk,
        plan.orders,
        alpha=plan.alpha,
        lengths=plan.column("learning_rate"),
        noise=noise,
        scales=np.ones((1, 1, 1)) if stds is None else stds[0],
        clip_norm=plan.clip,
    )
    return plan.run(step, plan.steps, name, progress)


@usual_float_errors
def private_reduced_momentum(
    risk: EmpiricalRisk,
    budget: Budgets | None,
    participation: Participation,
    *,
    alpha: float,
    gamma: ArrayLike,
    learning_rate: ArrayLike,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Algorithm 2 with smaller sensitivity, in the form in which it is private (Algorithm 2').

    Three gradients a step, O(N d) memory.  The noise rests on the smoothness that the loss states, to which gradients
    are held, and on steps of length η.  In reshuffled orders the run is as private, but its momentum has the defect of
    Lemma 17.

    Parameters
    ----------
    risk : EmpiricalRisk
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    budget : Budget, sequence of Budget or None
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    participation : Participation
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    alpha : float
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    learning_rate : array_like
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    start : array_like, optional
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    repetitions : int, default 1
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    records : int, default 32
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    rng : int, SeedSequence or Generator, optional
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    progress : bool or None, default False
        As for ``private_momentum``; at least two examples, and a loss with a finite smoothness.
    gamma : array_like
        0 <= γ < 1, a number or an array that is broadcast with η and the budgets.

    Returns
    -------
    Trajectories

    Raises
    ------
    ValueError
        If there is one example only, γ = 1, or the loss has no finite smoothness.

    Examples
    --------
    >>> import numpy as np
    >>> import corrnoise as cn
    >>> risk = cn.losses.EmpiricalRisk(cn.losses.MarginLoss("sigmoid", 2, 1.0), np.eye(2))
    >>> run = {"alpha": 0.5, "gamma": 0.3, "learning_rate": 0.1, "rng": 1}
    >>> epochs = cn.Participation.fixed_epochs(6, period=2)
    >>> found = cn.papers.momentum_aggregation.private_reduced_momentum(
    ...     risk, [cn.Budget(0.1), cn.Budget(1.0)], epochs, **run
    ... )
    >>> found.points.shape
    (7, 2, 1, 2)
    """
    settings = {"learning_rate": learning_rate, "gamma": checks.reals("gamma", gamma, "[0, 1)")}
    plan = _plan(risk, budget, participation, alpha, start, repetitions, records, rng, **settings)
    smoothness = plan.smoothness()
    noise = None
    if plan.budgets is not None:

        def stds(one: Budget, length: float, share: float) -> tuple[float, ...]:
            run = {"alpha": plan.alpha, "gamma": share, "learning_rate": length, "smoothness": smoothness}
            found = reduced_noise(plan.bounded(one), participation, **run)
            return found.gradients, found.combined, found.remainders

        first, second, third = plan.each(stds)
        noise = ReducedTrees(
            plan.steps, len(risk.examples), plan.alpha, plan.start.shape, (first, second, third), plan.noise
        )
    return _reduced_momentum(plan, noise, "reduced momentum", progress)


def published_reduced_momentum(
    risk: EmpiricalRisk,
    budget: Budgets,
    participation: Participation,
    *,
    alpha: float,
    gamma: ArrayLike,
    learning_rate: ArrayLike,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Algorithm 2 with its published noise and L restored, which is (ε, δ)-private; refused where that is not sound.

    The arguments are those of ``private_reduced_momentum`` and ``published_reduced_noise``; γ may be 1 here.

    Raises
    ------
    ValueError
        If ``published_reduced_noise`` does.
    """
    settings = {"learning_rate": learning_rate, "gamma": checks.reals("gamma", gamma, "[0, 1]")}
    plan = _plan(risk, budget, participation, alpha, start, repetitions, records, rng, **settings)
    smoothness = plan.smoothness()

    def stds(one: Budget, length: float, _: float) -> tuple[float, ...]:
        run = {"alpha": plan.alpha, "learning_rate": length, "smoothness": smoothness}
        found = published_reduced_noise(plan.bounded(one), participation, **run)
        return found.early, found.differences, found.remainders, found.late

    early, differences, remainders, late = plan.each(stds)
    noise = PublishedTrees(
        plan.steps,
        len(risk.examples),
        plan.alpha,
        plan.start.shape,
        (early, differences, remainders),
        plan.noise,
        gammas=plan.column("gamma"),
        late=late,
    )
    return _reduced_momentum(plan, noise, "published reduced momentum", progress)


def _reduced_momentum(plan: _Plan, noise: ReducedTrees | None, name: str, progress: bool | None) -> Trajectories:
    """Algorithm 2 with the noise of these trees."""
    step = ReducedMomentum(
        plan.risk,
        plan.orders,
        alpha=plan.alpha,
        gammas=plan.column("gamma"),
        lengths=plan.column("learning_rate"),
        noise=noise,
        clip_norm=plan.clip,
        smoothness=math.inf if plan.budgets is None else plan.smoothness(),
    )
    return plan.run(step, plan.steps, name, progress)


@dataclass(frozen=True)
class Settings:
    """The common part of all runs: checked arguments, a setting for each budget and learning rate, broadcast.

    A private run clips also where the loss states a bound itself, so that its noise covers a loss that exceeds it.
    """

    risk: EmpiricalRisk
    bound: float  # of the gradients of examples
    clip: float  # the norm to which they are clipped; ``inf`` without a budget: not at all
    budgets: list[Budget] | None  # one for each setting
    values: dict[str, Array]  # the other parameters by name, of the broadcast shape
    start: Array  # w_1 of each repetition, shape (repetitions, d)
    records: int

    @classmethod
    def of(
        cls,
        risk: EmpiricalRisk,
        budget: Budgets | None,
        start: ArrayLike | None,
        repetitions: int,
        records: int,
        **settings: ArrayLike,
    ) -> Settings:
        """Check and broadcast: learning rates, which must be positive, and others, which are checked already."""
        loss = checks.instance("risk", risk, EmpiricalRisk).loss
        budgets, values = _broadcast(budget, **settings)
        bound = loss.lipschitz if budgets is None else min(budgets[0].clip_norm, loss.lipschitz)
        d = loss.dimension
        repetitions = checks.integer("repetitions", repetitions, 1)
        first = np.zeros(d) if start is None else checks.reals("start", start)
        if first.shape not in ((d,), (repetitions, d)):
            raise ValueError(f"start must have shape ({d},) or ({repetitions}, {d}), got {first.shape}")
        return cls(
            risk=risk,
            bound=bound,
            clip=math.inf if budgets is None else bound,
            budgets=budgets,
            values=values,
            start=np.broadcast_to(first, (repetitions, d)).copy(),
            records=checks.integer("records", records, 1),
        )

    def column(self, name: str) -> Array:
        """A parameter, shape (settings, 1, 1)."""
        return self.values[name].reshape(-1, 1, 1)

    def each(self, value: Callable[..., tuple[float, ...]]) -> list[Array]:
        """The numbers of every setting, from its budget and its other parameters; shape (settings, 1, 1) each."""
        assert self.budgets is not None
        if len(self.values) == 1:
            known = {budget: value(budget) for budget in set(self.budgets)}
            found = [known[budget] for budget in self.budgets]
        else:
            rows = zip(*(values.ravel().tolist() for values in self.values.values()), strict=True)
            found = [value(budget, *row) for budget, row in zip(self.budgets, rows, strict=True)]
        return [np.array(numbers).reshape(-1, 1, 1) for numbers in zip(*found, strict=True)]

    def run(self, step: Step, steps: int, name: str, progress: bool | None = False) -> Trajectories:
        """Run all settings from the start; their axis gets the shape that was asked for."""
        shape = self.values["learning_rate"].shape
        start = np.broadcast_to(self.start, (math.prod(shape), *self.start.shape)).copy()
        found = run_steps(step, start, steps, self.records, name=name, progress=progress)
        return found._replace(points=found.points.reshape(-1, *shape, *self.start.shape))


def _broadcast(budget: Budgets | None, **settings: ArrayLike) -> tuple[list[Budget] | None, dict[str, Array]]:
    """Budgets, which have one clip norm, and the other parameters by name, all of the same broadcast shape."""
    rates = checks.reals("learning_rate", settings.pop("learning_rate"), "(0, inf)")
    given = np.array(budget, dtype=object)
    shaped, *values = np.broadcast_arrays(given, rates, *settings.values())
    found = {
        name: np.array(value, dtype=float) for name, value in zip(("learning_rate", *settings), values, strict=True)
    }
    if budget is None:
        return None, found
    budgets = [checks.instance("budget", one, Budget) for one in shaped.ravel()]
    if len({one.clip_norm for one in budgets}) > 1:
        raise ValueError(f"budgets must have one clip norm, got {sorted({one.clip_norm for one in budgets})}")
    return budgets, found


@dataclass(frozen=True)
class _Plan(Settings):
    """A run with momentum: its orders, and the generator of its noise."""

    steps: int
    alpha: float
    orders: Orders
    noise: np.random.Generator

    def bounded(self, budget: Budget) -> Budget:
        """The budget for the gradients of this run, which may be shorter than its clip norm."""
        return Budget(**{**budget.arguments(), "clip_norm": self.bound})

    def smoothness(self) -> float:
        """L, of a run that rests on it, with at least two examples."""
        if len(self.risk.examples) < 2:
            raise ValueError(f"risk must have at least 2 examples, got {len(self.risk.examples)}")
        if self.risk.loss.smoothness == math.inf:
            raise ValueError(f"loss must have a finite smoothness, got {self.risk.loss!r}")
        return self.risk.loss.smoothness


def _plan(
    risk: EmpiricalRisk,
    budget: Budgets | None,
    participation: Participation,
    alpha: float,
    start: ArrayLike | None,
    repetitions: int,
    records: int,
    rng: Seed,
    **settings: ArrayLike,
) -> _Plan:
    n = len(checks.instance("risk", risk, EmpiricalRisk).examples)
    who = checks.instance("participation", participation, Participation).worst
    if who.kind not in ("fixed epochs", "reshuffled") or who.period != n or not who.saturated:
        raise ValueError(f"participation must be in epochs of one step an example, period={n}, got {participation!r}")
    shared = Settings.of(risk, budget, start, repetitions, records, **settings)
    orders, noise = generator(rng).spawn(2)
    return _Plan(
        **vars(shared),
        steps=who.length,
        alpha=checks.real("alpha", alpha, "(0, 1]"),
        orders=draw_orders(who, len(shared.start), orders),
        noise=noise,
    )
