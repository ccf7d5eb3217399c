"""Appendix D: steps of the proofs that have numbers."""

import math

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.machinery.margins import sums
from corrnoise.paper_checks.shuffled_gradients.paper import PAPER
from corrnoise.theory.numerics.checks import Array

PROOFS = "docs/shuffled-gradients-proofs.md#short-proofs"

# -- Lemma D.6 ---------------------------------------------------------------------------------------------------------

SUMS = {"epochs": integers(2, 60), "growth": log_scale(1e-3, 10)}


def double_sum(epochs: int, growth: float, weights: Array) -> float:
    """Σ_{l=2}^k weight_l Σ_{i=0}^{l−2} g^i, with a weight for each l from 2."""
    return float((weights * np.cumsum(growth ** np.arange(epochs - 1))).sum())


def inner_sums(epochs: int) -> Array:
    """Σ_{l=2+i}^k (1/(k − l + 2) + 1/(l − 1)) for i = 0, …, k − 2."""
    l = np.arange(2, epochs + 1)
    return np.cumsum((1 / (epochs - l + 2) + 1 / (l - 1))[::-1])[::-1]


@PAPER.identity(
    "Equation (17)",
    printed=r"$c \sum_{l=2}^k \sum_{i=0}^{l-2} \frac{(2c(1 + \log k))^i}{(k-l+2)(l-1)} = c \sum_{i=0}^{k-2} (2c(1 + \log k))^i (\sum_{l=2+i}^k \frac{1}{(k-l+2)(l-1)}) \quad (16)$ $= \frac{c}{k+1} \sum_{i=0}^{k-2} (2c(1 + \log k))^i (\sum_{l=2+i}^k \frac{1}{k-l+2} + \frac{1}{l-1}) \quad (17)$",
    domain=SUMS,
    mutants=[{"shift": 0}],
)
def equation_17(epochs: int, growth: float, shift: int = 1) -> Sides:
    """The two sums change places, and partial fractions; both sides are divided by c."""
    l = np.arange(2, epochs + 1)
    right = float((growth ** np.arange(epochs - 1) * inner_sums(epochs)).sum()) / (epochs + shift)
    return double_sum(epochs, growth, 1 / ((epochs - l + 2.0) * (l - 1))), right


@PAPER.inequality(
    "Equation (19)",
    proof=PROOFS,
    printed=r"$= \frac{c}{k+1} \sum_{i=0}^{k-2} (2c(1 + \log k))^i (\sum_{l=2+i}^k \frac{1}{k-l+2} + \frac{1}{l-1}) \quad (17)$ $\leq \frac{c}{k+1} \sum_{i=0}^{k-2} (2c(1 + \log k))^i \sum_{l=1}^k \frac{2}{l} \quad (18)$ $\leq \frac{\sum_{i=0}^{k-2} (2c(1 + \log k))^{i+1}}{k+1} \quad (19)$",
    domain={"epochs": integers(2, 10**4, log=True), "growth": log_scale(1e-3, 1)},
    sharp="factor",
    mutants=[{"factor": 0.9}],
)
def equation_19(epochs: int, growth: float, factor: float = 1.0) -> Sides:
    r"""From (17) to (18) and from (18) to (19), each divided by c/(k + 1); $\sum_{l \le k} 1/l \le 1 + \log k$.

    The second step is sharp as k grows, as 0.577/log k.
    """
    powers = growth ** np.arange(epochs - 1)
    middle = float(powers.sum() * (2 / np.arange(1, epochs + 1)).sum())
    last = float(powers.sum()) * 2 * (1 + math.log(epochs))
    return np.array([float((powers * inner_sums(epochs)).sum()), middle]), factor * np.array([middle, last])


@PAPER.inequality(
    "Equation (24)",
    proof=PROOFS,
    printed=r"$c \sum_{l=2}^k \sum_{i=0}^{l-2} \frac{(2c(1 + \log k))^i}{k-l+2} = c \sum_{i=0}^{k-2} (2c(1 + \log k))^i \sum_{l=2+i}^k \frac{1}{k-l+2} \leq c \sum_{i=0}^{k-2} (2c(1 + \log k))^i \sum_{l=1}^k \frac{1}{l} \quad (22)$ $\leq c(1 + \log k) \sum_{i=0}^{k-2} (2c(1 + \log k))^i \leq \sum_{i=0}^{k-2} (2c(1 + \log k))^{i+1} \quad (23)$",
    domain={"epochs": integers(2, 10**4, log=True), "growth": log_scale(1e-3, 1)},
    sharp="factor",
    mutants=[{"factor": 0.4}],
)
def equation_24(epochs: int, growth: float, factor: float = 1.0) -> Sides:
    """With c = g/(2 (1 + log k)); the last step of (23) has a factor 2 to spare."""
    l = np.arange(2, epochs + 1)
    left = growth / (2 * (1 + math.log(epochs))) * double_sum(epochs, growth, 1 / (epochs - l + 2.0))
    return left, factor * float((growth ** np.arange(1, epochs)).sum())


# -- Lemmas D.7 and D.8 ------------------------------------------------------------------------------------------------


@PAPER.inequality(
    "Equation (27)",
    proof=PROOFS,
    printed=r"$\langle g^{(k)}, x_1^{(k+1)} - z \rangle … = n (\psi(z) - \psi(x_1^{(k+1)})) + \frac{\|z - x_1^{(k)}\|^2}{2\eta} - (\frac{1}{2\eta} + \frac{n\mu_\psi}{2}) \|z - x_1^{(k+1)}\|^2 - \frac{1}{2\eta} \|x_1^{(k+1)} - x_1^{(k)}\|^2 \quad (27)$",
    domain={
        "start": linear(-2, 2),
        "gradient": linear(-5, 5),
        "rate": log_scale(0.1, 1),
        "size": linear(0, 2),
        "convexity": linear(0, 2),
        "z": linear(-3, 3),
    },
    outside=r"$\psi$ is convex, so λ and μ are at least 0; the proof has no other limits.",
    mutants=[{"factor": 1.01}, {"lost": 1.0}],
)
def equation_27(
    start: float,
    gradient: float,
    rate: float,
    size: float,
    convexity: float,
    z: float,
    factor: float = 1.0,
    lost: float = 0.0,
) -> Sides:
    r"""For n = 1 and $\psi(x) = \lambda |x| + \frac{\mu}{2} x^2$.  An equality where z has the sign of $x_1^{(k+1)}$; ``factor`` multiplies μ."""
    moved = start - rate * gradient
    end = math.copysign(max(abs(moved) - rate * size, 0.0), moved) / (1 + rate * convexity)

    def psi(x: float) -> float:
        return size * abs(x) + convexity / 2 * x * x

    right = [psi(z) - psi(end), -(1 / rate + factor * convexity) / 2 * (z - end) ** 2]
    right += [(1 - lost) * (z - start) ** 2 / (2 * rate), -((end - start) ** 2) / (2 * rate)]
    return sums([gradient * (end - z)], right)


@PAPER.identity(
    "Equation (32)",
    printed=r"$\langle g^{(k)}, x_1^{(k+1)} - z \rangle = nF^{(k)}(x_1^{(k+1)}) - nF^{(k)}(z) + \sum_{i=1}^n \langle \rho_i^{(k)}, x_1^{(k+1)} - z \rangle … - \sum_{i=1}^{n_d^{(k)}} (B_{f_{\pi_i^{(k)}}}(x_1^{(k+1)}, x_i^{(k)}) - B_{f_{\pi_i^{(k)}}}(z, x_i^{(k)})) - \sum_{i=n_d^{(k)}+1}^n (B_{f_{i-n_d^{(k)}}^{(k, \text{pub})}}(x_1^{(k+1)}, x_i^{(k)}) - B_{f_{i-n_d^{(k)}}^{(k, \text{pub})}}(z, x_i^{(k)}))$",
    reading="for the sum of any functions, private or public, at any points",
    domain={
        "slopes": vector(linear(-2, 2), 4),
        "iterates": vector(linear(-2, 2), 4),
        "noise": vector(linear(-1, 1), 4),
        "end": linear(-2, 2),
        "z": linear(-2, 2),
    },
    mutants=[{"sign": 0.99}],
)
def equation_32(slopes: Array, iterates: Array, noise: Array, end: float, z: float, sign: float = 1.0) -> Sides:
    """For the four functions log(1 + exp(s x)); equations (28) to (31) are its parts."""

    def value(x: Array | float) -> Array:
        return np.log1p(np.exp(slopes * x))

    gradients = slopes / (1 + np.exp(-slopes * iterates))

    def bregman(x: float) -> Array:
        return value(x) - value(iterates) - gradients * (x - iterates)

    right = [value(end), -value(z), noise * (end - z), -sign * bregman(end), sign * bregman(z)]
    return sums((gradients + noise) * (end - z), right)


@PAPER.inequality(
    "Equation (34)",
    proof=PROOFS,
    printed=r"$\leq \eta^2 \sum_{i=2}^{n_d^{(k)}} L_{\pi_i^{(k)}} (4 \| \sum_{j=1}^{i-1} (\nabla f_{\pi_j^{(k)}}(x_j^{(k)}) - \nabla f_{\pi_j^{(k)}}(z)) \|^2 … + 4 \| \sum_{j=1}^{i-1} (\nabla f_{\pi_j^{(k)}}(z) - \nabla f_{\pi_j^{(k)}}(x^*)) \|^2 + 4 \| \sum_{j=1}^{i-1} \nabla f_{\pi_j^{(k)}}(x^*) \|^2 + 4 \| \sum_{j=1}^{i-1} \rho_j^{(k)} \|^2)$",
    reading="for each i: the square of a sum of four terms, or of five in (38), against the sum of their squares",
    domain={"count": integers(4, 5), "parts": vector(linear(-1, 1), 5)},
    sharp="factor",
    mutants=[{"factor": 0.99}],
)
def equation_34(count: int, parts: Array, factor: float = 1.0) -> Sides:
    """Attained where all terms are equal."""
    terms = parts[:count]
    return float(terms.sum()) ** 2, factor * count * float((terms**2).sum())


@PAPER.inequality(
    "Equation (35)",
    proof=PROOFS,
    printed=r"$\sum_{i=2}^{n_d^{(k)}} L_{\pi_i^{(k)}} \| \sum_{j=1}^{i-1} (\nabla f_{\pi_j^{(k)}}(x_j^{(k)}) - \nabla f_{\pi_j^{(k)}}(z)) \|^2 … \leq n (\sum_{i=1}^{n_d^{(k)}} L_{\pi_i^{(k)}}) \sum_{j=1}^{n_d^{(k)}} \| \nabla f_{\pi_j^{(k)}}(x_j^{(k)}) - \nabla f_{\pi_j^{(k)}}(z) \|^2$",
    reading="for any vectors in the place of the differences of gradients",
    domain={"weights": vector(log_scale(1e-6, 1), 32), "differences": vector(linear(-1, 1), 32)},
    sharp="factor",
    mutants=[{"factor": 0.5}],
    evaluations=2048,
)
def equation_35(weights: Array, differences: Array, factor: float = 1.0) -> Sides:
    """The ratio of the sides is at most (n − 1)/n, with all smoothness in the last loss."""
    before = np.cumsum(differences)[:-1]
    right = differences.size * float(weights.sum()) * float((differences**2).sum())
    return (float((weights[1:] * before**2).sum()), factor * right) if right > 0 else (math.nan, math.nan)


@PAPER.inequality(
    "Equation (36)",
    proof=PROOFS,
    rests_on=("Lemma D.4",),
    printed=r"$\sum_{i=2}^{n_d^{(k)}} L_{\pi_i^{(k)}} \| \sum_{j=1}^{i-1} (\nabla f_{\pi_j^{(k)}}(z) - \nabla f_{\pi_j^{(k)}}(x^*)) \|^2 … = 2n^2 L B_F(z, x^*) \cdot \sum_{i=1}^{n_d^{(k)}} L_{\pi_i^{(k)}}$",
    domain={"curvatures": vector(log_scale(1e-6, 1), 4), "share": vector(linear(0, 1), 4), "z": linear(-2, 2)},
    sharp="factor",
    mutants=[{"factor": 0.3}],
)
def equation_36(curvatures: Array, share: Array, z: float, factor: float = 1.0) -> Sides:
    """For quadratic losses with curvatures that are shares of their smoothness, x* = 0; for n = 4 the search needs 0.3135.

    The step for one i, before the sum is made longer, is Lemma D.4 with weights.
    """
    a = curvatures * share
    if not share.any() or abs(z) < 1e-3:
        return math.nan, math.nan
    squares = np.cumsum(a)[:-1] ** 2 * z * z
    whole = curvatures.sum() ** 2 * a.sum() * z * z
    return float((curvatures[1:] * squares).sum()), factor * float(whole)


# -- Lemma D.10 --------------------------------------------------------------------------------------------------------

MATRICES = {"entries": vector(linear(-1, 1), 9), "rate": log_scale(1e-2, 1), "regulariser": vector(linear(-1, 1), 3)}


def hessians(entries: Array) -> list[Array]:
    """Three positive semidefinite matrices of size 2, which do not commute."""
    roots = [np.array([[a, b], [b, c]]) for a, b, c in entries.reshape(3, 3)]
    return [root @ root for root in roots]


def jacobians(matrices: list[Array], rate: float) -> list[Array]:
    """∂x_j/∂ρ_1 of x_{j+1} = x_j − η (H_j x_j + ρ_j) for j = 2, 3, 4, by differences of runs, which are exact."""
    found = []
    for j in (2, 3, 4):
        columns = []
        for unit in np.eye(2):
            x = np.zeros(2)
            for step in range(1, j):
                x = x - rate * (matrices[step - 1] @ x + (unit if step == 1 else 0))
            columns.append(x)
        found.append(np.array(columns).T)
    return found


@PAPER.identity(
    "Equation (50)",
    printed=r"$\frac{\partial x_1^{(k+1)}}{\partial \rho_i^{(k)}} = (\eta n \nabla^2 \psi(x_1^{(k+1)}) + I_d)^{-1} \frac{\partial x_{n+1}^{(k)}}{\partial \rho_i^{(k)}} \quad (50)$",
    domain=MATRICES,
    independent="the derivatives before the proximal step are shared; the step is solved for in two ways",
    mutants=[{"records": 4}],
)
def equation_50(entries: Array, rate: float, regulariser: Array, records: int = 3) -> Sides:
    r"""For a quadratic ψ and three losses, two of whose steps follow the noise; the left side minimises $n \psi$ plus the distance.

    The minimiser is found by the eigenvectors of the Hessian of ψ.
    """
    a, b, c = regulariser
    root = np.array([[a, b], [b, c]])
    hessian = root @ root
    last = jacobians(hessians(entries), rate)[-1]
    values, vectors = np.linalg.eigh(hessian)
    left = vectors @ (vectors.T @ last / (1 + 3 * rate * values)[:, None])
    return left, np.linalg.solve(rate * records * hessian + np.eye(2), last)


@PAPER.identity(
    "Equation (52)",
    printed=r"$\frac{\partial x_{n+1}^{(k)}}{\partial \rho_i^{(k)}} = -\eta I_d - \eta \sum_{j=i+1}^n \frac{\partial \nabla f_{j-n_d^{(k)}}^{(k, \text{pub})}(x_j^{(k)})}{\partial \rho_i^{(k)}} = -\eta I_d - \eta \sum_{j=i+1}^n \nabla^2 f_{j-n_d^{(k)}}^{(k, \text{pub})}(x_j^{(k)}) \frac{\partial x_j^{(k)}}{\partial \rho_i^{(k)}} \quad (52)$",
    domain={name: MATRICES[name] for name in ("entries", "rate")},
    independent="the derivatives are differences of runs; the right side adds up those of earlier iterates",
    mutants=[{"first": 0.999}],
)
def equation_52(entries: Array, rate: float, first: float = 1.0) -> Sides:
    """For i = 1, n = 3 and quadratic losses; (51) is the same with private steps before the public ones."""
    matrices = hessians(entries)
    second, third, last = jacobians(matrices, rate)
    return last, -rate * (first * np.eye(2) + matrices[1] @ second + matrices[2] @ third)


@PAPER.identity(
    "Equation (55)",
    repair_evidence="computed",
    proof=PROOFS,
    printed=r"$\frac{\partial x_{j+1}^{(k)}}{\partial \rho_i^{(k)}} = -\eta \cdot (\prod_{l=i+1}^{n_d^{(k)}} (I_d - \eta \nabla^2 f_{\pi_l^{(k)}}(x_l^{(k)}))) \cdot (\prod_{l=n_d^{(k)}+1}^j (I_d - \eta \nabla^2 f_{l-n_d^{(k)}}^{(k, pub)}(x_l^{(k)}))) \quad (55)$",
    repair="with the factors in the reverse order: that of the last step is the first",
    domain={name: MATRICES[name] for name in ("entries", "rate")},
    as_printed={"reverse": False},
    independent="the left side is a difference of runs, the right side a product of matrices",
    evidence="counterexample",
    counterexample={"entries": np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.5, 0.5]), "rate": 1.0},
    mutants=[{"reverse": False}, {"scale": 0.999}],
)
def equation_55(entries: Array, rate: float, reverse: bool = True, scale: float = 1.0) -> Sides:
    """One private step and one public one after the noise.  The norm, which alone is used, does not depend on the order."""
    matrices = hessians(entries)
    private, public = (np.eye(2) - rate * matrix for matrix in matrices[1:])
    product = public @ private if reverse else private @ public
    return jacobians(matrices, rate)[-1], -rate * scale * product


# -- Lemma D.13 --------------------------------------------------------------------------------------------------------


def weights(epochs: int) -> Array:
    """v_0, …, v_s: 1/s, and 1/(s + 1 − k)."""
    return np.append(1 / epochs, 1 / (epochs + 1.0 - np.arange(1, epochs + 1)))


def auxiliary(points: Array, best: float) -> Array:
    """z^{(1)}, …, z^{(s)} by the recursion (63)."""
    v = weights(points.size)
    found = [best]
    for k, point in enumerate(points, start=1):
        found.append((1 - v[k - 1] / v[k]) * point + v[k - 1] / v[k] * found[-1])
    return np.array(found[1:])


@PAPER.identity(
    "Equation (64)",
    printed=r"$z^{(k)} = \frac{v_0}{v_k} x^* + \sum_{l=1}^k \frac{v_l - v_{l-1}}{v_k} x_1^{(l)}, \forall k \in [0] \cup [s] \quad (64)$",
    domain={"points": vector(linear(-1, 1), 6), "best": linear(-1, 1)},
    independent="one side is the recursion, the other one its solution, with the weights that the paper defines",
    mutants=[{"share": 0.999}],
)
def equation_64(points: Array, best: float, share: float = 1.0) -> Sides:
    """It solves the recursion (63)."""
    v = weights(points.size)
    closed = (share * v[0] * best + np.cumsum(np.diff(v) * points)) / v[1:]
    return auxiliary(points, best), closed


@PAPER.inequality(
    "Equation (70)",
    proof=PROOFS,
    printed=r"$\sum_{k=1}^s v_k (E [G(x_1^{(k+1)})] - E [G(z^{(k)})]) \geq E [G(x_1^{(s+1)})] - G(x^*) \quad (70)$",
    domain={"points": vector(linear(-1, 1), 7), "curvature": linear(0, 1), "best": linear(-1, 1)},
    mutants=[{"shift": 1}],
)
def equation_70(points: Array, curvature: float, best: float, shift: int = 0) -> Sides:
    r"""For $G(x) = x + \frac{h}{2} x^2$ and any points; an equality for h = 0, where no point need be a minimiser."""

    def value(x: Array | float) -> Array:
        return np.asarray(x + curvature / 2 * np.square(x))

    z = auxiliary(points[:-1], best)
    gains = np.roll(weights(z.size)[1:], shift) * (value(points[1:]) - value(z))
    return sums([value(points[-1]) - value(best)], gains)


@PAPER.identity(
    "Equation (71)",
    printed=r"$= 10\eta^2 n^2 L \max_{k \in [s]} \hat{L}^{(k)} \sum_{l=1}^s (s+1-l) (v_l - v_{l-1}) E [B_F(x_1^{(l)}, x^*)] … = 10\eta^2 n^2 L \max_{k \in [s]} \hat{L}^{(k)} \sum_{l=2}^s v_{l-1} E [B_F(x_1^{(l)}, x^*)] \quad (71)$",
    domain={"divergences": vector(linear(0, 1), 8)},
    independent="the sides use different combinations of the weights that the paper defines",
    mutants=[{"first": 0}],
)
def equation_71(divergences: Array, first: int = 1) -> Sides:
    """Both sides divided by the common factor."""
    s = divergences.size
    v = weights(s)
    left = (np.arange(s, 0, -1) * np.diff(v) * divergences).sum()
    return float(left), float((v[first:-1] * divergences[first:]).sum())
