"""Appendices A and B: the matrix mechanism, differential privacy, and the linear system of mean estimation."""

import math

import numpy as np

from corrnoise.paper_checks.correlated_noise.oracles import noise_matrix
from corrnoise.paper_checks.correlated_noise.paper import PAPER, SHORT
from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, noises, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.quadrature import circle_mean, modulus
from corrnoise.theory.privacy import Budget, gaussian_epsilon
from corrnoise.theory.problems.quadratic import MeanEstimation

# -- A.1: the matrix mechanism -----------------------------------------------------------------------------------------


@PAPER.identity(
    "Equation (12)",
    printed=r"Letting $A \in \mathbb{R}^{T \times T}$ denote the lower triangular matrix of all ones, update (11) can also be written as $(\theta_1 - \theta_0; \ldots; \theta_T - \theta_0) = - \eta \tilde B (C (g_0; \ldots; g_{T-1}) + (w_0; \ldots; w_{T-1}))$, where $\tilde B = A B$.",
    reading="semicolons separate the rows of columns",
    domain={"noise": noises(1e-2), "gradients": vector(linear(-1, 1), 5), "draws": vector(linear(-1, 1), 5)},
    mutants=[{"diagonal": 1.001}],
    tolerance=1e-9,
    evaluations=64,
)
def equation_12(noise: ToeplitzNoise, gradients: Array, draws: Array, diagonal: float = 1.0) -> Sides:
    """The iterates of (11), θ_t = θ_{t−1} − η (B (C g + w))_{t−1}, step by step, against A B (C g + w); η = 1, θ_0 = 0."""
    b = noise_matrix(noise, 5)
    released = b @ (np.linalg.solve(b, gradients) + draws)
    theta = [0.0]
    for step in released:
        theta.append(theta[-1] - step)
    ones = np.tril(np.ones((5, 5)), -1) + diagonal * np.eye(5)
    return 1 + np.array(theta[1:]), 1 - ones @ b @ (np.linalg.solve(b, gradients) + draws)


@PAPER.identity(
    "Equation (13)",
    printed=r"We focus on the class of lower-triangular and Toeplitz matrices $B$. That is, $[B]_{t,t'} = \beta_{t-t'}$ for all $t \ge t'$ … In this case, (11) reduces to this simple update: $\theta_{t+1} = \theta_t - \eta (g_t + \sum_{\tau=0}^t \beta_\tau w_{t-\tau})$",
    domain={"noise": noises(1e-2), "gradients": vector(linear(-1, 1), 5), "draws": vector(linear(-1, 1), 5)},
    mutants=[{"shift": 1}],
    tolerance=1e-9,
    evaluations=64,
)
def equation_13(noise: ToeplitzNoise, gradients: Array, draws: Array, shift: int = 0) -> Sides:
    """The subtraction in a step of (11), against the convolution."""
    b = noise_matrix(noise, 5)
    convolved = np.convolve(noise.coefficients(5), np.roll(draws, shift))[:5]
    return 1 + b @ (np.linalg.solve(b, gradients) + draws), 1 + gradients + convolved


@PAPER.identity(
    "Section A.1 (sensitivity)",
    printed=r"Under a neighborhood model that can change one row of $G$, it can be seen that the maximum sensitivity of this operation is $\max_t \|C_{:,t}\|_2^2$",
    reading="the operation is $C G + W$",
    repair=r"$\max_t \|C_{:,t}\|_2$ times the clip norm, without the square",
    independent="the left side applies the matrix to neighbouring gradients, the right side takes the norms of its columns",
    domain={"noise": noises(1e-2), "steps": integers(1, 12), "clip_norm": log_scale(0.1, 10)},
    as_printed={"power": 2.0, "scale": 0.0},
    counterexample={"noise": FiniteNoise([1.0, -0.5]), "steps": 2, "clip_norm": 1.0},
    mutants=[{"power": 1.001}, {"scale": 0.999}],
    tolerance=1e-9,
    evaluations=128,
)
def section_a1_sensitivity(
    noise: ToeplitzNoise, steps: int, clip_norm: float, power: float = 1.0, scale: float = 1.0
) -> Sides:
    """The largest ‖C (G − G')‖_F over zero-out neighbours, row by row.  B = (1, −½), T = 2: sqrt(1.25), and printed 1.25."""
    c = np.linalg.inv(noise_matrix(noise, steps))
    changes = (clip_norm * np.outer(np.eye(steps)[t], [0.6, 0.8]) for t in range(steps))  # rows of norm G
    found = max(float(np.linalg.norm(c @ change)) for change in changes)
    return found, float(np.linalg.norm(c, axis=0).max()) ** power * clip_norm**scale


@PAPER.identity(
    "Section A.1 (objective)",
    printed=r"the objective from (3) used in previous work to find the matrix $B$ can equivalently be written as $\varphi(B) = \|\tilde B\|_F^2 = \|A B\|_F^2$",
    repair=r"$\varphi(B) = d\, \sigma_{dp}^2 G^2 \|A B\|_F^2$ (in (3), with $\tilde g_\tau$ for $\tilde g_t$ under the sum)",
    domain={
        "noise": noises(1e-2),
        "steps": integers(1, 12),
        "dimension": integers(1, 100, log=True),
        "multiplier": log_scale(0.1, 10),
        "clip_norm": log_scale(0.1, 10),
    },
    as_printed={"exponent": 0},
    evidence="counterexample",
    counterexample={"noise": FiniteNoise([1.0]), "steps": 1, "dimension": 2, "multiplier": 1.0, "clip_norm": 1.0},
    mutants=[{"exponent": 2}],
    tolerance=1e-9,
    evaluations=128,
)
def section_a1_objective(
    noise: ToeplitzNoise, steps: int, dimension: int, multiplier: float, clip_norm: float, exponent: int = 1
) -> Sides:
    """Both have the same minimisers for a given σ_dp.  The left side is computed by the recursion of the variance of the prefix sums.

    One step of independent noise in d = 2 dimensions: 2, and printed 1.
    """
    variance = multiplier**2 * clip_norm**2
    impulse = np.cumsum(noise.coefficients(steps))  # of one draw in all later prefix sums
    total = sum(float(np.square(impulse[: t + 1]).sum()) for t in range(steps))
    norm = float(np.linalg.norm(np.tril(np.ones((steps, steps))) @ noise_matrix(noise, steps)) ** 2)
    return dimension * variance * total, (dimension * variance) ** exponent * norm


# -- A.2: differential privacy -----------------------------------------------------------------------------------------


@PAPER.inequality(
    "Section A.2 (zCDP)",
    printed=r"Similarly, $\rho$-zCDP … in this setting requires that the Rényi $\alpha$-divergence between the distribution $P_0$ of $\theta_{0:T} | b = 0$ and the distribution $P_1$ of $\theta_{0:T} | b = 1$ are close: $D_\alpha(P_0 \| P_1) \le \rho \alpha$ for all $\alpha \in (0, \infty)$.",
    repair=r"for all $\alpha \in (1, \infty)$ (Bun and Steinke, 2016); below 1 it does not follow",
    proof=f"{SHORT}#section-a2",
    domain={"epsilon": log_scale(1e-2, 5), "order": log_scale(1.001, 100)},
    outside=r"All other ε and all $\alpha > 1$ by the proof; floats lose the left side there, or its powers overflow.",
    evidence="counterexample",
    counterexample={"epsilon": 1.0, "order": 0.5},
    mutants=[{"factor": 0.999}],
)
def section_a2_zcdp(epsilon: float, order: float, factor: float = 1.0) -> Sides:
    """Randomised response with ε has ρ = ε tanh(ε/2), the limit of D_α/α as α → 1; for ε = 1, ρ = 0.4621 and D_½ = 0.2402 > ρ/2.

    Gaussian mechanisms, and so DP-FTRL, have D_α <= ρ α for all α > 0.
    """
    m = arithmetic(epsilon, order)
    p = 1 / (1 + m.exp(-epsilon))
    q = 1 - p
    powers = p**order * q ** (1 - order) + q**order * p ** (1 - order)
    return m.log(powers) / (order - 1), factor * order * epsilon * (p - q)


@PAPER.inequality(
    "Section A.2 (approximate DP)",
    printed=r"$\rho$-zCDP in this setting implies $(\varepsilon_\delta, \delta)$-DP with $\varepsilon_\delta \le \inf_{\alpha > 1} \{\rho \alpha + \frac{1}{\alpha - 1} \log(\frac{1}{\alpha \delta}) + \log(1 - \alpha^{-1})\}$",
    proof=f"{SHORT}#section-a2",
    domain={"rho": log_scale(1e-4, 100), "delta": log_scale(1e-15, 1e-2)},
    mutants=[{"last": 2.0}, {"first": 0.9}],
    evaluations=128,
)
def section_a2_epsilon(rho: float, delta: float, first: float = 1.0, last: float = 1.0) -> Sides:
    """The exact ε of one Gaussian mechanism, which is ρ-zCDP, is at most this (a negative bound means ε = 0).

    For every ρ-zCDP mechanism it is proved by Canonne, Kamath and Steinke (2020).
    """
    from scipy.optimize import minimize_scalar

    def bound(u: float) -> float:
        order = 1 + math.exp(u)
        return first * rho * order - math.log(order * delta) / (order - 1) + last * math.log1p(-1 / order)

    found = minimize_scalar(bound, bounds=(-8.0, 14.0), method="bounded").fun
    return gaussian_epsilon(rho, delta), max(float(found), 0.0)


@PAPER.identity(
    "Equation (17)",
    printed=r"We first calculate the input covariance is $\Sigma = E[x_t \otimes x_t] = (\sigma_{sgd}^2, 0; 0, G^2 \sigma_{dp}^2)$.",
    reading="semicolons separate rows",
    definitions={"inputs": ("(16)",)},
    domain={
        "rate": log_scale(0.01, 1),
        "noise": noises(1e-2),
        "sample_std": log_scale(0.1, 10),
        "clip_norm": log_scale(0.1, 10),
    },
    mutants=[{"weight": 1.001}],
    tolerance=1e-7,
    evaluations=64,
)
def equation_17(
    rate: float, noise: ToeplitzNoise, sample_std: float, clip_norm: float, inputs: str = "(16)", weight: float = 1.0
) -> Sides:
    """E δ² = (1/2π) ∫ G Σ G* against the exact error, ρ = 1.  With the transfer function of (14) the scales count twice.

    η = ½, σ_sgd = 10, G = 1, independent noise: E δ² = 33.5, with (14) 3333.4.  The inputs of (14) have Σ = I.
    """
    sigma = clip_norm * noise.limiting_sensitivity() / math.sqrt(2)
    scales = {"(14)": (sample_std**2, sigma**2), "(16)": (1.0, 1.0)}[inputs]

    def density(c: Array, s: Array, w: Array) -> float:
        power = noise.power_spectrum(2 * np.arctan2(s, c))
        driven = scales[0] * sample_std**2 + scales[1] * sigma**2 * power
        return float((w * driven / modulus(rate, c, s) ** 2).sum())

    mean = float(circle_mean(density, near_zero=min(rate, 1e-3), near_pi=1e-3))
    exact = 2 * MeanEstimation(rate, sample_std).stationary_error(noise, budget=Budget(1.0, clip_norm=clip_norm))
    return exact, weight * rate**2 * mean
