"""Rates of the stationary error: Tables 1, 2 and 4 of the correlated-noise paper, without their absolute constants.

A function here returns the expression inside an O(·), Θ(·) or Ω(·).  It says how the privacy part of
F_∞ = lim E F(θ_t) − F* (residual variance 0) grows with the learning rate η, the dimension d, the eigenvalues λ_j of
the Hessian H and the budget ρ.  The tables take the clipping norm G = 1 and ‖H‖₂ = 1, so that Tr H is the effective
dimension; here both are free.  The exact errors are in ``theory.problems.quadratic``, bounds with constants in
``published_bounds``.

By default a logarithm is log(8/·).  For small arguments it agrees with the published log(1/·) up to constants, and it
stays positive where log(1/·) vanishes.  An unstable learning rate has the rate ``inf``; the condition η ‖H‖₂ <= 1 of
the caption of Table 1 is far from sufficient: H = I of dimension 128 with η = 1/65 diverges, and so does every
η Tr H > 2.

Sources: Choquette-Choo et al., arXiv 2310.06771: Tables 1, 2 and 4, Theorem 2.2, Propositions C.22 and C.24; G. N.
Watson, The constants of Landau and Lebesgue, 1930 (the expansion of γ_T² at ν = 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks, elliptic
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.quadratic import QuadraticProblem, single_examples

_KNOWN_NOISES = "DPSGD, NuFTRL or AntiPGD"


def _log_inverse(value: float) -> float:
    """log(8/value); ``inf`` at 0."""
    return math.inf if value == 0 else math.log(8) - math.log(value)


def _stable(problem: QuadraticProblem) -> bool:
    single_examples(problem)
    return problem.instability() < 1


# -- Tables 1 and 2: one problem ---------------------------------------------------------------------------------------


def lower_bound_rate(problem: QuadraticProblem, *, budget: Budget = UNIT_BUDGET) -> float:
    """Table 1, first row: η² G² Tr H/ρ, a lower bound for all noise up to a constant (1/4 is one that holds).

    ``bounds.average_log_lower_bound`` shows that a log² of the learning rate is missing.
    """
    if not _stable(problem):
        return math.inf
    return 2 * budget.unit_variance * problem.learning_rate**2 * float(problem.eigenvalues.sum())


def stationary_error_rate(problem: QuadraticProblem, noise: ToeplitzNoise, *, budget: Budget = UNIT_BUDGET) -> float:
    """Tables 1 and 2: the rate of the stationary error due to privacy, for the kinds of noise in the tables.

    For Gaussian inputs and η R² <= 1 the exact error is 1/8 to 1/4 of the first rate, at most 0.1157 of the second,
    and 1/16 to 1/4 of the third (Proposition C.24).

    ``DPSGD()`` has Θ(η d G²/ρ), ``NuFTRL(nu)`` with ν <= ημ O(η² G² Tr H log²(8/ν)/ρ), which is ``inf`` at ν = 0, and
    ``AntiPGD(damping)`` with damping ν <= 1 Θ(η G² (ν d + η Tr H/ν)/ρ), ``inf`` at ν = 0.

    Raises
    ------
    TypeError
        If no rate is known for ``noise``.
    ValueError
        If ν or the damping is outside its range.
    """
    unit = 2 * budget.unit_variance
    eta = problem.learning_rate
    d = problem.eigenvalues.size
    trace = float(problem.eigenvalues.sum())
    if isinstance(noise, DPSGD):
        rate = eta * d
    elif isinstance(noise, NuFTRL):
        if noise.nu > problem.rates.min():
            largest = problem.rates.min()
            raise ValueError(
                f"nu must lie in [0, learning_rate × smallest eigenvalue] = [0, {largest!r}], got {noise.nu!r}"
            )
        rate = eta**2 * trace * _log_inverse(noise.nu) ** 2
    elif isinstance(noise, AntiPGD):
        nu = checks.real("damping", noise.damping, "[0, 1]")
        rate = eta * (nu * d + eta * trace / nu) if nu > 0 else math.inf
    else:
        raise TypeError(f"noise must be {_KNOWN_NOISES}, whose rates are known, got {noise!r}")
    return unit * rate if _stable(problem) else math.inf


def balanced_damping(problem: QuadraticProblem) -> float:
    """The damping ν = sqrt(η Tr H/d) that minimises the rate of damped anti-PGD, at most 1 for η Tr H <= d."""
    return math.sqrt(problem.rates.mean())


def balanced_anti_pgd_rate(problem: QuadraticProblem, *, budget: Budget = UNIT_BUDGET) -> float:
    """Table 2, last row: η^{3/2} G² sqrt(d Tr H)/ρ, damped anti-PGD at ``balanced_damping``.

    It is the geometric mean of the rate of Noisy-SGD and the lower bound, and half of ``stationary_error_rate`` there.
    """
    sgd = stationary_error_rate(problem, DPSGD(), budget=budget)
    return math.sqrt(lower_bound_rate(problem, budget=budget)) * math.sqrt(sgd)


# -- Table 2: sensitivities --------------------------------------------------------------------------------------------


def squared_sensitivity_rate(noise: ToeplitzNoise, steps: int) -> float:
    """Table 2: the rate of γ_T² after T = ``steps`` steps.

    ``DPSGD()``: 1.  ``NuFTRL(nu)``, ν <= 1: log(8 min{T, 1/ν}); γ_T² is 0.31 to 0.481 times this.
    ``AntiPGD(damping)``, ν <= 1: min{T, 1/ν}, between 0.43 and 1 times.  Published are the limits for large T.  (The
    text of Section C.5 gives γ_T = T for anti-PGD.  This is γ_T², as in the table.)
    """
    steps = checks.integer("steps", steps, 1)
    if isinstance(noise, DPSGD):
        return 1.0
    if isinstance(noise, NuFTRL):
        return _log_inverse(max(checks.real("nu", noise.nu, "[0, 1]"), 1 / steps))
    if isinstance(noise, AntiPGD):
        return 1 / max(checks.real("damping", noise.damping, "[0, 1]"), 1 / steps)
    raise TypeError(f"noise must be {_KNOWN_NOISES}, whose rates are known, got {noise!r}")


def squared_sensitivity_expansion(noise: ToeplitzNoise, steps: int) -> float:
    """γ_T² up to terms that vanish quickly as T = ``steps`` grows, for the kinds of noise in Table 2.

    ``NuFTRL(0)``: (ln T + γ_E + 4 ln 2)/π − 1/(4πT), below γ_T² by 5/(192π T²) to 0.0134/T² (these are the constants
    of Landau).  ``NuFTRL(nu)``: the limit 1/agm(ν, 2 − ν), above γ_T² by at most (1 − ν)^{2T}/(π T ν (2 − ν)).
    ``AntiPGD(damping)``: T or (1 − (1 − ν)^{2T})/(ν (2 − ν)), and ``DPSGD()``: 1, which are exact.

    For a privacy guarantee use ``noise.sensitivity``, which is exact for every T.
    """
    steps = checks.integer("steps", steps, 1)
    if isinstance(noise, DPSGD):
        return 1.0
    if isinstance(noise, NuFTRL):
        if noise.nu > 0:
            return float(elliptic.mean_inverse_modulus(noise.nu))
        return (math.log(steps) + float(np.euler_gamma) + 4 * math.log(2) - 1 / (4 * steps)) / math.pi
    if isinstance(noise, AntiPGD):
        gap = min(noise.damping, 2 - noise.damping)
        if gap in (0, 1):
            return 1.0 if gap else float(steps)
        return -math.expm1(2 * steps * math.log1p(-gap)) / (gap * (2 - gap))
    raise TypeError(f"noise must be {_KNOWN_NOISES}, whose expansions are known, got {noise!r}")


# -- Table 4: eigenvalues that decay like a power ----------------------------------------------------------------------


@dataclass(frozen=True)
class DecayRates:
    """A row of Table 4."""

    effective_dimension: float  #: rate of Tr H/‖H‖₂
    #: rates of the stationary error due to privacy of Noisy-SGD and of ν-Noisy-FTRL with ν = ημ
    noisy_sgd: float
    noisy_ftrl: float
    ratio: float  #: the rate of Noisy-FTRL's over Noisy-SGD's error


def decay_rates(
    exponent: float, dimension: int, learning_rate: float, *, budget: Budget = UNIT_BUDGET, printed: bool = False
) -> DecayRates:
    """Table 4: eigenvalues λ_k = k^{−a} for k = 1, …, d.

    All rows come from one expression.  With D = 1 + ∫_1^d u^{−a} du,

        effective dimension D,  Noisy-SGD η d G²/ρ,  Noisy-FTRL (η² G²/ρ) D log(8 d^a/η) log(8 d^{min(a, 1)}/η).

    Tr H is between D/2 and D for every a and d.  For Gaussian inputs and η R² <= 1 the error of Noisy-FTRL is at most
    0.1473 of its rate, the trace of H times two logarithms; one depends on ν.  For d >= 2 the
    published rows agree with this row up to constants, or are weaker.  They are far weaker near a = 1, where
    d^{1−a}/(1−a) and a/(a−1) have poles.

    Two entries differ.  The published ratio at a = 2 has log³(d/η) where its own columns give log²(d/η).  The published
    Noisy-FTRL entry at general a > 1 is true, but its derivation from Theorem 2.2 does not hold: the theorem
    gives a³/(a−1) instead of a²/(a−1).

    0 < η < 1; stability needs at least η Tr H < 2, which is not checked.  The published effective dimension is d,
    sqrt(d), d^{1−a}/(1−a), log d, 1 and a/(a−1) for a = 0, 1/2, other a < 1, 1, 2 and other a > 1.  Its logarithms are
    log²(1/η) at a = 0, log³(d/η) at a = 1 and log²(d/η) elsewhere, with another factor a at general a > 1.
    """
    a = checks.real("exponent", exponent, "[0, inf)")
    d = checks.integer("dimension", dimension, 1)
    eta = checks.real("learning_rate", learning_rate, "(0, 1)")
    unit = 2 * budget.unit_variance
    row = _printed_row if printed else _uniform_row
    effective_dimension, trace_logs, ratio_logs = row(a, d, eta)
    return DecayRates(effective_dimension, unit * eta * d, unit * eta**2 * trace_logs, eta / d * ratio_logs)


def _uniform_row(a: float, d: int, eta: float) -> tuple[float, float, float]:
    """The effective dimension, and its products with the logarithms of Noisy-FTRL and of the ratio."""
    log_d = math.log(d)
    log = math.log(8 / eta)
    growth = (1 - a) * log_d
    dimension = 1 + (math.expm1(growth) / (1 - a) if growth else log_d)
    product = dimension * (log + a * log_d) * (log + min(a, 1) * log_d)
    return dimension, product, product


def _printed_row(a: float, d: int, eta: float) -> tuple[float, float, float]:
    log_d = math.log(d)
    log = math.log(d / eta)
    if a < 1:
        dimension = d ** (1 - a) / (1 if a == 0.5 else 1 - a)
        product = dimension * (math.log(1 / eta) if a == 0 else log) ** 2
        return dimension, product, product
    if a == 1:
        return log_d, log**3, log**3
    if a == 2:
        return 1.0, log**2, log**3
    return a / (a - 1), a**2 / (a - 1) * log**2, a**2 / (a - 1) * log**2
