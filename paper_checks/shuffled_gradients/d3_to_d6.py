"""Appendix D: the lemmas on one function, on sums of gradients, and on a recursion."""

import math

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.shuffled_gradients.paper import PAPER
from corrnoise.theory.numerics.checks import Array


@PAPER.identity(
    "Lemma D.3",
    printed=r"For a zero-mean isotropic Gaussian random variable $\rho \sim \mathcal{N}(0, \sigma^2 \mathbb{I}_d)$, and a differentiable function $h : \mathbb{R}^d \to \mathbb{R}^d$, the following holds: $E[\langle \rho, h(\rho) \rangle] = \sigma^2 E[\mathrm{tr}(\nabla_\rho h(\rho))]$",
    domain={"slope": linear(0.1, 1), "shift": linear(-1, 1), "sigma": log_scale(0.3, 3), "threshold": linear(0.1, 1)},
    tolerance=1e-6,
    mutants=[{"power": 1.99}],
    evaluations=64,
)
def lemma_d3(slope: float, shift: float, sigma: float, threshold: float, power: float = 2.0) -> Sides:
    """By quadrature; for the Lipschitz soft threshold too, which is not differentiable everywhere.

    Both expectations have to exist, which the statement leaves out: for h(ρ) = sin(exp(ρ²/σ²)) the left one does, and the
    derivative is not integrable.
    """
    x = np.linspace(-12, 12, 40_001)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    v = shift + slope * sigma * x
    soft = np.sign(v) * np.maximum(np.abs(v) - threshold, 0)
    passed = (
        1
        - abs(
            math.erf((threshold - shift) / (slope * sigma * math.sqrt(2)))
            + math.erf((threshold + shift) / (slope * sigma * math.sqrt(2)))
        )
        / 2
    )
    scale = 10 * sigma  # both sides may be close to 0
    return scale + np.sum(density * sigma * x * soft), scale + sigma**power * slope * passed


@PAPER.inequality(
    "Lemma D.4",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    printed=r"Given a convex and differentiable function $g(x) : \mathbb{R}^d \to \mathbb{R}$ satisfying $\|\nabla g(x) - \nabla g(y)\| \le L\|x - y\|$, $\forall x, y \in \mathbb{R}^d$ for some $L > 0$, then $\forall x, y \in \mathbb{R}^d$, $\frac{\|\nabla g(x) - \nabla g(y)\|^2}{2L} \le B_g(x, y) \le \frac{L}{2}\|x - y\|^2$",
    domain={"x": linear(-6, 6), "y": linear(-6, 6)},
    mutants=[{"smoothness": 0.2}],
)
def lemma_d4(x: float, y: float, smoothness: float = 0.25) -> Sides:
    """For the logistic function log(1 + e^x), which is ¼-smooth."""
    sigmoid = 1 / (1 + math.exp(-x)), 1 / (1 + math.exp(-y))
    gap = math.log1p(math.exp(x)) - math.log1p(math.exp(y)) - sigmoid[1] * (x - y)
    lower, upper = (sigmoid[0] - sigmoid[1]) ** 2 / (2 * smoothness), smoothness / 2 * (x - y) ** 2
    return np.array([1 + lower, 1 + gap]), np.array([1 + gap, 1 + upper])


@PAPER.inequality(
    "Lemma D.5",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    printed=r"Under Assumption D.1, for any permutation π of $[n]$, $\frac{1}{n} \sum_{i=2}^n L_i \| \sum_{j=1}^{i-1} \nabla f_j(x^*) \|^2 \le n^2 L \sigma_{any}^2,$ where $L = \frac{1}{n} \sum_{i=1}^n L_i$.",
    domain={"weights": vector(log_scale(1e-6, 1), 32), "gradients": vector(linear(-1, 1), 32)},
    sharp="constant",
    mutants=[{"constant": 0.5}],
    evaluations=2048,
)
def lemma_d5(weights: Array, gradients: Array, constant: float = 1.0) -> Sides:
    """For any gradients.  The constant is attained as n grows, with all smoothness in the last loss: it is (n − 1)/n."""
    if not gradients.any():
        return math.nan, math.nan
    before = np.cumsum(gradients)[:-1]
    right = gradients.size**2 * weights.mean() * np.mean(gradients**2)
    return float((weights[1:] * before**2).sum()) / gradients.size, constant * right


@PAPER.inequality(
    "Lemma D.6",
    theorem=("lemma_d6", "f37efbad5dfabd67"),
    proof="docs/shuffled-gradients-proofs.md#the-convergence-theorem",
    printed=r"Given two sequences of reals: $d^{(1)}, d^{(2)}, \ldots, d^{(K)}, d^{(K+1)}$ and $e^{(1)}, e^{(2)}, \ldots, e^{(K)}$, suppose there exist positive constants a, b, c satisfying $d^{(k+1)} \le \frac{a}{k} + b(1 + \log k) + c \sum_{l=2}^k \frac{d^{(l)}}{k-l+2} + \sum_{l=1}^k \frac{e^{(l)}}{k-l+1}, \forall k \in [K]$ then the following inequality holds $d^{(k+1)} \le (\frac{a}{k} + b(1 + \log k) + M) \sum_{i=0}^{k-1} (2c(1 + \log k))^i$ where $M := \max_{k \in [K]} \sum_{l=1}^k \frac{e^{(l)}}{k-l+1}$.",
    repair=r"for $e^{(l)} \ge 0$",
    domain={"constants": vector(log_scale(1e-3, 1), 3), "terms": vector(linear(0, 2), 4)},
    as_printed={"any_sign": True},
    evidence="counterexample",
    counterexample={"constants": np.array([1e-3, 1e-3, 1.0]), "terms": np.array([-10.0, -10.0])},
    mutants=[{"base": 0.9}],
)
def lemma_d6(constants: Array, terms: Array, any_sign: bool = False, base: float = 2.0) -> Sides:
    """With a = b = 1e-3, c = 1, e = (−10, −10) the recursion allows d³ = −19.997, and the bound is −43.9."""
    a, b, c = constants
    d = [math.nan, math.nan]
    e = [math.nan, *terms]
    pairs = []
    for k in range(1, terms.size + 1):
        spread = sum(e[j] / (k - j + 1) for j in range(1, k + 1))
        feedback = c * sum(d[j] / (k - j + 2) for j in range(2, k + 1))
        d.append(a / k + b * (1 + math.log(k)) + feedback + spread)
        most = max(sum(e[j] / (s - j + 1) for j in range(1, s + 1)) for s in range(1, k + 1))
        growth = sum((base * c * (1 + math.log(k))) ** i for i in range(k))
        pairs.append((d[-1], (a / k + b * (1 + math.log(k)) + most) * growth))
    return tuple(np.array(side) for side in zip(*pairs, strict=True))  # type: ignore[return-value]


@PAPER.inequality(
    "Equation (21)",
    theorem=("equation_21", "98714d0b9c4b95e7"),
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    printed=r"$\leq \frac{\sum_{i=0}^{k-1} (2c(1 + \log k))^i}{k+1} \quad (20)$ … $\leq \frac{\sum_{i=1}^{k-1} (2c(1 + \log k))^i}{k} \quad (21)$",
    repair="from (19), which is (20) without its first term",
    domain={"epochs": integers(2, 60), "growth": log_scale(1e-3, 10)},
    as_printed={"first": 0},
    counterexample={"epochs": 2, "growth": 0.5},
    evidence="counterexample",
    sharp="factor",
    mutants=[{"factor": 0.9}],
)
def equation_21(epochs: int, growth: float, first: int = 1, factor: float = 1.0) -> Sides:
    """k = 2 and 2c (1 + log k) = ½: (20) is 0.5, (21) is 0.25.  Lemma D.6 does not need the step."""
    powers = growth ** np.arange(epochs)
    return powers[first:].sum() / (epochs + 1), factor * powers[1:].sum() / epochs
