"""Results of this project beyond the papers: exact errors, the exact optimum, sharper bounds.

Proofs are in ``docs/exact-errors.md``.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.domains import (
    integers,
    linear,
    log_scale,
    noises,
    one_of,
    regressions,
    spectra,
    vector,
)
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
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, noise_variance, unit_variance
from corrnoise.theory.numerics import elliptic
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation

PROOFS = "docs/exact-errors.md"

#: Dimension to 10⁴ and inputs of any kurtosis.
PROBLEMS = regressions(kurtosis=(1, 1000), multiplicity=10_000)
ANY = {"problem": PROBLEMS, "noise": noises()}
QUIET = {"problem": regressions(residual_std=0.0)}


def circle_integral(integrand: Callable[[Array, Array], Array]) -> float:
    """∫_{−π}^{π} of a function of cos(ω/2) and sin(ω/2), by ω = 2 arctan(e^u) and equal steps in u.

    The integrand becomes analytic in a strip and decays, so the error falls geometrically with the step.
    """
    u = 0.02 * np.arange(-4000.0, 4001.0)
    cosine, sine = 1 / np.sqrt(1 + np.exp(2 * u)), 1 / np.sqrt(1 + np.exp(-2 * u))
    return float((integrand(cosine, sine) / np.cosh(u)).sum()) * 0.02 * 2


def modulus_at(a: float, cosine: Array, sine: Array) -> Array:
    """|1 − a − e^{iω}| by cos(ω/2) and sin(ω/2)."""
    return np.asarray(np.hypot(a * cosine, (2 - a) * sine))


def one_step(problem: LinearRegression, beta: Array, kurtosis: float, moments: Array, noise: float) -> Array:
    """The second moments of (θ, w_{t−1}, …) after a step, as one matrix; ``noise`` is s² or σ² of this step, 0 or 1.

    It is independent of formulas E1 and E2, and makes no assumption about cross terms.
    """
    d = problem.eigenvalues.size
    size = moments.shape[0]
    shift = np.zeros((size, size))
    shift[:d, :d] = np.diag(1 - problem.rates)
    for k in range(1, beta.size):
        shift[:d, d * k : d * (k + 1)] = -problem.learning_rate * beta[k] * np.eye(d)
        shift[d * (k + 1) : d * (k + 2), d * k : d * (k + 1)] = np.eye(d)
    block = moments[:d, :d]
    new = shift @ moments @ shift.T
    # E (x xᵀ − H) M (x xᵀ − H) for independent coordinates: h M h + Tr(hM) h, and the kurtosis on the diagonal.
    h = np.diag(problem.eigenvalues)
    spread = h @ block @ h + float(np.trace(h @ block)) * h
    spread += (kurtosis - 3) * np.diag(problem.eigenvalues**2 * np.diag(block))
    new[:d, :d] += problem.learning_rate**2 * (spread + noise * problem.residual_std**2 * h)
    fresh = np.zeros((size, d))
    fresh[:d] = -problem.learning_rate * beta[0] * np.eye(d)
    fresh[d : 2 * d] = np.eye(d)
    return new + noise * unit_variance(1.0, 1.0) * fresh @ fresh.T


def joint_recursion(problem: LinearRegression, beta: Array, steps: int, kurtosis: float) -> Array:
    """E F(θ_t) − F* for t = 0, …, ``steps`` from θ_0 = θ*."""
    d = problem.eigenvalues.size
    moments = np.zeros((d * (1 + beta.size),) * 2)
    errors = [0.0]
    for _ in range(steps):
        moments = one_step(problem, beta, kurtosis, moments, 1.0)
        errors.append(float(problem.eigenvalues @ np.diag(moments)[:d]) / 2)
    return np.array(errors)


def joint_fixed_point(problem: LinearRegression, beta: Array, kurtosis: float) -> float:
    """lim E F(θ_t) − F*: the fixed point of ``one_step``, by a linear system for all second moments."""
    d = problem.eigenvalues.size
    size = d * (1 + beta.size)
    columns = [
        one_step(problem, beta, kurtosis, basis.reshape(size, size), 0.0).ravel() for basis in np.eye(size * size)
    ]
    source = one_step(problem, beta, kurtosis, np.zeros((size, size)), 1.0).ravel()
    found = np.linalg.solve(np.eye(size * size) - np.array(columns).T, source).reshape(size, size)
    return float(problem.eigenvalues @ np.diag(found)[:d]) / 2


def scaled_residuals(problem: LinearRegression, noise: FiniteNoise) -> tuple[LinearRegression, float]:
    """The problem whose errors at σ² = ½ are those of ``problem`` divided by γ_∞², and γ_∞²."""
    scale = noise.limiting_sensitivity()
    scaled = LinearRegression(problem.eigenvalues, problem.learning_rate, problem.residual_std / scale)
    return scaled, scale**2


@PAPER.identity(
    "E1",
    printed=r"$F_\infty = \frac{\eta}{4 (1 - A)} \sum_j (\sigma_{sgd}^2 \lambda_j + \sigma^2 b_j) g_j$, $g_j = (1 - (k_j - 1) x_j/2)^{-1}$, $A = \frac{\eta}{2} \sum_j \lambda_j g_j$, if $A < 1$ and $(k_j - 1) x_j < 2$",
    proof=f"{PROOFS}#e1-the-stationary-error",
    domain={
        "second": log_scale(0.1, 1),
        "share": linear(0.1, 0.9),
        "kurtosis": log_scale(1, 100),
        "beta": vector(linear(-0.4, 0.4), 2),
    },
    mutants=[{"more": 1e-3}],
    tolerance=1e-9,
    evaluations=64,
)
def e1(second: float, share: float, kurtosis: float, beta: Array, more: float = 0.0) -> Sides:
    """Compared with the fixed point of the recursion of all second moments of iterate and noise together."""
    eigenvalues = np.array([1.0, second])
    unit = LinearRegression(eigenvalues, 1.0, kurtosis=kurtosis)
    problem = LinearRegression(eigenvalues, share / unit.moment_bound, 0.5, kurtosis=kurtosis)
    noise = FiniteNoise(np.append(1.0, beta))
    scaled, square = scaled_residuals(problem, noise)
    return joint_fixed_point(scaled, noise.values, kurtosis + more) * square, problem.stationary_error(noise)


@PAPER.inequality(
    "E1",
    part="(instability)",
    printed=r"If $A \ge 1$ or some $(k_j - 1) x_j \ge 2$, and $\sigma_{sgd}^2 + \sigma^2 > 0$ with $\gamma_\infty < \infty$, then $E F(\theta_t) - F_* \to \infty$",
    proof=f"{PROOFS}#e1-the-stationary-error",
    domain={
        "eigenvalues": spectra(3, 10),
        "gain": linear(1.05, 1.5),
        "residual_std": one_of(0.0, 1.0),
        "noise": noises(1e-2),
    },
    mutants=[{"scale": 0.8}],
    evaluations=128,
)
def e1_instability(
    eigenvalues: Array, gain: float, residual_std: float, noise: ToeplitzNoise, scale: float = 1.0
) -> Sides:
    """Checked with the exact curve for random signs, A = η Tr H/2 >= 1.05: after 8000 steps it is at least 3 times that after 2000.

    For A = 1 the error grows linearly, for A > 1 exponentially; for A = 0.84 it converges.
    """
    problem = LinearRegression(eigenvalues, 2 * scale * gain / float(eigenvalues.sum()), residual_std, kurtosis=1.0)
    curve = problem.learning_curve(noise, 8000)
    return 3 * min(curve[2000], 1e250), curve[8000]


@PAPER.identity(
    "E1",
    part="(exception)",
    printed=r"For $d = k_1 = 1$ and $\sigma_{sgd} = 0$ the error is $\frac{\eta^2 \sigma^2}{2} \sum_{\tau < t} y_\tau^2$ from $\theta_0 = \theta_*$, "
    r"which is bounded for $x > 2$ and $\beta = (1, x - 1)$, where $\gamma_\infty = \infty$",
    proof=f"{PROOFS}#e1-the-stationary-error",
    domain={"rate": linear(2, 2.5), "steps": integers(1, 10)},
    mutants=[{"shift": 1e-6}],
)
def e1_exception(rate: float, steps: int, shift: float = 0.0) -> Sides:
    """y = (1, 0, 0, …): after every step the error is η² σ²/2.  σ² is that of a horizon of 10 steps."""
    noise = FiniteNoise([1.0, rate - 1 + shift])
    curve = MeanEstimation(rate).learning_curve(noise, steps, horizon=10)
    return curve[1:], rate**2 / 2 * noise.sensitivity(10) ** 2 / 2


@PAPER.identity(
    "E2",
    printed="The recursion of ``learning_curve`` gives E F(θ_t) − F* exactly at every t",
    proof=f"{PROOFS}#e2-every-step",
    domain={
        "eigenvalues": vector(log_scale(0.1, 1), 2),
        "share": linear(0.1, 1.5),
        "kurtosis": log_scale(1, 100),
        "beta": vector(linear(-0.3, 0.3), 3),
        "steps": integers(1, 25),
    },
    mutants=[{"more": 1e-3}],
    evaluations=64,
)
def e2(eigenvalues: Array, share: float, kurtosis: float, beta: Array, steps: int, more: float = 0.0) -> Sides:
    """Compared with the recursion of all second moments of iterate and noise together."""
    noise = FiniteNoise(np.append(1.0, beta))
    unit = LinearRegression(eigenvalues, 1.0, kurtosis=kurtosis)
    problem = LinearRegression(eigenvalues, share / unit.moment_bound, 0.5, kurtosis=kurtosis)
    scaled, square = scaled_residuals(problem, noise)
    return problem.learning_curve(noise, steps), joint_recursion(scaled, noise.values, steps, kurtosis + more) * square


@PAPER.inequality(
    "E3",
    part="(no noise is better)",
    printed=r"$\min_\beta F_\infty = \frac{\frac{\eta}{2} \sigma_{sgd}^2 \sum_j \lambda_j g_j + \frac{\eta^2 G^2}{4 \rho} J^2}{2 (1 - A)}$, $J = \frac{1}{2\pi} \int \sqrt{\tilde h}$",
    proof=f"{PROOFS}#e3-the-optimum-over-all-noise",
    domain=ANY,
    mutants=[{"factor": 1.001}],
    evaluations=256,
)
def e3(problem: LinearRegression, noise: ToeplitzNoise, factor: float = 1.0) -> Sides:
    """Searched over independent, ν-DP-FTRL, anti-PGD, product, polynomial and banded-strategy noise."""
    return factor * problem.optimal_error(), problem.stationary_error(noise)


@PAPER.identity(
    "E3",
    part="(attained)",
    printed=r"by $B(z) = \sqrt{\prod_j (1 - c_j z)/\prod_k (1 - z_k z)}$, $z_k$ the zeros of $\tilde h$ between the distinct $c_j$ among $1 - x_j$",
    proof=f"{PROOFS}#e3-interlacing-zeros",
    domain=QUIET,
    mutants=[{"shift": 1e-3}],
    evaluations=128,
)
def e3_attained(problem: LinearRegression, shift: float = 0.0) -> Sides:
    """The noise of ``optimal_noise``, which has this form, is put into E1, and compared with the integral J."""
    noise = optimal_noise(problem)
    if shift and isinstance(noise, ProductNoise):
        noise = ProductNoise(noise.gaps * (1 + shift), noise.exponents + shift)
    return problem.stationary_error(noise), problem.optimal_error()


@PAPER.inequality(
    "E3",
    part="(interlacing)",
    printed=r"Between two neighbouring $c_j$ there is one $z_k$",
    proof=f"{PROOFS}#e3-interlacing-zeros",
    domain={"problem": regressions(residual_std=0.0, kurtosis=1.0, largest=1.99, condition=1e4)},
    mutants=[{"swapped": True}],
    evaluations=128,
)
def e3_interlacing(problem: LinearRegression, swapped: bool = False) -> Sides:
    """In terms of the gaps 1 − c and 1 − z of the optimal noise.  A problem with one distinct mode has no zero, and is left out."""
    noise = optimal_noise(problem)
    assert isinstance(noise, ProductNoise)
    modes = np.sort(noise.gaps[noise.exponents > 0])
    zeros = np.sort(noise.gaps[noise.exponents < 0])
    if not zeros.size or modes.size != zeros.size + 1:
        return (math.nan, math.nan) if not zeros.size else (1.0, 0.0)
    between = (modes[:-1], zeros, modes[1:])
    low, middle, high = between if not swapped else (zeros, modes[:-1], modes[1:])
    return np.concatenate([low, middle]), np.concatenate([middle, high])


@PAPER.inequality(
    "E3",
    part="(signs)",
    printed=r"If $\eta \lambda_j < 1$ for all $j$, the coefficients of the optimum satisfy $\beta_t < 0$ for $t \ge 1$",
    proof=f"{PROOFS}#e3-signs",
    domain={
        "problem": regressions(residual_std=0.0, condition=1e3, kurtosis=1.0),
        "time": integers(1, 200, log=True),
    },
    mutants=[{"stretch": 1.9}, {"shift": -1}],
    evaluations=128,
)
def e3_signs(problem: LinearRegression, time: int, stretch: float = 1.0, shift: int = 0) -> Sides:
    """1/B is the sequence of moments of a positive measure, and Kaluza's theorem applies.

    Checked for random signs, which allow ηλ_j up to 1.  Beyond it is false: for mean estimation with η = 3/2, β_1 = +¼.
    """
    eta = problem.learning_rate * stretch
    beta = optimal_noise(LinearRegression(problem.eigenvalues, eta, kurtosis=1.0)).coefficients(time + 1)
    return float(beta[time + shift]), 0.0


@PAPER.inequality(
    "γ",
    part="(any noise)",
    printed=r"$\gamma_\infty^2 \ge \frac{1}{2\pi} \int |B|^{-2} d\omega$ for all $\beta \in \ell^2$, with equality for outer $B$",
    proof=f"{PROOFS}#the-limit-of-the-sensitivity",
    domain={"zeros": vector(linear(-2, 2), 3)},
    mutants=[{"factor": 1.001}],
)
def gamma_any_noise(zeros: Array, factor: float = 1.0) -> Sides:
    """Polynomials with the real zeros 1/z_k, also inside the unit circle, where γ_T grows without bound; |z_k| within 0.1 of 1 are left out.

    γ_T after 400 steps is compared with the integral on 4096 points.
    """
    if (np.abs(np.abs(zeros) - 1) < 0.1).any():
        return math.nan, math.nan
    noise = FiniteNoise(np.poly(zeros))
    omega = 2 * np.pi * np.arange(4096) / 4096
    column = noise.inverse_coefficients(400)
    return factor * float((1 / noise.power_spectrum(omega)).mean()), float(column @ column)


@PAPER.inequality(
    "N1",
    printed=r"$\frac{a}{4} \le F_\infty \le \frac{a}{2 (2 - \eta R^2)}$, $a = \eta (\sigma_{sgd}^2 \mathrm{Tr}[H] + \sigma^2 \sum_j b_j)$, if $E \|x\|^2 x x^\top \preceq R^2 H$ and $\eta R^2 < 2$",
    proof=f"{PROOFS}#n1-bounds-for-any-inputs",
    domain={"problem": regressions(largest=1.9, kurtosis=(1, 1000), multiplicity=10_000), "noise": noises()},
    mutants=[{"low": 1.001}, {"high": 0.999}, {"gaussian": True}],
)
def n1(
    problem: LinearRegression, noise: ToeplitzNoise, low: float = 1.0, high: float = 1.0, gaussian: bool = False
) -> Sides:
    """The upper bound is an equality for isotropic Gaussian inputs.  The lower one is approached as η → 0.

    With R² = Tr H + 2 ‖H‖, that of Gaussian inputs, it is false for inputs of larger kurtosis.
    """
    r2 = problem.trace + 2 * float(problem.eigenvalues.max()) if gaussian else problem.moment_bound
    upper = problem.upper_bound(noise, moment_bound=r2)
    quarter = problem.upper_bound(noise) * (2 - problem.learning_rate * problem.moment_bound) / 2
    error = problem.stationary_error(noise)
    return np.array([low * quarter, error]), np.array([error, high * upper])


@PAPER.inequality(
    "N1",
    part="(dependent coordinates)",
    printed="N1 for inputs of which one coordinate is not 0, the $j$th with probability $p_j$",
    proof=f"{PROOFS}#n1-bounds-for-any-inputs",
    domain={
        "eigenvalues": spectra(4, 1e4, multiplicity=1000),
        "weights": vector(log_scale(1e-3, 1), 4),
        "share": log_scale(1e-6, 1.99),
        "residual_std": linear(0, 10),
        "noise": noises(),
    },
    mutants=[{"low": 1.001}, {"high": 0.999}],
    evaluations=256,
)
def n1_one_coordinate(
    eigenvalues: Array,
    weights: Array,
    share: float,
    residual_std: float,
    noise: ToeplitzNoise,
    low: float = 1.0,
    high: float = 1.0,
) -> Sides:
    """Then x_j² = λ_j/p_j, R² = max λ_j/p_j, and λ_j E (θ − θ*)_j² = η (s² λ_j + σ² b_j)/(2 − x_j/p_j) exactly, each direction alone.

    For p_j = λ_j/Tr H the upper bound is an equality.
    """
    shares = np.resize(weights, eigenvalues.size) * eigenvalues
    p = shares / shares.sum()
    r2 = float((eigenvalues / p).max())
    problem = LinearRegression(eigenvalues, share / r2, residual_std)
    drive = problem.learning_rate * problem.drive(noise, noise_variance(noise, 1.0, 1.0))
    error = float((drive / (2 - problem.rates / p)).sum()) / 2
    upper = problem.upper_bound(noise, moment_bound=r2)
    return np.array([low * float(drive.sum()) / 4, error]), np.array([error, high * upper])


@PAPER.inequality(
    "N2",
    printed=r"$\min_\beta F_\infty \ge \frac{\eta}{4} \sigma_{sgd}^2 \mathrm{Tr}[H] + \frac{\eta^2 G^2}{4 \rho} \frac{(\sum_j \lambda_j \gamma_\infty^2(x_j))^2}{\mathrm{Tr}[H]}$",
    proof=f"{PROOFS}#n2-a-lower-bound-for-all-noise",
    domain={"problem": PROBLEMS},
    sharp="factor",
    mutants=[{"factor": 1.001}],
)
def n2(problem: LinearRegression, factor: float = 1.0) -> Sides:
    """The privacy part has a log² of the learning rate, as the upper bound of Theorem 2.2 does."""
    return factor * bounds.average_log_lower_bound(problem), problem.optimal_error()


@PAPER.inequality(
    "N3",
    part="(error)",
    printed=r"For $\nu \le \eta \mu$ and all $x_j < 1$: $F_\infty \le \frac{1}{2 - \eta R^2} (\frac{\eta \sigma_{sgd}^2}{2} \mathrm{Tr}[H] + \frac{\eta^2 G^2 \log(8/\nu)}{\rho \log^2 8} "
    r"\min\{\frac{1}{2} \mathrm{Tr}[H] \log(8/\nu), \frac{2}{\pi} \sum_j \lambda_j \log(8/x_j)\})$",
    proof=f"{PROOFS}#n3-ν-dp-ftrl-with-its-constants",
    domain={
        "problem": regressions(largest=1.999, kurtosis=(1, 1000), multiplicity=10_000),
        "share": log_scale(1e-6, 1),
    },
    sharp="factor",
    mutants=[{"factor": 0.999}],
)
def n3(problem: LinearRegression, share: float, factor: float = 1.0) -> Sides:
    """Only one of the two logarithms depends on ν.  (Residuals alone make it an equality; the part due to privacy is sharpened below.)"""
    if problem.rates.max() >= 1:
        return math.nan, math.nan
    nu = share * float(problem.rates.min())
    return problem.stationary_error(NuFTRL(nu)), factor * bounds.nu_ftrl_upper_bound(problem, nu)


DEPTHS = {"depth": log_scale(SHALLOWEST, DEEPEST), "depth_nu": log_scale("depth", DEEPEST)}


@PAPER.inequality(
    "N3",
    part="(one logarithm)",
    printed=r"$I(\nu, x) \le 3.848 \log(8/x)$ for $\nu \le x < 1$",
    proof=f"{PROOFS}#n3-ν-dp-ftrl-with-its-constants",
    domain=DEPTHS,
    evidence="certified",
    outside=r"For $\nu < 10^{-299}$ and $x \ge 10^{-290}$, $I(\nu, x)$ is within $\frac{2 \pi}{x (2 - x)} 10^{-299}$ of $I(10^{-299}, x)$; for smaller $x$ "
    r"it is at most $I(0, x)$ or $I(x, x)$, since it is convex in $\nu$, and both are at most $2.0001 \log(8/x)$.",
    sharp="constant",
    mutants=[{"constant": "3.84"}],
)
def n3_one_logarithm(depth: Any, depth_nu: Any, constant: str = "3.848") -> Sides:
    """In terms of log(8/x) and log(8/ν).  The sharp constant is at least 8/log 8 = 3.84719, which is approached as ν → 0 and x → 1."""
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
    domain={
        "problem": regressions(largest=1.999, kurtosis=1.0, residual_std=0.0, multiplicity=10_000),
        "share": log_scale(1e-6, 1),
    },
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
    printed=r"$I(a, b) = \int_{-\pi}^{\pi} \frac{|1 - a - e^{i\omega}|}{|1 - b - e^{i\omega}|^2} d\omega = \frac{4 A}{B^2} \mathrm{cel}(\frac{a}{A}, \frac{b^2}{B^2}, 1, \frac{a^2}{A^2})$, $A = 2 - a$, $B = 2 - b$",
    proof=f"{PROOFS}#ia-b-the-averaged-variance-of-ν-dp-ftrl",
    domain={"a": log_scale(1e-12, 0.999), "b": log_scale(1e-12, 0.999)},
    mutants=[{"nudge": 1e-6}],
    tolerance=1e-12,
    evaluations=128,
)
def integral_by_quadrature(a: float, b: float, nudge: float = 0.0) -> Sides:
    """Compared with the integral itself, by a quadrature that knows no elliptic integral."""
    value = circle_integral(lambda cosine, sine: modulus_at(a, cosine, sine) / modulus_at(b, cosine, sine) ** 2)
    return float(elliptic.modulus_ratio_integral(a, b)) * (1 + nudge), value


@PAPER.identity(
    "I(a, b)",
    part="(Carlson)",
    printed="The same by Carlson's $R_F$ and $R_J$",
    proof=f"{PROOFS}#ia-b-the-averaged-variance-of-ν-dp-ftrl",
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
    printed=r"$E[F(\theta_t) - F_*] \le \frac{L}{\mu} (1 - \eta \mu (2 - \eta R^2))^t (F(\theta_0) - F_*) + F_\infty(\beta)$ for $\eta R^2 < 2$",
    proof=f"{PROOFS}#theorem-d11-sharpened",
    domain={
        "problem": regressions(most=4, condition=1e3, largest=1.9, kurtosis=(1, 1000), multiplicity=1000),
        "noise": noises(1e-3),
        "offset": log_scale(1e-2, 1e4),
    },
    mutants=[{"factor": 0.9}, {"power": 1.05}],
    evaluations=128,
)
def sharpened_d11(
    problem: LinearRegression, noise: ToeplitzNoise, offset: float, factor: float = 1.0, power: float = 1.0
) -> Sides:
    """The parts due to the start and to the noise are uncorrelated, so no triangle inequality is needed.

    An equality for isotropic Gaussian inputs without noise.  For ηR² <= 1 it implies the bound with e^{−ημt}.
    """
    curve = problem.learning_curve(noise, 60, initial_offset=offset)
    slowest = float(problem.rates.min())
    contraction = 1 - slowest * (2 - problem.learning_rate * problem.moment_bound)
    start = float(problem.rates.max()) / slowest * contraction ** (power * np.arange(61.0)) * curve[0]
    return curve, factor * (start + problem.stationary_error(noise))


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
