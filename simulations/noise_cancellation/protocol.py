"""Settings that the server and all machines of a run share, and their messages: nothing here is secret.

A machine sends a ``Message``, and nothing else leaves it.  Which algorithm runs is decided by two fields:

* Algorithm 1 is ``"cancellation"`` with ``cancelling_noise(N, growth=1)``; better noise takes its place.
* Alternative 2 is ``"cancellation"`` with ``cancelling_noise(N, share=0)``.
* Algorithm 2 is ``"trusted"``: machines send their corrections, the server adds noise to q_t.
* Alternative 1 is ``"delayed"``: machines use their own last query point.  No accountant here covers it, so it runs
  without privacy only.
* ``"gradients"`` is projected SGD with fresh noise.  Without noise ``"cancellation"`` is μ²-SGD.

Every machine guards its sensitivity itself, against its data and against the server.  ``"centred"`` moves s_t into the
ball in which it lies for convex losses and a server that follows its rule (docs/noise-cancellation.md).  ``"norm"``
clips s_t to the clip norm of the budget, which the convergence theorems do not cover.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.noise_cancellation.bounds import FederatedRun
from corrnoise.theory.noise_cancellation.privacy import calibrated_scale, clipped_scale, of_machine
from corrnoise.theory.noise_cancellation.sensitivity import LossClass
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Algorithm = Literal["cancellation", "trusted", "delayed", "gradients"]
ALGORITHMS = ("cancellation", "trusted", "delayed", "gradients")
Guard = Literal["centred", "norm"]
GUARDS = ("centred", "norm")


@dataclass(frozen=True, eq=False)
class Request:
    """A message of the server to a machine in a round."""

    run: str  #: the name of the run
    round: int  #: t >= 1
    #: x_t and x_{t−1}, shape (d,)
    current: Array
    previous: Array
    asked: int  #: how many rounds the server has asked this machine for, this one included
    acknowledged: int  #: the number of the last message that the server has received from the machine, 0 for none


@dataclass(frozen=True, eq=False)
class Message:
    """The message of a machine: the noisy correction of one participation."""

    #: the name of the run, and the number of the machine in it, from 0
    run: str
    machine: int
    number: int  #: the place of the example in the machine's data, from 1: increasing over the messages of a machine
    round: int  #: the round for which it was made
    correction: Array  #: s̃ = s + noise, shape (d,)


@dataclass(frozen=True)
class Refusal:
    """The answer of a machine that takes part no more: it has used its participations or its data, which is public."""

    run: str
    machine: int
    round: int


@record
class Protocol(Record):
    """The public parameters of a run.

    Parameters
    ----------
    run : a name, by which messages and states of other runs are refused
    loss : the loss, with the bound of the features
    diameter : D of the ball about 0 in which w_t and x_t stay, in (0, 1e50]
    machines, participants, rounds : M >= m >= 1 and T >= 1
    learning_rate : η in (0, 1e100]
    budget : of every machine, for replace-one adjacency; its clip norm is for the guard ``"norm"``.  None for no
        privacy.
    algorithm : one of ``ALGORITHMS``
    noise : of each machine, or of the server; None for no noise and no privacy
    cap : N, after which a machine refuses; None for T
    guard : ``"centred"``, or ``"norm"``, which needs a budget
    scale : σ of the noise; None for the least that the budget allows.  A smaller one is refused.
    schedule : the m machines of each of the T rounds, numbered from 0, each machine in at least one of them.  It is
        public, so it must not depend on the data.  None for uniform draws by the server.
    """

    run: str
    loss: LinearLoss
    diameter: float
    machines: int
    participants: int
    rounds: int
    learning_rate: float
    budget: Budget | None
    algorithm: Algorithm = "cancellation"
    noise: Mechanism | None = AntiPGD(0.0)
    cap: int | None = None
    guard: Guard = "centred"
    scale: float | None = None
    schedule: tuple[tuple[int, ...], ...] | None = None
    _family: LossClass = field(init=False)
    _radii: Array = field(init=False)

    def __post_init__(self) -> None:
        self._check(loss=LinearLoss)
        if self.noise is not None:
            checks.instance("noise", self.noise, Mechanism)  # type: ignore[type-abstract]
        if self.budget is not None:
            of_machine(self.budget)
        self._check(algorithm=ALGORITHMS, guard=GUARDS)
        if not isinstance(self.run, str) or not self.run:
            raise TypeError(f"run must be a non-empty string, got {self.run!r}")
        self._check(diameter="(0, 1e50]", machines=1, participants=1, rounds=1, learning_rate="(0, 1e100]")
        self._set(cap=self.rounds if self.cap is None else checks.integer("cap", self.cap, 1))
        if self.participants > self.machines:
            raise ValueError(f"participants must be at most machines, got {self.participants} of {self.machines}")
        if self.guard == "norm" and self.budget is None:
            raise ValueError("budget must be given for the guard 'norm', which takes its clip norm, got None")
        family = LossClass.of(self.loss, self.diameter)
        self._set(_family=family, _radii=family.correction_radius(np.arange(1, self.rounds + 1)))
        if self.schedule is not None:
            self._set(schedule=_checked_schedule(self.schedule, self.machines, self.participants, self.rounds))
        if self.budget is None or self.noise is None:
            if self.scale not in (None, 0.0):
                raise ValueError(f"scale must be None without a budget or noise, got {self.scale!r}")
            self._set(scale=0.0)
            return
        if self.algorithm == "delayed":
            raise ValueError(f"noise must be None for 'delayed', which no accountant here covers, got {self.noise!r}")
        least = self._least_scale(self.budget, self.noise)
        if self.scale is None:
            self._set(scale=least)
        elif checks.real("scale", self.scale, "(0, 1e100]") < least:
            raise ValueError(f"scale must lie in [{least!r}, 1e100] for {self.budget!r}, got {self.scale!r}")

    def _least_scale(self, budget: Budget, noise: Mechanism) -> float:
        if self.algorithm == "gradients":  # each example is in one message, of fresh noise
            once = DPSGD().program(Participation.single(self.rounds), "float64")
            most = self.family.lipschitz if self.clip_norm is None else self.clip_norm
            return most * once.multiplier(budget) * (1 + 1e-12)
        trusted = self.algorithm == "trusted"
        mine = AntiPGD(0.0) if trusted else noise
        participations = self.rounds if trusted else self.uses
        if self.guard == "norm":
            least = clipped_scale(mine, budget, participations)
        else:
            least = calibrated_scale(mine, budget, participations, self.family, losses="convex")
        return least / self.participants * (1 + 1e-12) if trusted else least

    @property
    def clip_norm(self) -> float | None:
        """The norm to which a machine clips what it sends; None for the guard ``"centred"``."""
        return self.budget.clip_norm if self.guard == "norm" and self.budget is not None else None

    @property
    def family(self) -> LossClass:
        """G, L and D of the losses on the ball."""
        return self._family

    @property
    def uses(self) -> int:
        """The most participations of a machine: the cap, or T, or its rounds in the schedule."""
        most = self.rounds
        if self.schedule is not None:
            most = int(np.bincount(np.concatenate(self.schedule)).max())
        return most if self.cap is None else min(most, self.cap)

    @property
    def std(self) -> float:
        """σ, the scale of the machine's or, of a trusted server, the server's noise."""
        return 0.0 if self.scale is None else self.scale

    def theory(self) -> FederatedRun:
        """The run, for the bounds of its excess loss in the worst case of its losses."""
        if self.budget is None or self.noise is None:
            raise ValueError("budget and noise must be given for the bounds, got None")
        return FederatedRun(
            self.budget,
            self.family,
            machines=self.machines,
            participants=self.participants,
            rounds=self.rounds,
            dimension=self.loss.dimension,
        )

    def guarded(self, vector: Array, request: Request) -> Array:
        """``vector``, the correction of a machine or its gradient, moved to where its sensitivity is accounted for."""
        if self.clip_norm is not None:
            return _clipped(vector, self.clip_norm)
        family = self.family
        if self.algorithm == "gradients":
            return _clipped(vector, family.lipschitz)
        t = request.round
        centre = family.smoothness / 2 * (t - 1) * (request.current - request.previous)
        return centre + _clipped(vector - centre, float(self._radii[t - 1]))

    def projected(self, w: Array) -> Array:
        """The nearest point of the ball."""
        return _clipped(w, self.diameter / 2)


def _checked_schedule(schedule: Any, machines: int, participants: int, rounds: int) -> tuple[tuple[int, ...], ...]:
    """``schedule``, if every round has its machines and every machine a round."""
    if len(schedule) != rounds:
        raise ValueError(f"schedule must have {rounds} rounds, got {len(schedule)}")
    checked = tuple(tuple(sorted(checks.integer("schedule", i, 0) for i in chosen)) for chosen in schedule)
    for t, chosen in enumerate(checked, 1):
        if len(set(chosen)) != participants or len(chosen) != participants or chosen[-1] >= machines:
            raise ValueError(
                f"schedule must have {participants} different machines in [0, {machines - 1}] in each round, got "
                f"{chosen} in round {t}"
            )
    absent = set(range(machines)) - {i for chosen in checked for i in chosen}
    if absent:
        raise ValueError(f"schedule must have every machine in at least one round, got none of machine {min(absent)}")
    return checked


def _clipped(vector: Array, norm: float) -> Array:
    length = float(np.linalg.norm(vector))
    if not math.isfinite(length):
        return np.zeros_like(vector)
    return vector * (norm / length) if length > norm else vector
