"""Appendix D, one epoch: the lemmas on quadratic losses in one dimension, where every term is exact."""

import math
from dataclasses import dataclass, replace

import numpy as np

from corrnoise.paper_checks.machinery.domains import Axis, integers, linear, log_scale, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.shuffled_gradients.paper import PAPER
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.shuffled_gradients.convergence import ConvergenceConstants

MOST = 4


@dataclass(frozen=True)
class Epoch:
    """One epoch on losses a_i (x − b_i)²/2, the first ``private`` of them private, ψ = (μ/2) x²."""

    curvatures: Array
    optima: Array
    public_curvatures: Array
    public_optima: Array
    private: int
    convexity: float
    share: float  #: of the largest learning rate
    noise: Array
    start: float
    point: float

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={np.round(value, 6).tolist() if isinstance(value, np.ndarray) else value}"
            for name, value in vars(self).items()
        )
        return f"Epoch({shown})"

    @property
    def n(self) -> int:
        return self.curvatures.size

    @property
    def steps(self) -> tuple[Array, Array]:
        """Curvatures and optima in the order of the steps."""
        count = self.n - self.private
        return (
            np.concatenate([self.curvatures[: self.private], self.public_curvatures[:count]]),
            np.concatenate([self.optima[: self.private], self.public_optima[:count]]),
        )

    @property
    def smoothness(self) -> tuple[float, float, float]:
        """L, and the mean and the largest smoothness of the epoch."""
        a, _ = self.steps
        return float(self.curvatures.mean()), float(a.mean()), float(a.max())

    @property
    def rate(self) -> float:
        _, mean, largest = self.smoothness
        return self.share / (self.n * math.sqrt(10 * mean * largest))

    @property
    def minimiser(self) -> float:
        """x* of F + ψ."""
        return float((self.curvatures * self.optima).mean() / (self.curvatures.mean() + self.convexity))

    def objective(self, x: float) -> float:
        return float((self.curvatures * (x - self.optima) ** 2).mean() / 2 + self.convexity * x * x / 2)

    def path(self, noise: Array) -> tuple[Array, float]:
        """Iterates before each step, and the one after the proximal step."""
        (a, b), x, iterates = self.steps, self.start, []
        for i in range(self.n):
            iterates.append(x)
            x -= self.rate * (a[i] * (x - b[i]) + noise[i])
        return np.array(iterates), x / (1 + self.rate * self.n * self.convexity)

    def difference(self, x: float) -> float:
        """H(x), the mean of private less public losses over the public steps."""
        a, b = self.steps
        rest = slice(self.private, self.n)
        private = self.curvatures[rest] * (x - self.optima[rest]) ** 2
        return float((private - a[rest] * (x - b[rest]) ** 2).sum() / (2 * self.n))

    def dissimilarities(self, z: float) -> Array:
        """|Σ_{j <= i} (∇f_j(z) − ∇f̃_j(z))| for the public steps i."""
        a, b = self.steps
        rest = slice(self.private, self.n)
        return np.abs(np.cumsum(self.curvatures[rest] * (z - self.optima[rest]) - a[rest] * (z - b[rest])))

    def uncertainty(self) -> float:
        """5 η² (1/n) Σ L_i |Σ_{j < i} ∇f_j(x*)|²."""
        gradients = self.curvatures * (self.minimiser - self.optima)
        before = np.concatenate([[0.0], np.cumsum(gradients)[:-1]])
        return float(5 * self.rate**2 * (self.steps[0] * before**2).mean())

    def drift(self, noise: Array) -> float:
        """5 η² (1/n) Σ L_i |Σ_{j < i} noise_j|²."""
        before = np.concatenate([[0.0], np.cumsum(noise)[:-1]])
        return float(5 * self.rate**2 * (self.steps[0] * before**2).mean())

    def bregman(self) -> float:
        """10 η² n² L̂ L B_F(z, x*)."""
        private, mean, _ = self.smoothness
        return 10 * self.rate**2 * self.n**2 * mean * private * private * (self.point - self.minimiser) ** 2 / 2

    def vanishing(self, literal: bool = False) -> float:
        """5 η² L* (1/n) Σ_{n_d < i < n} |…|²; ``literal``: with the index f̃_i inside the sum over j < i."""
        terms = self.dissimilarities(self.point)[:-1]
        if literal:
            z = self.point
            rest = slice(self.private, self.n)
            count = self.n - self.private
            private = np.cumsum(self.curvatures[rest] * (z - self.optima[rest]))[:-1]
            public = self.public_curvatures[:count] * (z - self.public_optima[:count])
            terms = np.arange(1, count) * public[1:] - private
        return float(5 * self.rate**2 * self.smoothness[2] * (terms**2).sum() / self.n)


def _epoch(u: Array, _: object) -> Epoch:
    values = np.asarray(u, dtype=float)
    n = 1 + min(int(values[0] * MOST), MOST - 1)
    rest = values[6:].reshape(6, MOST)[:, :n]
    return Epoch(
        10.0 ** (-3 * rest[0]),
        4 * rest[1] - 2,
        10.0 ** (-3 * rest[2]),
        4 * rest[3] - 2,
        min(int(values[1] * (n + 1)), n),
        2 * values[2],
        max(values[3], 1e-3),
        4 * rest[4] - 2,
        4 * values[4] - 2,
        4 * values[5] - 2,
    )


EPOCH = {"epoch": Axis(6 + 6 * MOST, _epoch, f"one epoch of up to {MOST} steps, η up to its limit")}


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
    printed=r"Under Assumption D.1, for any permutation π of $[n]$, $\frac{1}{n} \sum_{i=2}^n L_i \| \sum_{j=1}^{i-1} \nabla f_j(x^*) \|^2 \le n^2 L \sigma_{any}^2,$ where $L = \frac{1}{n} \sum_{i=1}^n L_i$.",
    domain={"weights": vector(log_scale(1e-6, 1), 8), "gradients": vector(linear(-1, 1), 8)},
    sharp="constant",
    mutants=[{"constant": 0.5}],
    evaluations=2048,
)
def lemma_d5(weights: Array, gradients: Array, constant: float = 1.0) -> Sides:
    """For any gradients.  The constant is attained as n grows, with all smoothness in the last loss."""
    if not gradients.any():
        return math.nan, math.nan
    before = np.cumsum(gradients)[:-1]
    right = gradients.size**2 * weights.mean() * np.mean(gradients**2)
    return float((weights[1:] * before**2).sum()) / gradients.size, float(constant) * right


@PAPER.inequality(
    "Lemma D.6",
    evidence="proved",
    proof="docs/shuffled-gradients.md#the-convergence-theorem",
    printed=r"Given two sequences of reals: $d^{(1)}, d^{(2)}, \ldots, d^{(K)}, d^{(K+1)}$ and $e^{(1)}, e^{(2)}, \ldots, e^{(K)}$, suppose there exist positive constants a, b, c satisfying $d^{(k+1)} \le \frac{a}{k} + b(1 + \log k) + c \sum_{l=2}^k \frac{d^{(l)}}{k-l+2} + \sum_{l=1}^k \frac{e^{(l)}}{k-l+1}, \forall k \in [K]$ then the following inequality holds $d^{(k+1)} \le (\frac{a}{k} + b(1 + \log k) + M) \sum_{i=0}^{k-1} (2c(1 + \log k))^i$ where $M := \max_{k \in [K]} \sum_{l=1}^k \frac{e^{(l)}}{k-l+1}$.",
    corrected=r"for $e^{(l)} \ge 0$",
    domain={"constants": vector(log_scale(1e-3, 1), 3), "terms": vector(linear(0, 2), 4)},
    as_printed={"any_sign": True},
    counterexample={"constants": np.array([1e-3, 1e-3, 1.0]), "terms": np.array([-10.0, -10.0])},
    mutants=[{"base": 0.9}],
)
def lemma_d6(constants: Array, terms: Array, any_sign: bool = False, base: float = 2.0) -> Sides:
    """With a = b = 1e-3, c = 1, e = (−10, −10) the recursion allows d³ = −19.997, and the bound is −43.9."""
    a, b, c = constants
    d, e = [math.nan, math.nan], [math.nan, *terms]
    pairs = []
    for k in range(1, terms.size + 1):
        spread = sum(e[j] / (k - j + 1) for j in range(1, k + 1))
        feedback = c * sum(d[j] / (k - j + 2) for j in range(2, k + 1))
        d.append(a / k + b * (1 + math.log(k)) + feedback + spread)
        most = max(sum(e[j] / (s - j + 1) for j in range(1, s + 1)) for s in range(1, k + 1))
        growth = sum((base * c * (1 + math.log(k))) ** i for i in range(k))
        pairs.append((d[-1], (a / k + b * (1 + math.log(k)) + most) * growth))
    return tuple(np.array(side) for side in zip(*pairs, strict=True))  # type: ignore[return-value]


def one_step_inequality(epoch: Epoch, noise: Array) -> float:
    """What Lemma D.7 adds to the Bregman terms: H, distances and the noise."""
    (_, end), z, n, eta = epoch.path(noise), epoch.point, epoch.n, epoch.rate
    distances = (z - epoch.start) ** 2 - (z - end) ** 2 - (end - epoch.start) ** 2
    return (
        epoch.difference(end)
        - epoch.difference(z)
        + distances / (2 * n * eta)
        - epoch.convexity / 2 * (z - end) ** 2
        - float(noise.mean()) * (end - z)
    )


def bregman_terms(epoch: Epoch, noise: Array) -> float:
    """(1/n) Σ (B_i(x⁺, x_i) − B_i(z, x_i))."""
    (iterates, end), (a, _) = epoch.path(noise), epoch.steps
    return float((a * ((end - iterates) ** 2 - (epoch.point - iterates) ** 2)).mean() / 2)


@PAPER.inequality(
    "Lemma D.7",
    printed=r"Under Assumptions 3.1 and 3.4, for any epoch $k \in [K]$, permutation $\pi^{(k)}$ and $z \in \mathbb{R}^d$, Algorithm 1 guarantees $G(x_1^{(k+1)}) - G(z) \le H^{(k)}(x_1^{(k+1)}) - H^{(k)}(z) + \frac{\|z - x_1^{(k)}\|^2}{2n\eta} - (\frac{1}{2n\eta} + \frac{\mu_\psi}{2})\|z - x_1^{(k+1)}\|^2 - \frac{1}{2n\eta}\|x_1^{(k+1)} - x_1^{(k)}\|^2 + \frac{1}{n} (\sum_{i=1}^{n_d^{(k)}} (B_{f_{\pi_i^{(k)}}}(x_1^{(k+1)}, x_i^{(k)}) - B_{f_{\pi_i^{(k)}}}(z, x_i^{(k)}))) + \sum_{i=n_d^{(k)}+1}^n (B_{f_{i-n_d^{(k)}}}^{(k, \mathrm{pub})}(x_1^{(k+1)}, x_i^{(k)}) - B_{f_{i-n_d^{(k)}}}^{(k, \mathrm{pub})}(z, x_i^{(k)})) + \frac{1}{n} \sum_{i=1}^n \langle -\rho_i^{(k)}, x_1^{(k+1)} - z \rangle.$",
    domain=EPOCH,
    tolerance=1e-9,
    mutants=[{"sign": -1.0}],
)
def lemma_d7(epoch: Epoch, sign: float = 1.0) -> Sides:
    """An equality on quadratic losses.  ψ need not be twice differentiable; a subgradient does."""
    noise = epoch.noise
    _, end = epoch.path(noise)
    right = one_step_inequality(epoch, noise) + bregman_terms(epoch, noise)
    right += (1 - sign) * float(noise.mean()) * (end - epoch.point)
    scale = 100 + abs(right)
    return scale + epoch.objective(end) - epoch.objective(epoch.point), scale + right


#: η = 1/(2 sqrt 5): the first public loss has the gradient −1/η (nearly), the second is (x − 1)²/2, and ψ holds still.
INDEX = Epoch(
    curvatures=np.zeros(2),
    optima=np.zeros(2),
    public_curvatures=np.array([1e-12, 1.0]),
    public_optima=np.array([math.sqrt(20) * 1e12, 1.0]),
    private=0,
    convexity=1000.0,
    share=1.0,
    noise=np.zeros(2),
    start=0.0,
    point=1.0,
)


def at_iterates(epoch: Epoch) -> list[Epoch]:
    """The epoch, the same without noise, and without noise and with private losses of one minimiser: for each kind of term
    one in which the others are small.  Each with z where it is, at the minimiser and at every iterate.
    """
    quiet = replace(epoch, noise=np.zeros(epoch.n))
    found = []
    for one in (epoch, quiet, replace(quiet, optima=np.full(epoch.n, epoch.start), convexity=0.0)):
        iterates, end = one.path(one.noise)
        found += [one, *(replace(one, point=float(z)) for z in (one.minimiser, *iterates, end))]
    return found


@PAPER.inequality(
    "Lemma D.8",
    printed=r"if the learning rate $\eta \le \frac{1}{n\sqrt{10\hat{L}^{(k)}\hat{L}^{(k)*}}}$, Algorithm 1 guarantees $\frac{1}{n} (\sum_{i=1}^{n_d^{(k)}} (B_{f_{\pi_i^{(k)}}}(x_1^{(k+1)}, x_i^{(k)}) - B_{f_{\pi_i^{(k)}}}(z, x_i^{(k)})) + \sum_{i=n_d^{(k)}+1}^n (B_{f_{i-n_d^{(k)}}}^{(k, pub)}(x_1^{(k+1)}, x_i^{(k)}) - B_{f_{i-n_d^{(k)}}}^{(k, pub)}(z, x_i^{(k)}))) \le \hat{L}^{(k)} \|x_1^{(k+1)} - x_1^{(k)}\|^2 + 10\eta^2 n^2 \hat{L}^{(k)} L B_F(z, x^*) + 5\eta^2 \frac{1}{n} (\sum_{i=2}^{n_d^{(k)}} L_{\pi_i^{(k)}} \| \sum_{j=1}^{i-1} \nabla f_{\pi_j^{(k)}}(x^*) \|^2 + \sum_{i=n_d^{(k)}+1}^n \tilde{L}_{i-n_d^{(k)}}^{(k)} \| \sum_{j=1}^{i-1} \nabla f_{\pi_j^{(k)}}(x^*) \|^2) + 5\eta^2 \frac{1}{n} (\sum_{i=2}^{n_d^{(k)}} L_{\pi_i^{(k)}} \| \sum_{j=1}^{i-1} \rho_j^{(k)} \|^2 + \sum_{i=n_d^{(k)}+1}^n \tilde{L}_{i-n_d^{(k)}}^{(k)} \| \sum_{j=1}^{i-1} \rho_j^{(k)} \|^2) + 5\eta^2 L^{(k)*} \frac{1}{n} \sum_{i=n_d^{(k)}+1}^n \| \sum_{j=n_d^{(k)}+1}^{i-1} \nabla f_{i-n_d^{(k)}}^{(k, pub)}(z) - \sum_{j=n_d^{(k)}+1}^{i-1} \nabla f_{\pi_j^{(k)}}(z) \|^2$",
    corrected=r"with $f_{j-n_d}^{pub}$ inside the sums over $j$",
    domain=EPOCH,
    as_printed={"literal": True},
    counterexample={"epoch": INDEX},
    mutants=[{"factor": 0.05}],
)
def lemma_d8(epoch: Epoch, factor: float = 1.0, literal: bool = False) -> Sides:
    """On paths, for η up to 1/(n sqrt(10 L̂ L̂*)).  At the counterexample 0.249 on the left, 2.5e-6 printed, 2.5 corrected."""
    pairs = []
    for one in [epoch] if literal else at_iterates(epoch):
        noise = one.noise
        _, end = one.path(noise)
        right = one.smoothness[1] * (end - one.start) ** 2
        right += factor * (one.bregman() + one.uncertainty() + one.drift(noise) + one.vanishing(literal))
        pairs.append((1e-3 + bregman_terms(one, noise), 1e-3 + right))
    return tuple(np.array(side) for side in zip(*pairs, strict=True))  # type: ignore[return-value]


@PAPER.inequality(
    "Lemma D.9",
    printed=r"if $\eta \le \frac{1}{n\sqrt{10\hat{L}^{(k)}\hat{L}^{(k)*}}}$, Algorithm 1 guarantees $G(x_1^{(k+1)}) - G(z) \le \frac{1}{2n\eta} (\|z - x_1^{(k)}\|^2 - \|z - x_1^{(k+1)}\|^2) + (\frac{L_H^{(k)} + \beta}{2} - \frac{\mu_\psi}{2}) \|z - x_1^{(k+1)}\|^2 + 10\eta^2 n^2 \hat{L}^{(k)} L B_F(z, x^*) + 5\eta^2 \frac{1}{n} (\sum_{i=2}^{n_d^{(k)}} L_{\pi_i^{(k)}} \| \sum_{j=1}^{i-1} \nabla f_{\pi_j^{(k)}}(x^*) \|^2 + \sum_{i=n_d^{(k)}+1}^n \tilde{L}_{i-n_d^{(k)}}^{(k)} \| \sum_{j=1}^{i-1} \nabla f_{\pi_j^{(k)}}(x^*) \|^2) … + \frac{1}{n} \sum_{i=1}^n \langle -\rho_i^{(k)}, x_1^{(k+1)} - z \rangle + 5\eta^2 \frac{1}{n} (\sum_{i=2}^{n_d^{(k)}} L_{\pi_i^{(k)}} \| \sum_{j=1}^{i-1} \rho_j^{(k)} \|^2 + \sum_{i=n_d^{(k)}+1}^n \tilde{L}_{i-n_d^{(k)}}^{(k)} \| \sum_{j=1}^{i-1} \rho_j^{(k)} \|^2) … + \frac{1}{2n^2\beta} (C_n^{(k)})^2 … + 5\eta^2 L^{(k)*} \frac{1}{n} \sum_{i=n_d^{(k)}+1}^n \| \sum_{j=n_d^{(k)}+1}^{i-1} \nabla f_{\pi_j^{(k, pub)}}(z) - \sum_{j=n_d^{(k)}+1}^{i-1} \nabla f_{\pi_j^{(k)}}(z) \|^2$",
    domain={**EPOCH, "beta": log_scale(1e-3, 10)},
    mutants=[{"share": 0.02}],
)
def lemma_d9(epoch: Epoch, beta: float, share: float = 1.0) -> Sides:
    """On paths, with C_n the dissimilarity at z; an expectation constant, as in Assumption 3.6, does not bound paths."""
    pairs = []
    for one in at_iterates(epoch):
        noise, z, n, eta = one.noise, one.point, one.n, one.rate
        _, end = one.path(noise)
        whole = one.dissimilarities(z)[-1] if one.private < n else 0.0
        a, _ = one.steps
        bending = abs(float((one.curvatures - a)[one.private :].sum())) / n  # of H
        right = ((z - one.start) ** 2 - (z - end) ** 2) / (2 * n * eta)
        right += ((bending + beta) - one.convexity) / 2 * (z - end) ** 2 + one.bregman() + one.uncertainty()
        right += one.drift(noise) - float(noise.mean()) * (end - z)
        right += share * whole**2 / (2 * n**2 * beta) + one.vanishing()
        scale = 1e-2 + abs(right)
        pairs.append((scale + one.objective(end) - one.objective(z), scale + right))
    return tuple(np.array(side) for side in zip(*pairs, strict=True))  # type: ignore[return-value]


def noise_error(curvatures: Array, rate: float, convexity: float = 0.0) -> float:
    """E (1/n) Σ ⟨−ρ_i, x⁺ − z⟩ per dimension and unit noise: η (1/n) Σ_i Π_{l > i} (1 − η a_l)/(1 + η n μ)."""
    later = np.concatenate([np.cumprod((1 - rate * curvatures)[:0:-1])[::-1], [1.0]])
    return float(rate * later.mean() / (1 + rate * curvatures.size * convexity))


QUADRATIC = {"curvatures": vector(log_scale(1e-3, 1), 5), "share": log_scale(1e-3, 1), "convexity": linear(0, 2)}


@PAPER.inequality(
    "Lemma D.10",
    part="(as stated)",
    printed=r"if the regularization function ψ is twice differentiable and z is independent of $\rho_i^{(k)}$, $\forall i \in [n]$, then the error caused by noise injection in epoch k is $E [\frac{1}{n} \sum_{i=1}^n \langle \rho_i^{(k)}, x_1^{(k+1)} - z \rangle] \le (\sigma^{(k)})^2 n d \eta^2 \hat{L}^{(k)*}$",
    corrected=r"for $\eta \le 2/\hat{L}^*$ (the statement has no condition on $\eta$)",
    domain=QUADRATIC,
    counterexample={"curvatures": np.ones(4), "share": 5.0, "convexity": 0.0},
    mutants=[{"sign": -1.0}],
)
def lemma_d10_as_stated(curvatures: Array, share: float, convexity: float, sign: float = 1.0) -> Sides:
    """It is of no use: under the rule of the theorem the left side is negative, and it needs the opposite sign.

    n = 4 losses x²/2, η = 10: 1640 d σ² > 400 d σ².
    """
    eta = 2 * share / curvatures.max()
    return 1 - sign * noise_error(curvatures, eta, convexity), 1 + eta**2 * curvatures.size * curvatures.max()


@PAPER.inequality(
    "Lemma D.10",
    part="(as used)",
    evidence="proved",
    proof="docs/shuffled-gradients.md#the-convergence-theorem",
    printed=r"then the error caused by noise injection in epoch k is $E [\frac{1}{n} \sum_{i=1}^n \langle \rho_i^{(k)}, x_1^{(k+1)} - z \rangle] \le (\sigma^{(k)})^2 n d \eta^2 \hat{L}^{(k)*}$",
    reading=r"as it is used, for $-\rho_i^{(k)}$",
    corrected=r"$|E [\frac{1}{n} \sum_i \langle \rho_i, x_1^{(k+1)} - z \rangle]| \le \eta d \sigma^2$ for $\eta \le 2/\hat{L}^*$",
    domain=QUADRATIC,
    as_printed={"printed": True},
    counterexample={"curvatures": np.ones(4), "share": 0.025, "convexity": 0.0},
    sharp="constant",
    mutants=[{"constant": 0.9}],
)
def lemma_d10_as_used(
    curvatures: Array, share: float, convexity: float, constant: float = 1.0, printed: bool = False
) -> Sides:
    """n = 4 losses x²/2, η = 0.05, ψ = 0: 0.046373 > 0.01.  Steps and proximal maps never expand: Stein gives η d σ²."""
    eta = 2 * share / curvatures.max()
    bound = eta**2 * curvatures.size * curvatures.max() if printed else float(constant) * eta
    return abs(noise_error(curvatures, eta, convexity)), bound


@PAPER.identity(
    "Lemma D.11",
    printed=r"consider the injected noise $\rho_i^{(k)} \sim \mathcal{N}(0, (\sigma^{(k)})^2 \mathbb{I}_d)$, $\forall i \in [n]$, the variance caused by noise injection in epoch k is, $\forall i \in [n]$, $E [\| \sum_{j=1}^i \rho_j^{(k)} \|^2] \le id(\sigma^{(k)})^2$",
    domain={"steps": integers(1, 6), "dimension": integers(1, 3), "sigma": log_scale(0.1, 10)},
    mutants=[{"power": 1.01}],
)
def lemma_d11(steps: int, dimension: int, sigma: float, power: float = 1.0) -> Sides:
    """An equality: by two-point noise ± σ, enumerated, which has the same second moments."""
    signs = np.array(np.meshgrid(*[[-1, 1]] * steps)).reshape(steps, -1)
    return dimension * sigma**2 * float((signs.sum(axis=0) ** 2).mean()), steps**power * dimension * sigma**2


def expected_epoch(epoch: Epoch, sigma: float, beta: float, noise_term: float) -> Sides:
    """Both sides of Lemma D.12: expectations over Gaussian noise of standard deviation ``sigma``."""
    still = np.zeros(epoch.n)
    _, end = epoch.path(still)
    a, _ = epoch.steps
    later = np.concatenate([np.cumprod((1 - epoch.rate * a)[:0:-1])[::-1], [1.0]])
    shrink = 1 / (1 + epoch.rate * epoch.n * epoch.convexity)
    variance = float((epoch.rate * sigma * shrink * later) @ (epoch.rate * sigma * shrink * later))
    z, n, eta = epoch.point, epoch.n, epoch.rate
    gap = (z - end) ** 2 + variance
    whole = epoch.dissimilarities(z)[-1] if epoch.private < n else 0.0
    bending = abs(float((epoch.curvatures - a)[epoch.private :].sum())) / n
    right = ((z - epoch.start) ** 2 - gap) / (2 * n * eta) + ((bending + beta) - epoch.convexity) / 2 * gap
    right += epoch.bregman() + epoch.uncertainty() + whole**2 / (2 * n**2 * beta) + epoch.vanishing() + noise_term
    left = epoch.objective(end) + (epoch.curvatures.mean() + epoch.convexity) / 2 * variance - epoch.objective(z)
    scale = 1 + abs(left) + abs(right)
    return scale + left, scale + right


UNIT_EPOCH = Epoch(
    np.ones(4), np.zeros(4), np.ones(4), np.zeros(4), 4, 0.0, 0.04 * math.sqrt(10), np.zeros(4), 0.0, 0.0
)


@PAPER.inequality(
    "Lemma D.12",
    printed=r"if $\eta \le \frac{1}{n\sqrt{10\hat{L}^{(k)}\hat{L}^{(k)*}}}$ and z is independent of $\rho_i^{(k)}$, $\forall i \in [n]$, Algorithm 1 guarantees $E [G(x_1^{(k+1)})] - E [G(z)] \le \frac{1}{2n\eta} (E [\|z - x_1^{(k)}\|^2] - E [\|z - x_1^{(k+1)}\|^2]) + (\frac{L_H^{(k)} + \beta}{2} - \frac{\mu_\psi}{2}) E [\|z - x_1^{(k+1)}\|^2] + 10\eta^2 n^2 \hat{L}^{(k)} L E [B_F(z, x^*)] + 5\eta^2 n^2 \hat{L}^{(k)} \sigma_{any}^2 … + \frac{1}{2n^2\beta} (C_n^{(k)})^2 … + 5\eta^2 \hat{L}^{(k)*} \frac{1}{n} \sum_{i=n_d^{(k)}+1}^{n-1} (C_i^{(k)})^2 … + 6\eta^2 nd(\sigma^{(k)})^2 \hat{L}^{(k)*}$",
    corrected=r"with $(\eta + 5 \eta^2 n \hat{L}) d \sigma^2$",
    domain={**EPOCH, "sigma": log_scale(0.1, 10), "beta": log_scale(1e-3, 10)},
    as_printed={"printed": True},
    counterexample={"epoch": UNIT_EPOCH, "sigma": 1.0, "beta": 1e-3},
    mutants=[{"factor": 0.45}],
)
def lemma_d12(epoch: Epoch, sigma: float, beta: float, factor: float = 1.0, printed: bool = False) -> Sides:
    """n = 4, f = x²/2, ψ = 0, z = x_1 = 0, η = 0.01, σ = 1: 1.94e-4 on the left, −2.45e-3 on the right."""
    _, mean, largest = epoch.smoothness
    noise, _ = ConvergenceConstants(
        samples=epoch.n,
        epochs=1,
        dimension=1,
        learning_rate=epoch.rate,
        distance=0.0,
        deviation=0.0,
        noise=sigma,
        smoothness=mean,
        largest_smoothness=largest,
    ).epoch_terms(printed=printed)
    return expected_epoch(epoch, sigma, beta, factor * float(noise))


@PAPER.inequality(
    "Lemma D.10",
    part="(Jacobian, Eq. 56)",
    printed=r"if $\eta \le \frac{1}{\hat{L}^{(k)*}}$, $\forall i \in [n]$, $\|\frac{x_{n+1}^{(k)}}{\partial \rho_i^{(k)}}\|_{op} \le n \eta^2 \hat{L}^{(k)*}$",
    reading=r"a derivative of $x_{n+1}^{(k)}$; the product that it bounds is $\eta \prod_{j>i} \|I - \eta H_j\|$",
    corrected=r"at most $\eta$",
    domain=QUADRATIC,
    as_printed={"printed": True},
    counterexample={"curvatures": np.ones(4), "share": 0.025, "convexity": 0.0},
    sharp="factor",
    mutants=[{"factor": 0.9}],
)
def jacobian(curvatures: Array, share: float, convexity: float, printed: bool = False, factor: float = 1.0) -> Sides:
    """The term −η I is dropped in print.  At i = n the norm is η (ψ = 0), above n η² L* whenever n η L* < 1.

    n = 4 losses x²/2, η = 0.05: 0.05 > 0.01.
    """
    eta = 2 * share / curvatures.max()
    largest = eta * float(np.maximum.accumulate(np.cumprod(np.append(1.0, np.abs(1 - eta * curvatures[:0:-1])))).max())
    bound = eta**2 * curvatures.size * curvatures.max() if printed else float(factor) * eta
    return largest / (1 + eta * curvatures.size * convexity), bound


@PAPER.inequality(
    "Lemma D.12",
    part="(drift)",
    printed=r"Algorithm 1 guarantees … $6\eta^2 n d (\sigma^{(k)})^2 \hat{L}^{(k)*}$",
    reading=r"the sums of the noise in an epoch add at most $5 \eta^2 n \hat{L} d \sigma^2$ of it",
    domain={"curvatures": vector(log_scale(1e-3, 1), 6), "share": log_scale(1e-3, 1)},
    sharp="factor",
    mutants=[{"factor": 0.4}],
)
def lemma_d12_drift(curvatures: Array, share: float, factor: float = 1.0) -> Sides:
    """5 η² (1/n) Σ L_i (i − 1) d σ², by Lemma D.11, against what the bound has beside η d σ²."""
    n = curvatures.size
    eta = share / (curvatures.size * math.sqrt(10 * curvatures.mean() * curvatures.max()))
    constants = ConvergenceConstants(
        samples=n,
        epochs=1,
        dimension=1,
        learning_rate=eta,
        distance=0.0,
        deviation=0.0,
        noise=1.0,
        smoothness=curvatures.mean(),
        largest_smoothness=curvatures.max(),
    )
    noise, _ = constants.epoch_terms()
    return 5 * eta**2 * float((curvatures * np.arange(n)).mean()), float(factor) * (float(noise) - eta)
