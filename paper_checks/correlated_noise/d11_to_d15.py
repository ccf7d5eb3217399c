"""Appendices D.3 and D.4: the expected error of Noisy-FTRL after t steps, and its consequences for DP-FTRL."""

import math
from itertools import product

import numpy as np

from corrnoise.paper_checks.correlated_noise.d2_to_d10 import (
    OPEN,
    RUNS,
    averaged,
    largest_norms,
    second_moment,
    three_directions,
)
from corrnoise.paper_checks.correlated_noise.paper import NO_PRIVACY, PAPER, SHORT
from corrnoise.paper_checks.correlated_noise.sections_1_and_2 import NORMS, noise_matrix
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
from corrnoise.theory.correlated_noise import finite_time
from corrnoise.theory.correlated_noise.finite_time import FiniteRun
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, noise_variance
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression

# -- D.3: in expectation -----------------------------------------------------------------------------------------------

SMALL = {
    "problem": regressions(most=4, condition=1e3, kurtosis=(1, 100), multiplicity=1000, norms=NORMS),
    "noise": noises(1e-3),
}
CURVE = {**SMALL, "offset": log_scale(1e-2, 1e4), "start": one_of("all directions", "slowest direction")}


@PAPER.inequality(
    "Theorem D.11",
    printed=r"$E[F(\theta_t) - F_*] \le (\sqrt{\frac{L}{\mu} e^{-\eta \mu t} (F(\theta_0) - F_*)} + \sqrt{F_\infty(\beta)})^2$",
    transcription="square roots; without them the statement is false",
    proof=f"{SHORT}#theorem-d11",
    evidence="proved",
    rests_on=["corrnoise: Theorem D.11, sharpened"],
    domain=CURVE,
    mutants=[{"factor": 0.999}, {"speed": 1.05}, {"share": 0.01}],
    evaluations=128,
)
def theorem_d11(
    problem: LinearRegression,
    noise: ToeplitzNoise,
    offset: float,
    start: str,
    factor: float = 1.0,
    speed: float = 1.0,
    share: float = 1.0,
) -> Sides:
    """Compared with the exact curve of 60 steps.  It is true also without the cross term (Theorem D.11, sharpened).

    With e^{−1.05 ημt} it is false for isotropic inputs in many dimensions.
    """
    slow = problem.eigenvalues == problem.eigenvalues.min()
    place = offset * (slow if start == "slowest direction" else np.ones(slow.size))
    curve = problem.learning_curve(noise, 60, initial_offset=place)
    times = speed * np.arange(61)
    first = share * float(curve[0])
    return curve, factor * finite_time.theorem_d11_upper_bound(problem, noise, times, first, printed=True)


@PAPER.inequality(
    "Lemma D.12",
    part="(monotone)",
    printed=r"$S_t \preceq S_{t+1}$, and $S_t$ converges, from $\tilde\theta_0 = \theta_*$",
    independent="the curve is compared with itself one step later, and with the limit by formula E1",
    domain=SMALL,
    mutants=[{"tilt": 1e-3}],
    evaluations=128,
)
def lemma_d12(problem: LinearRegression, noise: ToeplitzNoise, tilt: float = 0.0) -> Sides:
    """Checked with the exact curve Tr[H S_t]/2, which increases and stays below F_∞."""
    curve = problem.learning_curve(noise, 100)
    limit = problem.stationary_error(noise)
    return np.append(curve[:-1] * (1 + tilt), curve), np.append(curve[1:], np.full(101, limit * (1 + 1e-10)))


@PAPER.inequality(
    "Lemma D.12",
    part="(proof)",
    printed=r"$\mathrm{Tr}[S_t] \le \frac{1}{\mu} (2 \sigma^2 \|\beta\|_2^2 \mathrm{Tr}[H^{-1}] + \eta R^2 \sigma_{sgd}^2)$",
    domain={"problem": regressions(norms=NORMS), "noise": noises(1e-3)},
    sharp="factor",
    mutants=[{"factor": 0.82}],
    evaluations=1024,
)
def lemma_d12_trace(problem: LinearRegression, noise: ToeplitzNoise, factor: float = 1.0) -> Sides:
    """Checked with Tr S_∞ from formula E1.  The search finds 5/6: (2 − x)/(2 (2 − 3x)) at x = 1/3, one dimension, slowly varying noise."""
    eigenvalues = problem.eigenvalues
    eta = problem.learning_rate
    trace = float((2 * problem.contributions(noise) / eigenvalues).sum())
    private = 2 * noise_variance(noise, 1.0, 1.0) * float(noise.averaged_variance(1.0)) * float((1 / eigenvalues).sum())
    bound = (private + eta * problem.moment_bound * problem.residual_std**2) / float(eigenvalues.min())
    return trace, factor * bound


SIGNS = np.array(list(product((-1.0, 1.0), repeat=6)))


@PAPER.identity(
    "Equation (81)",
    printed=r"$E(Q_{t-1} \cdots Q_{t-\tau+1} x_{t-\tau} \xi_{t-\tau})^{\otimes 2} = P^\tau(E[\xi^2 x \otimes x])$",
    corrected=r"$P^{\tau - 1}$, for $\tau = 1, \ldots, t$",
    domain={"second": linear(0.1, 1), "eta": linear(0.05, 0.9)},
    as_printed={"power": 3},
    counterexample={"second": 0.5, "eta": 0.4},
    mutants=[{"power": 1}],
    evaluations=64,
)
def lemma_d12_gradient_noise(second: float, eta: float, power: int = 2) -> Sides:
    """Checked by enumeration for τ = 3 and inputs x = (±1, ±sqrt(λ)).  (P has the kurtosis 1 of these inputs.)"""
    eigenvalues = np.array([1.0, second])
    moment = np.zeros(2)
    for signs in SIGNS.reshape(-1, 3, 2):
        x = signs * np.sqrt(eigenvalues)
        seen = x[0]
        for one in x[1:]:
            seen = seen - eta * one * (one @ seen)
        moment += seen**2 / len(SIGNS)
    expected = eigenvalues
    for _ in range(power):
        expected = averaged(expected, eigenvalues, eta, kurtosis=1.0)
    return moment, expected


@PAPER.identity(
    "Equation (82)",
    printed=r"$T_\tau'$ as a double sum over $l \le k$",
    corrected="over $l < k$: the terms $l = k$ are in the third line already; both index strings of line 4 end at $t - \\tau + k$",
    domain={"problem": regressions(most=4, condition=1e3), "beta": vector(linear(-1, 1), 5)},
    as_printed={"twice": 1.0},
    counterexample={"problem": LinearRegression([0.7, 0.2], 0.4), "beta": np.array([1.0, -0.6])},
    mutants=[{"twice": 1e-4}],
)
def lemma_d12_sum(problem: LinearRegression, beta: Array, twice: float = 0.0) -> Sides:
    """λ = (0.7, 0.2), η = 0.4, β = (1, −0.6), τ = 1: exact (0.3616, 0.1856), printed (1.0592, 1.0672)."""
    eigenvalues = problem.eigenvalues
    eta = problem.learning_rate
    tau = beta.size - 1
    c = 1 - problem.rates

    def power(m: Array, times: int) -> Array:
        for _ in range(times):
            m = averaged(m, eigenvalues, eta)
        return m

    total = beta[tau] ** 2 * np.ones(c.size)
    for k in range(tau):
        total = total + 2 * beta[tau] * beta[k] * c ** (tau - k) + (1 + twice) * beta[k] ** 2 * power(c**0, tau - k)
        for j in range(k):
            total = total + 2 * beta[k] * beta[j] * power(c ** (k - j), tau - k)
    return 1 + second_moment(beta, eigenvalues, eta), 1 + total


@PAPER.identity(
    "Equation (83)",
    printed=r"$S_{t+1} = P S_t + \eta^2 E[\xi^2 x \otimes x] + \eta^2 \sigma^2 \sum_{\tau \le t} \sum_{k \le t} \beta_\tau \beta_k (I - \eta H)^{|\tau - k|}$",
    domain={"problem": regressions(most=4, condition=1e3), "beta": vector(linear(-0.3, 0.3), 5)},
    mutants=[{"kurtosis": 3.01}],
    tolerance=1e-10,
    evaluations=128,
)
def lemma_d12_recursion(problem: LinearRegression, beta: Array, kurtosis: float = 3.0) -> Sides:
    """The curve from this recursion is compared with S_6 = η² Σ_τ (T_τ + σ² T'_τ) with the sums of (81) and (82) as corrected."""
    beta = np.append(1.0, beta)
    noise = FiniteNoise(beta)
    eigenvalues = problem.eigenvalues
    eta = problem.learning_rate
    gradient = problem.residual_std**2 * eigenvalues
    variance = noise_variance(noise, 1.0, 1.0)
    total = 0.0
    for tau in range(beta.size):
        total += (
            eta**2 / 2 * float(eigenvalues @ (gradient + variance * second_moment(beta[: tau + 1], eigenvalues, eta)))
        )
        gradient = averaged(gradient, eigenvalues, eta)
    other = LinearRegression(eigenvalues, eta, problem.residual_std, kurtosis=kurtosis)
    return other.learning_curve(noise, beta.size)[-1], total


# -- D.4: DP-FTRL ------------------------------------------------------------------------------------------------------

RUN = {"eigenvalue": linear(0.1, 1), "steps": integers(2, 10**6, log=True), "p": log_scale(1e-6, 0.3)}


@PAPER.inequality(
    "Theorem D.13",
    part="(a)",
    printed=r"DP-FTRL with $\sigma_{dp}^2 = \gamma^2(\beta)/(2 \rho)$ is $\rho$-zCDP",
    domain={"noise": noises(1e-3), "steps": integers(1, 40, log=True), "rho": log_scale(1e-3, 10)},
    mutants=[{"two": 2.01}],
    evaluations=128,
)
def theorem_d13_privacy(noise: ToeplitzNoise, steps: int, rho: float, two: float = 2.0) -> Sides:
    """By Theorem 1.1 with γ_∞ for γ_T, the budget used, ‖first column of the inverse‖²/(2σ²), is at most ρ."""
    column = np.linalg.solve(noise_matrix(noise, steps), np.eye(steps)[0])
    return float(column @ column) * (two * rho) / (2 * noise.limiting_sensitivity() ** 2), rho * (1 + 1e-12)


@PAPER.inequality(
    "Theorem D.13",
    part="(b)",
    printed=r"With $G = c R^2 \max\{\|\theta_0 - \theta_*\|, \sqrt{\eta R^2 \sigma_{sgd}^2/\mu}, \sigma_{sgd}/R\} \log^{5/2}(T/p)$ no gradient is clipped, with probability $1 - p$",
    transcription="a square root",
    unverifiable=OPEN + f"max_t ‖g_t‖ against G with c = 1 in {RUNS}",
    constants={"constant": "existential"},
    domain={
        "seed": integers(0, 1),
        "offset": one_of(0.1, 1.0, 10.0),
        "correlated": one_of(False, True),
        "p": one_of(0.05),
    },
    probability="p",
    evidence="simulated",
    mutants=[{"constant": 5e-3}],
    evaluations=4,
)
def theorem_d13_clip_norm(seed: int, offset: float, correlated: bool, p: float, constant: float = 1.0) -> Sides:
    """With privacy noise for the clip norm G and the smallest ρ for which η satisfies the condition of the theorem (C = 1).

    No gradient comes within a hundredth of G.
    """
    unit = three_directions(offset, p=p)
    eta = unit.problem.learning_rate
    noise = NuFTRL(float(unit.problem.rates.min())) if correlated else DPSGD()
    run = three_directions(offset, eta / unit.theorem_d13_learning_rate_limit(noise, constant=1.0), p)
    _, gradients = largest_norms(run, noise, seed, run.theorem_d13_clip_norm(constant=1.0))
    return np.sqrt(gradients), constant * run.theorem_d13_clip_norm(constant=1.0)


@PAPER.inequality(
    "Theorem D.13",
    part="(b, learning rate)",
    printed=r"$\eta \le \frac{\tilde\nu \rho}{8 C^2 R^4 d \gamma_\infty^2(\beta) \|\beta\|_1^2 \log^5(T/p)}$ leaves to the privacy noise at most $G/4$ of the gradients' bound in Theorem D.4",
    domain={
        **RUN,
        "constant": linear(1, 10),
        "rho": log_scale(1e-6, 1),
        "share": log_scale(0.1, 1),
        "noise": one_of("independent", "ν-DP-FTRL", "anti-PGD"),
    },
    sharp="quarter",
    mutants=[{"quarter": 0.249}],
    evaluations=256,
)
def theorem_d13_learning_rate(
    eigenvalue: float,
    steps: int,
    p: float,
    constant: float,
    rho: float,
    share: float,
    noise: str,
    quarter: float = 0.25,
) -> Sides:
    """Checked for ν̃ = μ and G = 1.  It is an equality at the largest η where this condition is the stricter one."""
    beta: ToeplitzNoise = DPSGD()
    if noise != "independent":
        beta = NuFTRL(1e-3) if noise == "ν-DP-FTRL" else AntiPGD(0.1)
    problem = LinearRegression([1.0, eigenvalue], 1e-3)
    limit = FiniteRun(problem, steps, p, 0.0, rho).theorem_d13_learning_rate_limit(beta, constant=constant)
    run = FiniteRun(LinearRegression([1.0, eigenvalue], share * limit), steps, p, 0.0, rho)
    return math.sqrt(constant * run.theorem_d4_bounds(beta, constant=constant)[1]), quarter * (1 + 1e-12)


NODES = np.array([(x, xi) for x in (-math.sqrt(3), 0.0, math.sqrt(3)) for xi in (-1.0, 1.0)])
MASS = np.array([w / 2 for w in (1 / 6, 2 / 3, 1 / 6) for _ in range(2)])


@PAPER.inequality(
    "Theorem D.13",
    part="(c)",
    printed=r"$E[(F(\theta_t) - F_*) 1(\mathcal{E})] \le 2 \frac{L}{\mu} e^{-\eta \mu t} (F(\theta_0) - F_*) + 2 F_\infty(\beta)$",
    proof=f"{SHORT}#theorem-d11",
    evidence="proved",
    rests_on=["corrnoise: Theorem D.11, sharpened"],
    domain={
        "share": linear(0.05, 0.999),
        "residual_std": linear(0, 2),
        "offset": linear(-3, 3),
        "clip_norm": log_scale(0.1, 1e3),
        "steps": integers(1, 5),
    },
    sharp="factor",
    mutants=[{"factor": 0.45}],
    evaluations=256,
)
def theorem_d13(
    share: float, residual_std: float, offset: float, clip_norm: float, steps: int, factor: float = 1.0
) -> Sides:
    """The factor 1 is enough.  Checked by enumeration of all runs *with clipping*, in one dimension and without privacy noise.

    Inputs 0 and ±sqrt(3), whose kurtosis is 3, and residuals ±s.  On the event the clipped run is the unclipped one, and F >= 0.
    """
    problem = LinearRegression([1.0], share / 3, residual_std)
    theta, probability = np.array([offset]), np.ones(1)
    inside = np.ones(1, dtype=bool)
    for _ in range(steps):
        x, xi = NODES[:, :1], residual_std * NODES[:, 1:]
        gradient = x * (x * theta - xi)
        clipped = gradient * np.minimum(1, clip_norm / np.maximum(np.abs(gradient), 1e-300))
        inside = (inside & (np.abs(gradient) <= clip_norm)).ravel()
        theta = (theta - problem.learning_rate * clipped).ravel()
        probability = (MASS[:, np.newaxis] * probability).ravel()
    error = float((probability * inside * theta**2).sum()) / 2
    bound = finite_time.theorem_d13_upper_bound(problem, DPSGD(), steps, offset**2 / 2, rho=NO_PRIVACY)
    return error, factor * float(bound)


POLYLOG = 10  #: the power of log(T/p) that is taken for polylog(T)
GUARANTEE = {
    "eigenvalues": spectra(3, 1e3, multiplicity=1000),
    "steps": integers(10**6, 10**40, log=True),
    "p": log_scale(1e-6, 0.3),
    "rho": log_scale(1e-3, 1e3),
    "offset": log_scale(1e-2, 1e2),
    "residual_std": linear(0, 10),
}
EXTREME = {"p": 0.01, "offset": 1.0, "residual_std": 0.0}


def guarantee(run: FiniteRun, correlated: bool) -> float:
    """The bound of Theorem D.13 (c), without the factors 2, at the best of a few admissible learning rates, with C = c = 1."""
    eigenvalues = run.problem.eigenvalues
    slowest = float(eigenvalues.min())
    limit = (
        run.corollary_d15_learning_rate_limit(constant=1.0)
        if correlated
        else run.theorem_d13_learning_rate_limit(DPSGD(), constant=1.0)
    )
    found = []
    for exponent in (math.inf, run.log_factor, 2 * run.log_factor, 3 * run.log_factor):
        eta = min(limit, exponent / slowest / run.steps)
        problem = LinearRegression(eigenvalues, eta, run.problem.residual_std)
        at = FiniteRun(problem, run.steps, run.failure_probability, run.initial_offset, run.rho)
        noise = NuFTRL(eta * slowest) if correlated else DPSGD()
        clip_norm = at.theorem_d13_clip_norm(constant=1.0)
        bound = finite_time.theorem_d13_upper_bound(
            problem, noise, float(run.steps), run.initial_error, rho=run.rho, clip_norm=clip_norm
        )
        found.append(float(bound))
    return min(found)


def left_over(run: FiniteRun) -> float:
    """A lower bound of E [(F(θ_T) − F*) 1(ℰ)] at every admissible learning rate, for p <= 0.01 and equal offsets D in two directions.

    F >= ½ μ θ_d², the mean of θ_d is at least D (1 − 2/κ)^T, E ‖θ‖² <= 2 D² (noise aside, which is small), and the event ℰ has probability 0.99 at
    least; so E [θ_d 1(ℰ)] >= D ((1 − 2/κ)^T − sqrt(0.02)).
    """
    values = run.problem.eigenvalues
    condition = float(values.max() / values.min())
    mean = math.exp(run.steps * math.log1p(-2 / condition)) - math.sqrt(2 * run.failure_probability)
    return float(values.min()) / 2 * max(mean, 0.0) ** 2 * float(np.square(run.initial_offset).max())


@PAPER.inequality(
    "Corollary D.14",
    printed=r"For $T/\log^5(T/p) \ge c \kappa^2 d_{eff}^2 d/\rho$, DP-SGD: $E[(F(\theta_T) - F_*) 1(\mathcal{E})] \le \frac{L}{\mu} \exp(-\frac{\rho T}{c \kappa^2 d_{eff}^2 d \log^5(T/p)}) "
    r"+ \kappa d_{eff} (\frac{d\, \mathrm{Tr}[H] \|\theta_0 - \theta_*\|^2}{\rho T} + \frac{d \sigma_{sgd}^2}{\rho T} + \frac{\sigma_{sgd}^2}{T}) \mathrm{polylog}(T)$",
    corrected=r"with $F(\theta_0) - F_*$ in the first term, and for $T \ge c N$, $N = \max\{\kappa d_{eff} \log(T/p), \kappa^2 d_{eff}^2 d \log^5(T/p)/\rho\}$, which is also in the exponent",
    domain=GUARANTEE,
    as_printed={"published": True},
    constants={"constant": "unspecified"},
    counterexample=lambda constant: {"eigenvalues": np.array([1.0, 1e-4]), "steps": 10, "rho": 1e100, **EXTREME},
    sharp="factor",
    mutants=[{"power": 3}, {"factor": 0.005}],
    evaluations=128,
)
def corollary_d14(
    eigenvalues: Array,
    steps: int,
    p: float,
    rho: float,
    offset: float,
    residual_std: float,
    factor: float = 1.0,
    power: int = POLYLOG,
    constant: float = 100.0,
    published: bool = False,
) -> Sides:
    """As ρ → ∞ the printed bound tends to 0 for every c and every polylog, while η <= 1/(C R² log(T/p)) in Theorem D.13 stays.

    H = diag(1, 1e-4), T = 10, ρ = 1e100: 3.6e-5 of the initial error in the slow direction is left at every admissible η, and the printed
    bound is below 1e-80.  As corrected it is checked with the bound of Theorem D.13 (c) at the best of a few learning rates, with
    c = 100 and polylog = log¹⁰(T/p).
    """
    run = FiniteRun(LinearRegression(eigenvalues, 1e-3, residual_std), steps, p, offset, rho)
    rate = run.corollary_d14_rate(constant=constant, polylog=run.log_factor**power, printed=published)
    if published:
        return left_over(run), rate
    return (guarantee(run, correlated=False), factor * rate) if math.isfinite(rate) else (math.nan, math.nan)


@PAPER.inequality(
    "Corollary D.15",
    printed=r"For $T/\log^7(T/p) \ge c Y \log(c Y)$, $Y = \kappa^2 d_{eff}^2 d/\rho$, $\nu$-DP-FTRL: $E[(F(\theta_T) - F_*) 1(\mathcal{E})] \le \frac{L}{\mu} \exp(-\frac{T}{c Y \log^7(T/p) \log Y}) "
    r"+ \kappa d_{eff} (\frac{\kappa d_{eff} \mathrm{Tr}[H] \|\theta_0 - \theta_*\|^2}{\rho T^2} + \frac{\kappa d_{eff} \sigma_{sgd}^2}{\rho T^2} + \frac{\sigma_{sgd}^2}{T}) \mathrm{polylog}(T)$",
    corrected=r"with $F(\theta_0) - F_*$ in the first term, and for $T \ge c N$, $N = \max\{\kappa d_{eff} \log(T/p), Y \log^7(T/p) \max\{1, \log Y\}\}$, which is also in the exponent",
    domain=GUARANTEE,
    as_printed={"published": True},
    constants={"constant": "unspecified"},
    counterexample=lambda constant: {"eigenvalues": np.array([1.0, 1e-50]), "steps": 10**45, "rho": 1e100, **EXTREME},
    sharp="factor",
    mutants=[{"power": 3}, {"factor": 0.02}],
    evaluations=64,
)
def corollary_d15(
    eigenvalues: Array,
    steps: int,
    p: float,
    rho: float,
    offset: float,
    residual_std: float,
    factor: float = 1.0,
    power: int = POLYLOG,
    constant: float = 100.0,
    published: bool = False,
) -> Sides:
    """H = diag(1, 1/κ), ρ = κ², T = κ^0.9: Y is nearly 2, so T is admitted, but T η μ <= 2 T/κ tends to 0.

    At least 0.36/κ of the initial error is left at every admissible η and ν, and the printed bound is T^{−2} polylog(T): as κ → ∞ it is
    smaller for every c and every polylog (κ = 1e50: 3.7e-51 and 4.4e-70).  The proof also has log² for one log, η for μ and R² for R⁴
    in the condition on η, and R⁴ σ²/(ρ μ² T²) for R⁴ σ²/(ρ μ T) in its last display.  As corrected it is checked like Corollary D.14.
    """
    run = FiniteRun(LinearRegression(eigenvalues, 1e-3, residual_std), steps, p, offset, rho)
    rate = run.corollary_d15_rate(constant=constant, polylog=run.log_factor**power, printed=published)
    if published:
        return left_over(run), rate
    return (guarantee(run, correlated=True), factor * rate) if math.isfinite(rate) else (math.nan, math.nan)
