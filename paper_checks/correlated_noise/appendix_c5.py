"""Appendices C.4 and C.5: the integrals of ν-DP-FTRL and anti-PGD, Lemma C.21 to Proposition C.24."""

import math
from typing import Any

import numpy as np

from corrnoise.paper_checks.certification import monotone
from corrnoise.paper_checks.correlated_noise.paper import PAPER
from corrnoise.paper_checks.domains import integers, linear, log_scale, regressions
from corrnoise.paper_checks.ledger import Sides
from corrnoise.theory import elliptic
from corrnoise.theory.arithmetic import arithmetic
from corrnoise.theory.problems import LinearRegression
from corrnoise.theory.product_noise import AntiPGD, NuFTRL


@monotone(-1)
def diagonal(a: Any) -> Any:
    """I(a, a) = 2π/agm(a, 2 − a), decreasing: all means of a and 2 − a increase with a on (0, 1]."""
    return 2 * arithmetic(a).pi * elliptic.mean_inverse_modulus(a)


@PAPER.inequality(
    "Lemma C.21",
    part="(i)",
    printed=r"$I(a, a) \le 5 \log(8/a)$ for $0 < a < 1$",
    domain={"a": log_scale("1e-300", "1")},
    evidence="certified",
    outside="Below 1e-300: K(k) <= (1 + k'²/4) log(4/k') (Property F.10) gives I(a, a) <= 2.0001 log(8/a).",
    sharp="constant",
    mutants=[{"constant": "3.02"}],
)
def lemma_c21_diagonal(a: Any, constant: str = "5") -> Sides:
    """The sharp constant is 2π/log 8 = 3.0216, attained as a → 1; as a → 0 the ratio tends to 2."""
    m = arithmetic(a)
    return diagonal(a), m.number(constant) * m.log(8 / a)


@PAPER.inequality(
    "Lemma C.21",
    part="(ii)",
    printed=r"$I(a, b) \le \frac{128}{49} \log(8/a)\,(1 + O(a))$ for $a \le b \le 1/4$",
    domain={"b": log_scale("1e-300", "0.25"), "a": log_scale("1e-300", lambda b: b)},
    sharp="constant",
    mutants=[{"constant": "2.2"}],
)
def lemma_c21_off_diagonal(a: Any, b: Any, constant: str = "2.612244") -> Sides:
    """True without the factor 1 + O(a), with 128/49 = 2.612245 (proof: next part).  Sharp is 2.2056, at a = b = 1/4."""
    m = arithmetic(a, b)
    return elliptic.modulus_ratio_integral(a, b), m.number(constant) * m.log(8 / a)


@PAPER.inequality(
    "Lemma C.21",
    part="(ii, proof)",
    printed=r"$I(a, b) \le \frac{128}{49} \log(8/a)$, by $|1 - a - e^{i\omega}| \le \frac{2 - a}{2 - b} |1 - b - e^{i\omega}|$",
    domain={"a": log_scale("1e-300", "0.25")},
    evidence="certified",
    outside="Below 1e-300 the left side is negative and the right side positive.",
    mutants=[{"half": "-0.5"}],
)
def lemma_c21_proof(a: Any, half: str = "0.5") -> Sides:
    """The pointwise bound leaves (1 + k'²/4)(L + log(1 − a/2)) <= L/(1 − a/2), L = log(8/a), k' = a/(2 − a) (F.10).

    Less L, divided by a.
    """
    m = arithmetic(a)
    logarithm, square = m.log(m.number(8)) - m.log(a), a / (2 - a) / (2 - a) / 4
    return square * logarithm + (1 + a * square) * m.log1p(-a / 2) / a, m.number(half) * logarithm / (1 - a / 2)


# -- Proposition C.22 to Proposition C.24 ------------------------------------------------------------------------------

QUIET = {"problem": regressions(residual_std=0.0), "share": log_scale(1e-6, 1)}


@PAPER.inequality(
    "Proposition C.22",
    printed=r"$F_\infty(\hat\beta_\nu) \le C \max\{1, C_{kurt}\} \eta^2 G^2 \rho^{-1} \mathrm{Tr}[H] \log^2(8/\nu) + \tilde O(\eta^3 R^2 \mu G^2 \rho^{-1})$",
    corrected=r"without the last term, with $C = \frac{1}{2 \log^2 8 (2 - \eta R^2)}$, for $\eta R^2 < 2$",
    domain=QUIET,
    as_printed={"universal": True},
    counterexample={"problem": LinearRegression([1.0], (2 - 1e-9) / 3), "share": 1.0},
    sharp="constant",
    mutants=[{"constant": 0.045}],
)
def proposition_c22(
    problem: LinearRegression, share: float, constant: float = 0.11565, universal: bool = False
) -> Sides:
    """Its condition b = ηλ_j <= ¼ does not follow from η < 1/R², which does no harm.  C is universal for η R² <= c < 1 only:

    the constant of Theorem C.15, from which it is derived, diverges as η R² → 1, and the error as η R² → 2.
    """
    nu = share * float(problem.rates.min())
    error, trace = problem.stationary_error(NuFTRL(nu)), float(problem.eigenvalues.sum())
    rate = problem.learning_rate**2 * trace * (math.log(8) - math.log(nu)) ** 2
    if universal:
        return error, 1e6 * rate
    return error, float(constant) * rate / (2 - problem.learning_rate * problem.moment_bound)


@PAPER.inequality(
    "Remark C.23",
    printed=r"$\mathrm{Err}_j = \lambda_j I(\nu, \eta \lambda_j) \le O(\lambda_j \log(1/\nu))$ for $\nu \le \eta \mu$",
    domain={"rate": log_scale("1e-300", "0.999999"), "share": log_scale("1e-9", "1")},
    sharp="constant",
    mutants=[{"constant": "3.0"}],
)
def remark_c23(rate: Any, share: Any, constant: str = "3.0216") -> Sides:
    """With log(8/ν), and beyond ηλ_j <= ¼: I(ν, x) <= (2π/log 8) log(8/ν) for all ν <= x < 1."""
    m, nu = arithmetic(rate, share), max(share * rate, 1e-300)
    return elliptic.modulus_ratio_integral(nu, rate), m.number(constant) * (m.log(m.number(8)) - m.log(nu))


def anti_pgd_rate(problem: LinearRegression, nu: float) -> float:
    """η (ν d + η Tr H/ν)."""
    eta = problem.learning_rate
    return eta * (nu * problem.eigenvalues.size + eta * float(problem.eigenvalues.sum()) / nu)


@PAPER.inequality(
    "Proposition C.24",
    part="(rate)",
    printed=r"$F_\infty(\beta) = \Theta(\eta G^2 \rho^{-1} (\nu d + \frac{\eta \mathrm{Tr}[H]}{\nu}))$ for $\beta = (1, -(1 - \nu), 0, \ldots)$",
    domain={"problem": regressions(residual_std=0.0), "nu": log_scale(1e-6, 1)},
    mutants=[{"low": 0.07}, {"high": 0.24}],
)
def proposition_c24(problem: LinearRegression, nu: float, low: float = 1 / 16, high: float = 0.25) -> Sides:
    """Between 1/16 and 1/4 of it for Gaussian inputs and η R² < 1."""
    error, rate = problem.stationary_error(AntiPGD(nu)), anti_pgd_rate(problem, nu)
    return np.array([low * rate, error]), np.array([error, high * rate])


@PAPER.inequality(
    "Proposition C.24",
    part="(dimension)",
    printed=r"For $\eta = c/\mathrm{Tr}[H]$ and $\nu = 1/\sqrt{d}$: $F_\infty = \Theta((c^{1/2} + c^{-1/2}) \eta^{3/2} \sigma^2 \sqrt{d \mathrm{Tr}[H]})$",
    transcription="square roots, also that of 1/d",
    domain={"dimension": integers(1, 3000, log=True), "decay": linear(0, 2), "c": log_scale(1e-3, 0.3)},
    mutants=[{"exponent": 1.0}],
    evaluations=128,
)
def proposition_c24_dimension(dimension: int, decay: float, c: float, exponent: float = 0.5) -> Sides:
    """With constants 1/16 and 1/2 (σ² = G²/(2ρ)).  With ν = 1/d in place of 1/sqrt(d) it is false: the ratio grows with d."""
    eigenvalues = np.arange(1.0, dimension + 1) ** -decay
    trace = float(eigenvalues.sum())
    problem = LinearRegression(eigenvalues, c / trace)
    error = problem.stationary_error(AntiPGD(dimension**-exponent))
    rate = (c**0.5 + c**-0.5) * problem.learning_rate**1.5 * math.sqrt(dimension * trace) / 2
    return np.array([rate / 16, error]), np.array([error, 2 * rate])
