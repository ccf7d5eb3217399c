"""Appendix F: tools.  Linear systems, concentration, elliptic integrals, and miscellaneous inequalities."""

import math
from typing import Any

import numpy as np
from mpmath import mp, workdps

from corrnoise.paper_checks.certification import monotone
from corrnoise.paper_checks.correlated_noise.paper import PAPER
from corrnoise.paper_checks.domains import integers, linear, log_scale, regressions, spectra, vector
from corrnoise.paper_checks.ledger import Sides
from corrnoise.theory import elliptic
from corrnoise.theory.arithmetic import arithmetic
from corrnoise.theory.checks import Array
from corrnoise.theory.finite_noise import FiniteNoise
from corrnoise.theory.problems import LinearRegression
from corrnoise.theory.product_noise import DPSGD

DIGITS = 30
GAP = log_scale("1e-6", "0.999")


def quadrature(integrand: Any, narrowest: float) -> float:
    """∫_0^{π/2} to 30 digits, with break points that climb from the narrowest feature."""
    breaks = [math.pi / 2 * 8.0**-k for k in range(max(math.ceil(math.log(2 / narrowest, 8)), 1), 0, -1)]
    with workdps(DIGITS):
        return float(mp.quad(integrand, [0, *breaks, mp.pi / 2]))


def first_kind(complement: Any) -> Any:
    """K(k) by the complementary modulus k' = sqrt(1 − k²): π/(2 agm(1, k'))."""
    m = arithmetic(complement)
    return m.pi / 2 / elliptic.agm(m.number(1), complement)


def third_kind(characteristic: float, complement: float) -> float:
    """Π(α², k) for α² < 1, by Bulirsch's cel."""
    q = math.sqrt(1 - characteristic)
    return float(elliptic.cel(complement, q, 1.0, 1 / q))


# -- F.1 and F.2: linear systems ---------------------------------------------------------------------------------------


@PAPER.identity(
    "Theorem F.2",
    printed=r"$E[y_t \otimes y_t] = \frac{1}{2\pi} \int_{-\pi}^{\pi} G(\omega) \Sigma G(\omega)^* d\omega$",
    domain={"decay": linear(-0.9, 0.9), "coefficients": vector(linear(-1, 1), 3)},
    mutants=[{"power": 1.99}],
)
def theorem_f2(decay: float, coefficients: Array, power: float = 2.0) -> Sides:
    """The system y_{t+1} = c y_t + Σ β_τ x_{t−τ} of unit white noise: its impulse response against its spectrum."""
    response = np.convolve(coefficients, decay ** np.arange(2000.0))[:2000]
    omega = 2 * np.pi * np.arange(4096) / 4096
    transfer = np.polyval(coefficients[::-1], np.exp(-1j * omega)) / (1 - decay * np.exp(-1j * omega))
    return 1 + float(response @ response), 1 + float((np.abs(transfer) ** power).mean())


@PAPER.inequality(
    "Theorem F.3",
    printed=r"$E[\delta_t \otimes \delta_t] \preceq \frac{\eta \sigma^2}{1 - \eta R^2} I$ for $\eta < 1/R^2$",
    domain={"problem": regressions(residual_std=1.0)},
    mutants=[{"two": 2.01}],
)
def theorem_f3(problem: LinearRegression, two: float = 1.0) -> Sides:
    """True; with 2 − ηR² in place of 1 − ηR² it is true up to η R² < 2, and sharp for isotropic Gaussian inputs."""
    noise = problem.contributions(DPSGD(), rho=1e90) / (problem.eigenvalues / 2)  # no privacy noise to speak of
    bound = problem.learning_rate / (float(two) - problem.learning_rate * problem.moment_bound)
    return noise, bound if bound > 0 else math.nan


# -- F.3: concentration ------------------------------------------------------------------------------------------------


@PAPER.inequality(
    "Property F.5",
    printed=r"A strictly sub-Gaussian $X$ has $E[X^3] = 0$ and $E[X^4] \le 3 \sigma^4$",
    domain={"share": linear(0.01, 1), "sigma": log_scale(0.1, 10)},
    mutants=[{"constant": 2.9}],
    evaluations=128,
)
def property_f5(share: float, sigma: float, constant: float = 3.0) -> Sides:
    """For sums of a Gaussian and a sign, which are strictly sub-Gaussian: E X⁴ = 3σ⁴ − 2 σ⁴ share²."""
    sign, normal = share * sigma**2, (1 - share) * sigma**2
    fourth = sign**2 + 6 * sign * normal + 3 * normal**2
    return np.array([fourth, 0.0]), np.array([constant * sigma**4, 0.0])


def chi_square_tail(dimension: int, threshold: float) -> float:
    """P(χ²_d − d > threshold)."""
    from scipy.stats import chi2

    return float(chi2.logsf(dimension + threshold, dimension))


TAILS = {"dimension": integers(1, 1000, log=True), "threshold": log_scale(0.01, 1e4)}


@PAPER.inequality(
    "Lemma F.6",
    printed=r"$P(\langle \xi, A \xi \rangle - E \langle \xi, A \xi \rangle > t) \le "
    r"\exp(-c \min\{\frac{t^2}{\sigma^4 \|A\|_F^2}, \frac{t}{\sigma^2 \|A\|_2}\})$",
    unverifiable="the constant is unspecified; checked for Gaussian ξ and A = I with c = 1/8, exactly",
    domain=TAILS,
    sharp="constant",
    mutants=[{"constant": 0.2}],
)
def lemma_f6(dimension: int, threshold: float, constant: float = 0.125) -> Sides:
    """Hanson and Wright.  The best c for A = I tends to (1 − log 2)/2 = 0.1534 as d → ∞."""
    most = min(threshold**2 / dimension, threshold)
    return 1 + float(constant) * most, 1 - chi_square_tail(dimension, threshold)


@PAPER.inequality(
    "Remark F.7",
    printed=r"For Gaussian $\xi$: $c \approx 0.1457 \ge 1/8$, $C \le 8$, $C' \le 16$",
    domain=TAILS,
    mutants=[{"constant": 0.16}],
)
def remark_f7(dimension: int, threshold: float, constant: float = 0.1457) -> Sides:
    """Checked with c = 0.1457 for A = I, whose chi-square tails are exact; (1 − log 2)/2 = 0.1534 is the limit for d → ∞."""
    most = min(threshold**2 / dimension, threshold)
    return constant * most, -chi_square_tail(dimension, threshold)


# -- F.4: elliptic integrals -------------------------------------------------------------------------------------------


@PAPER.identity(
    "Property F.8",
    printed=r"$\int_0^{\pi/2} \frac{d\omega}{\sqrt{1 + m \sin^2 \omega}} = \frac{1}{\sqrt{1+m}} K(\sqrt{\frac{m}{1+m}})$ for $0 < m < 1$",
    transcription="square roots",
    domain={"m": log_scale(1e-3, 1e6)},
    mutants=[{"root": 0.49}],
    evaluations=24,
)
def property_f8(m: float, root: float = 0.5) -> Sides:
    """True for every m > −1; the paper itself uses it at m = 4(1 − a)/a² > 1."""
    integral = quadrature(lambda w: 1 / mp.sqrt(1 + m * mp.sin(w) ** 2), 1 / math.sqrt(1 + m))
    return integral, (1 + m) ** -root * first_kind(1 / math.sqrt(1 + m))


@PAPER.identity(
    "Property F.9",
    printed=r"$\int_0^{\pi/2} \frac{d\omega}{(1 - \alpha^2 \sin^2 \omega) \sqrt{1 + m \sin^2 \omega}} = "
    r"\frac{m K(k) + \alpha^2 \Pi(\frac{m + \alpha^2}{1 + m}, k)}{(m + \alpha^2) \sqrt{1 + m}}$, $k = \sqrt{\frac{m}{1+m}}$, for all $\alpha^2 \ne \pm 1$",
    corrected=r"for $\alpha^2 < 1$, $m > -1$, $\alpha^2 + m \ne 0$; at $\alpha^2 = -1$ nothing is wrong",
    transcription="square roots",
    domain={"m": log_scale(1e-2, 1e3), "alpha": linear(-5, 0.95)},
    as_printed={"beyond": True},
    counterexample={"m": 1.0, "alpha": 1.5},
    mutants=[{"root": 0.49}],
    evaluations=24,
    tolerance=1e-10,
)
def property_f9(m: float, alpha: float, root: float = 0.5, beyond: bool = False) -> Sides:
    """For α² > 1 the integrand has a pole and the integral diverges."""
    if beyond:
        return math.inf, 1.0
    if abs(m + alpha) < 1e-3:
        return math.nan, math.nan
    integral = quadrature(lambda w: 1 / ((1 - alpha * mp.sin(w) ** 2) * mp.sqrt(1 + m * mp.sin(w) ** 2)), 0.01)
    complement = 1 / math.sqrt(1 + m)
    sides = m * first_kind(complement) + alpha * third_kind((m + alpha) / (1 + m), complement)
    return integral, sides / ((m + alpha) * (1 + m) ** root)


COMPLEMENT = {"complement": log_scale("1e-300", "0.9999")}


@monotone(-1)
def decreasing_first_kind(complement: Any) -> Any:
    """K falls with k', because all means of 1 and k' rise with it."""
    return first_kind(complement)


@PAPER.inequality(
    "Property F.10",
    part="(lower)",
    printed=r"$\log \frac{4}{\sqrt{1 - k^2}} \le K(k)$",
    transcription="a square root",
    domain={"complement": log_scale("0.1", "1")},
    evidence="certified",
    outside="K = Σ ((½)_m/m!)² k'^{2m} (log(1/k') + d_m) with d_0 = log 4 > d_1 > … > 0 has positive terms.",
    mutants=[{"four": "4.1"}],
)
def property_f10_lower(complement: Any, four: str = "4") -> Sides:
    """As k → 1 an equality."""
    m = arithmetic(complement)
    return m.log(m.number(four)) - m.log(complement), decreasing_first_kind(complement)


@PAPER.inequality(
    "Property F.10",
    part="(upper)",
    printed=r"$K(k) \le (1 + \frac{1 - k^2}{4}) \log \frac{4}{\sqrt{1 - k^2}}$",
    transcription="a square root",
    domain={"complement": log_scale("0.1", "1")},
    evidence="certified",
    outside="The series of the lower bound: the terms from m = 1 on are at most (k'²/4) log(4/k') in all.",
    mutants=[{"quarter": "0.13"}],
)
def property_f10_upper(complement: Any, quarter: str = "0.25") -> Sides:
    """On k' >= 0.1 the constant ¼ can be lowered to about 0.19, on k' = 1 to 0.1331; as k → 1 it is sharp."""
    m = arithmetic(complement)
    factor = 1 + m.number(quarter) * complement**2
    return decreasing_first_kind(complement), factor * (m.log(m.number(4)) - m.log(complement))


@PAPER.inequality(
    "Property F.10",
    part="(constant)",
    printed=r"$K(k) \le \frac{5}{4} \log \frac{4}{\sqrt{1 - k^2}}$",
    transcription="a square root",
    domain={"complement": log_scale("1e-300", "1")},
    evidence="certified",
    outside="Below 1e-300 by the part (upper).",
    sharp="constant",
    mutants=[{"constant": "1.13"}],
)
def property_f10_constant(complement: Any, constant: str = "1.25") -> Sides:
    """The sharp constant is π/log 16 = 1.1331, at k = 0."""
    m = arithmetic(complement)
    return decreasing_first_kind(complement), m.number(constant) * (m.log(m.number(4)) - m.log(complement))


@PAPER.inequality(
    "Property F.11",
    printed=r"$\Pi(\alpha^2, k) \le \frac{1}{1 - \alpha^2} \log \frac{4}{\sqrt{1 - k^2}} (1 + O(\sqrt{1 - k^2}))$",
    transcription="square roots",
    domain={"alpha": linear(0, 0.999), "complement": log_scale(1e-6, 0.999)},
    mutants=[{"quarter": 0.05}],
)
def property_f11(alpha: float, complement: float, quarter: float = 0.25) -> Sides:
    """With 1 + k'²/4 for the last factor, uniformly: (1 − α²) Π(α², k) decreases in α², from K(k)."""
    return third_kind(alpha, complement), (1 + quarter * complement**2) * math.log(4 / complement) / (1 - alpha)


# -- F.5: integrals ----------------------------------------------------------------------------------------------------


@PAPER.identity(
    "Lemma F.12",
    printed=r"$\int_{-\pi}^{\pi} \frac{\cos(l \omega)\, d\omega}{a^2 + b^2 - 2 a b \cos \omega} = \frac{2\pi}{a^2 - b^2} (\frac{b}{a})^{|l|}$ for $0 < |b| < a$",
    domain={"a": log_scale(0.1, 10), "ratio": linear(-0.95, 0.95), "frequency": integers(0, 6)},
    mutants=[{"shift": 1}],
)
def lemma_f12(a: float, ratio: float, frequency: int, shift: int = 0) -> Sides:
    """Exact sums on 2048 points: the integrand is periodic, and aliases fall below rounding."""
    b, omega = ratio * a, 2 * np.pi * np.arange(2048) / 2048
    mean = (np.cos(frequency * omega) / (a * a + b * b - 2 * a * b * np.cos(omega))).mean()
    scale = 10 * 2 * math.pi / (a * a - b * b)
    return scale + 2 * math.pi * mean, scale + 2 * math.pi / (a * a - b * b) * ratio ** (abs(frequency) + shift)


@PAPER.identity(
    "Lemma F.13",
    printed=r"$\int_{-\pi}^{\pi} \frac{d\omega}{1 + a \cos \omega} = \frac{2\pi}{\sqrt{1 - a^2}}$ for $|a| < 1$, $+\infty$ for $|a| = 1$",
    transcription="a square root",
    domain={"a": linear(-0.999, 0.999)},
    mutants=[{"root": 0.49}],
)
def lemma_f13(a: float, root: float = 0.5) -> Sides:
    """By the trapezoidal rule on 4096 points; at |a| = 1 the integrand is like 2/ω² at its pole."""
    omega = 2 * np.pi * np.arange(4096) / 4096
    return 2 * math.pi * (1 / (1 + a * np.cos(omega))).mean(), 2 * math.pi * (1 - a * a) ** -root


@PAPER.inequality(
    "Lemma F.14",
    printed=r"$\int_{-\pi}^{\pi} \frac{d\omega}{\sqrt{1 - \cos \omega}} = +\infty$",
    transcription="a square root",
    domain={"cut": log_scale(1e-300, 1e-2)},
    mutants=[{"factor": 1.1}],
)
def lemma_f14(cut: float, factor: float = 1.0) -> Sides:
    """The part |ω| > ε is 2 sqrt(2) log cot(ε/4), which is at least 2 sqrt(2) log(1/ε) and grows without bound."""
    return factor * 2 * math.sqrt(2) * math.log(1 / cut), -2 * math.sqrt(2) * math.log(math.tan(cut / 4))


@PAPER.identity(
    "Lemma F.15",
    printed=r"$\int_{-\pi}^{\pi} \frac{d\omega}{|1 - a - e^{i\omega}|} = \frac{4}{2 - a} K(\frac{\sqrt{1 - a}}{1 - a/2})$",
    transcription="a square root",
    domain={"a": GAP},
    mutants=[{"two": 2.001}],
    evaluations=24,
)
def lemma_f15(a: float, two: float = 2.0) -> Sides:
    """Also 2π/agm(a, 2 − a), the form that is accurate for small a."""
    integral = quadrature(lambda w: 4 / mp.sqrt(a * a * mp.cos(w) ** 2 + (2 - a) ** 2 * mp.sin(w) ** 2), a)
    complement = a / (2 - a)  # of sqrt(1 − a)/(1 − a/2)
    return integral, np.array([4 / (two - a) * first_kind(complement), 2 * math.pi * elliptic.mean_inverse_modulus(a)])


@PAPER.identity(
    "Lemma F.16",
    printed=r"$\int_{-\pi}^{\pi} \frac{|1 - a - e^{i\omega}|}{|1 - b - e^{i\omega}|^2} d\omega = \frac{2 a^2}{b^2 (1 - a/2)} "
    r"\Pi(\frac{b^2 (1-a) - a^2 (1-b)}{b^2 (1 - a/2)^2}, \frac{\sqrt{1-a}}{1 - a/2})$",
    transcription="a square root",
    domain={"a": log_scale(1e-3, 0.999), "b": log_scale(1e-3, 0.999)},
    mutants=[{"two": 2.001}],
    evaluations=24,
    tolerance=1e-8,
)
def lemma_f16(a: float, b: float, two: float = 2.0) -> Sides:
    """Right for both signs of α².  In floats it loses all digits for small a, where 1 − α² cancels; cel does not."""
    with workdps(40):
        x, y = mp.mpf(a), mp.mpf(b)
        k2 = (1 - x) / (1 - x / 2) ** 2
        n = (y * y * (1 - x) - x * x * (1 - y)) / (y * y * (1 - x / 2) ** 2)
        printed = two * x * x / (y * y * (1 - x / 2)) * mp.ellippi(n, k2)
    return float(elliptic.modulus_ratio_integral(a, b)), float(printed)


# -- F.6: miscellaneous ------------------------------------------------------------------------------------------------


@PAPER.inequality(
    "Lemma F.17",
    printed=r"$\sum_t \sum_\tau \beta_t \beta_\tau c^{|t - \tau|} \le \frac{1 + c}{1 - c} \|\beta\|_2^2$ for $0 \le c < 1$",
    domain={"beta": vector(linear(-1, 1), 5), "rate": log_scale(1e-3, 1)},
    mutants=[{"factor": 0.3}],
)
def lemma_f17(beta: Array, rate: float, factor: float = 1.0) -> Sides:
    """True, with (1 − c)/(1 + c) ‖β‖² from below.  The constant is approached by many equal coefficients."""
    if not beta[0]:
        return math.nan, math.nan
    value, square = float(FiniteNoise(beta).averaged_variance(rate)), float(beta @ beta)
    return np.array([value, rate / (2 - rate) * square]), np.array([factor * (2 - rate) / rate * square, value])


@PAPER.inequality(
    "Lemma F.18",
    printed=r"$\mathrm{Tr}[(I - \eta x x^\top) M (I - \eta x x^\top)] \le (1 - \eta \mu) \mathrm{Tr}[M]$ for $\eta \le 1/R^2$",
    corrected=r"$E$ of the left side",
    domain={"eigenvalues": spectra(), "weights": vector(log_scale(1e-6, 1), 6), "share": linear(1e-3, 1)},
    as_printed={"input_square": 100.0},
    counterexample={"eigenvalues": np.ones(1), "weights": np.ones(6), "share": 1.0},
    mutants=[{"factor": 1.2}],
)
def lemma_f18(
    eigenvalues: Array, weights: Array, share: float, factor: float = 1.0, input_square: float | None = None
) -> Sides:
    """Holds with 1 − ημ(2 − ηR²).  Without the expectation, d = 1: (1 − x²/3)² > 2/3 for an input with x² = 100."""
    m, r2 = weights[: eigenvalues.size], float(eigenvalues.sum() + 2 * eigenvalues.max())
    eta, mu = share / r2, float(eigenvalues.min())
    if input_square is not None:
        return (1 - eta * input_square) ** 2, 1 - eta * mu
    # E (1 − η x xᵀ) M (1 − η x xᵀ) for Gaussian x: the trace is Σ m_j (1 − 2ηλ_j + η² λ_j (Tr H + 2 λ_j)).
    left = float((m * (1 - 2 * eta * eigenvalues + eta**2 * eigenvalues * (eigenvalues.sum() + 2 * eigenvalues))).sum())
    return left, (1 - factor * eta * mu * (2 - eta * r2)) * float(m.sum())


@PAPER.inequality(
    "Lemma F.19",
    printed=r"$|\mathrm{Tr}[A_1 \cdots A_k]| \le d$ for $0 \preceq A_i \preceq I$",
    domain={"entries": vector(linear(-1, 1), 12)},
    mutants=[{"dimension": 1.0}],
)
def lemma_f19(entries: Array, dimension: float = 2.0) -> Sides:
    """For three matrices of dimension 2.  (The proof says Tr I = 1, which is d.)"""
    product = np.eye(2)
    for block in entries.reshape(3, 2, 2):
        a = block @ block.T
        product = product @ (a / max(float(np.linalg.eigvalsh(a).max()), 1.0) if np.any(a) else np.eye(2))
    return abs(float(np.trace(product))), dimension


@PAPER.identity(
    "Lemma F.20",
    part="(equality)",
    printed=r"$f(\hat\tau) = \min\{t - 1, \frac{1}{a} (1 + \log(1/\rho))\}$",
    corrected=r"$f(\hat\tau)$ is the right side, except where $\frac{1}{a} \log(1/\rho) < t - 1 < \frac{1}{a} (1 + \log(1/\rho))$",
    domain={"a": log_scale(0.01, 10), "log_inverse": log_scale(0.01, 20), "time": integers(1, 200, log=True)},
    as_printed={"everywhere": True},
    counterexample={"a": 1.0, "log_inverse": 1.5, "time": 3},
    mutants=[{"one": 1.001}],
)
def lemma_f20_equality(a: float, log_inverse: float, time: int, one: float = 1.0, everywhere: bool = False) -> Sides:
    """t = 3, a = 1, ρ = e^{−1.5}: f = 2.5, and the minimum is 2."""
    if not everywhere and log_inverse / a < time - 1 < (1 + log_inverse) / a:
        return math.nan, math.nan
    return _f20(a, log_inverse, time), min(time - 1, (one + log_inverse) / a)


def _f20(a: float, log_inverse: float, time: int) -> float:
    """f at τ̂ = min{t − 1, log(1/ρ)/a}."""
    best = min(time - 1.0, log_inverse / a)
    return best + (math.exp(log_inverse - a * best) / a if best < time - 1 else 0.0)


@PAPER.inequality(
    "Lemma F.20",
    part="(bound)",
    printed=r"$f(\hat\tau) \le \frac{1}{a} (1 + \log(1/\rho))$",
    domain={"a": log_scale(0.01, 10), "log_inverse": log_scale(0.01, 20), "time": integers(1, 200, log=True)},
    mutants=[{"one": 0.9}],
)
def lemma_f20_bound(a: float, log_inverse: float, time: int, one: float = 1.0) -> Sides:
    """What is used of the lemma, and true."""
    return _f20(a, log_inverse, time), (one + log_inverse) / a


def _tuned(values: Array, steps: float, largest: float) -> Sides:
    """min φ over a fine grid of learning rates, and the bound of F.21, for μ = 1."""
    from scipy.optimize import minimize_scalar

    a, b, c = values

    def phi(u: float) -> float:
        eta = math.exp(u)
        return float(a * math.exp(-eta * steps) + b * eta + c * eta**2 * math.log(1 / eta) ** 2)

    grid = np.linspace(math.log(largest) - 30, math.log(largest), 400)
    best = int(np.argmin([phi(u) for u in grid]))
    ends = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    found = min(phi(grid[best]), float(minimize_scalar(phi, bounds=ends, method="bounded").fun))
    bound = a * math.exp(-largest * steps) + 3 * b / steps * max(1.0, math.log(a * steps / b))
    bound += 3 * c / steps**2 * max(1.0, math.log(a * steps**2 / c)) ** 2 * math.log(steps) ** 2
    return found, float(bound)


@PAPER.inequality(
    "Lemma F.21",
    printed=r"$\varphi(\eta^*) \le A e^{-\mu \eta_{max} T} + \frac{3B}{\mu T} (1 \vee \log \frac{A \mu T}{B}) + \ldots$ for $T \ge (\mu \eta_{max})^{-1}$",
    corrected=r"also $\mu \eta_{max} \le 1$",
    domain={"values": vector(log_scale(1e-6, 1e3), 3), "factor": log_scale(1, 1e4), "largest": log_scale(1e-4, 1)},
    as_printed={"any_rate": True},
    counterexample={"values": np.array([1.0, 1e-9, 1.0]), "factor": 2.0, "largest": 2.0},
    mutants=[{"any_rate": True, "slack": 0.2}],
    evaluations=200,
)
def lemma_f21(values: Array, factor: float, largest: float, any_rate: bool = False, slack: float = 1.0) -> Sides:
    """A = μ = C = T = 1, B = 1e-9, η_max = 2: min φ = 0.342 > 0.135."""
    left, right = _tuned(values, factor / largest, largest)
    return left, slack * right


@PAPER.inequality(
    "Lemma F.22",
    printed=r"$0 < x \le \frac{c}{9 \log^2(9/c)}$ implies $x \log^2(1/x) \le c$, for $0 < c < \frac{1}{4}$",
    domain={"c": log_scale("1e-300", "0.25"), "share": log_scale("1e-300", "1")},
    mutants=[{"limit": "0.32"}],
    sharp="limit",
)
def lemma_f22(c: Any, share: Any, nine: str = "9", limit: str = "1") -> Sides:
    """The ratio is largest at the ends x and c = ¼: 0.3258.  Still true at c = 5, false at 6."""
    m = arithmetic(c, share)
    logarithm = m.log(m.number(9)) - m.log(c)
    log_x = m.log(share) + m.log(c) - m.log(m.number(nine)) - 2 * m.log(logarithm)
    return m.exp(log_x - m.log(c)) * log_x**2, m.number(limit)
