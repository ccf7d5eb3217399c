"""A federation in memory, for experiments: the law of a run whose replies all arrive, with noise from a seed.

Clients and server follow the same ``Plan`` and the same rounds as ``FederatedClient`` and ``FederatedServer``, without
folders, messages and refusals.  Noise from a seed does not protect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.rounds import guarded, moved
from corrnoise.simulations.run.engines import engine, step_scale
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors

Examples = tuple[Array, Array]  #: features and targets of one client
Algorithm = Literal["corrections", "gradients"]


@dataclass(frozen=True, eq=False)
class SimulatedFederation:
    """The end of a simulated run."""

    point: Array  #: x_{T+1}, shape (d,); the mean of the query points for ``"gradients"``
    queried: Array  #: x_T, the last query point, shape (d,)
    estimate: Array  #: of T ∇f(x_T), or of ∇f(x_T) for ``"gradients"``, shape (d,)
    participations: NDArray[np.int64]  #: of each client, shape (M,)


def split_examples(features: Array, targets: Array, clients: int) -> list[Examples]:
    """Deal examples out to clients in turn: client i has the examples i, i + M, i + 2M, …, of at least M in all."""
    clients = checks.integer("clients", clients, 1)
    if len(targets) < clients:
        raise ValueError(f"targets must have at least one example a client, {clients}, got {len(targets)}")
    return [(features[i::clients], targets[i::clients]) for i in range(clients)]


@usual_float_errors
def simulate_federation(
    plan: Plan,
    examples: Sequence[Examples],
    *,
    seed: int,
    algorithm: Algorithm = "corrections",
    scale: float | None = None,
) -> SimulatedFederation:
    """Run a plan with a linear loss on data, from x_1 = 0.

    Parameters
    ----------
    plan : Plan
        The public settings.
    examples : sequence of two arrays of float
        Features and targets of each client, at least ``batch`` × ``per_pass``, used in this order.
    seed : int
        Of the schedule and of all noise.
    algorithm : {"corrections", "gradients"}, default "corrections"
        ``"corrections"`` as in a real run, or ``"gradients"``: projected SGD, where each message is a gradient with
        fresh noise; then the noise of the plan must be independent.  Both are equally private.
    scale : float, optional
        σ in place of ``plan.noise_std``, in [0, 1e100]; 0 for a run without privacy.

    Returns
    -------
    SimulatedFederation

    Raises
    ------
    ValueError
        If there are fewer clients than participants, a client has too few examples, or an example is beyond the bounds
        of the loss.
    """
    loss = checks.instance("model", plan.model, LinearLoss)
    clients, m, b, d = len(examples), plan.participants, plan.batch, plan.dimension
    if clients < m:
        raise ValueError(f"examples must be of at least {m} clients, got {clients}")
    sgd = checks.choice("algorithm", algorithm, ("corrections", "gradients")) == "gradients"
    if sgd and not np.array_equal(plan.mechanism.noising_matrix(2), np.eye(2)):
        raise ValueError(f"noise must be independent for 'gradients', got {plan.mechanism!r:.80}")
    sigma = plan.noise_std if scale is None else checks.real("scale", scale, "[0, 1e100]")
    held = [loss.checked_examples(*each) for each in examples]
    if (fewest := min(len(targets) for _, targets in held)) < b * plan.per_pass:
        raise ValueError(f"examples must be at least batch × per_pass = {b * plan.per_pass} a client, got {fewest}")
    rng, noise_rng = map(np.random.default_rng, np.random.SeedSequence(checks.seed("seed", seed)).spawn(2))
    central = plan.trust == "central"
    engines = [engine(plan.program, d) for _ in range(1 if central else clients)]

    def draw(values: Array) -> None:
        noise_rng.standard_normal(out=values)

    def noise(which: int, step: int) -> Array:
        values = np.zeros(d)
        if sigma:
            engines[which].step(draw, values, step)
            values *= step_scale(plan.program, sigma, step)
        return values

    used = np.zeros(clients, dtype=np.int64)
    asked = np.full(clients, -plan.separation)
    w = x = before = total = estimate = np.zeros(d)
    for t in range(1, plan.rounds + 1):
        able = np.flatnonzero((used < plan.participations) & (t - asked >= plan.separation))
        chosen = np.sort(rng.permutation(able)[:m])
        total = total + x
        mean = noise(0, t - 1) if central else np.zeros(d)
        if chosen.size:
            firsts = used[chosen] % plan.per_pass * b
            parts = [(held[i][0][f : f + b], held[i][1][f : f + b]) for i, f in zip(chosen, firsts, strict=True)]
            a, y = (np.concatenate(each) for each in zip(*parts, strict=True))
            rows = loss.gradients(x, a, y)
            if not sgd:
                rows = t * rows - (t - 1) * loss.gradients(before, a, y)
            mean = mean + guarded(plan, rows.reshape(chosen.size, b, d), t, x, before).sum(axis=0) / m
            if not central:
                mean = mean + sum(noise(int(i), int(used[i])) for i in chosen) / m
        used[chosen] += 1
        asked[chosen] = t
        estimate = mean if sgd else estimate + mean
        before, (w, x) = x, moved(plan, t, x, w, estimate)
        x = w if sgd else x
    return SimulatedFederation(total / plan.rounds if sgd else x, before, estimate, used)
