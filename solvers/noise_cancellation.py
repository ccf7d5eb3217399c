"""The noises of a machine by name, and the best of them: of all noises, and of those with little memory.

Over its participations a machine releases prefix sums, so the mean variance of its noise is the squared mean error of
``PrefixSums`` in a run of n steps.  The regret energy 1ᵀΣ1 + tr Σ is that of the workload with one more row, the sum of
all prefix sums.  Both optima, with their rigorous lower bounds, are those of
``certified.single_participation``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from corrnoise.solvers.certified.single_participation import (
    single_participation_bounds,
    single_participation_strategy,
)
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.objectives import run_objective
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.noise_cancellation.machines import cancelling_noise, mean_variance, regret_energy
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.workloads import MatrixWorkload, PrefixSums, Workload

Objective = Literal["mean_variance", "regret_energy"]
OBJECTIVES = ("mean_variance", "regret_energy")


@record
class CertifiedNoise(Record):
    """A noise, its objective at equal privacy, and a lower bound of that of every noise."""

    noise: Mechanism  #: the noise
    value: float  #: ``mean_variance(noise, n)`` or ``regret_energy(noise, n)``
    lower_bound: float  #: no Gaussian noise that does not depend on the data has less, whatever its memory; rigorous


def objective_value(noise: Mechanism, participations: int, objective: Objective) -> float:
    """``mean_variance(noise, participations)`` or ``regret_energy(noise, participations)``, by name."""
    if checks.choice("objective", objective, OBJECTIVES) == "mean_variance":
        return mean_variance(noise, participations)
    return regret_energy(noise, participations)


def optimal_machine_noise(participations: int, objective: Objective, *, tolerance: float = 1e-6) -> CertifiedNoise:
    """The noise with the least ``objective`` at equal privacy, and a certificate, for 1 to 4096 participations.

    The search ends at a relative gap of ``tolerance`` between value and lower bound.  Matrices of n × n are made; for
    the regret energy in every iteration.
    """
    n = checks.integer("participations", participations, 1)
    mean = checks.choice("objective", objective, OBJECTIVES) == "mean_variance"
    ones = np.tril(np.ones((n, n)))
    workload: Workload = PrefixSums(n) if mean else MatrixWorkload(np.vstack([ones, ones.sum(axis=0)]))
    found = single_participation_bounds(workload, tolerance=checks.real("tolerance", tolerance, "[1e-15, 1]") / 4)
    noise = single_participation_strategy(workload, found)
    rows = 1 if mean else n + 1
    return CertifiedNoise(noise, objective_value(noise, n, objective), rows * found.lower_bound**2 * (1 - 1e-15))


def best_cancelling_noise(participations: int) -> Mechanism:
    """The share of its last noise with the least regret energy for a machine to take back: one vector, as published.

    The logarithm of the share has a relative error of 1e-6.
    """
    n = checks.integer("participations", participations, 1)

    def value(log_share: float) -> float:
        return regret_energy(cancelling_noise(n, share=float(np.exp(log_share))), n)

    found = minimize_scalar(value, bounds=(-np.log(n) - 3, 0), method="bounded", options={"xatol": 1e-6})
    best = cancelling_noise(n, share=float(np.exp(found.x)))
    whole = cancelling_noise(n)
    return best if found.fun < regret_energy(whole, n) else whole


def best_buffered_noise(participations: int, *, buffers: int = 2) -> PoleNoise:
    """Noise of few zeros and poles, of which a machine keeps one vector each, with a small regret energy.

    A local search starts from ``best_buffers``.  ``optimal_machine_noise`` bounds what is left to gain.  Of the
    ``buffers`` vectors, 1 to 4, fewer are kept where more do not help.
    """
    n = checks.integer("participations", participations, 1)
    count = checks.integer("buffers", buffers, 1, largest=4)
    start = best_buffers(run_objective(PrefixSums(n)), Participation.single(n), count)
    if start.zeros.size == 0:
        return start
    gaps = np.sort(np.concatenate([start.zeros, start.poles]))[::-1]
    increments = -np.diff(np.log(gaps), prepend=0.0)

    def noise(logarithms: Array) -> PoleNoise:
        ordered = np.exp(-np.cumsum(np.exp(np.clip(logarithms, -30.0, 4.0))))
        return PoleNoise(ordered[1::2], ordered[::2])

    def value(logarithms: Array) -> float:
        return float(np.log(regret_energy(noise(logarithms), n)))

    found = minimize(value, np.log(increments), method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9})
    best = noise(found.x)
    return best if found.fun < np.log(regret_energy(start, n)) else start


#: Noises for a given number of participations, by the names under which commands and figures know them.
NOISES: dict[str, Callable[[int], Mechanism]] = {
    "published": lambda participations: cancelling_noise(participations, growth=1),
    "constant": cancelling_noise,
    "nothing taken back": lambda participations: cancelling_noise(participations, share=0),
    "best share": best_cancelling_noise,
    "two buffers": best_buffered_noise,
    "binary tree": BinaryTree,
    "square root": lambda participations: NuFTRL(0),
}


def named_noise(name: str, participations: int) -> Mechanism:
    """One of ``NOISES``, made for so many participations of a machine."""
    return NOISES[checks.choice("name", name, tuple(NOISES))](checks.integer("participations", participations, 1))


def best_share(participation: Participation) -> Mechanism:
    """The share of its last noise, taken back in each step, with the least mean variance of the prefix sums.

    The noise keeps one vector.  A search over the logarithm of the share ends at a relative error of 1e-6; independent
    noise, of the share 0, is returned where no share is better.  ``participation`` has a number of steps.
    """

    def noise(log_share: float) -> PoleNoise:
        return PoleNoise([0.0], [float(np.exp(log_share))])

    lowest = -2 * np.log(participation.length + 1.0) - 3
    found = minimize_scalar(
        lambda x: noise(x).mean_error(participation), bounds=(lowest, -1e-9), method="bounded", options={"xatol": 1e-6}
    )
    return noise(found.x) if found.fun < DPSGD().mean_error(participation) else DPSGD()
