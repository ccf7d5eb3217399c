"""Toeplitz noise with a factor for each step.

*Unit columns* give all columns of the strategy the norm 1.  *Epoch weights* p_e are shares of the budget: with at most
``period`` bands and columns of the squared norm p_e in epoch e the sensitivity is at most 1.  With Q_ef the parts of
the form by pairs of epochs at unit columns, the best weights minimise (uᵀ Q u) Σ u_e⁻² over u_e = p_e^{−1/2}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.optimize import minimize

from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.base import LARGEST_MATRIX

UNIT_COLUMNS, EPOCH_WEIGHTS = "unit columns", "epoch weights"
MAX_EPOCHS = 64  #: epochs with weights of their own


class Scaled(Family):
    """The members of a Toeplitz family with a factor for each step.

    Parameters
    ----------
    base : Family
        A family of Toeplitz noise.
    variant : str
        ``"unit columns"`` or ``"epoch weights"``.
    """

    def __init__(self, base: Family, variant: str) -> None:
        self.base, self.variant = base, variant
        self.name, self.source, self.look = base.name, base.source, base.look
        self.needs = base.needs
        if variant == EPOCH_WEIGHTS:
            self.needs = f"{base.needs}, 2 to {MAX_EPOCHS} participations and an epoch of more than one step"

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        who = run.who
        weighted = 1 < who.count <= MAX_EPOCHS and who.period > 1
        possible = weighted if self.variant == EPOCH_WEIGHTS else run.steps > 1
        return self.base.sizes(run, memory) if possible and run.steps <= LARGEST_MATRIX else []

    def most(self, run: Problem) -> int:
        return self.base.most(run)

    def make(self, run: Problem, size: int) -> Mechanism:
        return self._scaled(run, self.base.member(run, size))

    def members(self, run: Problem, sizes: Sequence[int], progress: Callable[[str], None]) -> Iterator[Mechanism]:
        return (self._scaled(run, noise) for noise in self.base.members(run, sizes, progress))

    def _scaled(self, run: Problem, noise: Mechanism) -> ScaledNoise:
        if not isinstance(noise, ToeplitzNoise):
            raise ValueError(f"family must be Toeplitz to have {self.variant}, got {type(noise).__name__}")
        weights = None
        if self.variant == EPOCH_WEIGHTS:
            norms = noise.column_norms(run.steps)
            weights = epoch_weights(run.objective.epoch_powers(noise.coefficients(run.steps), norms, run.who.period))
        return ScaledNoise.normalised(noise, run.who, weights)


def epoch_weights(powers: Array) -> Array:
    """The weights p, Σ p = 1, that minimise Σ Q_ef/sqrt(p_e p_f).

    Parameters
    ----------
    powers : Array
        Q, shape (epochs, epochs).

    Returns
    -------
    Array
        p, shape (epochs,).
    """

    def loss(logarithms: Array) -> tuple[float, Array]:
        u = np.exp(logarithms)
        seen = powers @ u
        total, budget = float(u @ seen), float((u**-2.0).sum())
        return math.log(total) + math.log(budget), 2 * u * seen / total - 2 * u**-2.0 / budget

    start = np.zeros(powers.shape[0])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-6.0, 6.0)] * start.size).x
    weights = np.exp(-2 * found)
    return np.asarray(weights / weights.sum())
