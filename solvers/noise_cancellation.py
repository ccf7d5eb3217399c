"""The best noise of a machine: of all noises, and of those with one vector of memory."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from corrnoise.theory.noise_cancellation.lower_bounds import (
    CertifiedNoise,
    Objective,
    objective_lower_bound,
    objective_value,
    workload,
)
from corrnoise.theory.noise_cancellation.machine_noise import CancellingNoise, FactorisedNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array


def optimal_machine_noise(
    participations: int, objective: Objective, *, tolerance: float = 1e-6, iterations: int = 2000
) -> CertifiedNoise:
    """The noise with the least ``objective`` at equal privacy, and a certificate.

    Parameters
    ----------
    participations
        n >= 1; time O(n³) an iteration.
    objective
        ``"mean_variance"`` or ``"regret_energy"``.
    tolerance
        Relative gap between value and lower bound at which the iteration ends, in (0, 1).
    iterations
        The largest number of iterations; after that the record says how far it came.

    Notes
    -----
    The fixed point d = diag (D^½QD^½)^½ by iteration.  Every iterate is a noise, with its exact value, and a lower
    bound.
    """
    n = checks.integer("participations", participations, 1)
    tolerance = checks.real("tolerance", tolerance, "(0, 1)")
    f = workload(n, objective)
    q = f.T @ f
    d = np.ones(n)
    for step in range(checks.integer("iterations", iterations, 1)):
        root = np.sqrt(d)
        values, vectors = np.linalg.eigh(root[:, np.newaxis] * q * root)
        square_root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        updated = np.diag(square_root).copy()
        if step % 10 == 9 or np.abs(updated / d - 1).max() < tolerance / 10 or step == iterations - 1:
            strategy_gram = square_root / np.outer(root, root)
            noise = _factorised(strategy_gram)
            value = objective_value(noise, n, objective)
            bound = objective_lower_bound(d, objective)
            if value <= bound * (1 + tolerance):
                break
        d = updated
    return CertifiedNoise(noise=noise, value=value, lower_bound=bound)


def _factorised(gram: Array) -> FactorisedNoise:
    """The noise with Σ = A X⁻¹ Aᵀ for X = ``gram``, scaled to largest energy 1."""
    n = gram.shape[0]
    gram = gram / np.diag(gram).max()
    # X = CᵀC with lower-triangular C, by a Cholesky decomposition in reverse order; then P = A C⁻¹.
    strategy = np.linalg.cholesky(gram[::-1, ::-1])[::-1, ::-1].T
    factor = np.tril(np.ones((n, n))) @ np.linalg.inv(strategy)
    return FactorisedNoise(np.tril(factor))


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
