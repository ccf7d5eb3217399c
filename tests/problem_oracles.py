"""Slow and plain oracles for quadratic problems, written without the project's numerical code.

* Stationary errors and their minimum to 40 digits: formulas E1 and E3 in mpmath, with means over the circle by
  composite Gauss–Legendre quadrature, and sums in the time domain for finitely many coefficients.
* Moments in finite time: the recursion of the full second-moment matrix of (θ, past noise), in any basis and with its
  off-diagonal entries, and the enumeration of all sequences of discrete inputs.

Only the defining numbers of a problem and of its noise are read: eigenvalues, learning rate, residual standard
deviation and kurtosis; gaps and exponents, or coefficients.  Also here: what random tests draw, and printed tables.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mp, mpf, workdps
from mpmath.calculus.quadrature import GaussLegendre
from scipy.linalg import toeplitz

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression, QuadraticProblem

DIGITS = 45


@workdps(DIGITS)
def agrees(value: float, exact: Any, margin: float = 1.0) -> bool:
    """Equal up to the accuracy that is stated, 1e-13 over the distance to instability."""
    return bool(abs(mpf(float(value)) / exact - 1) <= 1e-13 / margin)


# -- stationary errors, 40 digits --------------------------------------------------------------------------------------


def _circle(features: list[Any]) -> list[tuple[Any, Any, Any]]:
    """Nodes cos²(ω/2), sin²(ω/2) and weights of (1/2π) ∫ dω, for even integrands with these gaps and rates.

    48 Gauss–Legendre nodes on each panel [4^{−k−1}, 4^{−k}] π/2 towards 0 and π, down to the narrowest feature: seen
    from a panel every singularity is outside the ellipse with ρ = 3, and 3^{−96} < 1e-45.
    """
    rule = GaussLegendre(mp).get_nodes(-1, 1, 5, mp.prec)
    nodes = []
    for distances in (features, [2 - f for f in features]):
        ends = [mp.pi / 2]
        while ends[-1] > min(distances, default=1):
            ends.append(ends[-1] / 4)
        for high, low in itertools.pairwise([*ends, mpf(0)]):
            for node, weight in rule:
                square = mp.sin((high + low) / 4 + (high - low) / 4 * node) ** 2
                pair = (1 - square, square) if distances is features else (square, 1 - square)
                nodes.append((*pair, (high - low) / 2 * weight / mp.pi))
    return nodes


def _modulus2(gap: Any, c2: Any, s2: Any) -> Any:
    return gap**2 * c2 + (2 - gap) ** 2 * s2


def _power(noise: ProductNoise, c2: Any, s2: Any) -> Any:
    factors = zip(noise.gaps, noise.exponents, strict=True)
    return mp.fprod(_modulus2(mpf(float(a)), c2, s2) ** mpf(float(e)) for a, e in factors)


def _coefficients(noise: FiniteNoise) -> list[Any]:
    return [mpf(float(v)) for v in np.trim_zeros(noise.coefficients(64), "b")]


@workdps(DIGITS)
def averaged_variances(noise: FiniteNoise | ProductNoise, rates: list[Any]) -> list[Any]:
    """b(x) at each rate x."""
    if isinstance(noise, FiniteNoise):
        beta = list(enumerate(_coefficients(noise)))
        return [mp.fsum(v * w * (1 - x) ** abs(t - u) for t, v in beta for u, w in beta) for x in rates]
    nodes = _circle([*rates, *(mpf(float(a)) for a in noise.gaps)])
    seen = [(c2, s2, w * _power(noise, c2, s2)) for c2, s2, w in nodes]
    return [x * (2 - x) * mp.fsum(w / _modulus2(x, c2, s2) for c2, s2, w in seen) for x in rates]


@workdps(DIGITS)
def squared_sensitivity(noise: FiniteNoise | ProductNoise) -> Any:
    """γ_∞² of minimum-phase noise."""
    if not isinstance(noise, FiniteNoise):
        nodes = _circle([mpf(float(a)) for a in noise.gaps])
        return mp.fsum(w / _power(noise, c2, s2) for c2, s2, w in nodes)
    beta = _coefficients(noise)
    series = [1 / beta[0]]
    while max(abs(c) for c in series[-len(beta) :]) > mpf(10) ** -(DIGITS // 2 + 3) * abs(series[0]):
        reach = range(1, min(len(beta), len(series) + 1))
        series.append(-mp.fsum(beta[k] * series[-k] for k in reach) / beta[0])
    return mp.fsum(c * c for c in series)


def _ingredients(problem: QuadraticProblem) -> tuple[Any, ...]:
    """η, the residual variance s²/m of a mean over a batch, the λ_j, x_j, gains g_j, and A."""
    m = mpf(problem.batch_size)
    eta, s2 = mpf(float(problem.learning_rate)), mpf(float(problem.residual_std)) ** 2 / m
    eigenvalues = [mpf(float(v)) for v in problem.eigenvalues]
    kurtosis = [mpf(float(k)) for k in np.broadcast_to(problem.kurtosis, len(eigenvalues))]
    rates = [eta * v for v in eigenvalues]
    gains = [1 / (1 - (1 + (k - 2) / m) * x / 2) for k, x in zip(kurtosis, rates, strict=True)]
    return eta, s2, eigenvalues, rates, gains, mp.fdot(rates, gains) / (2 * m)


@workdps(DIGITS)
def stability_margin(problem: QuadraticProblem) -> Any:
    """1 − A."""
    return 1 - _ingredients(problem)[-1]


@workdps(DIGITS)
def contributions(problem: QuadraticProblem, noise: Any, rho: float = 1.0, clip_norm: float = 1.0) -> list[Any]:
    """Formula E1, one eigendirection each: (η/4) ((q + s²) λ_j/m + σ² b_j/m²) g_j."""
    eta, s2, eigenvalues, rates, gains, a = _ingredients(problem)
    m = mpf(problem.batch_size)
    variance = mpf(clip_norm) ** 2 / (2 * mpf(rho) * m**2) * squared_sensitivity(noise)
    directions = list(zip(eigenvalues, averaged_variances(noise, rates), gains, strict=True))
    q = eta / 2 * mp.fsum((s2 * v + variance * b) * g for v, b, g in directions) / (1 - a)
    return [eta / 4 * ((q / m + s2) * v + variance * b) * g for v, b, g in directions]


@workdps(DIGITS)
def stationary_error(problem: QuadraticProblem, noise: Any, rho: float = 1.0, clip_norm: float = 1.0) -> Any:
    """Formula E1."""
    return mp.fsum(contributions(problem, noise, rho, clip_norm))


@workdps(DIGITS)
def root_mean(rates: list[Any], weights: list[Any]) -> Any:
    """(1/2π) ∫ sqrt(Σ_j weights_j/|1 − x_j − e^{iω}|²) dω."""
    pairs = list(zip(rates, weights, strict=True))
    nodes = _circle(list(rates))
    return mp.fsum(w * mp.sqrt(mp.fsum(v / _modulus2(x, c2, s2) for x, v in pairs)) for c2, s2, w in nodes)


@workdps(DIGITS)
def optimal_error(problem: QuadraticProblem, rho: float = 1.0, clip_norm: float = 1.0) -> Any:
    """Formula E3."""
    eta, s2, eigenvalues, rates, gains, a = _ingredients(problem)
    j = root_mean(rates, [v * (2 - x) * g for v, x, g in zip(eigenvalues, rates, gains, strict=True)])
    privacy = (eta * mpf(clip_norm) * j / problem.batch_size) ** 2 / (4 * mpf(rho))
    return (eta / 2 * s2 * mp.fdot(eigenvalues, gains) + privacy) / (2 * (1 - a))


@workdps(DIGITS)
def weighted_power(problem: QuadraticProblem, noise: ProductNoise) -> Any:
    """(1/2π) ∫ |B|² h dω with h = Σ_j λ_j/|1 − x_j − e^{iω}|²."""
    _, _, eigenvalues, rates, _, _ = _ingredients(problem)
    nodes = _circle([*rates, *(mpf(float(a)) for a in noise.gaps)])
    pairs = list(zip(eigenvalues, rates, strict=True))
    return mp.fsum(
        w * _power(noise, c2, s2) * mp.fsum(v / _modulus2(x, c2, s2) for v, x in pairs) for c2, s2, w in nodes
    )


@workdps(DIGITS)
def learning_curve(problem: QuadraticProblem, beta: Sequence[Any], variance: Any, offset: float) -> list[Any]:
    """Formula E2 with σ² = ``variance``: E F(θ_t) − F* for t = 0, …, as many steps as there are coefficients."""
    eta, s2, eigenvalues, rates, gains, _ = _ingredients(problem)
    kurtosis = [1 + 2 * (1 - 1 / g) / x for g, x in zip(gains, rates, strict=True)]
    moments = [v * mpf(offset) ** 2 for v in eigenvalues]
    averages, seen, errors = [mpf(0)] * len(rates), [mpf(0)] * len(rates), [mp.fsum(moments) / 2]
    for coefficient in beta:
        q = mp.fsum(moments)
        for j, (x, k) in enumerate(zip(rates, kurtosis, strict=True)):
            before = (1 - x) * averages[j]
            seen[j] += coefficient**2 + 2 * coefficient * before
            averages[j] = before + coefficient
            own = ((1 - x) ** 2 + (k - 2) * x**2) * moments[j]
            moments[j] = own + x**2 * (q + s2) + eta * variance * x * seen[j]
        errors.append(mp.fsum(moments) / 2)
    return errors


# -- moments in finite time --------------------------------------------------------------------------------------------

Law = tuple[Array, Array]  # values and probabilities of a standardised coordinate of the inputs

THREE_POINTS: Law = (np.sqrt(3) * np.array([-1, 0, 1]), np.array([1, 4, 1]) / 6)  # Gaussian moments up to the fifth


def two_points(p: float) -> Law:
    """The standardised law with two values, of probabilities p and 1 − p."""
    return np.array([np.sqrt((1 - p) / p), -np.sqrt(p / (1 - p))]), np.array([p, 1 - p])


def kurtosis(law: Law) -> float:
    """The fourth moment."""
    values, probabilities = law
    return float(probabilities @ values**4)


SIGNS = two_points(0.5)
LAWS = {
    "Gaussian moments": [THREE_POINTS] * 2,
    "signs": [SIGNS] * 2,
    "skew": [two_points(0.2), two_points(0.35)],
    "mixed": [THREE_POINTS, SIGNS],
}


@dataclass(frozen=True)
class Run:
    """One run of linear regression; the columns of ``basis`` are the eigenvectors of H, ``offset`` is in this basis."""

    eigenvalues: Array
    learning_rate: float
    residual_std: float
    coefficients: Array
    noise_std: float
    offset: Array
    basis: Array

    @property
    def hessian(self) -> Array:
        return self.basis * self.eigenvalues @ self.basis.T


def white(eigenvalues: Any, learning_rate: float, residual_std: float = 0.0) -> Run:
    """A run with independent noise of variance 1 from the optimum."""
    v = np.asarray(eigenvalues, dtype=float)
    return Run(v, learning_rate, residual_std, np.ones(1), 1.0, np.zeros(v.size), np.eye(v.size))


def inputs(run: Run, laws: Sequence[Law]) -> Iterator[tuple[float, Array]]:
    """All inputs x with their probabilities, for independent coordinates of these laws in the eigenbasis."""
    for choice in itertools.product(*(list(zip(*law, strict=True)) for law in laws)):
        values, probabilities = zip(*choice, strict=True)
        yield float(np.prod(probabilities)), run.basis @ (np.sqrt(run.eigenvalues) * values)


def second_moment_map(run: Run, laws: Sequence[Law]) -> Array:
    """The matrix of M ↦ E (I − η x xᵀ) M (I − η x xᵀ), shape (d², d²)."""
    identity = np.eye(run.eigenvalues.size)
    total = np.zeros((run.eigenvalues.size**2,) * 2)
    for p, x in inputs(run, laws):
        step = identity - run.learning_rate * np.outer(x, x)
        total += p * np.kron(step, step)
    return total


def enumerated_curve(run: Run, laws: Sequence[Law], steps: int, batch_size: int = 1) -> Array:
    """E F(θ_t) − F* by listing all sequences of batches; initial value, residuals and noise enter linearly."""
    d, eta, m = run.eigenvalues.size, run.learning_rate, batch_size
    errors, choices = np.zeros(steps + 1), list(itertools.product(inputs(run, laws), repeat=m))

    def walk(t: int, probability: float, theta: Array) -> None:
        """The columns of ``theta``: the initial value's part of θ − θ*, then each residual's, then each w_s's."""
        errors[t] += probability * np.einsum("ik,ij,jk", theta, run.hessian, theta) / 2
        if t == steps:
            return
        for batch in choices:
            after = theta.copy()
            for i, (_, x) in enumerate(batch):
                after -= eta / m * np.outer(x, x @ theta)
                after[:, 1 + m * t + i] += eta / m * run.residual_std * x
            noise = eta / m * run.noise_std * np.kron(run.coefficients[t::-1], np.eye(d))
            after[:, 1 + m * steps : 1 + m * steps + noise.shape[1]] -= noise
            walk(t + 1, probability * math.prod(p for p, _ in batch), after)

    initial = np.zeros((d, 1 + (m + d) * steps))
    initial[:, 0] = run.basis @ run.offset
    walk(0, 1.0, initial)
    return errors


def full_matrix_curve(run: Run, fourth_moments: Array, steps: int) -> Array:
    """E F(θ_t) − F* from the second-moment matrix of (θ − θ*, w_{t−1}, …, w_{t−m}), for m + 1 coefficients."""
    d, m = run.eigenvalues.size, run.coefficients.size - 1
    eta, hessian, basis, identity = run.learning_rate, run.hessian, run.basis, np.eye(run.eigenvalues.size)
    linear, entry = np.zeros((d * (m + 1), d * (m + 1))), np.zeros((d * (m + 1), d))
    linear[:d, :d] = identity - eta * hessian
    linear[:d, d:] = -eta * run.noise_std * np.kron(run.coefficients[1:], identity)
    linear[d:, d:] = np.kron(np.eye(m, k=-1), identity)
    entry[:d] = -eta * run.noise_std * run.coefficients[0] * identity
    entry[d : 2 * d] = identity[: d if m else 0]

    def fourth(moment: Array) -> Array:
        """E x xᵀ M x xᵀ = 2 H M H + Tr(H M) H, and (k_i − 3) λ_i² M_ii more on the diagonal of the eigenbasis."""
        excess = (fourth_moments - 3) * run.eigenvalues**2 * np.diag(basis.T @ moment @ basis)
        return 2 * hessian @ moment @ hessian + np.trace(hessian @ moment) * hessian + basis * excess @ basis.T

    moment = np.zeros((d * (m + 1), d * (m + 1)))
    moment[:d, :d] = basis @ np.outer(run.offset, run.offset) @ basis.T
    errors = np.empty(steps + 1)
    for t in range(steps + 1):
        theta = moment[:d, :d].copy()
        errors[t] = np.trace(hessian @ theta) / 2
        moment = linear @ moment @ linear.T + entry @ entry.T
        moment[:d, :d] += eta**2 * (fourth(theta) - hessian @ theta @ hessian + run.residual_std**2 * hessian)
    return errors


def sensitivity(coefficients: Array, steps: int) -> float:
    """γ_T, the largest column norm of the inverse of the noise coefficient matrix, written out."""
    column = np.concatenate([coefficients, np.zeros(steps)])[:steps]
    return float(np.linalg.norm(np.linalg.inv(toeplitz(column, np.zeros(steps))), axis=0).max())


# -- random problems and noise -----------------------------------------------------------------------------------------


def stable_edge(eigenvalues: Array, kurtosis: Any) -> float:
    """The learning rate with A = 1, by bisection."""
    k = np.asarray(kurtosis)
    low, high = 0.0, 2 / (k * eigenvalues).max()
    for _ in range(60):
        eta = (low + high) / 2
        a = (eta * eigenvalues / (1 - (k - 1) * eta * eigenvalues / 2)).sum() / 2
        low, high = (eta, high) if a < 1 else (low, eta)
    return low


def random_problem(rng: np.random.Generator) -> LinearRegression:
    """Spectra over ten decades; learning rates close to instability, far from it, or tiny."""
    eigenvalues = 10 ** rng.uniform(-10, 0, rng.choice([1, 2, 4])) * 10 ** rng.uniform(-3, 3)
    k = rng.choice([1, 1 + 1e-9, 1.8, 3, 30], eigenvalues.size)
    fraction = rng.choice([1 - 10 ** rng.uniform(-7, -0.3), 10 ** rng.uniform(-12, 0)])
    return LinearRegression(eigenvalues, stable_edge(eigenvalues, k) * fraction, rng.choice([0, 0.1, 10.0]), kurtosis=k)


def random_noise(rng: np.random.Generator) -> ToeplitzNoise:
    """Every kind of noise, with gaps over nine decades at both ends."""
    gaps = 10 ** rng.uniform(-9, 0, 2)
    gaps = np.where(rng.random(2) < 0.3, 2 - gaps, gaps)
    kinds = [DPSGD(), NuFTRL(gaps[0]), AntiPGD(gaps[0]), ProductNoise(gaps, rng.uniform(-1.2, 1.2, 2))]
    finite = FiniteNoise(np.convolve([1, -rng.uniform(-0.9, 0.9)], [1, -rng.uniform(-0.9, 0.9)]))
    return [*kinds, finite][rng.integers(5)]
