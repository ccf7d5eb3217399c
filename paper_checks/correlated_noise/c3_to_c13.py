"""Appendices C.1 and C.2: moments, time and frequency, and the decomposition into linear systems."""

import math
from typing import Any

import numpy as np

from corrnoise.paper_checks.correlated_noise.oracles import SLOW, averages_by_quadrature, spectral_mean
from corrnoise.paper_checks.correlated_noise.paper import PAPER, SHORT
from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, noises, one_of, spectra, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.machinery.margins import twice
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression

SPECTRUM = {
    "eigenvalues": spectra(4, 1e4, multiplicity=1000),
    "share": log_scale(1e-6, 0.999),
    "kurtosis": log_scale(1, 1000),
}
PROBLEM = {**SPECTRUM, "noise": noises(1e-3), "residual_std": linear(0, 10)}


def regression(eigenvalues: Array, share: float, kurtosis: float = 3.0, residual_std: float = 0.0) -> LinearRegression:
    """The problem with η R² = ``share``, for independent inputs of kurtosis k = C_kurt, Gaussian by default."""
    r2 = LinearRegression(eigenvalues, 1.0, kurtosis=kurtosis).moment_bound
    return LinearRegression(eigenvalues, share / r2, residual_std, kurtosis=kurtosis)


def driven(problem: LinearRegression, second_moments: Array) -> Array:
    """The diagonal of E (H − x xᵀ) M (H − x xᵀ) = (k − 2) H M H + Tr(H M) H for diagonal M and H."""
    eigenvalues = problem.eigenvalues
    excess = np.asarray(problem.kurtosis) - 2
    return excess * eigenvalues**2 * second_moments + (eigenvalues * second_moments).sum() * eigenvalues


def component_variances(problem: LinearRegression, noise: ToeplitzNoise, count: int) -> list[Array]:
    """Stationary variances of θ^{(0)}, θ^{(1)}, … in the eigenbasis; their part of the noise is integrated over frequencies."""
    x = problem.rates
    eta = problem.learning_rate
    seen = averages_by_quadrature(noise, x)
    drive = problem.residual_std**2 + noise.variance() * seen / problem.eigenvalues
    found = [eta * drive / (2 - x)]
    for _ in range(count - 1):
        found.append(eta**2 * driven(problem, found[-1]) / (x * (2 - x)))
    return found


@PAPER.inequality(
    "Property C.3 (R²)",
    printed=r"if $x \sim N(0, H)$, we have that Item (A3) holds with $R^2 \le 3 \mathrm{Tr}[H]$",
    proof=f"{SHORT}#property-c3",
    domain={"eigenvalues": spectra(multiplicity=10_000)},
    sharp="three",
    mutants=[{"three": 2.999}],
)
def property_c3(eigenvalues: Array, three: float = 3.0) -> Sides:
    """The smallest R² is Tr H + 2 ‖H‖, which is 3 Tr H for d = 1 only; E ‖x‖² x xᵀ = 2 H² + Tr(H) H."""
    return LinearRegression(eigenvalues, 1e-3).moment_bound, three * float(eigenvalues.sum())


@PAPER.inequality(
    "Property C.3 (kurtosis)",
    printed=r"if $x \sim N(0, H)$, we have that Item (A3) holds with … $C_{kurt} \le 3$",
    proof=f"{SHORT}#property-c3",
    domain={"eigenvalues": vector(log_scale(1e-4, 1), 3), "weights": vector(log_scale(1e-6, 1), 3)},
    sharp="three",
    mutants=[{"three": 2.999}],
)
def property_c3_kurtosis(eigenvalues: Array, weights: Array, three: float = 3.0) -> Sides:
    """P of rank one attains it: the left side is 2 H^{1/2} P H^{1/2} + Tr(P) H, by three-point Gauss quadrature."""
    nodes = np.array([-math.sqrt(3), 0.0, math.sqrt(3)])
    mass = np.array([1 / 6, 2 / 3, 1 / 6])
    grid = np.array(np.meshgrid(nodes, nodes, nodes)).reshape(3, -1)
    prob = np.prod(np.array(np.meshgrid(mass, mass, mass)).reshape(3, -1), axis=0)
    inner = (weights[:, np.newaxis] * grid**2).sum(axis=0)
    left = eigenvalues * (grid**2 * inner * prob).sum(axis=1)  # commuting: the matrices are diagonal
    return left, three * weights.sum() * eigenvalues


@PAPER.identity(
    "Equation (54)",
    printed=r"The denominator is simply $|1 - \exp(i\omega) - \eta\lambda_j|^2 = 1 + (1 - \eta\lambda_j)^2 - 2 (1 - \eta\lambda_j) \cos \omega$.",
    domain={"rate": linear(0, 2), "omega": linear(-math.pi, math.pi)},
    mutants=[{"two": 2.001}],
)
def equation_54(rate: float, omega: float, two: float = 2.0) -> Sides:
    """It holds for every ηλ_j, for all ω."""
    kept = 1 - rate
    return 1 + abs(kept - np.exp(1j * omega)) ** 2, 2 + kept**2 - two * kept * math.cos(omega)


@PAPER.identity(
    "Equation (55)",
    printed=r"We expand the numerator as $|B(\omega)|^2 = \sum_{t=0}^\infty \beta_t^2 + \sum_{t=0}^\infty \sum_{\tau=0}^{t-1} \beta_t \beta_\tau (\exp(i\omega(t - \tau)) + \exp(-i\omega(\tau - t))) = \sum_{t=0}^\infty \beta_t^2 + 2 \sum_{t=0}^\infty \sum_{\tau=0}^{t-1} \beta_t \beta_\tau \cos(\omega(t - \tau)) = \sum_{t=0}^\infty \sum_{\tau=0}^\infty \beta_t \beta_\tau \cos(\omega(t - \tau))$",
    repair=r"with $e^{- i \omega (t - \tau)}$ in the second term of the first line; the other lines are right",
    domain={"beta": vector(linear(-1, 1), 5), "omega": linear(0, math.pi)},
    as_printed={"sign": 1.0},
    counterexample={"beta": np.array([1.0, 1.0, 0.0, 0.0, 0.0]), "omega": math.pi / 2},
    mutants=[{"two": 2.001}],
)
def equation_55(beta: Array, omega: float, sign: float = -1.0, two: float = 2.0) -> Sides:
    """β = (1, 1), ω = π/2: |B|² = 2, and the printed first line is 2 + 2i."""
    lags = np.subtract.outer(np.arange(5), np.arange(5))
    pairs = np.outer(beta, beta)
    below = lags > 0
    first = beta @ beta + (pairs * (np.exp(1j * omega * lags) + np.exp(sign * 1j * omega * lags)))[below].sum()
    last = beta @ beta + two * (pairs * np.cos(omega * lags))[below].sum()
    power = abs(np.exp(-1j * omega * np.arange(5)) @ beta) ** 2
    found = np.array([first.real, first.imag, last])
    return 1 + found, 1 + np.array([power, 0.0, power])


@PAPER.inequality(
    "Lemma C.4",
    printed=r"Consider $\beta \in \ell^2$ and its DTFT $B(\omega)$. If $0 < \eta < 1/\lambda_j$, we have $\frac{1}{2} \langle \beta, T_j \beta \rangle \le \frac{\eta \lambda_j}{2\pi} \int_{-\pi}^{\pi} \frac{|B(\omega)|^2 d\omega}{|1 - \eta \lambda_j - \exp(i\omega)|^2} \le \langle \beta, T_j \beta \rangle$",
    proof=f"{SHORT}#lemma-c4",
    domain={"rate": log_scale(1e-4, 0.999), "noise": noises(1e-3)},
    mutants=[{"low": 0.501}, {"high": 0.998}],
    tolerance=1e-9,
    evaluations=128,
)
def lemma_c4(rate: float, noise: ToeplitzNoise, low: float = 0.5, high: float = 1.0) -> Sides:
    """The exact value is ⟨β, T_j β⟩/(2 − ηλ_j), for ηλ_j < 2.

    The proof uses |B|² <= ‖β‖₂², which is false for β = (1, 1) at ω = 0, where it says 4 <= 2.  |B| <= ‖β‖₁ is sufficient.
    """
    b = float(noise.averaged_variance(rate))
    integral = rate * spectral_mean(noise, 1, rate)
    return np.array([low * b, integral]), np.array([integral, high * b])


@PAPER.inequality(
    "Corollary C.5",
    printed=r"If $0 < \eta < 1/\lambda_j$, we have, $\frac{1}{2} \le \frac{\eta \lambda_j}{2\pi} \int_{-\pi}^{\pi} \frac{d\omega}{|1 - \eta \lambda_j - \exp(i\omega)|^2} \le 1$",
    proof=f"{SHORT}#lemma-c4",
    rests_on=["Lemma C.4"],
    domain={"rate": log_scale(1e-9, 0.999)},
    outside=r"All of $0 < \eta\lambda_j < 1$, the printed hypothesis, by the exact value.",
    mutants=[{"low": 0.501}, {"high": 0.998}],
    tolerance=1e-9,
    evaluations=64,
)
def corollary_c5(rate: float, low: float = 0.5, high: float = 1.0) -> Sides:
    """The exact value is 1/(2 − ηλ_j)."""
    integral = rate * spectral_mean(DPSGD(), 1, rate)
    return np.array([low, integral, 1 / (2 - rate)]), np.array([integral, high, integral])


@PAPER.inequality(
    "Lemma C.6 (form)",
    printed=r"The operators $T_j$ defined in (32) and $T$ defined in (31) are both positive semi-definite for $\eta < 1/\max_{j \in [d]} \lambda_j$",
    proof=f"{SHORT}#lemma-c6",
    domain={"beta": vector(linear(-1, 1), 12), "rate": log_scale(1e-6, 0.999)},
    mutants=[{"factor": 1.01}],
)
def lemma_c6(beta: Array, rate: float, factor: float = 1.0) -> Sides:
    """True for x = ηλ_j < 2, with eigenvalues of T_j in [x/(2 − x), (2 − x)/x].  Checked with its quadratic form on twelve coefficients, and by a recursion.

    Signs of every other coefficient are changed: the smallest eigenvalue belongs to coefficients that alternate.
    """
    if not beta.any():
        return math.nan, math.nan
    beta = beta * (-1.0) ** np.arange(beta.size)
    lags = np.abs(np.subtract.outer(np.arange(beta.size), np.arange(beta.size)))
    form = float(beta @ (1 - rate) ** lags @ beta)
    earlier = 0.0
    pairs = 0.0
    for one in beta:
        pairs += one * earlier
        earlier = (1 - rate) * (earlier + one)
    square = float(beta @ beta)
    return factor * rate / (2 - rate) * square, -twice(-form, -square - 2 * pairs)


@PAPER.inequality(
    "Lemma C.6 (symbol)",
    printed=r"The operators $T_j$ defined in (32) and $T$ defined in (31) are both positive semi-definite for $\eta < 1/\max_{j \in [d]} \lambda_j$",
    reading=r"the symbol of $T_j$, $\sum_\tau (1 - \eta \lambda_j)^{|\tau|} e^{i \tau \omega}$, is nonnegative",
    domain={"rate": log_scale("1e-300", "1"), "square": linear("0", "1")},
    evidence="certified",
    outside="Below 1e-300 all terms are positive too.",
    mutants=[{"share": "1.01"}],
)
def lemma_c6_symbol(rate: Any, square: Any, share: str = "0.99") -> Sides:
    """The spectrum x (2 − x)/(x² + 4 (1 − x) sin²(ω/2)) is at least 0.99 x/(2 − x); at ω = π it is x/(2 − x).

    The sides are 0.99 (x² + 4 (1 − x) sin²(ω/2)) and (2 − x)², with sin²(ω/2) as argument.
    """
    positive = rate * rate + 4 * (1 - rate) * square
    return arithmetic(rate).number(share) * positive, (2 - rate) * (2 - rate)


@PAPER.identity(
    "Property C.7",
    printed=r"$\theta_t' = \sum_{r=0}^m \theta_t^{(r)} + \delta_t^{(m)}$",
    domain={"seed": integers(0, 10_000), "eta": log_scale(0.01, 1), "depth": integers(0, 3)},
    mutants=[{"hessian": 1.001}],
    evaluations=64,
)
def property_c7(seed: int, eta: float, depth: int, hessian: float = 1.0) -> Sides:
    """Checked along paths of ten steps in two dimensions.  The components are also uncorrelated (Proposition C.19)."""
    rng = np.random.default_rng(seed)
    h = np.diag([1.0, 0.3])
    beta = rng.normal(size=10)
    theta = np.zeros(2)
    parts = np.zeros((depth + 1, 2))
    delta = np.zeros(2)
    noise: list[Array] = []
    for _ in range(10):
        x = rng.normal(size=2) * np.sqrt(np.diag(h))
        xi = rng.normal()
        noise.insert(0, rng.normal(size=2))
        correlated = sum(b * w for b, w in zip(beta, noise, strict=False))
        outer = np.outer(x, x)
        before = parts.copy()
        theta = theta - eta * outer @ theta + eta * xi * x - eta * correlated
        delta = delta - eta * outer @ delta + eta * (h - outer) @ before[depth]
        parts[0] = before[0] - eta * hessian * h @ before[0] + eta * xi * x - eta * correlated
        for r in range(1, depth + 1):
            parts[r] = before[r] - eta * h @ before[r] + eta * (h - outer) @ before[r - 1]
    return theta, parts.sum(axis=0) + delta


RESPONSE = {"eigenvalue": log_scale(0.05, 1), "eta": log_scale(0.05, 1), "omega": linear(0, math.pi)}


@PAPER.identity(
    "Property C.8",
    printed=r"The LTI system (37) is $G(\omega) = -\eta M_\omega \in \mathbb{C}^{d \times d}$, where $M_\omega$ is defined in Equation 35. Moreover, this system is asymptotically stable as long as $0 \prec \eta H \prec I$.",
    reading=r"$M_\omega = ((1 - e^{i\omega}) I - \eta H)^{-1}$",
    domain=RESPONSE,
    mutants=[{"one": 1.001}],
)
def property_c8(eigenvalue: float, eta: float, omega: float, one: float = 1.0) -> Sides:
    """Compared with the transform of the impulse response η (1 − ηλ)^{t−1}.  The system is stable also for η H ≺ 2 I."""
    t = np.arange(1.0, 2 + 40 / (eta * eigenvalue))
    response = np.sum(eta * (1 - eta * eigenvalue) ** (t - 1) * np.exp(-1j * omega * t))
    found = -eta / (one - np.exp(1j * omega) - eta * eigenvalue)
    return np.array([response.real, response.imag]), np.array([found.real, found.imag])


@PAPER.identity(
    "Property C.9",
    printed=r"The transfer function of the LTI system (38) is $\tilde G(\omega) = [G(\omega)\ G'(\omega)] \in \mathbb{C}^{d \times 2d}$ where $G(\omega) = -\eta M_\omega$ and $G'(\omega) = \eta B(\omega) M_\omega$ with $B(\omega)$ as the DTFT of $\beta$.",
    domain={**RESPONSE, "beta": vector(linear(-1, 1), 3)},
    mutants=[{"one": 1.001}],
)
def property_c9(eigenvalue: float, eta: float, omega: float, beta: Array, one: float = 1.0) -> Sides:
    """Checked with B(ω) = Σ β_t e^{−iωt} (the paper mixes both signs of the exponent; for |B| it does not matter)."""
    steps = int(3 + 40 / (eta * eigenvalue))
    response = -eta * np.convolve(beta, (1 - eta * eigenvalue) ** np.arange(0.0, steps))[:steps]
    t = np.arange(1.0, steps + 1)
    found = np.sum(response * np.exp(-1j * omega * t))
    transfer = np.polyval(beta[::-1], np.exp(-1j * omega))
    expected = eta * transfer / (one - np.exp(1j * omega) - eta * eigenvalue)
    return 1 + np.array([found.real, found.imag]), 1 + np.array([expected.real, expected.imag])


@PAPER.inequality(
    "Proposition C.10",
    printed=r"$E[\theta_t^{(0)} \otimes \theta_t^{(0)}] \preceq \eta \sigma_{sgd}^2 I + \eta \sigma^2 H^{-1/2} P_\beta H^{-1/2}$",
    proof=f"{SHORT}#proposition-c10",
    domain=PROBLEM,
    sharp="factor",
    mutants=[{"factor": 0.99}, {"power": 2.0}],
    tolerance=1e-7,
    evaluations=256,
)
def proposition_c10(factor: float = 1.0, power: float = 1.0, *, noise: ToeplitzNoise, **inputs: Any) -> Sides:
    """In each eigendirection the left side is the right side divided by 2 − ηλ_j.  The bound is approached as ηλ_j → 1.

    Under η R² < 1 that is possible for inputs of kurtosis 1 in one direction, where R² = λ.
    """
    problem = regression(**inputs)
    b = noise.averaged_variance(problem.rates) ** power
    bound = problem.residual_std**2 + noise.variance() * b / problem.eigenvalues
    return component_variances(problem, noise, 1)[0], factor * problem.learning_rate * bound


def remaining_noise(problem: LinearRegression, noise: ToeplitzNoise, power: float = 1.0) -> float:
    """σ_sgd² + C_kurt σ² ⟨β, T β⟩/R²."""
    seen = float((noise.averaged_variance(problem.rates) ** power).sum())
    c_kurt = float(np.max(problem.kurtosis))
    return problem.residual_std**2 + c_kurt * noise.variance() / problem.moment_bound * seen


@PAPER.inequality(
    "Proposition C.11",
    printed=r"For any $r \ge 1$, we have $E[\theta_0^{(r)} \otimes \theta_0^{(r)}] \preceq \eta (\eta R^2)^r (\sigma_{sgd}^2 + \frac{C_{kurt} \sigma^2}{R^2} \langle \beta, T \beta \rangle)$",
    reading="the right side is times the identity",
    transcription="a fraction bar",
    proof=f"{SHORT}#proposition-c11",
    rests_on=["Proposition C.10", "Lemma C.12 (a)", "Lemma C.12 (b)"],
    domain={**PROBLEM, "order": integers(1, 4)},
    sharp="factor",
    mutants=[{"factor": 0.48}, {"power": 2.0}],
    tolerance=1e-7,
    evaluations=256,
)
def proposition_c11(
    factor: float = 1.0, power: float = 1.0, *, noise: ToeplitzNoise, order: int, **inputs: Any
) -> Sides:
    """Checked with the exact recursion of the components.  (The unit matrix is missing in print.)

    In all points searched half of the right side is enough.  Random signs in two directions approach that, ηλ near 1 and near 0.
    """
    problem = regression(**inputs)
    size = problem.learning_rate * (problem.learning_rate * problem.moment_bound) ** order
    return component_variances(problem, noise, order + 1)[order], factor * size * remaining_noise(problem, noise, power)


def drive_and_bound(problem: LinearRegression, weights: Array, a: float) -> tuple[Array, float]:
    """The second moments of ζ for M = a I + H^{−1/2} P H^{−1/2} with the diagonal ``weights`` of P, and a R² + C_kurt Tr P."""
    p = np.resize(weights, problem.eigenvalues.size)
    bound = a * problem.moment_bound + float(np.max(problem.kurtosis)) * p.sum()
    return driven(problem, a + p / problem.eigenvalues), float(bound)


NOISES = {"weights": vector(log_scale(1e-6, 1), 4), "a": log_scale(1e-6, 1)}


@PAPER.inequality(
    "Lemma C.12 (a)",
    printed=r"$E[\zeta_t^{(r)} \otimes \zeta_t^{(r)}] \preceq (a R^2 + b C_{kurt} \langle \beta, T \beta \rangle) H$",
    proof=f"{SHORT}#proposition-c11",
    domain={**SPECTRUM, **NOISES},
    sharp="factor",
    mutants=[{"factor": 0.999}],
)
def lemma_c12_a(weights: Array, a: float, factor: float = 1.0, **inputs: Any) -> Sides:
    """Checked with exact moments for M = a I + H^{−1/2} P H^{−1/2} with diagonal P.  It is sharp as the kurtosis grows, and for random signs."""
    problem = regression(**inputs)
    drive, bound = drive_and_bound(problem, weights, a)
    return drive, factor * bound * problem.eigenvalues


@PAPER.inequality(
    "Lemma C.12 (b)",
    printed=r"$E[\theta_t^{(r)} \otimes \theta_t^{(r)}] \preceq \eta (a R^2 + b C_{kurt} \langle \beta, T \beta \rangle) I$",
    proof=f"{SHORT}#proposition-c11",
    domain={**SPECTRUM, **NOISES},
    sharp="factor",
    mutants=[{"factor": 0.999}],
)
def lemma_c12_b(weights: Array, a: float, factor: float = 1.0, **inputs: Any) -> Sides:
    """Checked with the exact covariance of the linear system driven by the white noise of (a).

    The system has the divisor 2 − ηλ_j, and so has the right side in the check.  Without it the statement is sharp for random signs as ηλ_j → 1.
    """
    problem = regression(**inputs)
    x = problem.rates
    eta = problem.learning_rate
    drive, bound = drive_and_bound(problem, weights, a)
    return eta**2 * drive / (x * (2 - x)), factor * eta * bound / (2 - x)


@PAPER.inequality(
    "Equation (42)",
    printed=r"The right side is well-defined since F.17 gives $|\langle \beta, T \beta \rangle| \le \sum_{j=1}^d |\sum_{t=0}^\infty \sum_{\tau=0}^\infty \beta_t \beta_\tau (1 - \eta\lambda_j)^{|t - \tau|}| \le \|\beta\|_2^2 \sum_{j=1}^d \frac{2}{\eta \lambda_j} < \infty$",
    proof=f"{SHORT}#lemma-c6",
    domain={
        "eigenvalues": spectra(4, 1e4, multiplicity=1000, norms=(1.0,)),
        "rate": log_scale(1e-6, 1),
        "noise": noises(1e-3),
        "slow": one_of(False, True),
    },
    sharp="two",
    mutants=[{"two": 1.99}, {"power": 0.99}],
    tolerance=1e-7,
    evaluations=128,
)
def equation_42(
    eigenvalues: Array, rate: float, noise: ToeplitzNoise, slow: bool, two: float = 2.0, power: float = 1.0
) -> Sides:
    """Approached by ``slow`` noise as ηλ_j → 0; η ‖H‖ is the ``rate``.  ‖β‖₂² is the averaged variance of rate 1."""
    if slow:
        noise = SLOW
    rates = rate * eigenvalues
    square = float(noise.averaged_variance(1.0))
    return float(averages_by_quadrature(noise, rates).sum()), square * float((two / rates**power).sum())


@PAPER.inequality(
    "Equation (43)",
    printed=r"we get $E \|\theta_0^{(0)}\|_H^2 = \mathrm{Tr}[H E[\theta_0^{(0)} \otimes \theta_0^{(0)}]] \le \eta R^2 \sigma_{sgd}^2 + \eta \sigma^2 \langle \beta, T \beta \rangle$. Similarly, using C.11, we get for $r \ge 1$ that",
    reading=r"it goes on: $E \|\theta_0^{(r)}\|_H^2 \le (\eta R^2)^{r+1} \sigma_{sgd}^2 + (\eta R^2)^r \eta C_{kurt} \sigma^2 \langle \beta, T \beta \rangle$",
    proof=f"{SHORT}#proposition-c11",
    rests_on=["Proposition C.10", "Proposition C.11"],
    domain={**PROBLEM, "share": log_scale(1e-12, 0.999), "order": integers(0, 3)},
    sharp="factor",
    mutants=[{"factor": 0.98}, {"largest": True}],
    tolerance=1e-7,
    evaluations=128,
)
def equation_43(
    eigenvalues: Array, noise: ToeplitzNoise, order: int, factor: float = 1.0, largest: bool = False, **inputs: float
) -> Sides:
    """By Propositions C.10 and C.11 and Tr H <= R²; the second display follows (43).  With max b_j for ⟨β, Tβ⟩ = Σ b_j it is false.

    Checked is more: without C_kurt, and with the right side divided by (2 − η ‖H‖)^{r+1}.  Every component has a divisor 2 − ηλ_j, and the
    trace needs no C_kurt, because E ‖x‖² ⟨x, M x⟩ <= R² Tr[H M].  Isotropic inputs in many directions or of large kurtosis approach that.
    """
    problem = regression(eigenvalues, **inputs)
    b = noise.averaged_variance(problem.rates)
    seen = noise.variance() * float(b.max() if largest else b.sum())
    gain = problem.learning_rate * problem.moment_bound
    bound = gain ** (order + 1) * problem.residual_std**2 + gain**order * problem.learning_rate * seen
    part = component_variances(problem, noise, order + 1)[order]
    return float((problem.eigenvalues * part).sum()), factor * bound / (2 - problem.rates.max()) ** (order + 1)


@PAPER.inequality(
    "Proposition C.13",
    printed=r"$\lim_{m \to \infty} E[\delta_t^{(m)} \otimes \delta_t^{(m)}] = 0$",
    proof=f"{SHORT}#proposition-c13",
    rests_on=["Proposition C.11"],
    domain={**PROBLEM, "depth": integers(0, 12)},
    mutants=[{"power": 2}],
    tolerance=1e-7,
    evaluations=128,
)
def proposition_c13(depth: int, power: int = 1, *, noise: ToeplitzNoise, **inputs: Any) -> Sides:
    """E ‖δ^{(m)}‖²_H, the part of the exact error beyond component m, is O((ηR²)^{m+1}), with the constants of the proof.

    The proof applies Theorem F.3 to noise that is white but not independent of x_t; the gap is
    closed by Proposition C.19, which says that the components are uncorrelated.
    """
    problem = regression(**inputs)
    eta = problem.learning_rate
    r2 = problem.moment_bound
    eigenvalues = problem.eigenvalues
    parts = sum(float((eigenvalues * v).sum()) for v in component_variances(problem, noise, depth + 1))
    whole = 2 * problem.stationary_error(noise)
    size = float(eigenvalues.sum()) * eta / (2 - eta * r2) * (eta * r2) ** (power * (depth + 1))
    return abs(whole - parts), size * remaining_noise(problem, noise) + 1e-7 * whole
