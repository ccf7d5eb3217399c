"""How private the messages of one machine are: exactly, from the covariance of its noise.

An example of the machine is used once, in the message j of round t_j, and replacing it shifts that message by at most
Δ_j = ``shifts(t_j)``.  The n messages of the machine are ρ-zCDP with

    ρ = max_j Δ_j² e_j / (2σ²),    e_j = 1ᵀ_{≥j} Σ⁻¹ 1_{≥j},

where σ²Σ is the covariance of their prefix sums, and as private as one Gaussian mechanism with that ρ.  It needs that
the rounds of participation are public and independent of the data, and replace-one adjacency
(docs/noise-cancellation.md).

Theorem 5.1 has 2S in place of every Δ_j, which is valid and wasteful (docs/noise-cancellation-proofs.md).  The paper's
ρ is sqrt(2ρ) of the ρ of zero-concentrated differential privacy here.

Source: Reshef and Levy, ICML 2025: Theorems 5.1, 5.2, F.1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass, Losses
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_ROUNDING_FACTOR = 1 + 1e-12


def covariance_zcdp(covariance: ArrayLike, shifts: ArrayLike) -> float:
    """The exact ρ of the messages of one machine whose prefix noise y_1, …, y_n has any covariance, shape (n, n).

    Returns max_j Δ_j² (1ᵀ_{≥j} Σ⁻¹ 1_{≥j})/2, to a relative error of n times the condition number in units of roundoff.
    """
    delta = checks.reals("shifts", shifts, "[0, inf)", ndim=1)
    sigma = checks.positive_definite("covariance", covariance, delta.size)
    ones = np.tril(np.ones((delta.size, delta.size)))
    energies = (ones * cho_solve(cho_factor(sigma, lower=True), ones)).sum(axis=0)
    return float((delta**2 * energies).max() / 2)


def largest_energies(noise: Mechanism, participations: int) -> Array:
    """The largest energy of a participation followed by at most 0, 1, …, n − 1 others, shape (n,), increasing."""
    n = participations
    first = noise.leading(n)
    if isinstance(first, ToeplitzNoise):
        return np.asarray(np.square(first.column_norms(n)))[::-1]
    if (
        isinstance(first, ScaledNoise)
        and first.step_scales is None
        and first.draw_scales is not None
        and (np.diff(first.draw_scales) >= 0).all()
    ):  # the first participation has the least noise
        return np.cumsum(np.square(first.noise.inverse_coefficients(n)) / first.draw_scales**2)
    sums = np.cumsum(np.square(first.strategy(n)), axis=0)
    column = np.arange(n)
    last = np.minimum(column + column[:, np.newaxis], n - 1)
    return np.asarray(sums[last, column].max(axis=1))


def covered_sensitivity(noise: Mechanism, participations: int) -> float:
    """An upper bound of sqrt(max_j e_j) for the program that a machine runs, in float64, rounding errors included."""
    first = noise.leading(participations)
    form: Form | None = None if first.forms() else "transform"
    return first.program(Participation.single(participations), "float64", form).sensitivity


def _rounding(noise: Mechanism, participations: int) -> float:
    """A factor, at least 1, of energies, which covers the program that a machine runs."""
    exact = float(np.square(noise.leading(participations).column_norms(participations)).max())
    return max(covered_sensitivity(noise, participations) ** 2 / exact, 1.0)


def worst_schedule_zcdp(
    noise: Mechanism,
    scale: float,
    rounds: int,
    family: LossClass,
    *,
    losses: Losses,
    participations: int | None = None,
) -> float:
    """The largest ρ that any schedule of at most ``participations`` out of ``rounds`` rounds can spend, rounded up.

    A message of round t is followed by at most T − t others, so the worst case is the largest over t of
    Δ_t² e/2 with the energy e of a participation that has T − t later ones.  ``participations`` is None for T.
    """
    rounds = checks.integer("rounds", rounds, 1)
    cap = min(rounds, rounds if participations is None else checks.integer("participations", participations, 1))
    scale = checks.real("scale", scale, "(0, 1e100]")
    spent = largest_energies(noise, cap) * _rounding(noise, cap)
    t = np.arange(1, rounds + 1)
    followed = spent[np.minimum(rounds - t, cap - 1)]
    return float(((family.shifts(t, losses=losses) / scale) ** 2 * followed).max() / 2) * _ROUNDING_FACTOR


def calibrated_scale(
    noise: Mechanism, budget: Budget, participations: int, family: LossClass, *, losses: Losses
) -> float:
    """The scale σ that keeps a machine to its budget for every schedule of at most ``participations`` rounds.

    Returns 2R sqrt(max_j e_j)/sqrt(2ρ), R the supremum of the half shifts, rounded up.  The budget is for replace-one
    adjacency, and its clipping norm is not used: the shifts are those of ``family``.
    """
    gamma = covered_sensitivity(noise, participations)
    # R = Δ/2 with one rounding; the excess of the multiplier outweighs the rounding of the product.
    return family.largest_shift(losses=losses) / 2 * of_machine(budget).multiplier(gamma) * _ROUNDING_FACTOR


def of_machine(budget: Budget) -> Budget:
    """``budget``, if it is for replace-one adjacency, as the shifts of an example that is replaced are."""
    checks.choice("adjacency", checks.instance("budget", budget, Budget).adjacency, ("replace-one",))
    return budget


@usual_float_errors
def published_scale(budget: Budget, family: LossClass, rounds: int) -> float:
    """σ with σ² = 2S² (1 + log T)/ρ, so that ``cancelling_noise(T, growth=1)`` is the noise of Theorem 5.2.

    In exact arithmetic it keeps to the budget for every schedule of the machines.

    Parameters
    ----------
    budget : Budget
        For replace-one adjacency.
    family : LossClass
        The losses.
    rounds : int
        T, at least 1.

    Returns
    -------
    float
    """
    rounds = checks.integer("rounds", rounds, 1)
    rho = of_machine(budget).gaussian_rho
    return family.published_norm * math.sqrt(2 * (1 + math.log(rounds)) / rho) * _ROUNDING_FACTOR


def published_zcdp(stds: ArrayLike, family: LossClass) -> float:
    """ρ = 2S² Σ 1/σ_k² of Theorem 5.1, for independent prefix noise with standard deviations ``stds``, shape (n,)."""
    sigma = checks.reals("stds", stds, "(0, inf)", ndim=1)
    return float(2 * ((family.published_norm / sigma) ** 2).sum())


def trusted_zcdp(stds: ArrayLike, family: LossClass, participants: int, *, losses: Losses) -> float:
    """The ρ of Algorithm 2, where the server adds fresh noise of standard deviation ``stds``, shape (T,), to q_t.

    Theorem F.1 has 2S²/m² Σ 1/σ_t².  An example of round j is in q_t for all t >= j, which gives
    max_j Δ_j²/(2m²) Σ_{t>=j} 1/σ_t²; rounded up.
    """
    sigma = checks.reals("stds", stds, "(0, inf)", ndim=1)
    m = checks.integer("participants", participants, 1)
    later = np.cumsum(1 / sigma[::-1] ** 2)[::-1]
    shifts = family.shifts(np.arange(1, sigma.size + 1), losses=losses) / m
    return float((shifts**2 * later).max() / 2) * (1 + 1e-12 * sigma.size)
