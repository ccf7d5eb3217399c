"""Bounds of the stationary error of linear regression and mean estimation, as published, corrected and sharpened.

Every function takes a problem of ``theory.problems.quadratic`` with one example a step and returns a bound of
F_∞ = lim E F(θ_t) − F*, always with F(θ) − F* = ½ ‖θ − θ*‖²_H.  The paper mixes two conventions.  Its equation (22)
has no factor ½, and with it Theorem C.18 is true.  Its equations (6), (8) and (86) have the factor, and with them the
printed bound of C.18 is twice too large.  Square roots lost in some electronic copies of the paper are restored.

Notation: s² is the residual variance, σ² = G² γ_∞²/(2ρ), b_j the averaged variance of the noise at x_j = η λ_j, and R²
is ``problem.moment_bound``.  Lemma C.4, made exact, says (η/2π) ∫ |B|² h dω = Σ b_j/(2 − x_j) with
h(ω) = Σ λ_j/|1 − x_j − e^{iω}|².

N2 and N3 are results of this project, like N1, which is ``problem.upper_bound``.
Source: Choquette-Choo et al., arXiv 2310.06771: Theorems 2.1, 2.2, C.14, C.18.
"""

import math

import numpy as np

from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks, elliptic
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.quadratic import MeanEstimation, QuadraticProblem, single_examples

# -- one noise ---------------------------------------------------------------------------------------------------------


def theorem_c14_upper_bound(
    problem: QuadraticProblem,
    noise: ToeplitzNoise,
    *,
    budget: Budget = UNIT_BUDGET,
    kurtosis_constant: float = 3.0,
) -> float:
    """Theorem C.14, in the time domain, for η R² < 1 (else ``inf``).

    (1 + (1 − r)^{−2}) r² s² + (1 + C (1 − r)^{−2}) η σ² Σ b_j with r = sqrt(η R²) and C = ``kurtosis_constant``, 3 for
    Gaussian inputs.  The bound is true, and about ten times the error; ``problem.upper_bound`` is sharper.
    """
    single_examples(problem)
    variance = checked_noise(noise).variance(budget)
    c = checks.real("kurtosis_constant", kurtosis_constant, "[0, inf)")
    r2 = problem.learning_rate * problem.moment_bound
    if math.isinf(variance) or not r2 < 1:
        return math.inf
    b = noise.averaged_variance(problem.rates)
    total = float(b.sum())
    series = (1 - math.sqrt(r2)) ** -2
    return (1 + series) * r2 * problem.residual_std**2 + (1 + c * series) * problem.learning_rate * variance * total


def theorem_c18_lower_bound(problem: QuadraticProblem, noise: ToeplitzNoise, *, budget: Budget = UNIT_BUDGET) -> float:
    """First part of Theorem C.18 for one noise: (η/4) s² Tr H + (η²G²γ²/(8πρ)) ∫ |B|² h.

    The published constants are twice these and false for the F with the factor ½.
    Counterexample: for d = 1, λ = 1, η = 0.01, independent noise and s = 0, F_∞ is 0.00126904 and the printed bound
    0.00251256.
    """
    single_examples(problem)
    variance = checked_noise(noise).variance(budget)
    x = problem.rates
    eta = problem.learning_rate
    if math.isinf(variance) or not (x < 2).all():
        return math.inf
    residual = eta / 4 * problem.residual_std**2 * problem.trace
    privacy = eta / 2 * variance * float((noise.averaged_variance(x) / (2 - x)).sum())
    return residual + privacy


# -- all noise ---------------------------------------------------------------------------------------------------------


def average_log_lower_bound(problem: QuadraticProblem, *, budget: Budget = UNIT_BUDGET) -> float:
    """N2, over all noise: (η/4) s² Tr H + (η²G²/(4ρ)) (Σ λ_j γ_∞²(x_j))²/Tr H with γ_∞²(x) = 1/agm(x, 2 − x).

    The privacy term is at least (η²G²/(4π²ρ)) Tr H (avg_λ log(8/x_j))², with the average over weights λ_j.  So the log²
    that Theorem 2.2 has in its upper bound only is unavoidable.  N2 follows from C.18 by the concavity of the root.
    """
    single_examples(problem)
    eta = problem.learning_rate
    trace = problem.trace
    x = problem.rates
    if not (x < 2).all():
        return math.inf
    seen = float((problem.eigenvalues * elliptic.mean_inverse_modulus(x)).sum())
    return eta / 4 * problem.residual_std**2 * trace + eta**2 * budget.unit_variance / 2 * seen**2 / trace


# -- ν-DP-FTRL and DP-SGD with explicit constants ----------------------------------------------------------------------


def nu_ftrl_upper_bound(problem: QuadraticProblem, nu: float, *, budget: Budget = UNIT_BUDGET) -> float:
    """N3: an upper bound of the error of ν-DP-FTRL with 0 < ν <= ημ, for η R² < 2 and x_j < 1.

        (η s² Tr H/2 + η²G² log(8/ν)/(ρ log² 8) · min{ Tr H log(8/ν)/2, (2/π) Σ λ_j log(8/x_j) }) / (2 − η R²).

    This is Theorem 2.2 and Proposition C.22 with explicit constants.  The second term of the minimum shows that only
    one of the two logarithms depends on ν.  The bound is ``inf`` outside the stated range of η.
    """
    single_examples(problem)
    eta = problem.learning_rate
    x = problem.rates
    trace = problem.trace
    nu = checks.real("nu", nu, "(0, 2)")
    if nu > x.min():
        raise ValueError(f"nu must lie in (0, learning_rate × smallest eigenvalue] = (0, {x.min()!r}], got {nu!r}")
    if not eta * problem.moment_bound < 2 or not (x < 1).all():
        return math.inf
    log8 = math.log(8)
    one_log = 2 / math.pi * float((problem.eigenvalues * (log8 - np.log(x))).sum())
    smaller = min(trace * (log8 - math.log(nu)) / 2, one_log)
    privacy = eta**2 * 2 * budget.unit_variance * (log8 - math.log(nu)) / log8**2 * smaller
    return (eta * problem.residual_std**2 * trace / 2 + privacy) / (2 - eta * problem.moment_bound)


def dp_sgd_error_bounds(problem: QuadraticProblem, *, budget: Budget = UNIT_BUDGET) -> tuple[float, float]:
    """Theorem 2.2 for DP-SGD with explicit constants: (lower, upper) = (1, 2) × (η d G²/(8ρ) + η s² Tr H/4).

    For η R² <= 1; beyond that the upper bound is ``inf``.
    """
    single_examples(problem)
    eta = problem.learning_rate
    privacy = eta * problem.eigenvalues.size * budget.unit_variance / 4
    lower = privacy + eta / 4 * problem.residual_std**2 * problem.trace
    return lower, 2 * lower if eta * problem.moment_bound <= 1 else math.inf


def mean_estimation_optimal_error_bounds(
    problem: MeanEstimation, *, budget: Budget = UNIT_BUDGET
) -> tuple[float, float]:
    """Theorem 2.1's optimum with explicit constants, as (lower, upper), for 0 < η < 2.

    The bounds are (1, (π/log 16)²) × (η²G²/(π²ρ)) log²(4/sqrt(η (2 − η))), with η s²/(2 (2 − η)) added to both.  The
    published Θ(η² ρ⁻¹ log²(1/η)) is wrong as η → 1, where it tends to 0 while the optimum tends to G²/(4ρ).
    """
    single_examples(problem)
    eta = problem.learning_rate
    if not eta < 2:
        return math.inf, math.inf
    log = math.log(4) - (math.log(eta) + math.log(2 - eta)) / 2
    privacy = (eta / math.pi * log) ** 2 * 2 * budget.unit_variance
    residual = eta * problem.residual_std**2 / (2 * (2 - eta))
    return privacy + residual, (math.pi / math.log(16)) ** 2 * privacy + residual
