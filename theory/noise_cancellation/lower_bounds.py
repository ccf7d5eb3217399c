"""The least variance that any noise of a machine can have, by a certified dual bound.

Let Σ be the covariance of the prefix noise, A the ones on and below the diagonal and X = AᵀΣ⁻¹A, whose diagonal is the
energies e_1, …, e_n.  Both objectives are tr(VΣ) = tr(QX⁻¹) with Q = AᵀVA: V = I/n for the mean variance, V = 11ᵀ + I
for ``regret_energy``.  For every d >= 0, D = diag(d), Cauchy and Schwarz give

    ‖Q^½D^½‖_*² <= tr(QX⁻¹) tr(DX) <= tr(QX⁻¹) Σ d_j max_j e_j,

so ‖Q^½D^½‖_*²/Σ d_j is a lower bound of the objective at equal privacy, for every Gaussian noise that does not depend
on the data, whatever its memory.  It is attained by X = D^{−½}(D^½QD^½)^½D^{−½} where the diagonal of X is one, which
is the fixed point d = diag (D^½QD^½)^½.

References
----------
The duality of matrix factorisation: Denisov et al., NeurIPS 2022.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from corrnoise.theory.noise_cancellation.machine_noise import MachineNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record

Objective = Literal["mean_variance", "regret_energy"]
OBJECTIVES = ("mean_variance", "regret_energy")
_UNIT = 2.0**-52


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
        Certified by a dual vector, rounding included.
    """

    noise: MachineNoise
    value: float
    lower_bound: float


def objective_value(noise: MachineNoise, participations: int, objective: Objective) -> float:
    """``noise.mean_variance(participations)`` or ``noise.regret_energy(participations)``, by name."""
    if checks.choice("objective", objective, OBJECTIVES) == "mean_variance":
        return noise.mean_variance(participations)
    return noise.regret_energy(participations)


def workload(participations: int, objective: Objective) -> Array:
    """A matrix F with FᵀF = Q, shape (r, n), r = n or n + 1; without the factor 1/n of the mean variance."""
    n = checks.integer("participations", participations, 1)
    ones = np.tril(np.ones((n, n)))
    if checks.choice("objective", objective, OBJECTIVES) == "mean_variance":
        return ones
    return np.vstack([ones, ones.sum(axis=0)])


def objective_lower_bound(dual: ArrayLike, objective: Objective) -> float:
    """A lower bound of ``objective`` for every noise of a machine with n participations, by any dual vector.

    Parameters
    ----------
    dual
        d_1, …, d_n > 0, shape (n,).
    objective
        ``"mean_variance"`` or ``"regret_energy"``.

    Returns
    -------
    ‖Q^½D^½‖_*²/Σ d_j, rounded down: the nuclear norm is at least ⟨U, F⟩/‖U‖₂ for every U, and both are bounded with the
    rounding of their sums.

    Examples
    --------
    >>> objective_lower_bound([1.0], "regret_energy") <= 2.0
    True
    """
    d = checks.reals("dual", dual, "(0, 1e100]", ndim=1)
    n = d.size
    d = d / d.max()
    weighted = workload(n, objective) * np.sqrt(d)
    left, _, right = np.linalg.svd(weighted, full_matrices=False)
    u = left @ right
    inner = (u * weighted).sum() - 4 * u.size * _UNIT * np.abs(u * weighted).sum()
    gram = np.abs(u.T @ u)
    norm_squared = (gram + 4 * n * _UNIT * (np.abs(u).T @ np.abs(u))).sum(axis=1).max()
    bound = inner**2 / norm_squared / (d.sum() * (1 + 4 * n * _UNIT))
    return float(bound / (n if objective == "mean_variance" else 1) * (1 - 1e-14))
