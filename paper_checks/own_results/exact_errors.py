"""Results of this project beyond the papers: exact errors, the exact optimum, sharper bounds.

Proofs are in ``docs/exact-errors.md``.
"""

import math
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, noises, regressions, vector
from corrnoise.paper_checks.machinery.enclosures import (
    DEEPEST,
    SHALLOWEST,
    gap,
    inverse_mean,
    inverse_mean_by_depth,
    ratio_integral,
)
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.theory.correlated_noise import published_bounds as bounds
from corrnoise.theory.correlated_noise.finite_time import theorem_d11_upper_bound
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, unit_variance
from corrnoise.theory.numerics import elliptic
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression

PROOFS = "docs/exact-errors.md"

ANY = {"problem": regressions(), "noise": noises()}
QUIET = {"problem": regressions(residual_std=0.0)}


def joint_recursion(problem: LinearRegression, beta: Array, steps: int, kurtosis: float) -> Array:
    """E F(θ_t) − F* for t = 0, …, ``steps`` from θ_0 = θ*: second moments of (θ, w_{t−1}, …) as one matrix.

    It is independent of formulas E1 and E2, and makes no assumption about cross terms.
    """
    d = problem.eigenvalues.size
    memory = beta.size
    size = d * (1 + memory)
    moments = np.zeros((size, size))
    sigma2 = unit_variance(1.0, 1.0)
    errors = [0.0]
    x = problem.rates
    eigenvalues = problem.eigenvalues
    for _ in range(steps):
        shift = np.zeros((size, size))
        shift[:d, :d] = np.diag(1 - x)
        for k in range(1, memory):
            shift[:d, d * k : d * (k + 1)] = -problem.learning_rate * beta[k] * np.eye(d)
            shift[d * (k + 1) : d * (k + 2), d * k : d * (k + 1)] = np.eye(d)
        block = moments[:d, :d]
        new = shift @ moments @ shift.T
        # E (x xᵀ − H) M (x xᵀ − H) for independent coordinates: h M h + Tr(hM) h, and the kurtosis on the diagonal.
        h = np.diag(eigenvalues)
        spread = h @ block @ h + float(np.trace(h @ block)) * h
        spread += (kurtosis - 3) * np.diag(eigenvalues**2 * np.diag(block))
        new[:d, :d] += problem.learning_rate**2 * (spread + problem.residual_std**2 * h)
        fresh = np.zeros((size, d))
        fresh[:d] = -problem.learning_rate * beta[0] * np.eye(d)
        fresh[d : 2 * d] = np.eye(d)
        moments = new + sigma2 * fresh @ fresh.T
        errors.append(float(eigenvalues @ np.diag(moments)[:d]) / 2)
    return np.array(errors)


@PAPER.identity(
    "E1",
    printed=r"$F_\infty = \frac{\eta}{4 (1 - A)} \sum_j (\sigma_{sgd}^2 \lambda_j + \sigma^2 b_j) g_j$, $g_j = (1 - (k_j - 1) x_j/2)^{-1}$, $A = \frac{\eta}{2} \sum_j \lambda_j g_j$",
    proof=f"{PROOFS}#e1-the-stationary-error",
    domain={"second": log_scale(0.5, 1), "share": linear(0.5, 0.9), "beta": linear(-0.9, 0.9)},
    mutants=[{"kurtosis": 3.001}],
    tolerance=1e-9,
    evaluations=8,
)
def e1(second: float, share: float, beta: float, kurtosis: float = 3.0) -> Sides:
    """Compared with the recursion of all second moments of iterate and noise together, run until it converges."""
    eigenvalues = np.array([1.0, second])
    eta = share / LinearRegression(eigenvalues, 1.0).moment_bound
    problem = LinearRegression(eigenvalues, eta, 0.5)
    noise = FiniteNoise([1.0, beta])
    steps = int(16 / float(problem.rates.min()) / (1 - share / 2)) + 10
    scale = noise.limiting_sensitivity()
    scaled = LinearRegression(eigenvalues, eta, 0.5 / scale)
    return joint_recursion(scaled, np.array([1.0, beta]), steps, kurtosis)[-1] * scale**2, problem.stationary_error(
        noise
    )


@PAPER.identity(
    "E2",
    printed="The recursion of ``learning_curve`` gives E F(θ_t) − F* exactly at every t",
    proof=f"{PROOFS}#e2-every-step",
    domain={
        "eigenvalues": vector(log_scale(0.1, 1), 2),
        "share": linear(0.1, 1.5),
        "beta": vector(linear(-1, 1), 3),
        "steps": integers(1, 25),
    },
    mutants=[{"kurtosis": 3.001}],
    evaluations=64,
)
def e2(eigenvalues: Array, share: float, beta: Array, steps: int, kurtosis: float = 3.0) -> Sides:
    """Compared with the recursion of all second moments of iterate and noise together."""
    coefficients = np.concatenate([[1.0], 0.3 * beta])
    eta = share / LinearRegression(eigenvalues, 1.0).moment_bound
    noise = FiniteNoise(coefficients)
    scale = noise.limiting_sensitivity()
    problem = LinearRegression(eigenvalues, eta, 0.5)
    expected = joint_recursion(LinearRegression(eigenvalues, eta, 0.5 / scale), coefficients, steps, kurtosis)
    return problem.learning_curve(noise, steps), expected * scale**2


@PAPER.inequality(
    "E3",
    part="(no noise is better)",
    printed=r"$\min_\beta F_\infty = \frac{\frac{\eta}{2} \sigma_{sgd}^2 \sum_j \lambda_j g_j + \frac{\eta^2 G^2}{4 \rho} J^2}{2 (1 - A)}$, $J = \frac{1}{2\pi} \int \sqrt{\tilde h}$",
    proof=f"{PROOFS}#e3-the-optimum-over-all-noise",
    domain=ANY,
    mutants=[{"factor": 1.001}],
)
def e3(problem: LinearRegression, noise: ToeplitzNoise, factor: float = 1.0) -> Sides:
    """Searched over independent, ν-DP-FTRL, anti-PGD, product and polynomial noise."""
    return factor * problem.optimal_error(), problem.stationary_error(noise)


@PAPER.identity(
    "E3",
    part="(attained)",
    printed=r"by $B(z) = \sqrt{\prod_j (1 - c_j z)/\prod_k (1 - z_k z)}$, $z_k$ the zeros of $\tilde h$ between the $c_j = 1 - x_j$",
    proof=f"{PROOFS}#e3-the-optimum-over-all-noise",
    domain=QUIET,
    mutants=[{"shift": 1e-3}],
    evaluations=128,
)
def e3_attained(problem: LinearRegression, shift: float = 0.0) -> Sides:
    """The zeros interlace the modes; β_t < 0 for all t >= 1."""
    noise = optimal_noise(problem)
    if shift and isinstance(noise, ProductNoise):
        noise = ProductNoise(noise.gaps * (1 + shift), noise.exponents + shift)
    return problem.stationary_error(noise), problem.optimal_error()


@PAPER.inequality(
    "E3",
    part="(signs)",
    printed=r"The coefficients of the optimum satisfy $\beta_t < 0$ for $t \ge 1$",
    proof=f"{PROOFS}#e3-the-optimum-over-all-noise",
    domain={"problem": regressions(residual_std=0.0, condition=1e3), "time": integers(1, 200, log=True)},
    mutants=[{"time_shift": 0}],
    evaluations=128,
)
def e3_signs(problem: LinearRegression, time: int, time_shift: int | None = None) -> Sides:
    """1/B is the sequence of moments of a positive measure, and Kaluza's theorem applies."""
    beta = optimal_noise(problem).coefficients(time + 1)
    return float(beta[time if time_shift is None else time_shift]), 0.0


@PAPER.inequality(
    "N1",
    printed=r"$\frac{a}{4} \le F_\infty \le \frac{a}{2 (2 - \eta R^2)}$, $a = \eta (\sigma_{sgd}^2 \mathrm{Tr}[H] + \sigma^2 \sum_j b_j)$, for all inputs with $E \|x\|^2 x x^\top \preceq R^2 H$",
    proof=f"{PROOFS}#n1-an-upper-bound-for-any-inputs",
    domain={"problem": regressions(largest=1.9), "noise": noises()},
    mutants=[{"low": 1.001}, {"high": 0.999}],
)
def n1(problem: LinearRegression, noise: ToeplitzNoise, low: float = 1.0, high: float = 1.0) -> Sides:
    """The upper bound is an equality for isotropic Gaussian inputs.  The lower one is approached as η → 0."""
    upper = problem.upper_bound(noise)
    quarter = upper * (2 - problem.learning_rate * problem.moment_bound) / 2
    error = problem.stationary_error(noise)
    return np.array([low * quarter, error]), np.array([error, high * upper])


@PAPER.inequality(
    "N2",
    printed=r"$\min_\beta F_\infty \ge \frac{\eta}{4} \sigma_{sgd}^2 \mathrm{Tr}[H] + \frac{\eta^2 G^2}{4 \rho} \frac{(\sum_j \lambda_j \gamma_\infty^2(x_j))^2}{\mathrm{Tr}[H]}$",
    proof=f"{PROOFS}#n2-a-lower-bound-for-all-noise",
    domain={"problem": regressions()},
    sharp="factor",
    mutants=[{"factor": 1.001}],
)
def n2(problem: LinearRegression, factor: float = 1.0) -> Sides:
    """The privacy part has a log² of the learning rate, as the upper bound of Theorem 2.2 does."""
    return factor * bounds.average_log_lower_bound(problem), problem.optimal_error()


@PAPER.inequality(
    "N3",
    part="(error)",
    printed=r"For $\nu \le \eta \mu$: $F_\infty \le \frac{1}{2 - \eta R^2} (\frac{\eta \sigma_{sgd}^2}{2} \mathrm{Tr}[H] + \frac{\eta^2 G^2 \log(8/\nu)}{\rho \log^2 8} "
    r"\min\{\frac{1}{2} \mathrm{Tr}[H] \log(8/\nu), \frac{2}{\pi} \sum_j \lambda_j \log(8/x_j)\})$",
    proof=f"{PROOFS}#n3-ν-dp-ftrl-with-its-constants",
    domain={"problem": regressions(largest=1.999), "share": log_scale(1e-6, 1)},
    sharp="factor",
    mutants=[{"factor": 0.999}],
)
def n3(problem: LinearRegression, share: float, factor: float = 1.0) -> Sides:
    """Only one of the two logarithms depends on ν.  (Residuals alone make it an equality; the part due to privacy is sharpened below.)"""
    nu = share * float(problem.rates.min())
    return problem.stationary_error(NuFTRL(nu)), factor * bounds.nu_ftrl_upper_bound(problem, nu)


DEPTHS = {"depth": log_scale(SHALLOWEST, DEEPEST), "depth_nu": log_scale("depth", DEEPEST)}


@PAPER.inequality(
    "N3",
    part="(one logarithm)",
    printed=r"$I(\nu, x) \le \frac{8}{\log 8} \log(8/x)$ for $\nu \le x < 1$",
    proof=f"{PROOFS}#n3-ν-dp-ftrl-with-its-constants",
    domain=DEPTHS,
    evidence="certified",
    outside=r"For $\nu < 10^{-299}$ and $x \ge 10^{-290}$, $I(\nu, x)$ is within $\frac{2 \pi}{x (2 - x)} 10^{-299}$ of $I(10^{-299}, x)$; for smaller $x$ "
    r"it is at most $I(0, x)$ or $I(x, x)$, since it is convex in $\nu$, and both are at most $2.0001 \log(8/x)$.",
    sharp="constant",
    mutants=[{"constant": "3.84"}],
)
def n3_one_logarithm(depth: Any, depth_nu: Any, constant: str = "3.848") -> Sides:
    """In terms of log(8/x) and log(8/ν), with 8/log 8 = 3.84719 rounded up, which is approached as ν → 0 and x → 1."""
    return ratio_integral(depth_nu, depth), arithmetic(depth).number(constant) * depth


@PAPER.inequality(
    "N3, sharpened",
    part="(one direction)",
    printed=r"$\gamma_\infty^2(\nu) \frac{b(x)}{x} \le 0.232 \log(8/\nu) \log(8/x)$ for $\nu \le x < 1$",
    proof=f"{PROOFS}#n3-sharpened",
    domain=DEPTHS,
    evidence="certified",
    outside=r"As in N3 (one logarithm): $\frac{b(x)}{x} = \frac{2 - x}{2 \pi} I(\nu, x)$, and $\frac{\gamma_\infty^2(\nu)}{\log(8/\nu)}$ falls with $\nu$.",
    sharp="constant",
    mutants=[{"constant": "0.2316"}],
)
def n3_sharpened(depth: Any, depth_nu: Any, constant: str = "0.232") -> Sides:
    """In terms of log(8/x) and log(8/ν).  The quotient is largest at ν = x = 0.917: 0.23162."""
    m = arithmetic(depth)
    seen = (2 - gap(depth)) * ratio_integral(depth_nu, depth) / (2 * m.pi)  # b(x)/x
    return inverse_mean_by_depth(depth_nu) * seen, m.number(constant) * depth


@PAPER.inequality(
    "N3, sharpened",
    part="(error)",
    printed=r"For $\nu \le \eta \mu$: $F_\infty \le \frac{1}{2 - \eta R^2} (\frac{\eta \sigma_{sgd}^2}{2} \mathrm{Tr}[H] "
    r"+ 0.058 \frac{\eta^2 G^2}{\rho} \log(8/\nu) \sum_j \lambda_j \log(8/x_j))$ if all $x_j < 1$",
    proof=f"{PROOFS}#n3-sharpened",
    domain={"problem": regressions(largest=1.999, kurtosis=1.0, residual_std=0.0), "share": log_scale(1e-6, 1)},
    sharp="constant",
    mutants=[{"constant": 0.0578}],
)
def n3_sharpened_error(problem: LinearRegression, share: float, constant: float = 0.058) -> Sides:
    """By N1 and the other part, 0.058 = 0.232/4.  The bound is at most half of N3.

    Checked without residuals for random signs, whose ηλ_j may come near 1.
    """
    eta = problem.learning_rate
    x = problem.rates
    if x.max() >= 1:
        return math.nan, math.nan
    nu = share * float(x.min())
    logarithms = math.log(8 / nu) * float((problem.eigenvalues * np.log(8 / x)).sum())
    return problem.stationary_error(NuFTRL(nu)), constant * eta**2 * logarithms / (2 - eta * problem.moment_bound)


@PAPER.identity(
    "γ",
    part="(closed form)",
    printed=r"$\gamma_\infty^2(\nu) = \frac{1}{\mathrm{agm}(\nu, 2 - \nu)}$",
    proof=f"{PROOFS}#γ-the-sensitivity-of-ν-dp-ftrl",
    domain={"nu": log_scale(1e-3, 1)},
    mutants=[{"two": 2.001}],
    tolerance=1e-12,
    evaluations=32,
)
def gamma_closed_form(nu: float, two: float = 2.0) -> Sides:
    """Compared with the sum of squares of the inverse coefficients, (½)_t/t! (1 − ν)^t, until they vanish."""
    series = NuFTRL(nu).inverse_coefficients(int(25 / nu) + 10)
    return float(np.square(series).sum()), 1 / float(elliptic.agm(nu, two - nu))


@PAPER.inequality(
    "γ",
    part="(upper)",
    printed=r"$\gamma_\infty^2(\nu) \le \frac{1}{\log 8} \log(8/\nu)$ for $0 < \nu \le 1$",
    proof=f"{PROOFS}#γ-the-sensitivity-of-ν-dp-ftrl",
    domain={"nu": log_scale("1e-300", "0.9999")},
    evidence="certified",
    outside=r"At $\nu = 1$ both sides are 1, and with $t = 1 - \nu$ small $\gamma_\infty^2 = \frac{2}{\pi} K(t) \le 1 + \frac{t^2}{4 (1 - t^2)}$, "
    r"while the right side is at least $1 + \frac{t}{\log 8}$.  Below 1e-300 by Property F.10.",
    sharp="constant",
    mutants=[{"constant": "0.9999"}],
)
def gamma_upper(nu: Any, constant: str = "1") -> Sides:
    """Both sides are multiplied by log 8.  It is an equality at ν = 1; as ν → 0 the right side is π/log 8 = 1.51 times the left."""
    m = arithmetic(nu)
    log8 = m.log(m.number(8))
    return inverse_mean(nu) * log8, m.number(constant) * (log8 - m.log(nu))


@PAPER.inequality(
    "γ",
    part="(lower)",
    printed=r"$\gamma_\infty^2(\nu) \ge \frac{1}{\pi} \log(8/\nu)$ for $0 < \nu \le 1$",
    proof=f"{PROOFS}#γ-the-sensitivity-of-ν-dp-ftrl",
    domain={"nu": log_scale("0.01", "1")},
    evidence="certified",
    outside=r"By Property F.10 $\gamma_\infty^2 = \frac{2}{\pi} K(1 - \nu) \ge \frac{1}{\pi} \log \frac{16}{\nu (2 - \nu)} \ge \frac{1}{\pi} \log(8/\nu)$.",
    sharp="constant",
    mutants=[{"constant": "1.005"}],
)
def gamma_lower(nu: Any, constant: str = "1") -> Sides:
    """Both sides are multiplied by π.  The difference falls to 0 with ν; at ν = 0.01 it is 0.4 %."""
    m = arithmetic(nu)
    return m.number(constant) * (m.log(m.number(8)) - m.log(nu)), m.pi * inverse_mean(nu)


@PAPER.identity(
    "I(a, b)",
    printed=r"$I(a, b) = \frac{4 A}{B^2} \mathrm{cel}(\frac{a}{A}, \frac{b}{B}, 1, \frac{a^2}{A^2})$, $A = 2 - a$, $B = 2 - b$, without cancellation",
    proof=f"{PROOFS}#γ-the-sensitivity-of-ν-dp-ftrl",
    domain={"a": log_scale(1e-12, 0.999), "b": log_scale(1e-12, 0.999)},
    mutants=[{"three": 3.001}],
    evaluations=64,
)
def integral_by_carlson(a: float, b: float, three: float = 3.0) -> Sides:
    """Compared with Carlson's R_F and R_J in ball arithmetic, by another reduction."""
    from flint import acb, ctx

    with ctx.workprec(160):
        x, y = acb(a), acb(b)
        u, v = 2 - x, 2 - y
        weight = (y - x) * (x + y - x * y)
        first = 4 * (x / y) ** 2 * acb.elliptic_rf(acb(0), x * x, u * u)
        second = 16 / acb(three) * weight * x**2 / y**4 * acb.elliptic_rj(acb(0), x * x, u * u, (x * v / y) ** 2)
        return float(elliptic.modulus_ratio_integral(a, b)), float((first + second).real)


@PAPER.identity(
    "Anti-PGD",
    printed=r"The best damping for Gaussian inputs is $\nu^* = \frac{-s + \sqrt{2 s D - s^2}}{d}$, $s = \sum_j \frac{x_j}{1 - x_j}$, $D = \sum_j \frac{1}{1 - x_j}$",
    proof=f"{PROOFS}#anti-pgd-the-best-damping",
    domain={"problem": regressions(residual_std=0.0, most=4, condition=1e3)},
    mutants=[{"two": 2.05}],
    tolerance=1e-9,
    evaluations=64,
)
def best_damping(problem: LinearRegression, two: float = 2.0) -> Sides:
    """The error there is the smallest found by a search over the damping."""
    from scipy.optimize import minimize_scalar

    gains = 1 / (1 - problem.rates)
    s = float((problem.rates * gains).sum())
    d = float(gains.sum())
    damping = (-s + math.sqrt(two * s * d - s * s)) / (d - s)
    found = minimize_scalar(
        lambda u: problem.stationary_error(AntiPGD(math.exp(u))),
        bounds=(math.log(damping) - 1, math.log(min(1.9, damping * 3))),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return problem.stationary_error(AntiPGD(damping)), float(found.fun)


@PAPER.inequality(
    "Theorem D.11, sharpened",
    printed=r"$E[F(\theta_t) - F_*] \le \frac{L}{\mu} e^{-\eta \mu t} (F(\theta_0) - F_*) + F_\infty(\beta)$",
    proof=f"{PROOFS}#e2-every-step",
    domain={"problem": regressions(most=4, condition=1e3), "noise": noises(1e-3), "offset": log_scale(1e-2, 1e2)},
    mutants=[{"factor": 0.9}],
    evaluations=256,
)
def sharpened_d11(problem: LinearRegression, noise: ToeplitzNoise, offset: float, factor: float = 1.0) -> Sides:
    """No triangle inequality is needed: the parts due to the start and to the noise are uncorrelated."""
    curve = problem.learning_curve(noise, 200, initial_offset=offset)
    return curve, factor * theorem_d11_upper_bound(problem, noise, np.arange(201), float(curve[0]))


@PAPER.inequality(
    "Conjecture",
    printed=r"$\frac{F_\infty(\nu = \eta \mu)}{\min_\beta F_\infty} \le \frac{\log(8/(\eta \mu))}{\sum_j \lambda_j \log(8/x_j)/\mathrm{Tr}[H]}$ without residuals",
    conjecture=True,
    domain=QUIET,
    mutants=[{"factor": 0.97}],
    tolerance=1e-10,
    evaluations=2048,
)
def conjecture(problem: LinearRegression, factor: float = 1.0) -> Sides:
    """Not proved.  It is an equality for H = λ I, and no violation was found."""
    x = problem.rates
    eigenvalues = problem.eigenvalues
    average = float((eigenvalues * np.log(8 / x)).sum()) / float(eigenvalues.sum())
    error = problem.stationary_error(NuFTRL(float(x.min())))
    return error, factor * math.log(8 / float(x.min())) / average * problem.optimal_error()
