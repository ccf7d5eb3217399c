"""Exact Rényi divergences of Gaussian outputs: the truth that accountants bound, where losses are quadratic.

With quadratic losses, a quadratic regulariser and Gaussian noise the released iterate is Gaussian, and two runs on
neighbouring data differ in its mean and, where the curvatures differ, in its covariance.

Sources: M. Gil, F. Alajaji, T. Linder, Rényi divergence measures for commonly used univariate continuous distributions,
2013; Jiang, Sharma, Wu and Joshi, 2026: Section 4, Lemmas E.2 and F.2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array


def gaussian_renyi_divergence(
    order: float, mean: ArrayLike, covariance: ArrayLike, other_mean: ArrayLike, other_covariance: ArrayLike
) -> float:
    """D_α(N(mean, covariance) ‖ N(other_mean, other_covariance)) in d dimensions for α = ``order`` > 1.

    Returns (α/2) mᵀ S⁻¹ m − log(det S/(det C₀^{1−α} det C₁^α))/(2 (α − 1)) with S = α C₁ + (1 − α) C₀, C₀ the first
    covariance; ``inf`` unless S is positive definite.
    """
    alpha = checks.real("order", order, "(1, inf)")
    centre = checks.reals("mean", mean, ndim=1)
    gap = centre - checks.shaped("other_mean", other_mean, centre.shape)
    first = checks.positive_definite("covariance", covariance, centre.size)
    second = checks.positive_definite("other_covariance", other_covariance, centre.size)
    mixed = alpha * second + (1 - alpha) * first
    if np.linalg.eigvalsh(mixed).min() <= 0:
        return math.inf
    logs = [np.linalg.slogdet(matrix)[1] for matrix in (mixed, first, second)]
    shape = (logs[0] - (1 - alpha) * logs[1] - alpha * logs[2]) / (2 * (alpha - 1))
    return float(alpha / 2 * gap @ np.linalg.solve(mixed, gap) - shape)


def linear_run_separation(sensitivities: ArrayLike, noise: ArrayLike, contractions: ArrayLike) -> float:
    """Squared distance of the last iterates over their variance, for linear maps x_t = c_t x_{t−1} ± s_t/2 + noise.

    The exact counterpart of ``best_plan_cost``: (Σ w_t s_t)²/Σ (w_t τ_t)² with w_t = c_{t+1} … c_T, never above it.  No
    product under- or overflows; below 1e-307 the result may be 0.
    """
    s = checks.reals("sensitivities", sensitivities, ndim=1)
    tau = checks.shaped("noise", noise, s.shape, "[0, inf)")
    c = checks.shaped("contractions", contractions, s.shape, "[-1, 1]")
    signs = np.concatenate([np.cumprod(np.sign(c[:0:-1]))[::-1], [1.0]])
    with np.errstate(divide="ignore"):
        logs = np.concatenate([np.cumsum(np.log(np.abs(c[:0:-1])))[::-1], [0.0]])  # of |w|; −inf where it vanishes
    seen, heard = (np.max(logs[arrives], initial=-np.inf) for arrives in (s != 0, tau > 0))
    if seen == -np.inf:
        return 0.0
    # Each sum is taken relative to its largest weight, so that products may underflow.
    distance = abs(float((signs * s * np.exp(np.where(s != 0, logs - seen, -np.inf))).sum()))
    if heard == -np.inf or distance == 0:
        return math.inf if distance > 0 else 0.0
    spread = float(np.square(tau * np.exp(np.where(tau > 0, logs - heard, -np.inf))).sum())
    return math.exp(min(2 * (seen - heard + math.log(distance)) - math.log(spread), 709.0))


def quadratic_run(
    hessians: ArrayLike,
    targets: ArrayLike,
    noise: ArrayLike,
    learning_rate: ArrayLike,
    *,
    ridge: float = 0.0,
    start: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Mean and covariance of the last iterate of a shuffled run on quadratic losses.

    The losses ½ xᵀ A_{k,i} x − b_{k,i}ᵀ x stand in the order of the steps: ``hessians`` A have the shape (K, n, d, d),
    ``targets`` b (K, n, d), the standard deviations ``noise`` of the gradients (K, n), and the learning rate η > 0 ()
    or (K, n).  ψ(x) = (λ/2) ‖x‖² with λ = ``ridge`` is applied as prox_{nηψ} after each epoch with the η of its last
    step.
    """
    b, rates = checks.reals("targets", targets), checks.reals("learning_rate", learning_rate, "(0, inf)")
    if b.ndim != 3 or b.size == 0:
        raise ValueError(f"targets must have shape (K, n, d) with K, n, d >= 1, got shape {b.shape}")
    epochs, n, d = b.shape
    a = checks.shaped("hessians", hessians, (*b.shape, d))
    sigma = checks.shaped("noise", noise, (epochs, n), "[0, inf)")
    if rates.shape not in ((), (epochs, n)):
        raise ValueError(f"learning_rate must be a scalar or have shape {(epochs, n)}, got shape {rates.shape}")
    eta = np.broadcast_to(rates, (epochs, n))
    shrink = 1 / (1 + eta[:, -1] * n * checks.real("ridge", ridge, "[0, inf)"))
    mean = np.zeros(d) if start is None else checks.shaped("start", start, (d,))
    covariance = np.zeros((d, d))
    for k in range(epochs):
        for i in range(n):
            step = np.eye(d) - eta[k, i] * a[k, i]
            mean = step @ mean + eta[k, i] * b[k, i]
            covariance = step @ covariance @ step.T + (eta[k, i] * sigma[k, i]) ** 2 * np.eye(d)
        mean = shrink[k] * mean
        covariance = shrink[k] ** 2 * covariance
    return mean, covariance


def noise_variance(
    samples: int,
    epochs: int,
    learning_rate: float,
    curvature: float,
    *,
    ridge: float = 0.0,
    quiet_epochs: int = 0,
) -> float:
    """Variance of a coordinate of the last iterate that noise of variance 1 at every step leaves.

    The losses are (a/2) ‖x‖²: the closed form of ``quadratic_run`` for runs that show their noise only.  With x_1 = 0
    the excess risk is (d/2) (a + λ) σ² times this.

    Returns Σ η² (1 − η a)^{2i} (1 + η n λ)^{−2k} over the noisy steps, each with i steps and k proximal steps after it.
    Relative error below 1e-12.  The ``curvature`` is a >= 0 with η a < 1, ``ridge`` is λ >= 0 of ψ(x) = (λ/2) ‖x‖², and
    ``quiet_epochs`` without noise follow the K noisy ones.
    """
    n, noisy = checks.integer("samples", samples, 1), checks.integer("epochs", epochs, 1)
    eta = checks.real("learning_rate", learning_rate, "(0, inf)")
    step = 2 * math.log1p(-checks.real("learning_rate * curvature", eta * curvature, "[0, 1)"))
    prox = -2 * math.log1p(eta * n * checks.real("ridge", ridge, "[0, inf)"))
    epoch = n * step + prox
    later = checks.integer("quiet_epochs", quiet_epochs, 0) * epoch + prox
    return eta**2 * _geometric_sum(step, n) * _geometric_sum(epoch, noisy) * math.exp(later)


def _geometric_sum(exponent: float, terms: int) -> float:
    """1 + e^x + … + e^{(m − 1) x} for x <= 0."""
    return math.expm1(terms * exponent) / math.expm1(exponent) if exponent < 0 else float(terms)
