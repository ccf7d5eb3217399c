"""Private runs on data: one function for every method, with the settings that all methods share.

``momentum_run`` checks and broadcasts the settings, and a method of ``methods`` gives the step with its noise.
Learning rates, budgets and values of γ may be arrays.  All combinations run together, with the same orders and starts.
A run covers the examples of ``risk``, for a start, learning rates and parameters that do not depend on them.

These are simulations with an ordinary generator and idealised real numbers.  For a release the seed must be secret, and
``PrivateRun`` covers rounding errors, too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.papers.momentum_aggregation.descent import Step, Trajectories, run_steps
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.losses import EmpiricalRisk
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Budgets = Budget | Sequence[Budget] | NDArray[np.object_]  #: one for all settings, or an array that is broadcast


@dataclass(frozen=True)
class MomentumPlan:
    """The checked arguments of a run, with one setting for each budget, learning rate and parameter of the method.

    A private run clips also where the loss states a bound itself, so that its noise covers a loss that exceeds it.
    """

    risk: EmpiricalRisk
    participation: Participation
    bound: float  #: of the gradients of examples
    clip: float  #: their clipping norm; ``inf`` without a budget: not clipped
    budgets: list[Budget] | None  #: one for each setting
    values: Mapping[str, Array]  #: learning rates and parameters of the method by name, of the broadcast shape
    start: Array  #: w_1 of each repetition, shape (repetitions, d)

    @classmethod
    def checked(
        cls,
        risk: EmpiricalRisk,
        budget: Budgets | None,
        participation: Participation,
        start: ArrayLike | None,
        repetitions: int,
        values: Mapping[str, ArrayLike],
    ) -> MomentumPlan:
        """Check the arguments and broadcast budgets and values, which the caller has checked."""
        loss = checks.instance("risk", risk, EmpiricalRisk).loss
        shaped, *arrays = np.broadcast_arrays(np.array(budget, dtype=object), *values.values())
        budgets = None if budget is None else [checks.instance("budget", one, Budget) for one in shaped.ravel()]
        if budgets and len(norms := {one.clip_norm for one in budgets}) > 1:
            raise ValueError(f"budgets must have one clip norm, got {sorted(norms)}")
        bound = loss.lipschitz if budgets is None else min(budgets[0].clip_norm, loss.lipschitz)
        d = loss.dimension
        first = np.zeros(d) if start is None else checks.reals("start", start)
        if first.shape not in ((d,), (repetitions, d)):
            raise ValueError(f"start must have shape ({d},) or ({repetitions}, {d}), got {first.shape}")
        return cls(
            risk=risk,
            participation=checks.instance("participation", participation, Participation),
            bound=bound,
            clip=math.inf if budgets is None else bound,
            budgets=budgets,
            values={name: np.array(value, dtype=float) for name, value in zip(values, arrays, strict=True)},
            start=np.broadcast_to(first, (repetitions, d)).copy(),
        )

    def column(self, name: str) -> Array:
        """A parameter, shape (settings, 1, 1)."""
        return self.values[name].reshape(-1, 1, 1)

    def each(self, value: Callable[..., tuple[float, ...]], *names: str) -> list[Array]:
        """The numbers of every setting, shape (settings, 1, 1) each, from its budget and the named parameters."""
        assert self.budgets is not None
        columns = (self.values[name].ravel().tolist() for name in names)
        rows = list(zip(self.budgets, *columns, strict=True))
        known = {row: value(*row) for row in dict.fromkeys(rows)}
        return [np.array(numbers).reshape(-1, 1, 1) for numbers in zip(*(known[row] for row in rows), strict=True)]

    def bounded(self, budget: Budget) -> Budget:
        """The budget for the gradients of this run, whose bound may be smaller than the clipping norm."""
        return Budget(**{**budget.arguments(), "clip_norm": self.bound})


class MomentumMethod(Record, ABC):
    """A rule for the steps of a run, with the noise that covers it; the subclasses are in ``methods``."""

    name: ClassVar[str]  #: in messages
    needs_budget: ClassVar[bool] = False  #: whether the method always adds noise

    def parameters(self) -> dict[str, ArrayLike]:
        """Parameters that are broadcast with budgets and learning rates, by name.

        Returns
        -------
        dict
        """
        return {}

    @abstractmethod
    def step(self, plan: MomentumPlan, rng: np.random.Generator) -> Step:
        """The function that gives w_{t+1}, for all settings and repetitions of a plan.

        Parameters
        ----------
        plan : MomentumPlan
            The run.
        rng : Generator
            Of orders, samples and noise.

        Returns
        -------
        callable
            Of t and w_t.

        Raises
        ------
        ValueError
            The method does not cover this participation, budget or loss.
        """


@usual_float_errors
def momentum_run(
    risk: EmpiricalRisk,
    budget: Budgets | None,
    participation: Participation,
    *,
    method: MomentumMethod,
    learning_rate: ArrayLike,
    start: ArrayLike | None = None,
    repetitions: int = 1,
    records: int = 32,
    rng: Seed = None,
    progress: bool | None = False,
) -> Trajectories:
    """Train on data within a privacy budget, by descent along a momentum or along gradients.

    Parameters
    ----------
    risk : EmpiricalRisk
        The mean loss of the private examples and its regulariser, which is data-independent.
    budget : Budget, sequence of Budget or None
        The privacy budget of the whole run.  Gradients of examples are clipped to its clip norm, or to the bound that
        the loss states where this is smaller.  An array of budgets has one clipping norm and is broadcast with η.  None
        gives a run without noise, which is not private.
    participation : Participation
        The steps T and the order of the examples, as the method asks.
    method : MomentumMethod
        ``Momentum``, ``PublishedMomentum``, ``ReducedMomentum``, ``PublishedReducedMomentum``, ``GradientDescent`` or
        ``PoissonDescent``.
    learning_rate : array_like
        η > 0; the length of every step for methods with normalised steps.
    start : array_like, optional
        w_1, shape (d,) or (repetitions, d); 0 by default.  It must not depend on the examples.
    repetitions : int, default 1
        Independent runs of each setting, at least 1.
    records : int, default 32
        Number of iterates that are recorded, besides the last.
    rng : int, SeedSequence or Generator, optional
        The source of orders and noise.
    progress : bool or None, default False
        Show progress on standard error; None shows it on a terminal only.

    Returns
    -------
    Trajectories
        Recorded steps, and points of shape (records + 1, …, repetitions, d) with the broadcast shape of budgets,
        learning rates and parameters of the method.

    Raises
    ------
    ValueError
        An argument is out of its range, or the method does not cover the run.
    FloatingPointError
        An iterate is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import corrnoise as cn
    >>> rows = np.random.default_rng(0).standard_normal((64, 3))
    >>> rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    >>> risk = cn.losses.EmpiricalRisk(cn.losses.MarginLoss("sigmoid", 3, 1.0), rows, 0.02)
    >>> epochs, paper = cn.Participation.fixed_epochs(256, period=64), cn.papers.momentum_aggregation
    >>> run = {"learning_rate": 0.02, "rng": 1}
    >>> paper.momentum_run(risk, cn.Budget(0.5), epochs, method=paper.Momentum(1 / 64), **run).points.shape
    (33, 1, 3)
    >>> budgets, reduced = [cn.Budget(0.1), cn.Budget(1.0)], paper.ReducedMomentum(1 / 64, gamma=0.3)
    >>> paper.momentum_run(risk, budgets, epochs, method=reduced, **run).points.shape
    (33, 2, 1, 3)
    """
    checks.instance("method", method, MomentumMethod)
    if budget is None and method.needs_budget:
        raise TypeError(f"budget must be a Budget for {type(method).__name__}, got None")
    rates = checks.reals("learning_rate", learning_rate, "(0, inf)")
    values = {"learning_rate": rates, **method.parameters()}
    plan = MomentumPlan.checked(
        risk, budget, participation, start, checks.integer("repetitions", repetitions, 1), values
    )
    records = checks.integer("records", records, 1)
    step = method.step(plan, generator(rng))
    shape = plan.values["learning_rate"].shape
    first = np.broadcast_to(plan.start, (math.prod(shape), *plan.start.shape)).copy()
    found = run_steps(step, first, plan.participation.length, records, name=method.name, progress=progress)
    return found._replace(points=found.points.reshape(-1, *shape, *plan.start.shape))
