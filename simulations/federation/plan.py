r"""The plan of a federated run: public settings that the server and all clients share, and the privacy they give.

A client has at most n = ``per_pass`` × ``passes`` participations, which it counts, and uses the next ``batch`` examples
of a fixed private order each time.  In participation k it sends s_k + σ (N z)_k: its contribution and the noise of a
``Mechanism`` whose steps are its participations.  The pattern of an example is one of the client's own counter, so the
guarantee holds for every schedule of the server, every drop-out, and every run that ends early.

==========  ====================================  ==========================  =====================================
unit        participation, ``trust="local"``       one unit moves a message    ``trust="central"``, steps are rounds
==========  ====================================  ==========================  =====================================
example     fixed epochs of ``per_pass`` steps    c/b                         ``per_pass`` × ``separation`` apart
client      every step                            c                           ``separation`` apart
==========  ====================================  ==========================  =====================================

With ``trust="central"`` clients send contributions without noise, and the server adds the noise to the mean over m
clients; it must be trusted with the contributions.

*Guard* ``"norm"`` clips each correction of an example (at client level the whole contribution) to c.  ``"centred"`` is
for convex linear losses and replace-one adjacency: it moves the correction into the ball of radius R_t about
(L/2)(t − 1)(x_t − x_{t−1}).  Rounding of clips and batch sums moves a contribution further, by a relative excess
u(d + 5) + b γ_{b+2} a with γ_k = ku/(1 − ku), u = 2⁻⁵³, where a is (T + 3)/2 for ``"centred"`` and 2 for ``"norm"``.
The noise scale has this factor.

Source: Reshef and Levy, ICML 2025; Denisov et al., arXiv 2202.08312 (adaptive data); docs/federated-proofs.md.
"""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from corrnoise.simulations.run.engines import streaming
from corrnoise.solvers.default import default_noise
from corrnoise.solvers.papers.noise_cancellation import best_share
from corrnoise.support.serialise import by_name, digest, load, plain, save
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Level = Literal["example", "client"]
Noise = Literal["best-share", "two-buffers"]
NOISES: tuple[Noise, ...] = ("best-share", "two-buffers")
MAX_PARTICIPATIONS = 10**6  #: of a client, and rounds, because a plan that a server sends is judged by its client
_SIZE_INTERVAL = "[1e-50, 1e50]"


@record
class Plan(Record):
    """The public settings of a run.

    Parameters
    ----------
    run : str
        A name; requests, replies and states of other runs are refused.
    model : LinearLoss or int
        The number d of parameters, or a linear loss, which the guard ``"centred"`` needs.
    rounds, participants : int
        T >= 1 and the clients m >= 1 that are asked in a round.
    batch, per_pass, passes : int
        Examples of a participation b, participations of a pass p, and passes E, all >= 1 A client needs p b examples;
        more are left out.
    radius : float
        Radius D/2 of the ball about 0 that contains all query points.
    learning_rate : float
        η in (0, 1e50].
    budget : Budget
        The privacy budget of a unit in the whole run, the clip norm c in [1e-50, 1e50], and the neighbouring data.  The
        guard ``"centred"`` does not use c.
    unit : {"example", "client"}
        ``"example"`` or ``"client"``: neighbouring data differ in it, for the second in all data of a client.
    noise : Mechanism or str, optional
        The mechanism over the participations, or ``"best-share"``, or ``"two-buffers"`` for ``cn.default_noise``.  None
        stands for ``cn.default_noise``, and at client level with local noise for independent noise, because there a
        share that is taken back only adds variance.
    trust : {"local", "central"}, default "local"
        ``"local"``: clients add noise, the server need not be trusted; ``"central"``: the server adds it.
    guard : {"norm", "centred"}, default "norm"
        ``"norm"`` or ``"centred"``.
    separation : int, default 1
        With ``trust="central"`` a client is asked again after so many rounds at the earliest, >= 1.

    Raises
    ------
    ValueError
        If an argument is out of its range, or no noise covers the settings.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> import corrnoise as cn
    >>> plan = cn.flower.Plan("digits", 10, rounds=20, participants=5, batch=2, per_pass=8, passes=1, radius=2.0,
    ...                       learning_rate=0.1, budget=cn.Budget(2.0, adjacency="replace-one"), unit="example",
    ...                       noise=cn.mechanisms.DPSGD())
    >>> round(plan.noise_std, 6), plan.participations
    (0.5, 8)
    """

    run: str
    model: LinearLoss | int
    _: KW_ONLY
    rounds: int
    participants: int
    batch: int
    per_pass: int
    passes: int
    radius: float
    learning_rate: float
    budget: Budget
    unit: Level
    noise: Mechanism | Noise | None = None
    trust: Literal["local", "central"] = "local"
    guard: Literal["norm", "centred"] = "norm"
    separation: int = 1
    program: Program = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.run, str) or not self.run:
            raise TypeError(f"run must be a non-empty string, got {self.run!r}")
        if not isinstance(self.model, LinearLoss):
            self._set(model=checks.integer("model", self.model, 1))
        self._check(rounds=1, participants=1, batch=1, per_pass=1, passes=1, separation=1)
        checks.integer("rounds", self.rounds, 1, largest=MAX_PARTICIPATIONS)
        checks.integer("per_pass * passes", self.participations, 1, largest=MAX_PARTICIPATIONS)
        self._check(radius=_SIZE_INTERVAL, learning_rate="(0, 1e50]", budget=Budget, unit=("example", "client"))
        checks.real("clip_norm", self.budget.clip_norm, _SIZE_INTERVAL)
        self._check(trust=("local", "central"), guard=("norm", "centred"))
        if self.separation > 1 and self.trust == "local":
            raise ValueError(f"separation must be 1 with trust='local', which needs no schedule, got {self.separation}")
        if self.guard == "centred" and (
            not isinstance(self.model, LinearLoss) or self.unit == "client" or self.budget.adjacency != "replace-one"
        ):
            raise ValueError(
                "guard must be 'norm' unless model is a LinearLoss, unit 'example' and adjacency 'replace-one', got "
                "'centred'"
            )
        program = streaming(self._chosen(), self.participation, "float64")
        if program.replays:
            raise ValueError(
                f"noise must have no replays, got {self.noise!r:.80}: participants keep no draws to make again"
            )
        self._set(noise=program.mechanism, program=program)
        program.multiplier(self.noise_budget)  # raises where the scale is out of range

    def _chosen(self) -> Mechanism:
        """The mechanism that ``noise`` stands for."""
        who = self.participation
        if self.noise is None and self.unit == "client" and self.trust == "local":
            return DPSGD()
        if self.noise is None or isinstance(self.noise, str):
            if checks.choice("noise", self.noise or "two-buffers", NOISES) == "best-share":
                return best_share(who)
            return default_noise(who)
        return checks.instance("noise", self.noise, Mechanism)

    # -- what follows from it ------------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """d, the number of parameters of the model."""
        return self.model.dimension if isinstance(self.model, LinearLoss) else self.model

    @property
    def participations(self) -> int:
        """The number n = p E of participations, after which a client refuses."""
        return self.per_pass * self.passes

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism whose steps are the participations of a client or, with central trust, the rounds."""
        assert isinstance(self.noise, Mechanism)
        return self.noise

    @property
    def participation(self) -> Participation:
        """The steps of the mechanism that can use one unit."""
        example = self.unit == "example"
        if self.trust == "central":
            apart = self.separation * (self.per_pass if example else 1)
            return Participation.min_sep(self.rounds, apart, self.passes if example else self.participations)
        if example:
            return Participation.fixed_epochs(self.participations, epochs=self.passes)
        return Participation.min_sep(self.participations, 1)

    @cached_property
    def family(self) -> LossClass:
        """G, L and D of a linear loss on the ball."""
        return LossClass.of(checks.instance("model", self.model, LinearLoss), 2 * self.radius)

    @property
    def noise_budget(self) -> Budget:
        """The budget, with the largest norm of the contribution of one unit to what carries the noise."""
        norm = self.family.radius if self.guard == "centred" else self.budget.clip_norm
        b = self.batch if self.unit == "example" else 1
        m = self.participants if self.trust == "central" else 1
        reach = (self.rounds + 3) / 2 if self.guard == "centred" else 2.0
        terms = (self.batch + 2 + (m if m > 1 else 0)) * UNIT_ROUNDOFF
        # Theorem 9 as corrected; sums over clients round as sums over examples do, and b counts the terms of a mean.
        excess = UNIT_ROUNDOFF * (self.dimension + 5) + b * m * reach * terms / (1 - terms)
        return replace(self.budget, clip_norm=norm / (b * m) * (1 + excess))

    @property
    def noise_std(self) -> float:
        """σ, the standard deviation of the independent noise behind the mechanism, in units of what carries it."""
        return self.program.scale(self.noise_budget)

    @property
    def reach(self) -> float:
        """The largest norm of the contribution of an honest client in one participation."""
        return self.family.published_norm if self.guard == "centred" else self.budget.clip_norm

    @cached_property
    def prefixes(self) -> Array:
        """The rows of the prefix sums of the noise before σ, shape (n + 1, n), the first 0."""
        n = self.program.participation.length
        return np.vstack([np.zeros(n), np.cumsum(self.mechanism.noising_matrix(n), axis=0)])

    def guarantee(self, delta: float | None = None, *, restored: int = 0) -> dict[str, Any]:
        """The privacy of all that leaves a client (with central trust: the server), as plain values.

        Parameters
        ----------
        delta : float, optional
            δ in (0, 1) of the stated ε; None for the δ of the budget.
        restored : int, default 0
            How often an older state was put back unnoticed, r >= 0: all that leaves is then (1 + r)ρ-zCDP.

        Returns
        -------
        dict
        """
        factor = 1 + checks.integer("restored", restored, 0)
        once = self.budget.gaussian_rho
        rho = float(np.nextafter(once * factor, np.inf)) if factor > 1 else once
        at = self.budget.delta if delta is None else delta
        if at is None:
            raise ValueError("delta must be given, in (0, 1), where the budget has none")
        return {
            "rho": rho,
            "delta": checks.real("delta", at, "(0, 1)"),
            "epsilon": Budget(rho).epsilon_at(at),
            "unit": self.unit,
            "adjacency": self.budget.adjacency,
            "against": "any server" if self.trust == "local" else "readers of the model; the server is trusted",
        }

    def warnings(self, clients: int, *, delta: float | None = None) -> list[str]:
        """Warnings for somebody who starts this run with so many clients, each a sentence.

        ``delta`` is that of ε, as for ``guarantee``; without any, 1e-5.

        Parameters
        ----------
        clients : int
            Clients in the roster, >= 1.
        delta : float, optional
            δ of the stated ε, as for ``guarantee``; None for the δ of the budget or 1e-5.

        Returns
        -------
        list of str
        """
        found = []
        delta = self.budget.delta or 1e-5 if delta is None else delta
        asked, able = self.rounds * self.participants, checks.integer("clients", clients, 1) * self.participations
        if asked > able:
            found.append(
                f"the clients can take part {able} times together and are asked {asked} times: they are exhausted after"
                f" about {able // self.participants} of {self.rounds} rounds"
            )
        if (epsilon := self.guarantee(delta)["epsilon"]) > 10:
            found.append(f"epsilon is {epsilon:.3g} at delta={delta:g}, which is a weak promise")
        errors = self.mechanism.errors(PrefixSums(self.program.participation.length))
        spread = np.sqrt(self.dimension * float(errors.mean())) * self.noise_std
        averaged = spread if self.trust == "central" else spread / np.sqrt(min(self.participants, clients))
        if averaged > self.reach:
            found.append(
                f"the noise in the server's estimate has the norm {averaged:.3g}, more than a contribution,"
                f" {self.reach:.3g}"
            )
        return found

    def identity(self) -> str:
        """A digest of all settings: states of other plans are refused.

        Returns
        -------
        str
        """
        return digest(plain(self))

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to one file, ``.json`` or ``.npz``.

        Parameters
        ----------
        path : path
            The file, which ends in ``.json`` or ``.npz``.
        """
        save(self, path, _KINDS)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """The plan in a file of ``save``; σ and the guarantee are computed again.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        callable
        """
        plan: Plan = load(path, _KINDS, check=lambda thing: checks.instance("plan", thing, cls))
        return plan


_KINDS = KINDS | by_name(Budget, LinearLoss, Plan)
