"""Results of this project beyond the papers: exact errors and the exact optimum.

Proofs are in ``docs/exact-errors.md``.
"""

import math

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
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import AntiPGD, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import UNIT_BUDGET
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation

PROOFS = "docs/exact-errors.md"

#: Dimension to 10⁴ and inputs of any kurtosis.
PROBLEMS = regressions(kurtosis=(1, 1000), multiplicity=10_000, norms=(1e-4, 1.0, 1e4))
ANY = {"problem": PROBLEMS, "noise": noises()}
QUIET = {"problem": regressions(residual_std=0.0, norms=(1e-4, 1.0, 1e4))}


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
    return new + noise * UNIT_BUDGET.unit_variance * fresh @ fresh.T


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
    """The problem whose errors at σ² = ½ equal the errors of ``problem`` divided by γ_∞², and γ_∞²."""
    scale = noise.limiting_sensitivity()
    scaled = LinearRegression(problem.eigenvalues, problem.learning_rate, problem.residual_std / scale)
    return scaled, scale**2


@PAPER.identity(
    "E1",
    printed=r"$F_\infty = \frac{\eta}{4 (1 - A)} \sum_j (\sigma_{sgd}^2 \lambda_j + \sigma^2 b_j) g_j$, $g_j = (1 - (k_j - 1) x_j/2)^{-1}$, $A = \frac{\eta}{2} \sum_j \lambda_j g_j$, if $A < 1$ and $(k_j - 1) x_j < 2$",
    proof=f"{PROOFS}#e1-the-stationary-error",
    rests_on=["E2"],
    domain={
        "second": log_scale(0.1, 1),
        "share": linear(0.1, 0.9),
        "kurtosis": log_scale(1, 100),
        "beta": vector(linear(-0.4, 0.4), 2),
    },
    mutants=[{"more": 1e-3}],
    tolerance=1e-9,
    evaluations=32,
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
    "E1 (instability)",
    printed=r"If $A \ge 1$ or some $(k_j - 1) x_j \ge 2$, and $\sigma_{sgd}^2 + \sigma^2 > 0$ with $\gamma_\infty < \infty$, then $E F(\theta_t) - F_* \to \infty$",
    proof=f"{PROOFS}#e1-the-stationary-error",
    independent="the statement compares the curve with itself at two times",
    domain={
        "eigenvalues": spectra(3, 10),
        "gain": linear(1.05, 1.5),
        "residual_std": one_of(0.0, 1.0),
        "noise": noises(1e-2),
    },
    mutants=[{"scale": 0.8}],
    evaluations=64,
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
    "E1 (exception)",
    printed=r"For $d = k_1 = 1$ and $\sigma_{sgd} = 0$ the error is $\frac{\eta^2 \sigma^2}{2} \sum_{\tau < t} y_\tau^2$ from $\theta_0 = \theta_*$, "
    r"which is bounded for $x > 2$ and $\beta = (1, x - 1)$, where $\gamma_\infty = \infty$",
    proof=f"{PROOFS}#e1-the-stationary-error",
    domain={"rate": linear(2, 2.5), "steps": integers(1, 10)},
    mutants=[{"shift": 1e-6}],
)
def e1_exception(rate: float, steps: int, shift: float = 0.0) -> Sides:
    """y = (1, 0, 0, …): after every step the error is η² σ²/2.  σ² belongs to a horizon of 10 steps."""
    noise = FiniteNoise([1.0, rate - 1 + shift])
    curve = MeanEstimation(rate).learning_curve(noise, steps, participation=Participation.single(10))
    return curve[1:], rate**2 / 2 * noise.sensitivity(Participation.single(10)) ** 2 / 2


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
    evaluations=32,
)
def e2(eigenvalues: Array, share: float, kurtosis: float, beta: Array, steps: int, more: float = 0.0) -> Sides:
    """Compared with the recursion of all second moments of iterate and noise together."""
    noise = FiniteNoise(np.append(1.0, beta))
    unit = LinearRegression(eigenvalues, 1.0, kurtosis=kurtosis)
    problem = LinearRegression(eigenvalues, share / unit.moment_bound, 0.5, kurtosis=kurtosis)
    scaled, square = scaled_residuals(problem, noise)
    return problem.learning_curve(noise, steps), joint_recursion(scaled, noise.values, steps, kurtosis + more) * square


@PAPER.inequality(
    "E3 (no noise is better)",
    printed=r"$\min_\beta F_\infty = \frac{\frac{\eta}{2} \sigma_{sgd}^2 \sum_j \lambda_j g_j + \frac{\eta^2 G^2}{4 \rho} J^2}{2 (1 - A)}$, $J = \frac{1}{2\pi} \int \sqrt{\tilde h}$",
    proof=f"{PROOFS}#e3-the-optimum-over-all-noise",
    rests_on=["E1", "γ (any noise)"],
    domain=ANY,
    mutants=[{"factor": 1.001}],
    evaluations=256,
)
def e3(problem: LinearRegression, noise: ToeplitzNoise, factor: float = 1.0) -> Sides:
    """Searched over independent, ν-DP-FTRL, anti-PGD, product, polynomial and banded-strategy noise."""
    return factor * problem.optimal_error(), problem.stationary_error(noise)


@PAPER.identity(
    "E3 (attained)",
    printed=r"by $B(z) = \sqrt{\prod_j (1 - c_j z)/\prod_k (1 - z_k z)}$, $z_k$ the zeros of $\tilde h$ between the distinct $c_j$ among $1 - x_j$",
    proof=f"{PROOFS}#e3-interlacing-zeros",
    rests_on=["E3 (no noise is better)"],
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
    "E3 (interlacing)",
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
    "E3 (signs)",
    printed=r"If $\eta \lambda_j < 1$ for all $j$, the coefficients of the optimum satisfy $\beta_t < 0$ for $t \ge 1$",
    proof=f"{PROOFS}#e3-signs",
    rests_on=["E3 (interlacing)"],
    domain={"problem": regressions(residual_std=0.0, condition=1e3, kurtosis=1.0), "time": integers(1, 200, log=True)},
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


@PAPER.identity(
    "Anti-PGD",
    printed=r"The best damping for Gaussian inputs is $\nu^* = \frac{-s + \sqrt{2 s D - s^2}}{d}$, $s = \sum_j \frac{x_j}{1 - x_j}$, $D = \sum_j \frac{1}{1 - x_j}$",
    proof=f"{PROOFS}#anti-pgd-the-best-damping",
    rests_on=["E1"],
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
