"""Appendix D: finite time, in expectation and with high probability."""

import math

import numpy as np

from corrnoise.paper_checks.correlated_noise.paper import PAPER
from corrnoise.paper_checks.domains import integers, linear, log_scale, noises, regressions, spectra, vector
from corrnoise.paper_checks.ledger import Sides
from corrnoise.theory import finite_time
from corrnoise.theory.checks import Array
from corrnoise.theory.finite_time import FiniteRun
from corrnoise.theory.problems import LinearRegression
from corrnoise.theory.product_noise import DPSGD, NuFTRL
from corrnoise.theory.toeplitz_noise import ToeplitzNoise, noise_variance

# -- D.1 ---------------------------------------------------------------------------------------------------------------


@PAPER.identity(
    "Property D.2",
    part="(66)",
    printed=r"$\theta_t' = \hat\theta_t + \tilde\theta_t^{sgd} + \tilde\theta_t^{dp}$",
    domain={"seed": integers(0, 10_000), "eta": log_scale(0.01, 1)},
    mutants=[{"sign": -1.0}],
    evaluations=64,
)
def property_d2(seed: int, eta: float, sign: float = 1.0) -> Sides:
    """Pathwise, for eight steps in two dimensions."""
    whole, start, residual, private = unrolled(seed, eta, 8)
    return whole, start + residual + sign * private


def unrolled(seed: int, eta: float, steps: int) -> tuple[Array, Array, Array, Array]:
    """θ'_t and its parts due to the start, the residuals and the noise."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=2), np.zeros(2), np.zeros(2)]
    whole = parts[0].copy()
    beta, noise = rng.normal(size=steps), []
    for _ in range(steps):
        x, xi = rng.normal(size=2), rng.normal()
        noise.insert(0, rng.normal(size=2))
        correlated = sum(b * w for b, w in zip(beta, noise, strict=False))
        q = np.eye(2) - eta * np.outer(x, x)
        whole = q @ whole + eta * xi * x - eta * correlated
        parts = [q @ parts[0], q @ parts[1] + eta * xi * x, q @ parts[2] - eta * correlated]
    return whole, *parts


@PAPER.identity(
    "Property D.2",
    part="(67) to (69)",
    printed=r"$\hat\theta_t = Q_t \cdots Q_0 \theta_0'$, and (68) and the first line of (69) with the same indices",
    corrected=r"$\hat\theta_t = Q_{t-1} \cdots Q_0 \theta_0'$; (68) and the first line of (69) are for $t + 1$",
    domain={"eta": log_scale(0.01, 1), "inputs": vector(linear(-2, 2), 4), "start": linear(0.5, 2)},
    as_printed={"extra": 1},
    counterexample={"eta": 0.5, "inputs": np.ones(4), "start": 1.0},
    mutants=[{"extra": 1}],
)
def property_d2_indices(eta: float, inputs: Array, start: float, extra: int = 0) -> Sides:
    """In one dimension: θ̂_3 after three steps is Q_2 Q_1 Q_0 θ'_0; with inputs 1 and η = ½ that is 1/8, printed 1/16."""
    theta = start
    for x in inputs[:3]:
        theta -= eta * x * x * theta
    return theta, start * float(np.prod(1 - eta * inputs[: 3 + extra] ** 2))


@PAPER.inequality(
    "Definition D.3",
    printed=r"$\hat\beta_\nu$ satisfies $\sum_{k \le \tau} |\beta_k| (1 - \nu)^{(\tau - k)/2} \le C (1 - \nu)^{\tau/2}$ for a universal $C$",
    domain={"nu": log_scale(1e-9, 0.999), "steps": integers(1, 3000, log=True)},
    sharp="constant",
    mutants=[{"constant": 1.99}],
    evaluations=256,
)
def definition_d3(nu: float, steps: int, constant: float = 2.0) -> Sides:
    """With C = 2 − sqrt(1 − sqrt(1 − ν)) <= 2, and for every parameter ν' <= ν (2 − ν).  For ν = 0.1, ν' = 0.2: 2259 at τ = 2500."""
    noise = NuFTRL(nu)
    finite, limit = finite_time.half_expo_constant(noise, nu, steps), finite_time.half_expo_constant(noise, nu)
    return np.array([finite, limit]), np.array([limit * (1 + 1e-11), float(constant)])


# -- D.2: high probability ---------------------------------------------------------------------------------------------

OPEN = "its constants are unspecified; checked instead is "


@PAPER.inequality(
    "Theorem D.4",
    printed=r"With probability $1 - p$: $\max_t \|\theta_t'\|^2 \le C (\|\theta_0'\|^2 + \frac{\eta R^2 \sigma_{sgd}^2}{\mu} "
    r"+ \frac{\eta \sigma^2 d \|\beta\|_1^2}{\nu}) \log^3(T/p)$ for $\eta \le \frac{1}{c R^2 \log(T/p)}$",
    transcription="a fraction bar",
    unverifiable=OPEN
    + "the 95 % quantile of 400 simulated runs against the bound with C = 1 (d = 3, T = 300, p = 0.05)",
    domain={"seed": integers(0, 3), "share": linear(0.3, 1)},
    evidence="simulated",
    mutants=[{"constant": 1e-6}],
    evaluations=8,
)
def theorem_d4(seed: int, share: float, constant: float = 1.0) -> Sides:
    """The quantile is a thousandth of the bound or less, so that a false alarm has a probability below 1e-9."""
    rng, steps, runs = np.random.default_rng(seed), 300, 400
    eigenvalues = np.array([1.0, 0.5, 0.1])
    r2 = float(eigenvalues.sum() + 2)
    eta = share / (r2 * math.log(steps / 0.05))
    run = FiniteRun(LinearRegression(eigenvalues, eta, 1.0), steps, 0.05, 1.0)
    theta, largest, last = np.ones((runs, 3)), np.zeros(runs), np.zeros((runs, 3))
    sigma = math.sqrt(noise_variance(DPSGD(), 1.0, 1.0))
    for _ in range(steps):
        x = rng.standard_normal((runs, 3)) * np.sqrt(eigenvalues)
        last = sigma * rng.standard_normal((runs, 3))
        residual = np.sum(x * theta, axis=1, keepdims=True) - rng.standard_normal((runs, 1))
        theta = theta - eta * x * residual - eta * last
        largest = np.maximum(largest, np.square(theta).sum(axis=1))
    return float(np.quantile(largest, 0.95)), constant * run.theorem_d4_bounds(DPSGD(), constant=1.0)[0]


@PAPER.inequality(
    "Proposition D.5",
    printed=r"The six events of the proof hold together with probability at least $1 - 6p$",
    unverifiable=OPEN + "the first of them for H = I: max_t ‖x_t‖² <= 3 R² log(T/p), by exact chi-square tails",
    domain={"dimension": integers(1, 1000, log=True), "steps": integers(1, 10**6, log=True), "p": log_scale(1e-6, 0.3)},
    mutants=[{"constant": 0.3}],
)
def proposition_d5(dimension: int, steps: int, p: float, constant: float = 3.0) -> Sides:
    """T P(χ²_d > 3 (d + 2) log(T/p)) <= p: what is left of the event, in logarithms."""
    from scipy.stats import chi2

    tail = float(chi2.logsf(constant * (dimension + 2) * math.log(steps / p), dimension))
    return 1 + math.log(p) - math.log(steps), 1 + 2 * (math.log(p) - math.log(steps)) - tail


@PAPER.inequality(
    "Proposition D.6",
    printed=r"Under $0 \preceq Q_t \preceq I$: $\|\hat\theta_t\|_2 \le \|\theta_0'\|_2$",
    domain={"inputs": vector(linear(-1, 1), 8), "start": vector(linear(-1, 1), 2), "share": linear(0, 1)},
    mutants=[{"reach": 4.0}],
)
def proposition_d6(inputs: Array, start: Array, share: float, reach: float = 1.0) -> Sides:
    """For four steps in two dimensions with η ‖x_t‖² <= 1, which the event gives (η ‖x‖² <= 2 would do)."""
    rows = inputs.reshape(4, 2)
    largest = max(float(np.square(rows).sum(axis=1).max()), 1e-9)
    theta = start
    for x in rows:
        theta = theta - reach * share / largest * x * (x @ theta)
    return 1e-9 + float(np.linalg.norm(theta)), 1e-9 + float(np.linalg.norm(start))


@PAPER.inequality(
    "Proposition D.7",
    printed=r"$\|\tilde\theta_t^{sgd}\|_2^2 \le C \frac{\eta R^2}{\mu} \log^3(T/p)$",
    corrected=r"$C \frac{\eta R^2 \sigma_{sgd}^2}{\mu} \log^3(T/p)$",
    domain={"problem": regressions(residual_std=1.0), "scale": log_scale(1e-3, 1e3)},
    as_printed={"published": True},
    counterexample={"problem": LinearRegression([1.0], 0.1, 1.0), "scale": 1e9},
    mutants=[{"factor": 0.1}],
)
def proposition_d7(problem: LinearRegression, scale: float, factor: float = 1.0, published: bool = False) -> Sides:
    """The left side scales with the residuals, the printed right side does not.  Checked in expectation, with C = 1."""
    second_moment = 2 * problem.contributions(DPSGD(), rho=1e90) / problem.eigenvalues
    bound = problem.learning_rate * problem.moment_bound / float(problem.eigenvalues.min())
    return scale**2 * float(second_moment.sum()), factor * bound * (1e6 if published else scale**2)


@PAPER.inequality(
    "Proposition D.8",
    printed=r"a copy of Proposition D.7: $\|\tilde\theta_t^{sgd}\|_2^2 \le C \frac{\eta R^2}{\mu} \log^3(T/p)$",
    corrected=r"$\|\tilde\theta_t^{dp}\|_2^2 \le C \frac{\eta \sigma^2 d \|\beta\|_1^2}{\tilde\nu} \log^2(T/p)$ for Half-Expo decay with $\eta \tilde\nu$",
    domain={"problem": regressions(residual_std=0.0), "share": log_scale(1e-3, 1), "scale": log_scale(1e-3, 1e3)},
    as_printed={"published": True},
    counterexample={"problem": LinearRegression([1.0], 0.1), "share": 1.0, "scale": 1e9},
    mutants=[{"factor": 0.01}],
)
def proposition_d8(
    problem: LinearRegression, share: float, scale: float, factor: float = 1.0, published: bool = False
) -> Sides:
    """The left side scales with the noise, σ² = ``scale``².  Checked in expectation for ν-DP-FTRL, ν = ημ, with C = 1."""
    noise = NuFTRL(share * float(problem.rates.min()))
    unit = noise_variance(noise, 1.0, 1.0)
    second_moment = float((2 * problem.contributions(noise) / problem.eigenvalues).sum()) / unit
    eta, mu = problem.learning_rate, float(problem.eigenvalues.min())
    bound = eta * problem.eigenvalues.size * finite_time.absolute_sum(noise) ** 2 / (share * mu)
    return scale**2 * second_moment, factor * (1e6 * eta * problem.moment_bound / mu if published else scale**2 * bound)


# -- D.3: in expectation -----------------------------------------------------------------------------------------------


def averaged(m: Array, eigenvalues: Array, eta: float) -> Array:
    """The diagonal of P M = E (I − η x xᵀ) M (I − η x xᵀ) for Gaussian inputs and diagonal M."""
    x = eta * eigenvalues
    return (1 - 2 * x + 2 * x * x) * m + eta * x * float((eigenvalues * m).sum())


ITERATED = {"eigenvalues": spectra(4, 1e3), "share": log_scale(1e-3, 1), "lag": integers(0, 20)}


def small_rate(eigenvalues: Array, share: float) -> float:
    """η = share/R²."""
    return share / float(eigenvalues.sum() + 2 * eigenvalues.max())


@PAPER.inequality(
    "Lemma D.9",
    printed=r"$E\, \mathrm{Tr}[W_{t,\tau}] \le R^2 (1 - \eta \mu)^{t - 1 - \tau}$",
    domain=ITERATED,
    sharp="factor",
    mutants=[{"factor": 0.3}],
)
def lemma_d9(eigenvalues: Array, share: float, lag: int, factor: float = 1.0) -> Sides:
    """By the exact recursion; with Tr H in place of R² it is true and sharp (third of it for d = 1)."""
    eta, m = small_rate(eigenvalues, share), eigenvalues.copy()
    for _ in range(lag):
        m = averaged(m, eigenvalues, eta)
    r2 = float(eigenvalues.sum() + 2 * eigenvalues.max())
    return float(m.sum()), float(factor) * r2 * (1 - eta * float(eigenvalues.min())) ** lag


def second_moment(beta: Array, eigenvalues: Array, eta: float) -> Array:
    """The diagonal of E V Vᵀ: A_0 = β_0 I, A_{k+1} = β_{k+1} I + Q A_k."""
    mean, square = np.full(eigenvalues.size, beta[0]), np.full(eigenvalues.size, beta[0] ** 2)
    for b in beta[1:]:
        square = b * b + 2 * b * (1 - eta * eigenvalues) * mean + averaged(square, eigenvalues, eta)
        mean = b + (1 - eta * eigenvalues) * mean
    return square


NOISY = {"eigenvalues": spectra(4, 1e3), "share": log_scale(1e-6, 1), "beta": vector(linear(-1, 1), 5)}


@PAPER.inequality(
    "Lemma D.10",
    part="(expectation)",
    printed=r"$E\, \mathrm{Tr}[V_{t,\tau} V_{t,\tau}^\top] \le d (\sum_{k=0}^\tau |\beta_k| (1 - \eta \mu)^{(\tau - k)/2})$",
    corrected="the sum squared",
    domain=NOISY,
    as_printed={"power": 1},
    counterexample={"eigenvalues": np.ones(2), "share": 1e-6, "beta": np.ones(2)},
    mutants=[{"power": 3}],
)
def lemma_d10(eigenvalues: Array, share: float, beta: Array, power: int = 2) -> Sides:
    """β = (1, 1), η → 0: 4 d on the left, 2 d printed."""
    eta = small_rate(eigenvalues, share)
    decay = (1 - eta * float(eigenvalues.min())) ** (np.arange(beta.size - 1.0, -1, -1) / 2)
    return float(second_moment(beta, eigenvalues, eta).sum()), eigenvalues.size * float(np.abs(beta) @ decay) ** power


@PAPER.inequality(
    "Lemma D.10",
    part="(event)",
    printed=r"Under $Q_t \succeq 0$: $\mathrm{Tr}[V_{t,\tau} V_{t,\tau}^\top] \le d (\sum_{k=0}^\tau |\beta_k|)^2$",
    domain={"inputs": vector(linear(-1, 1), 8), "beta": vector(linear(-1, 1), 5), "share": linear(0, 1)},
    mutants=[{"power": 3}],
)
def lemma_d10_event(inputs: Array, beta: Array, share: float, power: int = 2) -> Sides:
    """Pathwise in two dimensions with 0 ⪯ Q ⪯ I, which is what the proof uses."""
    rows = inputs.reshape(4, 2)
    eta = share / max(float(np.square(rows).sum(axis=1).max()), 1e-9)
    a = beta[0] * np.eye(2)
    for b, x in zip(beta[1:], rows, strict=True):
        a = b * np.eye(2) + (np.eye(2) - eta * np.outer(x, x)) @ a
    return float(np.square(a).sum()), 2 * float(np.abs(beta).sum()) ** power


CURVE = {
    "problem": regressions(most=4, condition=1e3),
    "noise": noises(1e-3),
    "offset": log_scale(1e-2, 1e2),
}


@PAPER.inequality(
    "Theorem D.11",
    printed=r"$E[F(\theta_t) - F_*] \le (\sqrt{\frac{L}{\mu} e^{-\eta \mu t} (F(\theta_0) - F_*)} + \sqrt{F_\infty(\beta)})^2$",
    transcription="square roots; without them the statement is false",
    domain=CURVE,
    mutants=[{"factor": 0.4}],
    evaluations=256,
)
def theorem_d11(problem: LinearRegression, noise: ToeplitzNoise, offset: float, factor: float = 1.0) -> Sides:
    """Against the exact curve of 200 steps.  The sum without roots (and without the square) holds too: the parts add up."""
    curve = problem.learning_curve(noise, 200, initial_offset=offset)
    bound = finite_time.theorem_d11_upper_bound(problem, noise, np.arange(201), float(curve[0]), printed=True)
    return curve, factor * bound


@PAPER.inequality(
    "Lemma D.12",
    part="(monotone)",
    printed=r"$S_t \preceq S_{t+1}$, and $S_t$ converges, from $\tilde\theta_0 = \theta_*$",
    domain={"problem": regressions(most=4, condition=1e3), "noise": noises(1e-3)},
    mutants=[{"tilt": 1e-3}],
    evaluations=256,
)
def lemma_d12(problem: LinearRegression, noise: ToeplitzNoise, tilt: float = 0.0) -> Sides:
    """Tr[H S_t]/2 by the exact curve: it increases, and stays below F_∞."""
    curve = problem.learning_curve(noise, 100)
    limit = problem.stationary_error(noise)
    return np.append(curve[:-1] * (1 + tilt), curve), np.append(curve[1:], np.full(101, limit * (1 + 1e-10)))


@PAPER.identity(
    "Lemma D.12",
    part="(82)",
    printed=r"$T_\tau'$ as a double sum over $l \le k$",
    corrected="over $l < k$: the terms $l = k$ are in the third line already; both index strings of line 4 end at $t - \\tau + k$",
    domain=NOISY,
    as_printed={"twice": 1.0},
    counterexample={"eigenvalues": np.array([0.7, 0.2]), "share": 0.4 * 2.3, "beta": np.array([1.0, -0.6])},
    mutants=[{"twice": 1e-4}],
)
def lemma_d12_sum(eigenvalues: Array, share: float, beta: Array, twice: float = 0.0) -> Sides:
    """λ = (0.7, 0.2), η = 0.4, β = (1, −0.6), τ = 1: exact (0.3616, 0.1856), printed (1.0592, 1.0672)."""
    eta, tau = small_rate(eigenvalues, share), beta.size - 1
    one = np.ones(eigenvalues.size)

    def power(m: Array, times: int) -> Array:
        for _ in range(times):
            m = averaged(m, eigenvalues, eta)
        return m

    c = 1 - eta * eigenvalues
    total = beta[tau] ** 2 * one
    for k in range(tau):
        total = total + 2 * beta[tau] * beta[k] * c ** (tau - k) + (1 + twice) * beta[k] ** 2 * power(one, tau - k)
        for j in range(k):
            total = total + 2 * beta[k] * beta[j] * power(c ** (k - j), tau - k)
    return 1 + second_moment(beta, eigenvalues, eta), 1 + total


# -- D.4: DP-FTRL ------------------------------------------------------------------------------------------------------


@PAPER.inequality(
    "Theorem D.13",
    part="(c)",
    printed=r"$E[(F(\theta_t) - F_*) 1(\mathcal{E})] \le 2 \frac{L}{\mu} e^{-\eta \mu t} (F(\theta_0) - F_*) + 2 F_\infty(\beta)$",
    domain=CURVE,
    sharp="factor",
    mutants=[{"factor": 0.2}],
    evaluations=256,
)
def theorem_d13(problem: LinearRegression, noise: ToeplitzNoise, offset: float, factor: float = 1.0) -> Sides:
    """The unclipped run bounds the clipped one on the event; the factor 2 is not needed."""
    curve = problem.learning_curve(noise, 200, initial_offset=offset)
    bound = finite_time.theorem_d13_upper_bound(problem, noise, np.arange(201), float(curve[0]), printed=True)
    return curve, float(factor) * bound


@PAPER.inequality(
    "Theorem D.13",
    part="(b)",
    printed=r"With $G = c R^2 \max\{\|\theta_0 - \theta_*\|, \sqrt{\eta R^2 \sigma_{sgd}^2/\mu}, \sigma_{sgd}/R\} \log^{5/2}(T/p)$ no gradient is clipped, with probability $1 - p$",
    transcription="a square root",
    unverifiable=OPEN
    + "the 95 % quantile of max_t ‖g_t‖ in 400 simulated runs against G with c = 1 (d = 3, T = 200, p = 0.05)",
    domain={"seed": integers(0, 3), "offset": log_scale(0.1, 10)},
    evidence="simulated",
    mutants=[{"constant": 1e-3}],
    evaluations=8,
)
def theorem_d13_clip_norm(seed: int, offset: float, constant: float = 1.0) -> Sides:
    """Noise of a large budget (its part of the theorem is the learning rate); a false alarm has a probability below 1e-9."""
    rng, steps, runs = np.random.default_rng(seed), 200, 400
    eigenvalues = np.array([1.0, 0.5, 0.1])
    eta = 1 / (3.6 * math.log(steps / 0.05))
    run = FiniteRun(LinearRegression(eigenvalues, eta, 1.0), steps, 0.05, offset)
    theta, largest = np.full((runs, 3), offset), np.zeros(runs)
    for _ in range(steps):
        x = rng.standard_normal((runs, 3)) * np.sqrt(eigenvalues)
        gradient = x * (np.sum(x * theta, axis=1, keepdims=True) - rng.standard_normal((runs, 1)))
        theta = theta - eta * gradient
        largest = np.maximum(largest, np.linalg.norm(gradient, axis=1))
    return float(np.quantile(largest, 0.95)), constant * run.theorem_d13_clip_norm(constant=1.0)


STIFF = LinearRegression([1.0, 1e-4], 0.1, kurtosis=1.0)


def _without_privacy(which: str, steps: int, published: bool) -> Sides:
    """The smallest error that any learning rate reaches in few steps, and the corollary's rate as ρ → ∞."""
    offset = np.array([0.0, 1.0])
    least = min(
        float(
            LinearRegression([1.0, 1e-4], eta, kurtosis=1.0).learning_curve(
                DPSGD(), steps, initial_offset=offset, rho=1e40
            )[-1]
        )
        for eta in np.geomspace(0.01, 1.9, 24)
    )
    run = FiniteRun(STIFF, steps, 0.3, offset, rho=1e30)
    rate = getattr(run, f"corollary_{which}_rate")(constant=1.0, polylog=math.log(steps + 1) ** 9, printed=published)
    return least, rate


FEW = {"steps": integers(2, 60)}


@PAPER.inequality(
    "Corollary D.14",
    printed=r"DP-SGD: $\frac{L}{\mu} e^{-\rho T/(c \kappa^2 d_{eff}^2 d \log^5(T/p))} + \kappa d_{eff} (\frac{d\, \mathrm{Tr}[H] \|\theta_0 - \theta_*\|^2}{\rho T} "
    r"+ \frac{d \sigma_{sgd}^2}{\rho T} + \frac{\sigma_{sgd}^2}{T}) \mathrm{polylog}(T)$",
    corrected=r"with $F(\theta_0) - F_*$ in the first term, and for $T \ge c \max\{N, \kappa d_{eff} \log(T/p)\}$ only, $N$ the printed length",
    domain=FEW,
    as_printed={"published": True},
    counterexample={"steps": 10},
    mutants=[{"published": True}],
    evaluations=16,
)
def corollary_d14(steps: int, published: bool = False) -> Sides:
    """As ρ → ∞ the printed condition on T disappears, and with it the cap η <= 1/(C R² log(T/p)) of Theorem D.13.

    H = diag(1, 1e-4), T = 10, θ_0 − θ* = (0, 1): no learning rate gets below 5e-5, and 5e-24 is promised.
    """
    return _without_privacy("d14", steps, published)


@PAPER.identity(
    "Corollary D.15",
    printed=r"$\nu$-DP-FTRL: $\frac{L}{\mu} e^{-\rho T/(c \kappa^2 d_{eff}^2 d \log^7(T/p) \log(\ldots))}$ and the rest with $\frac{\kappa d_{eff}}{T}$ in place of $d$",
    corrected=r"with $F(\theta_0) - F_*$ in the first term, and $T \ge c\, \kappa d_{eff} \log(T/p)$ as well",
    domain={"scale": log_scale(1e-3, 1e3), "offset": log_scale(0.1, 10)},
    as_printed={"published": True},
    counterexample={"scale": 100.0, "offset": 1.0},
    mutants=[{"power": 1.99}],
)
def corollary_d15(scale: float, offset: float, power: float = 2.0, published: bool = False) -> Sides:
    """The first term must scale like F: in units of the response that are 100 times larger it is 10⁴ times larger.

    The printed one does not change.  (Its condition on η has log² for one log, and η for μ and R² for R⁴; the last
    display of the proof has R⁴ σ²/(ρ μ² T²) for R⁴ σ²/(ρ μ T).)
    """
    runs = (FiniteRun(LinearRegression([1.0, 0.5], 0.01), 10**7, 0.5, offset * s, rho=10.0) for s in (1.0, scale))
    one, other = (run.corollary_d15_rate(constant=0.01, polylog=0.0, printed=published) for run in runs)
    return other, scale**power * one
