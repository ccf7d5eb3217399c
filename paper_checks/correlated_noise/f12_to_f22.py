"""Appendices F.5 and F.6: integrals and helper results."""

import math
from typing import Any

import numpy as np
from mpmath import mp, workdps

from corrnoise.paper_checks.correlated_noise.c3_to_c13 import regression
from corrnoise.paper_checks.correlated_noise.d2_to_d10 import averaged
from corrnoise.paper_checks.correlated_noise.paper import PAPER, SHORT
from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, spectra, symmetric, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.machinery.quadrature import circle_integral, modulus_at
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.numerics import elliptic
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array


def cotangent(x: Any) -> Any:
    """The product x cot x."""
    m = arithmetic(x)
    return x * m.cos(x) / m.sin(x)


# -- F.5: integrals ----------------------------------------------------------------------------------------------------


@PAPER.identity(
    "Lemma F.12",
    printed=r"For reals $0 < |b| < a$ and an integer $l$, we have $\int_{-\pi}^{\pi} \frac{\cos(l\omega) d\omega}{a^2 + b^2 - 2ab \cos\omega} = \frac{2\pi}{a^2 - b^2} (\frac{b}{a})^{|l|}$.",
    domain={"a": log_scale(0.1, 10), "ratio": linear(-0.95, 0.95), "frequency": integers(0, 6)},
    mutants=[{"shift": 1}],
)
def lemma_f12(a: float, ratio: float, frequency: int, shift: int = 0) -> Sides:
    """Checked with exact sums on 2048 points: the integrand is periodic, and aliasing is below rounding."""
    b = ratio * a
    omega = 2 * np.pi * np.arange(2048) / 2048
    mean = (np.cos(frequency * omega) / (a * a + b * b - 2 * a * b * np.cos(omega))).mean()
    scale = 10 * 2 * math.pi / (a * a - b * b)
    return scale + 2 * math.pi * mean, scale + 2 * math.pi / (a * a - b * b) * ratio ** (abs(frequency) + shift)


@PAPER.identity(
    "Lemma F.13",
    printed=r"For scalar $a$, we have $\int_{-\pi}^{\pi} \frac{d\omega}{1 + a \cos(\omega)} = \{\frac{2\pi}{\sqrt{1 - a^2}}$, if $|a| < 1$, $+\infty$, if $|a| = 1$.",
    transcription="a square root",
    domain={"a": linear(-0.999, 0.999)},
    mutants=[{"root": 0.49}],
)
def lemma_f13(a: float, root: float = 0.5) -> Sides:
    """Checked with the trapezoidal rule on 4096 points; at |a| = 1 the integrand is like 2/ω² at its pole."""
    omega = 2 * np.pi * np.arange(4096) / 4096
    return 2 * math.pi * (1 / (1 + a * np.cos(omega))).mean(), 2 * math.pi * (1 - a * a) ** -root


@PAPER.inequality(
    "Lemma F.13 (infinite)",
    printed=r"For scalar $a$, we have $\int_{-\pi}^{\pi} \frac{d\omega}{1 + a \cos(\omega)} = … +\infty$, if $|a| = 1$.",
    domain={"cut": log_scale("1e-300", "1")},
    evidence="certified",
    outside="Below 1e-300 the right side rises to 4; cuts above 1 play no role.",
    sharp="four",
    mutants=[{"four": "3.67"}],
)
def lemma_f13_infinite(cut: Any, four: str = "3.6") -> Sides:
    """For a = −1 (a = 1 has its pole at π) the part |ω| > ε is 2 cot(ε/2) >= 3.6/ε for ε <= 1.  Both sides times ε."""
    return arithmetic(cut).number(four), 4 * cotangent(cut / 2)


@PAPER.inequality(
    "Lemma F.14",
    printed=r"$\int_{-\pi}^{\pi} \frac{d\omega}{\sqrt{1 - \cos \omega}} = +\infty$",
    transcription="a square root",
    domain={"cut": log_scale("1e-300", "3.14")},
    evidence="certified",
    outside="Below 1e-300 the right side rises to 4; cuts above 3.14 play no role.",
    sharp="three",
    mutants=[{"three": "3.15"}],
)
def lemma_f14(cut: Any, three: str = "3") -> Sides:
    """The part |ω| > ε is 2 sqrt(2) log cot(ε/4) >= 2 sqrt(2) log(3/ε), which grows without bound.

    That is 3 <= ε cot(ε/4).
    """
    return arithmetic(cut).number(three), 4 * cotangent(cut / 4)


@PAPER.identity(
    "Lemma F.15",
    printed=r"For any $a \in (0, 1)$, we have $\int_{-\pi}^{\pi} \frac{d\omega}{|1 - a - \exp(i\omega)|} = \frac{4}{2 - a} K(\frac{\sqrt{1 - a}}{1 - a/2})$, (99) where $K(\cdot)$ is the complete elliptic integral of the first kind",
    transcription="a square root",
    domain={"a": log_scale(1e-9, 0.999)},
    mutants=[{"two": 2.001}],
)
def lemma_f15(a: float, two: float = 2.0) -> Sides:
    """The integral is also 2π/agm(a, 2 − a), which is accurate for small a.  Checked by quadrature."""
    integral = circle_integral(lambda cosine, sine: 1 / modulus_at(a, cosine, sine))
    complement = a / (2 - a)  # of sqrt(1 − a)/(1 − a/2)
    return integral, np.array(
        [4 / (two - a) * elliptic.first_kind(complement), 2 * math.pi * elliptic.mean_inverse_modulus(a)]
    )


def third_kind(a: float, b: float) -> tuple[Any, Any, Any]:
    """K(k), Π(α², k) and α² of Lemma F.16, to 40 digits."""
    x, y = mp.mpf(a), mp.mpf(b)
    k2 = (1 - x) / (1 - x / 2) ** 2
    alpha2 = (y * y * (1 - x) - x * x * (1 - y)) / (y * y * (1 - x / 2) ** 2)
    return mp.ellipk(k2), mp.ellippi(alpha2, k2), alpha2


PAIR = {"a": log_scale(1e-3, 0.999), "b": log_scale(1e-3, 0.999)}


@PAPER.identity(
    "Lemma F.16",
    printed=r"For any $a, b \in (0, 1)$, we have $\int_{-\pi}^{\pi} \frac{|1 - a - \exp(i\omega)|}{|1 - b - \exp(i\omega)|^2} d\omega = \frac{2 a^2}{b^2 (1 - a/2)} \Pi(\frac{b^2 (1 - a) - a^2 (1 - b)}{b^2 (1 - a/2)^2}, \frac{\sqrt{1 - a}}{1 - a/2})$, (100) where $\Pi$ is the complete elliptic integral of the third kind",
    transcription="a square root",
    domain=PAIR,
    mutants=[{"two": 2.001}],
    evaluations=24,
    tolerance=1e-12,
)
def lemma_f16(a: float, b: float, two: float = 2.0) -> Sides:
    """True for both signs of α².  Checked by quadrature.  In floats it loses all digits for small a, where 1 − α² cancels; cel keeps them."""
    with workdps(40):
        printed = float(two * mp.mpf(a) ** 2 / (mp.mpf(b) ** 2 * (1 - mp.mpf(a) / 2)) * third_kind(a, b)[1])
    return circle_integral(lambda cosine, sine: modulus_at(a, cosine, sine) / modulus_at(b, cosine, sine) ** 2), printed


@PAPER.identity(
    "Equation (101)",
    printed=r"$\int_{-\pi}^{\pi} \frac{|1 - a - \exp(i\omega)|}{|1 - b - \exp(i\omega)|^2} d\omega = \int_{-\pi}^{\pi} \frac{1 + (1 - a)^2 - \frac{1 - a}{1 - b} (1 + (1 - b)^2)}{h(a, \omega) h(b, \omega)^2} d\omega + \frac{1 - a}{1 - b} \int_{-\pi}^{\pi} \frac{d\omega}{h(a, \omega)}$. (101) From F.15, the second term above can be written as $\frac{1 - a}{1 - b} \int_{-\pi}^{\pi} \frac{d\omega}{h(a, \omega)} = \frac{4 (1 - a)}{(1 - b) (2 - a)} K(\frac{\sqrt{1 - a}}{1 - a/2})$",
    transcription="a square root",
    domain=PAIR,
    mutants=[{"one": 1.001}],
    tolerance=1e-10,
    evaluations=64,
)
def equation_101(a: float, b: float, one: float = 1.0) -> Sides:
    """h(a, ω) = |1 − a − e^{iω}|.  All three integrals by quadrature."""
    whole = circle_integral(lambda c, s: modulus_at(a, c, s) / modulus_at(b, c, s) ** 2)
    weight = one + (1 - a) ** 2 - (1 - a) / (1 - b) * (one + (1 - b) ** 2)
    first = weight * circle_integral(lambda c, s: 1 / modulus_at(a, c, s) / modulus_at(b, c, s) ** 2)
    second = (1 - a) / (1 - b) * circle_integral(lambda c, s: 1 / modulus_at(a, c, s))
    closed = 4 * (1 - a) / ((1 - b) * (2 - a)) * elliptic.first_kind(a / (2 - a))
    scale = abs(first) + second  # they may cancel
    return np.array([1 + whole / scale, second]), np.array([1 + (first + second) / scale, closed])


@PAPER.identity(
    "Equation (103)",
    printed=r"$\int_0^{\pi/2} \frac{d\omega'}{\sqrt{1 + \frac{4(1-a)}{a^2} \sin^2 \omega'}\, (1 + \frac{4(1-b)}{b^2} \sin^2 \omega')} = \frac{a}{2-a} \frac{b^2 (1-a)}{b^2 (1-a) - a^2 (1-b)} K(k) - \frac{a^3 (1-b)}{(2-a)(b^2 (1-a) - a^2 (1-b))} \Pi(\alpha^2, k)$",
    transcription="square roots",
    domain=PAIR,
    mutants=[{"three": 3.0001}],
    tolerance=1e-10,
    evaluations=24,
)
def equation_103(a: float, b: float, three: float = 3.0) -> Sides:
    """The left side is a b²/4 ∫ dω/(h(a, ω) h(b, ω)²), by quadrature.  At a = b the right side is 0/0; it is left out."""
    if abs(a - b) < 1e-3 * a:
        return math.nan, math.nan
    left = a * b * b / 4 * circle_integral(lambda c, s: 1 / modulus_at(a, c, s) / modulus_at(b, c, s) ** 2)
    with workdps(40):
        x, y = mp.mpf(a), mp.mpf(b)
        first, third, _ = third_kind(a, b)
        difference = y * y * (1 - x) - x * x * (1 - y)
        right = x * y * y * (1 - x) / ((2 - x) * difference) * first
        right -= x ** mp.mpf(three) * (1 - y) / ((2 - x) * difference) * third
        return left, float(right)


# -- F.6: miscellaneous ------------------------------------------------------------------------------------------------


@PAPER.inequality(
    "Lemma F.17",
    printed=r"For a sequence $\beta = (\beta_0, \beta_1, \ldots) \in \ell^2$ and a constant $0 \le c < 1$, we have $\sum_{t=0}^\infty \sum_{\tau=0}^\infty \beta_t \beta_\tau c^{|t-\tau|} \le (\frac{1 + c}{1 - c}) \|\beta\|_2^2$.",
    proof=f"{SHORT}#lemma-c6",
    domain={"beta": vector(linear(-1, 1), 5), "rate": log_scale(1e-3, 1)},
    mutants=[{"factor": 0.999}],
)
def lemma_f17(beta: Array, rate: float, factor: float = 1.0) -> Sides:
    """True, with (1 − c)/(1 + c) ‖β‖² as lower bound.  Many equal coefficients approach it, and it is an equality at c = 0."""
    if not beta[0]:
        return math.nan, math.nan
    value = float(FiniteNoise(beta).averaged_variance(rate))
    square = float(beta @ beta)
    return np.array([value, rate / (2 - rate) * square]), np.array([factor * (2 - rate) / rate * square, value])


@PAPER.inequality(
    "Lemma F.18",
    printed=r"Consider a random vector $x$ that satisfies $E[x] = 0$, $E[x \otimes x] = H \succeq \mu I$ for some $\mu > 0$ and $E[\|x\|_2^2 x \otimes x] \preceq R^2 H$. Then, we have for all $\eta \le 1/R^2$ and all PSD matrices $M$ that $\mathrm{Tr}[(I - \eta x \otimes x) M (I - \eta x \otimes x)] \le (1 - \eta\mu) \mathrm{Tr}[M]$.",
    repair=r"$E$ of the left side",
    proof=f"{SHORT}#lemma-f18",
    independent="the left side is a step of second moments, the right side has the eigenvalues only",
    domain={
        "eigenvalues": spectra(multiplicity=10_000),
        "weights": vector(log_scale(1e-6, 1), 6),
        "share": linear(1e-3, 1),
    },
    as_printed={"input_square": 100.0},
    counterexample={"eigenvalues": np.ones(1), "weights": np.ones(6), "share": 1.0},
    mutants=[{"factor": 1.001}],
)
def lemma_f18(
    eigenvalues: Array, weights: Array, share: float, factor: float = 1.0, input_square: float | None = None
) -> Sides:
    """True with 1 − ημ(2 − ηR²).  Without the expectation, d = 1: (1 − x²/3)² > 2/3 for an input with x² = 100."""
    problem = regression(eigenvalues, share)
    m = np.resize(weights, eigenvalues.size)
    eta = problem.learning_rate
    slowest = float(problem.rates.min())
    if input_square is not None:
        return (1 - eta * input_square) ** 2, 1 - slowest
    left = float(averaged(m, eigenvalues, eta).sum())
    return left, (1 - factor * slowest * (2 - share)) * float(m.sum())


@PAPER.inequality(
    "Lemma F.19",
    printed=r"For PSD matrices $0 \preceq A_1, \ldots, A_k \preceq I$ of shape $d \times d$, we have $|\mathrm{Tr}[A_1 \cdots A_k]| \le d$.",
    proof=f"{SHORT}#lemma-f19",
    domain={"matrices": symmetric(0, 1, size=3, count=3)},
    sharp="dimension",
    mutants=[{"dimension": 2.999}],
)
def lemma_f19(matrices: Array, dimension: float = 3.0) -> Sides:
    """Checked for three matrices of dimension 3.  (The proof says Tr I = 1, which is d.)"""
    first, second, third = matrices
    return abs(float(np.trace(first @ second @ third))), dimension


@PAPER.identity(
    "Lemma F.20 (equality)",
    printed=r"$f(\hat\tau) = \min\{t - 1, \frac{1}{a} (1 + \log(1/\rho))\}$",
    repair=r"$f(\hat\tau)$ is the right side, except where $\frac{1}{a} \log(1/\rho) < t - 1 < \frac{1}{a} (1 + \log(1/\rho))$",
    domain={"a": log_scale(0.01, 10), "log_inverse": log_scale(0.01, 20), "time": integers(2, 200, log=True)},
    as_printed={"everywhere": True},
    evidence="counterexample",
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
    return best + (arithmetic(a).exp(log_inverse - a * best) / a if best < time - 1 else 0.0)


@PAPER.inequality(
    "Lemma F.20 (bound)",
    printed=r"For $\hat\tau = \min\{t - 1, a^{-1} \log(1/\rho)\}$, we have, $f(\hat\tau) = \min\{t - 1, \frac{1}{a} (1 + \log(1/\rho))\} \le \frac{1}{a} (1 + \log(1/\rho))$.",
    proof=f"{SHORT}#lemma-f20",
    domain={"a": log_scale(0.01, 10), "log_inverse": log_scale(0.01, 20), "time": integers(1, 200, log=True)},
    mutants=[{"one": 0.999}],
)
def lemma_f20_bound(a: float, log_inverse: float, time: int, one: float = 1.0) -> Sides:
    """The part of the lemma that the paper uses."""
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
    printed=r"Consider a function $\varphi : [0, \eta_{max}] \to \mathbb{R}_+$ given by $\varphi(\eta) = A \exp(-\mu \eta T) + B \eta + C \eta^2 \log^2(\frac{1}{\eta\mu})$, given some constants $\eta_{max}, \mu, A, B, C > 0$. If $T \ge (\mu \eta_{max})^{-1}$, then we have $\varphi(\eta_\star) \le A \exp(-\mu \eta_{max} T) + \frac{3B}{\mu T} (1 \vee \log \frac{A \mu T}{B}) + \frac{3C}{\mu^2 T^2} (1 \vee \log \frac{A \mu^2 T^2}{C})^2 \log^2(T)$, for some $\eta_\star \le \eta_{max}$ depending on $A, B, C, \mu, T$.",
    repair=r"also $\mu \eta_{max} \le 1$",
    proof=f"{SHORT}#lemma-f21",
    domain={"values": vector(log_scale(1e-6, 1e3), 3), "factor": log_scale(1, 1e4), "largest": log_scale(1e-4, 1)},
    counterexample={"values": np.array([1.0, 1e-9, 1.0]), "factor": 2.0, "largest": 2.0},
    mutants=[{"slack": 0.999}],
    evaluations=200,
)
def lemma_f21(values: Array, factor: float, largest: float, slack: float = 1.0) -> Sides:
    """A = μ = C = T = 1, B = 1e-9, η_max = 2: min φ = 0.342 > 0.135."""
    left, right = _tuned(values, factor / largest, largest)
    return left, slack * right


@PAPER.inequality(
    "Lemma F.22",
    printed=r"For $0 < c < 1/4$, we have, $0 < x \le \frac{c}{9 \log^2(9/c)} \implies x \log^2(1/x) \le c$.",
    domain={"logarithm": log_scale("3.58351893845611", "1e6"), "depth": linear("0", "100")},
    evidence="certified",
    outside=r"For larger $\log(9/c)$ and for smaller $x$: $e^{-s} (s + \log 9c^{-1} + 2 \log \log 9c^{-1})^2$ falls with $s$, and at $s = 0$ with $c$.",
    sharp="limit",
    mutants=[{"limit": "0.325"}],
)
def lemma_f22(logarithm: Any, depth: Any, limit: str = "1") -> Sides:
    """In terms of L = log(9/c) and s >= 0 with x = e^{−s} c/(9 L²): x log²(1/x)/c is largest at s = 0, c = ¼: 0.3258.

    It is still true at c = 5, and false at 6.
    """
    m = arithmetic(logarithm, depth)
    ratio = 1 + (depth + 2 * m.log(logarithm)) / logarithm
    return m.exp(-depth) * ratio * ratio / 9, m.number(limit)
