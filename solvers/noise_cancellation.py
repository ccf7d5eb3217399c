"""The noises of a machine by name, and the best of them: of all noises, and of those with little memory.

Over its participations a machine releases prefix sums, so the mean variance of its noise is the squared mean error of
``PrefixSums`` in a run of n steps.  The regret energy 1ᵀΣ1 + tr Σ is that of the workload with one more row, the sum of
all prefix sums.  Both optima, with their rigorous lower bounds, are those of ``matrix_factorisation.dense``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from corrnoise.solvers.matrix_factorisation.buffers import optimal_buffers
from corrnoise.solvers.matrix_factorisation.dense import optimal_single_participation
from scipy.linalg import solve_triangular
from scipy.optimize import minimize, minimize_scalar

from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.noise_cancellation.machine_noise import (
    CancellingNoise,
    CorrelatedMachineNoise,
    FactorisedNoise,
    MachineNoise,
)
from corrnoise.theory.noise_cancellation.tree_noise import TreeNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation
from corrnoise.theory.workloads import MatrixWorkload, PrefixSums, Workload

Objective = Literal["mean_variance", "regret_energy"]
OBJECTIVES = ("mean_variance", "regret_energy")


@record
class CertifiedNoise(Record):
    """A noise, its objective at equal privacy, and a lower bound of that of every noise.

    Attributes
    ----------
    noise
        The noise.
    value
        ``noise.mean_variance(n)`` or ``noise.regret_energy(n)``.
    lower_bound
        No Gaussian noise that does not depend on the data has less, whatever its memory; rigorous.
    """

    noise: FactorisedNoise
    value: float
    lower_bound: float


def objective_value(noise: MachineNoise, participations: int, objective: Objective) -> float:
    """``noise.mean_variance(participations)`` or ``noise.regret_energy(participations)``, by name."""
    if checks.choice("objective", objective, OBJECTIVES) == "mean_variance":
        return noise.mean_variance(participations)
    return noise.regret_energy(participations)


def optimal_machine_noise(participations: int, objective: Objective, *, tolerance: float = 1e-6) -> CertifiedNoise:
    """The noise with the least ``objective`` at equal privacy, and a certificate.

    Parameters
    ----------
    participations
        n in [1, 4096].  Matrices of n × n are made; for the regret energy in every iteration.
    objective
        ``"mean_variance"`` or ``"regret_energy"``.
    tolerance
        Relative gap between value and lower bound at which the search ends, in [1e-15, 1].

    Examples
    --------
    >>> best = optimal_machine_noise(10, "mean_variance")
    >>> round(best.value, 5), best.value / best.lower_bound - 1 < 1e-6
    (2.42158, True)
    """
    n = checks.integer("participations", participations, 1)
    mean = checks.choice("objective", objective, OBJECTIVES) == "mean_variance"
    ones = np.tril(np.ones((n, n)))
    workload: Workload = PrefixSums(n) if mean else MatrixWorkload(np.vstack([ones, ones.sum(axis=0)]))
    found = optimal_single_participation(workload, tolerance=checks.real("tolerance", tolerance, "[1e-15, 1]") / 4)
    factor = solve_triangular(found.mechanism().strategy(), ones.T, lower=True, trans="T").T  # A C⁻¹
    noise = FactorisedNoise(np.tril(factor))
    rows = 1 if mean else n + 1
    return CertifiedNoise(noise, objective_value(noise, n, objective), rows * found.lower_bound**2 * (1 - 1e-15))


def best_cancelling_noise(participations: int, objective: Objective) -> CancellingNoise:
    """The best share of its last noise for a machine to take back: one vector of memory, as published.

    Parameters
    ----------
    participations
        n >= 1.
    objective
        ``"mean_variance"`` or ``"regret_energy"``.

    Notes
    -----
    The minimum over the share to a relative error of 1e-6 in its logarithm.

    Examples
    --------
    >>> noise = best_cancelling_noise(100, "mean_variance")
    >>> round(noise.share, 2), round(noise.mean_variance(100), 1)
    (0.09, 10.0)
    """
    n = checks.integer("participations", participations, 1)

    def value(log_share: float) -> float:
        return objective_value(CancellingNoise(share=float(np.exp(log_share))), n, objective)

    found = minimize_scalar(value, bounds=(-np.log(n) - 3, 0), method="bounded", options={"xatol": 1e-6})
    best = CancellingNoise(share=float(np.exp(found.x)))
    whole = CancellingNoise()
    return best if found.fun < objective_value(whole, n, objective) else whole


def best_buffered_noise(participations: int, objective: Objective, *, buffers: int = 2) -> CorrelatedMachineNoise:
    """Noise of few zeros and poles, of which a machine keeps one vector each, with a small ``objective``.

    Parameters
    ----------
    participations
        n >= 1.
    objective
        ``"mean_variance"`` or ``"regret_energy"``.
    buffers
        The most vectors, 1 to 4; fewer where more do not help.

    Notes
    -----
    For the mean variance these are the buffers of ``optimal_buffers``.  For the regret energy a local search starts
    from them.  ``optimal_machine_noise`` bounds what is left to gain.

    Examples
    --------
    >>> noise = best_buffered_noise(100, "mean_variance", buffers=2)
    >>> noise.memory(100), round(noise.mean_variance(100), 2)
    (2, 5.39)
    """
    n = checks.integer("participations", participations, 1)
    count = checks.integer("buffers", buffers, 1, largest=4)
    checks.choice("objective", objective, OBJECTIVES)
    start = checks.instance("noise", optimal_buffers(Participation(n), buffers=count).noise, PoleNoise)
    first = CorrelatedMachineNoise(start)
    if objective == "mean_variance" or start.zeros.size == 0:
        return first
    gaps = np.sort(np.concatenate([start.zeros, start.poles]))[::-1]
    increments = -np.diff(np.log(gaps), prepend=0.0)

    def noise(logarithms: Array) -> CorrelatedMachineNoise:
        ordered = np.exp(-np.cumsum(np.exp(np.clip(logarithms, -30.0, 4.0))))
        return CorrelatedMachineNoise(PoleNoise(ordered[1::2], ordered[::2]))

    def value(logarithms: Array) -> float:
        return float(np.log(noise(logarithms).regret_energy(n)))

    found = minimize(value, np.log(increments), method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9})
    best = noise(found.x)
    return best if found.fun < np.log(first.regret_energy(n)) else first


#: Noises for a given number of participations, by the names under which commands and figures know them.
NOISES: dict[str, Callable[[int], MachineNoise]] = {
    "published": lambda participations: CancellingNoise(growth=1),
    "constant": lambda participations: CancellingNoise(),
    "nothing taken back": lambda participations: CancellingNoise(share=0),
    "best share": lambda participations: best_cancelling_noise(participations, "regret_energy"),
    "two buffers": lambda participations: best_buffered_noise(participations, "regret_energy", buffers=2),
    "binary tree": TreeNoise,
    "square root": lambda participations: CorrelatedMachineNoise(NuFTRL(0)),
}


def named_noise(name: str, participations: int) -> MachineNoise:
    """One of ``NOISES``, made for so many participations of a machine.

    Examples
    --------
    >>> named_noise("published", 10)
    CancellingNoise(share=1.0, growth=1.0)
    """
    return NOISES[checks.choice("name", name, tuple(NOISES))](checks.integer("participations", participations, 1))
