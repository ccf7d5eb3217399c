"""The published noise of Algorithm 2, with the smoothness L that it lacks, and its exact privacy.

Printed are σ = 4 sqrt(ln(1/δ))/ε, and in the nodes of the trees of G, D and r the standard deviations δ_G σ sqrt(V) and
δ_Δ σ sqrt(V), with δ_G = 4 G, V = 3 log2 N for nodes of G that end by step 2N and V = 4 (T/N) log2 N for all others,
and δ_Δ = 2 η N, which must be 2 η N L.  The published claim, (z, 3 z/2σ²)-RDP, holds where it was computed and is not
proved for all N and T.  So the privacy of all nodes is computed for the run, and a run that exceeds (ε, δ) is refused.

Source: H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Algorithm 2, Theorem 8.
"""

from __future__ import annotations

import math

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.momentum_aggregation.calibration import published_budget, whole_epochs
from corrnoise.theory.papers.momentum_aggregation.sensitivity import ALL_NODES, ReleasedNodes, squared_weights
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import ADJACENCIES, Budget, gaussian_epsilon


@record
class PublishedReducedNoise(Record):
    """Standard deviations of the noise in the nodes of Algorithm 2, and the privacy of their release."""

    #: of G, in nodes that end by step 2N and in others
    early: float
    late: float
    #: of D and of r
    differences: float
    remainders: float
    rho: float  #: upper bound of the ρ that the release of all nodes spends (zCDP), for the adjacency of the budget


def published_reduced_noise(
    budget: Budget, participation: Participation, *, alpha: float, learning_rate: float, smoothness: float
) -> PublishedReducedNoise:
    """The noise of Algorithm 2 as published, with L restored; half of it for zero-out adjacency.

    Raises
    ------
    ValueError
        If N does not divide T, T < 2 N, α < 1/N, or all nodes together are not (ε, δ)-private.
    """
    steps, n = whole_epochs(participation)
    checks.integer("period", n, 2)
    checks.integer("steps", steps, 2 * n)
    alpha = checks.real("alpha", alpha, f"[{1 / n!r}, 1]")
    length = checks.real("learning_rate", learning_rate, "(0, inf)")
    epsilon, delta = published_budget(budget)
    factor = ADJACENCIES[budget.adjacency] / 2
    bound = factor * budget.clip_norm
    drift = factor * 2 * length * n * checks.real("smoothness", smoothness, "(0, inf)")
    sigma = 4 * math.sqrt(-math.log(delta)) / epsilon
    first = sigma * math.sqrt(3 * math.log2(n))
    later = sigma * math.sqrt(4 * steps / n * math.log2(n))
    whole, early, combined = (
        squared_weights(participation, alpha, nodes)
        for nodes in (ALL_NODES, ReleasedNodes(last=2 * n), ReleasedNodes(first=n + 1))
    )
    loss = early / (2 * first) ** 2 + whole / (2 * later) ** 2 + (combined + whole) / later**2
    rho = loss / 2 * (1 + 1e-12)
    if gaussian_epsilon(rho, delta) > epsilon:
        raise ValueError(
            f"epsilon must be so small, or delta, that the published noise is private for this run: it is "
            f"({gaussian_epsilon(rho, delta)!r}, {delta!r})-private at most, got {epsilon!r}"
        )
    return PublishedReducedNoise(4 * bound * first, 4 * bound * later, drift * later, drift * later, rho)
